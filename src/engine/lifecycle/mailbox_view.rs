//! The intended content of a session's mailbox, derived only from the tables.

use crate::lifecycle::{context, recap, replies};
use crate::model::address::Address;
use crate::model::budget::Fallback;
use crate::model::delivery::{Author, OutState};
use crate::model::effect::{AlreadySent, ContextView, DestinationTarget, DestinationView, Export, ExportedMessage};
use crate::model::entity::{Agent, Destination};
use crate::model::id::{AgentId, MessageId, SessionId};
use crate::model::message::MessageState;
use crate::model::session::ChatSession;
use crate::rows::{agents, people, session_files, session_providers, tool_grants, transcripts};
use crate::state::{DestinationKey, Read, SentKey, Tables};
use crate::tx::Tx;
use crate::{Result, rows};

/// Maximum number of messages in one mailbox at a time. More follow when these are done.
const EXPORTED_MAX: usize = 200;

/// Maximum total bytes of their payloads. A single larger message is exported alone.
const EXPORTED_MAX_BYTES: usize = 8 << 20;

/// How many outgoing messages are searched for those that an unfinished turn has already sent.
const SAID_BACK_MAX: usize = 100;

/// Maximum number of destinations of one agent.
const DESTINATIONS_MAX: usize = 1_000;

/// A session, in its current state, and its agent.
#[derive(Clone, Copy)]
pub(crate) struct SessionRef<'a> {
    pub(crate) id: SessionId,
    pub(crate) session: &'a ChatSession,
    pub(crate) agent: &'a Agent,
}

/// The export of one message that has just been queued, with the newest context. None if the mailbox is full, so that
/// the message follows later. The context file is not included: its changes are exported separately.
pub(crate) fn one(
    tx: &mut Tx<'_, '_>,
    of: SessionRef<'_>,
    message: ExportedMessage,
    oldest: u64,
) -> Result<Option<Export>> {
    if !in_window(oldest, message.seq) {
        return Ok(None);
    }
    let mut ids = vec![(message.seq, message.id)];
    ids.extend(context::newest(tx, of.id, of.agent.settings.max_prompt_messages)?);
    let messages = views(tx, ids, Some(message))?;
    Ok(Some(Export { session: of.id, context: None, messages, replies: None, exact: false, files: Vec::new() }))
}

/// Whether a message fits into the mailbox, given the oldest queued one.
pub(crate) fn in_window(oldest: u64, seq: u64) -> bool {
    // Positions in a session are at least two apart, which bounds the number of messages before it.
    seq.saturating_sub(oldest) / 2 < EXPORTED_MAX as u64
}

/// The export of all queued messages of a session that fit into a mailbox, with the newest context and the context
/// file. `exact` removes everything else from the mailbox, for an incarnation that is about to start.
pub(crate) fn everything(tx: &mut Tx<'_, '_>, of: SessionRef<'_>, exact: bool) -> Result<Export> {
    let due = tx.db.ready_messages.collect_prefix(tx, &of.id, EXPORTED_MAX)?;
    let mut ids: Vec<(u64, MessageId)> = due.into_iter().map(|(key, message)| (key.seq, message)).collect();
    if !ids.is_empty() {
        ids.extend(context::newest(tx, of.id, of.agent.settings.max_prompt_messages)?);
    }
    let messages = views(tx, ids, None)?;
    let context = Some(context_view(tx, of)?);
    let replies = Some(replies::of(tx, of.id, of.session.live)?);
    let files = if exact { session_files::of(tx.db, tx, of.id, tx.policy.session_files_max)? } else { Vec::new() };
    Ok(Export { session: of.id, context, messages, replies, exact, files })
}

/// Loads messages in order, up to the byte limit. One of them may be loaded already.
fn views(
    tx: &Tx<'_, '_>,
    mut ids: Vec<(u64, MessageId)>,
    mut at_hand: Option<ExportedMessage>,
) -> Result<Vec<ExportedMessage>> {
    ids.sort_unstable();
    let mut messages = Vec::with_capacity(ids.len());
    let mut bytes = 0_usize;
    for (_, id) in ids {
        let view = match at_hand.take_if(|message| message.id == id) {
            Some(message) => message,
            None => view(tx, id)?,
        };
        bytes = bytes.saturating_add(view.content.as_str().len());
        if bytes > EXPORTED_MAX_BYTES && !messages.is_empty() {
            break;
        }
        messages.push(view);
    }
    Ok(messages)
}

