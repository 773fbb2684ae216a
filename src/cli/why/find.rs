//! Finds the event for `hearth why`. Searches start at the newest rows and read a bounded number of them.

use std::collections::BTreeSet;

use crate::model::Timestamp;
use crate::model::address::ForeignId;
use crate::model::id::{BodyId, DropId, MessageId, OutgoingId};
use crate::model::message::{Body, Drop};
use crate::state::{self, HeldKey, Owned, Read, SeenKey, Tables};

/// Maximum number of messages and refusals that a search reads.
const LOOKED_AT_MAX: u64 = 20_000;
/// Messages that wait for decisions and are looked at.
const HELD_MAX: usize = 20_000;
/// Events that one answer explains.
const HITS_MAX: usize = 20;
/// How many ids before a refusal are searched for other refusals of the same event.
const FAN_OUT_MAX: u64 = 1_000;
/// Maximum number of messages of one event.
const SAME_MAX: usize = 1_000;

/// What the user asks about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Query {
    /// A message of a session.
    Message(MessageId),
    /// An outgoing message.
    Answer(OutgoingId),
    /// The platform's id of a message.
    Platform(String),
    /// Words in a message.
    Words(String),
    /// The last event.
    Latest,
}

/// One event: the messages it became, the refusals of it, and the decision it waits for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FoundEvent {
    /// Ascending.
    pub(super) messages: Vec<MessageId>,
    /// Ascending.
    pub(super) drops: Vec<DropId>,
    /// The message that waits for a decision.
    pub(super) held: Option<HeldKey>,
}

/// The answer of a search.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SearchResult {
    /// Newest first.
    pub(super) hits: Vec<FoundEvent>,
    /// Whether the search ended before it had read the whole store.
    pub(super) cut: bool,
}

/// Finds what a query asks about.
pub(super) fn find(db: &Tables, txn: &Read<'_>, query: &Query) -> Result<SearchResult, state::Error> {
    match query {
        Query::Message(id) => {
            let hits = match db.messages.contains(txn, id)? {
                true => vec![around(db, txn, *id)?],
                false => Vec::new(),
            };
            Ok(SearchResult { hits, cut: false })
        }
        Query::Answer(answer) => {
            let known = answer.epoch.is_none() || db.outgoing(txn, answer.id)? == *answer;
            let row = if known { db.outbound.get(txn, &answer.id)? } else { None };
            let message = row.and_then(|row| row.in_reply_to);
            let hits = message.map(|id| around(db, txn, id)).transpose()?.into_iter().collect();
            Ok(SearchResult { hits, cut: false })
        }
        Query::Platform(text) => {
            let same = |id: &Option<ForeignId>| id.as_ref().is_some_and(|id| id.as_str() == text);
            let mut search = messages(db, txn, |body| same(&body.platform_message))?;
            drops(db, txn, &mut search, |drop| same(&drop.platform_message))?;
            held(db, txn, &mut search, |body| same(&body.platform_message))?;
            Ok(search)
        }
        Query::Words(words) => {
            let words = words.to_lowercase();
            let has = |body: &Body| body.content.text.to_lowercase().contains(&words);
            let mut search = messages(db, txn, has)?;
            held(db, txn, &mut search, has)?;
            Ok(search)
        }
        Query::Latest => latest(db, txn),
    }
}

fn latest(db: &Tables, txn: &Read<'_>) -> Result<SearchResult, state::Error> {
    let message = db.messages.last(txn, ..)?;
    let refusal = db.dropped_events.last(txn, ..)?;
    let newest = message.as_ref().map(|(_, message)| message.stored).max(refusal.as_ref().map(|(_, drop)| drop.at));
    if let Some((stored, key)) = newest_held(db, txn)?
        && newest.is_none_or(|newest| stored > newest)
    {
        return Ok(SearchResult { hits: vec![FoundEvent { held: Some(key), ..FoundEvent::default() }], cut: false });
    }
    let hit = match (message, refusal) {
        (Some((_, message)), Some((id, drop))) if drop.at > message.stored => alike(db, txn, id, &drop)?,
        (None, Some((id, drop))) => alike(db, txn, id, &drop)?,
        (Some((id, _)), _) => around(db, txn, id)?,
        (None, None) => return Ok(SearchResult::default()),
    };
    Ok(SearchResult { hits: vec![hit], cut: false })
}

