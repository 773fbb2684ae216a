//! EDGE: the model gateway. Agents talk to models through it, and it adds the keys, so that no agent has one.
//!
//! Each incarnation has an address of its own and placeholders instead of keys. A request passes only if it came by the
//! address of the incarnation and has its placeholder. Both are void when the incarnation has ended.
//!
//! ```text
//!  agent ── loopback port ── runner ── Unix socket ── listener.rs ─> serve.rs ─> server of the model
//!  (an agent in the machine's network: ── loopback port ──┘)         │  judge.rs: may it ask that?
//!                                                                    │  body.rs: which model?
//!                                                                    │  limits.rs, turns.rs: may it ask that much?
//!                                                                    └─ answer.rs: scan.rs, meter.rs, events.rs
//! ```
//!
//! It has threads of its own, so that it neither waits for other work of the daemon nor delays it.

use std::collections::HashMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::agent_socket;
use crate::connections::ConnectionHandle;
use crate::model::agent::AgentSettings;
use crate::model::gateway::{Api, GatewayAddress, ModelAccess, ModelCall, Reach, TurnBegan, bound};
use crate::model::id::SessionId;
use crate::model::incarnation::IncarnationId;
use judge::BoundKey;
use limits::Limits;
use listener::AgentListener;
use opened::KnownSecrets;
use placeholder::Seed;
use run::{AgentRun, Shared};
use serve::{ModelProxy, Upstream, handle};

mod answer;
mod body;
mod events;
mod judge;
mod limits;
mod listener;
mod meter;
pub mod opened;
mod placeholder;
mod refusal;
mod run;
mod scan;
mod serve;
#[cfg(test)]
mod tests;
pub mod trial;
mod turns;

/// Resolves a reference to a secret. Blocks while a `cmd:` reference runs. The error names the reference.
pub type Resolve = Arc<dyn Fn(&str) -> Result<Vec<u8>, String> + Send + Sync>;

/// Receives finished calls. Called from threads of the gateway; must not block.
pub type Finished = Arc<dyn Fn(ModelCall) + Send + Sync>;

/// Threads that pass on requests and answers.
const THREADS: usize = 2;

/// Why the gateway, or the address of an incarnation, cannot be opened. Never contains the value of a secret.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key of the installation cannot be read or created.
    #[error("cannot use the key of the model gateway at {}: {source}", path.display())]
    Key { path: PathBuf, source: io::Error },
    /// There are no threads.
    #[error("cannot start the threads of the model gateway: {0}")]
    Threads(io::Error),
    /// It cannot listen.
    #[error("the model gateway cannot listen for the agent at {}: {source}", place.display())]
    Listen { place: PathBuf, source: io::Error },
    /// The address of a server is no address.
    #[error("{variable} is not usable: {why}; give one like https://api.example.org or http://localhost:4000")]
    Address {
        variable: &'static str,
        /// What is wrong.
        why: String,
    },
}

/// Configuration of the gateway.
pub struct Setup {
    /// Directory of the addresses. No agent can write there.
    pub directory: PathBuf,
    /// File with the key from which placeholders are derived. No agent can read it.
    pub key: PathBuf,
    /// Resolves references to keys.
    pub resolve: Resolve,
    /// Receives finished calls.
    pub finished: Finished,
}

/// The incarnation for which an address is opened.
#[derive(Debug, Clone, Copy)]
pub struct OpenedRun<'a> {
    pub session: SessionId,
    pub incarnation: u32,
    /// The agent's folder.
    pub agent: &'a str,
    /// The agent's settings.
    pub settings: &'a AgentSettings,
    /// How it can reach the gateway.
    pub reach: Reach,
}

/// The gateway of a daemon.
pub struct Gateway {
    runtime: Option<Runtime>,
    upstream: Arc<Upstream>,
    seed: Seed,
    resolve: Resolve,
    directory: PathBuf,
    open: Mutex<HashMap<IncarnationId, Open>>,
    /// Incarnations whose directories an earlier daemon left.
    left: Mutex<Vec<IncarnationId>>,
    /// By the agents' folders.
    limits: Mutex<HashMap<String, Arc<Limits>>>,
    /// Gets the values of keys, so that they are found in other requests.
    known: Arc<KnownSecrets>,
}

/// An open address. It is closed when this is dropped.
struct Open {
    _end: watch::Sender<bool>,
    access: ModelAccess,
    proxy: Arc<ModelProxy>,
}

