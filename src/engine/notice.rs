//! Telling people and agents that something did not work. Nothing fails silently.

use super::json::{self, Field};
use super::messages::NewMessage;
use super::{Cx, Result, messages, outbox, remove, sessions, wake};
use crate::model::address::{Address, ChannelName, ForeignId};
use crate::model::content::{Content, RawJson};
use crate::model::delivery::{Act, Author, OutState, Outbound};
use crate::model::effect::Effect;
use crate::model::id::{MessageId, OutboundId, SessionId, TaskId};
use crate::model::message::{Body, Message, MessageKind};
use crate::model::task::Task;
use crate::state::{ForeignKey, Write};

/// Channel on which an owner of this machine is always reachable.
const OWNER_CHANNEL: &str = "terminal";
/// Who speaks when Hearth does.
const SENDER: &str = "system";
/// Chats of the terminal that are looked at: those of people come before those of agents.
const TERMINALS_MAX: usize = 100;
/// Longest part of an error that is shown in a chat.
const SHOWN_MAX: usize = 500;

/// Tells the person who wrote a message that it failed.
fn message_failed(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, message): (MessageId, &Message),
    error: &str,
    effects: &mut Vec<Effect>,
) -> Result<Option<OutboundId>> {
    let Some(to) = message.reply.clone() else {
        if let Some(hop) = message.from {
            tell_agent(cx, txn, hop.session, &format!("Your message {id} to another agent failed: {error}"))?;
        }
        let what = message.slot.map_or_else(|| id.to_string(), |slot| format!("The scheduled task {}", slot.task));
        tell_owner(cx, txn, &format!("{what} failed: {error}"), effects)?;
        return Ok(None);
    };
    let text = match message.slot {
        None => format!("Your message could not be processed: {}", shortened(error)),
        Some(slot) => format!("Your scheduled task {} failed: {}", slot.task, shortened(error)),
    };
    say_to(cx, txn, (to, Some(id)), text, effects).map(Some)
}

/// Who was told of messages that failed together: each place once, but of every scheduled task, which is called by its name.
#[derive(Debug, Default)]
pub(super) struct Told {
    places: Vec<((Address, Option<TaskId>), OutboundId)>,
}

impl Told {
    /// As [`message_failed`], unless that is told already; what was said there.
    pub(super) fn message_failed(
        &mut self,
        cx: &Cx<'_>,
        txn: &mut Write<'_>,
        (id, message, error): (MessageId, &Message, &str),
        effects: &mut Vec<Effect>,
    ) -> Result<Option<OutboundId>> {
        if let Some(known) = self.known(message) {
            return Ok(Some(known));
        }
        let said = message_failed(cx, txn, (id, message), error, effects)?;
        self.places.extend(place(message).zip(said));
        Ok(said)
    }

    /// What was said where a message came from.
    pub(super) fn known(&self, message: &Message) -> Option<OutboundId> {
        let here = place(message)?;
        self.places.iter().find(|(known, _)| *known == here).map(|(_, said)| *said)
    }

    /// What was said first, wherever that was.
    pub(super) fn first(&self) -> Option<OutboundId> {
        self.places.first().map(|(_, said)| *said)
    }
}

fn place(message: &Message) -> Option<(Address, Option<TaskId>)> {
    Some((message.reply.clone()?, message.slot.map(|slot| slot.task)))
}

/// Tells the owner that a task fails again and again; and, since each failure of a turn is told where it was to be
/// answered but none of a script is, the same place.
pub(super) fn task_failing(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, task): (TaskId, &Task),
    error: &str,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let whose = cx.db.agents.get(txn, &task.agent)?.map_or_else(String::new, |agent| format!(" of {}", agent.folder));
    let text = format!(
        "The scheduled task {id}{whose} failed several times in a row: {} See `hearth tasks history {id}`.",
        ended(&shortened(error))
    );
    if let (Some(to), Some(_)) = (task.reply.clone().filter(|to| to.channel.as_str() != OWNER_CHANNEL), &task.script) {
        say_to(cx, txn, (to, None), text.clone(), effects)?;
    }
    tell_owner(cx, txn, &text, effects)
}

/// With a full stop, if it has no end of its own.
fn ended(text: &str) -> String {
    if text.ends_with(['.', '!', '?', '…']) { text.to_owned() } else { format!("{text}.") }
}

/// Says something as Hearth.
pub(super) fn say_to(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (to, in_reply_to): (Address, Option<MessageId>),
    text: String,
    effects: &mut Vec<Effect>,
) -> Result<OutboundId> {
    let notice = notice(cx, to, in_reply_to, text);
    outbox::say(cx, txn, notice, effects)
}

