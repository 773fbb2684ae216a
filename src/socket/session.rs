//! What is wanted of workspace sessions, and what became of it, as lines of the socket. JSON of records goes as text,
//! because JSON within a tagged line could not be kept as it is.

use serde::{Deserialize, Serialize};

use super::workspace::SightJson;
use crate::model::content::RawJson;
use crate::model::id::SessionId;
use crate::model::record::{RecordBody, SessionRecord, SpeakerRole};
use crate::model::session::SessionLabel;
use crate::model::session_command::{
    CompactSession, ForkSession, Guard, Holder, Home, NewSession, SessionCommand, SessionDone, SessionOutcome,
    SessionRefusal,
};
use crate::model::time::Timestamp;
use crate::model::workspace::{key_text, parse_key};

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum SessionRequest {
    /// Make one.
    Create(NewJson),
    /// Add records.
    Append {
        /// To which, like `se5`.
        session: String,
        /// What.
        records: Vec<RecordJson>,
        /// Under which conditions.
        guard: GuardJson,
    },
    /// Make another one that begins with what is in it.
    Fork(ForkJson),
    /// Begin anew.
    Clear {
        /// Which.
        session: String,
        /// Under which conditions.
        guard: GuardJson,
    },
    /// Leave out all but the newest.
    Compact {
        /// Which.
        session: String,
        /// Messages that stay.
        keep: u64,
        /// What the others said.
        summary: Option<String>,
        /// Under which conditions.
        guard: GuardJson,
    },
    /// Give it a title.
    Rename {
        /// Which.
        session: String,
        /// The title; null takes it away.
        title: Option<String>,
    },
    /// Make it the one that is resumed.
    Switch {
        /// Which.
        session: String,
    },
    /// Put it into the trash.
    Delete {
        /// Which.
        session: String,
        /// Under which conditions.
        guard: GuardJson,
    },
    /// Take it out of the trash.
    Restore {
        /// Which.
        session: String,
    },
    /// Remove it for good.
    Purge {
        /// Which.
        session: String,
        /// Under which conditions.
        guard: GuardJson,
    },
    /// Say who works on it.
    Take {
        /// Which.
        session: String,
        /// The process.
        pid: u32,
        /// When it started.
        started: u64,
        /// In which boot.
        boot: String,
        /// Under which conditions.
        guard: GuardJson,
    },
    /// Its holder is alive.
    Beat {
        /// Which.
        session: String,
        /// Under which lease.
        epoch: u64,
    },
    /// Its holder is done.
    Release {
        /// Which.
        session: String,
        /// Under which lease.
        epoch: u64,
    },
}

/// A new session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewJson {
    /// The directory; or else `workspace`.
    pub sight: Option<SightJson>,
    /// The workspace's key.
    pub workspace: Option<String>,
    /// Its id.
    pub label: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// What it talks to.
    pub model: Option<String>,
    /// Its first records.
    pub records: Vec<RecordJson>,
}

/// A fork.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkJson {
    /// Of which.
    pub parent: String,
    /// The directory of the new one; or else `workspace`.
    pub sight: Option<SightJson>,
    /// Its workspace's key.
    pub workspace: Option<String>,
    /// Its id.
    pub label: Option<String>,
    /// Name of the branch.
    pub branch: Option<String>,
    /// Only up to this record.
    pub upto: Option<u64>,
}

/// Conditions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardJson {
    /// Epoch of the caller's lease.
    pub epoch: Option<u64>,
    /// Number of the last record.
    pub expected: Option<u64>,
    /// Epoch of a lease whose holder is dead.
    pub dead: Option<u64>,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordJson {
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// What it says.
    #[serde(flatten)]
    pub body: BodyJson,
    /// What only its maker knows: a JSON object as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<String>,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum BodyJson {
    /// Something that was said.
    Message {
        /// `system`, `user`, `assistant` or `tool`.
        role: String,
        /// Its blocks: a JSON array as text.
        blocks: String,
        /// What it cost: a JSON object as text.
        usage: Option<String>,
        /// Whether a turn ends with it.
        ends_turn: Option<bool>,
    },
    /// Something that was typed.
    Prompt {
        /// What.
        text: String,
    },
    /// Something else: a JSON object as text.
    Foreign {
        /// What.
        json: String,
    },
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "done", rename_all = "snake_case")]
pub enum SessionAnswer {
    /// It was done, or there was nothing to do.
    Done(DoneJson),
    /// It was not done.
    Refused(SessionRefusalJson),
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoneJson {
    /// The workspace's key.
    pub workspace: String,
    /// The store's id of the session.
    pub key: String,
    /// The id that people use.
    pub session: String,
    /// Which revision counts now.
    pub revision: u32,
    /// Number of its last record.
    pub records: u64,
    /// How many are messages.
    pub messages: u64,
    /// Whether something is different now.
    pub changed: bool,
    /// Messages that are not in the current revision any more.
    pub removed: u64,
    /// Messages of an agent's session that were not copied.
    pub left_out: u64,
    /// Messages of it whose text is gone.
    pub expired: u64,
    /// Epoch of the lease that was taken.
    pub epoch: Option<u64>,
    /// Whether the removal goes on.
    pub more: bool,
}

/// Why it was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRefusalJson {
    /// A word for programs.
    pub kind: String,
    /// What.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// Whether trying again does no harm.
    pub retry_safe: Option<bool>,
    /// The number of records that was expected.
    pub expected: Option<u64>,
    /// The number there is.
    pub found: Option<u64>,
    /// Who holds the session.
    pub pid: Option<u32>,
}

