//! What can be done with workspace sessions, and what became of it.

use super::id::SessionId;
use super::record::SessionRecord;
use super::report::Refusal;
use super::session::{SessionLabel, SessionSource, WorkspaceSession};
use super::time::Timestamp;
use super::workspace::{WorkspaceKey, WorkspaceSight};

/// One thing to do with a workspace session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionCommand {
    /// Make one.
    Create(Box<NewSession>),
    /// Add records at its end.
    Append(SessionId, Vec<SessionRecord>, Guard),
    /// Make another one that begins with what is in it.
    Fork(Box<ForkSession>),
    /// Begin anew in the same session; what was said is kept as an earlier revision.
    Clear(SessionId, Guard),
    /// Leave out all but the newest; what was said is kept as an earlier revision.
    Compact(SessionId, CompactSession, Guard),
    /// Give it a title, or take it away.
    Rename(SessionId, Option<String>),
    /// Make it the one that is resumed when none is named.
    Switch(SessionId),
    /// Put it into the trash.
    Delete(SessionId, Guard),
    /// Take it out of the trash.
    Restore(SessionId),
    /// Remove it for good.
    Purge(SessionId, Guard),
    /// Say who works on it.
    Take(SessionId, Holder, Guard),
    /// Its holder is alive.
    Beat(SessionId, u64),
    /// Its holder is done with it.
    Release(SessionId, u64),
}

/// The workspace of a new session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Home {
    /// This one.
    Known(WorkspaceKey),
    /// The one of this directory, which is made if there is none.
    Seen(Box<WorkspaceSight>),
}

/// A new session of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// Where.
    pub home: Home,
    /// Its id; none lets the store choose one.
    pub label: Option<SessionLabel>,
    /// How it is called.
    pub title: Option<String>,
    /// What it talks to.
    pub model: Option<String>,
    /// When it was begun and last changed, as its source says; none is now.
    pub times: Option<(Timestamp, Timestamp)>,
    /// Where it was taken in from.
    pub source: Option<SessionSource>,
    /// Its first records.
    pub records: Vec<SessionRecord>,
}

/// A session that begins like another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkSession {
    /// The other one: of a workspace, or an agent's.
    pub parent: SessionId,
    /// Where the new one is. In another workspace than the parent's it is a hand-over, which both note.
    pub home: Home,
    /// Its id; none lets the store choose one.
    pub label: Option<SessionLabel>,
    /// Name of the branch; nothing but blanks is none.
    pub branch: Option<String>,
    /// Only up to this record; none is all of it.
    pub upto: Option<u64>,
}

/// How much of a session is left when it is made shorter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactSession {
    /// The newest messages that stay, and what came with them; more where they would begin within a turn.
    pub keep: u64,
    /// What the others said, in short; none lets the count of them speak.
    pub summary: Option<String>,
}

/// What has to hold for a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Guard {
    /// Epoch of the lease under which the caller works.
    pub epoch: Option<u64>,
    /// Number of the last record that the caller has seen.
    pub expected: Option<u64>,
    /// Epoch of a lease whose holder is dead beyond doubt: it stands in nobody's way.
    pub dead: Option<u64>,
}

/// Who wants to work on a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// When that process started, as the kernel counts it.
    pub started: u64,
    /// The boot in which both mean something.
    pub boot: String,
}

/// What was done with a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionDone {
    /// The workspace it is in.
    pub workspace: WorkspaceKey,
    /// Which.
    pub id: SessionId,
    /// As it is now, or was before it was removed.
    pub row: WorkspaceSession,
    /// What came of it.
    pub what: SessionOutcome,
}

/// What came of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOutcome {
    /// It is as was wanted.
    Changed,
    /// It was so before.
    Unchanged,
    /// Messages went out of the current revision; they are kept in the one before.
    Shortened {
        /// How many messages.
        removed: u64,
    },
    /// An agent's session was copied.
    Copied {
        /// Messages before those that were copied.
        left_out: u64,
        /// Messages whose text is not kept any more.
        expired: u64,
    },
    /// It is held.
    Leased {
        /// Epoch of the lease.
        epoch: u64,
    },
    /// It is gone.
    Purged {
        /// Whether rows of it are left to remove, which goes on by itself.
        more: bool,
    },
}

