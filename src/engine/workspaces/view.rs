//! Reads sessions: the records of a workspace session, including those it shares with others, and the messages of an
//! agent's session.

use crate::model::delivery::{Author, OutState, Outbound};
use crate::model::id::{MessageId, OutboundId, SessionId};
use crate::model::message::{Message, MessageKind};
use crate::model::record::{RecordBody, SessionRecord};
use crate::model::session::{Base, Recency, Session, WorkspaceSession};
use crate::model::time::Timestamp;
use crate::model::workspace::WorkspaceKey;
use crate::state;
use crate::state::{Read, RecencyKey, RecordKey, RevisionKey, SessionKey, Tables};

type Result<T> = std::result::Result<T, state::Error>;

/// Maximum length of a chain of revisions. A longer one means a damaged store.
const DEPTH_MAX: usize = 1_000_000;

/// Consecutive records of one revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The session that holds them.
    pub session: SessionId,
    /// The revision that holds them.
    pub revision: u32,
    /// Number of the first.
    pub first: u64,
    /// Number of the last.
    pub last: u64,
}

/// What is needed to read a revision of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    pub session: SessionId,
    /// The revision's number.
    pub revision: u32,
    /// The revision that it continues, if any.
    pub base: Option<Base>,
    /// Number of its last record.
    pub records: u64,
}

impl Cut {
    /// The current revision of a session.
    #[must_use]
    pub const fn current(id: SessionId, row: &WorkspaceSession) -> Self {
        Self { session: id, revision: row.revision, base: row.base, records: row.records }
    }
}

/// A revision of a workspace session, if that number exists.
///
/// # Errors
/// Faults of the store.
pub fn revision(db: &Tables, txn: &Read<'_>, session: SessionId, number: u32) -> Result<Option<Cut>> {
    if let Some(workspace) = db.sessions_by_id.get(txn, &session)?
        && let Some(Session::Workspace(row)) = db.sessions.get(txn, &SessionKey { workspace, session })?
        && row.revision == number
    {
        return Ok(Some(Cut::current(session, &row)));
    }
    let earlier = db.revisions.get(txn, &RevisionKey { session, revision: number })?;
    Ok(earlier.map(|row| Cut { session, revision: number, base: row.base, records: row.records }))
}

/// The revision that holds a record of the given revision itself. Revisions that only share it are skipped.
///
/// # Errors
/// Faults of the store; [`state::Error::Missing`] if a base is missing, or the chain of bases does not end.
pub fn holder(db: &Tables, txn: &Read<'_>, cut: Cut, number: u64) -> Result<Cut> {
    let (mut cut, mut depth) = (cut, 0);
    while let Some(base) = cut.base.filter(|base| number <= base.upto) {
        if depth >= DEPTH_MAX {
            return Err(missing(db, base));
        }
        (cut, depth) = (based_on(db, txn, base)?, depth + 1);
    }
    Ok(cut)
}

fn based_on(db: &Tables, txn: &Read<'_>, base: Base) -> Result<Cut> {
    revision(db, txn, base.session, base.revision)?.ok_or_else(|| missing(db, base))
}

fn missing(db: &Tables, base: Base) -> state::Error {
    state::Error::Missing { table: db.revisions.name(), key: format!("{}/{}", base.session, base.revision) }
}

/// The segments that make up a revision, in order.
///
/// # Errors
/// Faults of the store; [`state::Error::Missing`] if a base is missing.
pub fn segments(db: &Tables, txn: &Read<'_>, cut: Cut) -> Result<Vec<Segment>> {
    let mut found = Vec::new();
    let (mut cut, mut last, mut depth) = (cut, cut.records, 0);
    loop {
        let begin = cut.base.map_or(0, |base| base.upto).min(last);
        if begin < last {
            found.push(Segment { session: cut.session, revision: cut.revision, first: begin.saturating_add(1), last });
        }
        let Some(base) = cut.base.filter(|_| begin > 0) else { break };
        if depth >= DEPTH_MAX {
            return Err(missing(db, base));
        }
        (last, depth) = (begin, depth + 1);
        cut = based_on(db, txn, base)?;
    }
    found.reverse();
    Ok(found)
}

/// Records of a revision after a number, up to a limit.
///
/// # Errors
/// Faults of the store.
pub fn records(
    db: &Tables,
    txn: &Read<'_>,
    segments: &[Segment],
    after: u64,
    limit: usize,
) -> Result<Vec<(u64, SessionRecord)>> {
    let mut found = Vec::new();
    for part in segments {
        let first = part.first.max(after.saturating_add(1));
        if first > part.last || found.len() >= limit {
            continue;
        }
        let of = RevisionKey { session: part.session, revision: part.revision };
        let range = RecordKey { of, number: first }..=RecordKey { of, number: part.last };
        let rows = db.records.collect_range(txn, range, limit - found.len())?;
        found.extend(rows.into_iter().map(|(key, row)| (key.number, row)));
    }
    Ok(found)
}

