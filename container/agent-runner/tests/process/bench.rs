//! Test bench: a session directory and its runners, with the part of the host that the tests need.

#![expect(clippy::disallowed_methods, reason = "tests start the program and wait for it")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use hearth_wire::{Ack, AckName, AckStatus, Context, InMessage, InName, OutMessage, State};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::python::search_path;

/// Long enough for a slow machine; a passing test never waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

const RUNNER: &str = env!("CARGO_BIN_EXE_hearth-runner");

/// One session on disk.
pub(crate) struct Bench {
    dir: tempfile::TempDir,
    pub(crate) context: Context,
    /// The rules to which runners confine themselves.
    pub(crate) rules: Option<String>,
}

/// A runner that dies with its test.
pub(crate) struct Runner {
    child: Child,
    stderr: PathBuf,
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- stderr of the runner\n{}", self.stderr());
        }
    }
}

impl Runner {
    /// Ends the runner and everything in its group.
    pub(crate) fn kill(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
        self.child.wait().unwrap();
    }

    /// Asks the runner alone to end.
    pub(crate) fn ask_to_stop(&self) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), rustix::process::Signal::TERM)
            .unwrap();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait_for("the runner to end", || self.child.try_wait().unwrap())
    }

    /// Its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Simulates the end of the host: its end of the life pipe closes.
    pub(crate) fn leave(&mut self) {
        drop(self.child.stdin.take());
    }

    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }
}

