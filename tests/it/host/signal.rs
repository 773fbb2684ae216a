//! A stand-in for signal-cli and Signal for tests of `hearth-networks signal`: `tests/signal_server.py`.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::bridge_programs::{kit, operate};
use super::{Host, wait_for};

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
pub(crate) struct Signal {
    pub(crate) host: Host,
    server: Child,
    pub(crate) directory: tempfile::TempDir,
}

impl Signal {
    pub(crate) fn start() -> Self {
        let mut host = Host::new();
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().display().to_string();
        host.env.push(("SIGNAL_PEOPLE".to_owned(), here.clone()));
        let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(directory.path(), mode(0o755)).unwrap();
        std::fs::copy(PEOPLE, directory.path().join("signal-cli")).unwrap();
        std::fs::set_permissions(directory.path().join("signal-cli"), mode(0o755)).unwrap();
        // The server ends with its standard input.
        let mut command = host.bare("python3");
        command.arg(PEOPLE).arg("serve").arg(&here).stdin(Stdio::piped());
        let server = command.spawn().unwrap();
        let signal = Self { host, server, directory };
        wait_for("the stand-in for signal-cli", || signal.directory.path().join("ready").exists().then_some(()));
        signal
    }

    /// The program `signal-cli` of the stand-in.
    pub(crate) fn cli(&self) -> String {
        self.directory.path().join("signal-cli").display().to_string()
    }

    /// The port of its daemon.
    pub(crate) fn daemon(&self) -> String {
        format!("127.0.0.1:{}", std::fs::read_to_string(self.directory.path().join("port")).unwrap())
    }

    /// Runs the kit.
    pub(crate) fn test(&self, bridge: &Path) -> Value {
        let settings = json!({ "account": NUMBER }).to_string();
        let words = ["--network", PEOPLE, "--settings", &settings, "--chat", ANN];
        kit(&self.host, &words, &[&bridge.display().to_string(), "signal", &self.cli()])
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

impl Drop for Signal {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        self.server.wait().unwrap();
    }
}
