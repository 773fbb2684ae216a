//! Decisions about hosts that agents want to reach: one, or many together.

use crate::Result;
use crate::approvals::send;
use crate::approvals::texts::{NEVER, REJECT, choice};
use crate::decisions::outcome;
use crate::decisions::outcome::{Choice, DecisionReply};
use crate::model::approval::{ApprovalState, ApprovalSubject};
use crate::model::host_grant::HostRequest;
use crate::model::id::{AgentId, ApprovalId};
use crate::requests::{host_floods, hosts};
use crate::tx::Tx;

/// Stores what was decided about hosts. What was decided about single ones meanwhile stays.
pub(crate) fn decided(tx: &mut Tx<'_, '_>, chosen: Choice) -> Result<DecisionReply> {
    let Choice { id, approval, option, by, .. } = chosen;
    let open = match unsettled(tx, &approval.about)? {
        Ok(open) => open,
        Err(why) => {
            outcome::supersede(tx, id, why)?;
            return Ok(Err(outcome::not_any_more(why)));
        }
    };
    let (at, value) = (tx.now.wall, choice(&option.value));
    hosts::decided(tx, &open, value, &by)?;
    let state = match value {
        REJECT | NEVER => ApprovalState::Rejected { by, at },
        _ => ApprovalState::Approved { by, at },
    };
    outcome::finish(tx, id, state, &option.chosen)?;
    Ok(Ok(option.chosen))
}

/// Withdraws a question that no host needs any more.
pub(crate) fn reconsider(tx: &mut Tx<'_, '_>, id: ApprovalId, about: &ApprovalSubject) -> Result<()> {
    match unsettled(tx, about)? {
        Ok(_) => Ok(()),
        Err(why) => outcome::supersede(tx, id, why),
    }
}

/// Tells agents that no one answered in time.
pub(crate) fn lapsed(tx: &mut Tx<'_, '_>, about: &ApprovalSubject) -> Result<()> {
    match unsettled(tx, about)? {
        Ok(open) => hosts::lapsed(tx, &open),
        Err(_) => Ok(()),
    }
}

/// Shows the card about hosts that were gathered while another card was open.
pub(crate) fn show_gathered(tx: &mut Tx<'_, '_>, agent: AgentId) -> Result<()> {
    let Some((id, approval)) = host_floods::waiting(tx, agent)? else { return Ok(()) };
    match unsettled(tx, &approval.about)? {
        Ok(_) => send::show_next(tx, id),
        Err(why) => outcome::supersede(tx, id, why),
    }
}

/// The hosts of a question that still need a decision, or why none does.
fn unsettled(tx: &Tx<'_, '_>, about: &ApprovalSubject) -> Result<std::result::Result<Vec<HostRequest>, &'static str>> {
    let requests = match about {
        ApprovalSubject::Host(request) => std::slice::from_ref(request),
        ApprovalSubject::Hosts(request) => &request.hosts,
        _ => &[],
    };
    let (mut open, mut settled) = (Vec::new(), "it is about no host");
    for request in requests {
        match hosts::settled(tx, request)? {
            None => open.push(request.clone()),
            Some(why) => settled = why,
        }
    }
    Ok(if open.is_empty() { Err(settled) } else { Ok(open) })
}
