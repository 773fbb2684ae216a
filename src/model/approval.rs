//! Approvals, agents' questions to people, and the messages held for a decision.

use serde::{Deserialize, Serialize};

use super::address::{Address, UserId};
use super::budget::BudgetRequest;
use super::card::CardOption;
use super::content::RawJson;
use super::entity::McpServer;
use super::host_grant::{HostRequest, HostsRequest};
use super::id::{AgentId, ChatId, OutboundId, QuestionId, SessionId};
use super::time::Timestamp;
use super::tool::ToolRequest;
use super::turn::Turn;

/// What a person decides about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApprovalSubject {
    /// An unknown sender wants to talk to agents in a chat; their messages are held. At most one open per (chat,
    /// person).
    Sender {
        /// Where the sender wrote.
        chat: ChatId,
        /// The person without access.
        sender: UserId,
        /// The sender's display name.
        name: Option<String>,
        /// Agents to which the sender has no access, in the order in which they were asked. Grows while the approval is
        /// open.
        agents: Vec<AgentId>,
    },
    /// The bot was addressed in a chat to which no agent is wired; the newest message is held. At most one open per
    /// chat.
    Channel {
        /// The chat without an agent.
        chat: ChatId,
        /// The sender who addressed the bot first. The card names them, and approval admits them.
        sender: Option<UserId>,
        /// The sender's display name.
        name: Option<String>,
    },
    /// An agent wants packages in its image.
    Packages {
        /// Session that asked.
        session: SessionId,
        /// Packages of the distribution.
        apt: Vec<String>,
        /// Packages of npm.
        npm: Vec<String>,
        /// Reason, in the agent's words.
        reason: Option<String>,
    },
    /// An agent wants another MCP server.
    McpServer {
        /// Session that asked.
        session: SessionId,
        /// The server as the agent asked for it.
        server: McpServer,
    },
    /// An agent wants another agent to exist.
    CreateAgent {
        /// Session that asked.
        session: SessionId,
        /// Name that the asking agent chose.
        name: String,
        /// First content of its instructions file.
        instructions: Option<String>,
    },
    /// A budget has no room for messages. At most one open per budget.
    Budget(BudgetRequest),
    /// An agent wants to reach a host that no rule names. At most one open per agent, host and port.
    Host(HostRequest),
    /// An agent wants to use a tool.
    Tool(Box<ToolRequest>),
    /// An agent wants to reach many hosts that no rule names. At most one per agent has a card, and at most one gathers
    /// hosts.
    Hosts(HostsRequest),
}

impl ApprovalSubject {
    /// The session whose agent asked; none if no agent did.
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::Packages { session, .. } | Self::McpServer { session, .. } | Self::CreateAgent { session, .. } => {
                Some(*session)
            }
            Self::Host(request) => Some(request.session),
            Self::Tool(request) => Some(request.session),
            Self::Hosts(request) => request.hosts.first().map(|host| host.session),
            Self::Sender { .. } | Self::Channel { .. } | Self::Budget(_) => None,
        }
    }
}

/// Source of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decider {
    /// A person on a channel.
    Person(UserId),
    /// The operator of this machine, by command.
    Operator,
}

/// State of an approval. Open ones are `Unsent`, `Pending` and `Naming`; the others are final.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApprovalState {
    /// Not shown yet: its card is being sent, or will be retried.
    Unsent {
        /// Failed attempts to send the card.
        failed: u32,
        /// Why the last attempt failed.
        why: Option<String>,
    },
    /// Its card was shown.
    Pending,
    /// The approver chose to create a new agent. Their next message in that chat is its name.
    Naming {
        /// The approver who is asked for a name.
        by: UserId,
        /// Where they were asked for the name.
        at: Address,
        /// Deadline; after it the card is shown again.
        until: Timestamp,
    },
    /// Decided with yes.
    Approved {
        /// The person who decided.
        by: Decider,
        /// Time of the decision.
        at: Timestamp,
    },
    /// Decided with no.
    Rejected {
        /// The person who decided.
        by: Decider,
        /// Time of the decision.
        at: Timestamp,
    },
    /// Expired without a decision.
    Expired {
        /// Time at which it expired.
        at: Timestamp,
    },
    /// The subject no longer exists.
    Superseded {
        /// Reason in words for people.
        why: String,
        /// Time at which it became obsolete.
        at: Timestamp,
    },
}

