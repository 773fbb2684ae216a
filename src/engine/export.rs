//! What a session's mailbox should hold: made from the tables, never from memory.

use super::requests::{peers, replies};
use super::{Cx, Result, context, sessions};
use crate::model::address::Address;
use crate::model::delivery::{Author, OutState};
use crate::model::effect::{
    AlreadySent, ContextView, DestinationTarget, DestinationView, Effect, Export, ExportedMessage,
};
use crate::model::entity::Destination;
use crate::model::id::{AgentId, MessageId, SessionId};
use crate::model::message::MessageState;
use crate::model::session::Session;
use crate::state::{self, Write};

/// Messages of one session that lie in its mailbox at once; further ones follow when these are done.
const EXPORTED_MAX: usize = 200;
/// Bytes of their payloads, unless the first one alone has more.
const EXPORTED_MAX_BYTES: usize = 8 << 20;
/// How far back to look for what an unfinished turn has already said.
const SAID_BACK_MAX: usize = 100;
/// Destinations of one agent.
const DESTINATIONS_MAX: usize = 1_000;

/// Which due messages of a session.
#[derive(Debug, Clone, Copy)]
pub(super) enum Due {
    /// All that a mailbox holds at once.
    All,
    /// One, by its position.
    One(u64, MessageId),
}

/// Due messages of a session and the newest context, beside what its mailbox holds.
pub(super) fn addition(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (session, due): (SessionId, Due),
    effects: &mut Vec<Effect>,
) -> Result<Export> {
    build(cx, txn, (session, due), effects, false)
}

/// As [`addition`], and nothing else may be in the mailbox: for an incarnation that is about to start.
pub(super) fn everything(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    session: SessionId,
    effects: &mut Vec<Effect>,
) -> Result<Export> {
    build(cx, txn, (session, Due::All), effects, true)
}

fn build(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, due): (SessionId, Due),
    effects: &mut Vec<Effect>,
    exact: bool,
) -> Result<Export> {
    let Some(session) = sessions::load(cx, txn, id)? else {
        return Err(state::Error::Missing { table: "sessions", key: id.to_string() });
    };
    let max_context = cx.db.agents.require(txn, &session.agent)?.settings.max_prompt_messages;
    let mut ids = due_messages(cx, txn, id, due)?;
    if !ids.is_empty() {
        ids.extend(context::newest(cx, txn, (id, max_context), effects)?);
    }
    ids.sort_unstable();
    let mut messages = Vec::with_capacity(ids.len());
    let mut bytes = 0_usize;
    for (_, message) in ids {
        let view = view(cx, txn, message)?;
        bytes = bytes.saturating_add(view.content.as_str().len());
        if bytes > EXPORTED_MAX_BYTES && !messages.is_empty() {
            break;
        }
        messages.push(view);
    }
    let replies = replies::of(cx, txn, id, session.live)?;
    Ok(Export { session: id, context: context_view(cx, txn, (id, &session))?, messages, replies, exact })
}

fn due_messages(cx: &Cx<'_>, txn: &Write<'_>, session: SessionId, due: Due) -> Result<Vec<(u64, MessageId)>> {
    match due {
        Due::All => {
            let rows = cx.db.ready.collect_prefix(txn, &session, EXPORTED_MAX)?;
            Ok(rows.into_iter().map(|((_, seq), message)| (seq, message)).collect())
        }
        Due::One(seq, message) => {
            let oldest = cx.db.ready.first_in(txn, &session)?.map_or(seq, |((_, oldest), _)| oldest);
            // Positions of one session are at least two apart, so no more messages than this are before it.
            let before = usize::try_from(seq.saturating_sub(oldest) / 2).unwrap_or(usize::MAX);
            Ok(if before < EXPORTED_MAX { vec![(seq, message)] } else { Vec::new() })
        }
    }
}

fn view(cx: &Cx<'_>, txn: &Write<'_>, id: MessageId) -> Result<ExportedMessage> {
    let message = cx.db.messages.require(txn, &id)?;
    let body = cx.db.bodies.require(txn, &message.body)?;
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

/// The facts of a session's context file as they are now.
pub(super) fn context_view(cx: &Cx<'_>, txn: &Write<'_>, (id, session): (SessionId, &Session)) -> Result<ContextView> {
    let agent = cx.db.agents.require(txn, &session.agent)?;
    Ok(ContextView {
        version: session.context_version,
        folder: agent.folder.to_string(),
        settings: agent.settings,
        incarnation: session.live.unwrap_or(session.last_incarnation),
        session_name: session.name,
        reply: session.reply.clone(),
        destinations: destinations(cx, txn, session.agent)?,
        next_number: session.next_agent_number(),
        already_sent: already_sent(cx, txn, id)?,
    })
}

fn destinations(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<Vec<DestinationView>> {
    let mut views = Vec::new();
    for ((_, name), destination) in cx.db.destinations.collect_prefix(txn, &agent, DESTINATIONS_MAX)? {
        let (display, target) = match destination {
            Destination::Chat(chat) => match cx.db.chats.get(txn, &chat)? {
                Some(chat) if chat.archived.is_none() => {
                    let address = Address { channel: chat.channel, platform_id: chat.platform_id, thread: None };
                    (chat.name, DestinationTarget::Chat(address))
                }
                _ => continue,
            },
            Destination::Agent(other) => match cx.db.agents.get(txn, &other)? {
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
fn already_sent(cx: &Cx<'_>, txn: &Write<'_>, session: SessionId) -> Result<Vec<AlreadySent>> {
    let mut said = Vec::new();
    for ((_, number), id) in cx.db.outbound_by_number.collect_last(txn, &session, SAID_BACK_MAX)? {
        let outbound = cx.db.outbound.require(txn, &id)?;
        let Author::Agent { .. } = outbound.author else { continue };
        let Some(question) = outbound.in_reply_to else { continue };
        let Some(message) = cx.db.messages.get(txn, &question)? else { continue };
        let sent =
            !matches!(outbound.state, OutState::Refused { .. } | OutState::Abandoned { .. } | OutState::Failed { .. });
        if sent && matches!(message.state, MessageState::Pending(_)) {
            said.push(AlreadySent { in_reply_to: Some(message.seq), number, text: outbound.text });
        }
    }
    said.reverse();
    Ok(said)
}
