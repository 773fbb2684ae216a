//! Older versions of wirings.

use serde::{Deserialize, Serialize};

use super::agent::OriginV1;
use crate::model::Timestamp;
use crate::model::entity::{Engage, Ignored, SenderScope, SessionMode, Wiring};
use crate::state::envelope::Unreadable;

#[derive(Serialize, Deserialize)]
pub(in crate::state) struct WiringV1 {
    pub(in crate::state) engage: EngageV1,
    pub(in crate::state) senders: SendersV1,
    pub(in crate::state) ignored: IgnoredV1,
    pub(in crate::state) session: SessionV1,
    pub(in crate::state) priority: i32,
    pub(in crate::state) origin: OriginV1,
    pub(in crate::state) created: Timestamp,
}

#[derive(Serialize, Deserialize)]
pub(in crate::state) enum EngageV1 {
    Pattern(String),
    Mention,
    MentionSticky,
}

super::frozen_enum! {
    SendersV1 => SenderScope { All, Known }
    IgnoredV1 => Ignored { Drop, Accumulate }
    SessionV1 => SessionMode { Shared, PerThread, AgentShared }
}

/// Whose messages are context is what the chat's rule says.
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

pub(in crate::state) fn upgrade(version: u16, body: &[u8]) -> Result<Wiring, Unreadable> {
    super::first::<WiringV1, Wiring>(version, body)
}
