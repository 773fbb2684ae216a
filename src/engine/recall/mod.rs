//! Search over everything that was said: who finds what, and how it is shown. Reads only.

use std::collections::HashSet;

use crate::Result;
use crate::model::Timestamp;
use crate::model::id::{AgentId, BodyId, ChatId, MessageId};
use crate::model::message::{Body, MessageKind};
use crate::model::recall::{RecallScope, SaidId};
use crate::search::Query;
use crate::search::excerpt::{self, Excerpt};
use crate::state::recall::build::progress;
use crate::state::recall::find::{Hit, Search, find};
use crate::state::recall::{source, version};
use crate::state::{Read, Tables};
use crate::{readable, time};

mod sight;

pub use sight::Viewer;

/// Most texts of one answer.
pub const FOUND_MAX: usize = 100;

/// Characters of an excerpt.
const EXCERPT: usize = 280;

/// Texts that are looked at if the query has phrases, which the index does not know.
const PHRASE_HITS: usize = 400;

#[derive(Debug, Clone)]
pub struct Asked<'a> {
    /// What was written. Its filters apply as well.
    pub query: &'a str,
    /// Only what this agent received and said.
    pub agent: Option<AgentId>,
    /// Only in this chat.
    pub chat: Option<ChatId>,
    /// Not before this time.
    pub after: Option<Timestamp>,
    /// Before this time.
    pub before: Option<Timestamp>,
    /// At most this many texts.
    pub most: usize,
    pub now: Timestamp,
    /// The zone of days in the query.
    pub zone: &'a time::zone::Zone,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FoundText {
    /// Its id, which `why` takes.
    pub id: SaidId,
    /// The agent that received or said it; none for held messages.
    pub agent: Option<AgentId>,
    /// Its chat, if it was said in one.
    pub chat: Option<ChatId>,
    /// When it was said.
    pub at: Timestamp,
    /// Who said it, for people.
    pub who: String,
    /// The part of the text that matches.
    pub excerpt: Excerpt,
    /// Names of files with it.
    pub files: Vec<String>,
}

/// The answer to a search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The best first.
    pub texts: Vec<FoundText>,
    /// Whether there may be more.
    pub cut: bool,
    /// Whether older messages are still being indexed, so that they are not found yet.
    pub incomplete: bool,
}

/// Finds what the viewer may see. A query that cannot be read is answered with a reason.
///
/// # Errors
/// Faults of the store.
pub fn search(
    db: &Tables,
    txn: &Read<'_>,
    viewer: &Viewer,
    asked: &Asked<'_>,
) -> Result<std::result::Result<Found, String>> {
    let query = Query::parse(asked.query);
    let (after, before) = match times(&query, asked) {
        Ok(times) => times,
        Err(why) => return Ok(Err(why)),
    };
    let sight = sight::of(db, txn, viewer)?;
    let scopes = sight::narrow(db, txn, sight.scopes, asked, &query)?;
    let most = asked.most.clamp(1, FOUND_MAX);
    let phrases = query.clauses.iter().any(|clause| matches!(clause, crate::search::Clause::Phrase(_)));
    let wanted = if phrases { PHRASE_HITS } else { most.saturating_mul(3).saturating_add(1) };
    let search = Search { query: &query, scopes: &scopes, own: sight.own, after, before, now: asked.now, most: wanted };
    let hits = find(db, txn, &search)?;
    let mut found = Found { incomplete: is_incomplete(db, txn)?, ..Found::default() };
    let mut shown = HashSet::new();
    for hit in hits {
        if found.texts.len() >= most {
            found.cut = true;
            break;
        }
        if let Some((text, what)) = load(db, txn, hit)?
            && excerpt::has_phrases(&text.whole, &query)
            && after.is_none_or(|after| text.at >= after)
            && before.is_none_or(|before| text.at < before)
            && shown.insert(what)
        {
            found.texts.push(text.show(hit, &query));
        }
    }
    Ok(Ok(found))
}

fn is_incomplete(db: &Tables, txn: &Read<'_>) -> Result<bool> {
    Ok(progress(db, txn, SaidId::Message(MessageId::new(0)))?.is_some() || version::is_old(db, txn)?)
}

type Period = (Option<Timestamp>, Option<Timestamp>);

