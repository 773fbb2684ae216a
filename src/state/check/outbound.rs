//! Messages on their way out: lanes hold what is undelivered, each lane has one head.

use std::collections::BTreeSet;

use super::Check;
use crate::model::delivery::{Author, OutState};
use crate::model::id::OutboundId;
use crate::state::{ForeignKey, Result, Text};

/// Every outgoing message is in exactly the indexes of its author and state.
pub(super) fn indexes(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.agree(
        &db.outbound,
        &db.outbound_by_wire,
        |id, outbound| match &outbound.author {
            Author::Agent { session, wire_id, .. } => Some(((*session, Text::new(wire_id.clone()).ok()?), *id)),
            Author::Hearth => None,
        },
        |_, id| *id,
    )?;
    check.agree(
        &db.outbound,
        &db.outbound_by_number,
        |id, outbound| match (&outbound.author, &outbound.state) {
            // What is never sent has no number that anybody could refer to.
            (_, OutState::Refused { .. } | OutState::Abandoned { .. }) | (Author::Hearth, _) => None,
            (Author::Agent { session, number, .. }, _) => Some(((*session, *number), *id)),
        },
        |_, id| *id,
    )?;
    check.agree(
        &db.outbound,
        &db.outbound_by_message,
        |id, outbound| outbound.in_reply_to.map(|message| ((message, *id), ())),
        |(_, id), ()| *id,
    )?;
    check.agree(
        &db.outbound,
        &db.lanes,
        |id, outbound| {
            let undelivered = matches!(outbound.state, OutState::Waiting { .. } | OutState::Attempting { .. });
            let (channel, chat, thread) = ForeignKey::place(outbound.to.as_ref().filter(|_| undelivered)?);
            Some(((channel, chat, thread, *id), ()))
        },
        |(_, _, _, id), ()| *id,
    )?;
    check.agree(
        &db.outbound,
        &db.outbound_later,
        |id, outbound| match outbound.state {
            OutState::Later(at) => Some(((at, *id), ())),
            _ => None,
        },
        |(_, id), ()| *id,
    )?;
    check.each(&db.outbound, |check, id, outbound| {
        if let Author::Agent { session, .. } = outbound.author {
            check.refers((&db.outbound, &id), (&db.sessions_by_id, &session))?;
        }
        let undelivered =
            matches!(outbound.state, OutState::Waiting { .. } | OutState::Attempting { .. } | OutState::Later(_));
        if undelivered && outbound.to.is_none() {
            check.report(&db.outbound, &id, "waits for delivery to nowhere");
        }
        Ok(())
    })
}

/// Exactly one entry for every lane that is not empty: the message that is attempted. Mostly it is the lane's first, but
/// one that had to wait for its time before it came in goes after the one that is being attempted.
pub(super) fn lane_heads(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    let mut heads: BTreeSet<OutboundId> = BTreeSet::new(); // as many as there are chats with something undelivered
    check.each(&db.lane_heads, |check, key, ()| {
        if !heads.insert(key.1) {
            check.report(&db.lane_heads, &key, "the message has a second entry");
        }
        Ok(())
    })?;
    let mut found: BTreeSet<OutboundId> = BTreeSet::new();
    let mut headless: Vec<OutboundId> = Vec::new();
    let mut lane = None;
    check.each(&db.lanes, |check, key, ()| {
        let (place, id) = ((key.0.clone(), key.1.clone(), key.2.clone()), key.3);
        let first = lane.as_ref().is_none_or(|(known, _)| *known != place);
        let has_head = !first && lane.as_ref().is_some_and(|(_, has_head)| *has_head);
        if first {
            headless.push(id);
        }
        let is_head = heads.contains(&id);
        if is_head {
            if has_head {
                check.report(&db.lanes, &key, "the lane has a second head");
            } else {
                headless.pop();
            }
            found.insert(id);
        }
        lane = Some((place, has_head || is_head));
        Ok(())
    })?;
    for id in headless {
        check.report(&db.outbound, &id, "first of its lane, and nothing of the lane is in lane_heads");
    }
    for id in heads.difference(&found) {
        check.report(&db.outbound, id, "in lane_heads, but in no lane");
    }
    Ok(())
}
