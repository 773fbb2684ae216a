//! Which messages others on their way still change, or react to: those must not mean something else in their next attempt
//! than in their last.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{Cx, Result, outbox, readable};
use crate::model::delivery::{Act, Outbound, Said};
use crate::model::id::OutboundId;
use crate::state::{ForeignKey, Write};

/// Messages on their way to one address that are looked at; where there are more, everything stays that was said there.
const OPEN_MAX: usize = 200;

/// What was found out in one sweep, by address. None: there is too much to look at.
#[derive(Default)]
pub(super) struct Changing(BTreeMap<(ForeignKey, ForeignKey, Option<ForeignKey>), Option<BTreeSet<OutboundId>>>);

impl Changing {
    /// Whether something on its way changes a message, which goes to the address of that message.
    pub(super) fn is_changed(&mut self, cx: &Cx<'_>, txn: &Write<'_>, id: OutboundId, row: &Outbound) -> Result<bool> {
        let Some(to) = &row.to else { return Ok(false) };
        let lane = outbox::lane(to);
        if let Some(changed) = self.0.get(&lane) {
            return Ok(is_among(changed.as_ref(), id));
        }
        let changed = changed_in(cx, txn, &lane)?;
        let found = is_among(changed.as_ref(), id);
        self.0.insert(lane, changed);
        Ok(found)
    }
}

fn is_among(changed: Option<&BTreeSet<OutboundId>>, id: OutboundId) -> bool {
    changed.is_none_or(|changed| changed.contains(&id))
}

fn changed_in(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    lane: &(ForeignKey, ForeignKey, Option<ForeignKey>),
) -> Result<Option<BTreeSet<OutboundId>>> {
    let open = cx.db.lanes.collect_prefix(txn, lane, OPEN_MAX)?;
    if open.len() >= OPEN_MAX {
        return Ok(None);
    }
    let mut changed = BTreeSet::new();
    for ((.., id), ()) in open {
        let row = readable(cx.db.outbound.get(txn, &id))?;
        if let Some(Act::Edit(Said::Ours(of)) | Act::React(Said::Ours(of))) = row.map(|row| row.act) {
            changed.insert(of);
        }
    }
    Ok(Some(changed))
}
