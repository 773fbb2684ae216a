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
use crate::state::recall::source;
use crate::state::{self, AgentRouteKey, ChatKey, ForeignKey, Owned, Read, RouteKey, Tables, Text};

/// Messages of people that are shown.
const MESSAGES_MAX: usize = 60;
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

/// Reads a chat; none if there is no such agent.
pub(super) fn read(
    db: &Tables,
    txn: &Read<'_>,
    who: &Visitor,
    folder: &str,
) -> Result<Option<FoundChat>, state::Error> {
    let Ok(folder_key) = Text::new(folder) else { return Ok(None) };
    let Some(agent) = db.agents_by_folder.get(txn, &folder_key)? else { return Ok(None) };
    let Ok(address) = address(folder, &who.user) else { return Ok(None) };
    let row = db.agents.require(txn, &agent)?;
    let name = AgentName { folder: folder.to_owned(), name: row.settings.name };
    let chat = Chat { agent: name, others: Vec::new(), lines: Vec::new(), cut: false, working: None, writing: None };
    let mut found = FoundChat { chat, address, open: Vec::new() };
    let place = ChatKey::of(&found.address.channel, &found.address.platform_id);
    let Some(chat) = db.chats_by_address.get(txn, &place)? else { return Ok(Some(found)) };
    if let Some(session) = session(db, txn, agent, chat)? {
        fill(db, txn, &mut found, session)?;
    }
    Ok(Some(found))
}

fn session(db: &Tables, txn: &Read<'_>, agent: AgentId, chat: ChatId) -> Result<Option<SessionId>, state::Error> {
    db.sessions_by_route.get(txn, &AgentRouteKey { agent, route: RouteKey::from(&Route::Shared(chat)) })
}

fn fill(db: &Tables, txn: &Read<'_>, found: &mut FoundChat, session: SessionId) -> Result<(), state::Error> {
    let messages = db.messages_by_session.collect_last(txn, &session, MESSAGES_MAX + 1)?;
    found.chat.cut = messages.len() > MESSAGES_MAX;
    let mut answers = BTreeMap::new();
    for (_, id) in messages {
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
        answers.extend(db.outbound.get(txn, &answer)?.map(|row| (answer, row)));
    }
    for (id, row) in answers {
        if is_of(db, txn, &found.address, &row)? {
            found.chat.lines.extend(answer(db, txn, found, id, row)?);
        }
    }
    found.chat.lines.sort_by_key(|line| line.at);
    if found.chat.cut {
        // What was said before the first message that is shown would stand there without its question.
        let first = found.chat.lines.iter().position(|line| line.by == Author::Person).unwrap_or_default();
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
