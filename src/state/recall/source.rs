//! What rows of the store say, and where that is found. A function of rows, so that it can be repeated.

use crate::error::readable;
use crate::model::address::{Address, UserId};
use crate::model::delivery::{Act, Author, OutState, Outbound};
use crate::model::id::{AgentId, BodyId, ChatId, SessionId};
use crate::model::input::InboundEvent;
use crate::model::message::{Body, MessageKind};
use crate::model::recall::RecallScope;
use crate::model::session::{ChatSession, Route};
use crate::model::skip::SkipSummary;
use crate::model::time::Timestamp;
pub use crate::search::words::TERMS_MAX;
use crate::search::{Words, terms, tokens};
use crate::{ChatKey, Read, Result, SessionKey, Tables};

/// Words of a sender's name and id that are kept as marks, and the longest one.
const WHO_MAX: usize = 8;
const WHO_BYTES: usize = 64;

/// A text before its words are counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SaidText {
    /// The text, and names of files.
    text: String,
    marks: Vec<String>,
}

impl SaidText {
    /// Its words.
    #[must_use]
    pub fn words(&self) -> Words {
        Words::of(&self.text, &self.marks)
    }

    fn new<'a>(text: &str, files: impl Iterator<Item = &'a str>, mut marks: Vec<String>) -> Self {
        let mut text = text.to_owned();
        let before = text.len();
        for file in files {
            text.push('\n');
            text.push_str(file);
        }
        if text.len() > before {
            marks.push(terms::HAS_FILE.to_owned());
        }
        Self { text, marks }
    }
}

/// What an event says that becomes a body.
#[must_use]
pub fn of_event(event: &InboundEvent) -> SaidText {
    let content = &event.content;
    let handle = content.sender.as_ref().map(|sender| sender.as_str());
    let marks = who(content.sender_name.as_deref(), handle);
    SaidText::new(&content.text, event.attachments.iter().map(|file| file.name.as_str()), marks)
}

/// What a message says; none for messages from Hearth, which are not said by anybody.
#[must_use]
pub fn of_body(body: &Body) -> Option<SaidText> {
    let is_own = match body.kind {
        MessageKind::System => true,
        MessageKind::Chat | MessageKind::ChatSdk => body.source.is_none() && body.sender.is_none(),
        MessageKind::Task | MessageKind::Webhook => false,
    };
    if is_own {
        return None;
    }
    let content = &body.content;
    let handle = content.sender.as_ref().map(|sender| sender.as_str());
    let marks = who(content.sender_name.as_deref(), handle.or_else(|| body.sender.as_ref().map(handle_of)));
    Some(SaidText::new(&content.text, body.attachments.iter().map(|file| file.name.as_str()), marks))
}

/// As [`of_body`] for a message with this body, which also says what was heard in its audio files.
///
/// # Errors
/// Those of reading rows.
pub fn of_stored(db: &Tables, txn: &Read<'_>, id: BodyId, body: &Body) -> Result<Option<SaidText>> {
    let Some(mut said) = of_body(body) else { return Ok(None) };
    // Most messages have no files.
    if !body.attachments.is_empty()
        && let Some(row) = readable(db.transcripts.get(txn, &id))?
    {
        for text in row.files.iter().filter_map(|file| file.state.get().ok()) {
            said.text.push('\n');
            said.text.push_str(text);
        }
    }
    Ok(Some(said))
}

fn handle_of(user: &UserId) -> &str {
    user.handle().as_str()
}

/// What an agent says.
#[must_use]
pub fn of_answer_text<'a>(text: &str, files: impl Iterator<Item = &'a str>) -> SaidText {
    SaidText::new(text, files, vec![terms::BY_AGENT.to_owned()])
}

/// What an agent said, and in which session; none for what it may not send, and for messages from Hearth.
#[must_use]
pub fn of_outbound(outbound: &Outbound) -> Option<(SessionId, SaidText)> {
    let Author::Agent { session, .. } = &outbound.author else { return None };
    let said = match &outbound.act {
        Act::Say | Act::Edit(_) => !outbound.text.is_empty() || !outbound.files.is_empty(),
        Act::Ask(_) | Act::React(_) => false,
    };
    let stands =
        !matches!(outbound.state, OutState::Refused { .. } | OutState::Abandoned { .. } | OutState::Carried { .. });
    let files = outbound.files.iter().map(|file| file_name(file));
    (said && stands).then(|| (*session, of_answer_text(&outbound.text, files)))
}

/// The name of a file that an agent sends, which ends the name under which it is kept.
#[must_use]
pub fn file_name(kept: &str) -> &str {
    kept.rsplit_once('/').map_or(kept, |(_, name)| name)
}

/// What a skip says.
#[must_use]
pub fn of_skip(skip: &SkipSummary) -> SaidText {
    let mut text = format!("{}\n{}\n{}", skip.skill, skip.report.step, skip.report.reason);
    for item in &skip.report.items {
        text.push('\n');
        text.push_str(item);
    }
    SaidText::new(&text, std::iter::empty(), vec![terms::BY_AGENT.to_owned()])
}

/// The marks of a sender.
fn who(name: Option<&str>, handle: Option<&str>) -> Vec<String> {
    let mut marks: Vec<String> = [name, handle]
        .into_iter()
        .flatten()
        .flat_map(tokens::all)
        .filter(|token| token.word.len() <= WHO_BYTES)
        .take(WHO_MAX)
        .map(|token| terms::who(&token.word))
        .collect();
    marks.sort();
    marks.dedup();
    marks
}

/// A session of an agent.
///
/// # Errors
/// Those of reading rows.
pub fn session(db: &Tables, txn: &Read<'_>, id: SessionId) -> Result<Option<ChatSession>> {
    let Some(workspace) = db.sessions_by_id.get(txn, &id)? else { return Ok(None) };
    let row = db.sessions.get(txn, &SessionKey { workspace, session: id })?;
    Ok(row.and_then(crate::model::session::Session::chat))
}

/// The chat of a session, if it has one of its own.
#[must_use]
pub const fn chat_of(route: &Route) -> Option<ChatId> {
    match route {
        Route::Shared(chat) | Route::PerThread(chat, _) => Some(*chat),
        Route::AgentShared => None,
    }
}

/// Where something is found that was said to or by an agent in a session, at an address if there is one. It was stored
/// then, or is now. None if its chat was removed: the chat that has the address since is another one.
///
/// # Errors
/// Those of reading rows.
pub fn scope(
    db: &Tables,
    txn: &Read<'_>,
    of: &ChatSession,
    at: Option<&Address>,
    stored: Option<Timestamp>,
) -> Result<Option<RecallScope>> {
    let own = chat_of(&of.route);
    let Some(at) = at else { return Ok(Some(RecallScope::Chat(of.agent, own))) };
    let mut chat = db.chats_by_address.get(txn, &ChatKey::of(&at.channel, &at.platform_id))?;
    if let (Some(id), Some(stored)) = (chat, stored) {
        chat = readable(db.chats.get(txn, &id))?.filter(|chat| chat.created <= stored).map(|_| id);
    }
    Ok(chat.or(own).map(|chat| RecallScope::Chat(of.agent, Some(chat))))
}

/// Where something of an agent is found that happened in a session, if it is known.
///
/// # Errors
/// Those of reading rows.
pub fn scope_in(db: &Tables, txn: &Read<'_>, agent: AgentId, id: Option<SessionId>) -> Result<RecallScope> {
    let session = match id {
        Some(id) => session(db, txn, id)?,
        None => None,
    };
    Ok(RecallScope::Chat(agent, session.and_then(|session| chat_of(&session.route))))
}