impl SessionRequest {
    /// The same for the engine.
    ///
    /// # Errors
    /// What cannot be read, naming the field.
    pub fn command(self) -> Result<SessionCommand, String> {
        Ok(match self {
            Self::Create(new) => SessionCommand::Create(Box::new(new.read()?)),
            Self::Append { session, records, guard } => {
                SessionCommand::Append(id(&session)?, read_all(records)?, guard.into())
            }
            Self::Fork(fork) => SessionCommand::Fork(Box::new(fork.read()?)),
            Self::Clear { session, guard } => SessionCommand::Clear(id(&session)?, guard.into()),
            Self::Compact { session, keep, summary, guard } => {
                SessionCommand::Compact(id(&session)?, CompactSession { keep, summary }, guard.into())
            }
            Self::Rename { session, title } => SessionCommand::Rename(id(&session)?, title),
            Self::Switch { session } => SessionCommand::Switch(id(&session)?),
            Self::Delete { session, guard } => SessionCommand::Delete(id(&session)?, guard.into()),
            Self::Restore { session } => SessionCommand::Restore(id(&session)?),
            Self::Purge { session, guard } => SessionCommand::Purge(id(&session)?, guard.into()),
            Self::Take { session, pid, started, boot, guard } => {
                SessionCommand::Take(id(&session)?, Holder { pid, started, boot }, guard.into())
            }
            Self::Beat { session, epoch } => SessionCommand::Beat(id(&session)?, epoch),
            Self::Release { session, epoch } => SessionCommand::Release(id(&session)?, epoch),
        })
    }
}

impl NewJson {
    fn read(self) -> Result<NewSession, String> {
        Ok(NewSession {
            home: home(self.sight, self.workspace.as_deref())?,
            label: label(self.label)?,
            title: self.title,
            model: self.model,
            times: None,
            source: None,
            records: read_all(self.records)?,
        })
    }
}

impl ForkJson {
    fn read(self) -> Result<ForkSession, String> {
        Ok(ForkSession {
            parent: id(&self.parent)?,
            home: home(self.sight, self.workspace.as_deref())?,
            label: label(self.label)?,
            branch: self.branch,
            upto: self.upto,
        })
    }
}

impl From<&SessionRecord> for RecordJson {
    fn from(record: &SessionRecord) -> Self {
        let text = |json: &RawJson| json.as_str().to_owned();
        let body = match &record.body {
            RecordBody::Message { role, blocks, usage, ends_turn } => BodyJson::Message {
                role: role.as_str().to_owned(),
                blocks: text(blocks),
                usage: usage.as_ref().map(text),
                ends_turn: *ends_turn,
            },
            RecordBody::Prompt(typed) => BodyJson::Prompt { text: typed.clone() },
            RecordBody::Foreign(json) => BodyJson::Foreign { json: text(json) },
        };
        Self { at: record.at.millis(), body, extra: record.extra.as_ref().map(text) }
    }
}

impl RecordJson {
    fn read(self) -> Result<SessionRecord, String> {
        let body = match self.body {
            BodyJson::Message { role, blocks, usage, ends_turn } => RecordBody::Message {
                role: role_of(&role)?,
                blocks: array(blocks)?,
                usage: usage.map(object).transpose()?,
                ends_turn,
            },
            BodyJson::Prompt { text } if text.is_empty() => return Err("text: nothing was typed".to_owned()),
            BodyJson::Prompt { text } => RecordBody::Prompt(text),
            BodyJson::Foreign { json } => RecordBody::Foreign(object(json)?),
        };
        Ok(SessionRecord { at: Timestamp::from_millis(self.at), body, extra: self.extra.map(object).transpose()? })
    }
}

