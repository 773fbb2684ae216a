//! Records of the tables whose transactions are not built yet: approvals, questions, tasks, fires, skip summaries, muted
//! threads, session-state fields. They have their place in the one list of tables from the beginning, so that keys and
//! references stay stable; their fields may still change until store format 1 is frozen.

use serde::{Deserialize, Serialize};

use super::address::{Address, UserId};
use super::content::RawJson;
use super::id::{AgentId, ChatId, SessionId};
use super::time::Timestamp;

/// Something somebody has to decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The agent it is about.
    pub agent: Option<AgentId>,
    /// The chat it is about.
    pub chat: Option<ChatId>,
    /// The person it is about.
    pub subject: Option<UserId>,
    /// Who was asked.
    pub approver: UserId,
    /// Unguessable part of the card's buttons.
    pub nonce: u64,
    /// When it lapses.
    pub expires: Timestamp,
    /// When it was made.
    pub created: Timestamp,
}

/// A question an agent asked a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Who asks.
    pub session: SessionId,
    /// Incarnation that waits for the answer.
    pub incarnation: u32,
    /// Name of the answer's file.
    pub request: String,
    /// Card title.
    pub title: String,
    /// Labels and values of the options.
    pub options: Vec<(String, String)>,
    /// When it lapses.
    pub expires: Timestamp,
    /// When it was made.
    pub created: Timestamp,
}

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

/// A thread that does not wake an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mute {
    /// Which thread.
    pub address: Address,
    /// What was noted with it: any JSON value.
    pub note: RawJson,
    /// Since when.
    pub since: Timestamp,
}

/// One field of an agent group's session-state file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateField {
    /// Its value.
    pub value: RawJson,
    /// When it last changed.
    pub changed: Timestamp,
}