impl ApprovalState {
    /// Whether it can still be decided.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Unsent { .. } | Self::Pending | Self::Naming { .. })
    }

    /// The word people and programs see.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Unsent { .. } => "unsent",
            Self::Pending => "pending",
            Self::Naming { .. } => "naming",
            Self::Approved { .. } => "approved",
            Self::Rejected { .. } => "rejected",
            Self::Expired { .. } => "expired",
            Self::Superseded { .. } => "superseded",
        }
    }
}

/// A decision that a person has to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// What is asked for.
    pub about: ApprovalSubject,
    /// Open until decided, expired or superseded.
    pub state: ApprovalState,
    /// The approver who was asked last; none while no approver is available.
    pub approver: Option<UserId>,
    /// Unguessable part of the current card's buttons. Buttons of older cards have no effect.
    pub nonce: u64,
    /// The options of that card, by position.
    pub options: Vec<CardOption>,
    /// The current card.
    pub card: Option<OutboundId>,
    /// When the next action is due while it is open: send again, or expire. Key of its index row.
    pub due: Timestamp,
    /// When it expires.
    pub expires: Timestamp,
    /// When it was created.
    pub created: Timestamp,
}

impl Approval {
    /// Whether its approver is being asked now, or only after earlier decisions. A waiting approval is unsent without a
    /// card, and nothing is due for it before it expires.
    #[must_use]
    pub fn turn(&self) -> Turn {
        let unsent = matches!(self.state, ApprovalState::Unsent { .. }) && self.card.is_none();
        if unsent && self.due >= self.expires { Turn::Later } else { Turn::Now }
    }
}

/// Approvals that wait for their approver's earlier decisions, and the digest that the approver was sent about them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waitlist {
    /// The approver.
    pub user: UserId,
    /// Number of waiting approvals.
    pub waits: u64,
    /// The digest: the message that says how many wait.
    pub digest: Option<Digest>,
}

/// A message that says how many approvals wait. It cannot be used to decide anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// The outgoing message that says how many approvals wait.
    pub message: OutboundId,
    /// Its last edit, or the message itself if it was never edited.
    pub last: OutboundId,
    /// The number that it shows since then.
    pub says: u64,
    /// When that was sent.
    pub at: Timestamp,
}

/// A message held for a decision. Its body is stored; the agents below have not received it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Agents that receive it on approval. If empty: all agents wired at that time.
    pub agents: Vec<AgentId>,
    /// Other agents have already received it.
    pub heard: bool,
    /// The platform reported that the bot was addressed.
    pub mention: bool,
    /// Whether it was sent in a group.
    pub group: bool,
    /// Whether its adapter's chats have threads; none if the adapter did not say.
    pub threads: Option<bool>,
    /// Where an answer goes, if not to the source.
    pub reply_to: Option<Address>,
    /// When it was stored.
    pub stored: Timestamp,
}

/// Open until answered or expired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum QuestionState {
    /// Not answered yet.
    Open,
    /// Answered by a person.
    Answered {
        /// The person or operator who answered.
        by: Decider,
        /// The value of the option.
        value: String,
        /// Time of the answer.
        at: Timestamp,
    },
    /// Expired without an answer, or the card could not be shown.
    Expired {
        /// Reason in words for people.
        why: String,
        /// Time at which it expired.
        at: Timestamp,
    },
}

/// A question an agent asked people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The session whose agent asks.
    pub session: SessionId,
    /// The incarnation that waits for the answer.
    pub incarnation: u32,
    /// The incarnation's number for the question.
    pub number: u64,
    /// Name of the answer's file.
    pub request: String,
    /// Where it was asked.
    pub to: Address,
    /// Heading of the card.
    pub title: String,
    /// What is asked.
    pub body: String,
    /// What can be chosen.
    pub options: Vec<CardOption>,
    /// Unguessable part of the card's buttons.
    pub nonce: u64,
    /// The outgoing message with the card, once it exists.
    pub card: Option<OutboundId>,
    /// Open until answered or expired.
    pub state: QuestionState,
    /// When it expires.
    pub expires: Timestamp,
    /// When it was created.
    pub created: Timestamp,
}

/// The reply to an agent's request. Kept as long as the incarnation that asked is alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostReply {
    /// Incarnation that asked.
    pub incarnation: u32,
    /// The incarnation's number for the request. If there are too many replies, those with the lowest numbers are
    /// removed first.
    pub number: u64,
    /// The question that a person answered with it, until the turn in which the reply came has ended. It survives a
    /// retry of that turn.
    pub question: Option<QuestionId>,
    /// The result, or why it was not done.
    pub answer: Result<RawJson, String>,
}