/// Who said something, by the word in files.
///
/// # Errors
/// For another word.
pub fn role_of(word: &str) -> Result<SpeakerRole, String> {
    SpeakerRole::parse(word).ok_or_else(|| format!("role: `{word}` is none of system, user, assistant, tool"))
}

impl From<GuardJson> for Guard {
    fn from(guard: GuardJson) -> Self {
        Self { epoch: guard.epoch, expected: guard.expected, dead: guard.dead }
    }
}

impl From<Result<SessionDone, SessionRefusal>> for SessionAnswer {
    fn from(answer: Result<SessionDone, SessionRefusal>) -> Self {
        match answer {
            Ok(done) => Self::Done(done.into()),
            Err(refusal) => Self::Refused((&refusal).into()),
        }
    }
}

impl From<SessionDone> for DoneJson {
    fn from(done: SessionDone) -> Self {
        let mut json = Self {
            workspace: key_text(done.workspace),
            key: done.id.to_string(),
            session: done.row.label.to_string(),
            revision: done.row.revision,
            records: done.row.records,
            messages: done.row.messages,
            changed: done.what != SessionOutcome::Unchanged,
            removed: 0,
            left_out: 0,
            expired: 0,
            epoch: None,
            more: false,
        };
        match done.what {
            SessionOutcome::Changed | SessionOutcome::Unchanged => {}
            SessionOutcome::Shortened { removed } => json.removed = removed,
            SessionOutcome::Copied { left_out, expired } => (json.left_out, json.expired) = (left_out, expired),
            SessionOutcome::Leased { epoch } => json.epoch = Some(epoch),
            SessionOutcome::Purged { more } => json.more = more,
        }
        json
    }
}

impl From<&SessionRefusal> for SessionRefusalJson {
    fn from(refusal: &SessionRefusal) -> Self {
        let (mut expected, mut found, mut pid) = (None, None, None);
        match refusal {
            SessionRefusal::Changed { expected: wanted, found: there, .. }
            | SessionRefusal::NoSuchRecord { wanted, found: there, .. } => {
                (expected, found) = (Some(*wanted), Some(*there));
            }
            SessionRefusal::Held { pid: holder, .. } | SessionRefusal::Active { pid: holder, .. } => {
                pid = Some(*holder);
            }
            _ => {}
        }
        Self {
            kind: refusal.kind().to_owned(),
            message: refusal.to_string(),
            hint: refusal.hint(),
            retry_safe: refusal.retry_safe(),
            expected,
            found,
            pid,
        }
    }
}

fn home(sight: Option<SightJson>, workspace: Option<&str>) -> Result<Home, String> {
    match (sight, workspace) {
        (Some(sight), None) => Ok(Home::Seen(Box::new(sight.read()?))),
        (None, Some(key)) => {
            parse_key(key).map(Home::Known).ok_or_else(|| format!("workspace: `{key}` is not the key of a workspace"))
        }
        _ => Err("workspace: one of a directory and a key is needed".to_owned()),
    }
}

fn id(text: &str) -> Result<SessionId, String> {
    text.parse().map_err(|_| format!("session: `{text}` is not a session; write an id like se3"))
}

fn label(text: Option<String>) -> Result<Option<SessionLabel>, String> {
    text.map(SessionLabel::new).transpose().map_err(|error| format!("label: {error}"))
}

pub(super) fn read_all(records: Vec<RecordJson>) -> Result<Vec<SessionRecord>, String> {
    let read = |(number, record): (u64, RecordJson)| record.read().map_err(|why| format!("record {number}: {why}"));
    (1_u64..).zip(records).map(read).collect()
}

fn array(json: String) -> Result<RawJson, String> {
    match serde_json::from_str::<Vec<&serde_json::value::RawValue>>(&json) {
        Ok(_) => Ok(RawJson::trusted(json)),
        Err(error) => Err(format!("blocks: no JSON array: {error}")),
    }
}

pub(super) fn object(json: String) -> Result<RawJson, String> {
    match serde_json::from_str::<std::collections::BTreeMap<String, &serde_json::value::RawValue>>(&json) {
        Ok(_) => Ok(RawJson::trusted(json)),
        Err(error) => Err(format!("json: no JSON object: {error}")),
    }
}
