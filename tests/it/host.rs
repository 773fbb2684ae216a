//! A host of real processes: a separate data directory, the daemon that runs on it, and the commands that people type.
//!
//! Nothing sleeps for a fixed time: every condition is polled, and a timeout fails the test.

pub(crate) mod agents;
pub(crate) mod beside;
pub(crate) mod bridge_programs;
pub(crate) mod channels;
pub(crate) mod chaos;
pub(crate) mod confined;
pub(crate) mod deaths;
pub(crate) mod discord;
pub(crate) mod disk;
pub(crate) mod documents;
pub(crate) mod echo_host;
pub(crate) mod fake_api;
pub(crate) mod fake_llm;
pub(crate) mod fake_telegram;
pub(crate) mod installed;
pub(crate) mod keys;
pub(crate) mod mail;
pub(crate) mod matrix;
pub(crate) mod pty;
pub(crate) mod python;
pub(crate) mod raw;
pub(crate) mod signal;
pub(crate) mod slack;
pub(crate) mod stand_in;
pub(crate) mod telegram;
pub(crate) mod terminal;
pub(crate) mod webhook;
pub(crate) mod whatsapp;
pub(crate) mod whatsapp_linked;

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant, SystemTime};

use hearth::runtime::process::Sandbox;
use hearth::state::check::check_in_parts;
use hearth::state::dump::{Format, Options, dump};
use hearth::state::{self, Reader, Store};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::world::{directory, open};
pub(crate) use python::search_path;

/// Longest wait for any condition; a machine under load is slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Time between the first two polls of a condition. It grows: most things happen soon, and reading the store takes
/// processor time from the programs under test.
const FIRST_LOOK: Duration = Duration::from_millis(2);
/// Longest time between two polls.
const LAST_LOOK: Duration = Duration::from_millis(25);
/// Longest rest after a look that took long itself.
const LOOK_REST: Duration = Duration::from_millis(500);
/// The daemon's log line when it serves.
const RUNNING: &str = "hearth is running";

/// A data directory and the processes that run on it. Everything ends when this is dropped.
pub(crate) struct Host {
    /// Dropped before its directory.
    daemon: Option<Running>,
    /// Variables of every process, in addition to those that are always set.
    pub(crate) env: Vec<(String, String)>,
    /// Where its daemons run agents. Where there is Podman they would choose containers.
    pub(crate) runtime: &'static str,
    dir: tempfile::TempDir,
}

/// The exit status and the output of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A running process.
pub(crate) struct Running {
    child: Child,
    stdout: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
}

impl Host {
    /// With a store that has no rows yet, as commands need it.
    pub(crate) fn new() -> Self {
        let host = Self::before_the_first_start();
        host.create_store();
        host
    }

    /// Creates a store without rows, unless one exists.
    pub(crate) fn create_store(&self) {
        drop(Store::open(&self.data(), state::Options::new(hearth::clock::random().unwrap())).unwrap());
    }

    /// The same on a disk, where it matters that this is no directory of the system, as all below `/dev` are.
    pub(crate) fn on_disk() -> Self {
        let host = Self::within(tempfile::Builder::new().prefix("hearth-").tempdir().unwrap());
        host.create_store();
        host
    }

    /// Without a data directory.
    pub(crate) fn before_the_first_start() -> Self {
        Self::within(directory())
    }

    fn within(dir: tempfile::TempDir) -> Self {
        let runtime = dir.path().join("runtime");
        std::fs::create_dir(&runtime).unwrap();
        std::fs::set_permissions(&runtime, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        Self { dir, env: Vec::new(), runtime: "process", daemon: None }
    }

    /// With the chat `telegram/123`, open to everyone, wired to the agent `main`, which is described by `agent`.
    pub(crate) fn with_agent(agent: &str) -> Self {
        let host = Self::new();
        host.apply(&with_chat(agent));
        host
    }

    /// The same with an agent that is this Python program, without confinement.
    pub(crate) fn with_program(program: &str) -> Self {
        let host = Self::new();
        let path = host.path("agent.py");
        std::fs::write(&path, program).unwrap();
        let command = format!("command = [\"python3\", {:?}]", path.display());
        host.apply(&with_chat(&format!("provider = \"command\"\n{command}\nunconfined = true")));
        host
    }

    /// With a public chat and an agent that echoes.
    pub(crate) fn with_echo() -> Self {
        Self::with_agent("provider = \"echo\"")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// A command of `hearth` on this data directory that inherits only the search path from the test's environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bare(env!("CARGO_BIN_EXE_hearth"));
        command.args(arguments).arg("--data").arg(self.data());
        command
    }

    /// A program with this host's environment.
    pub(crate) fn bare(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", search_path());
        command.env("HOME", self.dir.path()).env("XDG_RUNTIME_DIR", self.path("runtime"));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str], input: &[u8]) -> Ended {
        Running::start(self.command(arguments), input).end()
    }

