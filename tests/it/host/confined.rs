//! A data directory with an agent in Python that the kernel confines.

use std::path::PathBuf;
use std::process::{Command, Output};

use super::{CHAT, Host, skipped};
use crate::world::open;

/// Whether this kernel can confine agents; reports a skipped test if not.
pub(crate) fn possible() -> bool {
    match agent_runner::confine::support() {
        Ok(_) => true,
        Err(why) => {
            skipped(why);
            false
        }
    }
}

/// A data directory, with a home of the user beside it.
pub(crate) struct Setup {
    directory: tempfile::TempDir,
}

impl Setup {
    pub(crate) fn new() -> Self {
        let setup = Self { directory: tempfile::tempdir().unwrap() };
        std::fs::create_dir(setup.path("user")).unwrap();
        std::fs::write(setup.path("user/key"), "the user's key").unwrap();
        setup
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn hearth(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
        command.env_clear().env("PATH", super::search_path()).env("HOME", self.path("user"));
        command.env("XDG_RUNTIME_DIR", self.path("user")).env("SECRET", "of the daemon");
        let roots = self.path("user/roots.pem");
        if roots.is_file() {
            command.env("HEARTH_TEST_ROOTS", roots);
        }
        command.args(["--data", self.path("data").to_str().unwrap()]).args(words).output().unwrap()
    }

    /// Creates an agent `py` that runs this program text, which defines `answer(text)`. Returns the agent's answer to
    /// `say`.
    pub(crate) fn ask(&self, settings: &str, program: &str, say: &str) -> String {
        self.make(settings, program);
        let output = self.hearth(&["chat", "--agent", "py", say]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn make(&self, settings: &str, program: &str) {
        let group = self.path("data/groups/py");
        std::fs::create_dir_all(&group).unwrap();
        for closed in [self.path("data"), self.path("data/groups"), group.clone()] {
            std::fs::set_permissions(closed, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        }
        std::fs::write(group.join("agent.py"), format!("{PROTOCOL}\n{program}\nmain()\n")).unwrap();
        let toml = format!(
            "schema = 1\n[[agents]]\nfolder = \"py\"\nprovider = \"command\"\ncommand = [\"python3\", \"agent.py\"]\n{settings}\n"
        );
        std::fs::write(self.path("hearth.toml"), open(&toml)).unwrap();
        let output = self.hearth(&["apply", "--new", self.path("hearth.toml").to_str().unwrap()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A host whose agent `main` runs this program text, which defines `answer(text)`. Its owner is at the terminal of this
/// machine. `None` where agents get no network of their own.
pub(crate) fn host_with(settings: &str, program: &str) -> Option<Host> {
    if !possible() {
        return None;
    }
    let mut host = Host::new();
    let doctor = host.run(&["doctor", "--offline"], b"");
    if doctor.stdout.contains("install bubblewrap") {
        skipped("there is no bubblewrap that works");
        return None;
    }
    host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "10".to_owned()));
    let group = host.data().join("groups/main");
    std::fs::create_dir_all(&group).unwrap();
    std::fs::write(group.join("agent.py"), format!("{PROTOCOL}\n{program}\nmain()\n")).unwrap();
    let uid = rustix::process::geteuid().as_raw();
    host.apply(&format!(
        "schema = 1\n[[agents]]\nfolder = \"main\"\ntrust = \"trusted\"\nprovider = \"command\"\n\
         command = [\"python3\", \"agent.py\"]\n{settings}\n[[users]]\nid = \"terminal:{uid}\"\nroles = [\"owner\"]\n{CHAT}"
    ));
    Some(host)
}

pub(crate) const PROTOCOL: &str = r#"
import json, os, socket, subprocess, sys, tempfile, time
def tried(what, *arguments, **named):
    try:
        what(*arguments, **named)
        return "DONE"
    except OSError as error:
        # Refused, or, in a mount view, not there at all.
        return "forbidden" if error.errno in (1, 2, 3, 13, 18, 30) else repr(error)
def main():
    for line in sys.stdin:
        turn = json.loads(line)
        if turn["type"] == "turn":
            text = answer(turn["messages"][-1]["content"]["text"])
            print(json.dumps({"type": "say", "text": text}))
            print(json.dumps({"type": "done"}), flush=True)
"#;
