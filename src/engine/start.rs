//! The start of a daemon: what an earlier one left is looked for, then swept.

use super::{Applied, Cx, Result, renew, schedule, skips, sweep, threads};
use crate::model::effect::Effect;
use crate::model::incarnation::Phase;
use crate::state::Write;

/// Asks after every incarnation that was not closed; the sweep does the rest.
pub(super) fn start(cx: &Cx<'_>, txn: &mut Write<'_>) -> Result<Applied> {
    let mut effects = Vec::new();
    for (session, number) in cx.db.live.collect_range(txn, .., cx.policy.rows_per_input)? {
        cx.apart(txn, &mut effects, |txn, effects| {
            // What is started in another way by now gets nothing more, should it still live.
            let before = effects.len();
            renew::look(cx, txn, (session, number), effects)?;
            if effects.len() > before {
                return Ok(());
            }
            let incarnation = cx.db.incarnations.require(txn, &(session, number))?;
            effects.push(match incarnation.phase {
                Phase::Collecting { .. } => Effect::CollectRest(session, number),
                Phase::Stopping { .. } => Effect::Stop(session, number),
                Phase::Starting | Phase::Running | Phase::Closed { .. } => Effect::Inquire(session, number),
            });
            Ok(())
        })?;
    }
    cx.apart(txn, &mut effects, |txn, effects| threads::subscribe_again(cx, txn, effects))?;
    cx.apart(txn, &mut effects, |txn, effects| skips::look_everywhere(cx, txn, effects))?;
    // The clock may have been set back, or the machine moved, while nothing ran.
    cx.apart(txn, &mut effects, |txn, _| schedule::renew_all(cx, txn))?;
    let mut swept = sweep::sweep(cx, txn, &[])?;
    effects.append(&mut swept.effects);
    Ok(Applied::done(effects))
}
