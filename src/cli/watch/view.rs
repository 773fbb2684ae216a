//! Data of the live view, read from the store each second. Reads a few index rows, however large the store is.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cli::problems::RateLimitedAgent;
use crate::cli::report::{MessageCounts, Report};
use crate::cli::{Failure, approvals, daemon_status, labels, lookup, questions, sessions};
use crate::config::Paths;
use crate::console::Rank;
use crate::model::delivery::OutState;
use crate::model::id::SessionId;
use crate::model::incarnation::{IncarnationId, Phase};
use crate::model::message::MessageState;
use crate::model::rate_limit::LimitCause;
use crate::model::session::{ChatSession, Route};
use crate::socket::protocol::DaemonStatus;
use crate::state::{self, Admission, InboxKey, Owned, Read, Reader, Tables, Timed};

/// Maximum number of rows per list.
const ROWS_MAX: usize = 200;
/// Maximum number of outgoing queues that are read.
const LANES_MAX: usize = 1_000;
/// Maximum number of sessions in which nothing runs or waits.
const RECENT_MAX: usize = 20;

/// Everything on the screen; one line of `hearth status --watch --json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct View {
    /// The daemon; null while none runs.
    pub(in crate::cli) daemon: Option<DaemonView>,
    /// Why the store or the daemon could not be asked; null if they could.
    pub(in crate::cli) trouble: Option<String>,
    pub(in crate::cli) messages: Messages,
    /// Sessions with an incarnation, and those whose messages wait for one.
    pub(in crate::cli) sessions: Vec<SessionView>,
    /// Other sessions, most recently active first.
    pub(in crate::cli) recent: Vec<SessionView>,
    /// Outgoing messages, by channel.
    pub(in crate::cli) lanes: Vec<QueueView>,
    /// Approvals and questions, oldest first.
    pub(in crate::cli) asked: Vec<PromptView>,
    /// The next tasks, then paused ones.
    pub(in crate::cli) tasks: Vec<TaskView>,
    pub(in crate::cli) warnings: Vec<String>,
}

impl View {
    /// All sessions, current ones first.
    pub(in crate::cli) fn all_sessions(&self) -> impl Iterator<Item = &SessionView> {
        self.sessions.iter().chain(&self.recent)
    }

