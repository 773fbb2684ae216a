//! The commands for trusted agents' files, from a caller's view.
#![allow(clippy::disallowed_methods, reason = "a test starts the programs")]

mod addresses;
mod concurrent;
mod daily;
mod discovery;
mod needs;
mod register;
mod skips;
mod status;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A directory with everything that the commands look for.
struct Place {
    dir: tempfile::TempDir,
}

/// The result of a command.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    fn state(&self) -> Value {
        serde_json::from_str(&self.text("session-state.json")).unwrap()
    }

    /// Creates the database as NanoClaw does, with one session.
    fn database(&self) {
        let database = rusqlite::Connection::open(self.path("messages.db")).unwrap();
        let make = "CREATE TABLE sessions (group_folder TEXT NOT NULL, session_name TEXT NOT NULL DEFAULT 'default', \
            session_id TEXT, PRIMARY KEY (group_folder, session_name)); \
            INSERT INTO sessions VALUES ('telegram_swarm', 'default', 'db-session-42')";
        database.execute_batch(make).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Identifies a file and its modification time.
    fn stamp(&self, name: &str) -> (u64, i64, i64) {
        let known = fs::metadata(self.path(name)).unwrap();
        (known.ino(), known.mtime(), known.mtime_nsec())
    }

    /// The command, whose environment has only the locations of its files.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hearth-runner"));
        command.args(words).env_clear().current_dir(self.dir.path());
        for (name, file) in [
            ("NANOCLAW_STATE_PATH", "session-state.json"),
            ("NANOCLAW_STATE_LOCK_PATH", "session-state.json.lock"),
            ("NANOCLAW_SENTINEL", "session_bootstrapped"),
            ("NANOCLAW_MESSAGES_DB", "messages.db"),
            ("NANOCLAW_GROUP_DAILY", "group"),
            ("NANOCLAW_TRUSTED_DAILY", "trusted"),
            ("NANOCLAW_DISCOVERIES_FILE", "daily_discoveries.md"),
            ("USER_PROFILE_PATH", "user_profile.md"),
        ] {
            command.env(name, self.path(file));
        }
        command.env("HEARTH_ROOTS", self.roots());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn roots(&self) -> String {
        let at = |name: &str| self.path(name).display().to_string();
        serde_json::json!({"session": at("session"), "group": self.dir.path(), "home": at("home")}).to_string()
    }

    fn run(&self, words: &[&str], variables: &[(&str, &str)], input: &str) -> Ran {
        let mut command = self.command(words);
        command.envs(variables.iter().copied());
        let mut child = command.spawn().unwrap();
        // A command that does not read its input closes it.
        child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
        child.wait_with_output().unwrap().into()
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// The line of JSON that it printed.
    fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{:?} {:?}", self.out, self.err);
        serde_json::from_str(&self.out).unwrap()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn the_commands_are_named_and_help_is_given() {
    let place = Place::new();
    let ran = place.run(&["register"], &[], "");
    assert_eq!(ran.code, Some(2));
    for command in ["register-session", "needs-bootstrap", "skip", "mute", "append-to-daily-log", "container-uptime"] {
        assert!(ran.err.contains(&format!("`{command}`")), "{}", ran.err);
    }
    for command in ["skip", "mute", "append-to-daily-log", "append-daily-discovery", "migrate-addresses-block"] {
        let ran = place.run(&[command, "--help"], &[], "");
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{command}");
        assert!(ran.out.starts_with("usage: "), "{}", ran.out);
    }
    for help in ["--help", "-h"] {
        let all = place.run(&[help], &[], "");
        assert_eq!((all.code, all.err.as_str()), (Some(0), ""));
        assert!(
            all.out.starts_with("usage: hearth-runner ") && all.out.contains("\n  needs-bootstrap "),
            "{}",
            all.out
        );
    }
    assert!(place.names().is_empty());
}

#[test]
fn a_container_says_how_long_it_runs() {
    let json = Place::new().run(&["container-uptime"], &[], "").json();
    assert_eq!(json.as_object().unwrap().keys().collect::<Vec<_>>(), ["started", "uptime_text"]);
}
