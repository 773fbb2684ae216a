//! The record of agents' connections.

use serde::{Deserialize, Serialize};

use super::host::Endpoint;
use super::id::{AgentId, MessageId, SessionId};
use super::network::{NetVerdict, SeenRequest};
use super::time::Timestamp;

/// Connections of a run to one host during one turn, with the same verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The agent that asked for the connection.
    pub agent: AgentId,
    /// The session that the agent ran for.
    pub session: SessionId,
    /// The run that asked for it.
    pub incarnation: u32,
    /// The message that the agent worked on.
    pub message: Option<MessageId>,
    /// Where they went; none stands for all hosts after the first ones of a turn.
    pub to: Option<Endpoint>,
    /// Allowed by which rule, or refused why.
    pub verdict: NetVerdict,
    /// The request, of connections that are opened.
    pub request: Option<SeenRequest>,
    /// When the first one began.
    pub began: Timestamp,
    /// When the last one ended.
    pub ended: Timestamp,
    /// Number of connections.
    pub count: u64,
    /// Bytes that the agent sent.
    pub up: u64,
    /// Bytes that it received.
    pub down: u64,
}

impl Connection {
    /// Adds connections of the same kind.
    pub fn add(&mut self, other: &Self) {
        self.began = self.began.min(other.began);
        self.ended = self.ended.max(other.ended);
        self.count = self.count.saturating_add(other.count);
        self.up = self.up.saturating_add(other.up);
        self.down = self.down.saturating_add(other.down);
    }

    /// Whether connections differ only in times and amounts.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let key = |of: &Self| (of.session, of.incarnation, of.message);
        key(self) == key(other) && self.to == other.to && self.verdict == other.verdict && self.request == other.request
    }
}