/// Tells the agent, and the owner, that something it said never arrived.
pub(super) fn delivery_failed(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, outbound): (OutboundId, &Outbound),
    error: &str,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let place = outbound.to.as_ref().map_or_else(String::new, |to| format!(" to {}/{}", to.channel, to.platform_id));
    let text = format!("Message {id}{place} could not be delivered: {}", shortened(error));
    if let Author::Agent { session, .. } = &outbound.author
        && let Some(row) = sessions::load(cx, txn, *session)?
        && !remove::is_removed(cx, txn, row.agent)?
    {
        tell_agent(cx, txn, *session, &text)?;
    }
    let to_owner = outbound.to.as_ref().is_some_and(|to| to.channel.as_str() == OWNER_CHANNEL);
    if to_owner { Ok(()) } else { tell_owner(cx, txn, &text, effects) }
}

/// Leaves a note among a session's context; it does not start a turn.
pub(super) fn tell_agent(cx: &Cx<'_>, txn: &mut Write<'_>, session: SessionId, text: &str) -> Result<()> {
    leave(cx, txn, session, (text, MessageKind::System, false)).map(drop)
}

/// Tells a session's agent something that it has to act on: a turn of its own.
pub(super) fn wake_agent(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    session: SessionId,
    text: &str,
    effects: &mut Vec<Effect>,
) -> Result<MessageId> {
    let message = leave(cx, txn, session, (text, MessageKind::Chat, true))?;
    wake::wake_about(cx, txn, (session, message), effects)?;
    Ok(message)
}

/// Leaves a message in a session that asks for a turn; nobody is woken for it here.
pub(super) fn leave_request(cx: &Cx<'_>, txn: &mut Write<'_>, session: SessionId, text: &str) -> Result<MessageId> {
    leave(cx, txn, session, (text, MessageKind::Chat, true))
}

fn leave(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    session: SessionId,
    (text, kind, trigger): (&str, MessageKind, bool),
) -> Result<MessageId> {
    let sender = if trigger { ForeignId::new("the sender", SENDER).ok() } else { None };
    let raw = if trigger { woken(text) } else { payload(text) };
    let content = Content { text: text.to_owned(), sender, sender_name: Some(SENDER.to_owned()), raw };
    let body = Body {
        content,
        kind,
        said: cx.now.wall,
        source: None,
        platform_message: None,
        sender: None,
        attachments: Vec::new(),
    };
    let body = messages::insert_body(cx, txn, &body)?;
    let (row, seq) = sessions::update(cx, txn, session, crate::model::session::ChatSession::take_seq)?;
    let new = NewMessage { session, agent: row.agent, seq, body, trigger, reply: row.reply, from: None, slot: None };
    messages::insert(cx, txn, new)
}

/// Says something on the owner's terminal, if there ever was one.
pub(super) fn tell_owner(cx: &Cx<'_>, txn: &mut Write<'_>, text: &str, effects: &mut Vec<Effect>) -> Result<()> {
    match owner(cx, txn)? {
        Some(to) => say_to(cx, txn, (to, None), text.to_owned(), effects).map(drop),
        None => Ok(()),
    }
}

/// The owner's terminal, if there ever was one.
pub(super) fn owner(cx: &Cx<'_>, txn: &Write<'_>) -> Result<Option<Address>> {
    let Ok(terminal) = ChannelName::new(OWNER_CHANNEL) else { return Ok(None) };
    let terminal = ForeignKey::of(&terminal);
    for (_, chat) in cx.db.chats_by_address.collect_prefix(txn, &terminal, TERMINALS_MAX)? {
        let chat = cx.db.chats.require(txn, &chat)?;
        // What is said to one person alone is not said to whoever sits at the terminal.
        if !chat.platform_id.as_str().starts_with('@') {
            return Ok(Some(Address { channel: chat.channel, platform_id: chat.platform_id, thread: None }));
        }
    }
    Ok(None)
}

/// Something Hearth says, not stored yet.
pub(super) fn notice(cx: &Cx<'_>, to: Address, in_reply_to: Option<MessageId>, text: String) -> Outbound {
    Outbound {
        author: Author::Hearth,
        to: Some(to),
        act: Act::Say,
        in_reply_to,
        content: payload(&text),
        text,
        files: Vec::new(),
        state: OutState::Waiting { until: None, after: None },
        attempts: 0,
        first_attempt: None,
        uncertain: 0,
        stored: cx.now.wall,
    }
}

/// `{"text": …, "sender": "system"}`.
fn payload(text: &str) -> RawJson {
    json::object(&[("text", Field::Text(text)), ("sender", Field::Text(SENDER))])
}

/// The same with an id, as messages of people have one.
fn woken(text: &str) -> RawJson {
    json::object(&[("text", Field::Text(text)), ("sender", Field::Text(SENDER)), ("senderId", Field::Text(SENDER))])
}

/// The beginning of an error, as much of it as is shown in a chat.
pub(super) fn shortened(error: &str) -> String {
    match error.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", error.get(..end).unwrap_or_default()),
        None => error.to_owned(),
    }
}
