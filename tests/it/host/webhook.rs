//! A network behind a webhook, for the kit: `tests/webhook_people.py`.

use serde_json::{Value, json};

use super::bridge_programs::kit;
use super::channels::free_port;
use super::stand_in::StandIn;

const PEOPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/webhook_people.py");

/// The network, and an installation.
pub(crate) struct Webhook {
    pub(crate) stand_in: StandIn,
    /// Where the channel listens.
    port: u16,
}

impl Webhook {
    pub(crate) fn start() -> Self {
        let port = free_port();
        Self { stand_in: StandIn::start(PEOPLE, "WEBHOOK_PEOPLE", &[&port.to_string()]), port }
    }

    /// The same with a daemon that has the channel `kit`, and an agent that echoes in Ann's chat.
    pub(crate) fn connected() -> Self {
        let mut webhook = Self::start();
        let (port, server, secret) = (webhook.port, webhook.stand_in.server(), webhook.stand_in.secret("secret"));
        let host = &mut webhook.stand_in.host;
        host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "100".to_owned()));
        host.apply(&format!(
            "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n[channels.kit]\ntype = \"webhook\"\n\
             secret = \"{secret}\"\nlisten = \"127.0.0.1:{port}\"\nbase_url = \"{server}\"\n[[chats]]\nchannel = \"kit\"\n\
             platform_id = \"ann\"\nunknown_senders = \"public\"\n[[chats.wirings]]\nagent = \"main\"\n\
             engage = \"pattern\"\npattern = \".\"\n"
        ));
        host.start();
        webhook
    }

    /// What people do, and what it shows.
    pub(crate) fn people(&self, words: &[&str]) -> String {
        let done = self.stand_in.host.bare("python3").arg(PEOPLE).args(words).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// The network ends at once, and comes back with what it had written down.
    pub(crate) fn restart(&mut self) {
        self.stand_in.restart();
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
