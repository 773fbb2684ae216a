//! `hearth run`, and the daemon that `up` and `chat` run for as long as they need it.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use super::{Done, Failure, local};
use crate::config::{Paths, seams};
use crate::daemon::{Daemon, Error};
use crate::socket::server::{self, Serving};

/// A daemon with its socket, in this process.
pub(super) struct Served {
    daemon: Arc<Daemon>,
    serving: Serving,
    tokio: Runtime,
}

/// Runs a daemon until it is told to stop.
pub(super) fn run(paths: &Paths) -> Done {
    let served = local::daemon_or(paths, |_| None, || Served::start(paths).map(Some))?;
    let Some(served) = served else {
        let data = paths.data().display();
        return Err(Failure::Failed(format!("a daemon is running for {data} already: stop it, or use it")));
    };
    tracing::info!(data = %paths.data().display(), socket = %paths.socket().display(), "hearth is running");
    let daemon = &served.daemon;
    served.tokio.block_on(async {
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
    served.stop()
}

impl Served {
    /// Starts a daemon and its socket.
    pub(super) fn start(paths: &Paths) -> Result<Self, Error> {
        let tokio = Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(Error::Thread)?;
        let daemon = Daemon::start(paths, seams::policy(), tokio.handle())?;
        for warning in daemon.store().warnings() {
            tracing::warn!("{warning}");
        }
        let socket = paths.socket();
        let failed = |path: &Path, source| Error::Io { path: path.to_owned(), source };
        let inside = tokio.enter();
        let listener = server::bind(socket).map_err(|source| failed(socket, source))?;
        let note = paths.socket_note();
        if let Err(error) = std::fs::write(&note, socket.as_os_str().as_bytes()) {
            // Clients with the same runtime directory find it all the same.
            tracing::warn!(note = %note.display(), %error, "where the daemon listens could not be noted");
        }
        let serving = Serving::start(listener, Arc::clone(&daemon));
        drop(inside);
        Ok(Self { daemon, serving, tokio })
    }

    /// Takes the socket away, then stops the daemon.
    pub(super) fn stop(self) -> Done {
        let paths = self.daemon.paths();
        // What stays is replaced by the next daemon.
        drop(std::fs::remove_file(paths.socket_note()));
        drop(std::fs::remove_file(paths.socket()));
        self.tokio.block_on(self.serving.close());
        Ok(self.daemon.shut_down()?)
    }
}
