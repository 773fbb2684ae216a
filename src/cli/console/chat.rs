//! Reads a person's chat with an agent.

use std::collections::BTreeMap;

use crate::cli::labels;
use crate::console::Visitor;
use crate::console::chat::address;
use crate::console::view::{AgentName, Author, CardButton, Chat, Line, LineFile};
use crate::model::address::Address;
use crate::model::approval::QuestionState;
use crate::model::card::{Card, PromptSubject};
use crate::model::delivery::{Act, Author as OutAuthor, OutState, Outbound};
use crate::model::id::{AgentId, ChatId, MessageId, OutboundId, SessionId};
use crate::model::message::{Message, MessageState};
use crate::model::session::Route;
use crate::model::time::Timestamp;
use crate::state::recall::source;
use crate::state::{self, AgentRouteKey, ChatKey, ForeignKey, InboxKey, Owned, Read, RouteKey, Tables, Text};

/// Messages of people that are shown.
const MESSAGES_MAX: usize = 60;
/// Those before one that was asked for, and those from it on.
const BEFORE_MAX: usize = 30;
const AFTER_MAX: usize = 30;
/// Answers to one message that are shown.
const ANSWERS_MAX: usize = 50;
/// Its newest outgoing messages that are shown although they answer none of these, like cards and reminders.
const NEWEST_MAX: usize = 300;

/// A chat, and what is needed to find out what is being written in it.
pub(super) struct FoundChat {
    pub(super) chat: Chat,
    pub(super) address: Address,
    /// Messages that have not ended.
    pub(super) open: Vec<MessageId>,
}

/// Reads a chat, at its end or around a message or answer; none if there is no such agent.
pub(super) fn read(
    db: &Tables,
    txn: &Read<'_>,
    who: &Visitor,
    folder: &str,
    at: Option<&str>,
) -> Result<Option<FoundChat>, state::Error> {
    let Ok(folder_key) = Text::new(folder) else { return Ok(None) };
    let Some(agent) = db.agents_by_folder.get(txn, &folder_key)? else { return Ok(None) };
    let Ok(address) = address(folder, &who.user) else { return Ok(None) };
    let row = db.agents.require(txn, &agent)?;
    let name = AgentName { folder: folder.to_owned(), name: row.settings.name };
    let (others, lines) = (Vec::new(), Vec::new());
    let chat = Chat { agent: name, others, lines, earlier: None, later: None, working: None, writing: None };
    let mut found = FoundChat { chat, address, open: Vec::new() };
    let place = ChatKey::of(&found.address.channel, &found.address.platform_id);
    let Some(chat) = db.chats_by_address.get(txn, &place)? else { return Ok(Some(found)) };
    if let Some(session) = session(db, txn, agent, chat)? {
        fill(db, txn, &mut found, session, at)?;
    }
    Ok(Some(found))
}

fn session(db: &Tables, txn: &Read<'_>, agent: AgentId, chat: ChatId) -> Result<Option<SessionId>, state::Error> {
    db.sessions_by_route.get(txn, &AgentRouteKey { agent, route: RouteKey::from(&Route::Shared(chat)) })
}

/// Messages of a session that are shown, in order.
struct Window {
    messages: Vec<MessageId>,
    has_earlier: bool,
    /// When the first later one was stored; none if these are the newest.
    end: Option<Timestamp>,
}

impl Window {
    /// The newest messages, or those around one.
    fn read(db: &Tables, txn: &Read<'_>, session: SessionId, at: Option<&Message>) -> Result<Self, state::Error> {
        let (mut before, most, mut after) = match at {
            None => {
                let newest = db.messages_by_session.collect_last(txn, &session, MESSAGES_MAX + 1)?;
                (newest, MESSAGES_MAX, Vec::new())
            }
            Some(at) => {
                let key = |seq| InboxKey { session, seq };
                let before = db.messages_by_session.collect_last_of(txn, key(0)..key(at.seq), BEFORE_MAX + 1)?;
                let after = db.messages_by_session.collect_range(txn, key(at.seq)..=key(u64::MAX), AFTER_MAX + 1)?;
                (before, BEFORE_MAX, after)
            }
        };
        let has_earlier = before.len() > most;
        before.truncate(most);
        let beyond = after.split_off(after.len().min(AFTER_MAX));
        let end = match beyond.first() {
            Some((_, id)) => db.messages.get(txn, id)?.map(|message| message.stored),
            None => None,
        };
        let messages = before.into_iter().rev().chain(after).map(|(_, id)| id).collect();
        Ok(Self { messages, has_earlier, end })
    }
}

