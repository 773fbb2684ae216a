//! The time of the next deadline. It makes polling unnecessary.

use crate::Result;
use crate::lifecycle::network::due_from;
use crate::model::id::{ApprovalId, MessageId, OutboundId, TaskId};
use crate::model::time::{Awake, Millis, Moment};
use crate::state::{Read, Tables, Timed};

/// The time until the next deadline. Deadlines that have passed do not count, because a sweep has already handled them.
pub(crate) fn ahead(db: &Tables, txn: &Read<'_>, now: Moment) -> Result<Option<Millis>> {
    let (wall, awake) = (now.wall.plus(Millis::new(1)), now.awake.plus(Millis::new(1)));
    let at_wall = [
        db.tasks_due.first(txn, Timed { at: wall, id: TaskId::new(0) }..)?.map(|(key, ())| key.at),
        db.scheduled_messages.first(txn, Timed { at: wall, id: MessageId::new(0) }..)?.map(|(key, ())| key.at),
        db.approvals_due.first(txn, Timed { at: wall, id: ApprovalId::new(0) }..)?.map(|(key, ())| key.at),
        db.host_grants_due.first(txn, due_from(wall)?..)?.map(|(key, ())| key.at),
        db.scheduled_outbound.first(txn, Timed { at: wall, id: OutboundId::new(0) }..)?.map(|(key, ())| key.at),
    ];
    let last = Awake::new(now.awake.run(), u64::MAX);
    let at_awake = [
        db.messages_in_backoff
            .first(txn, Timed { at: awake, id: MessageId::new(0) }..Timed { at: last, id: MessageId::new(0) })?
            .map(|(key, ())| key.at),
        db.queue_heads
            .first(txn, Timed { at: awake, id: OutboundId::new(0) }..Timed { at: last, id: OutboundId::new(0) })?
            .map(|(key, ())| key.at),
    ];
    let by_wall = at_wall.into_iter().flatten().map(|at| at.since(now.wall));
    let by_awake = at_awake.into_iter().flatten().map(|at| at.since(now.awake));
    Ok(by_wall.chain(by_awake).min())
}
