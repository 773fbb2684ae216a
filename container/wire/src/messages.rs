//! Messages, acks and replies.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::OutId;

/// An address: a chat of a channel instance and, where the channel has threads, a thread in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// Channel instance, e.g. `telegram`.
    pub channel: String,
    /// Chat, as the channel's adapter names it.
    pub platform_id: String,
    /// Thread within the chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
}

/// `host/in/<seq>.json`: one message for the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InMessage {
    /// Version of this contract.
    pub v: u32,
    /// Position in the session; even, above every number used before.
    pub seq: u64,
    /// Hearth's id of the message, e.g. `ms12`.
    pub id: String,
    /// `chat`, `chat-sdk`, `task`, `webhook` or `system`.
    pub kind: String,
    /// Whether the message triggers a turn; `false` is context for the next one.
    pub trigger: bool,
    /// When it was sent: ISO 8601, UTC, milliseconds, `Z`.
    pub timestamp: String,
    /// Whether the sender is unknown to the agent: a person without a role or a membership.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown_sender: bool,
    /// Default recipient of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Address>,
    /// The platform's payload, an object; `text`, `sender` and `senderId` are the fields every channel has.
    pub content: Value,
}

/// State of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AckStatus {
    /// This incarnation is working on it.
    Processing,
    /// The turn ended; the ack names the messages that end with it and the answers.
    Completed,
    /// The turn failed; the ack carries the error and names the answers that report it.
    Failed,
}

impl AckStatus {
    /// The word in file names and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// Inverse of [`Self::as_str`].
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Processing, Self::Completed, Self::Failed].into_iter().find(|s| s.as_str() == word)
    }
}

/// `agent/ack/<seq>.<incarnation>.<status>.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// Version of this contract.
    pub v: u32,
    /// The acknowledged message; equals the file name. For the end of a turn: its last message.
    pub seq: u64,
    /// The writing incarnation; equals the file name.
    pub incarnation: u32,
    /// The state; equals the file name.
    pub status: AckStatus,
    /// Time by the agent's clock (ISO 8601), for people only; the host uses its own clock.
    pub at: String,
    /// Final answers that take effect with this ack: written before it, sent if and only if it is accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub out: Vec<OutId>,
    /// The other messages of the turn, which end with this one and in the same way: ascending, without `seq`, at most
    /// [`crate::limits::ENDS_PER_ACK`]. The host stores all of these ends and the answers atomically. Empty in a claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<u64>,
    /// Why the turn failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// For a task that ended without waking the agent: the result or failure of its script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gated: Option<Gated>,
    /// For a failed turn that may be retried. If absent, it would fail again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What the turn used of models since the last ack that says so, by model: at most
    /// [`crate::limits::USAGES_PER_ACK`]. Entries that cannot be read are left out, because an answer matters more.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "readable_usages")]
    pub usage: Vec<Usage>,
}

/// Tokens that were used of one model, as the agent states them. The host bounds them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Name of the model, if the agent states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens read, without those of a cache.
    #[serde(default)]
    pub input: u64,
    /// Tokens written, with those of reasoning.
    #[serde(default)]
    pub output: u64,
    /// Tokens read from the provider's cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Tokens written to the provider's cache.
    #[serde(default)]
    pub cache_write: u64,
    /// Tokens of reasoning, a part of `output`.
    #[serde(default)]
    pub reasoning: u64,
    /// Cost in millionths of a US dollar, if the agent states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
}

fn readable_usages<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Usage>, D::Error> {
    let found = Value::deserialize(from)?;
    let entries = found.as_array().into_iter().flatten().take(crate::limits::USAGES_PER_ACK);
    Ok(entries.filter_map(|entry| Usage::deserialize(entry).ok()).collect())
}

/// Why a task did not wake its agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gated {
    /// The reason, for people.
    pub why: String,
    /// Whether the script failed, instead of deciding against waking the agent.
    #[serde(default)]
    pub failed: bool,
}

/// A failed turn may be retried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// `true`: the provider takes no requests (rate limit, overload, unreachable), which does not count as an attempt.
    /// `false`: the provider has a failure (internal error), which counts as one.
    pub rate_limited: bool,
    /// With `rate_limited`: the provider cannot be reached, because the machine is offline or a server is down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreachable: bool,
    /// Milliseconds to wait, if the provider gave a time; else the host chooses the delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
}

/// Kind of an outgoing message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutKind {
    /// A chat message; `content` has `text`.
    Chat,
    /// A platform payload (cards, edits, reactions).
    ChatSdk,
    /// A request to the host; `content` has `action`, the answer is a [`Reply`].
    System,
}

/// `agent/out/<id>.json`: one outgoing message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutMessage {
    /// Version of this contract.
    pub v: u32,
    /// Identity; equals the file name.
    pub id: OutId,
    /// The writing incarnation.
    pub incarnation: u32,
    /// The agent's own number for later edits and reactions: odd, above every number used before in the session.
    pub number: u64,
    /// `true`: an answer of a turn, valid only with the ack that names it. `false`: sent at once, valid when seen.
    #[serde(rename = "final")]
    pub is_final: bool,
    /// Sequence number of the message this answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<u64>,
    /// What the file asks for.
    pub kind: OutKind,
    /// The recipient as the name of a destination of [`crate::Context`]. If neither this nor `address` is set: the
    /// reply address of `in_reply_to`, else the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// The recipient as an address that the agent was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,
    /// The payload, an object.
    pub content: Value,
    /// Names of the files in `agent/out/files/<id>/`, written before this file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// For requests: the name of the answer in `host/reply/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<OutId>,
    /// Not before this time (ISO 8601).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver_after: Option<String>,
}

/// `host/reply/<request id>.json`: the answer to a request; never part of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Version of this contract.
    pub v: u32,
    /// Request that is answered; equals the file name.
    pub request_id: OutId,
    /// Whether it succeeded.
    pub ok: bool,
    /// The requested result.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub result: Value,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
