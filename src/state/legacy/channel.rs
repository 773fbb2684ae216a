//! Older versions of channel instances.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::agent::OriginV1;
use crate::envelope::{Unreadable, decode};
use crate::model::Timestamp;
use crate::model::address::ChannelName;
use crate::model::channel::{ChannelInstance, ChannelKind, UnknownChats};

#[derive(Serialize, Deserialize)]
pub(crate) struct ChannelV1 {
    pub(crate) name: ChannelName,
    pub(crate) kind: KindV1,
    pub(crate) token: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) secret: Option<String>,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) origin: OriginV1,
    pub(crate) created: Timestamp,
}

super::frozen_enum! {
    KindV1 => ChannelKind { Terminal, Telegram, Webhook }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ChannelV2 {
    pub(crate) name: ChannelName,
    pub(crate) kind: KindV1,
    pub(crate) token: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) secret: Option<String>,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) link_previews: bool,
    pub(crate) unknown_chats: UnknownChatsV2,
    pub(crate) tell_strangers: bool,
    pub(crate) origin: OriginV1,
    pub(crate) created: Timestamp,
}

super::frozen_enum! {
    UnknownChatsV2 => UnknownChats { Ask, Ignore }
}

impl From<ChannelV2> for ChannelInstance {
    fn from(old: ChannelV2) -> Self {
        let ChannelV2 { name, kind, token, base_url, secret, listen, .. } = old;
        Self {
            name,
            kind: kind.into(),
            token,
            base_url,
            secret,
            listen,
            program: None,
            link_previews: old.link_previews,
            unknown_chats: old.unknown_chats.into(),
            tell_strangers: old.tell_strangers,
            origin: old.origin.into(),
            created: old.created,
        }
    }
}

impl From<ChannelV1> for ChannelV2 {
    fn from(old: ChannelV1) -> Self {
        let ChannelV1 { name, kind, token, base_url, secret, listen, origin, created } = old;
        let unknown_chats = UnknownChatsV2::Ask;
        Self {
            name,
            kind,
            token,
            base_url,
            secret,
            listen,
            link_previews: false,
            unknown_chats,
            tell_strangers: false,
            origin,
            created,
        }
    }
}

pub(crate) fn upgrade(version: u16, body: &[u8]) -> Result<ChannelInstance, Unreadable> {
    match version {
        1 => decode::<ChannelV1>(body).map(ChannelV2::from).map(ChannelInstance::from),
        2 => decode::<ChannelV2>(body).map(ChannelInstance::from),
        _ => Err(super::unknown(version)),
    }
}
