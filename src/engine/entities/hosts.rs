//! Decisions about hosts by command.

use crate::Result;
use crate::entities::change;
use crate::entities::change::ChangeResult;
use crate::lifecycle::network;
use crate::model::address::UserId;
use crate::model::approval::Decider;
use crate::model::entity::Folder;
use crate::model::host::Endpoint;
use crate::model::host_grant::{HostDecision, HostGrant};
use crate::model::report::Action;
use crate::rows::{agents, host_grants};
use crate::tx::Tx;

/// What is decided about a host, and by whom; none is the operator of this machine.
pub(crate) struct Decided<'a> {
    pub(crate) decision: HostDecision,
    pub(crate) by: Option<&'a UserId>,
}

/// Allows or refuses a host until that is revoked.
pub(crate) fn decide(
    tx: &mut Tx<'_, '_>,
    folder: &Folder,
    to: &Endpoint,
    decided: Decided<'_>,
) -> Result<ChangeResult> {
    let Decided { decision, by } = decided;
    let Some((id, _)) = agents::find(tx, folder)? else { return Ok(Err(agents::missing(folder))) };
    let known = host_grants::find(tx, id, to)?;
    let action = match &known {
        Some(grant) if grant.decision == decision => Action::Unchanged,
        Some(_) => Action::Updated,
        None => Action::Created,
    };
    if action != Action::Unchanged {
        let by = by.cloned().map_or(Decider::Operator, Decider::Person);
        let grant = HostGrant { to: to.clone(), decision, by, at: tx.now.wall };
        host_grants::put(tx, id, &grant)?;
        network::renew(tx, id)?;
    }
    Ok(Ok(vec![change::report(entity(folder, to), action)]))
}

/// Revokes a decision.
pub(crate) fn revoke(tx: &mut Tx<'_, '_>, folder: &Folder, to: &Endpoint) -> Result<ChangeResult> {
    let Some((id, _)) = agents::find(tx, folder)? else { return Ok(Err(agents::missing(folder))) };
    if !host_grants::remove(tx, id, to)? {
        return Ok(Err(format!(
            "nothing was decided about {to} for {folder}: `hearth net --agent {folder}` lists decisions, and `hearth agents \
             show {folder}` what is configured"
        )));
    }
    network::renew(tx, id)?;
    Ok(Ok(vec![change::report(entity(folder, to), Action::Removed)]))
}

fn entity(folder: &Folder, to: &Endpoint) -> String {
    format!("host {to} of {folder}")
}
