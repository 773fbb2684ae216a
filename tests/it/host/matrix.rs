//! A real Synapse for tests of `hearth-matrix`, on a port of this machine.

use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Mutex;

use serde_json::{Value, json};

use super::bridge_programs::{self, kit};
use super::skipped;
use super::stand_in::StandIn;

const SEALED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/matrix_sealed.py");
const PEOPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/matrix_people.py");

/// A server with people, and an installation.
pub(crate) struct Matrix {
    // Ends before the server.
    sealed: Mutex<Option<SealedPeople>>,
    server: StandIn,
}

/// The program of people with encryption.
struct SealedPeople {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Deref for Matrix {
    type Target = StandIn;

    fn deref(&self) -> &StandIn {
        &self.server
    }
}

impl DerefMut for Matrix {
    fn deref_mut(&mut self) -> &mut StandIn {
        &mut self.server
    }
}

impl Matrix {
    /// Starts the server; none where that is not possible.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// The same, with further words for the script.
    pub(crate) fn start_with(words: &[&str]) -> Option<Self> {
        if !Path::new(env!("CARGO_MANIFEST_DIR")).join("target/synapse/bin/synapse_homeserver").exists() {
            skipped("there is no Synapse (`.ci/synapse.sh` installs it), so `hearth-matrix` is not tested");
            return None;
        }
        Some(Self { sealed: Mutex::new(None), server: StandIn::start(PEOPLE, "MATRIX_PEOPLE", words) })
    }

    /// Runs the kit. The bridge reaches the server through a proxy, which makes faults.
    pub(crate) fn test(&self) -> Value {
        let server = format!("http://127.0.0.1:{}", self.read("proxy"));
        let settings = json!({ "server": server, "invites": "server" });
        self.test_in(&self.read("room"), PEOPLE, &settings, "")
    }

    /// Runs the kit in an encrypted room; only cases whose names contain a text.
    pub(crate) fn test_sealed(&self, room: &str, only: &str) -> Value {
        std::fs::write(self.path("sealed-room"), room).unwrap();
        self.leave();
        self.test_in(room, SEALED, &json!({ "server": self.server() }), only)
    }

    fn test_in(&self, chat: &str, people: &str, settings: &Value, only: &str) -> Value {
        let settings = settings.to_string();
        let bridge = bridge_programs::matrix().display().to_string();
        let token = format!("file:{}", self.path("token-bot").display());
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
        let mut people = self.sealed.lock().unwrap();
        let people = people.get_or_insert_with(|| self.come());
        writeln!(people.child.stdin.as_ref().unwrap(), "{}", json!(words)).unwrap();
        let mut line = String::new();
        people.said.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{words:?}: {error}: {line}"));
        assert_eq!(answer["done"], true, "{words:?}: {answer}");
        answer["said"].as_str().unwrap().trim().to_owned()
    }

    fn come(&self) -> SealedPeople {
        let mut command = self.host.bare("/usr/bin/python3");
        command.args([SEALED, "serve"]).arg(self.directory.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        SealedPeople { child, said }
    }

    /// Another program can be these people now: their keys are in files.
    pub(crate) fn leave(&self) {
        drop(self.sealed.lock().unwrap().take());
    }

    pub(crate) fn people(&self, words: &[&str]) -> String {
        self.operate(&json!({ "words": words })).as_str().unwrap().to_owned()
    }
}

impl Drop for SealedPeople {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}
