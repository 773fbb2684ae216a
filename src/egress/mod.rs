//! EDGE: the one way out for agents with a network of their own. The runner hands connections over by name, and the gate
//! in the daemon judges each, looks the name up, connects, and copies.
//!
//! ```text
//!  agent ── loopback ── runner ── Unix socket ── serve.rs: request.rs, run.rs (judge, ask) ── address.rs ── server
//!                                                └─ relay.rs: copy.rs, hello.rs (TLS), plain.rs (HTTP)
//! ```
//!
//! An incarnation is known by its socket. A name is looked up only when it is allowed, once, and the connection is made
//! to an address that was checked. Like the model gateway it has threads of its own.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};

use crate::agent_socket;
use crate::gateway::opened::{Binding, Opener};
use crate::model::id::SessionId;
use crate::model::incarnation::IncarnationId;
use crate::model::network::{
    ConnectionSeen, HostWanted, NETWORK_FILES, NETWORK_SOCKET, NetRefusal, NetVerdict, NetworkAccess, NetworkPolicy,
};
pub use address::{Named, Placed, Reach, Routed};
use opened::Bound;
use run::EgressRun;

mod address;
mod answer;
mod copy;
mod hello;
mod leak;
mod opened;
mod plain;
mod relay;
mod request;
mod run;
mod serve;
#[cfg(test)]
mod tests;
pub mod trial;

/// Threads that copy.
const THREADS: usize = 2;
/// How long cut connections may take to end.
const CUT_PATIENCE: Duration = Duration::from_secs(2);
/// Pause after a connection could not be accepted.
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// Whether a person is asked; or why not.
pub type Asking = Pin<Box<dyn Future<Output = Result<(), NetRefusal>> + Send>>;

/// What the gate reports. Called from its threads; must not block.
pub struct Hooks {
    /// A person has to be asked. The connection waits some seconds for a new policy, unless no one is asked.
    pub ask: Box<dyn Fn(HostWanted) -> Asking + Send + Sync>,
    /// A connection has ended or was refused.
    pub seen: Box<dyn Fn(ConnectionSeen) + Send + Sync>,
}

/// Configuration of the gate.
pub struct Setup {
    /// Directory of the sockets. No agent can write there.
    pub directory: PathBuf,
    /// How it reaches the world.
    pub reach: Reach,
    /// What it reports.
    pub hooks: Hooks,
}

/// Why the gate, or the socket of an incarnation, cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There are no threads.
    #[error("cannot start the threads for agents' connections: {0}")]
    Threads(io::Error),
    /// It cannot listen.
    #[error("cannot listen for the connections of an agent at {}: {source}", place.display())]
    Listen { place: PathBuf, source: io::Error },
}

/// The way out of a daemon's agents.
pub struct Egress {
    runtime: Option<Runtime>,
    hooks: Arc<Hooks>,
    reach: Reach,
    directory: PathBuf,
    slots: Arc<Semaphore>,
    /// How many there are.
    slots_max: u32,
    open: Mutex<HashMap<IncarnationId, Open>>,
    /// Incarnations whose directories an earlier daemon left.
    left: Mutex<Vec<IncarnationId>>,
    opener: Option<Arc<Opener>>,
}

/// An open socket. It is closed, and its connections are cut, when this is dropped.
struct Open {
    end: watch::Sender<bool>,
    run: Arc<EgressRun>,
    access: NetworkAccess,
}

