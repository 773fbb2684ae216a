//! What holds for one thread of a chat and one agent: it goes on listening, or it must not be woken.

use serde::{Deserialize, Serialize};

use super::address::Address;
use super::content::RawJson;
use super::time::Timestamp;

/// A thread in which an agent was addressed and goes on listening. Nothing but a real engagement makes one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sticky {
    /// Which thread; without one, what is said outside of threads: everything, in chats that have none.
    pub address: Address,
    /// Since when.
    pub since: Timestamp,
    /// Until when, unless it is engaged again before.
    pub until: Timestamp,
}

/// A thread that does not wake an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mute {
    /// Which thread; without one, the whole chat with its threads.
    pub address: Address,
    /// What was noted with it: any JSON value.
    pub note: RawJson,
    /// Since when.
    pub since: Timestamp,
}
