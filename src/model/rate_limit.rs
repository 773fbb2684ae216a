//! Rate limits of providers.

use serde::{Deserialize, Serialize};

use super::time::{Awake, Timestamp};

/// Why an agent's provider takes no requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitCause {
    /// It limits them: a rate limit or an overload.
    Limited,
    /// It cannot be reached: this machine is offline, or the server is down.
    Unreachable,
}

impl LimitCause {
    /// Its name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Limited => "limited",
            Self::Unreachable => "unreachable",
        }
    }
}

/// Rate limit of an agent's provider, or that it cannot be reached: the agent gets no work until it ends. The row stays until a turn of the agent
/// succeeds; after the end of the wait, one session of the agent at a time is tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    /// No work before this.
    pub until: Awake,
    /// Since when, by the wall clock, for people.
    pub since: Timestamp,
    /// The end by the wall clock, for people; correct if the machine stays awake.
    pub again: Timestamp,
    /// Failed tries in a row.
    pub waits: u32,
    /// The provider's message.
    pub why: String,
    /// Why it takes no requests.
    pub cause: LimitCause,
}
