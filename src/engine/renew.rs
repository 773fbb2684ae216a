//! When what agents are started with changes: what lives is replaced when it is next idle, and what waits for a wait to
//! end goes at once.

use std::collections::BTreeSet;

use super::{Cx, Result, again, lifecycle, places, sessions, spec, starts};
use crate::model::effect::Effect;
use crate::model::id::{AgentId, SessionId};
use crate::model::incarnation::{Phase, StopReason};
use crate::state::Write;

/// What follows when agents are started in another way from now on.
pub(super) fn agents(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    agents: &BTreeSet<AgentId>,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    if agents.is_empty() {
        return Ok(());
    }
    for live in lifecycle::living(cx, txn, |agent| agents.contains(&agent))? {
        look(cx, txn, live, effects)?;
    }
    again::lift(cx, txn, agents)?;
    starts::forgive(cx, txn, agents)?;
    places::hand_on(cx, txn, effects)
}

/// Lets a live incarnation end when it is next idle if it would be started in another way now.
pub(super) fn look(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (session, number): (SessionId, u32),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let Some(row) = sessions::load(cx, txn, session)? else { return Ok(()) };
    let incarnation = cx.db.incarnations.require(txn, &(session, number))?;
    if incarnation.outdated.is_some() || !matches!(incarnation.phase, Phase::Starting | Phase::Running) {
        return Ok(());
    }
    let agent = cx.db.agents.require(txn, &row.agent)?;
    let (digest, _) = spec::of(cx, txn, (&row, &agent))?;
    match digest == incarnation.digest {
        true => Ok(()),
        false => lifecycle::retire(cx, txn, (session, number), StopReason::Renewed, effects),
    }
}
