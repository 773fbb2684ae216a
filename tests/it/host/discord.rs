//! A stand-in for Discord for tests of `hearth-networks discord`: `tests/discord_server.py`.

use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::bridge_programs::{kill, kit, operate, program, running};
use super::{Host, wait_for, wait_for_or};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/discord_server.py");

/// People and channels of the stand-in.
pub(crate) const ANN: &str = "900000000000000005";
pub(crate) const EVE: &str = "900000000000000006";
pub(crate) const GENERAL: &str = "900000000000000101";
pub(crate) const THREAD: &str = "900000000000000103";
pub(crate) const DIRECT: &str = "900000000000000104";

/// The server, and an installation.
pub(crate) struct Discord {
    pub(crate) host: Host,
    server: Child,
    pub(crate) directory: tempfile::TempDir,
}

impl Discord {
    /// Starts the server; none where that is not possible.
    pub(crate) fn start() -> Self {
        let mut host = Host::new();
        let directory = tempfile::tempdir().unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(directory.path(), mode).unwrap();
        let here = directory.path().display().to_string();
        host.env.push(("DISCORD_PEOPLE".to_owned(), here.clone()));
        // The server ends with its standard input.
        let mut command = host.bare("python3");
        command.arg(SERVER).arg("serve").arg(&here);
        let server = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let discord = Self { host, server, directory };
        wait_for("the stand-in for Discord", || discord.directory.path().join("port").exists().then_some(()));
        discord
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap()
    }

    pub(crate) fn server(&self) -> String {
        format!("http://127.0.0.1:{}", self.read("port"))
    }

    /// Runs the kit.
    pub(crate) fn test(&self) -> Value {
        let settings = json!({ "server": self.server() }).to_string();
        let bridge = program("networks").display().to_string();
        let token = format!("file:{}", self.directory.path().join("token").display());
        let words = ["--network", SERVER, "--settings", &settings, "--chat", DIRECT, "--token", &token];
        kit(&self.host, &words, &[&bridge, "discord"])
    }

    /// Asks or changes something.
    pub(crate) fn asks(&self, what: &Value) -> Value {
        operate(&self.host, SERVER, what)
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
        self.host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "100".to_owned()));
        // Its own, so that a test kills no other's.
        std::fs::copy(program("networks"), self.program()).unwrap();
        let chat = |id: &str, more: &str| {
            format!("[[chats]]\nchannel = \"discord\"\nplatform_id = \"{id}\"\nunknown_senders = \"strict\"\n{more}\n")
        };
        let direct = "[[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"";
        let others = "group = true\n[[chats.wirings]]\nagent = \"main\"\nengage = \"mention\"";
        self.host.apply(&format!(
            "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n[channels.discord]\ntype = \"bridge\"\n\
             command = [\"{}\", \"discord\"]\ntoken = \"file:{}\"\nsettings = {{ server = \"{}\"{settings} }}\n\
             [[users]]\nid = \"discord:{ANN}\"\nroles = [\"owner\"]\n{}{}",
            self.program().display(),
            self.directory.path().join("token").display(),
            self.server(),
            chat(DIRECT, direct),
            chat(GENERAL, others),
        ));
        self.host.start();
        self.up();
    }

    pub(crate) fn up(&self) {
        wait_for("the bridge", || (self.listed()["state"] == "up").then_some(()));
    }

    fn program(&self) -> PathBuf {
        self.directory.path().join("hearth-networks")
    }

    pub(crate) fn listed(&self) -> Value {
        let mut list: Value = serde_json::from_str(&self.host.done(&["channels", "list", "--json"], b"")).unwrap();
        list["channels"].as_array_mut().unwrap().pop().unwrap_or_default()
    }

    /// The processes of the bridge.
    pub(crate) fn running(&self) -> Vec<u32> {
        running(&self.program())
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

impl Drop for Discord {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        self.server.wait().unwrap();
    }
}
