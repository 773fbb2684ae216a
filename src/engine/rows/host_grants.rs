//! Decisions of people about hosts, and the network policies that follow. The only writer of the decisions.

use crate::Result;
use crate::model::access::Network;
use crate::model::entity::AgentSettings;
use crate::model::host::{Endpoint, HostRule};
use crate::model::host_grant::{HostDecision, HostGrant};
use crate::model::id::{AgentId, SessionId};
use crate::model::network::{NetworkPolicy, Unlisted};
use crate::model::time::Timestamp;
use crate::state::{HostKey, Read, Tables, Text};
use crate::tx::Tx;

/// Most decisions per agent that count.
const GRANTS_MAX: usize = 10_000;

/// The decision about a host, if there is one.
pub(crate) fn find(tx: &Tx<'_, '_>, agent: AgentId, to: &Endpoint) -> Result<Option<HostGrant>> {
    tx.db.host_grants.get(tx, &key(agent, to)?)
}

/// Stores a decision.
pub(crate) fn put(tx: &mut Tx<'_, '_>, agent: AgentId, grant: &HostGrant) -> Result<()> {
    tx.db.host_grants.put(tx, &key(agent, &grant.to)?, grant)
}

/// Removes a decision. Returns whether there was one.
pub(crate) fn remove(tx: &mut Tx<'_, '_>, agent: AgentId, to: &Endpoint) -> Result<bool> {
    tx.db.host_grants.delete(tx, &key(agent, to)?)
}

/// Removes everything that was decided for an agent.
pub(crate) fn forget_agent(tx: &mut Tx<'_, '_>, agent: AgentId) -> Result<()> {
    for (key, _) in tx.db.host_grants.collect_prefix(tx, &agent, usize::MAX)? {
        tx.db.host_grants.delete(tx, &key)?;
    }
    tx.db.host_floods.delete(tx, &agent).map(drop)
}

/// The key of a host.
pub(crate) fn key(agent: AgentId, to: &Endpoint) -> Result<HostKey> {
    Ok(HostKey { agent, host: Text::new(to.to_string())? })
}

/// What a session of an agent may reach now. None if its network has no rules: everything, or a part that the runtime
/// alone decides.
pub(crate) fn policy(db: &Tables, txn: &Read<'_>, of: Reaching<'_>, now: Timestamp) -> Result<Option<NetworkPolicy>> {
    let Reaching { agent, session, settings } = of;
    let unlisted = match settings.network {
        Network::Listed => Unlisted::Refuse,
        Network::Ask => Unlisted::Ask,
        Network::Public => Unlisted::Public,
        Network::None | Network::Host | Network::Open => return Ok(None),
    };
    let mut policy =
        NetworkPolicy { allow: settings.allow.clone(), deny: settings.deny.clone(), ..NetworkPolicy::new(unlisted) };
    for (_, grant) in db.host_grants.collect_prefix(txn, &agent, GRANTS_MAX)? {
        let rule = HostRule::exactly(grant.to);
        let is_allowed = match grant.decision {
            HostDecision::Never => {
                policy.refused.push(rule);
                continue;
            }
            HostDecision::Always => true,
            HostDecision::Once(passes) => passes.iter().any(|pass| pass.session == session && pass.until > now),
        };
        // What people allowed counts only while they may be asked.
        if is_allowed && unlisted != Unlisted::Refuse {
            policy.granted.push(rule);
        }
    }
    Ok(Some(policy))
}

/// A session of an agent that reaches hosts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reaching<'a> {
    pub(crate) agent: AgentId,
    pub(crate) session: SessionId,
    pub(crate) settings: &'a AgentSettings,
}
