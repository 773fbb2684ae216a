//! `hearth run`, and the daemon that `up` and `chat` run for as long as they need it.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Done, Failure, local, log};
use crate::config::{Paths, seams};
use crate::crash;
use crate::daemon::{Daemon, Error, State, Wish};
use crate::model::configure::RuntimeKind;
use crate::socket::server::{self, Serving};
use crate::state;

/// A daemon with its socket, in this process.
pub(super) struct Served {
    daemon: Arc<Daemon>,
    serving: Serving,
    tokio: Runtime,
    signals: Option<Signals>,
}

/// Who ends a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndedBy {
    /// Signals, which are heard from before anybody is answered: whoever finds it there may end it.
    Signals,
    /// Whoever started it. Before that, signals end the process as they do.
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
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum RuntimeArg {
    /// In containers
    Podman,
    /// As child processes
    Process,
}

/// Runs a daemon until it is told to stop.
pub(super) fn run(paths: &Paths, args: &RunArgs) -> Done {
    let runtime = args.runtime.map(|runtime| match runtime {
        RuntimeArg::Podman => RuntimeKind::Podman,
        RuntimeArg::Process => RuntimeKind::Process,
    });
    if let Some(address) = args.metrics.filter(|address| !address.ip().is_loopback() && !args.metrics_open) {
        return Err(Failure::Failed(format!(
            "other machines could read the metrics at {address}: use an address of this machine alone, like 127.0.0.1:9464, or \
             add --metrics-open if that is meant"
        )));
    }
    let start = || Served::start(paths, (runtime, args.metrics), EndedBy::Signals).map(Some);
    let Some(mut served) = local::daemon_or(paths, |_| None, start)? else {
        let data = paths.data().display();
        return Err(Failure::Failed(format!("a daemon is running for {data} already: stop it, or use it")));
    };
    tracing::info!(data = %paths.data().display(), socket = %paths.socket().display(), "hearth is running");
    served.daemon.announce(&State::Ready);
    served.hint()?;
    let mut signals = served.signals()?;
    served.tokio.block_on(async {
        tokio::select! {
            () = signals.heard() => {}
            () = served.daemon.stopped() => {}
        }
    });
    tracing::info!("hearth is stopping");
    served.stop_hearing(signals, "press Ctrl-C again")
}

/// What people and the system ask a process to end with.
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
    /// Starts a daemon and its socket, and serves its numbers if an address for them is given.
    pub(super) fn start(
        paths: &Paths,
        (runtime, metrics): (Option<RuntimeKind>, Option<SocketAddr>),
        ended_by: EndedBy,
    ) -> Result<Self, Error> {
        let tokio = Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(Error::Thread)?;
        let daemon = Daemon::start(paths, Wish { policy: seams::policy(), runtime, metrics }, tokio.handle())?;
        for warning in daemon.store().warnings() {
            tracing::warn!("{warning}");
        }
        let socket = paths.socket();
        let failed = |path: &Path, source| Error::Io { path: path.to_owned(), source };
        let inside = tokio.enter();
        let signals = (ended_by == EndedBy::Signals).then(Signals::listen).transpose().map_err(Error::Signals)?;
        let listener = server::bind(socket).map_err(|source| failed(socket, source))?;
        let note = paths.socket_note();
        crash::point("socket-note");
        if let Err(error) = std::fs::write(&note, socket.as_os_str().as_bytes()) {
            // Clients with the same runtime directory find it all the same.
            tracing::warn!(note = %note.display(), %error, "where the daemon listens could not be noted");
        }
        let serving = Serving::start(listener, Arc::clone(&daemon));
        drop(inside);
        Ok(Self { daemon, serving, tokio, signals })
    }

    /// Lets what is under way end, then stops the daemon.
    pub(super) fn stop(mut self) -> Done {
        let signals = self.signals()?;
        self.stop_hearing(signals, "press Ctrl-C")
    }

    /// A signal that comes meanwhile ends the waiting; `hurry` says how to send one.
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
                () = signals.heard() => tracing::info!("not waiting any more"),
                () = self.daemon.drain(tell) => {}
            }
        });
        let paths = self.daemon.paths();
        // What stays is replaced by the next daemon.
        crash::point("socket-remove");
        drop(std::fs::remove_file(paths.socket_note()));
        drop(std::fs::remove_file(paths.socket()));
        self.tokio.block_on(self.serving.close());
        Ok(self.daemon.shut_down()?)
    }

    /// What is heard already, or from now on.
    fn signals(&mut self) -> std::io::Result<Signals> {
        let _inside = self.tokio.enter();
        self.signals.take().map_or_else(Signals::listen, Ok)
    }

    /// Says what to do next if nobody can be answered yet.
    fn hint(&self) -> Result<(), state::Error> {
        let agents = self.daemon.store().read(|db, txn| {
            let mut agents = db.agents.iter(txn)?;
            agents.try_fold(0, |count, row| row.map(|(_, agent)| count + u32::from(agent.archived.is_none())))
        })?;
        if agents == 0 {
            log::note(
                "there is no agent yet: `hearth up` in another terminal makes one and lets you talk to it, or describe yours in a file and run \
                 `hearth apply FILE`",
            );
        }
        Ok(())
    }
}
