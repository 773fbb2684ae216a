//! When something is due next, so that nobody has to look before.

use super::Result;
use crate::model::id::{MessageId, OutboundId, TaskId};
use crate::model::time::{Awake, Millis, Moment};
use crate::state::{Read, Tables};

/// How long it is until something becomes due; what is due already does not count, since a sweep has seen it.
pub(super) fn ahead(db: &Tables, txn: &Read<'_>, now: Moment) -> Result<Option<Millis>> {
    let (wall, awake) = (now.wall.plus(Millis::new(1)), now.awake.plus(Millis::new(1)));
    let at_wall = [
        db.tasks_due.first(txn, (wall, TaskId::new(0))..)?.map(|((at, _), ())| at),
        db.later.first(txn, (wall, MessageId::new(0))..)?.map(|((at, _), ())| at),
        db.outbound_later.first(txn, (wall, OutboundId::new(0))..)?.map(|((at, _), ())| at),
    ];
    let last = Awake::new(now.awake.run(), u64::MAX);
    let at_awake = [
        db.retries.first(txn, (awake, MessageId::new(0))..(last, MessageId::new(0)))?.map(|((at, _), _)| at),
        db.lane_heads.first(txn, (awake, OutboundId::new(0))..(last, OutboundId::new(0)))?.map(|((at, _), _)| at),
    ];
    let by_wall = at_wall.into_iter().flatten().map(|at| at.since(now.wall));
    let by_awake = at_awake.into_iter().flatten().map(|at| at.since(now.awake));
    Ok(by_wall.chain(by_awake).min())
}
