//! Numbers for new rows.

use super::{Cx, Result};
use crate::model::id::Counted;
use crate::state::{Number, Text, Write};

/// Gives out the next id of its kind. Numbers are never reused, not even those of removed rows.
pub(super) fn allocate<I: Counted>(cx: &Cx<'_>, txn: &mut Write<'_>) -> Result<I> {
    let key = Text::new(I::COUNTER.name());
    let last = cx.db.counters.get(txn, &key)?.map_or(0, |number| number.0);
    let next = last.saturating_add(1);
    cx.db.counters.put(txn, &key, &Number(next))?;
    Ok(I::from_number(next))
}
