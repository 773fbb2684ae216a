//! The Podman runtime: every incarnation is a container, reached over Podman's REST socket.
//!
//! What must hold: an incarnation is reported gone when its container does not run any more, and not before; whatever got
//! no answer is found out first. Containers outlive the daemon, so the next one finds them by their labels. The values of
//! secrets are in the container's environment and nowhere else; whoever may use Podman's socket can read them there.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::process::Lookup;
use super::{Error, Events, Runtime, Spec};
use crate::model::id::SessionId;
use api::{Api, Found};
pub use error::Unusable;
use facts::Facts;
use seccomp::Filter;
use table::{Order, Table};

mod api;
mod body;
mod error;
mod facts;
mod place;
mod seccomp;
mod session;
mod socket;
mod table;
#[cfg(test)]
mod tests;
mod watch;

/// How long everything may take to end in order when the daemon stops.
const IN_ORDER: Duration = Duration::from_secs(7);
/// How long a Podman that answers may take to end the rest by force: a busy machine takes its time, and what is left runs
/// without anybody.
const BY_FORCE: Duration = Duration::from_secs(15);
/// How long it may take to notice that nothing is left.
const AFTERWARDS: Duration = Duration::from_secs(2);
/// Pause between two attempts to end things by force.
const FORCE_AGAIN: Duration = Duration::from_millis(200);
/// How long Podman may take to say what runs when the daemon stops.
const LAST_LISTING: Duration = Duration::from_secs(2);
/// The same when it starts.
const LISTING: Duration = Duration::from_secs(10);

/// What the runtime needs to know.
#[derive(Clone)]
pub struct Setup {
    /// Random name of the installation: letters and digits. A label of what it starts.
    pub install: String,
    /// Finds the variables that references name, and those that say where Podman listens.
    pub lookup: Lookup,
    /// Where the filter of system calls is written for Podman: where no agent can change it.
    pub filter: PathBuf,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("install", &self.install).finish_non_exhaustive()
    }
}

/// The Podman that would be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usable {
    /// Version of Podman.
    pub version: String,
    /// Whether it runs without the rights of root.
    pub rootless: bool,
    /// Where it listens.
    pub socket: PathBuf,
    /// In what containers cannot be limited here, of `memory`, `cpu` and `pids`.
    pub unlimited: Vec<&'static str>,
    /// Why agents can make user namespaces in their containers, if they can.
    pub unfiltered: Option<String>,
}

impl std::fmt::Display for Usable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rights = if self.rootless { "rootless" } else { "rootful" };
        write!(f, "podman {}, {rights}, unix://{}", self.version, self.socket.display())
    }
}

/// Whether Podman can be used, and what it is. Waits for its answer, some seconds at most.
///
/// # Errors
/// [`Unusable`], in words for people.
pub fn probe(lookup: &Lookup) -> Result<Usable, Unusable> {
    let threads = threads()?;
    let probed = reach(&threads, lookup).map(|(api, facts)| usable(&api, &facts));
    threads.shutdown_background();
    probed
}

/// Runs agents in containers.
pub struct PodmanRuntime {
    shared: Arc<Shared>,
    threads: Option<tokio::runtime::Runtime>,
    about: String,
}

/// What the runtime's tasks share.
struct Shared {
    setup: Setup,
    api: Api,
    facts: Facts,
    /// What system calls agents may make; none is as Podman has it.
    filter: Option<Filter>,
    /// Who the daemon is.
    user: (u32, u32),
    table: Table,
}

impl PodmanRuntime {
    /// Finds Podman and listens to it. What runs is not touched.
    ///
    /// # Errors
    /// When Podman cannot be used, or there are no threads.
    pub fn start(setup: Setup, events: Events) -> Result<Self, Error> {
        let threads = threads()?;
        let (api, facts) = reach(&threads, &setup.lookup)?;
        let usable = usable(&api, &facts);
        if !usable.unlimited.is_empty() {
            let missing = usable.unlimited.join(", ");
            tracing::warn!(missing, "containers cannot be limited here; agents run without these limits");
        }
        if let Some(why) = &usable.unfiltered {
            tracing::warn!(why, "agents can make user namespaces in their containers");
        }
        let (table, mail) = Table::new();
        let listener = std::thread::Builder::new().name("podman events".to_owned());
        listener.spawn(move || mail.deliver(&events)).map_err(|source| Error::Thread { source })?;
        let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let filter = Filter::of(facts.profile.as_deref()).ok();
        let shared = Arc::new(Shared { setup, api, facts, filter, user, table });
        threads.spawn(watch::events(Arc::clone(&shared)));
        threads.spawn(watch::lists(Arc::clone(&shared)));
        Ok(Self { shared, threads: Some(threads), about: usable.to_string() })
    }

    fn order(&self, session: SessionId, order: Order) {
        if let (Some(desk), Some(threads)) = (self.shared.table.give(session, order), &self.threads) {
            threads.spawn(session::attend(Arc::clone(&self.shared), desk));
        }
    }