/// Events whose body is wanted, newest first.
fn messages(db: &Tables, txn: &Read<'_>, wanted: impl Fn(&Body) -> bool) -> Result<SearchResult, state::Error> {
    let newest = db.messages.last(txn, ..)?.map_or(0, |(id, _)| id.number());
    let oldest = newest.saturating_sub(LOOKED_AT_MAX);
    let mut search = SearchResult { hits: Vec::new(), cut: oldest > 0 };
    let mut known: BTreeSet<BodyId> = BTreeSet::new();
    for number in (oldest.saturating_add(1)..=newest).rev() {
        let id = MessageId::new(number);
        let Some(message) = db.messages.get(txn, &id)? else { continue };
        if !known.insert(message.body) {
            continue;
        }
        if db.bodies.get(txn, &message.body)?.is_some_and(|body| wanted(&body)) {
            search.hits.push(around(db, txn, id)?);
            if search.hits.len() >= HITS_MAX {
                search.cut = true;
                break;
            }
        }
    }
    Ok(search)
}

/// Adds refused events that no message was found for.
fn drops(
    db: &Tables,
    txn: &Read<'_>,
    search: &mut SearchResult,
    wanted: impl Fn(&Drop) -> bool,
) -> Result<(), state::Error> {
    let known: BTreeSet<DropId> = search.hits.iter().flat_map(|hit| hit.drops.iter().copied()).collect();
    let (rows, cut) = newest_drops(db, txn, |_, drop| wanted(drop))?;
    search.cut |= cut;
    let mut groups: Vec<(Drop, FoundEvent)> = Vec::new();
    for (id, drop) in rows.into_iter().filter(|(id, _)| !known.contains(id)) {
        let place = groups.iter_mut().find(|(first, _)| same_event(first, &drop));
        match place {
            Some((_, hit)) => hit.drops.insert(0, id),
            None => groups.push((drop, FoundEvent { drops: vec![id], ..FoundEvent::default() })),
        }
    }
    search.hits.extend(groups.into_iter().map(|(_, hit)| hit));
    Ok(())
}