/// The newest sessions of a workspace, the newest first.
///
/// # Errors
/// Faults of the store.
pub fn newest(db: &Tables, txn: &Read<'_>, workspace: WorkspaceKey, limit: usize) -> Result<Vec<(SessionId, Session)>> {
    let mut all = Vec::new();
    for (RecencyKey { session: id, .. }, ()) in db.sessions_by_update.collect_last(txn, &workspace, limit)? {
        all.push((id, db.sessions.require(txn, &SessionKey { workspace, session: id })?));
    }
    Ok(all)
}

/// The newest session of a workspace that has messages and is not excluded by `passed`. Newer sessions without messages
/// cost nothing.
///
/// # Errors
/// Faults of the store.
pub fn latest(
    db: &Tables,
    txn: &Read<'_>,
    workspace: WorkspaceKey,
    passed: impl Fn(SessionId, &Session) -> bool,
) -> Result<Option<(SessionId, Session)>> {
    let least = Recency { at: Timestamp::from_millis(i64::MIN), order: 0 };
    let least = RecencyKey { workspace, recency: least, session: SessionId::new(0) };
    let most = Recency { at: Timestamp::from_millis(i64::MAX), order: u64::MAX };
    let mut end = RecencyKey { workspace, recency: most, session: SessionId::new(u64::MAX) };
    while let Some((key, ())) = db.sessions_by_last_message.last(txn, least..end)? {
        let session = db.sessions.require(txn, &SessionKey { workspace, session: key.session })?;
        if !passed(key.session, &session) {
            return Ok(Some((key.session, session)));
        }
        end = key;
    }
    Ok(None)
}

/// How many sessions a workspace has, counted up to a limit.
///
/// # Errors
/// Faults of the store.
pub fn count(db: &Tables, txn: &Read<'_>, workspace: WorkspaceKey, limit: usize) -> Result<usize> {
    let mut count = 0;
    for row in db.sessions_by_update.prefix(txn, &workspace)?.take(limit) {
        row?;
        count += 1;
    }
    Ok(count)
}

/// One message of an agent's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatRecord {
    /// Its number: even for messages to the agent, odd for the agent's output.
    pub number: u64,
    /// When it was stored.
    pub at: Timestamp,
    pub way: Direction,
    /// The sender, if known.
    pub speaker: Option<String>,
    /// Its text; none if it was removed by retention.
    pub text: Option<String>,
    /// Whether it requested a turn; for the agent's output, whether it was sent.
    pub counts: bool,
}

/// The direction of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the agent.
    In,
    /// From the agent.
    Out,
}

/// The newest messages of an agent's session, up to a limit, in order.
///
/// # Errors
/// Faults of the store.
pub fn conversation(db: &Tables, txn: &Read<'_>, id: SessionId, limit: usize) -> Result<Vec<ChatRecord>> {
    let messages = db.messages_by_session.collect_last(txn, &id, limit)?;
    let answers = db.outbound_by_number.collect_last(txn, &id, limit)?;
    let inwards = messages.into_iter().map(|(key, id)| (key.seq, Link::In(id)));
    let outwards = answers.into_iter().map(|(key, id)| (key.number, Link::Out(id)));
    let mut all: Vec<(u64, Link)> = inwards.chain(outwards).collect();
    all.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
    all.truncate(limit);
    all.reverse();
    let mut found = Vec::with_capacity(all.len());
    for (number, link) in all {
        found.extend(match link {
            Link::In(id) => message(db, txn, number, id)?,
            Link::Out(id) => db.outbound.get(txn, &id)?.map(|row| answer(number, row)),
        });
    }
    Ok(found)
}

enum Link {
    In(MessageId),
    Out(OutboundId),
}

fn message(db: &Tables, txn: &Read<'_>, number: u64, id: MessageId) -> Result<Option<ChatRecord>> {
    let Some(row): Option<Message> = db.messages.get(txn, &id)? else { return Ok(None) };
    let body = db.bodies.get(txn, &row.body)?;
    let said = body.as_ref().map(|body| {
        let sender = body.content.sender_name.clone().or_else(|| body.sender.as_ref().map(ToString::to_string));
        let speaker = if body.kind == MessageKind::Task { Some("task".to_owned()) } else { sender };
        (speaker, body.content.text.clone())
    });
    let (speaker, text) = said.map_or((None, None), |(speaker, text)| (speaker, Some(text)));
    Ok(Some(ChatRecord { number, at: row.stored, way: Direction::In, speaker, text, counts: row.trigger }))
}

fn answer(number: u64, row: Outbound) -> ChatRecord {
    let counts = !matches!(row.state, OutState::Refused { .. } | OutState::Abandoned { .. } | OutState::Failed { .. });
    let speaker = match row.author {
        Author::Agent { .. } => "agent",
        Author::Hearth => "hearth",
    };
    ChatRecord {
        number,
        at: row.stored,
        way: Direction::Out,
        speaker: Some(speaker.to_owned()),
        text: Some(row.text),
        counts,
    }
}

/// Whether a record is a message.
#[must_use]
pub const fn is_message(record: &SessionRecord) -> bool {
    matches!(record.body, RecordBody::Message { .. })
}