fn times(query: &Query, asked: &Asked<'_>) -> std::result::Result<Period, String> {
    let read = |text: &Option<String>| match text {
        Some(text) => instant(text, asked).map(Some).ok_or_else(|| {
            format!(
                "`{text}` is not a time; write a day like 2026-04-20, a time like 2026-04-20T08:00, or an age like 7d"
            )
        }),
        None => Ok(None),
    };
    let (after, before) = (read(&query.after)?, read(&query.before)?);
    let latest = match (after, asked.after) {
        (Some(one), Some(other)) => Some(one.max(other)),
        (one, other) => one.or(other),
    };
    let earliest = match (before, asked.before) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    Ok((latest, earliest))
}

/// A day, a time, or an age.
fn instant(text: &str, asked: &Asked<'_>) -> Option<Timestamp> {
    if let Some(day) = crate::model::time::Day::parse(text) {
        return Some(time::local::begin_of_day(day, asked.now, asked.zone));
    }
    if let Ok(age) = time::every::Every::parse(text) {
        return Some(asked.now.minus(age.length()));
    }
    time::local::instant(text, asked.zone).ok()
}

/// The row of a hit.
struct Loaded {
    at: Timestamp,
    who: String,
    whole: String,
    files: Vec<String>,
}

impl Loaded {
    fn show(self, hit: Hit, query: &Query) -> FoundText {
        let (agent, chat) = match hit.scope {
            RecallScope::Chat(agent, chat) => (Some(agent), chat),
            RecallScope::Held(_) => (None, None),
        };
        let excerpt = excerpt::cut(&self.whole, query, EXCERPT);
        FoundText { id: hit.id, agent, chat, at: self.at, who: self.who, excerpt, files: self.files }
    }
}

/// What was said, so that a person sees a message to several agents once.
#[derive(PartialEq, Eq, Hash)]
enum Uttered {
    Body(BodyId),
    Other(SaidId),
}

fn load(db: &Tables, txn: &Read<'_>, hit: Hit) -> Result<Option<(Loaded, Uttered)>> {
    match hit.id {
        SaidId::Message(id) => {
            let Some(row) = readable(db.messages.get(txn, &id))? else { return Ok(None) };
            let Some(body) = readable(db.bodies.get(txn, &row.body))? else { return Ok(None) };
            Ok(Some((of_body(&body, row.stored), Uttered::Body(row.body))))
        }
        SaidId::Held(id) => {
            let Some(body) = readable(db.bodies.get(txn, &id))? else { return Ok(None) };
            Ok(Some((of_body(&body, body.said), Uttered::Body(id))))
        }
        SaidId::Answer(id) => {
            let Some(row) = readable(db.outbound.get(txn, &id))? else { return Ok(None) };
            let files: Vec<String> = row.files.iter().map(|file| source::file_name(file).to_owned()).collect();
            let who = speaker(db, txn, hit.scope)?;
            Ok(Some((Loaded { at: row.stored, who, whole: row.text, files }, Uttered::Other(hit.id))))
        }
        SaidId::Skip(id) => {
            let Some(row) = readable(db.skips.get(txn, &id))? else { return Ok(None) };
            let whole = format!("{}: {} {}", row.skill, row.report.reason, row.report.items.join(", "));
            let who = speaker(db, txn, hit.scope)?;
            Ok(Some((Loaded { at: row.taken, who, whole, files: Vec::new() }, Uttered::Other(hit.id))))
        }
    }
}

fn of_body(body: &Body, at: Timestamp) -> Loaded {
    let named = body.content.sender_name.clone().filter(|name| !name.is_empty());
    let who = match body.kind {
        MessageKind::Task => "task".to_owned(),
        _ => named.or_else(|| body.sender.as_ref().map(ToString::to_string)).unwrap_or_default(),
    };
    let files = body.attachments.iter().map(|file| file.name.clone()).collect();
    Loaded { at, who, whole: body.content.text.clone(), files }
}

/// The agent of a scope, by its folder.
fn speaker(db: &Tables, txn: &Read<'_>, scope: RecallScope) -> Result<String> {
    let RecallScope::Chat(agent, _) = scope else { return Ok(String::new()) };
    Ok(readable(db.agents.get(txn, &agent))?.map_or_else(String::new, |agent| agent.folder.to_string()))
}
