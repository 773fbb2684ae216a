//! Scheduled work: a task is a series of occurrences, each identified by (series, slot).

use serde::{Deserialize, Serialize};

use super::address::Address;
use super::id::{AgentId, MessageId, SessionId, TaskId};
use super::time::{Millis, Timestamp};
use super::workspace::Fingerprint;

/// When a task comes again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recurrence {
    /// It does not.
    Once,
    /// At the times of a cron expression, in the zone of the agent's people. Checked when it was set.
    Cron(String),
    /// Every so often, on a grid that begins at the task's anchor.
    Every(Millis),
}

/// What happens to slots that passed while nothing could run: Hearth or the machine was off or asleep, or the task was
/// paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Missed {
    /// The newest one runs, the others are skipped.
    #[default]
    RunOnce,
    /// They are skipped.
    Skip,
    /// The newest ones run, at most so many.
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
                format!("`{text}` is not known; write once, skip, or all:N with N from 1 to {}", Self::ALL_MAX)
            }),
        }
    }
}

impl Missed {
    /// Most slots that are made up for; all of them are messages of one transaction.
    pub const ALL_MAX: u32 = 100;
}

/// What happens to a slot that comes while an earlier occurrence still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Overlap {
    /// It is skipped.
    #[default]
    Refuse,
    /// It waits, one at a time; a newer one takes the place of one that waits.
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
            text => Err(format!("`{text}` is not known; write refuse or queue")),
        }
    }
}

/// Where the occurrences of a task run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskHome {
    /// In a conversation.
    Session(SessionId),
    /// In the agent's session for work that belongs to no conversation.
    Maintenance,
}

/// Whether a task goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskState {
    /// It does.
    Active,
    /// Not until it is resumed. An occurrence that runs goes on, and one that waits for its end follows it.
    Paused,
    /// There is no further occurrence.
    Done,
    /// Somebody ended it, or its agent was removed.
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

    /// Whether anything may still come of it.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Active | Self::Paused)
    }
}

/// Who made a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskOrigin {
    /// The agent, in this session.
    Agent(SessionId),
    /// A command.
    Operator,
    /// Another host, where it had a name with this digest. The same name is never made twice.
    Imported(u64),
}

impl TaskOrigin {
    /// Of a task that had this name elsewhere.
    #[must_use]
    pub fn imported(name: &str) -> Self {
        Self::Imported(Fingerprint::of_path(name.as_bytes()).number())
    }
}

/// A series with exactly one future occurrence while it is active.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Whose.
    pub agent: AgentId,
    /// Where it runs.
    pub home: TaskHome,
    /// What the agent is told.
    pub prompt: String,
    /// A shell script that runs before the agent is woken, and decides whether it is.
    pub script: Option<String>,
    /// Where answers go when the agent does not say; none is the session's own.
    pub reply: Option<Address>,
    /// When it comes again.
    pub recurrence: Recurrence,
    /// First slot; the grid of [`Recurrence::Every`] begins here.
    pub anchor: Timestamp,
    /// What becomes of slots that passed unused.
    pub missed: Missed,
    /// What becomes of slots that come too early.
    pub overlap: Overlap,
    /// Whether it goes on.
    pub state: TaskState,
    /// The one future occurrence, or the one that a pause keeps; none when it is over.
    pub next: Option<Timestamp>,
    /// The occurrence that runs.
    pub running: Option<MessageId>,
    /// A slot that waits until it is over.
    pub queued: Option<Timestamp>,
    /// Occurrences in a row that failed.
    pub failures: u32,
    /// Who made it.
    pub origin: TaskOrigin,
    /// When.
    pub created: Timestamp,
    /// When it was last changed by somebody.
    pub changed: Timestamp,
}

impl Task {
    /// The slot that the index of due tasks has for it.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        self.next.filter(|_| self.state == TaskState::Active)
    }
}

/// Why a slot was not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipReason {
    /// It passed while nothing could run: Hearth or the machine was off, or the task was paused.
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
pub struct Slot {
    /// The series.
    pub task: TaskId,
    /// The time it is for; not when it ran.
    pub at: Timestamp,
}

/// Why a task's agent was not woken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gated {
    /// In words.
    pub why: String,
    /// The script failed, instead of deciding so.
    pub failed: bool,
}

/// What became of a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FireOutcome {
    /// Its message waits or is worked on.
    Running(MessageId),
    /// The agent did it.
    Done(MessageId),
    /// The task's script decided that there is nothing to do.
    Gated(MessageId, String),
    /// The task's script failed, and the agent was not woken.
    ScriptFailed(MessageId, String),
    /// It failed, and somebody was told.
    Failed(MessageId, String),
    /// It was not used, nor any slot of the series after it up to and including `until` that has no record of its own.
    Skipped {
        /// Why.
        reason: SkipReason,
        /// The last one of these slots; where a clock that was ahead had skipped more of them, the time to which it was
        /// set back.
        until: Timestamp,
        /// How many they are, if that is known.
        count: Option<u32>,
    },
    /// It waits for an earlier occurrence to be over; or it is due, and the times of the task are others by now.
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

/// One slot of a series, or a run of slots that were skipped together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fire {
    /// When that was decided.
    pub at: Timestamp,
    /// Zone in which the slot was found.
    pub zone: String,
    /// What became of it.
    pub outcome: FireOutcome,
}

/// Everything that a new task says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTask {
    /// Whose.
    pub agent: AgentId,
    /// Where it runs.
    pub home: TaskHome,
    /// What the agent is told.
    pub prompt: String,
    /// A script that runs first.
    pub script: Option<String>,
    /// Where answers go, if not where the session's go.
    pub reply: Option<Address>,
    /// First slot, as it was typed: local to the agent's people unless it names an offset. None is the first slot of the
    /// recurrence.
    pub first: Option<String>,
    /// When it comes again, as it was typed: a cron expression or an interval such as `90m`.
    pub recurrence: Option<String>,
    /// What becomes of slots that passed unused.
    pub missed: Missed,
    /// What becomes of slots that come too early.
    pub overlap: Overlap,
    /// Who makes it.
    pub origin: TaskOrigin,
}

/// What is to be different about a task; what is none stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskChange {
    /// What the agent is told.
    pub prompt: Option<String>,
    /// A script, or none any more.
    pub script: Option<Option<String>>,
    /// The next slot, as it was typed.
    pub next: Option<String>,
    /// When it comes again, as it was typed; or not any more after the next slot.
    pub recurrence: Option<Option<String>>,
    /// What becomes of slots that passed unused.
    pub missed: Option<Missed>,
    /// What becomes of slots that come too early.
    pub overlap: Option<Overlap>,
}

/// What somebody wants done with tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskCommand {
    /// Make one.
    Add(Box<NewTask>),
    /// Make one that rests until it is resumed.
    AddPaused(Box<NewTask>),
    /// Change one that is not over.
    Set(TaskId, Box<TaskChange>),
    /// Let none of its slots be used until it is resumed. One that was used already and waits for a run to end still runs.
    Pause(TaskId),
    /// Go on; a slot that passed meanwhile is due at once.
    Resume(TaskId),
    /// End it. What runs, runs to its end.
    Cancel(TaskId),
    /// Use a slot now, besides those it has.
    Run(TaskId),
}
