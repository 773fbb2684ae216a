//! Rate limits of providers.

use serde::{Deserialize, Serialize};

use super::time::{Awake, Timestamp};

/// Rate limit of an agent's provider: the agent gets no work until it ends. The row stays until a turn of the agent
/// succeeds; after the end of the wait, one session of the agent at a time is tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    /// No work before this.
    pub until: Awake,
    /// Since when, by the wall clock, for people.
    pub since: Timestamp,
    /// The end by the wall clock, for people; correct if the machine stays awake.
    pub again: Timestamp,
    /// Rate-limit replies in a row.
    pub waits: u32,
    /// The provider's message.
    pub why: String,
}