    /// Runs a command that must succeed, and returns its standard output.
    pub(crate) fn done(&self, arguments: &[&str], input: &[u8]) -> String {
        let ended = self.run(arguments, input);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:#?}");
        ended.stdout
    }

    /// Applies a file. Its agents reach everything unless it says otherwise, as tests of other things need.
    pub(crate) fn apply(&self, toml: &str) {
        self.done(&["apply", "--no-owner", "-"], open(toml).as_bytes());
    }

    /// Injects one message of the chat `telegram/123` and returns its outcome.
    pub(crate) fn inject(&self, id: &str, text: &str) -> Value {
        let line = self.done(&["inject", "--json"], event(id, text).to_string().as_bytes());
        serde_json::from_str(&line).unwrap()
    }

    /// Starts a daemon and waits until it serves.
    pub(crate) fn start(&mut self) {
        self.start_with(&[]);
    }

    /// The same with further arguments.
    pub(crate) fn start_with(&mut self, arguments: &[&str]) {
        self.launch_with(arguments);
        let daemon = self.daemon.as_mut().unwrap();
        wait_for("the daemon to serve", || {
            if let Some(status) = daemon.try_end() {
                panic!("the daemon ended with {status}: {}", daemon.stderr());
            }
            daemon.serves().then_some(())
        });
    }

    /// Starts a daemon and waits for nothing.
    pub(crate) fn launch(&mut self) {
        self.launch_with(&[]);
    }

    fn launch_with(&mut self, arguments: &[&str]) {
        assert!(self.daemon.is_none(), "a daemon is running");
        self.require_confinement();
        let arguments = [&["run", "--runtime", self.runtime], arguments].concat();
        self.daemon = Some(Running::start(self.command(&arguments), b""));
    }

    /// Fails at once if none of these agents could start, instead of after a long wait for their answers.
    fn require_confinement(&self) {
        static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| Sandbox::find(search_path().as_ref(), &[]));
        if let ("process", Sandbox::Missing { why, mend, root: true }) = (self.runtime, &*SANDBOX)
            && self.data().exists()
            && self.rows("agents").iter().any(|agent| agent["value"]["settings"]["unconfined"] == false)
        {
            panic!("this test needs confined agents: {why}; {mend}");
        }
    }

    /// The daemon that was started last, unless it has been reaped.
    pub(crate) fn daemon(&mut self) -> Option<&mut Running> {
        self.daemon.as_mut()
    }

    /// Kills the daemon at once, as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.daemon.take().expect("no daemon was started").signal(Signal::KILL).end();
    }

    /// Waits until the daemon ended on its own.
    pub(crate) fn ended(&mut self) -> Ended {
        self.daemon.take().expect("no daemon was started").end()
    }

    /// Asks the daemon to stop and waits for its end. A daemon that does not serve yet would be killed by the signal.
    pub(crate) fn stop(&mut self) -> Ended {
        let mut daemon = self.daemon.take().expect("no daemon was started");
        wait_for("the daemon to serve or end", || (daemon.serves() || daemon.try_end().is_some()).then_some(()));
        daemon.signal(Signal::TERM).end()
    }

    /// Rows of a table with their texts.
    ///
    /// This does what `hearth-dump` does, without the cost of a process, because it is called repeatedly.
    pub(crate) fn rows(&self, table: &str) -> Vec<Value> {
        rows_of(&self.data(), table)
    }

    /// Rows of what has not ended well, for the message of a test that waits for it.
    pub(crate) fn unfinished(&self) -> String {
        let open = |table: &str| -> Vec<String> {
            let rows = self.rows(table).into_iter().map(|row| row.to_string());
            rows.filter(|row| !["Delivered", "Completed", "Closed"].iter().any(|end| row.contains(end))).collect()
        };
        format!("{:#?}", ["messages", "outbound", "incarnations", "bridges"].map(open))
    }

    /// `hearth-dump` on this data directory.
    pub(crate) fn dump(&self, arguments: &[&str]) -> Ended {
        let mut command = self.bare(env!("CARGO_BIN_EXE_hearth-dump"));
        command.arg(self.data()).args(arguments);
        Running::start(command, b"").end()
    }

    /// Outgoing messages, in order, without the runner's reports of tool calls.
    pub(crate) fn outgoing(&self) -> Vec<Value> {
        let is_report = |row: &Value| row["value"]["content"].to_string().contains("\"tool_calls");
        self.rows("outbound").into_iter().filter(|row| !is_report(row)).collect()
    }

    pub(crate) fn said(&self) -> Vec<String> {
        self.outgoing().iter().map(|row| row["value"]["text"].as_str().unwrap().to_owned()).collect()
    }

    /// State of a stored message, found by its platform id: its name, or the name with its content.
    pub(crate) fn states(&self) -> Vec<Value> {
        self.rows("messages").into_iter().map(|mut row| row["value"]["state"].take()).collect()
    }

    /// Waits for this number of outgoing messages and returns their texts.
    pub(crate) fn wait_said(&self, count: usize) -> Vec<String> {
        wait_for(&format!("{count} outgoing messages"), || Some(self.said()).filter(|said| said.len() >= count))
    }

    /// Waits until every message has ended.
    pub(crate) fn wait_settled(&self) {
        let open = |state: &Value| state.get("Completed").or(state.get("Failed")).or(state.get("Dropped")).is_none();
        let mut look = || (!self.states().iter().any(open)).then_some(());
        wait_for_or("every message to end", &mut look, || {
            format!("{:?}; incarnations {:?}", self.states(), self.rows("incarnations"))
        });
    }

    /// Ends turns of the agent `main` that wait for its file `go`, such as those of `!until go`.
    pub(crate) fn go(&self) {
        let folder = self.data().join("groups/main");
        wait_for("the agent's directory", || folder.is_dir().then_some(()));
        std::fs::write(folder.join("go"), b"").unwrap();
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.done(&["status", "--json"], b"")).unwrap()
    }

    /// Asserts that the store is consistent: `hearth check` finds nothing.
    pub(crate) fn check(&self) {
        let violations = check_in_parts(&Reader::open(&self.data()).unwrap()).unwrap();
        assert!(violations.is_empty(), "{violations:#?}");
    }
}

