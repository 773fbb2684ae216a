//! Finds the events for `hearth why`, however old they are.
//!
//! A platform's id is found through `seen_events`, which has a row for every event with an id, and keeps it at least as
//! long as the event's text. The keys of that table begin with the chat, so there is one look-up per chat. That is why
//! platform ids have no index of their own: it would cost every message a row.
//! Dropped events, outgoing messages and texts are not indexed. The newest ones are read, and all of them only if nothing
//! else has the id. Texts are read until enough are found.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::query::{HearthId, Query, Scope};
use super::rows::Rows;
use crate::model::Timestamp;
use crate::model::address::{Address, ForeignId, UserId};
use crate::model::delivery::{OutState, Outbound};
use crate::model::id::{ApprovalId, BodyId, DropId, MessageId, OutboundId, TaskId};
use crate::model::message::{Body, Drop, Seen};
use crate::model::task::FireOutcome;
use crate::state::{self, ChatKey, ForeignKey, HeldKey, Owned, Read, SeenKey, Tables};

mod dropped;
mod latest;

pub(super) use dropped::NEWEST;

/// Maximum number of events that one answer explains.
const HITS_MAX: usize = 20;
/// Maximum number of messages of one event.
const SAME_MAX: usize = 1_000;

/// One event: the messages it became, its drops, and the decision it waits for. Or an outgoing message, with the event
/// that it is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FoundEvent {
    pub(super) answer: Option<OutboundId>,
    pub(super) messages: Vec<MessageId>,
    pub(super) drops: Vec<DropId>,
    pub(super) held: Option<HeldKey>,
    /// Its row for duplicate detection.
    pub(super) seen: Option<SeenKey>,
}

/// The answer of a search.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SearchResult {
    /// Newest first.
    pub(super) hits: Vec<FoundEvent>,
    /// Whether there are more.
    pub(super) cut: bool,
    /// Whether only the newest outgoing and dropped messages were looked through.
    pub(super) newest_only: bool,
    /// Number of chats in which the events are.
    pub(super) chats: usize,
}

/// Finds the events that a query asks about.
pub(super) fn find(
    db: &Tables,
    txn: &Read<'_>,
    query: &Query,
    scope: &Scope,
    rows: &mut Rows,
) -> Result<SearchResult, state::Error> {
    let mut search = Search {
        db,
        txn,
        scope,
        rows,
        found: Vec::new(),
        cut: false,
        newest_only: false,
        looked_from: DropId::new(u64::MAX),
    };
    match query {
        Query::Id(id) => search.id(*id)?,
        Query::Platform(id) => search.platform(id)?,
        Query::Words(words) => search.words(words)?,
        Query::Latest => search.latest()?,
    }
    let Search { mut found, cut, newest_only, .. } = search;
    found.sort_by_key(|found| Reverse(found.at));
    let chats: BTreeSet<&ChatKey> = found.iter().filter_map(|found| found.chat.as_ref()).collect();
    let chats = chats.len();
    Ok(SearchResult { hits: found.into_iter().map(|found| found.event).collect(), cut, newest_only, chats })
}

/// The data that identifies an event.
#[derive(Debug, Clone)]
struct EventId {
    chat: ChatKey,
    message: Option<ForeignId>,
    sender: Option<UserId>,
    at: Timestamp,
}

impl EventId {
    fn of(source: &Address, body: &Body, stored: Timestamp) -> Self {
        let chat = ChatKey::of(&source.channel, &source.platform_id);
        Self { chat, message: body.platform_message.clone(), sender: body.sender.clone(), at: stored }
    }

    fn of_drop(drop: &Drop) -> Self {
        let Drop { platform_message, sender, at, .. } = drop.clone();
        Self { chat: chat_of(drop), message: platform_message, sender, at }
    }

    /// Whether a drop is one of this event. Events without an id are known by sender and time.
    fn has(&self, drop: &Drop) -> bool {
        let same = self.message.is_some() || (self.at == drop.at && self.sender == drop.sender);
        same && self.message == drop.platform_message && self.chat == chat_of(drop)
    }
}

fn chat_of(drop: &Drop) -> ChatKey {
    ChatKey::of(&drop.channel, &drop.platform_id)
}

struct Found {
    event: FoundEvent,
    /// None if only its state is known, or if it is an outgoing message.
    id: Option<EventId>,
    chat: Option<ChatKey>,
    at: Timestamp,
}

impl Found {
    fn new(event: FoundEvent, id: Option<EventId>, at: Timestamp) -> Self {
        Self { event, chat: id.as_ref().map(|id| id.chat.clone()), id, at }
    }
}

struct Search<'a, 't> {
    db: &'a Tables,
    txn: &'a Read<'t>,
    scope: &'a Scope,
    rows: &'a mut Rows,
    found: Vec<Found>,
    cut: bool,
    newest_only: bool,
    /// Drops from this one on were all looked through.
    looked_from: DropId,
}

