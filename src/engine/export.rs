//! What a session's mailbox should hold: made from the tables, never from memory.

use super::requests::{peers, replies};
use super::{Cx, Result, context, spec};
use crate::model::address::Address;
use crate::model::delivery::{Author, OutState};
use crate::model::effect::{
    AlreadySent, ContextView, DestinationTarget, DestinationView, Effect, Export, ExportedMessage,
};
use crate::model::entity::{Agent, Destination};
use crate::model::id::{AgentId, MessageId, SessionId};
use crate::model::message::MessageState;
use crate::model::session::ChatSession;
use crate::state::{Read, Tables, Write};

/// Messages of one session that lie in its mailbox at once; further ones follow when these are done.
const EXPORTED_MAX: usize = 200;
/// Bytes of their payloads, unless the first one alone has more.
const EXPORTED_MAX_BYTES: usize = 8 << 20;
/// How far back to look for what an unfinished turn has already said.
const SAID_BACK_MAX: usize = 100;
/// Destinations of one agent.
const DESTINATIONS_MAX: usize = 1_000;

/// A session as it is now, and its agent.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    /// Which.
    pub(super) id: SessionId,
    /// The session.
    pub(super) session: &'a ChatSession,
    /// Its agent.
    pub(super) agent: &'a Agent,
}

/// One message that has just become due and the newest context, beside what the mailbox holds. None if so many are before
/// it that it follows later. The context file is not part of it: a change of that is an export of its own.
pub(super) fn one(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    of: Of<'_>,
    (message, oldest): (ExportedMessage, u64),
    effects: &mut Vec<Effect>,
) -> Result<Option<Export>> {
    if !in_window(oldest, message.seq) {
        return Ok(None);
    }
    let mut ids = vec![(message.seq, message.id)];
    ids.extend(context::newest(cx, txn, (of.id, of.agent.settings.max_prompt_messages), effects)?);
    let messages = views(cx, txn, ids, Some(message))?;
    Ok(Some(Export { session: of.id, context: None, messages, replies: None, exact: false }))
}

/// Whether a message is one of those that lie in the mailbox at once, by the oldest one that is due.
pub(super) fn in_window(oldest: u64, seq: u64) -> bool {
    // Positions of one session are at least two apart, so no more messages than this are before it.
    seq.saturating_sub(oldest) / 2 < EXPORTED_MAX as u64
}

/// All due messages of a session that a mailbox holds at once, the newest context, and the context file. `exact`: nothing
/// else may be in the mailbox, for an incarnation that is about to start.
pub(super) fn everything(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    of: Of<'_>,
    exact: bool,
    effects: &mut Vec<Effect>,
) -> Result<Export> {
    let due = cx.db.ready.collect_prefix(txn, &of.id, EXPORTED_MAX)?;
    let mut ids: Vec<(u64, MessageId)> = due.into_iter().map(|((_, seq), message)| (seq, message)).collect();
    if !ids.is_empty() {
        ids.extend(context::newest(cx, txn, (of.id, of.agent.settings.max_prompt_messages), effects)?);
    }
    let messages = views(cx, txn, ids, None)?;
    let context = Some(context_view(cx, txn, of)?);
    let replies = Some(replies::of(cx, txn, of.id, of.session.live)?);
    Ok(Export { session: of.id, context, messages, replies, exact })
}

/// Messages in order, as many as the bytes of their payloads allow; one of them may be at hand already.
fn views(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    mut ids: Vec<(u64, MessageId)>,
    mut at_hand: Option<ExportedMessage>,
) -> Result<Vec<ExportedMessage>> {
    ids.sort_unstable();
    let mut messages = Vec::with_capacity(ids.len());
    let mut bytes = 0_usize;
    for (_, id) in ids {
        let view = match at_hand.take_if(|message| message.id == id) {
            Some(message) => message,
            None => view(cx, txn, id)?,
        };
        bytes = bytes.saturating_add(view.content.as_str().len());
        if bytes > EXPORTED_MAX_BYTES && !messages.is_empty() {
            break;
        }
        messages.push(view);
    }
    Ok(messages)
}

/// A message as its agent sees it.
pub(super) fn view(cx: &Cx<'_>, txn: &Write<'_>, id: MessageId) -> Result<ExportedMessage> {
    message_of(cx.db, txn, id)
}

