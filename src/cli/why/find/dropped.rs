//! Dropped events and outgoing messages, which have no index by the ids of platforms.
//!
//! A dropped event is recorded when it arrives, when it arrives again, or when a decision about it is made. Its drops
//! are therefore looked for around those times. Ids are given in the order of time.

use std::ops::Bound;

use super::{EventId, Found, FoundEvent, Search, chat_of};
use crate::cli::why::query::Scope;
use crate::model::Timestamp;
use crate::model::address::{Address, ForeignId};
use crate::model::approval::{Approval, ApprovalState};
use crate::model::delivery::OutState;
use crate::model::id::{ApprovalId, DropId, OutboundId};
use crate::model::message::Drop;
use crate::state::{self, ChatKey, ForeignKey, SeenKey, Timed};

/// Rows searched before and after a time, in case the clock was corrected.
const AROUND: u64 = 1_000;
/// Number of the newest rows that are looked through for an id that was found elsewhere already.
pub(in crate::cli::why) const NEWEST: u64 = 10_000;

impl Search<'_, '_> {
    /// Outgoing messages and dropped events to which a platform gave this id: all of them, unless the newest ones or
    /// other tables have it.
    pub(super) fn unindexed(&mut self, id: &ForeignId) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        let newest = sound(db.outbound.last(txn, ..))?.map_or(0, |(id, _)| id.number());
        let sent = OutboundId::new(newest.saturating_sub(NEWEST));
        let newest = sound(db.dropped_events.last(txn, ..))?.map_or(0, |(id, _)| id.number());
        let dropped = DropId::new(newest.saturating_sub(NEWEST));
        self.sent(id, (Bound::Included(sent), Bound::Unbounded))?;
        self.dropped(id, (Bound::Included(dropped), Bound::Unbounded))?;
        let older = exists(db.outbound.first(txn, ..sent))? || exists(db.dropped_events.first(txn, ..dropped))?;
        if older && self.found.is_empty() {
            self.sent(id, (Bound::Unbounded, Bound::Excluded(sent)))?;
            self.dropped(id, (Bound::Unbounded, Bound::Excluded(dropped)))?;
            self.looked_from = DropId::new(0);
        } else {
            self.looked_from = dropped;
            self.newest_only = older;
        }
        Ok(())
    }

    /// Delivered messages with this id.
    fn sent(&mut self, id: &ForeignId, range: (Bound<OutboundId>, Bound<OutboundId>)) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        for row in db.outbound.range(txn, range)? {
            let Some((outbound, row)) = self.rows.readable(row)? else { continue };
            let same = match &row.state {
                // A text of several messages has the ids of all of them.
                OutState::Delivered { platform_message: Some(known), .. } => {
                    known == id || known.as_str().split(' ').any(|part| part == id.as_str())
                }
                _ => false,
            };
            let in_scope = |to: &Address| same && self.scope.has(&ChatKey::of(&to.channel, &to.platform_id));
            if row.to.as_ref().is_some_and(in_scope) {
                let found = self.outgoing(outbound, &row)?;
                self.add(found);
            }
        }
        Ok(())
    }

    /// Dropped events with this id.
    fn dropped(&mut self, wanted: &ForeignId, range: (Bound<DropId>, Bound<DropId>)) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        for row in db.dropped_events.range(txn, range)? {
            let Some((id, drop)) = self.rows.readable(row)? else { continue };
            let is_wanted = drop.platform_message.as_ref() == Some(wanted) && self.scope.has(&chat_of(&drop));
            if is_wanted && !self.give(id, &drop) {
                let event = FoundEvent { drops: vec![id], ..FoundEvent::default() };
                self.add(Found::new(event, Some(EventId::of_drop(&drop)), drop.at));
            }
        }
        Ok(())
    }

    /// Adds the drops of the events that were found.
    pub(super) fn drops(&mut self) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        let mut times = Vec::new();
        for found in &self.found {
            times.extend(self.times(found)?);
        }
        times.sort_unstable();
        times.dedup();
        let mut next = DropId::new(0);
        for at in times {
            let from = self.first_drop_since(at)?.number();
            next = next.max(DropId::new(from.saturating_sub(AROUND)));
            if next >= self.looked_from {
                break;
            }
            for row in db.dropped_events.range(txn, next..self.looked_from)? {
                let Some((id, drop)) = self.rows.readable(row)? else { continue };
                if drop.at > at && id.number() > from.saturating_add(AROUND) {
                    break;
                }
                self.give(id, &drop);
                next = DropId::new(id.number().saturating_add(1));
            }
        }
        for found in &mut self.found {
            found.event.drops.sort_unstable();
        }
        Ok(())
    }

    /// Adds a drop to its event. Returns whether that one was found.
    fn give(&mut self, id: DropId, drop: &Drop) -> bool {
        let of = |found: &&mut Found| found.id.as_ref().is_some_and(|event| event.has(drop));
        let Some(found) = self.found.iter_mut().find(of) else { return false };
        if !found.event.drops.contains(&id) {
            found.event.drops.push(id);
        }
        true
    }

    /// When drops of an event may have been recorded.
    fn times(&self, found: &Found) -> Result<Vec<Timestamp>, state::Error> {
        let (db, txn) = (self.db, self.txn);
        let Some(event) = &found.id else { return Ok(Vec::new()) };
        let mut times = vec![event.at];
        for id in &found.event.messages {
            times.extend(db.messages.get(txn, id)?.map(|message| message.stored));
        }
        let Some(message) = &event.message else { return Ok(times) };
        let key = SeenKey { chat: event.chat.clone(), message: ForeignKey::of(message) };
        let Some(seen) = db.seen_events.get(txn, &key)?.filter(|seen| seen.platform_message == *message) else {
            return Ok(times);
        };
        times.push(seen.at);
        let approval = seen.held.map(|id| db.approvals.get(txn, &id)).transpose()?.flatten();
        times.extend(approval.as_ref().and_then(closed));
        Ok(times)
    }

    /// The first drop since then, if clocks only went forward.
    fn first_drop_since(&self, at: Timestamp) -> Result<DropId, state::Error> {
        let (db, txn) = (self.db, self.txn);
        let (mut from, mut to) = (0, u64::MAX);
        while from < to {
            let middle = from.midpoint(to);
            match sound(db.dropped_events.first(txn, DropId::new(middle)..))? {
                Some((_, drop)) if drop.at < at => from = middle.saturating_add(1),
                _ => to = middle,
            }
        }
        Ok(DropId::new(from))
    }

    /// Events that wait for an approval, or waited for it: those of its chat that arrived while it was open.
    pub(super) fn held_for(&mut self, id: ApprovalId, approval: &Approval) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        let from = Timed { at: approval.created, id: Scope::All.before_first() };
        for row in db.seen_events_by_time.range(txn, from..)? {
            let Some((Timed { at, id: key }, ())) = self.rows.readable(row)? else { continue };
            if closed(approval).is_some_and(|end| at > end) {
                break;
            }
            if let Some(seen) = db.seen_events.get(txn, &key)?.filter(|seen| seen.held == Some(id)) {
                self.add_seen(key, &seen)?;
            }
        }
        Ok(())
    }
}

/// A row; none if it cannot be read. Reading it for its content counts it as such.
fn sound<T>(row: Result<Option<T>, state::Error>) -> Result<Option<T>, state::Error> {
    match row {
        Err(error) if error.is_damage() => Ok(None),
        row => row,
    }
}

/// Whether there is a row, also if it cannot be read.
fn exists<T>(row: Result<Option<T>, state::Error>) -> Result<bool, state::Error> {
    match row {
        Err(error) if error.is_damage() => Ok(true),
        row => Ok(row?.is_some()),
    }
}

/// When an approval was decided, or expired.
const fn closed(approval: &Approval) -> Option<Timestamp> {
    match &approval.state {
        ApprovalState::Approved { at, .. }
        | ApprovalState::Rejected { at, .. }
        | ApprovalState::Expired { at }
        | ApprovalState::Superseded { at, .. } => Some(*at),
        ApprovalState::Unsent { .. } | ApprovalState::Pending | ApprovalState::Naming { .. } => None,
    }
}
