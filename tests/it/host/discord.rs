//! A stand-in for Discord for tests of `hearth-networks discord`: `tests/discord_server.py`.

use std::ops::{Deref, DerefMut};

use serde_json::{Value, json};

use super::bridge_programs::{self, kill, kit_within, running};
use super::stand_in::StandIn;
use super::{wait_for, wait_for_or};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/discord_server.py");

/// People and channels of the stand-in.
pub(crate) const ANN: &str = "900000000000000005";
pub(crate) const EVE: &str = "900000000000000006";
pub(crate) const GENERAL: &str = "900000000000000101";
pub(crate) const THREAD: &str = "900000000000000103";
pub(crate) const DIRECT: &str = "900000000000000104";

/// The server, and an installation.
pub(crate) struct Discord(StandIn);

impl Discord {
    pub(crate) fn start() -> Self {
        Self(StandIn::start(SERVER, "DISCORD_PEOPLE", &[]))
    }

    /// Runs the kit.
    pub(crate) fn test(&self) -> Value {
        self.kit("60", "", &[])
    }

    /// The same for one case, with a bridge that a script in Python changes.
    pub(crate) fn test_broken(&self, script: &[&str], only: &str) -> Value {
        self.kit("8", only, &[&["python3"], script].concat())
    }

    fn kit(&self, seconds: &str, only: &str, before: &[&str]) -> Value {
        let settings = json!({ "server": self.server() }).to_string();
        let bridge = bridge_programs::program("networks").display().to_string();
        let token = self.secret("token");
        let words = ["--network", SERVER, "--settings", &settings, "--chat", DIRECT, "--token", &token, "--only", only];
        kit_within(&self.host, seconds, &words, &[before, &[&bridge, "discord"]].concat())
    }

    /// Asks or changes something.
    pub(crate) fn asks(&self, what: &Value) -> Value {
        self.operate(what)
    }

    /// Ann writes in the direct chat.
    pub(crate) fn says(&self, text: &str) -> String {
        self.writes(&json!({ "text": text }))
    }

    /// Writes as a person; returns the id of the message.
    pub(crate) fn writes(&self, message: &Value) -> String {
        self.asks(&json!({ "say": message })).as_str().unwrap().to_owned()
    }

    /// What the bot sent, in its order.
    pub(crate) fn heard(&self) -> Vec<Value> {
        self.asks(&json!({ "heard": true })).as_array().unwrap().clone()
    }

    /// The texts of it.
    pub(crate) fn shown(&self) -> Vec<String> {
        self.heard().iter().map(|message| message["shown"].as_str().unwrap().to_owned()).collect()
    }

    /// The first answer with a text.
    pub(crate) fn answer(&self, text: &str) -> Value {
        let has = |message: &Value| message["shown"].as_str().is_some_and(|shown| shown.contains(text));
        wait_for_or(&format!("the answer with {text}"), &mut || self.heard().into_iter().find(has), || {
            self.host.unfinished()
        })
    }

    pub(crate) fn facts(&self) -> Value {
        self.asks(&json!({}))
    }

    /// Starts a daemon with the server as the channel `discord`, and an agent that echoes in the direct chat with Ann and
    /// where it is mentioned in a server.
    pub(crate) fn connect(&mut self, settings: &str) {
        self.begin(settings);
        self.up();
    }

    /// The same without waiting for the bridge.
    pub(crate) fn begin(&mut self, settings: &str) {
        self.host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "100".to_owned()));
        let program = self.program(&bridge_programs::program("networks"));
        let chat = |id: &str, more: &str| {
            format!("[[chats]]\nchannel = \"discord\"\nplatform_id = \"{id}\"\nunknown_senders = \"strict\"\n{more}\n")
        };
        let direct = "[[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"";
        let others = "group = true\n[[chats.wirings]]\nagent = \"main\"\nengage = \"mention\"";
        self.host.apply(&format!(
            "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n[channels.discord]\ntype = \"bridge\"\n\
             command = [\"{}\", \"discord\"]\ntoken = \"{}\"\nsettings = {{ server = \"{}\"{settings} }}\n\
             [[users]]\nid = \"discord:{ANN}\"\nroles = [\"owner\"]\n{}{}",
            program.display(),
            self.secret("token"),
            self.server(),
            chat(DIRECT, direct),
            chat(GENERAL, others),
        ));
        self.host.start();
    }

    pub(crate) fn up(&self) {
        wait_for("the bridge", || (self.listed()["state"] == "up").then_some(()));
    }

    pub(crate) fn listed(&self) -> Value {
        let mut list: Value = serde_json::from_str(&self.host.done(&["channels", "list", "--json"], b"")).unwrap();
        list["channels"].as_array_mut().unwrap().pop().unwrap_or_default()
    }

    /// The processes of the bridge.
    pub(crate) fn running(&self) -> Vec<u32> {
        running(&self.path("hearth-networks"))
    }

    pub(crate) fn kill(&self) {
        self.running().into_iter().for_each(kill);
    }

    pub(crate) fn stored(&self) -> String {
        self.host.rows("bodies").iter().map(Value::to_string).collect()
    }

    /// Nothing was done that Discord forbids.
    pub(crate) fn fine(&self) {
        assert_eq!(self.facts()["violations"], json!([]));
        self.host.check();
    }
}

impl Deref for Discord {
    type Target = StandIn;

    fn deref(&self) -> &StandIn {
        &self.0
    }
}

impl DerefMut for Discord {
    fn deref_mut(&mut self) -> &mut StandIn {
        &mut self.0
    }
}