    /// Number of sessions that work; none do without a daemon.
    pub(in crate::cli) fn working(&self) -> usize {
        let working = self.all_sessions().filter(|one| one.state() == SessionState::Working).count();
        if self.daemon.is_some() { working } else { 0 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct DaemonView {
    pub(in crate::cli) pid: u32,
    pub(in crate::cli) version: String,
    pub(in crate::cli) runtime: String,
    pub(in crate::cli) draining: bool,
    pub(in crate::cli) queued: usize,
    pub(in crate::cli) terminals: usize,
}

impl DaemonView {
    pub(in crate::cli) fn of(daemon: &DaemonStatus) -> Self {
        Self {
            pid: daemon.pid,
            version: daemon.version.clone(),
            runtime: daemon.runtime.clone(),
            draining: daemon.draining,
            queued: daemon.queued,
            terminals: daemon.terminals,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct Messages {
    pub(in crate::cli) due: u64,
    pub(in crate::cli) claimed: u64,
    pub(in crate::cli) backing_off: u64,
    pub(in crate::cli) scheduled: u64,
    pub(in crate::cli) undelivered: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct SessionView {
    pub(in crate::cli) session: String,
    pub(in crate::cli) agent: String,
    /// The chat it belongs to, by its name if it has one.
    pub(in crate::cli) chat: String,
    /// When a message last arrived, and the beginning of the last one; null without messages or if it was removed.
    pub(in crate::cli) active: String,
    pub(in crate::cli) last: Option<String>,
    /// Whether that message failed.
    pub(in crate::cli) last_failed: bool,
    /// The live incarnation; null for none.
    pub(in crate::cli) incarnation: Option<u32>,
    /// `starting`, `running`, …, `waiting`, or `idle` if nothing runs or waits.
    pub(in crate::cli) phase: String,
    /// The phase for people.
    #[serde(skip)]
    pub(in crate::cli) phase_words: String,
    /// When the incarnation was started.
    pub(in crate::cli) started: Option<String>,
    pub(in crate::cli) tool: Option<String>,
    /// Waiting messages and messages in progress, 200 at most.
    pub(in crate::cli) due: usize,
    pub(in crate::cli) claimed: usize,
    /// Number of consecutive failed starts.
    pub(in crate::cli) failed_starts: u32,
    /// Until when its agent's provider takes no requests.
    pub(in crate::cli) held_off: Option<String>,
    /// Why it takes none.
    #[serde(skip)]
    pub(in crate::cli) held_off_because: Option<LimitCause>,
}

/// What a session does, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum SessionState {
    RateLimited,
    /// Its provider cannot be reached.
    Offline,
    /// Its starts fail.
    Failing,
    Working,
    Starting,
    Stopping,
    Queued,
    /// Nothing runs or waits, and its last message failed.
    Failed,
    Idle,
}

impl SessionState {
    pub(in crate::cli) const fn word(self) -> &'static str {
        match self {
            Self::RateLimited => "rate-limited",
            Self::Offline => "offline",
            Self::Failing => "failing",
            Self::Working => "working",
            Self::Starting => "starting",
            Self::Stopping => "stopping",
            Self::Queued => "queued",
            Self::Failed => "last message failed",
            Self::Idle => "idle",
        }
    }
}

impl SessionView {
    pub(in crate::cli) fn state(&self) -> SessionState {
        match self {
            // A limit concerns only sessions that want to work.
            Self { held_off_because: Some(cause), due, claimed, .. } if due + claimed > 0 => match cause {
                LimitCause::Limited => SessionState::RateLimited,
                LimitCause::Unreachable => SessionState::Offline,
            },
            Self { failed_starts: 1.., incarnation: None, .. } => SessionState::Failing,
            Self { phase, .. } if phase.starts_with("stopping") => SessionState::Stopping,
            Self { claimed: 1.., .. } => SessionState::Working,
            Self { phase, .. } if phase == "starting" => SessionState::Starting,
            Self { due: 1.., .. } => SessionState::Queued,
            Self { last_failed: true, .. } => SessionState::Failed,
            Self { .. } => SessionState::Idle,
        }
    }

    /// Its place on the screen: what is broken, what works, what waits, and the rest.
    fn place(&self) -> u8 {
        match self.state() {
            SessionState::RateLimited | SessionState::Offline | SessionState::Failing => 0,
            SessionState::Working | SessionState::Starting | SessionState::Stopping => 1,
            SessionState::Queued => 2,
            SessionState::Failed | SessionState::Idle => 3,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct QueueView {
    pub(in crate::cli) channel: String,
    /// Outgoing queues whose first message is being delivered, and those whose first message waits.
    pub(in crate::cli) under_way: usize,
    pub(in crate::cli) waiting: usize,
    /// Why one of them waits.
    pub(in crate::cli) why: Option<String>,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::cli) enum Kind {
    Approval,
    Question,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct PromptView {
    pub(in crate::cli) id: String,
    pub(in crate::cli) kind: Kind,
    /// The full text. For an approval, everything that it puts into effect.
    pub(in crate::cli) about: String,
    /// Its beginning, for one line on the screen.
    #[serde(skip)]
    pub(in crate::cli) summary: String,
    /// Labels and values of the options; empty for an approval.
    pub(in crate::cli) options: Vec<(String, String)>,
    pub(in crate::cli) expires: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct TaskView {
    pub(in crate::cli) task: String,
    pub(in crate::cli) agent: String,
    pub(in crate::cli) paused: bool,
    pub(in crate::cli) running: bool,
    pub(in crate::cli) next: Option<String>,
    pub(in crate::cli) prompt: String,
}

/// Reads the view. Read errors become part of it.
pub(in crate::cli) fn look(paths: &Paths) -> View {
    let (daemon, told) = match daemon_status::ask(paths) {
        Ok(daemon) => (daemon, None),
        Err(error) => (None, Some(error.to_string())),
    };
    let mut view = read(paths, daemon.as_ref()).unwrap_or_else(|failure| View {
        trouble: Some(match failure {
            Failure::Failed(what) | Failure::Changed(what) | Failure::Store(_, what) => what,
            Failure::Told | Failure::Exit(_) => "the store cannot be read".to_owned(),
        }),
        ..View::default()
    });
    view.trouble = told.or(view.trouble);
    view.daemon = daemon.as_ref().map(DaemonView::of);
    view
}

fn read(paths: &Paths, daemon: Option<&DaemonStatus>) -> Result<View, Failure> {
    let reader = Reader::open(paths.data())?;
    let (report, mut view) = reader.read(|db, txn| {
        let report = Report::read(db, txn)?;
        let view = collect(db, txn, &report)?;
        Ok::<_, state::Error>((report, view))
    })?;
    if let Admission::Refuse(why) = reader.usage(paths.data())?.admission() {
        view.warnings.push(format!("new work is refused: {why}"));
    }
    if daemon.is_some() {
        view.warnings.extend(report.channel_warnings(daemon));
    }
    Ok(view)
}

/// Reads what the store says.
pub(in crate::cli) fn collect(db: &Tables, txn: &Read<'_>, report: &Report) -> Result<View, state::Error> {
    let held_off = report.held_off.iter().filter(|one| one.stops_work()).map(|one| (one.agent.as_str(), one)).collect();
    let MessageCounts { due, claimed, scheduled, backing_off, unsent } = report.messages;
    let ids = current_sessions(db, txn)?;
    let mut current = Vec::new();
    for id in &ids {
        let Some(session) = lookup::session(db, txn, *id)? else { continue };
        current.push(session_view(db, txn, *id, &session, &held_off)?);
    }
    current.sort_by(|one, other| one.place().cmp(&other.place()).then(other.active.cmp(&one.active)));
    let mut recent = Vec::new();
    let newest = sessions::newest_of(db, txn, None, RECENT_MAX)?;
    for (id, session) in newest.into_iter().filter(|(id, _)| !ids.contains(id)) {
        recent.push(session_view(db, txn, id, &session, &held_off)?);
    }
    Ok(View {
        daemon: None,
        trouble: None,
        messages: Messages { due, claimed, backing_off, scheduled, undelivered: unsent },
        sessions: current,
        recent,
        lanes: lanes(db, txn)?,
        asked: asked(db, txn)?,
        tasks: tasks(db, txn)?,
        warnings: report.agent_warnings(&Rank::Everything).chain(report.file_warnings(&Rank::Everything)).collect(),
    })
}

/// Sessions with an incarnation, and those with messages that wait for one.
fn current_sessions(db: &Tables, txn: &Read<'_>) -> Result<Vec<SessionId>, state::Error> {
    let mut ids: Vec<SessionId> = Vec::new();
    for (session, _) in db.live_incarnations.collect_range(txn, .., ROWS_MAX)? {
        ids.push(session);
    }
    // One seek per session, however many messages it has.
    let mut from = InboxKey { session: SessionId::new(0), seq: 0 };
    while let Some((InboxKey { session: id, .. }, _)) = db.ready_messages.first(txn, from..)?
        && ids.len() < ROWS_MAX
    {
        ids.push(id);
        from = InboxKey { session: SessionId::new(id.number().saturating_add(1)), seq: 0 };
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

fn session_view(
    db: &Tables,
    txn: &Read<'_>,
    id: SessionId,
    session: &ChatSession,
    held_off: &BTreeMap<&str, &RateLimitedAgent>,
) -> Result<SessionView, state::Error> {
    let agent = lookup::folder(db, txn, session.agent)?;
    let incarnation = match session.live {
        Some(number) => db.incarnations.get(txn, &IncarnationId { session: id, number })?,
        None => None,
    };
    let due = db.ready_messages.collect_prefix(txn, &id, ROWS_MAX)?.len();
    let no_phase = if due > 0 { "waiting" } else { "idle" };
    let phase = |words: fn(&Phase) -> String| incarnation.as_ref().map_or(no_phase.to_owned(), |one| words(&one.phase));
    let (last, last_failed) = last_message(db, txn, id)?;
    Ok(SessionView {
        session: id.to_string(),
        chat: chat(db, txn, session)?,
        active: session.active.to_string(),
        last,
        last_failed,
        incarnation: session.live,
        phase: phase(labels::phase),
        phase_words: phase(labels::phase_in_words),
        started: incarnation.as_ref().map(|one| one.started.to_string()),
        tool: incarnation.and_then(|one| one.tool).map(|tool| labels::excerpt(&tool.name)),
        due,
        claimed: db.claimed_messages.collect_prefix(txn, &id, ROWS_MAX)?.len(),
        failed_starts: session.failed_starts,
        held_off: held_off.get(agent.as_str()).map(|limit| limit.again.clone()),
        held_off_because: held_off.get(agent.as_str()).map(|limit| limit.cause),
        agent,
    })
}

/// The chat of a session as people know it.
pub(in crate::cli) fn chat(db: &Tables, txn: &Read<'_>, session: &ChatSession) -> Result<String, state::Error> {
    let (id, thread) = match &session.route {
        Route::Shared(id) => (id, None),
        Route::PerThread(id, thread) => (id, thread.as_ref()),
        Route::AgentShared => return Ok("all its chats".to_owned()),
    };
    let name = match db.chats.get(txn, id)? {
        Some(chat) => lookup::chat_words(&chat),
        None => id.to_string(),
    };
    Ok(thread.map(|thread| format!("{name}, thread {thread}")).unwrap_or(name))
}

/// The beginning of the last message in a session, and whether that message failed. Its text may have been removed by
/// retention.
fn last_message(db: &Tables, txn: &Read<'_>, id: SessionId) -> Result<(Option<String>, bool), state::Error> {
    let last = db.messages_by_session.collect_last(txn, &id, 1)?;
    let Some((_, message)) = last.first() else { return Ok((None, false)) };
    let Some(message) = db.messages.get(txn, message)? else { return Ok((None, false)) };
    let has_failed = matches!(message.state, MessageState::Failed { .. });
    let body = db.bodies.get(txn, &message.body)?;
    let text = body.map(|body| labels::excerpt(&body.content.text)).filter(|text| !text.is_empty());
    Ok((text, has_failed))
}

fn lanes(db: &Tables, txn: &Read<'_>) -> Result<Vec<QueueView>, state::Error> {
    let mut found: BTreeMap<String, QueueView> = BTreeMap::new();
    for (Timed { id, .. }, ()) in db.queue_heads.collect_range(txn, .., LANES_MAX)? {
        let row = db.outbound.require(txn, &id)?;
        let channel = row.to.map_or_else(String::new, |to| to.channel.to_string());
        let lane =
            found.entry(channel.clone()).or_insert_with(|| QueueView { channel, under_way: 0, waiting: 0, why: None });
        match row.state {
            OutState::Attempting { .. } => lane.under_way += 1,
            OutState::Waiting { after, .. } => {
                lane.waiting += 1;
                lane.why = lane.why.take().or(after.map(|why| labels::excerpt(&why)));
            }
            _ => {}
        }
    }
    Ok(found.into_values().collect())
}

fn asked(db: &Tables, txn: &Read<'_>) -> Result<Vec<PromptView>, state::Error> {
    let open = approvals::open(db, txn, ROWS_MAX)?.into_iter().map(|one| PromptView {
        id: one.id.to_string(),
        kind: Kind::Approval,
        about: one.text.body(),
        summary: one.text.summary(),
        options: Vec::new(),
        expires: one.expires.to_string(),
    });
    let questions = questions::open(db, txn, ROWS_MAX)?.into_iter().map(|(id, row)| PromptView {
        id: id.to_string(),
        kind: Kind::Question,
        about: labels::excerpt(&format!("{}: {}", row.title, row.body)),
        summary: labels::excerpt(&format!("{}: {}", row.title, row.body)),
        options: row.options.into_iter().map(|option| (labels::excerpt(&option.label), option.value)).collect(),
        expires: row.expires.to_string(),
    });
    Ok(open.chain(questions).collect())
}

/// The next tasks, then paused ones.
pub(in crate::cli) fn tasks(db: &Tables, txn: &Read<'_>) -> Result<Vec<TaskView>, state::Error> {
    let mut ids = Vec::new();
    for (Timed { id, .. }, ()) in db.tasks_due.collect_range(txn, .., ROWS_MAX)? {
        ids.push(id);
    }
    let open = db.tasks_by_agent.collect_range(txn, .., ROWS_MAX)?;
    let others: Vec<_> = open.into_iter().map(|(Owned { id, .. }, ())| id).filter(|id| !ids.contains(id)).collect();
    let mut found = Vec::new();
    for id in ids.into_iter().chain(others) {
        let task = db.tasks.require(txn, &id)?;
        found.push(TaskView {
            task: id.to_string(),
            agent: lookup::folder(db, txn, task.agent)?,
            paused: task.state == crate::model::task::TaskState::Paused,
            running: task.running.is_some(),
            next: task.next.map(|next| next.to_string()),
            prompt: labels::excerpt(&task.prompt),
        });
    }
    Ok(found)
}
