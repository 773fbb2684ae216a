//! Finds messages that queued edits and reactions still refer to. These rows must stay, so that the next attempt means
//! the same as the last.

use crate::model::delivery::{Act, MessageRef, Outbound};
use crate::model::id::OutboundId;
use crate::state::ThreadKey;
use crate::tx::Tx;
use crate::{Result, readable};
use std::collections::{BTreeMap, BTreeSet};

/// Queued messages of one address that are examined. If there are more, all messages of that address stay.
const OPEN_MAX: usize = 200;

/// The results of one sweep, by address. `None`: there are too many queued messages to examine.
#[derive(Default)]
pub(crate) struct Changing(BTreeMap<ThreadKey, Option<BTreeSet<OutboundId>>>);

impl Changing {
    /// Whether a queued message edits or reacts to a message. Both have the same address.
    pub(crate) fn is_changed(&mut self, tx: &Tx<'_, '_>, id: OutboundId, row: &Outbound) -> Result<bool> {
        let Some(to) = &row.to else { return Ok(false) };
        let lane = ThreadKey::of(to);
        if let Some(changed) = self.0.get(&lane) {
            return Ok(is_among(changed.as_ref(), id));
        }
        let changed = changed_in(tx, &lane)?;
        let found = is_among(changed.as_ref(), id);
        self.0.insert(lane, changed);
        Ok(found)
    }
}

fn is_among(changed: Option<&BTreeSet<OutboundId>>, id: OutboundId) -> bool {
    changed.is_none_or(|changed| changed.contains(&id))
}

fn changed_in(tx: &Tx<'_, '_>, lane: &ThreadKey) -> Result<Option<BTreeSet<OutboundId>>> {
    let open = tx.db.outgoing_queues.collect_prefix(tx, lane, OPEN_MAX)?;
    if open.len() >= OPEN_MAX {
        return Ok(None);
    }
    let mut changed = BTreeSet::new();
    for (key, ()) in open {
        let row = readable(tx.db.outbound.get(tx, &key.outbound))?;
        if let Some(Act::Edit(MessageRef::Ours(of)) | Act::React(MessageRef::Ours(of))) = row.map(|row| row.act) {
            changed.insert(of);
        }
    }
    Ok(Some(changed))
}
