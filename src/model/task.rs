//! Scheduled tasks. A task is a series of occurrences, each identified by its series and time.

use serde::{Deserialize, Serialize};

use super::address::Address;
use super::id::{AgentId, MessageId, SessionId, TaskId};
use super::time::{Millis, Timestamp};
use super::workspace::Fingerprint;

/// Recurrence of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recurrence {
    /// Runs once.
    Once,
    /// At the times of a cron expression, in the time zone of the agent's users. Validated when it is set.
    Cron(String),
    /// At a fixed interval, on a grid that starts at the task's anchor.
    Every(Millis),
}

/// What happens to missed occurrences: those that passed while Hearth or the machine was off or asleep, or the task was
/// paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Missed {
    /// The newest one runs, the others are skipped.
    #[default]
    RunOnce,
    /// All are skipped.
    Skip,
    /// The newest ones run, at most this many.
    RunAll(u32),
}

impl std::fmt::Display for Missed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RunOnce => f.write_str("once"),
            Self::Skip => f.write_str("skip"),
            Self::RunAll(most) => write!(f, "all:{most}"),
        }
    }
}

impl std::str::FromStr for Missed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let most = |text: &str| text.parse().ok().filter(|most| (1..=Self::ALL_MAX).contains(most));
        match text {
            "once" => Ok(Self::RunOnce),
            "skip" => Ok(Self::Skip),
            text => text.strip_prefix("all:").and_then(most).map(Self::RunAll).ok_or_else(|| {
                format!("`{text}` is unknown; write once, skip, or all:N with N from 1 to {}", Self::ALL_MAX)
            }),
        }
    }
}

impl Missed {
    /// Maximum number of missed occurrences that are run. All of them become messages in one transaction.
    pub const ALL_MAX: u32 = 100;
}

/// What happens to an occurrence that comes while an earlier occurrence still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Overlap {
    /// It is skipped.
    #[default]
    Refuse,
    /// It waits. At most one occurrence waits; a newer one replaces it.
    Queue,
}

impl std::fmt::Display for Overlap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Refuse => "refuse",
            Self::Queue => "queue",
        })
    }
}

impl std::str::FromStr for Overlap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "refuse" => Ok(Self::Refuse),
            "queue" => Ok(Self::Queue),
            text => Err(format!("`{text}` is unknown; write refuse or queue")),
        }
    }
}

/// Where the occurrences of a task run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TaskHome {
    /// In a conversation.
    Session(SessionId),
    /// In the agent's maintenance session, for work that belongs to no conversation.
    #[default]
    Maintenance,
}

impl std::fmt::Display for TaskHome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Session(session) => session.fmt(f),
            Self::Maintenance => f.write_str("maintenance"),
        }
    }
}

impl std::str::FromStr for TaskHome {
    type Err = super::id::BadId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "maintenance" { Ok(Self::Maintenance) } else { text.parse().map(Self::Session) }
    }
}

/// State of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskState {
    /// It runs on schedule.
    Active,
    /// Paused until it is resumed. A running occurrence continues, and an occurrence queued behind it still runs.
    Paused,
    /// It has no further occurrence.
    Done,
    /// Cancelled by a command or its agent, or its agent was removed.
    Cancelled,
}

impl TaskState {
    /// For people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether it may still run.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Active | Self::Paused)
    }
}

/// Creator of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskOrigin {
    /// The agent, in this session.
    Agent(SessionId),
    /// The command line.
    Operator,
    /// Imported from another host, where it had a name with this digest. The same name is never imported twice.
    Imported(u64),
}

impl TaskOrigin {
    /// The origin of a task that had this name on another host.
    #[must_use]
    pub fn imported(name: &str) -> Self {
        Self::Imported(Fingerprint::of_path(name.as_bytes()).number())
    }
}

/// A series with exactly one future occurrence while it is active.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The agent that does it.
    pub agent: AgentId,
    /// Where it runs.
    pub home: TaskHome,
    /// The prompt for the agent.
    pub prompt: String,
    /// A shell script that runs before the agent is woken, and decides whether it is.
    pub script: Option<String>,
    /// Default destination of answers; none is the session's own.
    pub reply: Option<Address>,
    /// Rule for the occurrences after the first.
    pub recurrence: Recurrence,
    /// First occurrence; anchor of the grid of [`Recurrence::Every`].
    pub anchor: Timestamp,
    /// What happens to missed occurrences.
    pub missed: Missed,
    /// What happens to occurrences that come while an earlier occurrence still runs.
    pub overlap: Overlap,
    /// Active, paused, or ended.
    pub state: TaskState,
    /// The one future occurrence, or the one kept during a pause; none when the task has ended.
    pub next: Option<Timestamp>,
    /// The running occurrence.
    pub running: Option<MessageId>,
    /// The occurrence that waits for the running occurrence to end.
    pub queued: Option<Timestamp>,
    /// Failed occurrences in a row.
    pub failures: u32,
    /// Who created it.
    pub origin: TaskOrigin,
    /// Time of its creation.
    pub created: Timestamp,
    /// When a command or the agent last changed it.
    pub changed: Timestamp,
}

impl Task {
    /// The task's occurrence in the index of due tasks.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        self.next.filter(|_| self.state == TaskState::Active)
    }
}

/// Why an occurrence was not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipReason {
    /// Missed: Hearth or the machine was off, or the task was paused.
    Missed,
    /// An earlier occurrence still ran.
    StillRunning,
}

impl SkipReason {
    /// For people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missed => "missed",
            Self::StillRunning => "still_running",
        }
    }
}

/// One occurrence of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Occurrence {
    /// The task that it is an occurrence of.
    pub task: TaskId,
    /// The scheduled time, not the time when it ran.
    pub at: Timestamp,
}

/// Why a task's agent was not woken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gated {
    /// In words.
    pub why: String,
    /// Whether the script failed, rather than deciding so.
    pub failed: bool,
}

/// Outcome of an occurrence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FireOutcome {
    /// Its message is waiting or in progress.
    Running(MessageId),
    /// The agent completed it.
    Done(MessageId),
    /// The task's script decided that there is nothing to do.
    Gated(MessageId, String),
    /// The task's script failed, and the agent was not woken.
    ScriptFailed(MessageId, String),
    /// It failed, and people were told.
    Failed(MessageId, String),
    /// Skipped, together with all later occurrences of the series up to and including `until` that have no record of
    /// their own.
    Skipped {
        /// Why there was no run.
        reason: SkipReason,
        /// The last of these occurrences. If a clock that was ahead had skipped more of them, the time to which it was
        /// set back.
        until: Timestamp,
        /// Number of these occurrences, if known.
        count: Option<u32>,
    },
    /// It waits for an earlier occurrence to end. Or it is due and the task's schedule has changed since.
    Queued,
}

impl FireOutcome {
    /// The word programs see.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Running(_) => "running",
            Self::Done(_) => "done",
            Self::Gated(..) => "gated",
            Self::ScriptFailed(..) => "script_failed",
            Self::Failed(..) => "failed",
            Self::Skipped { .. } => "skipped",
            Self::Queued => "queued",
        }
    }
}

/// One occurrence of a series, or a run of occurrences that were skipped together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fire {
    /// When this was decided.
    pub at: Timestamp,
    /// Time zone in which the occurrence was computed.
    pub zone: String,
    /// What happened at the occurrence.
    pub outcome: FireOutcome,
}
