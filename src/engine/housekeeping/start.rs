//! The start of the daemon: asks for the state of what an earlier run left, then sweeps.

use crate::housekeeping::sweep;
use crate::lifecycle::{caps, rollout};
use crate::model::effect::Effect;
use crate::model::incarnation::{IncarnationId, Phase};
use crate::model::report::Reply;
use crate::schedule::recompute;
use crate::tx::Tx;
use crate::{Result, skips};

/// Inquires about every incarnation that was not closed, then sweeps.
pub(crate) fn start(tx: &mut Tx<'_, '_>) -> Result<Reply> {
    for (session, number) in tx.db.live_incarnations.collect_range(tx, .., tx.policy.rows_per_input)? {
        tx.isolated(|tx| {
            // An incarnation with an outdated launch configuration receives nothing more if it still lives.
            let before = tx.effects.len();
            let id = IncarnationId { session, number };
            rollout::look(tx, id)?;
            if tx.effects.len() > before {
                return Ok(());
            }
            let incarnation = tx.db.incarnations.require(tx, &id)?;
            let lives = matches!(incarnation.phase, Phase::Starting | Phase::Running);
            tx.effects.push(match incarnation.phase {
                Phase::Collecting { .. } => Effect::CollectRest(session, number),
                Phase::Stopping { .. } => Effect::Stop(session, number),
                Phase::Starting | Phase::Running | Phase::Closed { .. } => Effect::Inquire(session, number),
            });
            if lives { caps::turn_goes_on(tx, id) } else { Ok(()) }
        })?;
    }
    tx.isolated(skips::look_everywhere)?;
    // While the daemon was down, the clock may have been set back or the time zone changed.
    tx.isolated(recompute::renew_all)?;
    sweep::sweep(tx, &[])?;
    Ok(Reply::Done)
}
