//! The frames of bridges. Unknown frames and fields are ignored, so that either side can be newer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::daemon_frames::Cursors;
use crate::line::{DEPTH_MAX, depth};

/// A frame of a bridge.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum FromBridge {
    /// It can work.
    Ready { ready: Box<Ready> },
    /// It cannot work.
    Failed { failed: Failed },
    Event {
        event: Event,
        /// Number of the frame.
        seq: u64,
        /// Read positions that are committed with the event.
        #[serde(skip_serializing_if = "Cursors::is_empty")]
        cursors: Cursors,
    },
    /// How far the bridge has read, without a message.
    Cursor {
        cursor: Cursors,
        /// Number of the frame.
        seq: u64,
    },
    /// Asks whether a message would reach an agent, before its files are fetched.
    Wanted {
        /// The message without its files.
        wanted: Event,
        /// Number of the frame.
        seq: u64,
    },
    /// A pressed button.
    Action {
        /// It, as webhooks send it.
        action: Action,
        /// Number of the frame.
        seq: u64,
    },
    /// From here on something of a delivery may have left.
    Begun { begun: Attempted },
    /// The end of an attempt.
    Outcome { outcome: Outcome },
    /// The answer to [`crate::ToBridge::OpenDirect`].
    Opened { opened: Opened },
    /// The answer to [`crate::ToBridge::Ping`].
    Pong {
        /// Number of the question.
        pong: u64,
        #[serde(flatten)]
        rest: Pong,
    },
}

/// What a bridge is and can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// The version of the protocol that it speaks.
    pub protocol: u32,
    /// Its name and version.
    pub program: String,
    /// Its account, if the network has any.
    #[serde(default)]
    pub me: Option<Me>,
    /// What it can do.
    #[serde(default)]
    pub capabilities: Capabilities,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Me {
    /// The network's id.
    pub id: String,
    #[serde(default)]
    pub name: Option<String>,
}

/// What a bridge can do. Everything that is left out, it cannot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    /// Chats have threads with conversations of their own.
    pub threads: bool,
    /// Messages can be changed.
    pub edits: bool,
    /// Direct chats have to be opened.
    pub opens_direct: bool,
    /// People get the files of messages.
    pub files: bool,
    /// How people choose from a card.
    pub choice: Choice,
    /// How the network recognises a repeated message.
    pub idempotency: Idempotency,
    /// UTF-16 code units of the longest card that is shown whole.
    pub card_max: Option<usize>,
}

/// How people choose an option of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// By its number.
    #[default]
    Numbers,
    /// By a button.
    Buttons,
}

/// How long the same id is shown once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Idempotency {
    /// Not at all: a repeat is marked.
    #[default]
    None,
    /// For so many seconds; after that a repeat is marked.
    Window {
        /// Seconds.
        seconds: u64,
    },
    /// For ever.
    Always,
}

/// Why a bridge cannot work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// For people.
    pub why: String,
    /// When it should be tried again.
    #[serde(default)]
    pub until: Option<Until>,
}

/// When a bridge that failed is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Until {
    /// After so many seconds.
    Seconds(u64),
    /// `changed`: after its settings or secrets changed.
    Word(String),
}

/// A message of a network.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Event {
    /// Who sent it; none if the network does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Sender>,
    /// Files in the directory for files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<GivenFile>,
    /// The rest, as webhooks send it.
    #[serde(flatten)]
    pub rest: BTreeMap<String, serde_json::Value>,
}

/// A file of a message. Hearth removes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenFile {
    /// The network's name for it.
    #[serde(default)]
    pub name: Option<String>,
    /// Its media type.
    #[serde(default)]
    pub mime: Option<String>,
    /// Its name in the directory; none if there is no such file any more.
    #[serde(default)]
    pub path: Option<String>,
    /// Why it has no path, for the agent.
    #[serde(default)]
    pub error: Option<String>,
}

/// The sender of a message, from the network and never from what they wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// The network's id.
    pub id: String,
    /// The name to show.
    #[serde(default)]
    pub name: Option<String>,
    /// Whether the network vouches for the id. Otherwise the sender is unknown, whatever the id says.
    #[serde(default)]
    pub verified: bool,
}

