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
        |id, outbound| match &outbound.author {
            Author::Agent { session, number, .. } => Some(((*session, *number), *id)),
            Author::Hearth => None,
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

/// Exactly one entry for every lane that is not empty: the lane's first message.
pub(super) fn lane_heads(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    let mut firsts = BTreeSet::new(); // as many as there are chats with something undelivered
    let mut lane = None;
    check.each(&db.lanes, |_, (channel, chat, thread, id), ()| {
        let place = Some((channel, chat, thread));
        if lane != place {
            firsts.insert(id);
            lane = place;
        }
        Ok(())
    })?;
    let mut heads: BTreeSet<OutboundId> = BTreeSet::new();
    check.each(&db.lane_heads, |check, key, ()| {
        if !heads.insert(key.1) {
            check.report(&db.lane_heads, &key, "the message has a second entry");
        } else if !firsts.contains(&key.1) {
            check.report(&db.lane_heads, &key, "the message is not the first of a lane");
        }
        Ok(())
    })?;
    for id in firsts.difference(&heads) {
        check.report(&db.outbound, id, "first of its lane, but no entry in lane_heads");
    }
    Ok(())
}
