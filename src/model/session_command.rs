//! Commands on workspace sessions, and their results.

use serde::{Deserialize, Serialize};

use super::as_text;
use super::id::SessionId;
use super::record::SessionRecord;
use super::refusal::Refusal;
use super::session::{SessionLabel, SessionSource, WorkspaceSession};
use super::time::Timestamp;
use super::workspace::WorkspaceKey;
use super::workspace_sight::WorkspaceSight;

/// A command on a workspace session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionCommand {
    /// Create a session.
    Create(Box<NewSession>),
    /// Append records.
    Append(#[serde(with = "as_text")] SessionId, Vec<SessionRecord>, Guard),
    /// Create a new session that begins with its records.
    Fork(Box<ForkSession>),
    /// Start the session over. The old records are kept as an earlier revision.
    Clear(#[serde(with = "as_text")] SessionId, Guard),
    /// Remove all but the newest messages. The old records are kept as an earlier revision.
    Compact(#[serde(with = "as_text")] SessionId, CompactSession, Guard),
    /// Set or remove its title.
    Rename(#[serde(with = "as_text")] SessionId, Option<String>),
    /// Make it the session that is resumed when none is named.
    Switch(#[serde(with = "as_text")] SessionId),
    /// Move it to the trash.
    Delete(#[serde(with = "as_text")] SessionId, Guard),
    /// Restore it from the trash.
    Restore(#[serde(with = "as_text")] SessionId),
    /// Delete it permanently.
    Purge(#[serde(with = "as_text")] SessionId, Guard),
    /// Acquire its lease.
    Take(#[serde(with = "as_text")] SessionId, Holder, Guard),
    /// Heartbeat of the holder of its lease.
    Beat(#[serde(with = "as_text")] SessionId, u64),
    /// Release its lease.
    Release(#[serde(with = "as_text")] SessionId, u64),
}

/// The workspace of a new session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// A workspace that is known.
    Known(#[serde(with = "as_text::key")] WorkspaceKey),
    /// The workspace of this directory. It is created if it does not exist.
    Seen(Box<WorkspaceSight>),
}

/// A new session of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSession {
    /// The workspace that the session is created in.
    pub home: Home,
    /// Its id; none lets the store choose one.
    pub label: Option<SessionLabel>,
    /// Title that people see.
    pub title: Option<String>,
    /// Name of the model.
    pub model: Option<String>,
    /// When it was created and last changed, from its source; none is now. Not set by clients.
    #[serde(skip)]
    pub times: Option<(Timestamp, Timestamp)>,
    /// Where it was imported from. Not set by clients.
    #[serde(skip)]
    pub source: Option<SessionSource>,
    /// Its first records.
    pub records: Vec<SessionRecord>,
}

/// A fork of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkSession {
    /// The session to fork: of a workspace, or an agent's.
    #[serde(with = "as_text")]
    pub parent: SessionId,
    /// The workspace of the fork. If it differs from the parent's, the fork is a hand-over, and both workspaces record
    /// it.
    pub home: Home,
    /// Its id; none lets the store choose one.
    pub label: Option<SessionLabel>,
    /// Name of the branch; a blank name is none.
    pub branch: Option<String>,
    /// Last record to include; none includes all.
    pub upto: Option<u64>,
}

/// What a compaction keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactSession {
    /// Number of newest messages to keep, with the records between them. More are kept if the cut would fall within a
    /// turn.
    pub keep: u64,
    /// Summary of the removed messages; none uses their count as the summary.
    pub summary: Option<String>,
}

/// Preconditions of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// Epoch of the lease under which the caller works.
    pub epoch: Option<u64>,
    /// Number of the last record that the caller has seen.
    pub expected: Option<u64>,
    /// Epoch of a lease whose holder is known to be dead. That lease does not block the change.
    pub dead: Option<u64>,
}

/// The process that wants a session's lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// When that process started, as the kernel counts it.
    pub started: u64,
    /// The boot in which both mean something.
    pub boot: String,
}

/// Result of a command on a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDone {
    /// The workspace of the session.
    #[serde(with = "as_text::key")]
    pub workspace: WorkspaceKey,
    /// The session that was changed.
    #[serde(with = "as_text")]
    pub id: SessionId,
    /// The session as it is now, or as it was before its removal.
    pub row: WorkspaceSession,
    /// What the command did.
    pub what: SessionOutcome,
}

/// Outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionOutcome {
    /// The change was made.
    Changed,
    /// It was already so.
    Unchanged,
    /// Messages were removed from the current revision. The previous revision still has them.
    Shortened {
        /// How many messages.
        removed: u64,
    },
    /// An agent's session was copied.
    Copied {
        /// Messages that were not copied because they precede the copied ones.
        left_out: u64,
        /// Copied messages whose text has been removed by retention.
        expired: u64,
    },
    /// The lease was acquired.
    Leased {
        /// Epoch of the lease.
        epoch: u64,
    },
    /// It is gone.
    Purged {
        /// Whether rows remain; their removal continues automatically.
        more: bool,
    },
}

/// Why a command on a session was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum SessionRefusal {
    /// The session does not exist.
    #[error("session not found: {session}")]
    NotFound {
        /// What was asked for.
        session: String,
    },
    /// It is an agent's session.
    #[error("{session} is a conversation of an agent: it grows by messages only")]
    IsChat { session: SessionId },
    /// It has changed since the caller read it.
    #[error("session {session} has {found} records, not {expected}: another process has written to it")]
    Changed {
        session: String,
        /// What the caller expected.
        expected: u64,
        /// Its actual number of records.
        found: u64,
    },
    /// Another process holds the lease, or has held it since.
    #[error("session {session} is held by process {pid} under lease {epoch}")]
    Held {
        session: String,
        /// Who holds it.
        pid: u32,
        /// Under which lease.
        epoch: u64,
    },
    /// The caller's lease has ended.
    #[error("lease {given} of session {session} has ended: the newest one is {newest}")]
    LeaseOver {
        session: String,
        /// The caller's.
        given: u64,
        newest: u64,
    },
    /// It is in use, and the command would remove it.
    #[error("session {session} is in use by process {pid}")]
    Active {
        session: String,
        /// Who uses it.
        pid: u32,
    },
    /// A session with that id already exists.
    #[error("session {session} already exists in this workspace")]
    Exists { session: String },
    /// Too many records at once.
    #[error("{given} records at once are too many: at most {max} are accepted")]
    TooMany {
        given: u64,
        /// How many may be.
        max: u64,
    },
    /// A record that the store cannot hold.
    #[error("record {number} has {bytes} bytes: at most {max} are accepted")]
    TooLarge {
        number: u64,
        bytes: u64,
        /// The largest size.
        max: u64,
    },
    /// It has no such record.
    #[error("session {session} has {found} records: it cannot be forked at {wanted}")]
    NoSuchRecord {
        session: String,
        wanted: u64,
        /// Its actual number of records.
        found: u64,
    },
    /// It is not in the trash.
    #[error("session {session} is not in the trash")]
    NotInTrash { session: String },
    /// The workspace does not exist, or its directory was replaced.
    #[error("workspace {workspace} no longer exists")]
    NoWorkspace { workspace: String },
    /// The directory cannot be used as a workspace as it is.
    #[error("{}", .0.message)]
    Workspace(Refusal),
    /// An invalid title, model or branch name.
    #[error("a {what} has 1 to {max} characters in one line")]
    BadName {
        /// The kind of name: a title, a model, a branch.
        what: &'static str,
        /// The most characters.
        max: usize,
    },
}

impl SessionRefusal {
    /// A word for programs.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "session_not_found",
            Self::IsChat { .. } => "session_of_agent",
            Self::Changed { .. } | Self::Held { .. } | Self::LeaseOver { .. } => "concurrent_modification",
            Self::Active { .. } => "active_session_protected",
            Self::Exists { .. } => "session_exists",
            Self::TooMany { .. } => "too_many_records",
            Self::TooLarge { .. } => "record_too_large",
            Self::NoSuchRecord { .. } => "no_such_record",
            Self::NotInTrash { .. } => "session_not_in_trash",
            Self::NoWorkspace { .. } => "workspace_missing",
            Self::Workspace(refusal) => refusal.code,
            Self::BadName { what: "title", .. } => "invalid_title",
            Self::BadName { .. } => "invalid_name",
        }
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NotFound { .. } => "`hearth workspace sessions list` shows the sessions of this workspace".to_owned(),
            Self::IsChat { session } => {
                format!("`hearth workspace sessions fork {session}` copies it into this workspace")
            }
            Self::Changed { .. } => "read it again, then decide whether to write".to_owned(),
            Self::Held { pid, .. } => {
                format!("wait until process {pid} releases it, or fork it; a lease of a dead process is ignored")
            }
            Self::LeaseOver { .. } => "stop writing: another process has taken over the session".to_owned(),
            Self::Active { pid, .. } => format!("end process {pid} or let it switch to another session first"),
            Self::Exists { .. } => "choose another id, or omit it".to_owned(),
            Self::TooMany { max, .. } => format!("give at most {max} at a time"),
            Self::TooLarge { .. } => "split it, or put the content into a file and refer to the file".to_owned(),
            Self::NoSuchRecord { .. } => "`hearth workspace sessions show` numbers the records".to_owned(),
            Self::NotInTrash { .. } => "`hearth workspace sessions list --trash` shows what is".to_owned(),
            Self::NoWorkspace { .. } | Self::Workspace(_) => {
                "`hearth workspace status` shows the state of this directory".to_owned()
            }
            Self::BadName { what: "title", .. } => "shorten it; `--clear` removes the title".to_owned(),
            Self::BadName { .. } => "shorten it, or omit it".to_owned(),
        }
    }

    /// Whether it is safe to read the session again and retry; none if the question does not apply.
    #[must_use]
    pub const fn retry_safe(&self) -> Option<bool> {
        match self {
            Self::Changed { .. } | Self::Held { .. } => Some(true),
            Self::LeaseOver { .. } => Some(false),
            _ => None,
        }
    }
}
