//! Searches of agents, with their tool `recall`. Only reads.

use crate::Result;
use crate::lifecycle::replies::{self, Asker};
use crate::model::request::RecallRequest;
use crate::recall::{Asked, Found, FoundText, Viewer, search};
use crate::requests::self_change;
use crate::rows::agents;
use crate::rules::json;
use crate::rules::json::Field;
use crate::time::local;
use crate::time::zone::Zone;
use crate::tx::Tx;

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
    let text = told(&found, &zone);
    replies::answer(tx, asker, Ok(json::object(&[("text", Field::Text(&text))])))?;
    Ok(Ok(()))
}

fn told(found: &Found, zone: &Zone) -> String {
    let mut lines: Vec<String> = found.texts.iter().map(|text| paragraph(text, zone)).collect();
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
fn paragraph(text: &FoundText, zone: &Zone) -> String {
    let who = if text.who.is_empty() { "a person" } else { &text.who };
    let mut line = format!("[{}] {}, {who}: {}", text.id, local::show(text.at, zone), text.excerpt.text);
    if !text.files.is_empty() {
        line.push_str(&format!(" (files: {})", text.files.join(", ")));
    }
    line
}
