//! Who may talk to an agent.

use super::{Cx, Result};
use crate::model::address::UserId;
use crate::model::entity::{Role, UnknownSenders};
use crate::model::id::AgentId;
use crate::model::message::Reason;
use crate::state::{ForeignKey, Write};

/// What is known of a sender with regard to one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// The message names nobody.
    Nobody,
    /// Neither role nor membership.
    Stranger,
    /// A role or a membership.
    Known(Reason),
}

/// Looks up what a sender is to an agent; the first match counts.
pub(super) fn standing(cx: &Cx<'_>, txn: &Write<'_>, sender: Option<&UserId>, agent: AgentId) -> Result<Standing> {
    let Some(user) = sender else { return Ok(Standing::Nobody) };
    let (channel, handle) = ForeignKey::user(user);
    let key = (agent, channel, handle);
    let (_, channel, handle) = &key;
    txn.once(&key, || look_up(cx, txn, (user, agent), (channel, handle))).map(|standing| *standing)
}

fn look_up(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    (user, agent): (&UserId, AgentId),
    (channel, handle): (&ForeignKey, &ForeignKey),
) -> Result<Standing> {
    for (role, reason) in [
        (Role::Owner, Reason::Owner),
        (Role::GlobalAdmin, Reason::GlobalAdmin),
        (Role::AdminOf(agent), Reason::AdminOfAgent),
    ] {
        let grant = cx.db.roles.get(txn, &(channel.clone(), handle.clone(), role))?;
        // The key may hold a digest of the id; the row has the whole of it.
        if grant.is_some_and(|grant| grant.user == *user) {
            return Ok(Standing::Known(reason));
        }
    }
    let membership = cx.db.members.get(txn, &(agent, channel.clone(), handle.clone()))?;
    let member = membership.is_some_and(|membership| membership.user == *user);
    Ok(if member { Standing::Known(Reason::Member) } else { Standing::Stranger })
}

/// Whether a chat's policy lets a sender through to an agent: the reason either way.
pub(super) fn decide_access(policy: UnknownSenders, standing: Standing) -> std::result::Result<Reason, Reason> {
    match (policy, standing) {
        (UnknownSenders::Public, _) => Ok(Reason::Public),
        (_, Standing::Known(reason)) => Ok(reason),
        (_, Standing::Nobody) => Err(Reason::UnknownUser),
        (UnknownSenders::Strict, Standing::Stranger) => Err(Reason::UnknownSenderStrict),
        (UnknownSenders::RequestApproval, Standing::Stranger) => Err(Reason::SenderHeld),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_follows_the_policy_table() {
        use Standing::{Known, Nobody, Stranger};
        use UnknownSenders::{Public, RequestApproval, Strict};
        for (policy, standing, expected) in [
            (Public, Nobody, Ok(Reason::Public)),
            (Public, Stranger, Ok(Reason::Public)),
            (Strict, Nobody, Err(Reason::UnknownUser)),
            (RequestApproval, Nobody, Err(Reason::UnknownUser)),
            (Strict, Known(Reason::Member), Ok(Reason::Member)),
            (Strict, Stranger, Err(Reason::UnknownSenderStrict)),
            (RequestApproval, Stranger, Err(Reason::SenderHeld)),
            (RequestApproval, Known(Reason::Owner), Ok(Reason::Owner)),
        ] {
            assert_eq!(decide_access(policy, standing), expected, "{policy:?} {standing:?}");
        }
    }
}
