//! A stand-in for Slack for tests of `hearth-networks slack`: `tests/slack_server.py`.

use std::ops::{Deref, DerefMut};
use std::path::Path;

use serde_json::{Value, json};

use super::bridge_programs::{kit_within, program};
use super::stand_in::StandIn;

const PEOPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slack_server.py");
/// The direct chat with Ann.
const DIRECT: &str = "D0ANN";

/// A workspace with people, and an installation.
pub(crate) struct Slack(StandIn);

impl Slack {
    pub(crate) fn start() -> Self {
        Self(StandIn::start(PEOPLE, "SLACK_PEOPLE", &[]))
    }

    /// Runs the kit.
    pub(crate) fn test(&self, bridge: &Path) -> Value {
        self.kit("60", "", &[&bridge.display().to_string(), "slack"])
    }

    /// The same for one case, with a bridge that a script in Python changes.
    pub(crate) fn test_broken(&self, script: &[&str], only: &str) -> Value {
        let bridge = program("networks").display().to_string();
        self.kit("8", only, &[&["python3"], script, &[&bridge, "slack"]].concat())
    }

    fn kit(&self, seconds: &str, only: &str, bridge: &[&str]) -> Value {
        // The stand-in says something twice a second.
        let settings = json!({ "server": self.server(), "silence": "3" }).to_string();
        let (token, secret) = (self.secret("token-bot"), self.secret("token-app"));
        let words =
            ["--network", PEOPLE, "--settings", &settings, "--token", &token, "--secret", &secret, "--chat", DIRECT];
        kit_within(&self.host, seconds, &[&words[..], &["--only", only]].concat(), bridge)
    }
}

impl Deref for Slack {
    type Target = StandIn;

    fn deref(&self) -> &StandIn {
        &self.0
    }
}

impl DerefMut for Slack {
    fn deref_mut(&mut self) -> &mut StandIn {
        &mut self.0
    }
}
