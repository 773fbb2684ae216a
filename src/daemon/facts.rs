//! Read access to the state of a running daemon, for the socket, metrics and commands.

use super::{BuildStatus, Daemon, LineStatus, State};
use crate::channel::terminal::Terminals;
use crate::config::Paths;
use crate::state::Store;
use crate::time::zone::Zone;

impl Daemon {
    /// The store, for reading.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.engine.store()
    }

    /// Attached terminals.
    #[must_use]
    pub fn terminals(&self) -> &Terminals {
        &self.terminals
    }

    /// The paths of the data directory.
    #[must_use]
    pub const fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The token that the socket requires.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// State of the configured channels.
    #[must_use]
    pub fn channels(&self) -> Vec<LineStatus> {
        self.channels.status()
    }

    /// Name of the runtime in use.
    #[must_use]
    pub fn runtime_name(&self) -> &'static str {
        self.runtime.name()
    }

    /// The images that are being built, and those that could not be.
    #[must_use]
    pub fn builds(&self) -> Vec<BuildStatus> {
        self.builds.as_ref().map(|builds| builds.status()).unwrap_or_default()
    }

    /// Reports the daemon's state to the service manager, if one started it.
    pub fn announce(&self, state: &State) {
        self.announcer.tell(state);
    }

    /// The machine's time zone.
    #[must_use]
    pub(super) fn machine_zone(&self) -> Zone {
        self.workers.machine_zone().zone
    }

    /// Inputs that wait for the engine.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.inbox.len()
    }
}
