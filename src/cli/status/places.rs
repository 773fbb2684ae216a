//! Slots for running agents, and sessions that wait for one.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cli::lookup;
use crate::clock;
use crate::config::seams;
use crate::model::id::{AgentId, SessionId};
use crate::model::session::SessionStatus;
use crate::model::time::Millis;
use crate::state::{self, InboxKey, Read, Tables};

/// Slots for running agents.
#[derive(Debug, Default, Serialize)]
pub(super) struct Slots {
    /// Agents that are starting, running or stopping.
    running: u64,
    /// Maximum number of running agents.
    max: u32,
    /// Sessions that wait for a slot, longest wait first.
    waiting: Vec<WaitingSession>,
}

#[derive(Debug, Serialize)]
struct WaitingSession {
    session: String,
    agent: String,
    /// When its oldest due message was stored.
    since: String,
    /// Milliseconds since then.
    waited_ms: u64,
}

impl Slots {
    /// Without a daemon no agents run: they ended with the last daemon. Sessions wait for a daemon rather than for a
    /// slot.
    pub(super) fn nobody_runs(&mut self) {
        self.running = 0;
        self.waiting.clear();
    }

    /// The slots as a line for people.
    pub(super) fn words(&self) -> String {
        let Self { running, max, waiting } = self;
        let longest = waiting.first().map_or_else(String::new, |one| {
            format!(", {} of {} has waited for {}", one.session, one.agent, Millis::new(one.waited_ms))
        });
        format!("{running} of {max} running, {} queued{longest}", waiting.len())
    }
}

/// Reads running agents and waiting sessions.
pub(super) fn look(db: &Tables, txn: &Read<'_>) -> Result<Slots, state::Error> {
    let limit = db.settings.get(txn, &())?.and_then(|settings| settings.max_containers);
    let max = limit.unwrap_or(seams::policy().max_containers);
    let mut running_of: BTreeMap<AgentId, u32> = BTreeMap::new();
    for row in db.live_incarnations.iter(txn)? {
        let (session, _) = row?;
        if let Some(row) = lookup::session(db, txn, session)? {
            *running_of.entry(row.agent).or_default() += 1;
        }
    }
    let running = db.live_incarnations.len(txn)?;
    let full = running >= u64::from(max);
    let (mut waiting, mut from) = (Vec::new(), InboxKey { session: SessionId::new(0), seq: 0 });
    // One seek per session, however many messages it has.
    while let Some((InboxKey { session: id, .. }, oldest)) = db.ready_messages.first(txn, from..)? {
        from = InboxKey { session: SessionId::new(id.number().saturating_add(1)), seq: 0 };
        let Some(session) = lookup::session(db, txn, id)? else { continue };
        let Some(agent) = db.agents.get(txn, &session.agent)? else { continue };
        let own = running_of.get(&session.agent).copied().unwrap_or_default();
        let waits = session.live.is_none() && session.status == SessionStatus::Active && agent.archived.is_none();
        if waits && (full || own >= agent.settings.max_parallel) {
            waiting.push((db.messages.require(txn, &oldest)?.stored, id, agent.folder));
        }
    }
    waiting.sort_by_key(|(since, session, _)| (*since, *session));
    let now = clock::wall();
    let shape = |(since, session, agent): (crate::model::Timestamp, SessionId, _)| WaitingSession {
        session: session.to_string(),
        agent: format!("{agent}"),
        since: since.to_string(),
        waited_ms: u64::try_from(now.millis().saturating_sub(since.millis())).unwrap_or(0),
    };
    Ok(Slots { running, max, waiting: waiting.into_iter().map(shape).collect() })
}
