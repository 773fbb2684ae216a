//! A provider's process that speaks lines: the only place of this crate that starts one.
//!
//! Everything it is given is inherited or written here: standard input and output are pipes, the life pipe and the lock
//! reach it because they were inherited without close-on-exec, and every other descriptor of this process is closed by
//! the exec. It stays in the runner's process group, so that whoever ends the group ends it too.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::{life, log, secrets};

/// The longest line that is taken from a process.
const LINE_BYTES: u64 = 32 * 1024 * 1024;
/// Lines that wait to be looked at before the process has to wait.
const WAITING_LINES: usize = 256;
/// The longest line of its standard error that is passed on in one piece.
const STDERR_LINE_BYTES: u64 = 64 * 1024;
/// Bytes of its last words that are kept.
const STDERR_BYTES: usize = 4096;
/// How long a process that closed its output may take to end.
const LAST_MOMENTS: Duration = Duration::from_secs(2);
/// How long a process may take to end after it was told to, each time.
const ORDERLY: Duration = Duration::from_millis(900);
/// How long the last words of a process that ended may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// What a process is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    /// Program and arguments.
    pub(crate) argv: Vec<String>,
    /// Variables beside the inherited ones.
    pub(crate) env: Vec<(&'static str, String)>,
    /// Variables that are not inherited.
    pub(crate) without: Vec<&'static str>,
}

/// A running process.
#[derive(Debug)]
pub(crate) struct LineProcess {
    child: Child,
    input: Sender<String>,
    output: Receiver<io::Result<String>>,
    /// Heard by looking whether there is something.
    ahead: Option<Heard>,
    last_words: Arc<Mutex<VecDeque<u8>>>,
    threads: Vec<JoinHandle<()>>,
}

/// What came from the process.
#[derive(Debug)]
pub(crate) enum Heard {
    /// One line, without its end.
    Line(String),
    /// Nothing for now.
    Nothing,
    /// It is gone: how it ended and its last words.
    Gone(String),
}

impl LineProcess {
    /// Starts a process in `dir`.
    pub(crate) fn start(launch: &Launch, dir: &Path) -> Result<Self, String> {
        let (program, arguments) =
            launch.argv.split_first().ok_or("there is no program to start: its command is empty")?;
        let mut child = command(program, arguments, launch, dir).spawn().map_err(|error| {
            format!("cannot start {program} in {}: {error}; is it installed where the agent runs?", dir.display())
        })?;
        let (input, for_input) = channel();
        let (from_output, output) = sync_channel(WAITING_LINES);
        let last_words = Arc::new(Mutex::new(VecDeque::new()));
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let words = Arc::clone(&last_words);
        let threads = [
            stdin.map(|stdin| thread("stdin", move || feed(stdin, &for_input))),
            stdout.map(|stdout| thread("stdout", move || hear(stdout, &from_output))),
            stderr.map(|stderr| thread("stderr", move || keep(stderr, &words))),
        ];
        let mut process = Self { child, input, output, ahead: None, last_words, threads: Vec::new() };
        // A process without its threads is dropped here, and killed by that.
        process.threads = threads.into_iter().flatten().collect::<Result<_, String>>()?;
        Ok(process)
    }

    /// Hands over a line; if the process does not read it, that shows when it ends.
    pub(crate) fn tell(&self, line: String) {
        if self.input.send(line).is_err() {
            log::note("the provider's process does not take lines any more");
        }
    }

    /// Waits up to `patience` for a line.
    pub(crate) fn hear(&mut self, patience: Duration) -> Heard {
        if let Some(heard) = self.ahead.take() {
            return heard;
        }
        match self.output.recv_timeout(patience) {
            Ok(Ok(line)) => Heard::Line(line),
            Ok(Err(error)) => Heard::Gone(format!("its output cannot be read: {error}")),
            Err(RecvTimeoutError::Disconnected) => self.gone(),
            // Its children may keep its output open for ever.
            Err(RecvTimeoutError::Timeout) if self.status().is_some() => match self.output.try_recv() {
                Ok(Ok(line)) => Heard::Line(line),
                _ => self.gone(),
            },
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
        }
    }