fn message_of(db: &Tables, txn: &Read<'_>, id: MessageId) -> Result<ExportedMessage> {
    let message = db.messages.require(txn, &id)?;
    let body = db.bodies.require(txn, &message.body)?;
    Ok(ExportedMessage {
        seq: message.seq,
        id,
        kind: body.kind,
        trigger: message.trigger,
        said: body.said,
        reply: message.reply.or_else(|| peers::address(message.from.is_some(), &body)),
        content: body.content.raw,
        attachments: body.attachments,
    })
}

/// What the agent of a session would be given now: the facts of its context file, what is due, and the newest context.
/// Changes nothing: context that would be capped is only left out.
pub(super) fn peek(
    db: &Tables,
    txn: &Read<'_>,
    (id, session): (SessionId, &ChatSession),
) -> Result<(ContextView, Vec<ExportedMessage>)> {
    let agent = db.agents.require(txn, &session.agent)?;
    let kept = usize::try_from(agent.settings.max_prompt_messages).unwrap_or(usize::MAX);
    let mut rows = db.ready.collect_prefix(txn, &id, EXPORTED_MAX)?;
    rows.extend(db.context.collect_last(txn, &id, kept)?);
    rows.sort_unstable();
    let messages = rows.into_iter().map(|(_, message)| message_of(db, txn, message)).collect::<Result<_>>()?;
    Ok((context_of(db, txn, Of { id, session, agent: &agent })?, messages))
}

/// The facts of a session's context file as they are now.
pub(super) fn context_view(cx: &Cx<'_>, txn: &Write<'_>, of: Of<'_>) -> Result<ContextView> {
    context_of(cx.db, txn, of)
}

fn context_of(db: &Tables, txn: &Read<'_>, of: Of<'_>) -> Result<ContextView> {
    let Of { id, session, agent } = of;
    Ok(ContextView {
        version: session.context_version,
        folder: agent.folder.to_string(),
        settings: agent.settings.clone(),
        incarnation: session.live.unwrap_or(session.last_incarnation),
        session_name: session.name,
        reply: session.reply.clone(),
        destinations: destinations(db, txn, session.agent)?,
        next_number: session.next_agent_number(),
        already_sent: already_sent(db, txn, id)?,
        provider: session.provider.unwrap_or(agent.settings.provider),
        epoch: session.epoch,
        timezone: spec::timezone(db, txn, agent)?,
    })
}

fn destinations(db: &Tables, txn: &Read<'_>, agent: AgentId) -> Result<Vec<DestinationView>> {
    let mut views = Vec::new();
    for ((_, name), destination) in db.destinations.collect_prefix(txn, &agent, DESTINATIONS_MAX)? {
        let (display, target) = match destination {
            Destination::Chat(chat) => match db.chats.get(txn, &chat)? {
                Some(chat) if chat.archived.is_none() => {
                    let address = Address { channel: chat.channel, platform_id: chat.platform_id, thread: None };
                    (chat.name, DestinationTarget::Chat(address))
                }
                _ => continue,
            },
            Destination::Agent(other) => match db.agents.get(txn, &other)? {
                Some(agent) if agent.archived.is_none() => {
                    (Some(agent.settings.name), DestinationTarget::Agent(agent.folder.to_string()))
                }
                _ => continue,
            },
        };
        views.push(DestinationView { name: name.as_str().to_owned(), display, target });
    }
    Ok(views)
}

/// What agents said at once in turns that have not ended: the next incarnation should not say it again.
fn already_sent(db: &Tables, txn: &Read<'_>, session: SessionId) -> Result<Vec<AlreadySent>> {
    let mut said = Vec::new();
    for ((_, number), id) in db.outbound_by_number.collect_last(txn, &session, SAID_BACK_MAX)? {
        let outbound = db.outbound.require(txn, &id)?;
        let Author::Agent { .. } = outbound.author else { continue };
        let Some(question) = outbound.in_reply_to else { continue };
        let Some(message) = db.messages.get(txn, &question)? else { continue };
        let sent =
            !matches!(outbound.state, OutState::Refused { .. } | OutState::Abandoned { .. } | OutState::Failed { .. });
        if sent && matches!(message.state, MessageState::Pending(_)) {
            said.push(AlreadySent { in_reply_to: Some(message.seq), number, text: outbound.text });
        }
    }
    said.reverse();
    Ok(said)
}
