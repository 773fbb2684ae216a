//! Older versions of channel instances.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::agent::OriginV1;
use crate::model::Timestamp;
use crate::model::address::ChannelName;
use crate::model::channel::{ChannelInstance, ChannelKind, UnknownChats};
use crate::state::envelope::Unreadable;

#[derive(Serialize, Deserialize)]
pub(in crate::state) struct ChannelV1 {
    pub(in crate::state) name: ChannelName,
    pub(in crate::state) kind: KindV1,
    pub(in crate::state) token: Option<String>,
    pub(in crate::state) base_url: Option<String>,
    pub(in crate::state) secret: Option<String>,
    pub(in crate::state) listen: Option<SocketAddr>,
    pub(in crate::state) origin: OriginV1,
    pub(in crate::state) created: Timestamp,
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

pub(in crate::state) fn upgrade(version: u16, body: &[u8]) -> Result<ChannelInstance, Unreadable> {
    super::first::<ChannelV1, ChannelInstance>(version, body)
}
