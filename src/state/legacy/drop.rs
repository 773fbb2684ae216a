//! Older versions of dropped events.

use serde::{Deserialize, Serialize};

use crate::envelope::Unreadable;
use crate::model::Timestamp;
use crate::model::address::{ChannelName, ForeignId, UserId};
use crate::model::id::{AgentId, ChatId};
use crate::model::message::{Drop, Reason};

#[derive(Serialize, Deserialize)]
pub(crate) struct DropV1 {
    pub(crate) at: Timestamp,
    pub(crate) channel: ChannelName,
    pub(crate) platform_id: ForeignId,
    pub(crate) chat: Option<ChatId>,
    pub(crate) agent: Option<AgentId>,
    pub(crate) platform_message: Option<ForeignId>,
    pub(crate) sender: Option<UserId>,
    pub(crate) sender_name: Option<String>,
    pub(crate) reason: ReasonV1,
}

super::frozen_enum! {
    ReasonV1 => Reason {
        UnknownChat, NoAgentWired, ChatDenied, NoAgentEngaged, PatternMismatch, NotMentioned, UnknownUserScope, SenderScopeNotMember, UnknownUser, UnknownSenderStrict, ApprovalUnavailable, SenderHeld, ChannelHeld, HeldFull, ApprovalsFull, Rejected, ApprovalExpired, Superseded, ChatRemoved, NobodyToAsk, Muted, CommandFiltered, CommandDenied, TooManyHops, Answer, Backlog, AgentRemoved, AlreadyStored, StoreFull, Owner, GlobalAdmin, AdminOfAgent, Member, Public, PatternMatch, Mentioned, Sticky, RaisedToTrigger, PairingCode
    }
}

impl From<DropV1> for Drop {
    fn from(old: DropV1) -> Self {
        let DropV1 { at, channel, platform_id, chat, agent, platform_message, sender, sender_name, reason } = old;
        Self {
            at,
            channel,
            platform_id,
            thread: None,
            chat,
            agent,
            platform_message,
            sender,
            sender_name,
            reason: reason.into(),
        }
    }
}

pub(crate) fn upgrade(version: u16, body: &[u8]) -> Result<Drop, Unreadable> {
    super::first::<DropV1, Drop>(version, body)
}