/// Rows of a table in a data directory, with their texts.
pub(crate) fn rows_of(data: &Path, table: &str) -> Vec<Value> {
    let options = Options { format: Format::Json, table: Some(table.to_owned()), bodies: true };
    let mut text = Vec::new();
    let summary = dump(&Reader::open(data).unwrap(), &options, &mut text).unwrap();
    assert_eq!(summary.unreadable, 0, "{table}");
    String::from_utf8(text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A chat that everyone may write to, and whose messages all start turns of the agent `main`.
pub(crate) const CHAT: &str = r#"
[[chats]]
channel = "telegram"
platform_id = "123"
unknown_senders = "public"
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
"#;

macro_rules! terminal {
    () => {
        r#"
schema = 1
[[agents]]
folder = "main"
provider = "echo"
[[chats]]
channel = "terminal"
platform_id = "main"
unknown_senders = "public"
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
"#
    };
}

/// The terminal's chat, whose messages all start turns of the agent `main`, which echoes: answers are really delivered.
pub(crate) const TERMINAL: &str = terminal!();

/// The same, with a chat whose unknown senders need an approval.
pub(crate) const HOUSE: &str = concat!(
    terminal!(),
    r#"
[[chats]]
channel = "telegram"
platform_id = "room"
group = true
unknown_senders = "request_approval"
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
"#
);

/// A configuration with the public chat and its agent.
pub(crate) fn with_chat(agent: &str) -> String {
    format!("schema = 1\n[[agents]]\nfolder = \"main\"\n{agent}\n{CHAT}")
}

/// An inbound event of the chat `telegram/123`.
pub(crate) fn event(id: &str, text: &str) -> Value {
    json!({
        "channelType": "telegram", "platformId": "123",
        "message": {"id": id, "kind": "chat", "content": {"text": text, "senderId": "9", "senderName": "Ann"}},
    })
}

impl Running {
    /// Starts a program, writes its whole input, and collects its output.
    pub(crate) fn start(command: Command, input: &[u8]) -> Self {
        let mut running = Self::start_open(command);
        let mut stdin = running.child.stdin.take().unwrap();
        let input = input.to_vec();
        // A program that does not read its input may close it.
        std::thread::spawn(move || stdin.write_all(&input).ok());
        running
    }

    /// Starts a program whose input stays open: write with [`Self::type_line`].
    pub(crate) fn start_open(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = gather(child.stdout.take().unwrap());
        let stderr = gather(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    pub(crate) fn type_line(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    pub(crate) fn close_input(&mut self) {
        self.child.stdin = None;
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(mut self, signal: Signal) -> Self {
        // A process that has ended needs no kill, and its number may belong to another process.
        if self.try_end().is_none() {
            kill_process(self.pid(), signal).ok();
        }
        self
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout.lock().unwrap()).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().unwrap()).into_owned()
    }

    /// Whether it has reported that it serves.
    fn serves(&self) -> bool {
        self.stderr().contains(RUNNING)
    }

    /// Its exit status, if it has ended.
    pub(crate) fn try_end(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for its end and for all of its output.
    pub(crate) fn end(self) -> Ended {
        self.end_within(PATIENCE)
    }

    /// The same for a program that takes longer than others.
    pub(crate) fn end_within(mut self, patience: Duration) -> Ended {
        self.close_input();
        let (begin, mut pace) = (Instant::now(), FIRST_LOOK);
        let status = loop {
            if let Some(status) = self.try_end() {
                break status;
            }
            assert!(
                begin.elapsed() < patience,
                "a program does not end; so far it said\n{}\n{}",
                self.stdout(),
                self.stderr()
            );
            rest(&mut pace);
        };
        // A process that inherited its output may live on; the output is complete when both streams are idle.
        wait_for("the output", || {
            (Arc::strong_count(&self.stdout) == 1 && Arc::strong_count(&self.stderr) == 1).then_some(())
        });
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        Ended { code: status.code(), signal, stdout: self.stdout(), stderr: self.stderr() }
    }

    /// Waits for a text on its standard output.
    pub(crate) fn wait_stdout(&mut self, text: &str) {
        let mut looks = || self.stdout().contains(text).then_some(());
        wait_for_or(&format!("{text:?} on standard output"), &mut looks, || {
            format!("{}\n{}", self.stdout(), self.stderr())
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // In most cases it has already ended.
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            eprintln!("--- a program said\n{}\n{}", self.stdout(), self.stderr());
        }
    }
}

/// Collects a stream; the collecting thread gives up its handle at the end of the stream.
fn gather(stream: impl Read + Send + 'static) -> Arc<Mutex<Vec<u8>>> {
    let said = Arc::new(Mutex::new(Vec::new()));
    let gathered = Arc::clone(&said);
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        loop {
            let read = match reader.fill_buf() {
                Ok([]) | Err(_) => return,
                Ok(bytes) => {
                    gathered.lock().unwrap().extend_from_slice(bytes);
                    bytes.len()
                }
            };
            reader.consume(read);
        }
    });
    said
}

/// Polls until there is a result; fails after the time limit.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    wait_for_or(what, &mut look, String::new)
}

pub(crate) fn wait_for_or<T>(what: &str, look: &mut dyn FnMut() -> Option<T>, detail: impl Fn() -> String) -> T {
    let (begin, mut pace) = (Instant::now(), FIRST_LOOK);
    loop {
        let looked = Instant::now();
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "{what}: waited for {PATIENCE:?} in vain; {}", detail());
        // A look may start a program or read a store: what is waited for needs most of the processor.
        std::thread::sleep((looked.elapsed() * 2).min(LOOK_REST));
        rest(&mut pace);
    }
}

/// Waits until the next poll.
fn rest(pace: &mut Duration) {
    std::thread::sleep(*pace);
    *pace = (*pace * 5 / 4).min(LAST_LOOK);
}

/// A Python program that gets the environment of this test.
pub(crate) fn python() -> Command {
    let mut command = Command::new("python3");
    command.env("PATH", search_path());
    command
}

/// Reports that a test is skipped because this machine lacks something. Output of a passing test is not shown, so
/// `.ci/run` names a file that collects the skipped tests.
pub(crate) fn skipped(why: impl std::fmt::Display) {
    eprintln!("SKIPPED: {why}");
    let list = std::env::var_os("HEARTH_TEST_LEFT_OUT").map(|list| std::fs::OpenOptions::new().append(true).open(list));
    if let Some(Ok(mut list)) = list {
        list.write_all(format!("SKIPPED: {why}\n").as_bytes()).ok();
    }
}

/// Whether a process runs; a dead one may wait to be reaped for a while.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next()).is_some_and(|state| state != 'Z')
}

/// The time this long from now, in UTC.
pub(crate) fn after(wait: Duration) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    hearth::model::Timestamp::from_millis(i64::try_from((now + wait).as_millis()).unwrap()).to_string()
}
