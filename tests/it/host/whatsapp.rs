//! A stand-in for WhatsApp's Cloud API for tests of `hearth-networks whatsapp`: `tests/whatsapp_server.py`.

use std::ops::{Deref, DerefMut};
use std::path::Path;

use serde_json::{Value, json};

use super::bridge_programs::kit;
use super::channels::free_port;
use super::stand_in::StandIn;

const PEOPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/whatsapp_server.py");

/// The bot's number, and people of the stand-in; Bob shows no number.
pub(crate) const NUMBER: &str = "106540352242922";
pub(crate) const OTHER: &str = "106540352242923";
pub(crate) const ANN: &str = "15550000001";
pub(crate) const EVE: &str = "15550000002";
pub(crate) const BOB: &str = "US.13491208655302741918";

/// The stand-in, and an installation.
pub(crate) struct WhatsApp {
    stand_in: StandIn,
    /// Where the bridge listens.
    pub(crate) port: u16,
}

impl WhatsApp {
    pub(crate) fn start() -> Self {
        let port = free_port();
        Self { stand_in: StandIn::start(PEOPLE, "WHATSAPP_PEOPLE", &[&port.to_string()]), port }
    }

    /// The settings of a channel.
    pub(crate) fn settings(&self) -> Value {
        json!({ "server": self.server(), "number": NUMBER, "listen": format!("127.0.0.1:{}", self.port) })
    }

    /// Runs the kit.
    pub(crate) fn test(&self, bridge: &Path) -> Value {
        let settings = self.settings().to_string();
        let (token, secret) = (self.secret("token"), self.secret("secret"));
        let words =
            ["--network", PEOPLE, "--settings", &settings, "--token", &token, "--secret", &secret, "--chat", ANN];
        kit(&self.host, &words, &[&bridge.display().to_string(), "whatsapp"])
    }
}

impl Deref for WhatsApp {
    type Target = StandIn;

    fn deref(&self) -> &StandIn {
        &self.stand_in
    }
}

impl DerefMut for WhatsApp {
    fn deref_mut(&mut self) -> &mut StandIn {
        &mut self.stand_in
    }
}
