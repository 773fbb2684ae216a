//! What follows when the clocks of the machine are changed.

use super::configure::Aftermath;
use super::{Applied, Cx, Result, agents, schedule};
use crate::model::input::ClockChange;
use crate::state::Write;
use crate::time::zone::Zone;

/// Finds what is scheduled anew. Agents that live in the machine's zone are told when that is another one.
pub(super) fn changed(cx: &Cx<'_>, txn: &mut Write<'_>, change: &ClockChange) -> Result<Applied> {
    let mut after = Aftermath::default();
    let common = cx.db.settings.get(txn, &())?.and_then(|settings| settings.timezone);
    if let (ClockChange::Zone(before), None) = (change, common) {
        let lived = Zone::parse(before).unwrap_or_else(|_| cx.zone.clone());
        for agent in agents::in_the_common_zone(cx, txn)? {
            after.changed.insert(agent);
            schedule::keep_due(cx, txn, agent, &lived)?;
        }
        agents::renew_contexts(cx, txn, &mut after)?;
    }
    // All other times are found in as many steps as it takes.
    schedule::renew_all(cx, txn)?;
    schedule::renew_some(cx, txn, &mut after.effects)?;
    Ok(Applied::done(after.effects))
}
