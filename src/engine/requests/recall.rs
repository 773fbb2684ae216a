//! Searches of agents, with their tool `recall`. Only reads.

use crate::lifecycle::replies::{self, Asker};
use crate::model::id::ChatId;
use crate::model::request::RecallRequest;
use crate::model::visible::{exact_pair, free};
use crate::recall::{Asked, Found, FoundText, Viewer, search};
use crate::requests::self_change;
use crate::rows::agents;
use crate::rules::json;
use crate::rules::json::Field;
use crate::state::recall::source;
use crate::time::local;
use crate::time::zone::Zone;
use crate::tx::Tx;
use crate::{Result, readable};

/// Texts in an answer, if the agent does not say how many, and at most.
const TEXTS: u32 = 10;
const TEXTS_MAX: u32 = 50;

/// Searches what was said in the chat of the session, and answers with one paragraph for each text.
pub(crate) fn serve(
    tx: &mut Tx<'_, '_>,
    asker: &Asker,
    wanted: &RecallRequest,
) -> Result<std::result::Result<(), String>> {
    let Some((agent, _)) = self_change::agent_of(tx, asker.session)? else {
        return Ok(Err("the agent was removed".to_owned()));
    };
    let zone = agents::zone_of(tx, agent)?;
    let most = wanted.limit.unwrap_or(TEXTS).clamp(1, TEXTS_MAX);
    let asked = Asked {
        query: &wanted.query,
        agent: None,
        chat: None,
        after: None,
        before: None,
        most: usize::try_from(most).unwrap_or(1),
        now: tx.now.wall,
        zone: &zone,
    };
    let found = match search(tx.db, tx, &Viewer::Session(asker.session), &asked)? {
        Ok(found) => found,
        Err(why) => return Ok(Err(why)),
    };
    let own = source::session(tx.db, tx, asker.session)?.and_then(|session| source::chat_of(&session.route));
    let mut lines = Vec::with_capacity(found.texts.len());
    for text in &found.texts {
        let elsewhere = text.chat.filter(|chat| Some(*chat) != own);
        let place = elsewhere.map(|chat| place(tx, chat)).transpose()?.unwrap_or_default();
        lines.push(paragraph(text, &place, &zone));
    }
    let text = told(&found, lines);
    replies::answer(tx, asker, Ok(json::object(&[("text", Field::Text(&text))])))?;
    Ok(Ok(()))
}

/// Where something was said that was not said in the chat of the session.
fn place(tx: &Tx<'_, '_>, id: ChatId) -> Result<String> {
    let chat = readable(tx.db.chats.get(tx, &id))?;
    Ok(chat.map_or_else(String::new, |chat| {
        let name = chat.name.as_deref().map(|name| format!(" {}", free(name))).unwrap_or_default();
        let address = exact_pair(chat.channel.as_str(), '/', chat.platform_id.as_str());
        format!(" in another chat{name} ({address})")
    }))
}

fn told(found: &Found, mut lines: Vec<String>) -> String {
    if lines.is_empty() {
        lines.push("Nothing was found.".to_owned());
    }
    if found.cut {
        lines.push("(more was found: use more words, or a larger limit)".to_owned());
    }
    if found.incomplete {
        lines.push("(older messages are still being indexed)".to_owned());
    }
    lines.join("\n\n")
}

/// What was said by others stays quoted text: it is in one line, after who said it.
fn paragraph(text: &FoundText, place: &str, zone: &Zone) -> String {
    let who = if text.who.is_empty() { "a person" } else { &text.who };
    let mut line = format!("[{}] {}, {who}{place}: {}", text.id, local::show(text.at, zone), text.excerpt.text);
    if !text.files.is_empty() {
        line.push_str(&format!(" (files: {})", text.files.join(", ")));
    }
    line
}
