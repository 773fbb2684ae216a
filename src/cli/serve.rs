//! `hearth run`, and the daemon that `up` and `chat` run for as long as they need it.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

use super::{Done, Failure};
use crate::config::Paths;
use crate::daemon::Daemon;
use crate::model::policy::Policy;
use crate::socket::server;

/// Runs a daemon until it is told to stop.
pub(super) fn run(paths: &Paths) -> Done {
    let tokio = tokio()?;
    let daemon = start(paths, &tokio)?;
    tracing::info!(data = %paths.data().display(), socket = %paths.socket().display(), "hearth is running");
    tokio.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = daemon.stopped() => {}
        }
        Ok::<_, std::io::Error>(())
    })?;
    tracing::info!("hearth is stopping");
    stop(&daemon)
}

/// The tasks of sockets and signals.
pub(super) fn tokio() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// Starts a daemon and its socket.
pub(super) fn start(paths: &Paths, tokio: &tokio::runtime::Runtime) -> Result<Arc<Daemon>, Failure> {
    let daemon = Daemon::start(paths, Policy::STANDARD)?;
    for warning in daemon.store().warnings() {
        tracing::warn!("{warning}");
    }
    let socket = paths.socket();
    let bound = {
        let _inside = tokio.enter();
        server::bind(socket)
    };
    let listener = bound.map_err(|error| Failure::Failed(format!("{}: {error}", socket.display())))?;
    tokio.spawn(server::listen(listener, Arc::clone(&daemon)));
    Ok(daemon)
}

/// Stops a daemon and removes its socket.
pub(super) fn stop(daemon: &Daemon) -> Done {
    let stopped = daemon.shut_down();
    // A socket file that stays is replaced by the next daemon.
    drop(std::fs::remove_file(daemon.paths().socket()));
    Ok(stopped?)
}
