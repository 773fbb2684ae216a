//! Outgoing queues: one per address, sent in order.

use crate::engine::Result;
use crate::engine::delivery::attempt;
use crate::engine::tx::Tx;
use crate::model::Turn;
use crate::model::address::Address;
use crate::model::delivery::Outbound;
use crate::model::id::OutboundId;
use crate::state::{ForeignKey, derived};

/// Stores a message from Hearth and puts it into its outgoing queue.
pub(crate) fn say(tx: &mut Tx<'_, '_>, notice: Outbound) -> Result<OutboundId> {
    let id = tx.db.allocate(tx)?;
    tx.db.outbound.put(tx, &id, &notice)?;
    enter_lane(tx, id, &notice)?;
    Ok(id)
}

/// Handles a message that entered its outgoing queue. The first message of a queue is attempted at once. A head that
/// lets others pass is not the head any more.
pub(crate) fn enter_lane(tx: &mut Tx<'_, '_>, id: OutboundId, outbound: &Outbound) -> Result<()> {
    let Some(to) = outbound.to.as_ref().filter(|_| derived::lane(id, outbound).is_some()) else { return Ok(()) };
    let others = tx.db.outgoing_queues.collect_prefix(tx, &lane(to), 2)?.into_iter().map(|((.., place), ())| place);
    match others.into_iter().find(|(_, other)| *other != id) {
        None => attempt::begin(tx, id),
        Some((Turn::Later, head)) if outbound.turn() == Turn::Now => attempt::overtake(tx, id, head),
        Some(_) => Ok(()),
    }
}

/// The queue of an address. Messages of one queue are sent in order.
pub(crate) fn lane(to: &Address) -> (ForeignKey, ForeignKey, Option<ForeignKey>) {
    ForeignKey::place(to)
}
