//! A real Synapse for tests of `hearth-matrix`, on a port of this machine.

use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::bridge_programs::{self, kit};
use super::{Host, skipped, wait_for};
use crate::world::directory;

const SEALED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/matrix_sealed.py");
const PEOPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/matrix_people.py");

/// A server with people, and an installation.
pub(crate) struct Matrix {
    pub(crate) host: Host,
    server: Child,
    pub(crate) directory: tempfile::TempDir,
}

impl Matrix {
    /// Starts the server; none where that is not possible.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// The same, with further words for the script.
    pub(crate) fn start_with(words: &[&str]) -> Option<Self> {
        let mut host = Host::new();
        if !Path::new(env!("CARGO_MANIFEST_DIR")).join("target/synapse/bin/synapse_homeserver").exists() {
            skipped("there is no Synapse (`.ci/synapse.sh` installs it), so `hearth-matrix` is not tested");
            return None;
        }
        let directory = directory();
        let here = directory.path().display().to_string();
        host.env.push(("MATRIX_PEOPLE".to_owned(), here.clone()));
        // The server ends with its standard input.
        let mut command = host.bare("python3");
        command.arg(PEOPLE).arg("serve").arg(&here).args(words);
        let server = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let matrix = Self { host, server, directory };
        wait_for("Synapse", || matrix.directory.path().join("ready").exists().then_some(()));
        Some(matrix)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap()
    }

    pub(crate) fn server(&self) -> String {
        format!("http://127.0.0.1:{}", self.read("port"))
    }

    /// Runs the kit.
    pub(crate) fn test(&self) -> Value {
        self.test_in(&self.read("room"), PEOPLE, "")
    }

    /// Runs the kit in an encrypted room; only cases whose names contain a text.
    pub(crate) fn test_sealed(&self, room: &str, only: &str) -> Value {
        std::fs::write(self.directory.path().join("sealed-room"), room).unwrap();
        self.test_in(room, SEALED, only)
    }

    fn test_in(&self, chat: &str, people: &str, only: &str) -> Value {
        let settings = json!({ "server": self.server() }).to_string();
        let bridge = bridge_programs::matrix().display().to_string();
        let token = format!("file:{}", self.directory.path().join("token-bot").display());
        let words = ["--network", people, "--settings", &settings, "--chat", chat, "--only", only, "--token", &token];
        kit(&self.host, &words, &[&bridge])
    }

    /// Starts the server for people with encryption; none where that is not possible.
    pub(crate) fn start_sealed() -> Option<Self> {
        let matrix = Self::start()?;
        if matrix.host.bare("/usr/bin/python3").args(["-c", "import nio, olm"]).output().unwrap().status.success() {
            return Some(matrix);
        }
        skipped("there is no matrix-nio (Debian's python3-matrix-nio), so encrypted rooms of Matrix are not tested");
        None
    }

    /// Lets a person with encryption do something.
    pub(crate) fn sealed(&self, words: &[&str]) -> String {
        let done = self.host.bare("/usr/bin/python3").arg(SEALED).args(words).output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    pub(crate) fn people(&self, words: &[&str]) -> String {
        let done = self.host.bare("python3").arg(PEOPLE).args(words).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }
}

impl Drop for Matrix {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        self.server.wait().unwrap();
    }
}
