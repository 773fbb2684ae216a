//! The pages on which people look things up: the search, and the memory of agents.

use maud::Markup;

use super::form::{Form, segment};
use super::lookup_view::MemoryEdit;
use super::{Host, Seen, Trouble, Views, Visitor, pages};

/// Title and body of a page.
type Drawn = (&'static str, Markup);

/// Draws a page; none if the path is not one of these pages.
pub(super) fn show(
    views: &dyn Views,
    who: &Visitor,
    first: &str,
    rest: Option<&str>,
    query: &Form,
) -> Seen<Option<Drawn>> {
    Ok(match (first, rest) {
        ("search", None) => {
            let words = query.get("q").trim();
            let found = if words.is_empty() { None } else { Some(views.search(who, words)?) };
            Some(("Search", pages::search::page(words, found.as_ref())))
        }
        ("memory", None) if who.rank.decides() => Some(("Memory", pages::memory::list(&views.memory(who)?))),
        ("memory", Some(agent)) if who.rank.decides() && !agent.contains('/') => {
            Some(("Memory", pages::memory::changes(agent, &views.memory_changes(who, agent)?)))
        }
        ("memory", Some(rest)) if who.rank.decides() => {
            let (agent, file) = parts(rest)?;
            let text = views.memory_file(who, agent, file)?;
            let place = pages::memory::Place { agent, file, from: number(query, "from"), line: number(query, "line") };
            Some(("Memory", pages::memory::file(who, &place, &text)))
        }
        _ => None,
    })
}

/// Does what a form asks for. Returns what was done and where to go next; none if the path is not one of these pages.
pub(super) fn act(
    host: &dyn Host,
    who: &Visitor,
    first: &str,
    rest: Option<&str>,
    form: &Form,
) -> Seen<Option<(String, String)>> {
    let ("memory", Some(rest)) = (first, rest) else { return Ok(None) };
    let (agent, file) = parts(rest)?;
    let line = number(form, "line").unwrap_or(0);
    let now = match form.get("how") {
        "remove" => None,
        _ => Some(form.get("text").trim_end_matches(['\r', '\n']).to_owned()),
    };
    let (agent, file, was) = (agent.to_owned(), file.to_owned(), form.get("was").to_owned());
    let to = format!("/memory/{}/{}?from={}", segment(&agent), segment(&file), line.saturating_sub(20).max(1));
    let done = if now.is_some() { "corrected" } else { "removed" };
    let said = format!("Line {line} of {file} was {done}.");
    host.correct_memory(who, &MemoryEdit { agent, file, line, was, now })?;
    Ok(Some((said, to)))
}

fn parts(rest: &str) -> Seen<(&str, &str)> {
    let found = rest.split_once('/').filter(|(agent, file)| !agent.is_empty() && !file.is_empty());
    found.ok_or_else(|| Trouble::NotFound("This page does not exist, or you may not see it.".to_owned()))
}

fn number(form: &Form, name: &str) -> Option<usize> {
    form.get(name).parse().ok()
}
