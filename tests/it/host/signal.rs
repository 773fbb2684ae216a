//! A stand-in for signal-cli and Signal for tests of `hearth-networks signal`: `tests/signal_server.py`.

use std::ops::{Deref, DerefMut};
use std::path::Path;

use serde_json::{Value, json};

use super::bridge_programs::kit;
use super::stand_in::StandIn;

const PEOPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/signal_server.py");

/// The bot's account, people and groups of the stand-in.
pub(crate) const NUMBER: &str = "+15550001111";
pub(crate) const BOT: &str = "b0000000-0000-4000-8000-000000000000";
pub(crate) const ANN: &str = "a0000000-0000-4000-8000-000000000001";
pub(crate) const EVE: &str = "e0000000-0000-4000-8000-000000000002";
pub(crate) const BOB: &str = "c0000000-0000-4000-8000-000000000003";
pub(crate) const ALL: &str = "dGhlIGdyb3VwIG9mIGV2ZXJ5Ym9keSwgMzIgYnl0ZXM=";
pub(crate) const FEW: &str = "dGhlIGdyb3VwIG9mIGEgZmV3LCB3aXRoIDMyIGJ5dGU=";

/// The stand-in, and an installation.
pub(crate) struct Signal(StandIn);

impl Signal {
    pub(crate) fn start() -> Self {
        let signal = Self(StandIn::start(PEOPLE, "SIGNAL_PEOPLE", &[]));
        std::fs::copy(PEOPLE, signal.path("signal-cli")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(signal.path("signal-cli"), mode).unwrap();
        signal
    }

    /// The program `signal-cli` of the stand-in.
    pub(crate) fn cli(&self) -> String {
        self.path("signal-cli").display().to_string()
    }

    /// The address of its daemon.
    pub(crate) fn daemon(&self) -> String {
        format!("127.0.0.1:{}", self.read("port"))
    }

    /// Runs the kit.
    pub(crate) fn test(&self, bridge: &Path) -> Value {
        let settings = json!({ "account": NUMBER }).to_string();
        let words = ["--network", PEOPLE, "--settings", &settings, "--chat", ANN];
        kit(&self.host, &words, &[&bridge.display().to_string(), "signal", &self.cli()])
    }
}

impl Deref for Signal {
    type Target = StandIn;

    fn deref(&self) -> &StandIn {
        &self.0
    }
}

impl DerefMut for Signal {
    fn deref_mut(&mut self) -> &mut StandIn {
        &mut self.0
    }
}
