//! What the gateway tells the inbox.

use serde::Deserialize;

use super::channels::Channel;
use super::message::Message;
use super::places::Session;
use super::snowflake::Snowflake;

/// Events that may wait for the inbox.
pub(crate) const WAITING: usize = 1_000;

#[derive(Debug)]
pub(crate) struct News {
    /// Its number in the session.
    pub(crate) seq: u64,
    pub(crate) what: What,
}

/// A server, or a part of one.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Guild {
    pub(crate) id: Snowflake,
    /// When the bot came, as Discord writes times.
    #[serde(default)]
    pub(crate) joined_at: Option<String>,
    #[serde(default)]
    pub(crate) channels: Vec<Channel>,
    #[serde(default)]
    pub(crate) threads: Vec<Channel>,
}

#[derive(Deserialize)]
struct Named {
    id: Snowflake,
}

#[derive(Deserialize)]
struct Begun {
    #[serde(default)]
    guilds: Vec<Named>,
}

#[derive(Debug)]
pub(crate) enum What {
    /// A session began: everything before it may have been missed.
    Ready {
        session: Option<Session>,
        /// The servers that it will describe.
        guilds: Vec<Snowflake>,
    },
    /// A server is there, with the last message of each channel.
    Guild(Box<Guild>),
    /// A channel or thread is new or changed.
    Channel(Channel),
    Message(Box<Message>),
    /// Something that is not for the inbox.
    Passed,
}

impl What {
    pub(crate) fn read(kind: &str, content: &str) -> Result<Self, serde_json::Error> {
        Ok(match kind {
            "READY" => {
                let begun: Begun = serde_json::from_str(content)?;
                Self::Ready { session: None, guilds: begun.guilds.into_iter().map(|guild| guild.id).collect() }
            }
            "GUILD_CREATE" => Self::Guild(serde_json::from_str(content)?),
            "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE" => {
                Self::Channel(serde_json::from_str(content)?)
            }
            "MESSAGE_CREATE" => Self::Message(serde_json::from_str(content)?),
            // Edits, deletions and reactions of people are no messages.
            _ => Self::Passed,
        })
    }
}
