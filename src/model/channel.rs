//! Networks on which agents talk to people, and what each can do.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::address::ChannelName;
use super::entity::Origin;
use super::time::Timestamp;

/// What drives a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChannelKind {
    /// People at a terminal of this machine.
    Terminal,
    /// A bot of the Telegram Bot API, by long polling.
    Telegram,
    /// Anything that speaks signed JSON over HTTP.
    Webhook,
}

/// What to do with a message of which nobody knows whether it went out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUncertain {
    /// Send it again: the channel knows our id and shows a message once.
    SendAgain,
    /// Send it again and say so: people may see it twice, and are told.
    SendAgainMarked,
}

/// How people choose from a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// By buttons under the card.
    Buttons,
    /// By answering with the number of an option.
    Numbers,
}

/// What a channel can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether its chats have threads with conversations of their own. If not, a thread that an event names is ignored.
    pub threads: bool,
    /// What to do with a message of unknown outcome.
    pub on_uncertain: OnUncertain,
    /// How people choose from a card.
    pub choice: Choice,
    /// Whether a message can be changed after it was sent.
    pub edits: bool,
    /// Whether a direct message has to be opened before it can be written to; otherwise a person's id is its chat.
    pub opens_direct: bool,
}

impl ChannelKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[Self::Terminal, Self::Telegram, Self::Webhook];

    /// The word in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Telegram => "telegram",
            Self::Webhook => "webhook",
        }
    }

    /// What channels of this kind can do.
    #[must_use]
    pub const fn capabilities(self) -> Capabilities {
        match self {
            Self::Terminal => Capabilities {
                threads: false,
                on_uncertain: OnUncertain::SendAgain,
                choice: Choice::Numbers,
                edits: false,
                opens_direct: false,
            },
            Self::Telegram => Capabilities {
                threads: true,
                on_uncertain: OnUncertain::SendAgainMarked,
                choice: Choice::Buttons,
                edits: true,
                opens_direct: false,
            },
            Self::Webhook => Capabilities {
                threads: true,
                on_uncertain: OnUncertain::SendAgain,
                choice: Choice::Buttons,
                edits: true,
                opens_direct: true,
            },
        }
    }
}

/// A channel instance. Secrets are references (`env:NAME`, `file:PATH`, `cmd:…`), resolved when it connects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelInstance {
    /// Its name: the namespace of its chats and people.
    pub name: ChannelName,
    /// What drives it.
    pub kind: ChannelKind,
    /// Where its token is found.
    pub token: Option<String>,
    /// Where its server is, if not where its kind says.
    pub base_url: Option<String>,
    /// Where the key of its signatures is found.
    pub secret: Option<String>,
    /// Where it listens, if its kind does: an address and a port of this machine.
    pub listen: Option<SocketAddr>,
    /// Who made it.
    pub origin: Origin,
    /// When it was made.
    pub created: Timestamp,
}
