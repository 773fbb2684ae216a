//! What others may know of a running daemon, and what it tells by itself.

use super::{BuildStatus, Daemon, LineStatus, State};
use crate::channel::terminal::Terminals;
use crate::config::Paths;
use crate::model::configure::RuntimeKind;
use crate::state::Store;

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

    /// Where things are.
    #[must_use]
    pub const fn paths(&self) -> &Paths {
        &self.paths
    }

    /// What the socket demands.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// How the configured channels are.
    #[must_use]
    pub fn channels(&self) -> Vec<LineStatus> {
        self.switchboard.status()
    }

    /// Name of the runtime in use.
    #[must_use]
    pub fn runtime_name(&self) -> &'static str {
        self.runtime.name()
    }

    /// Why it is that one, to be read after "because", and what the settings of the installation said when it was chosen.
    #[must_use]
    pub const fn runtime_choice(&self) -> &(String, Option<RuntimeKind>) {
        &self.chosen
    }

    /// The images that are being built, and those that could not be.
    #[must_use]
    pub fn builds(&self) -> Vec<BuildStatus> {
        self.builds.as_ref().map(|builds| builds.status()).unwrap_or_default()
    }

    /// Tells the system how the daemon is, if the system started it.
    pub fn announce(&self, state: &State) {
        self.announcer.tell(state);
    }

    /// Inputs that wait for the engine.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.inbox.len()
    }
}
