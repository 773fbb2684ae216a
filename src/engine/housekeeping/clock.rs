//! Reacts to changes of the machine's clocks.

use crate::entities::change::ChangedAgents;
use crate::lifecycle::budget;
use crate::model::input::ClockChange;
use crate::model::report::Reply;
use crate::rows::agents;
use crate::schedule::recompute;
use crate::time::zone::Zone;
use crate::tx::Tx;
use crate::{Result, entities, schedule};

/// Recomputes the schedules. Agents that use the machine's time zone are told when it changes.
pub(crate) fn changed(tx: &mut Tx<'_, '_>, change: &ClockChange) -> Result<Reply> {
    let mut after = ChangedAgents::default();
    let common = tx.db.settings.get(tx, &())?.and_then(|settings| settings.timezone);
    if let (ClockChange::Zone(before), None) = (change, common) {
        let lived = Zone::parse(before).unwrap_or_else(|_| tx.cx.zone.clone());
        for agent in agents::in_the_common_zone(tx)? {
            after.changed.insert(agent);
            schedule::change::keep_due(tx, agent, &lived)?;
        }
        entities::change::renew_contexts(tx, &mut after)?;
    }
    // The other tasks are recomputed in as many steps as necessary.
    recompute::renew_all(tx)?;
    recompute::renew_some(tx)?;
    // Another day or month may have begun.
    budget::reconsider(tx)?;
    Ok(Reply::Done)
}
