//! The files that are rewritten: context, state, session, heartbeat.

use std::collections::BTreeMap;

use hearth_tool_rules::ToolPolicy;
use serde::{Deserialize, Serialize};

use crate::Address;

/// `host/context.json`: the data an incarnation needs. The host rewrites it when its content changes; the runner reads
/// it at its start and again before each prompt and tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// Version of this contract.
    pub v: u32,
    /// Rises with every rewrite.
    pub version: u64,
    /// Install that owns the session.
    pub install: String,
    /// Session, e.g. `se4`.
    pub session: String,
    /// Agent group's folder.
    pub agent: String,
    /// Agent's display name.
    pub agent_name: String,
    /// The one incarnation that may work; a runner of another one stops.
    pub incarnation: u32,
    /// Rises when the session must start anew; continuations of an earlier epoch are ignored.
    #[serde(default)]
    pub epoch: u32,
    /// `default` or `maintenance`; exported to the agent as `NANOCLAW_SESSION_NAME`.
    pub session_name: String,
    /// What drives the agent.
    pub provider: Provider,
    /// The default recipient of answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Address>,
    /// The agent's destinations, sorted by name.
    #[serde(default)]
    pub destinations: Vec<Destination>,
    /// IANA time zone of the agent's user.
    pub timezone: String,
    /// Limits that the runner enforces.
    pub limits: Limits,
    /// MCP servers that the agent may use, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<McpServer>,
    /// Blocked tools of the provider.
    #[serde(default)]
    pub blocked_tools: Vec<String>,
    /// What decides about the agent's tool calls.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tools: ToolPolicy,
    /// Smallest number the next outgoing message may have; odd.
    pub next_number: u64,
    /// Messages that an earlier incarnation sent in an unfinished turn, so that this one does not repeat them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub already_sent: Vec<AlreadySent>,
    /// What the provider missed of the conversation while another one answered, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recap: Vec<RecapLine>,
    /// Milliseconds between two heartbeats while no message is claimed. If absent, the interval is always 5 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_beat_ms: Option<u64>,
}

fn is_default(policy: &ToolPolicy) -> bool {
    *policy == ToolPolicy::default()
}

/// What drives the agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Provider {
    /// `echo`, `command`, `claude` or `acp`.
    pub name: String,
    /// Program and arguments: required by `command`; for others what to run instead of their own program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Model, if the agent asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Reasoning effort, if the agent asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The known agent, of the provider `acp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Mode of the agent, of the provider `acp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Name of its continuation in `agent/session.json`, if not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// What happens when an agent of the provider `acp` asks whether it may use a tool.
    #[serde(default, skip_serializing_if = "Permissions::is_default")]
    pub permissions: Permissions,
    /// Whether people get what the agent writes before it uses tools.
    #[serde(default, skip_serializing_if = "Verbosity::is_default")]
    pub verbosity: Verbosity,
}

/// How much of what an agent writes people get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verbosity {
    /// Its answers. What it writes before it uses tools is only shown as progress.
    #[default]
    Normal,
    /// Also what it writes before it uses tools.
    Verbose,
}

impl Verbosity {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What happens when an agent asks whether it may use a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permissions {
    /// The call is made.
    #[default]
    Allow,
    /// A person is asked.
    Ask,
    /// It may not.
    Deny,
}

impl Permissions {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// An MCP server, started beside the agent; it uses its standard input and output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServer {
    /// Its name: letters, digits, `_` and `-`.
    pub name: String,
    /// Name or path of the program.
    pub command: String,
    /// Arguments, without the program's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables of its environment, with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Variables of its environment whose values are secret: each is in the runner's own environment under this name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secret_env: BTreeMap<String, String>,
}

/// A destination of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// Name the agent uses.
    pub name: String,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<String>,
    /// Where it leads.
    #[serde(flatten)]
    pub target: DestinationTarget,
}

/// Where a destination leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum DestinationTarget {
    /// A chat of a network.
    Channel {
        /// Name of the channel instance.
        channel: String,
        /// The network's id of the chat.
        platform_id: String,
    },
    /// Another agent of the installation.
    Agent {
        /// Folder of the other agent.
        folder: String,
    },
}

/// Limits that the runner enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum number of context messages in one prompt, in addition to triggering ones.
    pub max_prompt_messages: u32,
    /// Maximum size of one JSON file in bytes.
    pub max_json_bytes: u64,
    /// Maximum size of one sent file in bytes.
    pub max_file_bytes: u64,
}

/// A message sent during a turn by an incarnation that died before the turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlreadySent {
    /// Message whose turn it belonged to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<u64>,
    /// Number of the outgoing message.
    pub number: u64,
    /// Text that was sent.
    pub text: String,
}

/// A message of the conversation that the provider missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecapLine {
    /// Number of the message in the session.
    pub number: u64,
    /// Name of the person who wrote it; if absent, it was the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Its text, or the beginning of it.
    pub text: String,
}

/// `agent/state.json`: what the agent is doing now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Version of this contract.
    pub v: u32,
    /// The writing incarnation.
    pub incarnation: u32,
    /// Number of provider events in this incarnation. The host uses its changes instead of clocks.
    pub progress: u64,
    /// Time of the last provider event (ISO 8601), for people.
    pub last_progress: String,
    /// The message that the last provider event is attributed to: of the claimed and unfinished messages, the one
    /// claimed first; if there was none, unchanged. Events after a turn say nothing about the next one. If absent, the
    /// events count for any claimed message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<u64>,
    /// The tool in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Tool>,
    /// Names of the tools that have been started in this turn, in order, each once, at most [`crate::limits::TOOLS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ran: Vec<String>,
    /// The text that the agent is writing, if its provider shows it before it is complete. Only for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writing: Option<Writing>,
}

/// A text that is not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writing {
    /// The claimed message that the text answers.
    pub in_reply_to: u64,
    /// The end of the text so far, without internal parts and without parts for other destinations.
    pub text: String,
}

/// A tool in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Name that the model calls.
    pub name: String,
    /// Timeout it declared, in milliseconds; the host clamps it to two hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// When it started (ISO 8601).
    pub started_at: String,
}

/// `agent/session.json`: what the providers need to continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFile {
    /// Version of this contract.
    pub v: u32,
    /// The writing incarnation.
    pub incarnation: u32,
    /// Epoch of the context in which the continuations were created.
    #[serde(default)]
    pub epoch: u32,
    /// Provider name -> its continuation.
    pub continuations: BTreeMap<String, String>,
}

/// `agent/heartbeat`: the runner is alive. Rewritten every 5 s, or less often while the runner rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Version of this contract.
    pub v: u32,
    /// The writing incarnation.
    pub incarnation: u32,
    /// Rises with every beat.
    pub beat: u64,
    /// Set while the runner rests: milliseconds until the next beat, unless a message arrives before. If absent, it
    /// comes within 5 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest_ms: Option<u64>,
}
