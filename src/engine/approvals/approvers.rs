//! Who may decide an approval, and in which order approvers are asked.

use crate::Result;
use crate::approvals::texts::{ALWAYS, IGNORE, NEVER, REJECT, SESSION, choice};
use crate::delivery::notice;
use crate::model::address::{Address, ChannelName, UserId};
use crate::model::approval::ApprovalSubject;
use crate::model::budget::BudgetScope;
use crate::model::entity::Role;
use crate::model::id::{AgentId, SessionId};
use crate::model::message::Reason;
use crate::rows::direct::Direct;
use crate::rows::{direct, people, sessions};
use crate::rules::access::AccessLevel;
use crate::tx::Tx;

/// The people whose authority a decision needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Owners and global administrators.
    Everything,
    /// Also the administrators of these agents.
    Agents(Vec<AgentId>),
}

/// Whose authority a decision needs. An administrator of one agent may neither learn nor decide which agents exist or
/// which of them hear a chat.
pub(crate) fn scope(tx: &Tx<'_, '_>, about: &ApprovalSubject) -> Result<Scope> {
    Ok(match about {
        ApprovalSubject::Sender { agents, .. } => Scope::Agents(agents.clone()),
        ApprovalSubject::Channel { .. } | ApprovalSubject::CreateAgent { .. } => Scope::Everything,
        // Other budgets are shared with agents that an administrator of this one may not decide about.
        ApprovalSubject::Budget(request) => match request.budget.scope {
            BudgetScope::Agent(_) | BudgetScope::Task(_) => Scope::Agents(vec![request.agent]),
            BudgetScope::All | BudgetScope::Person(_) | BudgetScope::Chat(..) => Scope::Everything,
        },
        ApprovalSubject::Host(request) => Scope::Agents(vec![request.agent]),
        ApprovalSubject::Hosts(request) => Scope::Agents(vec![request.agent]),
        ApprovalSubject::Packages { session, .. } | ApprovalSubject::McpServer { session, .. } => {
            of_session(tx, *session)?
        }
        ApprovalSubject::Tool(request) => of_session(tx, request.session)?,
    })
}

fn of_session(tx: &Tx<'_, '_>, session: SessionId) -> Result<Scope> {
    Ok(Scope::Agents(sessions::load(tx, session)?.into_iter().map(|session| session.agent).collect()))
}

/// The approvers in the order in which they are asked: administrators of the agents by the time of their grant, then
/// global administrators, then owners. With several agents, only administrators of all of them count, so that one
/// answer is enough.
pub(crate) fn candidates(tx: &Tx<'_, '_>, scope: &Scope) -> Result<Vec<UserId>> {
    let mut found: Vec<UserId> = Vec::new();
    if let Scope::Agents(agents) = scope
        && let Some((first, others)) = agents.split_first()
    {
        for user in people::holders(tx, Role::AdminOf(*first))? {
            let mut all = true;
            for agent in others {
                all = all && administers(tx, &user, *agent)?;
            }
            if all {
                found.push(user);
            }
        }
    }
    for role in [Role::GlobalAdmin, Role::Owner] {
        found.extend(people::holders(tx, role)?);
    }
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|user| seen.insert(user.clone()));
    Ok(found)
}

/// Moves the users of a channel to the front.
pub(crate) fn origin_first(candidates: Vec<UserId>, origin: Option<&ChannelName>) -> Vec<UserId> {
    let (mut near, far): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|user| Some(user.channel()) == origin);
    near.extend(far);
    near
}

/// Whether a person may decide now, no matter which approver was asked.
pub(crate) fn may_decide(tx: &Tx<'_, '_>, user: &UserId, scope: &Scope) -> Result<bool> {
    let none = AgentId::new(0); // no agent has this id: only roles over everything count
    let agents = match scope {
        Scope::Agents(agents) if !agents.is_empty() => agents.as_slice(),
        Scope::Agents(_) | Scope::Everything => &[none],
    };
    for agent in agents {
        if administers(tx, user, *agent)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an option of an approval lets people in, changes an agent, or allows it something for longer. A session of
/// the console that was signed in from a chat may not choose it.
pub(crate) fn needs_link(about: &ApprovalSubject, value: &str) -> bool {
    let value = choice(value);
    match about {
        ApprovalSubject::Budget(_) => false,
        ApprovalSubject::Tool(_) | ApprovalSubject::Host(_) | ApprovalSubject::Hosts(_) => {
            [SESSION, ALWAYS, NEVER].contains(&value)
        }
        ApprovalSubject::Sender { .. }
        | ApprovalSubject::Channel { .. }
        | ApprovalSubject::Packages { .. }
        | ApprovalSubject::McpServer { .. }
        | ApprovalSubject::CreateAgent { .. } => ![REJECT, IGNORE].contains(&value),
    }
}

/// Whether a person has authority over an agent.
pub(crate) fn administers(tx: &Tx<'_, '_>, user: &UserId, agent: AgentId) -> Result<bool> {
    let standing = people::standing(tx, Some(user), agent)?;
    Ok(matches!(standing, AccessLevel::Known(Reason::Owner | Reason::GlobalAdmin | Reason::AdminOfAgent)))
}

/// Whether a person has authority over everything.
pub(crate) fn rules(tx: &Tx<'_, '_>, user: &UserId) -> Result<bool> {
    may_decide(tx, user, &Scope::Everything)
}

/// An address of a person with authority over an agent that is known without opening a direct message: the first such
/// approver, otherwise the owner's terminal.
pub(crate) fn reach(tx: &Tx<'_, '_>, agent: AgentId) -> Result<Option<Address>> {
    for user in candidates(tx, &Scope::Agents(vec![agent]))? {
        if let Direct::At(at) = direct::find(tx, &user)? {
            return Ok(Some(at));
        }
    }
    notice::owner(tx)
}

#[cfg(test)]
mod tests {
    use crate::approvals::approvers::*;
    use crate::model::host_grant::{HostRequest, HostsRequest};
    use crate::model::id::ChatId;

    #[test]
    fn what_gives_an_agent_nothing_that_lasts_needs_no_link() {
        let host = HostRequest {
            agent: AgentId::new(1),
            session: SessionId::new(1),
            to: "example.com:443".parse().unwrap(),
            local: false,
        };
        let hosts = ApprovalSubject::Hosts(HostsRequest { agent: AgentId::new(1), hosts: vec![host.clone()] });
        let channel = ApprovalSubject::Channel { chat: ChatId::new(1), sender: None, name: None };
        for (about, free, bound) in [
            (ApprovalSubject::Host(host), &["approve", "reject"][..], &["always", "never"][..]),
            (hosts, &["approve:2", "reject"], &["always:2", "never:2"]),
            (channel, &["ignore"], &["connect:ag1", "new_agent", "new_agent:x", "anything"]),
        ] {
            for value in free {
                assert!(!needs_link(&about, value), "{value}");
            }
            for value in bound {
                assert!(needs_link(&about, value), "{value}");
            }
        }
    }

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
