//! The frames of the daemon.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::frames::line;

/// How far a bridge has read its network, under names of its own.
pub type Cursors = BTreeMap<String, String>;

/// A frame of the daemon.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum ToBridge {
    /// The first frame: everything that the bridge needs.
    Hello { hello: Box<Hello> },
    /// Sends something to people.
    Deliver { deliver: Box<Deliver> },
    /// A message or cursor is stored.
    Taken {
        /// Number of the bridge's frame.
        taken: u64,
        /// How the message was routed; none for a cursor.
        #[serde(skip_serializing_if = "Option::is_none")]
        report: Option<serde_json::Value>,
    },
    /// Nothing was stored. The same has to be sent again, after so many seconds.
    Later {
        /// Number of the bridge's frame.
        later: u64,
        /// Seconds.
        after: u64,
        why: String,
    },
    /// It will never be accepted.
    Refused {
        /// Number of the bridge's frame.
        refused: u64,
        why: String,
    },
    /// Whether the files of a message are wanted.
    Wanted {
        /// Number of the bridge's frame.
        wanted: u64,
        yes: bool,
    },
    /// The result of a pressed button.
    Pressed {
        /// Number of the bridge's frame.
        pressed: u64,
        /// Whether it decided something.
        decided: bool,
        /// For the person who pressed it.
        text: String,
    },
    /// An agent works there.
    Typing { typing: Place },
    /// From now on every message of a thread is wanted.
    Subscribe { subscribe: Place },
    /// Opens a direct chat.
    OpenDirect {
        open_direct: Named,
        /// Number of the question; the answer is [`crate::FromBridge::Opened`].
        seq: u64,
    },
    /// Asks whether the bridge works.
    Ping {
        /// Number of the question.
        ping: u64,
    },
    /// No more messages are accepted; deliveries continue.
    StopTaking { stop_taking: Empty },
    /// The bridge should end.
    ShutDown { shut_down: ShutDown },
}

/// An empty object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// The content of the first frame.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// The versions of the protocol that the daemon speaks.
    pub protocol: Vec<u32>,
    /// Name of the channel.
    pub channel: String,
    /// `base_url` and `settings` of the channel.
    pub settings: serde_json::Map<String, serde_json::Value>,
    /// `token` and `secret` of the channel, resolved. They are nowhere else.
    pub secrets: BTreeMap<String, String>,
    /// What the bridge stored with its messages: how far it has read.
    #[serde(default)]
    pub cursors: Cursors,
    /// The directory for files of both directions.
    pub files: String,
    pub limits: Limits,
}

/// Hides the secrets.
impl std::fmt::Debug for Hello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hello").field("channel", &self.channel).finish_non_exhaustive()
    }
}

/// The limits of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of a frame.
    pub frame: usize,
    /// Bytes of a file.
    pub file: u64,
    /// Frames that may wait for an answer.
    pub unacked: usize,
}

/// Something to deliver.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deliver {
    /// Hearth's id: the key by which a repeat is recognised.
    pub id: String,
    /// Number of the attempt, which the answers name.
    pub attempt: u32,
    /// What to do.
    pub act: DeliverAct,
    pub platform_id: String,
    pub thread_id: Option<String>,
    /// The text; for `react` the emoji.
    pub text: String,
    /// For `ask`.
    pub card: Option<ShownCard>,
    /// For `edit` and `react`: the bridge's id of the message.
    pub message_id: Option<String>,
    /// Files to send.
    pub files: Vec<SentFile>,
    /// An earlier attempt may have been shown.
    pub repeated: bool,
    /// Name of the agent; none for Hearth.
    pub speaker: Option<String>,
    /// Whether the network may show previews of links.
    pub link_previews: bool,
    /// Seconds within which an outcome is expected.
    pub within: u64,
    /// The whole payload of the agent.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub content: Option<Box<RawValue>>,
}

/// What to do with a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DeliverAct {
    /// Send the text and the files.
    Say,
    /// Show a card.
    Ask,
    /// Replace the text of a message and remove its buttons.
    Edit,
    /// Add a reaction to a message.
    React,
}

/// A card to choose from. Plain text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownCard {
    pub title: String,
    pub body: String,
    /// The options, in order.
    pub options: Vec<CardOption>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardOption {
    /// What people read.
    pub label: String,
    /// What a press has to send.
    pub button: String,
}

/// A file to send, in the directory for files. The bridge removes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentFile {
    /// The name for people.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Its name in the directory; none if it cannot be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Why it cannot be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A chat or a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    pub platform_id: String,
    pub thread_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    /// The network's id.
    pub user_id: String,
}

/// How a bridge should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShutDown {
    /// Seconds until it is killed.
    pub within: u64,
}

impl ToBridge {
    /// Reads a frame; `None` for one that this version does not know.
    #[must_use]
    pub fn read(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    /// The frame as a line.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        line(self)
    }
}