impl Bench {
    pub(crate) fn new(provider: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let session = dir.path().join("session");
        for part in ["host/in/files", "host/reply", "agent/ack", "agent/out/files"] {
            fs::create_dir_all(session.join(part)).unwrap();
        }
        for part in ["group", "home"] {
            fs::create_dir(dir.path().join(part)).unwrap();
        }
        let context = serde_json::from_value(json!({
            "v": 1, "version": 1, "install": "test", "session": "se1", "agent": "andy", "agent_name": "Andy",
            "incarnation": 1, "session_name": "default", "provider": {"name": provider},
            "reply": {"channel": "terminal", "platform_id": "main"},
            "destinations": [{"name": "family", "type": "channel", "channel": "telegram", "platform_id": "-5"}],
            "timezone": "UTC", "next_number": 1,
            "limits": {"max_prompt_messages": 10, "max_json_bytes": 1_048_576, "max_file_bytes": 1_000_000},
        }))
        .unwrap();
        let bench = Self { dir, context, rules: None };
        bench.publish();
        bench
    }

    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.dir.path().join(inside)
    }

    pub(crate) fn session(&self, inside: &str) -> PathBuf {
        self.dir.path().join("session").join(inside)
    }

    /// Ends turns that wait for the file `go`: those with `!until go`, or with a tool made by [`until_go`].
    pub(crate) fn go(&self) {
        fs::write(self.path("group/go"), "").unwrap();
    }

    /// Writes the current context.
    pub(crate) fn publish(&self) {
        self.place("host/context.json", &self.context);
    }

    /// Does what the host does when an incarnation is gone: permits the next one, with numbers above all used ones.
    pub(crate) fn next_incarnation(&mut self) {
        self.context.incarnation += 1;
        self.context.version += 1;
        let used = self.all_outs().values().map(|out| out.number).max().unwrap_or(0);
        let seqs =
            names(&self.session("host/in")).iter().filter_map(|name| InName::parse(name)).map(|name| name.seq).max();
        let seqs = seqs.unwrap_or(0);
        self.context.next_number = (used.max(seqs) + 1) | 1;
        self.publish();
    }

    pub(crate) fn say(&self, seq: u64, text: &str) {
        self.message(seq, true, text);
    }

    pub(crate) fn message(&self, seq: u64, trigger: bool, text: &str) {
        self.put(seq, trigger, json!({"text": text, "sender": "Ann", "senderId": "terminal:1"}));
    }

    pub(crate) fn message_with(&self, seq: u64, content: &Value) {
        self.put(seq, true, content.clone());
    }

    fn put(&self, seq: u64, trigger: bool, content: Value) {
        let message = InMessage {
            v: 1,
            seq,
            id: format!("ms{seq}"),
            kind: "chat".to_owned(),
            trigger,
            timestamp: "2026-01-02T03:04:05.000Z".to_owned(),
            unknown_sender: false,
            reply: None,
            content,
        };
        self.place(&format!("host/in/{}", InName { seq }), &message);
    }

    pub(crate) fn place<T: Serialize>(&self, inside: &str, value: &T) {
        self.place_bytes(inside, &serde_json::to_vec(value).unwrap());
    }

    pub(crate) fn place_bytes(&self, inside: &str, bytes: &[u8]) {
        let path = self.session(inside);
        let temporary = path.with_file_name(".tmp-test");
        fs::write(&temporary, bytes).unwrap();
        fs::rename(temporary, path).unwrap();
    }

    pub(crate) fn start(&self) -> Runner {
        self.start_with(|_| {})
    }

    /// Starts the runner of the context's incarnation in its own group, with only PATH from the test's environment.
    pub(crate) fn start_with(&self, adapt: impl FnOnce(&mut Command)) -> Runner {
        let mut command = Command::new(RUNNER);
        command.stdin(Stdio::null());
        self.spawn(command, adapt)
    }

    /// Starts it as the daemon does: descriptor 3 is a pipe whose other end the host holds, descriptor 4 is a lock.
    pub(crate) fn start_under_host(&self) -> Runner {
        self.start_other(RUNNER)
    }

    /// Starts another program instead of the runner, with the same descriptors.
    pub(crate) fn start_other(&self, program: &str) -> Runner {
        fs::write(self.path("lock"), "").unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "exec 3<&0 0</dev/null 4<\"$LOCK\" && exec \"$0\"", program]).stdin(Stdio::piped());
        self.spawn(command, |command| {
            command.env("LOCK", self.path("lock")).env("HEARTH_LIFE_FD", "3").env("HEARTH_LOCK_FD", "4");
        })
    }

    fn spawn(&self, mut command: Command, adapt: impl FnOnce(&mut Command)) -> Runner {
        let roots = json!({"session": self.path("session"), "group": self.path("group"), "home": self.path("home")});
        let stderr = self.path(&format!("stderr-{}", self.context.incarnation));
        let log = fs::File::options().create(true).append(true).open(&stderr).unwrap();
        command.env_clear().env("PATH", search_path());
        command.env("HEARTH_ROOTS", roots.to_string());
        command.env("HEARTH_INCARNATION", self.context.incarnation.to_string());
        command.envs(self.rules.iter().map(|rules| ("HEARTH_CONFINE", rules)));
        command.stdout(Stdio::null()).stderr(log).process_group(0);
        adapt(&mut command);
        Runner { child: command.spawn().unwrap(), stderr }
    }

    pub(crate) fn acks(&self) -> BTreeMap<String, Ack> {
        self.read_all("agent/ack", |name| AckName::parse(name).is_some())
    }

    /// What the agent wrote, without the record of its tool calls.
    pub(crate) fn outs(&self) -> BTreeMap<String, OutMessage> {
        let mut outs = self.all_outs();
        outs.retain(|_, out| out.content["action"] != "tool_calls");
        outs
    }

    /// The tool calls that were reported.
    pub(crate) fn calls(&self) -> Vec<serde_json::Value> {
        let reports = self.all_outs().into_values().filter(|out| out.content["action"] == "tool_calls");
        reports.flat_map(|out| out.content["calls"].as_array().unwrap().clone()).collect()
    }

    fn all_outs(&self) -> BTreeMap<String, OutMessage> {
        self.read_all("agent/out", |name| name.ends_with(".json") && !name.starts_with('.'))
    }

    /// Texts that were sent at once.
    pub(crate) fn said_at_once(&self) -> Vec<String> {
        let said = self.outs().into_values().filter(|out| !out.is_final);
        said.map(|out| out.content["text"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn state(&self) -> Option<State> {
        self.read("agent/state.json")
    }

    pub(crate) fn read<T: DeserializeOwned>(&self, inside: &str) -> Option<T> {
        let bytes = fs::read(self.session(inside)).ok()?;
        Some(serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{inside}: {error}")))
    }

    /// The acks that end messages.
    pub(crate) fn ends(&self) -> Vec<Ack> {
        self.acks().into_values().filter(|ack| ack.status != AckStatus::Processing).collect()
    }

    /// Waits for the end of a message in any incarnation, alone or with others.
    pub(crate) fn ended(&self, seq: u64) -> Ack {
        wait_for(&format!("the end of message {seq}"), || {
            self.ends().into_iter().find(|ack| ack.seq == seq || ack.ends.contains(&seq))
        })
    }

    /// The contents of the answers that the ack names, in order.
    pub(crate) fn answers(&self, ack: &Ack) -> Vec<Value> {
        let outs = self.outs();
        ack.out.iter().map(|id| outs[&id.file_name()].content.clone()).collect()
    }

    /// The texts of the answers that the end of a message names.
    pub(crate) fn texts(&self, seq: u64) -> Vec<String> {
        let ack = self.ended(seq);
        self.answers(&ack).iter().map(|content| content["text"].as_str().unwrap().to_owned()).collect()
    }

    fn read_all<T: DeserializeOwned>(&self, inside: &str, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, T> {
        let read = |name: String| self.read(&format!("{inside}/{name}")).map(|value| (name, value));
        names(&self.session(inside)).into_iter().filter(|name| wanted(name)).filter_map(read).collect()
    }
}

/// A shell command that creates a file when it begins, and ends when there is a file `go`, or when its directory was
/// removed: a shell outlives a runner that is killed.
pub(crate) fn until_go(begun: &str) -> String {
    format!("touch {begun}; while [ -e {begun} ] && [ ! -e go ]; do sleep 0.05; done")
}

/// A variable of the tests' own environment.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Names in a directory, sorted.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Polls until there is a result.
pub(crate) fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
