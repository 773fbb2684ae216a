//! The process runtime: agents are children of the daemon. Hearth needs nothing else installed for it.
//!
//! Invariant: an incarnation is reported gone when its process namespace (or, without one, its process group) is gone
//! and no process has the session's lock file open, and not before. A runner inherits the life pipe (a byte asks it to
//! end, the end of the pipe means that the daemon is gone), a mark of the lock where it has no mount view (by which the
//! next daemon finds survivors), and of the daemon's environment only `PATH`.
//!
//! `sandbox.rs` finds out how agents can be confined here; `confine.rs` and `jail.rs` make the rules for one agent.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(in crate::runtime) use agent_runner::END_MAX;

use super::{Error, Events, Runtime, Spec, directory};
use crate::model::entity::{AgentSettings, Hold, ProviderKind};
use crate::model::gateway::Reach;
use crate::model::id::SessionId;
use crate::model::incarnation::IncarnationId;
use registry::{Incarnations, Kill};

pub mod bridge;
mod child;
mod confine;
mod environment;
pub mod handshake;
pub mod isolation_check;
mod jail;
mod lock;
mod lock_owners;
mod prepare;
mod programs;
mod registry;
mod run;
mod sandbox;
mod secret;
mod spawn;
mod stderr;
#[cfg(test)]
mod tests;
mod tool;
mod wait;

pub use jail::Jail;
pub use sandbox::{Lacking, Sandbox};
pub(in crate::runtime) use secret::resolve;
pub use secret::{Lookup, SecretError};
pub use tool::{ToolError, ToolRun, run_tool};

/// Resolves a reference for a part of the daemon other than an agent. Blocks while a `cmd:` reference runs, until
/// `stopped` returns true.
///
/// # Errors
/// [`SecretError`], which names the reference and never a value.
pub fn resolve_reference(
    reference: &str,
    lookup: &Lookup,
    stopped: &dyn Fn() -> bool,
) -> Result<OsString, SecretError> {
    secret::resolve(reference, lookup, stopped)
}

/// How long a run may take to end for a person who waits.
const MOMENT: Duration = Duration::from_millis(700);
/// Time for everything to end when the daemon stops: some agents may have to be killed.
const SHUT_DOWN: Duration = END_MAX.saturating_add(Duration::from_secs(2));

/// Configuration of the runtime.
#[derive(Clone)]
pub struct Setup {
    /// The runner's program: this executable.
    pub program: PathBuf,
    /// Arguments that make it act as the runner.
    pub arguments: Vec<OsString>,
    /// `PATH` of the agents.
    pub path: OsString,
    /// Directory of the lock files; made when missing. One daemon at a time may use it.
    pub locks: PathBuf,
    /// Looks up the variables that references name.
    pub lookup: Lookup,
    /// How agents are confined here, once it was asked for. Clones share it.
    pub sandbox: Arc<OnceLock<Sandbox>>,
    /// Paths that no rule may expose to a confined agent by accident: the data directory first, then the users' homes.
    pub guarded: Vec<PathBuf>,
    /// How long a runner may take to end when asked.
    pub grace: Duration,
    /// How long to fight remains of an earlier incarnation before a start fails.
    pub patience: Duration,
}

impl Setup {
    /// The runner is `program agent`. Remains of an earlier incarnation get ten seconds to end.
    pub fn new(program: PathBuf, path: OsString, locks: PathBuf, lookup: Lookup) -> Self {
        let (grace, patience) = (END_MAX, Duration::from_secs(10));
        let sandbox = Arc::default();
        let (arguments, guarded) = (vec!["agent".into()], Vec::new());
        Self { program, arguments, path, locks, lookup, sandbox, guarded, grace, patience }
    }

    /// Sets the paths to guard. Comes before the first question for the sandbox.
    #[must_use]
    pub fn guarding(self, guarded: Vec<PathBuf>) -> Self {
        Self { guarded, ..self }
    }

    /// How agents can be confined on this machine. The first call probes it, which takes some milliseconds.
    #[must_use]
    pub fn sandbox(&self) -> &Sandbox {
        self.sandbox.get_or_init(|| Sandbox::find(&self.path, &self.guarded))
    }
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("program", &self.program).field("locks", &self.locks).finish_non_exhaustive()
    }
}

/// Runs agents as child processes.
pub struct ProcessRuntime {
    shared: Arc<Shared>,
}

/// What the runtime's threads share.
struct Shared {
    setup: Setup,
    table: Incarnations,
}

impl Shared {
    /// Asks a running incarnation to end, and makes sure that it does. Returns whether the runtime does not know it.
    fn kill(self: &Arc<Self>, run: IncarnationId, grace: Duration) -> bool {
        match self.table.kill(run) {
            Kill::Nothing => return false,
            Kill::Clear => return true,
            Kill::Hurry => {}
        }
        let shared = Arc::clone(self);
        let hurry = move || shared.table.hurry(run, grace);
        if let Err(error) = spawn_thread("end", run, hurry) {
            tracing::warn!(session = %run.session, %error, "an agent gets no time to stop");
            self.table.hurry(run, Duration::ZERO);
        }
        false
    }
}