impl Search<'_, '_> {
    /// Adds an event. Only the newest ones are kept.
    fn add(&mut self, found: Found) {
        self.found.push(found);
        if self.found.len() > 2 * HITS_MAX {
            self.trim();
        }
    }

    fn trim(&mut self) {
        self.found.sort_by_key(|found| Reverse(found.at));
        self.cut |= self.found.len() > HITS_MAX;
        self.found.truncate(HITS_MAX);
    }

    fn id(&mut self, id: HearthId) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        match id {
            HearthId::Message(id) => self.add_message(id)?,
            HearthId::Answer(answer) => {
                let known = answer.epoch.is_none() || db.outgoing(txn, answer.id)? == answer;
                if let Some(row) = db.outbound.get(txn, &answer.id)?.filter(|_| known) {
                    let found = self.outgoing(answer.id, &row)?;
                    self.add(found);
                }
            }
            HearthId::Dropped(id) => {
                if let Some(drop) = db.dropped_events.get(txn, &id)? {
                    self.add_drop(&drop);
                }
            }
            HearthId::Task(id) => self.newest_run(id)?,
            HearthId::Approval(id) => return self.of_approval(id),
            HearthId::Held(body) => {
                if let Some(HeldKey { approval, .. }) = waiting(db, txn, body)? {
                    return self.of_approval(approval);
                }
            }
            HearthId::Question(_) | HearthId::Session(_) | HearthId::Skip(_) => {}
        }
        self.drops()
    }

    fn add_message(&mut self, id: MessageId) -> Result<(), state::Error> {
        if self.db.messages.contains(self.txn, &id)? {
            let found = self.around(id)?;
            self.add(found);
        }
        Ok(())
    }

    /// Adds a dropped event, without its drops.
    fn add_drop(&mut self, drop: &Drop) {
        self.add(Found::new(FoundEvent::default(), Some(EventId::of_drop(drop)), drop.at));
    }

    /// The message of the current or the last run of a task.
    fn newest_run(&mut self, id: TaskId) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        let mut run = db.tasks.get(txn, &id)?.and_then(|task| task.running);
        if run.is_none() {
            run = db.task_runs.collect_last(txn, &id, SAME_MAX)?.into_iter().find_map(|(_, fire)| match fire.outcome {
                FireOutcome::Running(message)
                | FireOutcome::Done(message)
                | FireOutcome::Gated(message, _)
                | FireOutcome::ScriptFailed(message, _)
                | FireOutcome::Failed(message, _) => Some(message),
                FireOutcome::Skipped { .. } | FireOutcome::Queued => None,
            });
        }
        run.map_or(Ok(()), |message| self.add_message(message))
    }

    /// Events that wait for an approval, or waited for it.
    fn of_approval(&mut self, id: ApprovalId) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        let Some(approval) = db.approvals.get(txn, &id)? else { return Ok(()) };
        if approval.about.session().is_some() {
            return Ok(());
        }
        self.held_for(id, &approval)?;
        self.trim();
        self.drops()
    }

    /// Finds everything to which a platform gave this id.
    fn platform(&mut self, id: &ForeignId) -> Result<(), state::Error> {
        self.seen(id)?;
        self.unindexed(id)?;
        self.trim();
        self.drops()
    }

    /// Received events with this id: one look-up per chat.
    fn seen(&mut self, id: &ForeignId) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        let message = ForeignKey::of(id);
        let mut at = self.scope.before_first();
        while let Some(SeenKey { chat, .. }) = db.seen_events.next_key(txn, &at)? {
            let in_scope = self.scope.has(&chat);
            if !in_scope && *self.scope != Scope::All {
                break;
            }
            let key = SeenKey { chat: chat.clone(), message: message.clone() };
            let row = self.rows.readable(db.seen_events.get(txn, &key))?.flatten();
            // A key may hold only a digest of the id.
            if let Some(seen) = row.filter(|seen| seen.platform_message == *id) {
                self.add_seen(key, &seen)?;
            }
            at = SeenKey { chat, message: ForeignKey::greatest() };
        }
        Ok(())
    }

    fn add_seen(&mut self, key: SeenKey, seen: &Seen) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        let mut event = FoundEvent::default();
        for id in &seen.messages {
            if db.messages.contains(txn, id)? {
                event = self.around(*id)?.event;
                break;
            }
        }
        if let Some(approval) = seen.held.filter(|_| event.held.is_none()) {
            event.held = self.held_by(approval, &key, seen)?;
        }
        let id =
            EventId { chat: key.chat.clone(), message: Some(seen.platform_message.clone()), sender: None, at: seen.at };
        event.seen = Some(key);
        self.add(Found::new(event, Some(id), seen.at));
        Ok(())
    }

    /// The row of an event that waits for a decision.
    fn held_by(&mut self, approval: ApprovalId, key: &SeenKey, seen: &Seen) -> Result<Option<HeldKey>, state::Error> {
        let (db, txn) = (self.db, self.txn);
        for row in db.held_messages.prefix(txn, &approval)? {
            let Some((held, _)) = self.rows.readable(row)? else { continue };
            let body = self.rows.readable(db.bodies.get(txn, &held.body))?.flatten();
            let same = |body: &Body| {
                let chat = body.source.as_ref().map(|at| ChatKey::of(&at.channel, &at.platform_id));
                chat.as_ref() == Some(&key.chat) && body.platform_message.as_ref() == Some(&seen.platform_message)
            };
            if body.is_some_and(|body| same(&body)) {
                return Ok(Some(held));
            }
        }
        Ok(None)
    }

    /// An outgoing message, and the event that it is about.
    fn outgoing(&mut self, id: OutboundId, row: &Outbound) -> Result<Found, state::Error> {
        let about = match (&row.state, row.in_reply_to) {
            (_, Some(message)) => Some(message),
            (OutState::Carried { message, .. }, None) => *message,
            _ => None,
        };
        let mut found = match about {
            Some(message) if self.db.messages.contains(self.txn, &message)? => self.around(message)?,
            _ => Found::new(FoundEvent::default(), None, row.stored),
        };
        found.event.answer = Some(id);
        found.chat = row.to.as_ref().map(|to| ChatKey::of(&to.channel, &to.platform_id));
        Ok(found)
    }

    /// Messages with these words, also those that wait for a decision.
    fn words(&mut self, words: &str) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        let words = words.to_lowercase();
        let oldest = self.bound(db.bodies.first(txn, ..))?.map_or(0, |(id, _)| id.number());
        let newest = self.bound(db.bodies.last(txn, ..))?.map_or(0, |(id, _)| id.number());
        for number in (oldest..=newest).rev() {
            let id = BodyId::new(number);
            let Some(body) = self.rows.readable(db.bodies.get(txn, &id))?.flatten() else { continue };
            if !body.content.text.to_lowercase().contains(&words) || !self.is_in_scope(body.source.as_ref()) {
                continue;
            }
            if self.found.len() >= HITS_MAX {
                self.cut = true;
                break;
            }
            self.add_body(id, &body)?;
        }
        self.drops()
    }

    /// The first or last row of a table. If it cannot be read, the search begins at the smallest key instead.
    fn bound<T>(&mut self, row: Result<Option<T>, state::Error>) -> Result<Option<T>, state::Error> {
        Ok(self.rows.readable(row)?.flatten())
    }

    fn is_in_scope(&self, source: Option<&Address>) -> bool {
        match source {
            Some(at) => self.scope.has(&ChatKey::of(&at.channel, &at.platform_id)),
            None => *self.scope == Scope::All,
        }
    }

    fn add_body(&mut self, id: BodyId, body: &Body) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        if let Some((Owned { id: message, .. }, ())) = db.messages_by_body.first_in(txn, &id)? {
            return self.add_message(message);
        }
        let Some(held) = waiting(db, txn, id)? else { return Ok(()) };
        let at = db.held_messages.get(txn, &held)?.map_or(body.said, |held| held.stored);
        let event = FoundEvent { held: Some(held), ..FoundEvent::default() };
        self.add(Found::new(event, body.source.as_ref().map(|source| EventId::of(source, body, at)), at));
        Ok(())
    }

    /// The event of a message: all messages with the same body. If the body has expired, nothing else is known.
    fn around(&mut self, id: MessageId) -> Result<Found, state::Error> {
        let (db, txn) = (self.db, self.txn);
        let message = db.messages.require(txn, &id)?;
        let same = db.messages_by_body.collect_prefix(txn, &message.body, SAME_MAX)?;
        let mut all: BTreeSet<MessageId> = same.into_iter().map(|(Owned { id, .. }, ())| id).collect();
        all.insert(id);
        let mut event = FoundEvent::default();
        let mut identity = None;
        if let Some(body) = db.bodies.get(txn, &message.body)? {
            all.extend(remembered(db, txn, &body)?);
            identity = body.source.as_ref().map(|source| EventId::of(source, &body, message.stored));
            event.held = waiting(db, txn, message.body)?;
        }
        event.messages = all.into_iter().collect();
        Ok(Found::new(event, identity, message.stored))
    }
}

/// The decision that a body waits for.
fn waiting(db: &Tables, txn: &Read<'_>, body: BodyId) -> Result<Option<HeldKey>, state::Error> {
    let first = db.held_messages_by_body.first_in(txn, &body)?;
    Ok(first.map(|(Owned { owner: body, id: approval }, _)| HeldKey { approval, body }))
}

/// The messages that an event became, by its row for duplicate detection.
fn remembered(db: &Tables, txn: &Read<'_>, body: &Body) -> Result<Vec<MessageId>, state::Error> {
    let (Some(source), Some(platform)) = (&body.source, &body.platform_message) else { return Ok(Vec::new()) };
    let seen = db.seen_events.get(txn, &SeenKey::of(source, platform))?;
    Ok(seen.filter(|seen| seen.platform_message == *platform).map(|seen| seen.messages).unwrap_or_default())
}

#[cfg(test)]
mod tests;
