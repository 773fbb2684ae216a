//! A stand-in for Slack for tests of `hearth-networks slack`, on a port of this machine.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::bridge_programs::{kit, operate};
use super::{Host, wait_for};

const PEOPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slack_server.py");
/// The direct chat with Ann.
const DIRECT: &str = "D0ANN";

/// A workspace with people, and an installation.
pub(crate) struct Slack {
    pub(crate) host: Host,
    server: Child,
    pub(crate) directory: tempfile::TempDir,
}

impl Slack {
    pub(crate) fn start() -> Self {
        let mut host = Host::new();
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().display().to_string();
        host.env.push(("SLACK_PEOPLE".to_owned(), here.clone()));
        // The server ends with its standard input.
        let mut command = host.bare("python3");
        command.arg(PEOPLE).arg("serve").arg(&here).stdin(Stdio::piped());
        let server = command.spawn().unwrap();
        let slack = Self { host, server, directory };
        wait_for("the stand-in for Slack", || slack.directory.path().join("ready").exists().then_some(()));
        slack
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap()
    }

    pub(crate) fn server(&self) -> String {
        format!("http://127.0.0.1:{}", self.read("port"))
    }

    /// Where a token is.
    pub(crate) fn token(&self, name: &str) -> String {
        format!("file:{}", self.directory.path().join(name).display())
    }

    /// Runs the kit.
    pub(crate) fn test(&self, bridge: &Path) -> Value {
        let settings = json!({ "server": self.server() }).to_string();
        let (token, secret) = (self.token("token-bot"), self.token("token-app"));
        let words =
            ["--network", PEOPLE, "--settings", &settings, "--token", &token, "--secret", &secret, "--chat", DIRECT];
        kit(&self.host, &words, &[&bridge.display().to_string(), "slack"])
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
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.directory.path(), mode).unwrap();
        program
    }
}

impl Drop for Slack {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        self.server.wait().unwrap();
    }
}