/// Why something was not done with a session. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionRefusal {
    /// There is none.
    #[error("session not found: {session}")]
    NotFound {
        /// What was asked for.
        session: String,
    },
    /// It is an agent's.
    #[error("{session} is a conversation of an agent: it grows by messages only")]
    IsChat {
        /// Which.
        session: SessionId,
    },
    /// It is another one than the caller thought.
    #[error("session {session} has {found} records, not {expected}: somebody else has written to it")]
    Changed {
        /// Which.
        session: String,
        /// What the caller thought.
        expected: u64,
        /// What is there.
        found: u64,
    },
    /// Somebody else holds it, or held it since.
    #[error("session {session} is held by process {pid} under lease {epoch}")]
    Held {
        /// Which.
        session: String,
        /// Who holds it.
        pid: u32,
        /// Under which lease.
        epoch: u64,
    },
    /// The caller's lease is over.
    #[error("lease {given} of session {session} is over: the newest one is {newest}")]
    LeaseOver {
        /// Which.
        session: String,
        /// The caller's.
        given: u64,
        /// The newest.
        newest: u64,
    },
    /// It is in use and would go.
    #[error("session {session} is in use by process {pid}")]
    Active {
        /// Which.
        session: String,
        /// Who uses it.
        pid: u32,
    },
    /// There is one of that id.
    #[error("there is a session {session} in this workspace already")]
    Exists {
        /// Which.
        session: String,
    },
    /// Too many records at once.
    #[error("{given} records at once are too many: at most {max} are taken")]
    TooMany {
        /// How many.
        given: u64,
        /// How many may be.
        max: u64,
    },
    /// A record that the store cannot hold.
    #[error("record {number} has {bytes} bytes: at most {max} are taken")]
    TooLarge {
        /// Which, from 1.
        number: u64,
        /// Its size.
        bytes: u64,
        /// The largest size.
        max: u64,
    },
    /// It has no such record.
    #[error("session {session} has {found} records: it cannot be forked at {wanted}")]
    NoSuchRecord {
        /// Which.
        session: String,
        /// The record.
        wanted: u64,
        /// What is there.
        found: u64,
    },
    /// It is not in the trash.
    #[error("session {session} is not in the trash")]
    NotInTrash {
        /// Which.
        session: String,
    },
    /// The workspace is not there, or stands for a directory that was replaced.
    #[error("workspace {workspace} is not there any more")]
    NoWorkspace {
        /// Its name.
        workspace: String,
    },
    /// The directory cannot be used as a workspace as it is.
    #[error("{}", .0.message)]
    Workspace(Refusal),
    /// A title that cannot be one.
    #[error("a {what} has 1 to {max} characters in one line")]
    BadName {
        /// What it was to be: a title, a model, a branch.
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
            Self::NotFound { .. } => "`hearth session list` shows the sessions of this workspace".to_owned(),
            Self::IsChat { session } => {
                format!("`hearth session fork {session}` makes a session of this workspace of it")
            }
            Self::Changed { .. } => "read it again, then decide whether to write".to_owned(),
            Self::Held { pid, .. } => {
                format!(
                    "wait until process {pid} lets go of it, or fork it; a lease of a dead process is in nobody's way"
                )
            }
            Self::LeaseOver { .. } => "stop writing: somebody else has taken the session over".to_owned(),
            Self::Active { pid, .. } => format!("end process {pid} or let it switch to another session first"),
            Self::Exists { .. } => "choose another id, or leave it out".to_owned(),
            Self::TooMany { max, .. } => format!("give at most {max} at a time"),
            Self::TooLarge { .. } => "split it, or keep the content in a file and name that".to_owned(),
            Self::NoSuchRecord { .. } => "`hearth session show` numbers the records".to_owned(),
            Self::NotInTrash { .. } => "`hearth session list --trash` shows what is".to_owned(),
            Self::NoWorkspace { .. } | Self::Workspace(_) => {
                "`hearth workspace status` says what is known of this directory".to_owned()
            }
            Self::BadName { what: "title", .. } => "shorten it; `--clear` takes the title away".to_owned(),
            Self::BadName { .. } => "shorten it, or leave it out".to_owned(),
        }
    }

    /// Whether it does no harm to look again and try again; none where that is no question.
    #[must_use]
    pub const fn retry_safe(&self) -> Option<bool> {
        match self {
            Self::Changed { .. } | Self::Held { .. } => Some(true),
            Self::LeaseOver { .. } => Some(false),
            _ => None,
        }
    }
}
