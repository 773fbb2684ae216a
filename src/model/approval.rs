//! What somebody has to decide, what an agent asked, and what waits for it.

use serde::{Deserialize, Serialize};

use super::address::{Address, UserId};
use super::card::CardOption;
use super::content::RawJson;
use super::entity::McpServer;
use super::id::{AgentId, ChatId, OutboundId, QuestionId, SessionId};
use super::time::Timestamp;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Matters {
    /// A stranger wants to talk to agents in a chat; their messages are held. At most one open per (chat, person).
    Sender {
        /// Where.
        chat: ChatId,
        /// Who.
        sender: UserId,
        /// How they call themselves.
        name: Option<String>,
        /// Agents that refused them, in the order in which they were asked; grows while the approval is open.
        agents: Vec<AgentId>,
    },
    /// Nobody listens in a chat where the bot was addressed; the newest message is held. At most one open per chat.
    Channel {
        /// Where.
        chat: ChatId,
        /// Who addressed it first: whom the card names, and whom a yes lets in.
        sender: Option<UserId>,
        /// How they call themselves.
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
        /// Why, in the agent's words.
        reason: Option<String>,
    },
    /// An agent wants another MCP server.
    McpServer {
        /// Session that asked.
        session: SessionId,
        /// The server.
        server: McpServer,
    },
    /// An agent wants another agent to exist.
    CreateAgent {
        /// Session that asked.
        session: SessionId,
        /// Its name.
        name: String,
        /// What it is told about itself.
        instructions: Option<String>,
    },
}

/// Who decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decider {
    /// A person on a channel.
    Person(UserId),
    /// The operator of this machine, by command.
    Operator,
}

/// Where an approval is. Open ones are `Unsent`, `Pending` and `Naming`; the others are over for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApprovalState {
    /// Nobody has seen it yet: its card is being sent, or is sent again later.
    Unsent {
        /// Cards that could not be sent so far.
        failed: u32,
        /// Why the last one could not.
        why: Option<String>,
    },
    /// Its card was shown.
    Pending,
    /// Somebody chose to make a new agent and owes its name: their next message there is it.
    Naming {
        /// Who.
        by: UserId,
        /// Where they were asked for it.
        at: Address,
        /// Until when; then the card is shown again.
        until: Timestamp,
    },
    /// Yes.
    Approved {
        /// Who said so.
        by: Decider,
        /// When.
        at: Timestamp,
    },
    /// No.
    Rejected {
        /// Who said so.
        by: Decider,
        /// When.
        at: Timestamp,
    },
    /// Nobody decided in time.
    Expired {
        /// When.
        at: Timestamp,
    },
    /// What it was about is not any more.
    Superseded {
        /// Why.
        why: String,
        /// When.
        at: Timestamp,
    },
}

impl ApprovalState {
    /// Whether somebody can still decide.
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

/// Something somebody has to decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// What is asked for.
    pub about: Matters,
    /// Where it is.
    pub state: ApprovalState,
    /// Who was asked last; none while nobody could be.
    pub approver: Option<UserId>,
    /// Unguessable part of the buttons of the card that counts; older cards mean nothing.
    pub nonce: u64,
    /// The options of that card: what its positions mean.
    pub options: Vec<CardOption>,
    /// The card that counts.
    pub card: Option<OutboundId>,
    /// When something has to be done about it while it is open: send again, or expire. Its row in the index.
    pub due: Timestamp,
    /// When it lapses.
    pub expires: Timestamp,
    /// When it was made.
    pub created: Timestamp,
}

/// A message that waits for a decision: its body is stored, no agent has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Agents that refused it and will have it if the answer is yes; empty: whoever is wired then.
    pub agents: Vec<AgentId>,
    /// Other agents have it already.
    pub heard: bool,
    /// The platform said that the bot was addressed.
    pub mention: bool,
    /// Whether it was said in a group.
    pub group: bool,
    /// What its adapter says of threads.
    pub threads: Option<bool>,
    /// Where an answer goes, if not where it was said.
    pub reply_to: Option<Address>,
    /// When it was stored.
    pub stored: Timestamp,
}

/// Where a question is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum QuestionState {
    /// Nobody answered yet.
    Open,
    /// Somebody answered.
    Answered {
        /// Who.
        by: Decider,
        /// The value of the option.
        value: String,
        /// When.
        at: Timestamp,
    },
    /// Nobody answered in time, or the card could not be shown.
    Expired {
        /// Why.
        why: String,
        /// When.
        at: Timestamp,
    },
}

/// A question an agent asked people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Who asks.
    pub session: SessionId,
    /// Incarnation that waits for the answer.
    pub incarnation: u32,
    /// Its number of the question.
    pub number: u64,
    /// Name of the answer's file.
    pub request: String,
    /// Where it was asked.
    pub to: Address,
    /// Card title.
    pub title: String,
    /// What is asked.
    pub body: String,
    /// What can be chosen.
    pub options: Vec<CardOption>,
    /// Unguessable part of the card's buttons.
    pub nonce: u64,
    /// Its card.
    pub card: Option<OutboundId>,
    /// Where it is.
    pub state: QuestionState,
    /// When it lapses.
    pub expires: Timestamp,
    /// When it was made.
    pub created: Timestamp,
}

/// The answer to a request of an agent, as long as the incarnation that asked lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostReply {
    /// Incarnation that asked.
    pub incarnation: u32,
    /// Its number of the request; of too many answers those with the lowest go first.
    pub number: u64,
    /// The question of which it is a person's answer, as long as the turn that it came in has not ended: it is not lost if
    /// that is begun again.
    pub question: Option<QuestionId>,
    /// What was asked for, or why it was not done.
    pub answer: Result<RawJson, String>,
}