impl ProcessRuntime {
    /// Creates the lock directory and ends what an earlier daemon left behind. The caller must hold the daemon's own
    /// lock.
    ///
    /// # Errors
    /// If the directory cannot be created or read, or there are no threads.
    pub fn start(mut setup: Setup, events: Events) -> Result<Self, Error> {
        directory::make(&setup.locks)?;
        let failed = |path: &PathBuf, source| Error::Lock { path: path.clone(), source };
        setup.locks = setup.locks.canonicalize().map_err(|source| failed(&setup.locks, source))?;
        let held = lock::clear_all(&setup.locks, setup.patience).map_err(|source| failed(&setup.locks, source))?;
        if held > 0 {
            tracing::warn!(held, "processes of an earlier daemon are still there");
        }
        let (table, mail) = Incarnations::new();
        let listener = std::thread::Builder::new().name("process events".to_owned());
        listener.spawn(move || mail.deliver(&events)).map_err(|source| Error::Thread { source })?;
        let shared = Arc::new(Shared { setup, table });
        let probed = Arc::clone(&shared);
        // The daemon's socket does not wait for it, only the first agent.
        let prober = std::thread::Builder::new().name("sandbox".to_owned());
        prober.spawn(move || _ = probed.setup.sandbox()).map_err(|source| Error::Thread { source })?;
        Ok(Self { shared })
    }

    /// A provider that acts on its own may run unconfined only with the operator's permission.
    fn check_confinement(&self, spec: &Spec) -> Result<(), Error> {
        let sandbox = self.shared.setup.sandbox();
        let hold = spec.settings.hold(spec.provider, sandbox.confines());
        let Sandbox::Missing { why, root, .. } = sandbox else { return Ok(()) };
        if hold != Hold::NeedsUnconfined && !(*root && hold == Hold::Harmless) {
            return Ok(());
        }
        let provider = spec.provider.as_str();
        let folder = spec.group_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Err(Error::Unconfined { folder, provider, why: why.clone() })
    }

    /// An agent whose connections are judged starts only where it has no other way out. The provider `echo` connects to
    /// nothing.
    fn check_network(&self, spec: &Spec) -> Result<(), Error> {
        let settings = &spec.settings;
        let confined = settings.hold(spec.provider, self.shared.setup.sandbox().confines()) == Hold::Confined;
        if !settings.network.has_rules() || spec.provider == ProviderKind::Echo {
            return Ok(());
        }
        let (why, advice) = match self.shared.setup.sandbox().lacks_networks() {
            Some(lack) => lack,
            None if confined && spec.network_access.is_some() => return Ok(()),
            None if confined => ("it has no way out".to_owned(), "restart the daemon".to_owned()),
            None => ("it runs unconfined".to_owned(), "remove `unconfined = true`".to_owned()),
        };
        let folder = spec.group_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Err(Error::OpenNetwork { folder, network: settings.network.as_str(), why, advice })
    }

    fn end(&self, run: IncarnationId, grace: Duration) {
        if self.shared.kill(run, grace) {
            self.clear(run);
        }
    }

    fn clear(&self, run: IncarnationId) {
        if !self.shared.table.inquire(run) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        if let Err(error) = spawn_thread("clear", run, move || run::clear(&shared, run)) {
            tracing::warn!(session = %run.session, %error, "cannot determine how an agent ended");
            self.shared.table.forget(run);
        }
    }
}

impl Runtime for ProcessRuntime {
    fn name(&self) -> &'static str {
        "process"
    }

    fn shows_host_paths(&self) -> bool {
        true
    }

    /// An agent with a network of its own has a socket in its mount view, any other one a port. Without a view the filter
    /// of an agent without a network leaves neither.
    fn reach(&self, settings: &AgentSettings, provider: ProviderKind) -> Reach {
        let sandbox = self.shared.setup.sandbox();
        let is_confined = settings.hold(provider, sandbox.confines()) == Hold::Confined;
        match sandbox {
            Sandbox::Jail(jail) if is_confined && settings.network.is_closed() => Reach::Socket { owner: jail.user },
            _ if is_confined && settings.network.is_closed() => Reach::Nowhere,
            _ => Reach::Port,
        }
    }

    fn ensure(&self, spec: Spec) {
        let run = IncarnationId::new(spec.session, spec.incarnation);
        if let Err(error) = self.check_confinement(&spec).and_then(|()| self.check_network(&spec)) {
            return self.shared.table.refuse(run, error.reason());
        }
        if !self.shared.table.begin(run) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        if let Err(error) = spawn_thread("agent", run, move || run::run(&shared, spec)) {
            let exit = crate::model::incarnation::Exit::NotStarted(error.reason());
            self.shared.table.finish(run, exit, String::new());
        }
    }

    fn kill(&self, session: SessionId, incarnation: u32) {
        self.end(IncarnationId::new(session, incarnation), self.shared.setup.grace);
    }

    fn kill_now(&self, session: SessionId, incarnation: u32) {
        self.end(IncarnationId::new(session, incarnation), self.shared.setup.grace.min(MOMENT));
    }

    fn inquire(&self, session: SessionId, incarnation: u32) {
        self.clear(IncarnationId::new(session, incarnation));
    }

    fn shut_down(&self) {
        for run in self.shared.table.close() {
            self.shared.kill(run, self.shared.setup.grace);
        }
        if !self.shared.table.wait_empty(SHUT_DOWN) {
            tracing::warn!("some agents are still running");
        }
    }
}

/// Dropping the runtime ends its agents but does not wait for them.
impl Drop for ProcessRuntime {
    fn drop(&mut self) {
        for run in self.shared.table.close() {
            self.shared.kill(run, self.shared.setup.grace);
        }
    }
}

fn spawn_thread(what: &str, run: IncarnationId, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let thread = std::thread::Builder::new().name(format!("{what} {run}"));
    thread.spawn(work).map(drop).map_err(|source| Error::Thread { source })
}
