//! Connects the way out of agents with the engine: what they may reach, questions about hosts, and connections.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::Error;
use super::engine_thread::{Inbox, Item};
use super::mailbox_workers::MailboxWorkers;
use super::metrics::Metrics;
use super::worker;
use crate::config::Paths;
use crate::egress::{Asking, Egress, Hooks, Reach as Outside, Setup};
use crate::engine::network_policy;
use crate::gateway::opened::{Binding, Opener};
use crate::model::bound_secret::AgentSecret;
use crate::model::effect::{Launch, RunPolicy};
use crate::model::entity::ProviderKind;
use crate::model::gateway::Reach;
use crate::model::id::SessionId;
use crate::model::input::Input;
use crate::model::network::{ConnectionSeen, HostWanted, NetRefusal, NetworkAccess};
use crate::model::report::Reply;

/// Connections are reported to the engine at most this often.
const BATCH: Duration = Duration::from_secs(1);
/// Waiting reports. With more, those about the same endpoint with the same verdict are put together.
const WAITING_MAX: usize = 1_024;

/// The way out, and the reports about its connections.
pub(super) struct WayOut {
    pub(super) egress: Arc<Egress>,
    reports: Arc<Reports>,
}

impl WayOut {
    /// Ends the way out, and hands over what was not reported yet. Call it while the engine still runs.
    pub(super) fn shut_down(&self, inbox: &Inbox) {
        self.egress.cut();
        self.reports.hand_over(inbox);
    }
}

pub(super) fn start(
    paths: &Paths,
    metrics: &Arc<Metrics>,
    inbox: &Arc<Inbox>,
    opener: &Arc<Opener>,
) -> Result<WayOut, Error> {
    let reports = Arc::new(Reports::default());
    let (seen, asks, metrics) = (Arc::clone(&reports), Arc::clone(inbox), Arc::clone(metrics));
    let hooks = Hooks {
        ask: Box::new(move |wanted| ask(&asks, wanted)),
        seen: Box::new(move |connection| {
            metrics.connected(&connection);
            seen.add(connection);
        }),
    };
    let egress = Egress::start(Setup { directory: paths.run().join("network"), reach: Outside::default(), hooks })?;
    let (inbox, waited) = (Arc::downgrade(inbox), Arc::clone(&reports));
    worker::start("connections", move || {
        loop {
            waited.wait();
            let Some(inbox) = inbox.upgrade() else { return };
            waited.hand_over(&inbox);
            drop(inbox);
            std::thread::sleep(BATCH);
        }
    })
    .map(drop)?;
    Ok(WayOut { egress: Arc::new(egress.with_secrets(Arc::clone(opener))), reports })
}

/// Asks the engine to ask a person.
fn ask(inbox: &Inbox, wanted: HostWanted) -> Asking {
    let (answer, answered) = oneshot::channel();
    inbox.push(Item { answer: Some(answer), ..Item::of(Input::HostWanted(wanted)) });
    Box::pin(async {
        match answered.await {
            Ok(Ok(Reply::Host(asked))) => asked,
            // The daemon ends, or the store cannot be written.
            Ok(Ok(_) | Err(_)) | Err(_) => Err(NetRefusal::Stopped),
        }
    })
}

/// Connections that were not reported yet.
#[derive(Default)]
struct Reports {
    waiting: Mutex<Vec<ConnectionSeen>>,
    added: Condvar,
}

impl Reports {
    fn add(&self, seen: ConnectionSeen) {
        let mut waiting = self.lock();
        let same = |other: &&mut ConnectionSeen| {
            (other.session, other.incarnation) == (seen.session, seen.incarnation)
                && other.endpoint == seen.endpoint
                && other.verdict == seen.verdict
                && other.request == seen.request
        };
        let known = if waiting.len() < WAITING_MAX { None } else { waiting.iter_mut().find(same) };
        match known {
            Some(known) => {
                known.ended = known.ended.max(seen.ended);
                known.up = known.up.saturating_add(seen.up);
                known.down = known.down.saturating_add(seen.down);
            }
            None => waiting.push(seen),
        }
        self.added.notify_one();
    }

    /// Waits for connections.
    fn wait(&self) {
        drop(self.added.wait_while(self.lock(), |waiting| waiting.is_empty()));
    }

