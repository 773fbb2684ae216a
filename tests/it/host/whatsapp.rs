//! A stand-in for WhatsApp's Cloud API for tests of `hearth-networks whatsapp`: `tests/whatsapp_server.py`.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::bridge_programs::{kit, operate};
use super::channels::free_port;
use super::{Host, wait_for};

const PEOPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/whatsapp_server.py");

/// The bot's number, and people of the stand-in; Bob shows no number.
pub(crate) const NUMBER: &str = "106540352242922";
pub(crate) const OTHER: &str = "106540352242923";
pub(crate) const ANN: &str = "15550000001";
pub(crate) const EVE: &str = "15550000002";
pub(crate) const BOB: &str = "US.13491208655302741918";

/// The stand-in, and an installation.
pub(crate) struct WhatsApp {
    pub(crate) host: Host,
    server: Child,
    /// Where the bridge listens.
    pub(crate) port: u16,
    pub(crate) directory: tempfile::TempDir,
}

impl WhatsApp {
    pub(crate) fn start() -> Self {
        let mut host = Host::new();
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().display().to_string();
        host.env.push(("WHATSAPP_PEOPLE".to_owned(), here.clone()));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(directory.path(), mode).unwrap();
        let port = free_port();
        // The server ends with its standard input.
        let mut command = host.bare("python3");
        command.arg(PEOPLE).arg("serve").arg(&here).arg(port.to_string()).stdin(Stdio::piped());
        let server = command.spawn().unwrap();
        let whatsapp = Self { host, server, port, directory };
        wait_for("the stand-in for WhatsApp", || whatsapp.directory.path().join("ready").exists().then_some(()));
        whatsapp
    }

    fn server(&self) -> String {
        format!("http://127.0.0.1:{}", std::fs::read_to_string(self.directory.path().join("port")).unwrap())
    }

    /// The settings of a channel.
    pub(crate) fn settings(&self) -> Value {
        json!({ "server": self.server(), "number": NUMBER, "listen": format!("127.0.0.1:{}", self.port) })
    }

    /// Where a secret is.
    pub(crate) fn secret(&self, name: &str) -> String {
        format!("file:{}", self.directory.path().join(name).display())
    }

    /// Runs the kit.
    pub(crate) fn test(&self, bridge: &Path) -> Value {
        let settings = self.settings().to_string();
        let (token, secret) = (self.secret("token"), self.secret("secret"));
        let words =
            ["--network", PEOPLE, "--settings", &settings, "--token", &token, "--secret", &secret, "--chat", ANN];
        kit(&self.host, &words, &[&bridge.display().to_string(), "whatsapp"])
    }

    /// An operation of the stand-in.
    pub(crate) fn asks(&self, what: &str, with: Value) -> Value {
        let mut asked = with;
        asked["do"] = what.into();
        operate(&self.host, PEOPLE, &asked)
    }

    /// A copy of the program, so that a test kills no other's.
    pub(crate) fn program(&self, built: &Path) -> PathBuf {
        let program = self.directory.path().join("hearth-networks");
        std::fs::copy(built, &program).unwrap();
        program
    }
}

impl Drop for WhatsApp {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        self.server.wait().unwrap();
    }
}
