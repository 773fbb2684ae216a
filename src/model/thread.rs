//! State of one thread for one agent: followed or muted.

use serde::{Deserialize, Serialize};

use super::address::Address;
use super::content::RawJson;
use super::time::Timestamp;

/// A thread that an agent follows because it was addressed there. Only a real engagement creates one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sticky {
    /// The thread. Without one: everything outside of threads, which is everything in chats that have none.
    pub address: Address,
    /// Time since which the agent follows it.
    pub since: Timestamp,
    /// When it ends, unless the agent is engaged again before.
    pub until: Timestamp,
}

/// A thread that does not wake an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mute {
    /// The thread. Without one: the whole chat with all its threads.
    pub address: Address,
    /// Note: any JSON value.
    pub note: RawJson,
    /// Time of the mute.
    pub since: Timestamp,
}