    /// Runs a task to its end, also where the caller is a task of another runtime.
    fn wait<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let (done, heard) = std::sync::mpsc::sync_channel(1);
        self.threads.as_ref()?.spawn(async move {
            // Whoever waits is there until it hears.
            drop(done.send(task.await));
        });
        heard.recv().ok()
    }

    /// All containers of the installation, if Podman says so in time.
    fn listed(&self, patience: Duration) -> Option<Vec<Found>> {
        let shared = Arc::clone(&self.shared);
        let listed = self.wait(async move {
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

    fn inquire(&self, session: SessionId, incarnation: u32) {
        self.order(session, Order::Inquire(incarnation));
    }

    fn reconcile(&self, live: &dyn Fn() -> Vec<(SessionId, u32)>) {
        let Some(found) = self.listed(LISTING) else {
            tracing::warn!("what an earlier daemon left cannot be listed; it is removed when its sessions start again");
            return;
        };
        let live = live();
        let stale = |found: &Found| match (found.session, found.incarnation) {
            (Some(session), Some(incarnation)) => !live.contains(&(session, incarnation)),
            _ => true,
        };
        let stale: Vec<String> = found.into_iter().filter(stale).map(|found| found.id).collect();
        if stale.is_empty() {
            return;
        }
        tracing::info!(count = stale.len(), "containers that nobody needs are removed");
        let shared = Arc::clone(&self.shared);
        self.wait(async move {
            for id in stale {
                if let Err(error) = shared.api.remove(&id).await {
                    tracing::warn!(id, %error, "a container that nobody needs cannot be removed");
                }
            }
        });
    }

    fn compare_images(&self) {
        let shared = Arc::clone(&self.shared);
        self.wait(async move {
            // Without an answer nothing is known; the next look will tell.
            let Ok(found) = shared.api.list(&shared.setup.install).await else { return };
            let Ok(images) = shared.api.images().await else { return };
            for found in found.into_iter().filter(|found| found.alive) {
                let wanted = |image: &&api::Image| found.image.as_ref().is_some_and(|name| image.names.contains(name));
                let now = images.iter().find(wanted).map(|image| &image.id);
                let outdated = now.zip(found.image_id.as_ref()).is_some_and(|(now, made_of)| now != made_of);
                if let (true, Some(session), Some(incarnation)) = (outdated, found.session, found.incarnation) {
                    shared.table.outdated(session, incarnation);
                }
            }
        });
    }

    fn shut_down(&self) {
        let known = self.shared.table.close();
        for session in &known {
            self.order(*session, Order::End);
        }
        let listed = self.listed(LAST_LISTING).unwrap_or_default();
        let others: BTreeSet<SessionId> = listed.into_iter().filter_map(|found| found.session).collect();
        for session in others.difference(&known) {
            self.order(*session, Order::End);
        }
        if self.shared.table.wait_empty(IN_ORDER) {
            return;
        }
        tracing::warn!("some agents do not end in order; they are ended by force");
        self.force();
        if !self.shared.table.wait_empty(AFTERWARDS) {
            tracing::warn!("some agents are not gone yet; the next start of Hearth ends them");
        }
    }
}

impl PodmanRuntime {
    /// Removes every container of the installation, for as long as Podman answers in time.
    fn force(&self) {
        let shared = Arc::clone(&self.shared);
        self.wait(async move {
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

/// What runs goes on: the next daemon finds it.
impl Drop for PodmanRuntime {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

fn threads() -> Result<tokio::runtime::Runtime, Unusable> {
    let threads =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_name("podman").enable_all().build();
    threads.map_err(|error| Unusable::Client { reason: error.to_string() })
}

/// Asks Podman what it is, on a thread that waits for it: the caller may be a task.
fn reach(threads: &tokio::runtime::Runtime, lookup: &Lookup) -> Result<(Api, Facts), Unusable> {
    let socket = socket::find(lookup)?;
    let api = Api::new(&socket)?;
    let (done, heard) = std::sync::mpsc::sync_channel(1);
    threads.spawn(async move {
        let facts = api.facts().await;
        // Whoever waits is there until it hears.
        drop(done.send((api, facts)));
    });
    let silent = |reason: String| Unusable::Silent { socket: socket.clone(), reason };
    let (api, facts) = heard.recv().map_err(|error| silent(error.to_string()))?;
    let facts = facts.map_err(|fault| silent(fault.to_string()))?;
    if facts.is_new_enough() { Ok((api, facts)) } else { Err(Unusable::TooOld { version: facts.version }) }
}

fn usable(api: &Api, facts: &Facts) -> Usable {
    let missing = |name: &&str| !facts.limits(name);
    let unlimited = ["memory", "cpu", "pids"].into_iter().filter(missing).collect();
    Usable {
        version: facts.version.clone(),
        rootless: facts.rootless,
        socket: api.socket.clone(),
        unlimited,
        unfiltered: Filter::of(facts.profile.as_deref()).err().map(|why| why.to_string()),
    }
}

pub mod build;
