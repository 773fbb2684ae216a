//! What people decide about hosts that agents want to reach.

use serde::{Deserialize, Serialize};

use super::approval::Decider;
use super::host::Endpoint;
use super::id::{AgentId, SessionId};
use super::time::{Millis, Timestamp};

/// How long a host is allowed that is allowed once.
pub const ONCE: Millis = Millis::minutes(60);

/// A host that an agent wants to reach, and about which a person is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRequest {
    /// The session whose agent wants it.
    pub session: SessionId,
    /// The agent that wants to connect.
    pub agent: AgentId,
    /// The host and port.
    pub to: Endpoint,
    /// Whether it is in the local network, as far as the name tells.
    pub local: bool,
}

/// Hosts that an agent wants to reach, about which a person is asked with one card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostsRequest {
    /// The agent that wants to connect.
    pub agent: AgentId,
    /// The hosts in the order in which they were wanted, each once. Grows until the card is sent.
    pub hosts: Vec<HostRequest>,
}

/// The decision of a person about a host and an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostGrant {
    /// The host and port.
    pub to: Endpoint,
    /// What was decided.
    pub decision: HostDecision,
    /// The person who decided last.
    pub by: Decider,
    /// Time of the decision.
    pub at: Timestamp,
}

/// A decision about a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostDecision {
    /// It is allowed in these sessions for a while.
    Once(Vec<HostPass>),
    /// It is allowed until the decision is revoked.
    Always,
    /// It is refused until the decision is revoked.
    Never,
}

/// A session in which a host is allowed for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPass {
    /// The session whose run may connect.
    pub session: SessionId,
    /// When it ends.
    pub until: Timestamp,
}

impl HostDecision {
    /// The word for people and programs.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Once(_) => "once",
            Self::Always => "always",
            Self::Never => "never",
        }
    }

    /// When it next ends in a session; none if it stands until it is revoked.
    #[must_use]
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Once(passes) => passes.iter().map(|pass| pass.until).min(),
            Self::Always | Self::Never => None,
        }
    }
}

/// When the people who decide about an agent were last told that it wants more hosts than they are asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFlood {
    /// Time at which people were told.
    pub told: Timestamp,
}
