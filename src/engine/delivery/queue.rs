//! Outgoing queues: one per address, sent in order.

use crate::Result;
use crate::delivery::attempt;
use crate::model::Turn;
use crate::model::delivery::Outbound;
use crate::model::id::OutboundId;
use crate::state::{ThreadKey, derived};
use crate::tx::Tx;

/// Stores a message from Hearth and puts it into its outgoing queue.
pub(crate) fn say(tx: &mut Tx<'_, '_>, notice: Outbound) -> Result<OutboundId> {
    let id = tx.db.allocate(tx)?;
    tx.db.outbound.put(tx, &id, &notice)?;
    enqueue(tx, id, &notice)?;
    Ok(id)
}

/// Handles a message that entered its outgoing queue. The first message of a queue is attempted at once. A head that
/// lets others pass is not the head any more.
pub(crate) fn enqueue(tx: &mut Tx<'_, '_>, id: OutboundId, outbound: &Outbound) -> Result<()> {
    let Some(to) = outbound.to.as_ref().filter(|_| derived::lane(id, outbound).is_some()) else { return Ok(()) };
    let first = tx.db.outgoing_queues.collect_prefix(tx, &ThreadKey::of(to), 2)?;
    match first.into_iter().map(|(key, ())| key).find(|other| other.outbound != id) {
        None => attempt::begin(tx, id),
        Some(head) if head.turn == Turn::Later && outbound.turn() == Turn::Now => {
            attempt::overtake(tx, id, head.outbound)
        }
        Some(_) => Ok(()),
    }
}
