//! Subjects other than events: tasks, approvals, questions and sessions.

use serde::Serialize;

use super::json::StepJson;
use super::query::HearthId;
use super::waits::{self, Daemon};
use crate::cli::listed::{self, Column, Listed, or_empty};
use crate::cli::{Done, Failure, approvals, human_time, labels, lookup, print, questions, sessions, skips, tasks};
use crate::config::Paths;
use crate::model::id::{BodyId, MessageId, SessionId};
use crate::state::{self, Owned, Read, Reader, Tables};

/// Maximum number of open messages shown of a session.
const OPEN_MAX: usize = 20;
/// Newest journal entries shown of a session.
const ENTRIES_MAX: usize = 20;

/// Something other than an event.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Subject {
    Task(Box<tasks::ExplainedTask>),
    Approval(Box<approvals::ShownJson>),
    Question(Box<questions::QuestionJson>),
    Session(Box<SessionJson>),
    Skip(Box<skips::SkipJson>),
}

/// A session and what it does.
#[derive(Debug, Serialize)]
pub(super) struct SessionJson {
    #[serde(flatten)]
    session: sessions::ShownJson,
    words: String,
    /// Messages that have not ended, in order; context messages come last.
    open: Vec<OpenJson>,
    /// Newest journal entries, oldest first.
    timeline: Vec<StepJson>,
}

/// A message of a session that has not ended.
#[derive(Debug, Serialize)]
struct OpenJson {
    message: String,
    state: &'static str,
    words: Option<String>,
    /// When it is tried again, if that is known and the machine stays awake.
    next_try: Option<String>,
}

impl Listed for OpenJson {
    const PLURAL: &'static str = "open";
    const COLUMNS: &'static [Column<Self>] = &[
        ("MESSAGE", |open| open.message.clone()),
        ("STATE", |open| open.state.to_owned()),
        ("DETAIL", |open| or_empty(open.words.as_ref())),
    ];
}

impl Subject {
    pub(super) fn print(&self) -> Done {
        match self {
            Self::Task(task) => task.print(),
            Self::Approval(approval) => approvals::print_fields(approval),
            Self::Question(question) => question.print(),
            Self::Session(session) => session.print(),
            Self::Skip(skip) => skip.print(),
        }
    }
}

/// The subject of an id, if it is not an event; none if it is one, or nothing has the id.
pub(super) fn find(paths: &Paths, reader: &Reader, daemon: Daemon, id: HearthId) -> Result<Option<Subject>, Failure> {
    Ok(match id {
        HearthId::Message(_) | HearthId::Answer(_) | HearthId::Dropped(_) => None,
        HearthId::Task(id) => tasks::explain(paths, reader, id)?.map(|task| Subject::Task(Box::new(task))),
        HearthId::Approval(id) => {
            reader.read(|db, txn| approvals::show(db, txn, id))?.map(|one| Subject::Approval(Box::new(one)))
        }
        HearthId::Question(id) => {
            reader.read(|db, txn| questions::show(db, txn, id))?.map(|one| Subject::Question(Box::new(one)))
        }
        HearthId::Session(id) => {
            let found = reader.read(|db, txn| session(db, txn, daemon, id))?;
            found.map(|one| Subject::Session(Box::new(one)))
        }
        HearthId::Skip(id) => reader.read(|db, txn| skips::show(db, txn, id))?.map(|one| Subject::Skip(Box::new(one))),
        HearthId::Held(id) => reader.read(|db, txn| held(db, txn, id))?.map(|one| Subject::Approval(Box::new(one))),
    })
}

/// The approval for which a message waits.
fn held(db: &Tables, txn: &Read<'_>, body: BodyId) -> Result<Option<approvals::ShownJson>, state::Error> {
    match db.held_messages_by_body.first_in(txn, &body)? {
        Some((Owned { id, .. }, _)) => approvals::show(db, txn, id),
        None => Ok(None),
    }
}

fn session(db: &Tables, txn: &Read<'_>, daemon: Daemon, id: SessionId) -> Result<Option<SessionJson>, state::Error> {
    let Some(session) = sessions::show(db, txn, id)? else { return Ok(None) };
    let mut open = Vec::new();
    for message in open_messages(db, txn, id)? {
        let Some(row) = db.messages.get(txn, &message)? else { continue };
        let wait = waits::of_message(db, txn, daemon, message, &row)?;
        open.push(OpenJson {
            message: message.to_string(),
            state: labels::state(&row.state),
            words: wait.words,
            next_try: wait.next_try.map(|at| at.to_string()),
        });
    }
    let words = words(db, txn, daemon, id, open.first())?;
    let mut timeline = Vec::new();
    for (Owned { id: entry, .. }, ()) in db.journal_by_session.collect_last(txn, &id, ENTRIES_MAX)? {
        let Some(row) = db.journal.get(txn, &entry)? else { continue };
        let message = row.message.map(|message| message.to_string());
        timeline.push(StepJson { at: row.at.to_string(), message, what: labels::event(&row.event), order: row.at });
    }
    timeline.reverse();
    Ok(Some(SessionJson { session, words, open, timeline }))
}

/// Messages that have not ended: those in progress, those that wait for a turn, those that wait for a time, context.
fn open_messages(db: &Tables, txn: &Read<'_>, id: SessionId) -> Result<Vec<MessageId>, state::Error> {
    let mut found: Vec<MessageId> = Vec::new();
    for index in [&db.claimed_messages, &db.ready_messages] {
        found.extend(index.collect_prefix(txn, &id, OPEN_MAX)?.into_iter().map(|(_, message)| message));
    }
    for row in db.messages_in_backoff.iter(txn)? {
        found.push(row?.0.id);
    }
    for row in db.scheduled_messages.iter(txn)? {
        found.push(row?.0.id);
    }
    found.extend(db.context_messages.collect_prefix(txn, &id, OPEN_MAX)?.into_iter().map(|(_, message)| message));
    let mut own = Vec::new();
    for message in found {
        if own.len() < OPEN_MAX && db.messages.get(txn, &message)?.is_some_and(|row| row.session == id) {
            own.push(message);
        }
    }
    Ok(own)
}

/// What the session is doing, or why it does nothing.
fn words(
    db: &Tables,
    txn: &Read<'_>,
    daemon: Daemon,
    id: SessionId,
    first: Option<&OpenJson>,
) -> Result<String, state::Error> {
    if let Some(OpenJson { message, state, words, .. }) = first {
        let words = words.as_ref().map_or_else(String::new, |words| format!(": {words}"));
        return Ok(format!("{message} is {state}{words}"));
    }
    if let Some(row) = lookup::session(db, txn, id)?.filter(|row| row.failed_starts > 0) {
        return Ok(waits::failed_starts(db, txn, daemon, id, &row)?.words.unwrap_or_default());
    }
    Ok("idle: no message waits".to_owned())
}

impl SessionJson {
    fn print(&self) -> Done {
        sessions::print(&self.session)?;
        print::line("")?;
        listed::print(&[("why", Some(self.words.clone()))])?;
        if !self.open.is_empty() {
            print::line("")?;
            listed::table(&self.open)?;
        }
        if self.timeline.is_empty() {
            return Ok(());
        }
        print::line("")?;
        let row =
            |step: &StepJson| vec![human_time::local(&step.at), or_empty(step.message.as_ref()), step.what.clone()];
        print::table(&["TIME", "MESSAGE", "EVENT"], self.timeline.iter().map(row).collect())
    }
}
