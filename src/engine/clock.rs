//! What follows when the clocks of the machine are changed.

use super::configure::Aftermath;
use super::{Applied, Cx, Result, agents, schedule};
use crate::model::input::ClockChange;
use crate::state::Write;

/// Finds what is scheduled anew. Agents that live in the machine's zone are told when that is another one.
pub(super) fn changed(cx: &Cx<'_>, txn: &mut Write<'_>, change: ClockChange) -> Result<Applied> {
    let mut after = Aftermath::default();
    if change == ClockChange::Zone && cx.db.settings.get(txn, &())?.is_none_or(|settings| settings.timezone.is_none()) {
        agents::in_the_common_zone(cx, txn, &mut after)?;
        agents::renew_contexts(cx, txn, &mut after)?;
    }
    schedule::renew_all(cx, txn)?;
    schedule::renew_some(cx, txn, &mut after.effects)?;
    Ok(Applied::done(after.effects))
}
