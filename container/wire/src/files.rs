//! The files that are rewritten: context, state, session, heartbeat.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Address;

/// `host/context.json`: what an incarnation needs to know. The host rewrites it when a projection changes; the runner
/// reads it at its start and again before each prompt and tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// Contract version.
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
    /// The one incarnation that may work; a runner started as another one stops.
    pub incarnation: u32,
    /// Rises when the session has to begin anew; continuations of an earlier epoch do not count.
    #[serde(default)]
    pub epoch: u32,
    /// `default` or `maintenance`; exported to the agent as `NANOCLAW_SESSION_NAME`.
    pub session_name: String,
    /// What drives the agent.
    pub provider: Provider,
    /// Where answers go when nothing says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Address>,
    /// Places the agent may write to, sorted by name.
    #[serde(default)]
    pub destinations: Vec<Destination>,
    /// IANA zone of the agent's user.
    pub timezone: String,
    /// Bounds the runner keeps.
    pub limits: Limits,
    /// Servers of tools that the agent may use, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<McpServer>,
    /// Tools of the provider that are refused.
    #[serde(default)]
    pub blocked_tools: Vec<String>,
    /// Smallest number the next outgoing message may have; odd.
    pub next_number: u64,
    /// What an earlier incarnation already said in a turn that did not end, so that this one does not say it again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub already_sent: Vec<AlreadySent>,
}

/// What drives the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    /// `echo`, `command` or `claude`.
    pub name: String,
    /// Program and arguments: required by `command`; for `claude` the binary to use instead of `claude` on PATH.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Model, if the agent asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Reasoning effort, if the agent asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
}

/// A server of tools, started beside the agent; it speaks MCP on its standard input and output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServer {
    /// Its name: letters, digits, `_` and `-`.
    pub name: String,
    /// Program.
    pub command: String,
    /// Arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables of its environment, with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Variables of its environment whose values are secret: each is in the runner's own environment under this name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secret_env: BTreeMap<String, String>,
}

/// A place the agent may write to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// Name the agent uses.
    pub name: String,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<String>,
    /// What it is.
    #[serde(flatten)]
    pub target: DestinationTarget,
}

/// What a destination is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum DestinationTarget {
    /// A chat.
    Channel {
        /// Channel instance.
        channel: String,
        /// Chat.
        platform_id: String,
    },
    /// Another agent.
    Agent {
        /// Its folder.
        folder: String,
    },
}

/// Bounds the runner keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Context messages in one prompt, beside those that trigger.
    pub max_prompt_messages: u32,
    /// Bytes of one JSON file.
    pub max_json_bytes: u64,
    /// Bytes of one file sent.
    pub max_file_bytes: u64,
}

/// Something said mid-turn by an incarnation that died before the turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlreadySent {
    /// Message whose turn it belonged to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<u64>,
    /// Number of the outgoing message.
    pub number: u64,
    /// Its text.
    pub text: String,
}

/// `agent/state.json`: what the agent is doing now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Contract version.
    pub v: u32,
    /// Incarnation that speaks.
    pub incarnation: u32,
    /// Count of provider events in this incarnation; the host goes by its changes, not by clocks.
    pub progress: u64,
    /// When the last provider event came (ISO 8601), for people.
    pub last_progress: String,
    /// What the last provider event was about: of the messages that were claimed and had not ended, the one that was
    /// claimed first; where there was none, as before. What follows a turn says nothing of the next one. A runner that
    /// does not say it gets on with whatever is claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<u64>,
    /// The tool in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Tool>,
}

/// A tool in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Timeout it declared, in milliseconds; the host clamps it to two hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// When it started (ISO 8601).
    pub started_at: String,
}

/// `agent/session.json`: what the providers need to go on where they were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFile {
    /// Contract version.
    pub v: u32,
    /// Incarnation that speaks.
    pub incarnation: u32,
    /// Epoch of the context under which the continuations came to be.
    #[serde(default)]
    pub epoch: u32,
    /// Provider name -> its continuation.
    pub continuations: BTreeMap<String, String>,
}

/// `agent/heartbeat`: the runner is alive. Rewritten every 5 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Contract version.
    pub v: u32,
    /// Incarnation that speaks.
    pub incarnation: u32,
    /// Rises with every beat.
    pub beat: u64,
}
