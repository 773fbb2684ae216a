//! Checks outgoing messages: each queue holds exactly the undelivered messages and has one head.

use std::collections::BTreeSet;

use super::Check;
use crate::Result;
use crate::model::delivery::{Author, OutState};
use crate::model::id::OutboundId;

/// Messages belong to sessions, and messages that wait for delivery have an address.
pub(super) fn references(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.outbound, |check, id, outbound| {
        if let Author::Agent { session, .. } = outbound.author {
            check.refers(&db.outbound, &id, &db.sessions_by_id, &session)?;
        }
        let undelivered =
            matches!(outbound.state, OutState::Waiting { .. } | OutState::Attempting { .. } | OutState::Later(_));
        if undelivered && outbound.to.is_none() {
            check.report(&db.outbound, &id, "waits for delivery to nowhere");
        }
        Ok(())
    })
}

/// Spoken forms belong to messages that are stored.
pub(super) fn speeches(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.speeches, |check, id, _| check.refers(&db.speeches, &id, &db.outbound, &id))
}

/// Every queue that is not empty has exactly one head: the message that is being attempted. It is usually the first
/// one. A scheduled message that enters the queue later with a lower id comes after the one that is being attempted.
pub(super) fn lane_heads(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    let mut heads: BTreeSet<OutboundId> = BTreeSet::new(); // at most one per chat with undelivered messages
    check.each(&db.queue_heads, |check, key, ()| {
        if !heads.insert(key.id) {
            check.report(&db.queue_heads, &key, "the message has a second entry");
        }
        Ok(())
    })?;
    let mut found: BTreeSet<OutboundId> = BTreeSet::new();
    let mut headless: Vec<OutboundId> = Vec::new();
    let mut lane = None;
    check.each(&db.outgoing_queues, |check, key, ()| {
        let (place, id) = (key.to.clone(), key.outbound);
        let first = lane.as_ref().is_none_or(|(known, _)| *known != place);
        let has_head = !first && lane.as_ref().is_some_and(|(_, has_head)| *has_head);
        if first {
            headless.push(id);
        }
        let is_head = heads.contains(&id);
        if is_head {
            if has_head {
                check.report(&db.outgoing_queues, &key, "the queue has a second head");
            } else {
                headless.pop();
            }
            found.insert(id);
        }
        lane = Some((place, has_head || is_head));
        Ok(())
    })?;
    for id in headless {
        check.report(&db.outbound, &id, "first of its queue, and nothing of the queue is in lane_heads");
    }
    for id in heads.difference(&found) {
        check.report(&db.outbound, id, "in lane_heads, but in no queue");
    }
    Ok(())
}
