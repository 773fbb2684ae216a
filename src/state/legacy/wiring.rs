//! Older versions of wirings.

use serde::{Deserialize, Serialize};

use super::agent::OriginV1;
use crate::envelope::Unreadable;
use crate::model::Timestamp;
use crate::model::entity::{Engage, Ignored, SenderScope, SessionMode, Wiring};

#[derive(Serialize, Deserialize)]
pub(crate) struct WiringV1 {
    pub(crate) engage: EngageV1,
    pub(crate) senders: SendersV1,
    pub(crate) ignored: IgnoredV1,
    pub(crate) session: SessionV1,
    pub(crate) priority: i32,
    pub(crate) origin: OriginV1,
    pub(crate) created: Timestamp,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum EngageV1 {
    Pattern(String),
    Mention,
    MentionSticky,
}

super::frozen_enum! {
    SendersV1 => SenderScope { All, Known }
    IgnoredV1 => Ignored { Drop, Accumulate }
    SessionV1 => SessionMode { Shared, PerThread, AgentShared }
}

/// The chat's rule decides whose messages become context.
impl From<WiringV1> for Wiring {
    fn from(old: WiringV1) -> Self {
        let WiringV1 { engage, senders, ignored, session, priority, origin, created } = old;
        Self {
            engage: match engage {
                EngageV1::Pattern(pattern) => Engage::Pattern(pattern),
                EngageV1::Mention => Engage::Mention,
                EngageV1::MentionSticky => Engage::MentionSticky,
            },
            senders: senders.into(),
            ignored: ignored.into(),
            session: session.into(),
            priority,
            context_from: None,
            origin: origin.into(),
            created,
        }
    }
}

pub(crate) fn upgrade(version: u16, body: &[u8]) -> Result<Wiring, Unreadable> {
    super::first::<WiringV1, Wiring>(version, body)
}