/// The message that an id names, or that an answer answers, if it is one of the session.
fn message_at(db: &Tables, txn: &Read<'_>, session: SessionId, id: &str) -> Result<Option<Message>, state::Error> {
    let message = match (id.parse::<MessageId>(), id.parse::<OutboundId>()) {
        (Ok(message), _) => Some(message),
        (_, Ok(answer)) => db.outbound.get(txn, &answer)?.and_then(|row| row.in_reply_to),
        _ => None,
    };
    let Some(message) = message else { return Ok(None) };
    Ok(db.messages.get(txn, &message)?.filter(|message| message.session == session))
}

fn fill(
    db: &Tables,
    txn: &Read<'_>,
    found: &mut FoundChat,
    session: SessionId,
    at: Option<&str>,
) -> Result<(), state::Error> {
    let asked = at.map(|id| message_at(db, txn, session, id)).transpose()?.flatten();
    let Window { messages, has_earlier, end } = Window::read(db, txn, session, asked.as_ref())?;
    let edge = |id: Option<&MessageId>| id.map(ToString::to_string);
    found.chat.earlier = edge(messages.first()).filter(|_| has_earlier);
    found.chat.later = edge(messages.last()).filter(|_| end.is_some());
    let mut answers = BTreeMap::new();
    for id in messages {
        let Some(message) = db.messages.get(txn, &id)? else { continue };
        for (Owned { id: answer, .. }, ()) in db.outbound_by_message.collect_prefix(txn, &id, ANSWERS_MAX)? {
            answers.extend(db.outbound.get(txn, &answer)?.map(|row| (answer, row)));
        }
        if message.waits().is_some() && message.trigger {
            found.open.push(id);
        }
        found.chat.lines.extend(said(db, txn, found, id, &message)?);
    }
    let place = ForeignKey::of(&found.address.platform_id);
    for (Owned { id: answer, .. }, ()) in db.console_outbound.collect_last(txn, &place, NEWEST_MAX)? {
        let row = db.outbound.get(txn, &answer)?.filter(|row| end.is_none_or(|end| row.stored < end));
        answers.extend(row.map(|row| (answer, row)));
    }
    for (id, row) in answers {
        if is_of(db, txn, &found.address, &row)? {
            found.chat.lines.extend(answer(db, txn, found, id, row)?);
        }
    }
    found.chat.lines.sort_by_key(|line| line.at);
    if has_earlier {
        // What was said before the first message that is shown would stand there without its question.
        let begins = |line: &Line| line.by == Author::Person || Some(line.id.as_str()) == at;
        let first = found.chat.lines.iter().position(begins).unwrap_or_default();
        found.chat.lines.drain(..first);
    }
    found.chat.working = working(db, txn, session)?;
    Ok(())
}

/// What the agent of a session does.
fn working(db: &Tables, txn: &Read<'_>, session: SessionId) -> Result<Option<String>, state::Error> {
    if db.claimed_messages.collect_prefix(txn, &session, 1)?.is_empty() {
        let waits = !db.ready_messages.collect_prefix(txn, &session, 1)?.is_empty();
        return Ok(waits.then(|| "The agent is starting…".to_owned()));
    }
    let run = match db.live_incarnations.get(txn, &session)? {
        Some(number) => db.incarnations.get(txn, &crate::model::incarnation::IncarnationId { session, number })?,
        None => None,
    };
    let tool = run.and_then(|run| run.tool).map(|tool| labels::excerpt(&tool.name));
    Ok(Some(tool.map_or_else(|| "The agent is working…".to_owned(), |tool| format!("The agent uses {tool}…"))))
}

/// A message of the person.
fn said(
    db: &Tables,
    txn: &Read<'_>,
    found: &FoundChat,
    id: MessageId,
    message: &Message,
) -> Result<Option<Line>, state::Error> {
    let Some(body) = db.bodies.get(txn, &message.body)? else { return Ok(None) };
    if body.source.as_ref() != Some(&found.address) {
        return Ok(None);
    }
    let detail = labels::state_detail(&message.state).map_or_else(String::new, |words| format!(": {words}"));
    let state = match &message.state {
        MessageState::Completed { .. } => None,
        state => Some(format!("{}{detail}", labels::state(state))),
    };
    Ok(Some(Line {
        id: id.to_string(),
        by: Author::Person,
        at: message.stored,
        text: body.content.text,
        files: body.attachments.into_iter().map(|file| LineFile { name: file.name, download: None }).collect(),
        state,
        buttons: Vec::new(),
    }))
}

