//! Tool calls of agents: rules, questions to people, what people allowed, and the record of each call.

use serde::{Deserialize, Serialize};

use super::approval::Decider;
use super::content::RawJson;
use super::id::{AgentId, ApprovalId, MessageId, SessionId, TaskId};
use super::time::{Millis, Timestamp};
pub use super::tool_settings::{
    Call, Place, RULES_MAX, ToolPattern, ToolPolicy, ToolPreset, ToolRule, ToolSettings, ToolVerdict, digest,
    grants_text,
};

/// A field of a tool's input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolField {
    /// Name of the field.
    pub name: String,
    /// Its value.
    pub value: ToolValue,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolValue {
    /// A text.
    Text(String),
    /// Any other value, as JSON.
    Json(String),
}

/// A tool call that an agent's runner asks about, after the mailbox has read and bounded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToolCall {
    /// Name of the tool.
    pub tool: String,
    /// What the agent's program says that the tool does; empty if it says nothing.
    pub kind: String,
    /// The agent's working directory, as it sees it.
    pub folder: String,
    /// JSON as the tool gets it.
    pub input: RawJson,
    /// The same, field by field.
    pub fields: Vec<ToolField>,
    /// Digest of tool and input.
    pub digest: String,
    /// The narrowest pattern that covers the call, if people can read one.
    pub pattern: Option<String>,
}

/// A tool call that a person is asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRequest {
    /// Session that asks.
    pub session: SessionId,
    /// The message that the agent works on.
    pub message: Option<MessageId>,
    /// Name of the tool.
    pub tool: String,
    /// The agent's working directory, as it sees it.
    pub folder: String,
    /// The whole input.
    pub fields: Vec<ToolField>,
    /// Digest of tool and input. With session and message it identifies what was decided.
    pub digest: String,
    /// The pattern of what a person can allow for longer than this call.
    pub pattern: Option<String>,
    /// What is known of an earlier execution of the same call.
    pub earlier: Option<ToolOutcome>,
    /// Who waits for the answer.
    pub asker: ToolAsker,
    /// Whether the decision was passed on. An approval is good for one execution.
    pub used: Option<ToolUsed>,
    /// Why a person said no, in their words.
    pub reason: Option<String>,
}

/// The run that waits for a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolAsker {
    /// The run that asks.
    pub incarnation: u32,
    /// The incarnation's number for the question.
    pub number: u64,
    /// Name of the answer's file.
    pub request: String,
}

/// The run that got a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolUsed {
    /// The run that got the decision.
    pub incarnation: u32,
    /// When that was stored, which is before the tool can start.
    pub at: Timestamp,
    /// How the tool ended, as far as the runner said.
    pub outcome: Option<ToolOutcome>,
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolOutcome {
    /// It ran.
    Ran,
    /// It ran and failed.
    Failed,
    /// It was not allowed to run.
    Denied,
    /// It may or may not have run.
    Unknown,
}

impl ToolOutcome {
    /// The word in files and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Unknown => "unknown",
        }
    }

    /// Inverse of [`Self::as_str`].
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Ran, Self::Failed, Self::Denied, Self::Unknown].into_iter().find(|known| known.as_str() == word)
    }
}

/// Where something that a person allowed holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GrantScope {
    /// In all sessions of the agent.
    Agent,
    /// In one session, until it is reset.
    Session(SessionId),
    /// In the runs of one scheduled task.
    Task(TaskId),
}

/// Tool calls that a person allowed in advance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolGrant {
    /// The agent that may make the calls.
    pub agent: AgentId,
    /// Where it holds.
    pub scope: GrantScope,
    /// The pattern of the calls.
    pub pattern: String,
    /// Who allowed them.
    pub by: Decider,
    /// Time at which it was granted.
    pub at: Timestamp,
}

/// What a runner says about a tool call that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Name of the tool.
    pub tool: String,
    /// Digest of tool and input.
    pub digest: String,
    /// The beginning of the input, without secrets.
    pub excerpt: String,
    /// What decided about it.
    pub basis: ToolBasis,
    /// How it ended.
    pub outcome: ToolOutcome,
    /// How long it took, in awake time, with the wait for a decision.
    pub took: Millis,
}

/// What decided about a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolBasis {
    /// A preset of rules.
    Preset(ToolPreset),
    /// A rule of the configuration.
    Rule(ToolRule),
    /// Something a person had allowed; contains the pattern.
    Granted(String),
    /// A person was asked.
    Asked {
        /// The approval that decided.
        approval: ApprovalId,
        /// Who decided, if a person did.
        by: Option<Decider>,
    },
    /// The rules allow it, and `permissions` does not, or a person of the conversation was asked.
    Permissions,
    /// `blocked_tools`, or Hearth itself, which replaces some tools.
    Blocked,
    /// It could not be asked about.
    Unasked,
}
