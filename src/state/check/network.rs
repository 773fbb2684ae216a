//! Checks of agents' connections and of decisions about hosts.

use super::Check;
use crate::error::Result;
use crate::model::incarnation::IncarnationId;

/// Every connection belongs to a run of its agent.
pub(super) fn connections(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.connections, |check, id, row| {
        check.refers(&db.connections, &id, &db.agents, &row.agent)?;
        check.refers(&db.connections, &id, &db.incarnations, &IncarnationId::new(row.session, row.incarnation))?;
        if row.count == 0 || row.ended < row.began {
            check.report(&db.connections, &id, "says that no connection was made, or that one ended before it began");
        }
        row.message.map_or(Ok(()), |message| check.refers(&db.connections, &id, &db.messages, &message))
    })
}

/// Decisions are about hosts of agents that exist, under the key of their host.
pub(super) fn decisions(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.host_grants, |check, key, grant| {
        if key.host.as_str() != grant.to.to_string() {
            check.report(&db.host_grants, &key, format!("is about {}", grant.to));
        }
        check.refers(&db.host_grants, &key, &db.agents, &key.agent)
    })?;
    check.each(&db.host_floods, |check, agent, _| check.refers(&db.host_floods, &agent, &db.agents, &agent))
}
