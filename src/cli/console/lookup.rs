//! Reads what people look up in the console: what was said, and what agents remember.

use crate::cli::{human_size, zone};
use crate::clock;
use crate::config::Paths;
use crate::console::chat::address;
use crate::console::lookup_view::{Excerpted, FoundText, FoundTexts, MemoryChangeRow, MemoryLines, MemoryRow};
use crate::console::segment;
use crate::console::{Rank, Seen, Trouble, Visitor};
use crate::contracts::memory_files::{MemoryChange, MemoryOf};
use crate::engine::recall::{Asked, FoundText as Text, Viewer, search};
use crate::model::entity::{Agent, Trust};
use crate::model::recall::SaidId;
use crate::state::{self, Read, Tables};

/// Texts on a page.
const TEXTS_MAX: usize = 50;
/// Changes of memory on a page.
const CHANGES_MAX: usize = 100;

/// Finds what the person may see.
pub(super) fn find(db: &Tables, txn: &Read<'_>, who: &Visitor, query: &str) -> Result<FoundTexts, state::Error> {
    let zone = zone::or_the_machines(None);
    let asked = Asked {
        query,
        agent: None,
        chat: None,
        after: None,
        before: None,
        most: TEXTS_MAX,
        now: clock::wall(),
        zone: &zone,
    };
    let found = match search(db, txn, &Viewer::Person(who.user.clone()), &asked)? {
        Ok(found) => found,
        Err(problem) => return Ok(FoundTexts { problem: Some(problem), ..FoundTexts::default() }),
    };
    let texts = found.texts.into_iter().map(|text| shape(db, txn, who, text)).collect::<Result<_, _>>()?;
    Ok(FoundTexts { texts, cut: found.cut, incomplete: found.incomplete, problem: None })
}

fn shape(db: &Tables, txn: &Read<'_>, who: &Visitor, text: Text) -> Result<FoundText, state::Error> {
    let agent = match text.agent {
        Some(agent) => db.agents.get(txn, &agent)?.map(|agent| agent.folder.to_string()),
        None => None,
    };
    let chat = match text.chat {
        Some(chat) => db.chats.get(txn, &chat)?,
        None => None,
    };
    let own = |folder: &str| address(folder, &who.user).ok();
    let is_own = agent
        .as_deref()
        .and_then(own)
        .zip(chat.as_ref())
        .is_some_and(|(own, chat)| (&own.channel, &own.platform_id) == (&chat.channel, &chat.platform_id));
    let id = text.id.to_string();
    let page = match (text.id, agent.as_deref().filter(|_| is_own)) {
        (SaidId::Message(_) | SaidId::Answer(_), Some(folder)) => {
            Some(format!("/chat/{}?at={id}#{id}", segment(folder)))
        }
        (SaidId::Message(_) | SaidId::Answer(_), None) => Some(format!("/why/{}", segment(&id))),
        (SaidId::Skip(_) | SaidId::Held(_), _) => None,
    };
    let chat = chat.map(|chat| chat.name.unwrap_or_else(|| format!("{}/{}", chat.channel, chat.platform_id)));
    let place: Vec<String> = agent.into_iter().chain(chat).collect();
    let place = if place.is_empty() { "waits for a decision".to_owned() } else { place.join(" in ") };
    let who = if text.who.is_empty() { "someone".to_owned() } else { text.who };
    let excerpt = pieces(&text.excerpt.text, &text.excerpt.marks);
    Ok(FoundText { id, page, at: text.at, who, place, excerpt, files: text.files })
}

/// Splits a text at what matches.
fn pieces(text: &str, marks: &[std::ops::Range<usize>]) -> Vec<Excerpted> {
    let mut pieces = Vec::new();
    let mut at = 0;
    let mut add = |part: Option<&str>, matches| {
        if let Some(part) = part.filter(|part| !part.is_empty()) {
            pieces.push(Excerpted { text: part.to_owned(), matches });
        }
    };
    for mark in marks {
        add(text.get(at..mark.start), false);
        add(text.get(mark.clone()), true);
        at = mark.end;
    }
    add(text.get(at..), false);
    pieces
}

/// The agents whose memory the person sees. What trusted agents share is seen by those who see everything.
pub(super) fn agents(db: &Tables, txn: &Read<'_>, who: &Visitor) -> Result<Vec<Agent>, state::Error> {
    let mut found = Vec::new();
    for row in db.agents.iter(txn)? {
        let (_, agent) = row?;
        if agent.archived.is_none() && who.rank.sees(agent.folder.as_str()) {
            found.push(agent);
        }
    }
    Ok(found)
}

/// What changed in the memory of an agent.
pub(super) fn memory_changes(
    paths: &Paths,
    who: &Visitor,
    agents: &[Agent],
    agent: &str,
) -> Seen<Vec<MemoryChangeRow>> {
    let none = || Trouble::NotFound("There is no such agent, or you may not see it.".to_owned());
    let agent = agents.iter().find(|known| known.folder.as_str() == agent).ok_or_else(none)?;
    let changes =
        of(paths, who, agent).changes(None, CHANGES_MAX).map_err(|error| Trouble::Failed(error.to_string()))?;
    let row = |MemoryChange { at, file, line, text }| MemoryChangeRow { at, file, line, text };
    Ok(changes.into_iter().map(row).collect())
}

fn of<'a>(paths: &'a Paths, who: &Visitor, agent: &'a Agent) -> MemoryOf<'a> {
    let shared = agent.settings.trust != Trust::Untrusted && who.rank == Rank::Everything;
    MemoryOf { paths, folder: &agent.folder, shared }
}

pub(super) fn memory(paths: &Paths, who: &Visitor, agents: &[Agent]) -> Seen<Vec<MemoryRow>> {
    let mut rows = Vec::new();
    for agent in agents {
        for file in of(paths, who, agent).files().map_err(|error| Trouble::Failed(error.to_string()))? {
            rows.push(MemoryRow {
                agent: agent.folder.to_string(),
                file: file.name,
                size: human_size::decimal(file.bytes),
                changed: file.changed,
            });
        }
    }
    Ok(rows)
}

pub(super) fn memory_file(
    paths: &Paths,
    who: &Visitor,
    agents: &[Agent],
    agent: &str,
    file: &str,
) -> Seen<MemoryLines> {
    let none = || Trouble::NotFound("There is no such file, or you may not see it.".to_owned());
    let agent = agents.iter().find(|known| known.folder.as_str() == agent).ok_or_else(none)?;
    let failed = |error: crate::contracts::Error| Trouble::Failed(error.to_string());
    let memory = of(paths, who, agent);
    let file = memory.file(file).map_err(failed)?.ok_or_else(none)?;
    let text = memory.read(&file).map_err(failed)?;
    Ok(MemoryLines { lines: text.map(|text| text.lines().map(str::to_owned).collect()) })
}