/// A message as exported to its agent.
pub(crate) fn view(tx: &Tx<'_, '_>, id: MessageId) -> Result<ExportedMessage> {
    message_of(tx.db, tx, id)
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
        unknown_sender: people::is_stranger(db, txn, &body, message.agent)?,
        reply: message.reply.or_else(|| rows::destinations::address(message.from.is_some(), &body)),
        content: body.content.raw,
        transcripts: transcripts::of(db, txn, message.body, &body.attachments)?,
        attachments: body.attachments,
    })
}

/// What the agent of a session would receive now: its context file's data, its queued messages, and the newest context.
/// Read-only: excess context is skipped, not completed.
pub(crate) fn peek(
    db: &Tables,
    txn: &Read<'_>,
    id: SessionId,
    session: &ChatSession,
) -> Result<(ContextView, Vec<ExportedMessage>)> {
    let agent = db.agents.require(txn, &session.agent)?;
    let kept = usize::try_from(agent.settings.max_prompt_messages).unwrap_or(usize::MAX);
    let mut rows = db.ready_messages.collect_prefix(txn, &id, EXPORTED_MAX)?;
    rows.extend(db.context_messages.collect_last(txn, &id, kept)?);
    rows.sort_unstable();
    let messages = rows.into_iter().map(|(_, message)| message_of(db, txn, message)).collect::<Result<_>>()?;
    Ok((context_of(db, txn, SessionRef { id, session, agent: &agent })?, messages))
}

/// The current data of a session's context file.
pub(crate) fn context_view(tx: &Tx<'_, '_>, of: SessionRef<'_>) -> Result<ContextView> {
    context_of(tx.db, tx, of)
}

fn context_of(db: &Tables, txn: &Read<'_>, of: SessionRef<'_>) -> Result<ContextView> {
    let SessionRef { id, session, agent } = of;
    let settings = agents::settings_in(db, txn, id, session, agent)?.into_owned();
    Ok(ContextView {
        version: session.context_version,
        folder: agent.folder.to_string(),
        incarnation: session.live.unwrap_or(session.last_incarnation),
        session_name: session.name,
        reply: session.reply.clone(),
        destinations: destinations(db, txn, session.agent)?,
        next_number: session.next_agent_number(),
        already_sent: already_sent(db, txn, id)?,
        recap: recap::of(db, txn, id)?,
        provider: settings.provider,
        memory: session_providers::of(db, txn, id)?.fallback().map(Fallback::memory),
        settings,
        epoch: session.epoch,
        timezone: agents::timezone(db, txn, agent)?,
        granted: tool_grants::of_session(db, txn, session.agent, id)?,
    })
}

/// Chats and agents that an agent may write to, by its names for them.
pub(crate) fn destinations(db: &Tables, txn: &Read<'_>, agent: AgentId) -> Result<Vec<DestinationView>> {
    let mut views = Vec::new();
    for (DestinationKey { name, .. }, destination) in db.destinations.collect_prefix(txn, &agent, DESTINATIONS_MAX)? {
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

/// Messages that agents sent during turns that have not ended. The next incarnation should not repeat them.
fn already_sent(db: &Tables, txn: &Read<'_>, session: SessionId) -> Result<Vec<AlreadySent>> {
    let mut said = Vec::new();
    for (SentKey { number, .. }, id) in db.outbound_by_number.collect_last(txn, &session, SAID_BACK_MAX)? {
        let outbound = db.outbound.require(txn, &id)?;
        let Author::Agent { .. } = outbound.author else { continue };
        let Some(question) = outbound.in_reply_to else { continue };
        let Some(message) = db.messages.get(txn, &question)? else { continue };
        // A request to Hearth itself is no message.
        let sent = !matches!(
            outbound.state,
            OutState::Refused { .. }
                | OutState::Abandoned { .. }
                | OutState::Failed { .. }
                | OutState::Carried { message: None, .. }
        );
        if sent && matches!(message.state, MessageState::Pending(_)) {
            said.push(AlreadySent { in_reply_to: Some(message.seq), number, text: outbound.text });
        }
    }
    said.reverse();
    Ok(said)
}
