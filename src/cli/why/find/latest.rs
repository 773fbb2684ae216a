//! The newest event.

use super::{DropId, Scope, Search, chat_of};
use crate::model::Timestamp;
use crate::model::id::{BodyId, MessageId};
use crate::model::message::{Drop, Seen};
use crate::state::{self, HeldKey, Owned, SeenKey};

impl Search<'_, '_> {
    /// The newest event.
    pub(super) fn latest(&mut self) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        let message = self.newest_message()?;
        let drop = self.newest_drop()?;
        let held = self.newest_held()?;
        let seen = self.newest_seen()?;
        let message_at = message.map(|(at, _)| at);
        let drop_at = drop.as_ref().map(|drop| drop.at);
        let held_at = held.as_ref().map(|(at, ..)| *at);
        let known = message_at.max(drop_at).max(held_at);
        if let Some((key, row)) = seen.filter(|(_, row)| known.is_none_or(|known| row.at > known)) {
            // It became no message and was not dropped, so it answered a card.
            self.add_seen(key, &row)?;
        } else if let Some((_, body)) = held.filter(|(at, _)| message_at.max(drop_at).is_none_or(|other| *at > other)) {
            if let Some(row) = db.bodies.get(txn, &body)? {
                self.add_body(body, &row)?;
            }
        } else if let Some(drop) = drop.filter(|drop| message_at.is_none_or(|stored| drop.at > stored)) {
            self.add_drop(&drop);
        } else if let Some((_, id)) = message {
            self.add_message(id)?;
        }
        self.drops()
    }

    fn newest_message(&mut self) -> Result<Option<(Timestamp, MessageId)>, state::Error> {
        let (db, txn) = (self.db, self.txn);
        let newest = db.messages.last(txn, ..)?.map_or(0, |(id, _)| id.number());
        for number in (1..=newest).rev() {
            let id = MessageId::new(number);
            let Some(message) = self.rows.readable(db.messages.get(txn, &id))?.flatten() else { continue };
            if *self.scope != Scope::All {
                let body = self.rows.readable(db.bodies.get(txn, &message.body))?.flatten();
                let source = body.and_then(|body| body.source).or_else(|| message.reply.clone());
                if !self.is_in_scope(source.as_ref()) {
                    continue;
                }
            }
            return Ok(Some((message.stored, id)));
        }
        Ok(None)
    }

    fn newest_drop(&mut self) -> Result<Option<Drop>, state::Error> {
        let (db, txn) = (self.db, self.txn);
        let newest = db.dropped_events.last(txn, ..)?.map_or(0, |(id, _)| id.number());
        let oldest = db.dropped_events.first(txn, ..)?.map_or(0, |(id, _)| id.number());
        for number in (oldest..=newest).rev() {
            let row = self.rows.readable(db.dropped_events.get(txn, &DropId::new(number)))?.flatten();
            if let Some(drop) = row.filter(|drop| self.scope.has(&chat_of(drop))) {
                return Ok(Some(drop));
            }
        }
        Ok(None)
    }

    fn newest_held(&mut self) -> Result<Option<(Timestamp, BodyId)>, state::Error> {
        let (db, txn) = (self.db, self.txn);
        let mut last = db.held_messages_by_body.last(txn, ..)?;
        while let Some((at, _)) = last {
            let Owned { owner: body, id: approval } = at;
            let row = self.rows.readable(db.bodies.get(txn, &body))?.flatten();
            if row.is_some_and(|row| self.is_in_scope(row.source.as_ref())) {
                let held = db.held_messages.get(txn, &HeldKey { approval, body })?;
                return Ok(held.map(|held| (held.stored, body)));
            }
            last = db.held_messages_by_body.last(txn, ..at)?;
        }
        Ok(None)
    }

    fn newest_seen(&mut self) -> Result<Option<(SeenKey, Seen)>, state::Error> {
        let (db, txn) = (self.db, self.txn);
        let mut last = db.seen_events_by_time.last(txn, ..)?;
        while let Some((at, ())) = last {
            let row = self.rows.readable(db.seen_events.get(txn, &at.id))?.flatten();
            if let Some(seen) = row.filter(|_| self.scope.has(&at.id.chat)) {
                return Ok(Some((at.id, seen)));
            }
            last = db.seen_events_by_time.last(txn, ..at)?;
        }
        Ok(None)
    }
}