/// A message to the person.
fn answer(
    db: &Tables,
    txn: &Read<'_>,
    found: &FoundChat,
    id: OutboundId,
    row: Outbound,
) -> Result<Option<Line>, state::Error> {
    if matches!(row.state, OutState::Abandoned { .. } | OutState::Refused { .. } | OutState::Later(_)) {
        return Ok(None);
    }
    let by = match &row.author {
        // Of Hearth's own messages only spoken answers have files.
        OutAuthor::Hearth if row.files.is_empty() => Author::Hearth,
        OutAuthor::Agent { .. } | OutAuthor::Hearth => Author::Agent(found.chat.agent.name.clone()),
    };
    let (text, buttons) = match &row.act {
        Act::Say => (row.text.clone(), Vec::new()),
        Act::Ask(card) => (format!("{}\n\n{}", card.title, card.body), buttons(db, txn, id, card)?),
        Act::Edit(_) => (format!("(edited) {}", row.text), Vec::new()),
        Act::React(_) => (row.text.clone(), Vec::new()),
    };
    let state = match &row.state {
        OutState::Delivered { .. } => None,
        state => Some(labels::delivery(state).to_owned()),
    };
    let file = |(at, name): (usize, &String)| LineFile { name: base(name).to_owned(), download: Some(at) };
    let files = row.files.iter().enumerate().map(file).collect();
    Ok(Some(Line { id: id.to_string(), by, at: row.stored, text, files, state, buttons }))
}

/// The name of a kept file without its place.
fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Whether a message went to the chat that has an address now: a removed chat may have had it before. What an agent said
/// in the session of the chat did, even if the clock was set back since.
fn is_of(db: &Tables, txn: &Read<'_>, at: &Address, row: &Outbound) -> Result<bool, state::Error> {
    if row.to.as_ref() != Some(at) {
        return Ok(false);
    }
    let Some(chat) = db.chats_by_address.get(txn, &ChatKey::of(&at.channel, &at.platform_id))? else {
        return Ok(false);
    };
    let is_younger = db.chats.require(txn, &chat)?.created <= row.stored;
    let OutAuthor::Agent { session, .. } = row.author else { return Ok(is_younger) };
    let Some(session) = source::session(db, txn, session)? else { return Ok(false) };
    let is_there = db.agents.get(txn, &session.agent)?.is_some_and(|agent| agent.archived.is_none());
    Ok(is_there && (is_younger || source::chat_of(&session.route) == Some(chat)))
}

/// A file of an answer in a person's chat with an agent: its name, and the name under which it is kept.
pub(super) fn file(
    db: &Tables,
    txn: &Read<'_>,
    at: &Address,
    answer: OutboundId,
    place: usize,
) -> Result<Option<KeptName>, state::Error> {
    let Some(row) = db.outbound.get(txn, &answer)? else { return Ok(None) };
    if !is_of(db, txn, at, &row)? {
        return Ok(None);
    }
    let kept = row.files.get(place);
    Ok(kept.map(|kept| KeptName { name: base(kept).to_owned(), kept: kept.clone() }))
}

/// A file that an agent sent.
pub(super) struct KeptName {
    pub(super) name: String,
    /// The name under which it is kept.
    pub(super) kept: String,
}

/// The buttons of a card that still can be answered.
fn buttons(db: &Tables, txn: &Read<'_>, id: OutboundId, card: &Card) -> Result<Vec<CardButton>, state::Error> {
    let PromptSubject::Question(question) = card.matter else { return Ok(Vec::new()) };
    let open = db.questions.get(txn, &question)?;
    if open.is_none_or(|row| row.state != QuestionState::Open || row.card != Some(id)) {
        return Ok(Vec::new());
    }
    let button = |(at, option): (u32, &crate::model::card::CardOption)| CardButton {
        label: option.label.clone(),
        button: card.button(at),
    };
    Ok(card.offered().map(button).collect())
}

/// The newest message of a session.
pub(super) fn last_message(db: &Tables, txn: &Read<'_>, session: &str) -> Result<Option<MessageId>, state::Error> {
    let Ok(session) = session.parse::<SessionId>() else { return Ok(None) };
    Ok(db.messages_by_session.collect_last(txn, &session, 1)?.first().map(|(_, id)| *id))
}
