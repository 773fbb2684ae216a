//! The Podman runtime: every incarnation is a container, reached over Podman's REST socket.
//!
//! Invariants: an incarnation is reported gone when its container no longer runs, and not before. After a call without
//! an answer, the runtime checks the actual state first. Containers outlive the daemon, and the next daemon finds them
//! by their labels. Podman never sees the value of a secret: the runner gets secrets through a pipe (`handover.rs`).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use super::owner::AGENT;
use super::process::Lookup;
use super::{Error, Events, Runtime, Spec};
use crate::model::entity::{AgentSettings, ProviderKind};
use crate::model::gateway::Reach;
use crate::model::id::SessionId;
use crate::model::incarnation::IncarnationId;
use api::{Api, Container};
pub use error::Unusable;
pub use info::Info;
use info::PodmanInfo;
use registry::{Order, Sessions};
use seccomp::Filter;
pub(in crate::runtime) use spec::GATE;
use threads::Threads;

mod api;
pub mod build;
mod client;
mod error;
mod handover;
mod info;
mod mounts;
mod registry;
mod retry;
mod seccomp;
mod session;
mod socket;
mod spec;
#[cfg(test)]
mod tests;
mod threads;
mod watch;

/// Time for a graceful shutdown of all containers when the daemon stops.
const IN_ORDER: Duration = Duration::from_secs(spec::GRACE + 3);
/// Time to kill the rest if Podman answers. A busy machine is slow, and containers that survive run unattended.
const BY_FORCE: Duration = Duration::from_secs(15);
/// Time to notice that nothing is left.
const AFTERWARDS: Duration = Duration::from_secs(2);
/// Pause between two attempts to kill containers.
const FORCE_AGAIN: Duration = Duration::from_millis(200);
/// Time for Podman to list containers when the daemon stops.
const LAST_LISTING: Duration = Duration::from_secs(2);
/// Time for Podman to list containers when the daemon starts.
const LISTING: Duration = Duration::from_secs(10);

/// Configuration of the runtime.
#[derive(Clone)]
pub struct Setup {
    /// Random name of the installation: letters and digits. A label of every container.
    pub install: String,
    /// Looks up the variables that references name, and those that say where Podman listens.
    pub lookup: Lookup,
    /// Where the seccomp profile is written for Podman. No agent can write there.
    pub filter: PathBuf,
    /// Directory of the pipes for secrets. No agent can write there.
    pub secrets: PathBuf,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("install", &self.install).finish_non_exhaustive()
    }
}

/// Finds Podman and describes it, or says why it cannot be used. Waits some seconds at most for its answer.
///
/// # Errors
/// [`Unusable`], worded for people.
pub fn probe(lookup: &Lookup) -> Result<Info, Unusable> {
    Ok(reach(&Threads::start()?, lookup)?.about)
}

/// Runs agents in containers. They keep running when it is dropped: the next daemon adopts them.
pub struct PodmanRuntime {
    shared: Arc<Shared>,
    threads: Threads,
    about: String,
}

/// What the runtime's tasks share.
struct Shared {
    setup: Setup,
    api: Api,
    info: PodmanInfo,
    /// The seccomp profile of agents; `None` means Podman's own.
    filter: Option<Filter>,
    /// User and group of the daemon.
    user: (u32, u32),
    sessions: Sessions,
}

impl PodmanRuntime {
    /// Finds Podman and subscribes to its events. Running containers are not touched.
    ///
    /// # Errors
    /// If Podman cannot be used, or there are no threads.
    pub fn start(setup: Setup, events: Events) -> Result<Self, Error> {
        let threads = Threads::start()?;
        let Reached { api, info, about } = reach(&threads, &setup.lookup)?;
        if !about.unlimited.is_empty() {
            let missing = about.unlimited.join(", ");
            tracing::warn!(missing, "containers cannot be limited here; agents run without these limits");
        }
        if let Some(why) = &about.unfiltered {
            tracing::warn!(why, "agents can make user namespaces in their containers");
        }
        let (sessions, queue) = Sessions::new();
        let listener = std::thread::Builder::new().name("podman events".to_owned());
        listener.spawn(move || queue.deliver(&events)).map_err(|source| Error::Thread { source })?;
        let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let filter = Filter::of(info.profile.as_deref()).ok();
        let shared = Arc::new(Shared { setup, api, info, filter, user, sessions });
        threads.spawn(watch::events(Arc::clone(&shared)));
        threads.spawn(watch::lists(Arc::clone(&shared)));
        Ok(Self { shared, threads, about: about.to_string() })
    }

    fn order(&self, session: SessionId, order: Order) {
        if let Some(orders) = self.shared.sessions.give(session, order) {
            self.threads.spawn(session::attend(Arc::clone(&self.shared), orders));
        }
    }

    /// All containers of the installation, or `None` if Podman does not answer in time.
    fn listed(&self, patience: Duration) -> Option<Vec<Container>> {
        let shared = Arc::clone(&self.shared);
        let listed = self.threads.wait(async move {
            let asked = async {
                loop {
                    match shared.api.list(&shared.setup.install).await {
                        Ok(found) => return found,
                        Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                    }
                }
            };
            tokio::time::timeout(patience, asked).await.ok()
        });
        listed.flatten()
    }
}

