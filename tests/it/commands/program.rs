//! The program with a data directory of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hearth::state::{Error, Options, Store, Tables, Write};

/// A data directory, and the program that runs on it.
pub(super) struct Program {
    dir: tempfile::TempDir,
}

/// The output of a command.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
}

/// A running daemon; it is stopped when this is dropped.
pub(super) struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Program {
    /// With a store that has no rows yet.
    pub(super) fn new() -> Self {
        let program = Self::before_the_first_start();
        let options = hearth::state::Options::new(hearth::clock::random().unwrap());
        drop(hearth::state::Store::open(&program.data(), options).unwrap());
        program
    }

    /// Without a data directory.
    pub(super) fn before_the_first_start() -> Self {
        Self { dir: crate::world::directory() }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Puts rows into the store, which no program may use meanwhile.
    pub(super) fn write(&self, work: impl FnOnce(&Tables, &mut Write<'_>) -> Result<(), Error>) {
        let options = Options { reserve_bytes: 0, ..Options::new(1) };
        Store::open(&self.data(), options).unwrap().write(work).unwrap();
    }

    pub(super) fn has_store(&self) -> bool {
        self.data().exists()
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    pub(super) fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(Path::new(&path), text).unwrap();
        path
    }

    /// A command that inherits only the search path from the test's environment, and never uses Podman.
    #[expect(clippy::disallowed_methods, reason = "the program itself is tested")]
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("HEARTH_DATA", self.data())
            .env("XDG_RUNTIME_DIR", self.dir.path().join("run"))
            .env("CONTAINER_HOST", format!("unix://{}", self.path("no-podman.sock")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Removes the owner that the first start of a daemon creates.
    pub(super) fn remove_local_owner(&self) {
        let user = format!("terminal:{}", rustix::process::getuid().as_raw());
        let told = self.run(&["users", "remove", &user, "--force"]);
        assert_eq!(told.code, 0, "{told:?}");
    }

    pub(super) fn run(&self, args: &[&str]) -> Told {
        self.run_with(args, "")
    }

    pub(super) fn run_with(&self, args: &[&str], input: &str) -> Told {
        let mut child = self.command(args).spawn().unwrap();
        // A command that does not read its input may have ended.
        drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
        let done = child.wait_with_output().unwrap();
        Told {
            code: done.status.code().unwrap(),
            out: String::from_utf8(done.stdout).unwrap(),
            err: String::from_utf8(done.stderr).unwrap(),
        }
    }

    /// Starts a daemon and waits until it says that it runs.
    pub(super) fn daemon(&self) -> Daemon {
        let mut child = self.command(&["run", "--runtime", "process"]).spawn().unwrap();
        let err = BufReader::new(child.stderr.take().unwrap());
        let daemon = Daemon(child);
        let (ready, waiting) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // Read to the end, so that the daemon never waits for a reader.
            for line in err.lines().map_while(Result::ok) {
                if line.contains("hearth is running") {
                    ready.send(()).ok();
                }
            }
        });
        waiting.recv_timeout(crate::host::PATIENCE).unwrap();
        daemon
    }

    /// Repeats a command until its JSON is as expected.
    pub(super) fn wait_for(&self, args: &[&str], expected: impl Fn(&serde_json::Value) -> bool) {
        let mut last = None;
        for _ in 0..1_200 {
            let told = self.run(args);
            if serde_json::from_str(&told.out).is_ok_and(|json| expected(&json)) {
                return;
            }
            last = Some(told);
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{args:?} never said what was expected: {last:?}");
    }
}

/// A text without the parts that differ between runs: times, and the user who runs the tests.
pub(super) fn masked(text: &str) -> String {
    let times =
        regex::Regex::new(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{3}Z)?( \((now|in \d+ \w+|\d+ \w+ ago)\))?").unwrap();
    let users = regex::Regex::new(r"terminal:\d+").unwrap();
    let typed = regex::Regex::new(r"tty-[0-9a-f]{16}").unwrap();
    let text = times.replace_all(text, "<time>");
    let text = typed.replace_all(&text, "tty-<id>");
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    users.replace_all(&lines.join("\n"), "terminal:<uid>").into_owned()
}
