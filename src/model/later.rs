//! Records of tables that nothing writes: tasks, fires, skip summaries, session-state fields. They have
//! their place in the one list of tables from the beginning, so that keys and
//! references stay stable; their fields may still change until store format 1 is frozen.

use serde::{Deserialize, Serialize};

use super::content::RawJson;
use super::id::{AgentId, SessionId};
use super::time::Timestamp;

/// A scheduled task: a series with exactly one future occurrence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Whose.
    pub session: SessionId,
    /// What the agent is told.
    pub prompt: String,
    /// Cron text or interval; none for one-shots.
    pub recurrence: Option<String>,
    /// When it is due next; none while paused or over.
    pub next: Option<Timestamp>,
    /// When it was made.
    pub created: Timestamp,
}

/// One occurrence of a task, identified by (series, slot).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fire {
    /// When it was fired.
    pub at: Timestamp,
    /// Zone that was used to compute the slot.
    pub zone: String,
    /// Why it was skipped, if it was.
    pub skipped: Option<String>,
}

/// A skip summary of an agent group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipSummary {
    /// Whose.
    pub agent: AgentId,
    /// The summary as it was written.
    pub summary: RawJson,
    /// When it was taken in.
    pub taken: Timestamp,
    /// When it was shown.
    pub surfaced: Option<Timestamp>,
}

/// One field of an agent group's session-state file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateField {
    /// Its value.
    pub value: RawJson,
    /// When it last changed.
    pub changed: Timestamp,
}