/// A pressed button.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// The value of the card.
    pub button: String,
    /// Who pressed it.
    pub user_id: String,
    pub platform_id: String,
    #[serde(default)]
    pub thread_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempted {
    pub id: String,
    pub attempt: u32,
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    pub id: String,
    /// Number of the attempt.
    pub attempt: u32,
    pub result: Sent,
    /// The network's id of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// For `retry`: nothing should be sent there for so many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// The result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sent {
    /// The network has it.
    Delivered,
    /// Nothing was sent; another try may succeed.
    Retry,
    /// It can never be sent.
    Rejected,
    /// It may have been sent.
    Uncertain,
    /// The recipient is away; nothing was sent.
    Absent,
}

/// The direct chat with a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Opened {
    /// Number of the question.
    pub seq: u64,
    #[serde(default)]
    pub platform_id: Option<String>,
    /// Why there is none.
    #[serde(default)]
    pub why: Option<String>,
}

/// The state of a bridge's connection.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pong {
    /// When the network last said anything, as in `2026-04-20T12:00:00Z`.
    #[serde(default)]
    pub heard: Option<String>,
    /// What is wrong with the connection.
    #[serde(default)]
    pub down: Option<String>,
}

/// Why a frame is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// Not UTF-8.
    #[error("a frame is not UTF-8")]
    NotText,
    /// Nested deeper than readers accept.
    #[error("a frame is nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
    /// Not an object.
    #[error("a frame is not a JSON object: {0}")]
    NotJson(String),
    /// A known frame with fields that do not fit.
    #[error("the frame `{frame}` is not usable: {why}")]
    Unusable {
        frame: &'static str,
        /// The parser's message.
        why: String,
    },
}

/// The names of frames: each is the key that no other frame has.
const NAMES: [&str; 10] =
    ["ready", "failed", "event", "wanted", "action", "cursor", "begun", "outcome", "opened", "pong"];

impl FromBridge {
    /// Reads a frame; `None` for one that this version does not know.
    ///
    /// # Errors
    /// [`BadFrame`]
    pub fn read(line: &[u8]) -> Result<Option<Self>, BadFrame> {
        let text = std::str::from_utf8(line).map_err(|_| BadFrame::NotText)?;
        if depth(text) > DEPTH_MAX {
            return Err(BadFrame::TooDeep);
        }
        let not_json = |error: serde_json::Error| BadFrame::NotJson(error.to_string());
        let keys: BTreeMap<&str, &RawValue> = match serde_json::from_str(text) {
            Ok(keys) => keys,
            // A key with an escape cannot be lent, and is none of the known ones.
            Err(_) => return serde_json::from_str::<BTreeMap<String, &RawValue>>(text).map(|_| None).map_err(not_json),
        };
        let Some(name) = NAMES.iter().find(|name| keys.contains_key(**name)) else { return Ok(None) };
        let unusable = |error: serde_json::Error| BadFrame::Unusable { frame: name, why: error.to_string() };
        let value = keys.get(name).map_or("null", |value| value.get());
        let seq = || match keys.get("seq").map(|seq| serde_json::from_str(seq.get())) {
            Some(Ok(seq)) => Ok(seq),
            Some(Err(error)) => Err(unusable(error)),
            None => Err(BadFrame::Unusable { frame: name, why: "`seq` is missing".to_owned() }),
        };
        fn of<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
            serde_json::from_str(text)
        }
        Ok(Some(match *name {
            "ready" => Self::Ready { ready: of(value).map_err(unusable)? },
            "failed" => Self::Failed { failed: of(value).map_err(unusable)? },
            "event" => {
                let cursors = keys.get("cursors").map_or(Ok(Cursors::new()), |cursors| of(cursors.get()));
                let (event, cursors) = (of(value).map_err(unusable)?, cursors.map_err(unusable)?);
                Self::Event { event, seq: seq()?, cursors }
            }
            "cursor" => Self::Cursor { cursor: of(value).map_err(unusable)?, seq: seq()? },
            "wanted" => Self::Wanted { wanted: of(value).map_err(unusable)?, seq: seq()? },
            "action" => Self::Action { action: of(value).map_err(unusable)?, seq: seq()? },
            "begun" => Self::Begun { begun: of(value).map_err(unusable)? },
            "outcome" => Self::Outcome { outcome: of(value).map_err(unusable)? },
            "opened" => Self::Opened { opened: of(value).map_err(unusable)? },
            _ => Self::Pong { pong: of(value).map_err(unusable)?, rest: of(text).map_err(unusable)? },
        }))
    }

    /// The frame as a line.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        line(self)
    }
}

/// Frames consist of texts, numbers and values that were JSON before.
pub(crate) fn line(frame: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(frame).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests;
