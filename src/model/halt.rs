//! Stops and freezes that people ask for.

use serde::{Deserialize, Serialize};

use super::address::{Address, UserId};
use super::id::MessageId;
use super::time::Timestamp;

/// A turn that a person stopped. Its messages have ended. The row stays until the run is gone and the people who wait
/// for an answer have been told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoppedTurn {
    /// Who stopped it; none is the operator of this machine.
    pub by: Option<UserId>,
    /// Time of the stop.
    pub at: Timestamp,
    /// The messages that ended with it.
    pub messages: Vec<MessageId>,
    /// Where people are told.
    pub tell: Vec<Address>,
}

/// A frozen agent: it gets no work until a person unfreezes it. Its messages wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freeze {
    /// Who froze it; none is the operator of this machine.
    pub by: Option<UserId>,
    /// Time since which the agent is frozen.
    pub at: Timestamp,
}