impl Runtime for PodmanRuntime {
    fn name(&self) -> &'static str {
        "podman"
    }

    fn reach(&self, _settings: &AgentSettings, _provider: ProviderKind) -> Reach {
        let gives_away = self.shared.user.0 == 0 && !self.shared.info.rootless;
        Reach::Socket { owner: gives_away.then_some(AGENT) }
    }

    fn builds_images(&self) -> bool {
        true
    }

    fn about(&self) -> String {
        self.about.clone()
    }

    fn ensure(&self, spec: Spec) {
        self.order(spec.session, Order::Ensure(Box::new(spec)));
    }

    fn kill(&self, session: SessionId, incarnation: u32) {
        self.order(session, Order::Kill(incarnation));
    }

    fn kill_now(&self, session: SessionId, incarnation: u32) {
        self.order(session, Order::KillNow(incarnation));
    }

    fn inquire(&self, session: SessionId, incarnation: u32) {
        self.order(session, Order::Inquire(incarnation));
    }

    fn reconcile(&self, live: &dyn Fn() -> Vec<IncarnationId>) {
        let pipes = handover::all(&self.shared.setup.secrets);
        let Some(found) = self.listed(LISTING) else {
            tracing::warn!(
                "cannot list the containers of an earlier daemon; each is removed when its session starts again"
            );
            return;
        };
        let live = live();
        for start in
            pipes.into_iter().filter(|start| !live.contains(&IncarnationId::new(start.session, start.incarnation)))
        {
            handover::clear(&self.shared.setup.secrets, start);
        }
        let stale = |found: &Container| match (found.session, found.incarnation) {
            (Some(session), Some(incarnation)) => !live.contains(&IncarnationId::new(session, incarnation)),
            _ => true,
        };
        let stale: Vec<String> = found.into_iter().filter(stale).map(|found| found.id).collect();
        if stale.is_empty() {
            return;
        }
        tracing::info!(count = stale.len(), "removing unused containers");
        let shared = Arc::clone(&self.shared);
        self.threads.wait(async move {
            for id in stale {
                if let Err(error) = shared.api.remove(&id).await {
                    tracing::warn!(id, %error, "cannot remove an unused container");
                }
            }
        });
    }

    fn compare_images(&self) {
        let shared = Arc::clone(&self.shared);
        self.threads.wait(async move {
            // Without an answer nothing is known. The next check decides.
            let Ok(found) = shared.api.list(&shared.setup.install).await else { return };
            let Ok(images) = shared.api.images(&json!({})).await else { return };
            for found in found.into_iter().filter(|found| found.alive) {
                let wanted =
                    |image: &&build::Image| found.image.as_ref().is_some_and(|name| image.names.contains(name));
                let now = images.iter().find(wanted).map(|image| &image.id);
                let outdated = now.zip(found.image_id.as_ref()).is_some_and(|(now, made_of)| now != made_of);
                if let (true, Some(session), Some(incarnation)) = (outdated, found.session, found.incarnation) {
                    shared.sessions.outdated(session, incarnation);
                }
            }
        });
    }

    fn shut_down(&self) {
        let known = self.shared.sessions.close();
        for session in &known {
            self.order(*session, Order::End);
        }
        let listed = self.listed(LAST_LISTING).unwrap_or_default();
        let others: BTreeSet<SessionId> = listed.into_iter().filter_map(|found| found.session).collect();
        for session in others.difference(&known) {
            self.order(*session, Order::End);
        }
        if self.shared.sessions.wait_empty(IN_ORDER) {
            return;
        }
        tracing::warn!("some agents do not stop; killing them");
        self.force();
        if !self.shared.sessions.wait_empty(AFTERWARDS) {
            tracing::warn!("some agents are still running; the next start of Hearth ends them");
        }
    }
}

impl PodmanRuntime {
    /// Removes every container of the installation, as long as Podman answers in time.
    fn force(&self) {
        let shared = Arc::clone(&self.shared);
        self.threads.wait(async move {
            let ended = async {
                while let Ok(left) = shared.api.list(&shared.setup.install).await
                    && !left.is_empty()
                {
                    let mut removals = JoinSet::new();
                    for found in left {
                        let shared = Arc::clone(&shared);
                        removals.spawn(async move { shared.api.remove(&found.id).await.is_ok() });
                    }
                    if removals.join_all().await.contains(&false) {
                        tokio::time::sleep(FORCE_AGAIN).await;
                    }
                }
            };
            tokio::time::timeout(BY_FORCE, ended).await
        });
    }
}

/// A Podman that can be used.
struct Reached {
    api: Api,
    info: PodmanInfo,
    about: Info,
}

/// Asks Podman for its info.
fn reach(threads: &Threads, lookup: &Lookup) -> Result<Reached, Unusable> {
    let socket = socket::find(lookup)?;
    let api = Api::new(&socket)?;
    let asked = threads.wait(async move {
        let info = api.info().await;
        (api, info)
    });
    let silent = |reason: String| Unusable::Silent { socket: socket.clone(), reason };
    let (api, info) = asked.ok_or_else(|| silent("its client failed".to_owned()))?;
    let info = info.map_err(|fault| silent(fault.to_string()))?;
    let about = Info::of(&socket, &info)?;
    Ok(Reached { api, info, about })
}
