//! Channel kinds, their capabilities, and configured channel instances.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::address::ChannelName;
use super::origin::Origin;
use super::time::{Millis, Timestamp};

/// The kind of network behind a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChannelKind {
    /// People at a terminal of this machine.
    Terminal,
    /// A bot of the Telegram Bot API, by long polling.
    Telegram,
    /// Anything that speaks signed JSON over HTTP.
    Webhook,
    /// A program that Hearth starts and supervises.
    Bridge,
}

impl ChannelKind {
    /// Whether the network proves who a sender is. Every program with the secret of a webhook chooses its senders' ids, and so
    /// does the program of a bridge.
    #[must_use]
    pub const fn authenticates_senders(self) -> bool {
        match self {
            Self::Telegram => true,
            Self::Terminal | Self::Webhook | Self::Bridge => false,
        }
    }
}

/// What to do with a message when it is unknown whether it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnUncertain {
    /// Resend: the channel deduplicates by our id and shows the message once.
    SendAgain,
    /// Resend, marked as a repeat, because people may see it twice.
    SendAgainMarked,
    /// Resend: deduplicated for this long after the first attempt, marked as a repeat after that.
    SendAgainWithin(Millis),
}

/// How people choose an option of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Choice {
    /// By buttons under the card.
    Buttons,
    /// By replying with the number of an option.
    Numbers,
}

/// What a channel can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Whether its chats have threads with conversations of their own. If not, a thread that an event names is ignored.
    pub threads: bool,
    /// What to do with a message whose delivery outcome is unknown.
    pub on_uncertain: OnUncertain,
    /// How people choose from a card.
    pub choice: Choice,
    /// The longest card that is shown whole: UTF-16 code units of its heading, its text and its options together.
    pub card_max: u64,
    /// Whether a message can be changed after it was sent.
    pub edits: bool,
    /// Whether a direct message has to be opened before it can be written to; otherwise a person's id is its chat.
    pub opens_direct: bool,
    /// Whether people get files that are sent to them.
    pub files: bool,
}

impl ChannelKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[Self::Terminal, Self::Telegram, Self::Webhook, Self::Bridge];

    /// The word in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Telegram => "telegram",
            Self::Webhook => "webhook",
            Self::Bridge => "bridge",
        }
    }

    /// What channels of this kind can do; of a bridge, until it says more.
    #[must_use]
    pub const fn capabilities(self) -> Capabilities {
        match self {
            Self::Terminal => Capabilities {
                threads: false,
                on_uncertain: OnUncertain::SendAgain,
                choice: Choice::Numbers,
                // Some 200 lines, which a terminal scrolls.
                card_max: 16_000,
                edits: false,
                opens_direct: false,
                files: false,
            },
            Self::Telegram => Capabilities {
                threads: true,
                on_uncertain: OnUncertain::SendAgainMarked,
                choice: Choice::Buttons,
                // A message has 4,096, and a repeated one begins with a note.
                card_max: 4_000,
                edits: true,
                opens_direct: false,
                files: true,
            },
            Self::Webhook => Capabilities {
                threads: true,
                on_uncertain: OnUncertain::SendAgain,
                choice: Choice::Buttons,
                // What nearly every network shows in one message.
                card_max: 2_000,
                edits: true,
                opens_direct: true,
                files: true,
            },
            Self::Bridge => Capabilities {
                threads: false,
                on_uncertain: OnUncertain::SendAgainMarked,
                choice: Choice::Numbers,
                card_max: 2_000,
                edits: false,
                opens_direct: false,
                files: false,
            },
        }
    }
}

/// How a bridge is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeProgram {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What it is told when it starts, by name.
    pub settings: Vec<BridgeSetting>,
    /// Whether it has all rights of the user who runs Hearth.
    pub unconfined: bool,
}

impl BridgeProgram {
    /// Begins the names of settings that are Hearth's own. Bridges are not told them, and files cannot write them.
    pub const OWN: &'static str = "hearth:";
    /// The chat that is told what the owner has to know.
    const NOTICES: &'static str = "hearth:notices";

    /// The chat that is told what the owner has to know.
    #[must_use]
    pub fn notices(&self) -> Option<&str> {
        self.settings.iter().find(|setting| setting.name == Self::NOTICES).map(|setting| setting.value.as_str())
    }

    /// The setting for a chat that is told what the owner has to know.
    #[must_use]
    pub fn with_notices(chat: &str) -> BridgeSetting {
        BridgeSetting { name: Self::NOTICES.to_owned(), value: chat.to_owned() }
    }

    /// Settings that the bridge is sent when it starts.
    pub fn told(&self) -> impl Iterator<Item = &BridgeSetting> {
        self.settings.iter().filter(|setting| !setting.name.starts_with(Self::OWN))
    }
}

/// A named value of a bridge's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeSetting {
    /// Name, unique in the bridge.
    pub name: String,
    /// Value as text.
    pub value: String,
}

/// How far a bridge has read its network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The bridge's name for it.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl Cursor {
    /// Most cursors of a channel.
    pub const COUNT_MAX: usize = 256;
    /// Most bytes of a name, and of a value.
    pub const BYTES_MAX: usize = 1_024;
}

/// What is known of the bridge of a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeState {
    /// The channel.
    pub channel: ChannelName,
    /// Name and version of the program, as it says.
    pub program: Option<String>,
    /// What it can do, as it said last.
    pub capabilities: Option<Capabilities>,
    /// How far it has read, by name.
    pub cursors: Vec<Cursor>,
}

/// What happens when a bot is addressed in a chat in which no agent listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum UnknownChats {
    /// The operator is asked which agent should listen there.
    #[default]
    Ask,
    /// The message is dropped, with a record.
    Ignore,
}

impl UnknownChats {
    /// The word in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Ignore => "ignore",
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
    /// Address of its server, if it differs from its kind's default.
    pub base_url: Option<String>,
    /// Where the key of its signatures is found.
    pub secret: Option<String>,
    /// Where it listens, if its kind does: an address and a port of this machine.
    pub listen: Option<SocketAddr>,
    /// The program that connects it, if its kind has one.
    pub program: Option<BridgeProgram>,
    /// Whether the network shows previews of links in what agents write. To make one, its servers fetch the link.
    pub link_previews: bool,
    /// What happens in chats in which no agent listens.
    pub unknown_chats: UnknownChats,
    /// Whether a person whose message is held for approval is told so, once.
    pub tell_strangers: bool,
    /// What created it.
    pub origin: Origin,
    /// When it was created.
    pub created: Timestamp,
}