    /// Whether there is something to hear, or it is gone.
    pub(crate) fn has_news(&mut self) -> bool {
        if self.ahead.is_none() {
            self.ahead = match self.hear(Duration::ZERO) {
                Heard::Nothing => None,
                heard => Some(heard),
            };
        }
        self.ahead.is_some()
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.status().is_none()
    }

    /// Lets it end by itself: the end of its input tells it to, then a signal. What does not listen is killed.
    pub(crate) fn close(mut self) {
        self.input = channel().0;
        if !self.ends_within(ORDERLY) {
            let pid = rustix::process::Pid::from_child(&self.child);
            if rustix::process::kill_process(pid, rustix::process::Signal::TERM).is_ok() {
                self.ends_within(ORDERLY);
            }
        }
    }

    fn ends_within(&mut self, patience: Duration) -> bool {
        let watch = Stopwatch::start();
        while self.is_alive() {
            if watch.elapsed() >= patience {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap_or_default()
    }

    fn gone(&mut self) -> Heard {
        let watch = Stopwatch::start();
        self.ends_within(LAST_MOMENTS);
        // The threads end with the pipes, unless a child of the process still holds them.
        while !self.threads.iter().skip(1).all(JoinHandle::is_finished) && watch.elapsed() < LAST_WORDS {
            std::thread::sleep(Duration::from_millis(5));
        }
        // A signal for the whole group may have come to this process, too, and be noticed a moment later.
        let killed = self.status().is_some_and(|status| status.signal().is_some());
        while killed && !life::is_over() && watch.elapsed() < LAST_WORDS {
            std::thread::sleep(Duration::from_millis(5));
        }
        let ended =
            self.status().map_or_else(|| "closed its output".to_owned(), |status| format!("ended with {status}"));
        let words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = words.iter().copied().collect();
        let words = String::from_utf8_lossy(&bytes);
        match words.trim() {
            "" => Heard::Gone(ended),
            words => Heard::Gone(format!("{ended}; its last words: {words}")),
        }
    }
}

impl Drop for LineProcess {
    fn drop(&mut self) {
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait().map(drop)) {
            log::note(format_args!("cannot end the provider's process: {error}; it ends with this one's group"));
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the runner's one way to start a process")]
fn command(program: &str, arguments: &[String], launch: &Launch, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in &launch.without {
        command.env_remove(name);
    }
    command.envs(launch.env.iter().map(|(name, value)| (name, value)));
    command
}

fn thread(name: &'static str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|error| format!("cannot start the thread for the provider's {name}: {error}"))
}

/// Writes lines until the process or the provider is gone. A thread, since a process that does not read would
/// otherwise stop everything.
fn feed(mut stdin: ChildStdin, lines: &Receiver<String>) {
    for mut line in lines {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

fn hear(stdout: ChildStdout, lines: &SyncSender<io::Result<String>>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let heard = match stdout.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(bytes) if bytes as u64 == LINE_BYTES && !line.ends_with(b"\n") => {
                Err(io::Error::other(format!("a line has more than {LINE_BYTES} bytes")))
            }
            Ok(_) => Ok(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned()),
            Err(error) => Err(error),
        };
        let last = heard.is_err();
        if lines.send(heard).is_err() || last {
            return;
        }
    }
}

/// Passes stderr on, where the host keeps it, and remembers its end. By lines, so that a secret in it is seen whole.
fn keep(stderr: ChildStderr, words: &Mutex<VecDeque<u8>>) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    while let Ok(1..) = stderr.by_ref().take(STDERR_LINE_BYTES).read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line);
        let shown = secrets::redacted(&text);
        log::pass_on(shown.as_bytes());
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend(shown.as_bytes());
        let surplus = words.len().saturating_sub(STDERR_BYTES);
        words.drain(..surplus);
        drop(words);
        line.clear();
    }
}