    /// Gives all to the engine. The second of two callers finds them in its queue.
    fn hand_over(&self, inbox: &Inbox) {
        let mut waiting = self.lock();
        if !waiting.is_empty() {
            inbox.push(Item::of(Input::Connections(std::mem::take(&mut waiting))));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ConnectionSeen>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MailboxWorkers {
    /// Opens the way out of an agent that is about to start, if its network has rules and they can be enforced.
    pub(super) fn open_network(
        &self,
        launch: &Launch,
        provider: ProviderKind,
    ) -> Result<Option<NetworkAccess>, String> {
        let Some(policy) = launch.policy.clone() else { return Ok(None) };
        let Reach::Socket { owner } = self.context.runtime.reach(&launch.settings, provider) else { return Ok(None) };
        let (session, incarnation, uses) = (launch.session, launch.incarnation, &launch.settings.secrets);
        let opened =
            self.context.egress.open(session, incarnation, policy, owner).map_err(|error| error.to_string())?;
        if uses.is_empty() {
            return Ok(Some(opened));
        }
        let binding = Binding { session, incarnation, uses, secrets: &launch.secrets };
        self.context.egress.bind(&binding).map(Some)
    }

    /// Opens the way out of an agent that an earlier daemon started, if it is still live.
    pub(super) fn reopen_network(&self, session: SessionId, incarnation: u32) {
        let now = self.context.clock.now().wall;
        let policy = self.context.engine.store().read(|db, txn| network_policy(db, txn, session, now));
        let policy = match policy {
            Ok(Some(policy)) => policy,
            Ok(None) => return,
            Err(error) => return tracing::warn!(%session, %error, "an agent does not reach its network"),
        };
        let agent = match self.agent_of(session) {
            Ok(Some(agent)) => agent,
            Ok(None) => return,
            Err(error) => return tracing::warn!(%session, %error, "an agent does not reach its network"),
        };
        let reach = self.context.runtime.reach(&agent.settings, agent.settings.provider);
        let Reach::Socket { owner } = reach else { return };
        if let Err(error) = self.context.egress.open(session, incarnation, policy, owner) {
            tracing::warn!(%session, %error, "an agent does not reach its network");
        }
        self.rebind(session, incarnation, &agent.settings.secrets);
    }

    /// Binds the secrets of an agent that an earlier daemon started. Its placeholders stay the same.
    fn rebind(&self, session: SessionId, incarnation: u32, uses: &[AgentSecret]) {
        if uses.is_empty() {
            return;
        }
        let settings = self.context.engine.store().read(|db, txn| db.settings.get(txn, &()));
        let secrets = match settings {
            Ok(settings) => settings.unwrap_or_default().secrets,
            Err(error) => return tracing::warn!(%session, %error, "an agent does not reach the hosts of its secrets"),
        };
        if let Err(why) = self.context.egress.bind(&Binding { session, incarnation, uses, secrets: &secrets }) {
            tracing::warn!(%session, why, "an agent does not reach the hosts of its secrets");
        }
    }

    /// Closes the way out of an agent and cuts its connections.
    pub(super) fn close_network(&self, session: SessionId, incarnation: u32) {
        self.context.egress.close(session, incarnation);
    }

    /// Sets what an agent may reach from now on.
    pub(super) fn set_network_policy(&self, of: RunPolicy) {
        let known = self.context.egress.set_policy(of.session, of.incarnation, of.policy);
        tracing::debug!(session = %of.session, incarnation = of.incarnation, known, "the network policy of a run changed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::network::NetVerdict;
    use crate::model::time::Timestamp;

    fn seen(port: u16, verdict: NetVerdict) -> ConnectionSeen {
        ConnectionSeen {
            session: SessionId::new(1),
            incarnation: 1,
            endpoint: format!("a.org:{port}").parse().unwrap(),
            verdict,
            began: Timestamp::from_millis(1),
            ended: Timestamp::from_millis(2),
            up: 1,
            down: 2,
            request: None,
        }
    }

    #[test]
    fn a_flood_of_connections_takes_no_memory_and_hides_nothing() {
        let reports = Reports::default();
        for _ in 0..10_000 {
            reports.add(seen(1, NetVerdict::Asked));
        }
        reports.add(seen(2, NetVerdict::Asked));
        reports.add(seen(1, NetVerdict::Refused(NetRefusal::Unlisted)));
        let taken = std::mem::take(&mut *reports.lock());
        assert_eq!((taken.len(), taken.iter().map(|seen| seen.up).sum::<u64>()), (WAITING_MAX + 2, 10_002));
    }
}
