//! Keys of index rows that need more than a line in the schema, each a function of one record.

use std::collections::BTreeSet;

use super::keys::{AgentChatKey, ApproverKey, HostKey, PersonKey, QueueKey, SenderKey, ThreadKey};
use super::list_keys::Owned;
use super::text_key::{ForeignKey, Text};
use crate::model::Awake;
use crate::model::approval::{Approval, ApprovalSubject};
use crate::model::console::CHANNEL;
use crate::model::content::BlobId;
use crate::model::delivery::{OutState, Outbound};
use crate::model::host_grant::HostRequest;
use crate::model::id::{AgentId, ApprovalId, BodyId, ChatId, JournalId, MessageId, OutboundId, SessionId};
use crate::model::message::{Body, Drop, Reason};
use crate::model::policy::Policy;

/// Key of an undelivered message in its outgoing queue.
#[must_use]
pub fn lane(id: OutboundId, outbound: &Outbound) -> Option<QueueKey> {
    let undelivered = matches!(outbound.state, OutState::Waiting { .. } | OutState::Attempting { .. });
    let to = ThreadKey::of(outbound.to.as_ref().filter(|_| undelivered)?);
    Some(QueueKey { to, turn: outbound.turn(), outbound: id })
}

/// The chat of the console that a message is for.
pub(super) fn console_chat(outbound: &Outbound) -> Option<ForeignKey> {
    let to = outbound.to.as_ref().filter(|to| to.channel.as_str() == CHANNEL)?;
    Some(ForeignKey::of(&to.platform_id))
}

/// The time of the next action for a message, if it is the head of its queue. The limit of an attempt is a constant: if
/// it changed from one transaction to the next, old rows would not be found.
#[must_use]
pub const fn head_due(outbound: &Outbound) -> Option<Awake> {
    match &outbound.state {
        OutState::Attempting { since } => Some(since.plus(Policy::STANDARD.attempt_max)),
        OutState::Waiting { until, .. } => *until,
        _ => None,
    }
}

/// Keys of a body in the index of files.
pub(super) fn blobs(id: BodyId, body: &Body) -> Vec<(Owned<Text, BodyId>, ())> {
    let blobs: BTreeSet<&BlobId> = body.attachments.iter().filter_map(|file| file.blob.stored()).collect();
    blobs.into_iter().filter_map(|blob| Some((Owned { owner: Text::new(blob.as_str()).ok()?, id }, ()))).collect()
}

/// Key of a journal entry by its message.
pub(super) fn of_message(id: JournalId, message: Option<MessageId>) -> Option<(Owned<MessageId, JournalId>, ())> {
    Some((Owned { owner: message?, id }, ()))
}

/// Key of an open approval by its approver.
pub(super) fn approver(id: ApprovalId, approval: &Approval) -> Option<(ApproverKey, ())> {
    let approver = PersonKey::of(approval.approver.as_ref().filter(|_| approval.state.is_open())?);
    Some((ApproverKey { approver, turn: approval.turn(), approval: id }, ()))
}

/// The chat and the sender that an open approval is about.
pub(super) fn sender_asked_about(approval: &Approval) -> Option<SenderKey> {
    match &approval.about {
        ApprovalSubject::Sender { chat, sender, .. } if approval.state.is_open() => {
            Some(SenderKey { chat: *chat, sender: PersonKey::of(sender) })
        }
        _ => None,
    }
}

/// The chat without a wired agent that an approval is about.
pub(super) const fn unwired_chat(approval: &Approval) -> Option<ChatId> {
    match &approval.about {
        ApprovalSubject::Channel { chat, .. } => Some(*chat),
        _ => None,
    }
}

/// The session that requested an open approval.
pub(super) const fn asking_session(approval: &Approval) -> Option<SessionId> {
    match &approval.about {
        ApprovalSubject::Packages { session, .. }
        | ApprovalSubject::McpServer { session, .. }
        | ApprovalSubject::CreateAgent { session, .. }
            if approval.state.is_open() =>
        {
            Some(*session)
        }
        ApprovalSubject::Tool(request) if approval.state.is_open() => Some(request.session),
        _ => None,
    }
}

/// The session of an approval about a tool call.
pub(super) const fn tool_session(approval: &Approval) -> Option<SessionId> {
    match &approval.about {
        ApprovalSubject::Tool(request) => Some(request.session),
        _ => None,
    }
}

/// The name of the budget that an open approval is about.
pub(super) fn asked_budget(approval: &Approval) -> Option<Text> {
    match &approval.about {
        ApprovalSubject::Budget(request) if approval.state.is_open() => Text::new(request.budget.name()).ok(),
        _ => None,
    }
}

/// The agent and the hosts that an open approval is about.
pub(super) fn asked_hosts(id: ApprovalId, approval: &Approval) -> Vec<(HostKey, ApprovalId)> {
    let hosts = match &approval.about {
        ApprovalSubject::Host(request) => std::slice::from_ref(request),
        ApprovalSubject::Hosts(request) => &request.hosts,
        _ => &[],
    };
    let key =
        |request: &HostRequest| Some(HostKey { agent: request.agent, host: Text::new(request.to.to_string()).ok()? });
    hosts.iter().filter(|_| approval.state.is_open()).filter_map(|request| Some((key(request)?, id))).collect()
}

/// The agent that wants the hosts that an approval is about.
pub(super) const fn wanting_agent(approval: &Approval) -> Option<AgentId> {
    match &approval.about {
        ApprovalSubject::Host(request) => Some(request.agent),
        ApprovalSubject::Hosts(request) => Some(request.agent),
        _ => None,
    }
}

/// The key of a dropped event in `dropped_for_backlog`, if it belongs there.
#[must_use]
pub fn refused_for_backlog(drop: &Drop) -> Option<AgentChatKey> {
    let (agent, chat) = drop.agent.zip(drop.chat).filter(|_| drop.reason == Reason::Backlog)?;
    Some(AgentChatKey { agent, chat })
}
