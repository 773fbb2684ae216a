//! Older versions of channel instances.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::agent::OriginV1;
use crate::envelope::Unreadable;
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

impl From<ChannelV1> for ChannelInstance {
    fn from(old: ChannelV1) -> Self {
        let ChannelV1 { name, kind, token, base_url, secret, listen, origin, created } = old;
        Self {
            name,
            kind: kind.into(),
            token,
            base_url,
            secret,
            listen,
            link_previews: false,
            unknown_chats: UnknownChats::Ask,
            tell_strangers: false,
            origin: origin.into(),
            created,
        }
    }
}

pub(crate) fn upgrade(version: u16, body: &[u8]) -> Result<ChannelInstance, Unreadable> {
    super::first::<ChannelV1, ChannelInstance>(version, body)
}
