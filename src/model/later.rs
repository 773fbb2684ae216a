//! Records of tables that nothing writes: skip summaries, session-state fields. They have
//! their place in the one list of tables from the beginning, so that keys and
//! references stay stable; their fields may still change until store format 1 is frozen.

use serde::{Deserialize, Serialize};

use super::content::RawJson;
use super::id::AgentId;
use super::time::Timestamp;

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
