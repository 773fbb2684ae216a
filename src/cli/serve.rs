//! `hearth run`, and the temporary daemon of `up` and `chat`.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::console::StoreViews;
use super::{Done, Failure, local_owner, log, offline};
use crate::config::{Paths, seams};
use crate::crash;
use crate::daemon::opening::{Installation, Opening};
use crate::daemon::{Daemon, DaemonOptions, Error, State, limits, setup};
use crate::model::configure::{Configure, RuntimeKind};
use crate::model::entity::Origin;
use crate::model::input::Input;
use crate::model::report::Reply;
use crate::socket::server::{self, Serving};
use crate::state;

/// A daemon with its socket, in this process.
pub(super) struct Served {
    daemon: Arc<Daemon>,
    serving: Serving,
    /// The socket's file.
    socket: Identity,
    tokio: Runtime,
    signals: Option<Signals>,
}

/// Device and inode of a file. A replaced file has others.
type Identity = (u64, u64);

fn identity(path: &Path) -> Option<Identity> {
    std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Interval for checking the files that clients need.
const TEND: Duration = Duration::from_secs(2);

/// The events that end a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndedBy {
    /// Signals. They are handled before the socket exists, because a client that finds the daemon may end it.
    Signals,
    /// The caller that started it. Until then, signals have their default effect and end the process.
    Caller,
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Where agents run, this time only
    #[arg(long, value_enum)]
    runtime: Option<RuntimeArg>,
    /// Serve Prometheus metrics at this address, like 127.0.0.1:9464, under /metrics
    #[arg(long, value_name = "ADDRESS", env = "HEARTH_METRICS", hide_env_values = true)]
    metrics: Option<SocketAddr>,
    /// Allow an address that other machines can reach; anyone who reaches it can read the numbers
    #[arg(long, requires = "metrics")]
    metrics_open: bool,
    /// Open only the store of this installation, and never create one; `service install` sets it
    #[arg(long, value_name = "ID", conflicts_with = "new")]
    installation: Option<Installation>,
    /// Create a store even where parts of an installation without one, or other files, are
    #[arg(long)]
    new: bool,
}

