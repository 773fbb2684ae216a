//! What the gate knows of one incarnation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::opened::Bound;
use super::{Hooks, Reach};
use crate::clock::Stopwatch;
use crate::connections::within_descriptors;
use crate::gateway::opened::KnownSecrets;
use crate::model::id::SessionId;
use crate::model::incarnation::IncarnationId;
use crate::model::network::{
    Endpoint, HostWanted, Judgement, NetRefusal, NetVerdict, NetworkPolicy, RuleOrigin, is_local, judge,
};

/// Connections of one incarnation, and those that may wait for one to end.
const CONNECTIONS_MAX: usize = 256;
const WAITING_MAX: usize = 16;
/// Connections of all incarnations.
const ALL_MAX: usize = 1_000;
/// A connection has two descriptors: one incarnation gets an eighth of those that are available, and all get half.
const PARTS_OF_ONE: u64 = 16;
const PARTS_OF_ALL: u64 = 4;
/// How long a connection waits for another one to end.
const SLOT_PATIENCE: Duration = Duration::from_secs(5);

/// The same question is reported again after this time.
const ASKED_AGAIN: Duration = Duration::from_secs(30);
/// Questions about different endpoints within that time.
const ASKED_MAX: usize = 64;

pub(super) struct EgressRun {
    pub(super) session: SessionId,
    pub(super) incarnation: u32,
    pub(super) policy: watch::Sender<Arc<NetworkPolicy>>,
    pub(super) hooks: Arc<Hooks>,
    pub(super) reach: Reach,
    /// Its bound secrets, if it has some.
    pub(super) bound: OnceLock<Bound>,
    /// Values that must not be in requests which can be read.
    pub(super) known: Arc<KnownSecrets>,
    /// Endpoints that were asked about.
    asked: Mutex<HashMap<Endpoint, Asked>>,
    /// Limits accepted connections.
    pub(super) accepted: Arc<Semaphore>,
    /// Limits connections that are served, here and in all.
    slots: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

struct Asked {
    since: Stopwatch,
    /// Why no one is asked.
    declined: Option<NetRefusal>,
}

/// Slots for all connections of the daemon's agents.
pub(super) fn all_slots() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(within_descriptors(ALL_MAX, PARTS_OF_ALL)))
}

/// Permits for one connection: of its run, and of all agents together.
pub(super) struct Permits(#[expect(dead_code, reason = "held, not read")] [OwnedSemaphorePermit; 2]);

/// Why a connection may be made, and whether it may lead into the local network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Allowed {
    pub(super) rule: RuleOrigin,
    pub(super) private: bool,
}

impl EgressRun {
    pub(super) fn new(
        run: IncarnationId,
        policy: NetworkPolicy,
        hooks: Arc<Hooks>,
        reach: Reach,
        all: Arc<Semaphore>,
        known: Arc<KnownSecrets>,
    ) -> Self {
        let slots = within_descriptors(CONNECTIONS_MAX, PARTS_OF_ONE);
        Self {
            session: run.session,
            incarnation: run.number,
            policy: watch::Sender::new(Arc::new(policy)),
            hooks,
            reach,
            bound: OnceLock::new(),
            known,
            asked: Mutex::default(),
            accepted: Arc::new(Semaphore::new(slots.saturating_add(WAITING_MAX))),
            slots: Arc::new(Semaphore::new(slots)),
            all,
        }
    }

    /// Waits a moment for a slot.
    pub(super) async fn slot(&self) -> Result<Permits, NetRefusal> {
        let acquire = |slots: &Arc<Semaphore>| tokio::time::timeout(SLOT_PATIENCE, Arc::clone(slots).acquire_owned());
        let (Ok(Ok(own)), Ok(Ok(all))) = (acquire(&self.slots).await, acquire(&self.all).await) else {
            return Err(NetRefusal::TooManyConnections);
        };
        Ok(Permits([own, all]))
    }

    /// Judges an endpoint, and waits for a person's answer if one has to be asked.
    pub(super) async fn judge(self: &Arc<Self>, to: &Endpoint) -> Result<Allowed, NetVerdict> {
        let mut policy = self.policy.subscribe();
        let first = self.judged(&policy.borrow_and_update(), to);
        if let Some(first) = first {
            return first;
        }
        self.ask(to).map_err(NetVerdict::Refused)?;
        let answered = async {
            loop {
                if policy.changed().await.is_err() {
                    return Err(NetVerdict::Asked);
                }
                let next = self.judged(&policy.borrow_and_update(), to);
                if let Some(next) = next {
                    return next;
                }
                self.declined(to).map_err(NetVerdict::Refused)?;
            }
        };
        tokio::time::timeout(self.reach.patience, answered).await.unwrap_or(Err(NetVerdict::Asked))
    }

    /// Waits until the policy forbids a connection.
    pub(super) async fn forbidden(&self, to: &Endpoint, private: bool) {
        let mut policy = self.policy.subscribe();
        loop {
            let now = self.judged(&policy.borrow_and_update(), to);
            if !matches!(now, Some(Ok(now)) if now.private || !private) {
                return;
            }
            if policy.changed().await.is_err() {
                return;
            }
        }
    }

    /// The judgement, or `None` if a person has to be asked. A host with a bound secret is allowed unless it is denied.
    fn judged(&self, policy: &NetworkPolicy, to: &Endpoint) -> Option<Result<Allowed, NetVerdict>> {
        let rule = self.bound.get().and_then(|bound| bound.rule(to));
        let judgement = match rule {
            Some(rule) => match judge(&NetworkPolicy { allow: vec![rule.clone()], ..policy.clone() }, to) {
                Judgement::Tunnel { private, .. } => Judgement::Tunnel { rule: RuleOrigin::Secret(rule), private },
                other => other,
            },
            None => judge(policy, to),
        };
        match judgement {
            Judgement::Tunnel { rule, private } => Some(Ok(Allowed { rule, private })),
            Judgement::Refuse(refusal) => Some(Err(NetVerdict::Refused(refusal))),
            Judgement::Ask => None,
        }
    }

    /// Reports that a person has to be asked, unless that was reported a moment ago.
    fn ask(self: &Arc<Self>, to: &Endpoint) -> Result<(), NetRefusal> {
        let mut asked = self.asked();
        asked.retain(|_, asked| asked.since.elapsed() < ASKED_AGAIN);
        if let Some(known) = asked.get(to) {
            return known.declined.clone().map_or(Ok(()), Err);
        }
        if asked.len() >= ASKED_MAX {
            return Err(NetRefusal::TooManyQuestions);
        }
        asked.insert(to.clone(), Asked { since: Stopwatch::start(), declined: None });
        drop(asked);
        let (session, incarnation) = (self.session, self.incarnation);
        let wanted = HostWanted { session, incarnation, endpoint: to.clone(), local: is_local(&to.host) };
        let (run, to, asking) = (Arc::clone(self), to.clone(), (self.hooks.ask)(wanted));
        tokio::spawn(async move {
            if let Err(why) = asking.await {
                if let Some(asked) = run.asked().get_mut(&to) {
                    asked.declined = Some(why);
                }
                // Waiting connections look again.
                run.policy.send_modify(|_| {});
            }
        });
        Ok(())
    }

    fn declined(&self, to: &Endpoint) -> Result<(), NetRefusal> {
        self.asked().get(to).and_then(|asked| asked.declined.clone()).map_or(Ok(()), Err)
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<Endpoint, Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