impl Egress {
    /// Starts the threads. Directories that an earlier daemon left stay, because its containers may see them.
    ///
    /// # Errors
    /// [`Error`] if the directory cannot be created, or there are no threads.
    pub fn start(setup: Setup) -> Result<Self, Error> {
        let Setup { directory, reach, hooks } = setup;
        let listen = |source| Error::Listen { place: directory.clone(), source };
        agent_socket::create(&directory).map_err(listen)?;
        let directory = directory.canonicalize().map_err(listen)?;
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).thread_name("egress").enable_all().build();
        let left = Mutex::new(agent_socket::incarnations_in(&directory));
        let slots = run::all_slots();
        Ok(Self {
            runtime: Some(runtime.map_err(Error::Threads)?),
            hooks: Arc::new(hooks),
            reach,
            directory,
            slots_max: u32::try_from(slots.available_permits()).unwrap_or(u32::MAX),
            slots,
            open: Mutex::default(),
            left,
            opener: None,
        })
    }

    /// Opens the way out of an incarnation with its first policy. For an incarnation that has one, the policy is set.
    /// `owner` is the user that it runs as, if that is not the daemon's.
    ///
    /// # Errors
    /// [`Error`] if it cannot listen.
    pub fn open(
        &self,
        session: SessionId,
        incarnation: u32,
        policy: NetworkPolicy,
        owner: Option<u32>,
    ) -> Result<NetworkAccess, Error> {
        let incarnation = IncarnationId::new(session, incarnation);
        let place = self.place(incarnation);
        let failed = |source| Error::Listen { place: place.clone(), source };
        let mut open = lock(&self.open);
        if let Some(known) = open.get(&incarnation) {
            known.run.policy.send_replace(Arc::new(policy));
            return Ok(known.access.clone());
        }
        let Some(runtime) = &self.runtime else { return Err(failed(io::ErrorKind::NotConnected.into())) };
        let listener = agent_socket::listen(&place, NETWORK_SOCKET, owner).map_err(failed)?;
        NETWORK_FILES.iter().try_for_each(|(name, text)| write(&place.join(name), text)).map_err(failed)?;
        let access = NetworkAccess { directory: place.clone(), ports: policy.ports(), secrets: None };
        let _within = runtime.enter();
        let listener = UnixListener::from_std(listener).map_err(failed)?;
        let (hooks, slots) = (Arc::clone(&self.hooks), Arc::clone(&self.slots));
        let known = self.opener.as_ref().map(|opener| Arc::clone(opener.known())).unwrap_or_default();
        let run = Arc::new(EgressRun::new(incarnation, policy, hooks, self.reach.clone(), slots, known));
        let (end, ended) = watch::channel(false);
        runtime.spawn(accept(listener, Arc::clone(&run), ended));
        open.insert(incarnation, Open { end, run, access: access.clone() });
        Ok(access)
    }

    /// Sets what opens connections to hosts with bound secrets.
    #[must_use]
    pub fn with_secrets(mut self, opener: Arc<Opener>) -> Self {
        self.opener = Some(opener);
        self
    }

    /// Binds secrets for an incarnation that has a way out. Call it before the incarnation starts. Blocks while `cmd:`
    /// references run.
    ///
    /// # Errors
    /// Why a value cannot be read, with the secret's name.
    pub fn bind(&self, binding: &Binding<'_>) -> Result<NetworkAccess, String> {
        let opener = self.opener.as_ref().ok_or("bound secrets are not available")?;
        let (bound, secrets) = opener.bind(binding)?;
        let mut open = lock(&self.open);
        let known = open
            .get_mut(&IncarnationId::new(binding.session, binding.incarnation))
            .ok_or("the agent has no way out")?;
        known.access.ports.extend(bound.rules().iter().filter_map(|rule| rule.port));
        known.access.ports.sort_unstable();
        known.access.ports.dedup();
        known.access.secrets = Some(secrets);
        // A second binding would be the same.
        drop(known.run.bound.set(Bound { opener: Arc::clone(opener), run: bound }));
        Ok(known.access.clone())
    }

    /// The values of a session's bound secrets, which its agent does not have.
    #[must_use]
    pub fn values(&self, session: SessionId) -> Vec<(String, Vec<u8>)> {
        let open = lock(&self.open);
        let of_session = open.iter().filter(|(run, _)| run.session == session);
        of_session
            .filter_map(|(_, open)| open.access.secrets.as_ref())
            .flat_map(|secrets| secrets.values.all())
            .collect()
    }

    /// Sets the policy of an incarnation. Waiting connections are judged again, and running ones that it forbids are
    /// closed. Returns whether the incarnation has a way out.
    pub fn set_policy(&self, session: SessionId, incarnation: u32, policy: NetworkPolicy) -> bool {
        let open = lock(&self.open);
        let open = open.get(&IncarnationId::new(session, incarnation));
        open.inspect(|open| drop(open.run.policy.send_replace(Arc::new(policy)))).is_some()
    }

    /// Closes the way out of an incarnation and cuts its connections.
    pub fn close(&self, session: SessionId, incarnation: u32) {
        let run = IncarnationId::new(session, incarnation);
        if lock(&self.open).remove(&run).is_some() {
            self.remove(run);
        }
    }

    /// Cuts all connections, and waits until each was reported. No more are served. Call it before the daemon ends.
    pub fn cut(&self) {
        lock(&self.open).values().for_each(|open| open.end.send_modify(|end| *end = true));
        let Some(runtime) = &self.runtime else { return };
        let (slots, (cut, all_cut)) = (Arc::clone(&self.slots), std::sync::mpsc::channel());
        let all = self.slots_max;
        runtime.spawn(async move {
            if slots.acquire_many(all).await.is_ok() {
                // No one waits any more if this took too long.
                cut.send(()).unwrap_or_default();
            }
        });
        if all_cut.recv_timeout(CUT_PATIENCE).is_err() {
            tracing::warn!("connections of agents did not end in time; some are not recorded");
        }
    }

    /// Removes the directories that an earlier daemon left for incarnations that are not live. Call it once, when the
    /// ways of all live incarnations are open.
    pub fn remove_left(&self, live: &[IncarnationId]) {
        let left = std::mem::take(&mut *lock(&self.left));
        let open = lock(&self.open);
        left.into_iter().filter(|run| !live.contains(run) && !open.contains_key(run)).for_each(|run| self.remove(run));
    }

    fn place(&self, run: IncarnationId) -> PathBuf {
        self.directory.join(run.to_string())
    }

    fn remove(&self, run: IncarnationId) {
        let files: Vec<&str> = NETWORK_FILES.iter().map(|(name, _)| *name).chain([NETWORK_SOCKET]).collect();
        agent_socket::remove(&self.place(run), &files);
    }
}

/// Dropping the gate cuts all connections. The directories stay for the next daemon.
impl Drop for Egress {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Serves an incarnation until it has ended.
async fn accept(listener: UnixListener, run: Arc<EgressRun>, ended: watch::Receiver<bool>) {
    loop {
        let Ok(permit) = Arc::clone(&run.accepted).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = over(ended.clone()) => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let (run, ended) = (Arc::clone(&run), ended.clone());
                tokio::spawn(async move {
                    let _permit = permit;
                    tokio::select! {
                        () = attend(stream, run) => {}
                        () = over(ended) => {}
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection of an agent");
                tokio::time::sleep(BETWEEN_TRIES).await;
            }
        }
    }
}

/// Serves a connection as soon as there is a slot for it.
async fn attend(stream: tokio::net::UnixStream, run: Arc<EgressRun>) {
    match run.slot().await {
        Ok(_slot) => serve::serve(stream, run).await,
        Err(refusal) => serve::refuse(stream, &run, NetVerdict::Refused(refusal)).await,
    }
}

/// Waits until the incarnation has ended.
async fn over(mut ended: watch::Receiver<bool>) {
    // A sender that is gone has ended, too.
    drop(ended.wait_for(|ended| *ended).await);
}

/// Writes a file that the agent's user may read.
fn write(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write as _;
    agent_socket::remove_file(path)?;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
