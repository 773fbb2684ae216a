//! A network behind a webhook, for the kit: `tests/webhook_people.py`.

use serde_json::{Value, json};

use super::bridge_programs::kit;
use super::channels::free_port;
use super::stand_in::StandIn;

const PEOPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/webhook_people.py");

/// The network, and an installation.
pub(crate) struct Webhook {
    stand_in: StandIn,
    /// Where the channel listens.
    port: u16,
}

impl Webhook {
    pub(crate) fn start() -> Self {
        let port = free_port();
        Self { stand_in: StandIn::start(PEOPLE, "WEBHOOK_PEOPLE", &[&port.to_string()]), port }
    }

    /// Runs the kit.
    pub(crate) fn test(&self) -> Value {
        let listen = format!("127.0.0.1:{}", self.port);
        let settings = json!({ "base_url": self.stand_in.server(), "listen": listen }).to_string();
        let secret = self.stand_in.secret("secret");
        let words = ["--network", PEOPLE, "--settings", &settings, "--secret", &secret, "--chat", "ann"];
        kit(&self.stand_in.host, &[&words[..], &["--built-in", "webhook"]].concat(), &[])
    }
}
