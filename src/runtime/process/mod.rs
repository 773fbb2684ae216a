//! The process runtime: agents are children of the daemon, so that Hearth works where nothing else is installed.
//!
//! What must hold: an incarnation is reported gone when its process group is gone and nobody has the session's lock file
//! open, and not before. A runner inherits two descriptors, the life pipe (end of file when the daemon dies) and the lock
//! (by which the next daemon finds what survived), and of the daemon's environment only `PATH`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{Error, Events, Runtime, Spec, directory};
use crate::model::entity::Hold;
use crate::model::id::SessionId;
use table::{Key, Kill, Table};

mod child;
mod confine;
mod environment;
mod follow;
mod holders;
mod lock;
mod programs;
mod run;
mod secret;
mod spawn;
mod table;
mod tail;
#[cfg(test)]
mod tests;
pub mod trial;

pub(in crate::runtime) use secret::resolve;
pub use secret::{Lookup, SecretError};

/// The value of a reference that somebody other than an agent needs. Waits for a `cmd:` reference's command.
///
/// # Errors
/// [`SecretError`], which names the reference and never a value.
pub fn resolve_reference(reference: &str, lookup: &Lookup) -> Result<OsString, SecretError> {
    secret::resolve(reference, lookup, &|| false)
}

/// How long everything may take to end when the daemon stops; a tenth second is for telling the listener.
const SHUT_DOWN: Duration = Duration::from_secs(9);

/// What the runtime needs to know.
#[derive(Clone)]
pub struct Setup {
    /// The program that is the runner: this very one.
    pub program: PathBuf,
    /// What makes it the runner.
    pub arguments: Vec<OsString>,
    /// `PATH` of the agents.
    pub path: OsString,
    /// Directory of the lock files; made when missing. One daemon at a time may use it.
    pub locks: PathBuf,
    /// Finds the variables that references name.
    pub lookup: Lookup,
    /// Whether agents can be confined here, and why not.
    pub confinement: Result<(), String>,
    /// What no rule may let a confined agent see by accident, the data directory first, then homes of users.
    pub guarded: Vec<PathBuf>,
    /// How long a runner may take to end when asked.
    pub grace: Duration,
    /// How long remains of an earlier incarnation are fought before a start is given up.
    pub patience: Duration,
}

impl Setup {
    /// The runner is `program agent`, confined where that is possible; a runner gets two seconds to end, remains ten.
    pub fn new(program: PathBuf, path: OsString, locks: PathBuf, lookup: Lookup) -> Self {
        let (grace, patience) = (Duration::from_secs(2), Duration::from_secs(10));
        let confinement = agent_runner::confine::support().map(drop).map_err(|error| error.to_string());
        let (arguments, guarded) = (vec!["agent".into()], Vec::new());
        Self { program, arguments, path, locks, lookup, confinement, guarded, grace, patience }
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
    table: Table,
}

impl Shared {
    /// Asks a running incarnation to end and sees to it that it does. Tells whether the runtime does not know it.
    fn kill(self: &Arc<Self>, key: Key) -> bool {
        match self.table.kill(key) {
            Kill::Nothing => return false,
            Kill::Clear => return true,
            Kill::Hurry => {}
        }
        let shared = Arc::clone(self);
        let hurry = move || shared.table.hurry(key, shared.setup.grace);
        if let Err(error) = spawn_thread("end", key, hurry) {
            tracing::warn!(session = %key.0, %error, "an agent gets no time to end");
            self.table.hurry(key, Duration::ZERO);
        }
        false
    }
}

impl ProcessRuntime {
    /// Makes the lock directory and ends what an earlier daemon left behind. Only with the daemon's own lock held.
    ///
    /// # Errors
    /// When the directory cannot be made or read, or there are no threads.
    pub fn start(mut setup: Setup, events: Events) -> Result<Self, Error> {
        directory::make(&setup.locks)?;
        let failed = |path: &PathBuf, source| Error::Lock { path: path.clone(), source };
        setup.locks = setup.locks.canonicalize().map_err(|source| failed(&setup.locks, source))?;
        let held = lock::clear_all(&setup.locks, setup.patience).map_err(|source| failed(&setup.locks, source))?;
        if held > 0 {
            tracing::warn!(held, "processes of an earlier daemon are still there");
        }
        let (table, mail) = Table::new();
        let listener = std::thread::Builder::new().name("process events".to_owned());
        listener.spawn(move || mail.deliver(&events)).map_err(|source| Error::Thread { source })?;
        Ok(Self { shared: Arc::new(Shared { setup, table }) })
    }

    /// What nothing confines and acts on its own needs the operator's word.
    fn check_confinement(&self, spec: &Spec) -> Result<(), Error> {
        let confinement = &self.shared.setup.confinement;
        let (Err(why), Hold::NeedsUnconfined) = (confinement, spec.settings.hold(spec.provider, confinement.is_ok()))
        else {
            return Ok(());
        };
        let provider = spec.provider.as_str();
        let folder = spec.group_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Err(Error::Unconfined { folder, provider, why: why.clone() })
    }

    fn clear(&self, key: Key) {
        if !self.shared.table.inquire(key) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        if let Err(error) = spawn_thread("clear", key, move || run::clear(&shared, key)) {
            tracing::warn!(session = %key.0, %error, "cannot find out what became of an agent");
            self.shared.table.forget(key);
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

    fn ensure(&self, spec: Spec) {
        let key = (spec.session, spec.incarnation);
        if let Err(error) = self.check_confinement(&spec) {
            return self.shared.table.refuse(key, error.reason());
        }
        if !self.shared.table.begin(key) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        if let Err(error) = spawn_thread("agent", key, move || run::run(&shared, spec)) {
            let exit = crate::model::incarnation::Exit::NotStarted(error.reason());
            self.shared.table.finish(key, exit, String::new());
        }
    }

    fn kill(&self, session: SessionId, incarnation: u32) {
        if self.shared.kill((session, incarnation)) {
            self.clear((session, incarnation));
        }
    }

    fn inquire(&self, session: SessionId, incarnation: u32) {
        self.clear((session, incarnation));
    }

    fn shut_down(&self) {
        for key in self.shared.table.close() {
            self.shared.kill(key);
        }
        if !self.shared.table.wait_empty(SHUT_DOWN) {
            tracing::warn!("some agents are not gone yet");
        }
    }
}

/// A runtime that is dropped takes its agents with it, but does not wait for them.
impl Drop for ProcessRuntime {
    fn drop(&mut self) {
        for key in self.shared.table.close() {
            self.shared.kill(key);
        }
    }
}

fn spawn_thread(what: &str, (session, incarnation): Key, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let thread = std::thread::Builder::new().name(format!("{what} {session}.{incarnation}"));
    thread.spawn(work).map(drop).map_err(|source| Error::Thread { source })
}