/// Adds events that wait for a decision and are nowhere else yet, the newest first.
fn held(
    db: &Tables,
    txn: &Read<'_>,
    search: &mut SearchResult,
    wanted: impl Fn(&Body) -> bool,
) -> Result<(), state::Error> {
    let known: BTreeSet<BodyId> = search.hits.iter().filter_map(|hit| hit.held).map(|key| key.body).collect();
    let mut found = Vec::new();
    search.cut |= db.held_messages.len(txn)? > HELD_MAX as u64;
    for row in db.held_messages.iter(txn)?.take(HELD_MAX) {
        let (key, _) = row?;
        if !known.contains(&key.body) && db.bodies.get(txn, &key.body)?.is_some_and(|body| wanted(&body)) {
            found.push((key.body, key));
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    let hits = found.into_iter().map(|(_, key)| FoundEvent { held: Some(key), ..FoundEvent::default() });
    search.hits.splice(0..0, hits.take(HITS_MAX));
    Ok(())
}

/// The decision that a body waits for.
fn waiting(db: &Tables, txn: &Read<'_>, body: BodyId) -> Result<Option<HeldKey>, state::Error> {
    Ok(db
        .held_messages_by_body
        .first_in(txn, &body)?
        .map(|(Owned { owner: body, id: approval }, _)| HeldKey { approval, body }))
}

/// The newest message that waits for a decision.
fn newest_held(db: &Tables, txn: &Read<'_>) -> Result<Option<(Timestamp, HeldKey)>, state::Error> {
    let Some((Owned { owner: body, id: approval }, _)) = db.held_messages_by_body.last(txn, ..)? else {
        return Ok(None);
    };
    let key = HeldKey { approval, body };
    Ok(db.held_messages.get(txn, &key)?.map(|held| (held.stored, key)))
}

/// The newest matching refusals, newest first, and whether older ones were not searched.
pub(in crate::cli) fn newest_drops(
    db: &Tables,
    txn: &Read<'_>,
    mut wanted: impl FnMut(DropId, &Drop) -> bool,
) -> Result<(Vec<(DropId, Drop)>, bool), state::Error> {
    let newest = db.dropped_events.last(txn, ..)?.map_or(0, |(id, _)| id.number());
    let oldest = newest.saturating_sub(LOOKED_AT_MAX);
    let mut found = Vec::new();
    for number in (oldest.saturating_add(1)..=newest).rev() {
        let id = DropId::new(number);
        if let Some(drop) = db.dropped_events.get(txn, &id)?
            && wanted(id, &drop)
        {
            found.push((id, drop));
        }
    }
    Ok((found, oldest > 0))
}

/// The event of a refusal without a message: all its refusals.
fn alike(db: &Tables, txn: &Read<'_>, id: DropId, drop: &Drop) -> Result<FoundEvent, state::Error> {
    let oldest = id.number().saturating_sub(FAN_OUT_MAX);
    let mut hit = FoundEvent::default();
    for number in oldest..=id.number() {
        let other = DropId::new(number);
        if db.dropped_events.get(txn, &other)?.is_some_and(|row| same_event(&row, drop)) {
            hit.drops.push(other);
        }
    }
    Ok(hit)
}

fn same_event(a: &Drop, b: &Drop) -> bool {
    let place = a.channel == b.channel && a.platform_id == b.platform_id;
    let time = a.platform_message.is_some() || a.at == b.at;
    place && time && a.platform_message == b.platform_message && a.sender == b.sender
}

/// The event of a message: all messages with the same body. Of an expired one nothing else is known.
fn around(db: &Tables, txn: &Read<'_>, id: MessageId) -> Result<FoundEvent, state::Error> {
    let message = db.messages.require(txn, &id)?;
    let same = db.messages_by_body.collect_prefix(txn, &message.body, SAME_MAX)?;
    let mut all: BTreeSet<MessageId> = same.into_iter().map(|(Owned { id, .. }, ())| id).collect();
    all.insert(id);
    let Some(body) = db.bodies.get(txn, &message.body)? else {
        return Ok(FoundEvent { messages: all.into_iter().collect(), ..FoundEvent::default() });
    };
    all.extend(remembered(db, txn, &body)?);
    let drops = refusals(db, txn, &body, message.stored)?;
    let held = waiting(db, txn, message.body)?;
    Ok(FoundEvent { messages: all.into_iter().collect(), drops, held })
}

fn remembered(db: &Tables, txn: &Read<'_>, body: &Body) -> Result<Vec<MessageId>, state::Error> {
    let (Some(source), Some(platform)) = (&body.source, &body.platform_message) else { return Ok(Vec::new()) };
    let seen = db.seen_events.get(txn, &SeenKey::of(source, platform))?;
    Ok(seen.filter(|seen| seen.platform_message == *platform).map(|seen| seen.messages).unwrap_or_default())
}

/// Refusals of the same event by other wirings; those without a platform's id are known by their time.
fn refusals(db: &Tables, txn: &Read<'_>, body: &Body, stored: Timestamp) -> Result<Vec<DropId>, state::Error> {
    let Some(source) = &body.source else { return Ok(Vec::new()) };
    let (rows, _) = newest_drops(db, txn, |_, drop| {
        let place = drop.channel == source.channel && drop.platform_id == source.platform_id;
        let time = drop.platform_message.is_some() || drop.at == stored;
        place && time && drop.platform_message == body.platform_message && drop.sender == body.sender
    })?;
    let mut ids: Vec<DropId> = rows.into_iter().map(|(id, _)| id).collect();
    ids.reverse();
    Ok(ids)
}