impl RunArgs {
    fn opening(&self) -> Opening {
        self.installation.map_or(Opening::or_new(self.new), Opening::Only)
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum RuntimeArg {
    /// In containers
    Podman,
    /// As child processes
    Process,
}

/// Runs a daemon until it is asked to stop.
pub(super) fn run(paths: &Paths, args: &RunArgs) -> Done {
    let runtime = args.runtime.map(|runtime| match runtime {
        RuntimeArg::Podman => RuntimeKind::Podman,
        RuntimeArg::Process => RuntimeKind::Process,
    });
    if let Some(address) = args.metrics.filter(|address| !address.ip().is_loopback() && !args.metrics_open) {
        return Err(Failure::Failed(format!(
            "other machines could read the metrics at {address}: use an address of this machine alone, like 127.0.0.1:9464, or add --metrics-open if that is intended"
        )));
    }
    let options = DaemonOptions { policy: seams::policy(), runtime, metrics: args.metrics, opening: args.opening() };
    let start = || Served::start(paths, &options, EndedBy::Signals).map(Some);
    let Some(mut served) = offline::daemon_or(paths, |_| None, start)? else {
        let data = paths.data().display();
        return Err(Failure::Failed(format!("a daemon is already running for {data}: stop it, or use it")));
    };
    tracing::info!(data = %paths.data().display(), socket = %paths.socket().display(), "hearth is running");
    served.daemon.announce(&State::Ready);
    served.make_owner()?;
    served.hint()?;
    let mut signals = served.signals()?;
    while served.serves_on(&mut signals) {
        if let Err(error) = served.tend() {
            tracing::warn!(%error, "the socket or its token is missing and cannot be created, retrying");
        }
    }
    tracing::info!("hearth is stopping");
    served.stop_hearing(signals, "press Ctrl-C again")
}

/// Signals that ask a process to end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn heard(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

impl Served {
    /// Starts a daemon and its socket, and serves metrics if an address is given.
    pub(super) fn start(paths: &Paths, options: &DaemonOptions, ended_by: EndedBy) -> Result<Self, Error> {
        limits::prepare().map_err(Error::from)?;
        let tokio = Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(Error::Thread)?;
        let daemon = Daemon::start(paths, options.clone(), tokio.handle())?;
        for warning in daemon.store().warnings() {
            tracing::warn!("{warning}");
        }
        let socket = paths.socket();
        let failed = |path: &Path, source| Error::Io { path: path.to_owned(), source };
        let inside = tokio.enter();
        let signals = (ended_by == EndedBy::Signals).then(Signals::listen).transpose().map_err(Error::Signals)?;
        let listener = server::bind(socket).map_err(|source| failed(socket, source))?;
        let bound = identity(socket).ok_or_else(|| failed(socket, std::io::ErrorKind::NotFound.into()))?;
        let note = paths.socket_note();
        crash::point("socket-note");
        if let Err(error) = std::fs::write(&note, socket.as_os_str().as_bytes()) {
            // Clients with the same runtime directory find the socket anyway.
            tracing::warn!(note = %note.display(), %error, "cannot record where the daemon listens");
        }
        let serving = Serving::start(listener, Arc::clone(&daemon));
        drop(inside);
        daemon.show_console(StoreViews::new(&daemon), tokio.handle());
        Ok(Self { daemon, serving, socket: bound, tokio, signals })
    }

    /// Waits for [`TEND`]. Returns whether the daemon continues.
    fn serves_on(&self, signals: &mut Signals) -> bool {
        self.tokio.block_on(async {
            tokio::select! {
                () = signals.heard() => false,
                () = self.daemon.stopped() => false,
                () = tokio::time::sleep(TEND) => true,
            }
        })
    }

    /// Restores the token and the socket if they were removed. Without them, clients could not reach the daemon, and
    /// only a signal could stop it.
    fn tend(&mut self) -> Result<(), Error> {
        self.daemon.tend_console(self.tokio.handle());
        self.daemon.restore_token()?;
        let paths = self.daemon.paths();
        let (socket, note) = (paths.socket(), paths.socket_note());
        if !note.exists() {
            drop(std::fs::write(&note, socket.as_os_str().as_bytes()));
        }
        if identity(socket) == Some(self.socket) {
            return Ok(());
        }
        let failed = |source| Error::Io { path: socket.to_owned(), source };
        let inside = self.tokio.enter();
        let listener = server::bind(socket).map_err(failed)?;
        self.socket = identity(socket).ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
        self.serving.listen_at(listener, Arc::clone(&self.daemon));
        drop(inside);
        tracing::warn!(socket = %socket.display(), "the socket was removed and has been created again");
        Ok(())
    }

    /// Drains and stops the daemon.
    pub(super) fn stop(mut self) -> Done {
        let signals = self.signals()?;
        self.stop_hearing(signals, "press Ctrl-C")
    }

    /// Stops the daemon. A signal ends the draining; `hurry` tells people how to send one.
    fn stop_hearing(self, mut signals: Signals, hurry: &str) -> Done {
        self.daemon.announce(&State::Stopping);
        let tell = |waiting| {
            log::note(&format!("waiting for {waiting}; {hurry} to stop at once"));
            self.daemon.announce(&State::Words(format!("stopping, waiting for {waiting}")));
        };
        self.tokio.block_on(async {
            tokio::select! {
                biased;
                () = self.daemon.stopped() => {}
                () = signals.heard() => tracing::info!("no longer waiting"),
                () = self.daemon.drain(tell) => {}
            }
        });
        let paths = self.daemon.paths();
        // The next daemon replaces a leftover socket.
        crash::point("socket-remove");
        drop(std::fs::remove_file(paths.socket_note()));
        drop(std::fs::remove_file(paths.socket()));
        self.tokio.block_on(self.serving.close());
        Ok(self.daemon.shut_down()?)
    }

    /// The installed signal handlers, or new ones.
    fn signals(&mut self) -> std::io::Result<Signals> {
        let _inside = self.tokio.enter();
        self.signals.take().map_or_else(Signals::listen, Ok)
    }

    /// Makes the local user owner of a new installation, and says so.
    fn make_owner(&self) -> Done {
        if !self.daemon.store().read(setup::lacks_first_owner)? {
            return Ok(());
        }
        let grant = Configure::new(vec![local_owner::grant()?], Origin::Runtime);
        match self.tokio.block_on(self.daemon.submit(Input::Configure(grant), false)) {
            Ok(Reply::Refused(refusal)) => Err(Failure::Failed(refusal.message)),
            Ok(_) => local_owner::announce(),
            Err(why) => Err(Failure::Failed(why)),
        }
    }

    /// Logs the next step if no agent exists yet.
    fn hint(&self) -> Result<(), state::Error> {
        let agents = self.daemon.store().read(|db, txn| {
            let mut agents = db.agents.iter(txn)?;
            agents.try_fold(0, |count, row| row.map(|(_, agent)| count + u32::from(agent.archived.is_none())))
        })?;
        if agents == 0 {
            log::note(
                "no agents yet: run `hearth up` in another terminal to create one and talk to it, or describe your \
                 agents in a file and run `hearth apply FILE`",
            );
        }
        Ok(())
    }
}
