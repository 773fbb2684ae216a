//! Who may decide, and in which order they are asked.

use super::direct::{self, Direct};
use crate::engine::access::{Standing, standing};
use crate::engine::{Cx, Result, notice, sessions};
use crate::model::address::{Address, ChannelName, UserId};
use crate::model::approval::Matters;
use crate::model::entity::Role;
use crate::model::id::AgentId;
use crate::model::message::Reason;
use crate::state::Write;

/// Holders of one role that are asked; nobody has as many.
const HOLDERS_MAX: usize = 100;

/// Whose authority a decision needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// That of owners and global administrators.
    Everything,
    /// Beside theirs, that of the administrators of these agents.
    Agents(Vec<AgentId>),
}

/// Whose authority something needs. Which agents hear a chat, and which agents there are, is nobody's business who
/// administers one of them.
pub(super) fn scope(cx: &Cx<'_>, txn: &Write<'_>, about: &Matters) -> Result<Scope> {
    Ok(match about {
        Matters::Sender { agents, .. } => Scope::Agents(agents.clone()),
        Matters::Channel { .. } | Matters::CreateAgent { .. } => Scope::Everything,
        Matters::Packages { session, .. } | Matters::McpServer { session, .. } => {
            Scope::Agents(sessions::load(cx, txn, *session)?.into_iter().map(|session| session.agent).collect())
        }
    })
}

/// Who is asked, in order: administrators of the agents by the time of their grant, then global ones, then owners.
/// Of several agents only who administers all of them, so that one answer is enough.
pub(super) fn candidates(cx: &Cx<'_>, txn: &Write<'_>, scope: &Scope) -> Result<Vec<UserId>> {
    let mut found: Vec<UserId> = Vec::new();
    if let Scope::Agents(agents) = scope
        && let Some((first, others)) = agents.split_first()
    {
        for user in holders(cx, txn, Role::AdminOf(*first))? {
            let mut all = true;
            for agent in others {
                all = all && administers(cx, txn, &user, *agent)?;
            }
            if all {
                found.push(user);
            }
        }
    }
    for role in [Role::GlobalAdmin, Role::Owner] {
        found.extend(holders(cx, txn, role)?);
    }
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|user| seen.insert(user.clone()));
    Ok(found)
}

/// The same people with those of a channel first.
pub(super) fn origin_first(candidates: Vec<UserId>, origin: Option<&ChannelName>) -> Vec<UserId> {
    let (mut near, far): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|user| Some(user.channel()) == origin);
    near.extend(far);
    near
}

/// Whether a person may decide now, whoever was asked.
pub(super) fn may_decide(cx: &Cx<'_>, txn: &Write<'_>, user: &UserId, scope: &Scope) -> Result<bool> {
    let none = AgentId::new(0); // no agent has this id: only roles over everything count
    let agents = match scope {
        Scope::Agents(agents) if !agents.is_empty() => agents.as_slice(),
        Scope::Agents(_) | Scope::Everything => &[none],
    };
    for agent in agents {
        if administers(cx, txn, user, *agent)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a person has authority over an agent.
pub(in crate::engine) fn administers(cx: &Cx<'_>, txn: &Write<'_>, user: &UserId, agent: AgentId) -> Result<bool> {
    let standing = standing(cx, txn, Some(user), agent)?;
    Ok(matches!(standing, Standing::Known(Reason::Owner | Reason::GlobalAdmin | Reason::AdminOfAgent)))
}

/// Whether a person has authority over everything.
pub(super) fn rules(cx: &Cx<'_>, txn: &Write<'_>, user: &UserId) -> Result<bool> {
    may_decide(cx, txn, user, &Scope::Everything)
}

/// Where somebody who has authority over an agent is reached without asking their channel first: as approvers are asked,
/// or else on the owner's terminal.
pub(in crate::engine) fn reach(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<Option<Address>> {
    for user in candidates(cx, txn, &Scope::Agents(vec![agent]))? {
        if let Direct::At(at) = direct::find(cx, txn, &user)? {
            return Ok(Some(at));
        }
    }
    notice::owner(cx, txn)
}

/// Who has a role, in the order in which it was granted.
fn holders(cx: &Cx<'_>, txn: &Write<'_>, role: Role) -> Result<Vec<UserId>> {
    let mut users = Vec::new();
    for ((_, _, channel, handle), ()) in cx.db.roles_by_grant.collect_prefix(txn, &role, HOLDERS_MAX)? {
        users.extend(cx.db.roles.get(txn, &(channel, handle, role))?.map(|grant| grant.user));
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_of_the_channel_it_came_from_are_asked_first() {
        let user = |text| UserId::parse(text).unwrap();
        let all = vec![user("telegram:111"), user("discord:222"), user("telegram:333")];
        let order = |origin: Option<&str>| {
            let origin = origin.map(|name| ChannelName::new(name).unwrap());
            origin_first(all.clone(), origin.as_ref()).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(order(Some("discord")), ["discord:222", "telegram:111", "telegram:333"]);
        assert_eq!(order(Some("telegram")), ["telegram:111", "telegram:333", "discord:222"]);
        assert_eq!(order(Some("slack")), ["telegram:111", "discord:222", "telegram:333"]);
        assert_eq!(order(None), ["telegram:111", "discord:222", "telegram:333"]);
    }
}
