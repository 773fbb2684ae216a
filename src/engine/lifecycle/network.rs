//! Network policies of running agents: sent whenever rules or decisions change.

use crate::Result;
use crate::lifecycle;
use crate::model::access::Network;
use crate::model::effect::{Effect, RunPolicy};
use crate::model::host_grant::{HostDecision, HostGrant};
use crate::model::id::{AgentId, SessionId};
use crate::model::network::{NetworkPolicy, Unlisted};
use crate::model::time::{Millis, Timestamp};
use crate::rows::host_grants::Reaching;
use crate::rows::{host_grants, sessions};
use crate::state::{HostKey, Read, SessionKey, Tables, Text, Timed};
use crate::tx::Tx;

/// Decisions that end in one sweep.
const PER_SWEEP: usize = 64;

/// Sends the present policy to all runs of an agent.
pub(crate) fn renew(tx: &mut Tx<'_, '_>, agent: AgentId) -> Result<()> {
    for run in lifecycle::live_of(tx, |other| other == agent)? {
        renew_session(tx, run.session)?;
    }
    Ok(())
}

/// Sends the present policy to the run of a session.
pub(crate) fn renew_session(tx: &mut Tx<'_, '_>, id: SessionId) -> Result<()> {
    let Some(incarnation) = tx.db.live_incarnations.get(tx, &id)? else { return Ok(()) };
    let Some(session) = sessions::load(tx, id)? else { return Ok(()) };
    let Some(agent) = tx.db.agents.get(tx, &session.agent)? else { return Ok(()) };
    let of = Reaching { agent: session.agent, session: id, settings: &agent.settings };
    let policy = match host_grants::policy(tx.db, tx, of, tx.now.wall)? {
        Some(policy) => policy,
        None if agent.settings.network == Network::None => NetworkPolicy::new(Unlisted::Refuse),
        // The run keeps what it has until another one replaces it.
        None => return Ok(()),
    };
    tx.effects.push(Effect::NetworkPolicy(Box::new(RunPolicy { session: id, incarnation, policy })));
    Ok(())
}

/// Ends decisions whose time is over.
pub(crate) fn expire(tx: &mut Tx<'_, '_>) -> Result<()> {
    let end = due_from(tx.now.wall.plus(Millis::new(1)))?;
    for (Timed { id: key, .. }, ()) in tx.db.host_grants_due.collect_range(tx, ..end, PER_SWEEP)? {
        let grant = tx.db.host_grants.require(tx, &key)?;
        match left(&grant, tx.now.wall) {
            Some(grant) => tx.db.host_grants.put(tx, &key, &grant)?,
            None => tx.db.host_grants.delete(tx, &key).map(drop)?,
        }
        renew(tx, key.agent)?;
    }
    Ok(())
}

/// The beginning of what ends from a time on.
pub(crate) fn due_from(at: Timestamp) -> Result<Timed<HostKey>> {
    Ok(Timed { at, id: HostKey { agent: AgentId::new(0), host: Text::new("")? } })
}

/// A decision without what has ended of it.
fn left(grant: &HostGrant, now: Timestamp) -> Option<HostGrant> {
    let HostDecision::Once(passes) = &grant.decision else { return Some(grant.clone()) };
    let passes: Vec<_> = passes.iter().filter(|pass| pass.until > now).cloned().collect();
    (!passes.is_empty()).then(|| HostGrant { decision: HostDecision::Once(passes), ..grant.clone() })
}

/// What a session's agent may reach now, if its network has rules.
///
/// # Errors
/// Faults of the store.
pub fn network_policy(db: &Tables, txn: &Read<'_>, id: SessionId, now: Timestamp) -> Result<Option<NetworkPolicy>> {
    let Some(workspace) = db.sessions_by_id.get(txn, &id)? else { return Ok(None) };
    let Some(row) = db.sessions.get(txn, &SessionKey { workspace, session: id })? else { return Ok(None) };
    let Some(agent_id) = row.as_chat().map(|session| session.agent) else { return Ok(None) };
    let Some(agent) = db.agents.get(txn, &agent_id)? else { return Ok(None) };
    let of = Reaching { agent: agent_id, session: id, settings: &agent.settings };
    host_grants::policy(db, txn, of, now)
}

#[cfg(test)]
mod tests {
    use crate::lifecycle::network::*;
    use crate::model::approval::Decider;
    use crate::model::host_grant::HostPass;

    #[test]
    fn what_is_allowed_for_a_while_ends_per_session() {
        let at = Timestamp::from_millis;
        let pass = |session, until| HostPass { session: SessionId::new(session), until: at(until) };
        let grant =
            |decision| HostGrant { to: "a.org:443".parse().unwrap(), decision, by: Decider::Operator, at: at(0) };
        let once = grant(HostDecision::Once(vec![pass(1, 10), pass(2, 20)]));
        assert_eq!(left(&once, at(9)), Some(once.clone()));
        assert_eq!(left(&once, at(10)), Some(grant(HostDecision::Once(vec![pass(2, 20)]))));
        assert_eq!(left(&once, at(20)), None);
        let always = grant(HostDecision::Always);
        assert_eq!(left(&always, at(99)), Some(always));
    }
}
