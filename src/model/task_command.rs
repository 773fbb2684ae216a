//! Commands about scheduled tasks.

use serde::{Deserialize, Serialize};

use super::address::Address;
use super::as_text;
use super::id::{AgentId, TaskId};
use super::task::{Missed, Overlap, TaskHome, TaskOrigin};

/// Parameters of a new task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTask {
    /// The agent that does it.
    #[serde(with = "as_text")]
    pub agent: AgentId,
    /// Where it runs.
    #[serde(with = "as_text", default)]
    pub home: TaskHome,
    /// The prompt for the agent.
    pub prompt: String,
    /// A script that runs first.
    #[serde(default)]
    pub script: Option<String>,
    /// Destination of answers, if not the session's.
    #[serde(default)]
    pub reply: Option<Address>,
    /// First occurrence as typed: local to the agent's users unless it has an offset. None is the first occurrence of
    /// the recurrence.
    #[serde(default)]
    pub first: Option<String>,
    /// Recurrence as typed: a cron expression or an interval such as `90m`.
    #[serde(default)]
    pub recurrence: Option<String>,
    /// What happens to missed occurrences.
    #[serde(with = "as_text", default)]
    pub missed: Missed,
    /// What happens to occurrences that come while an earlier occurrence still runs.
    #[serde(with = "as_text", default)]
    pub overlap: Overlap,
    /// Its creator. Clients create tasks of operators and imported ones only.
    #[serde(with = "client_origin", default = "operator")]
    pub origin: TaskOrigin,
    /// Patterns of tool calls that no one is asked about in its runs. Only the operator allows them.
    #[serde(default)]
    pub allow: Vec<String>,
}

/// Change of a setting that may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Patch<T> {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is removed.
    Clear,
    /// It gets this value.
    Set(T),
}

/// Changes to a task. Fields that are `None` stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskChange {
    /// The prompt for the agent.
    pub prompt: Option<String>,
    /// The script that runs first.
    pub script: Patch<String>,
    /// Destination of answers. Without one, it is the session's.
    pub reply: Patch<Address>,
    /// The next occurrence as typed.
    pub next: Option<String>,
    /// The recurrence as typed. Without one, the task ends after the next occurrence.
    pub recurrence: Patch<String>,
    /// What happens to missed occurrences.
    #[serde(with = "as_text::option")]
    pub missed: Option<Missed>,
    /// What happens to occurrences that come while an earlier occurrence still runs.
    #[serde(with = "as_text::option")]
    pub overlap: Option<Overlap>,
}

/// A command about tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskCommand {
    /// Create a task.
    Add(Box<NewTask>),
    /// Create a paused task.
    AddPaused(Box<NewTask>),
    /// Change a task that has not ended.
    Set(#[serde(with = "as_text")] TaskId, Box<TaskChange>),
    /// Pause it. An occurrence that is already queued behind a running occurrence still runs.
    Pause(#[serde(with = "as_text")] TaskId),
    /// Resume it. An occurrence that passed during the pause is due at once.
    Resume(#[serde(with = "as_text")] TaskId),
    /// Cancel it. A running occurrence finishes.
    Cancel(#[serde(with = "as_text")] TaskId),
    /// Run it now, in addition to its schedule.
    Run(#[serde(with = "as_text")] TaskId),
}

impl TaskCommand {
    /// Checks what the types do not express.
    ///
    /// # Errors
    /// For a change that changes nothing.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Set(_, change) if **change == TaskChange::default() => {
                Err("nothing to change: give at least one option, such as --cron".to_owned())
            }
            _ => Ok(()),
        }
    }
}

const fn operator() -> TaskOrigin {
    TaskOrigin::Operator
}

/// Origins that a client can give a task: the digest of its name on another host, or null.
mod client_origin {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::TaskOrigin;

    pub(super) fn serialize<S: Serializer>(origin: &TaskOrigin, serializer: S) -> Result<S::Ok, S::Error> {
        match origin {
            TaskOrigin::Imported(digest) => Some(*digest).serialize(serializer),
            TaskOrigin::Operator => None::<u64>.serialize(serializer),
            TaskOrigin::Agent(_) => Err(serde::ser::Error::custom("agents create tasks on their own")),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TaskOrigin, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(TaskOrigin::Operator, TaskOrigin::Imported))
    }
}