impl Gateway {
    /// Starts the threads. Directories that an earlier daemon left stay, because its containers may see them.
    ///
    /// # Errors
    /// [`Error`] if there is no key, or there are no threads.
    pub fn start(setup: Setup) -> Result<Self, Error> {
        let Setup { directory, key, resolve, finished } = setup;
        let seed = Seed::of_installation(&key).map_err(|source| Error::Key { path: key, source })?;
        let listen = |source| Error::Listen { place: directory.clone(), source };
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(listen(error)),
            _ => {}
        }
        let directory = directory.canonicalize().map_err(listen)?;
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).thread_name("gateway").enable_all().build();
        let left = Mutex::new(agent_socket::incarnations_in(&directory));
        Ok(Self {
            runtime: Some(runtime.map_err(Error::Threads)?),
            upstream: Arc::new(Upstream::new(finished)),
            seed,
            resolve,
            directory,
            open: Mutex::default(),
            left,
            limits: Mutex::default(),
            known: Arc::default(),
        })
    }

    /// Adds the values of keys to these, so that they are found in other requests.
    #[must_use]
    pub fn telling(mut self, known: &Arc<KnownSecrets>) -> Self {
        self.known = Arc::clone(known);
        self
    }

    /// Opens the address of an incarnation, and returns what it gets instead of keys. `None` if the gateway has none of
    /// its keys. For an incarnation whose address is open, returns the same again.
    ///
    /// # Errors
    /// [`Error`] if it cannot listen, or the address of a server is wrong.
    pub fn open(&self, opening: &OpenedRun<'_>) -> Result<Option<ModelAccess>, Error> {
        let variables = bound(opening.settings);
        let Some(runtime) = self.runtime.as_ref().filter(|_| !variables.is_empty()) else { return Ok(None) };
        let id = IncarnationId::new(opening.session, opening.incarnation);
        let mut open = lock(&self.open);
        if let Some(known) = open.get(&id) {
            return Ok(Some(known.access.clone()));
        }
        let placeholder = |variable| self.seed.placeholder(opening.session, opening.incarnation, variable);
        let keys: Vec<BoundKey> =
            variables.iter().map(|(variable, _)| BoundKey { variable, placeholder: placeholder(variable) }).collect();
        let placeholders = keys.iter().map(|key| (key.variable.name, key.placeholder.clone())).collect();
        let apis = Api::ALL.into_iter().filter(|api| keys.iter().any(|key| key.variable.api == *api)).collect();
        let limits = Arc::clone(lock(&self.limits).entry(opening.agent.to_owned()).or_default());
        let shared = Shared { limits, resolve: Arc::clone(&self.resolve), known: Arc::clone(&self.known) };
        let run = AgentRun::new(opening, keys, shared)?;
        let values = run.values();
        let (end, ended) = watch::channel(false);
        let _within = runtime.enter();
        let (listener, address) = self.listen(id, opening.reach, &ended)?;
        let proxy = Arc::new(ModelProxy { run, upstream: Arc::clone(&self.upstream) });
        if let Some(listener) = listener {
            runtime.spawn(serve(listener, Arc::clone(&proxy), ended));
        }
        let access = ModelAccess { placeholders, apis, address, values };
        open.insert(id, Open { _end: end, access: access.clone(), proxy });
        Ok(Some(access))
    }

    fn listen(
        &self,
        run: IncarnationId,
        reach: Reach,
        ended: &watch::Receiver<bool>,
    ) -> Result<(Option<AgentListener>, GatewayAddress), Error> {
        match reach {
            Reach::Nowhere => Ok((None, GatewayAddress::None)),
            Reach::Port => {
                let opened = AgentListener::on_port(ended.clone());
                let (listener, port) = opened.map_err(|source| Error::Listen { place: "127.0.0.1".into(), source })?;
                Ok((Some(listener), GatewayAddress::Port(port)))
            }
            Reach::Socket { owner } => {
                let place = self.place(run);
                let listener = AgentListener::in_directory(&place, owner, ended.clone());
                let listener = listener.map_err(|source| Error::Listen { place: place.clone(), source })?;
                Ok((Some(listener), GatewayAddress::Socket(place)))
            }
        }
    }

    /// A turn began: its requests count from now on. Returns whether the incarnation's address is open.
    pub fn turn_began(&self, turn: &TurnBegan) -> bool {
        let open = lock(&self.open);
        let open = open.get(&IncarnationId::new(turn.session, turn.incarnation));
        open.inspect(|open| open.proxy.run.turns.begin(turn)).is_some()
    }

    /// Closes the address of an incarnation and cuts its connections. Its placeholders are void from now on.
    pub fn close(&self, session: SessionId, incarnation: u32) {
        let run = IncarnationId::new(session, incarnation);
        let closed = lock(&self.open).remove(&run);
        if closed.is_some_and(|closed| matches!(closed.access.address, GatewayAddress::Socket(_))) {
            listener::remove(&self.place(run));
        }
    }

    /// Removes the directories that an earlier daemon left for incarnations that are not live. Call it once, when all
    /// addresses of live incarnations are open.
    pub fn remove_left(&self, live: &[IncarnationId]) {
        let left = std::mem::take(&mut *lock(&self.left));
        let open = lock(&self.open);
        for run in left.into_iter().filter(|run| !live.contains(run) && !open.contains_key(run)) {
            listener::remove(&self.place(run));
        }
    }

    fn place(&self, run: IncarnationId) -> PathBuf {
        self.directory.join(run.to_string())
    }
}

/// Dropping the gateway cuts all connections. The directories stay for the next daemon.
impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Serves one incarnation until it has ended.
async fn serve(listener: AgentListener, proxy: Arc<ModelProxy>, ended: watch::Receiver<bool>) {
    let router = Router::new().fallback(handle).with_state(proxy);
    let service = router.into_make_service_with_connect_info::<ConnectionHandle>();
    tokio::select! {
        served = axum::serve(listener, service).into_future() => {
            if let Err(error) = served {
                tracing::warn!(%error, "the model gateway does not listen any more");
            }
        }
        () = listener::ended(ended) => {}
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
