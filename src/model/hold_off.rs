//! Providers that limit requests.

use serde::{Deserialize, Serialize};

use super::time::{Awake, Timestamp};

/// Why and until when an agent gets no work. It is kept when its time is over, until a turn of the agent succeeds: until
/// then one session of it at a time is tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldOff {
    /// No work before this.
    pub until: Awake,
    /// Since when, by the wall clock, for people.
    pub since: Timestamp,
    /// The end by the wall clock, for people, if the machine stays awake.
    pub again: Timestamp,
    /// How often in a row the provider said that it limits requests.
    pub waits: u32,
    /// In the provider's words.
    pub why: String,
}
