//! A provider's process that communicates by lines. Only this module starts such processes.
//!
//! Standard input and output are pipes. The life pipe and the lock are inherited, because they are not close-on-exec;
//! every other descriptor of this process is closed by the exec. The child stays in the runner's process group, so that
//! killing the group kills it too.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hearth_wire::Context;
use rustix::io::Errno;

use crate::clock::Stopwatch;
use crate::failure::Failure;
use crate::roots::Roots;
use crate::{env, life, log, secrets};

/// Maximum length of a line from a process.
const LINE_BYTES: u64 = 32 * 1024 * 1024;
/// Number of unread lines after which the process has to wait.
const WAITING_LINES: usize = 256;
/// How long to keep reading the output of a process that has ended: longer than a busy machine needs to pass on a line.
const LAST_LINES: Duration = Duration::from_secs(2);
/// Maximum length of a line of standard error that is passed on in one piece.
const STDERR_LINE_BYTES: u64 = 64 * 1024;
/// Bytes kept of the end of standard error.
const STDERR_BYTES: usize = 4096;
/// How long a process may take to exit after it closed its output.
const LAST_MOMENTS: Duration = Duration::from_secs(2);
/// How long a process may take to exit after its input was closed, before it gets SIGTERM.
const AFTER_INPUT: Duration = Duration::from_secs(1);
/// How long a process may take to exit after SIGTERM, before it is killed.
const AFTER_TERM: Duration = Duration::from_secs(10);
/// Maximum time of a graceful end of the runner: its program's time, plus a second for the runner itself.
pub const END_MAX: Duration = AFTER_INPUT.saturating_add(AFTER_TERM).saturating_add(Duration::from_secs(1));
/// How long to wait for the last standard error of a process that has ended.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Parameters of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    /// Program and arguments.
    pub(crate) argv: Vec<String>,
    /// Variables in addition to the inherited ones.
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
    /// Result of looking ahead, returned by the next [`LineProcess::hear`].
    ahead: Option<ProcessOutput>,
    last_words: Arc<Mutex<VecDeque<u8>>>,
    threads: Vec<JoinHandle<()>>,
    /// It was asked to end; its further output is dropped.
    is_closed: bool,
}

/// Result of waiting for the process.
#[derive(Debug)]
pub(crate) enum ProcessOutput {
    /// One line, without its line end.
    Line(String),
    /// No line in time.
    Nothing,
    /// The process has ended: how, and the end of its standard error.
    Gone(String),
    /// Its output is permanently unreadable, with the reason.
    Unreadable(String),
}

impl LineProcess {
    /// Starts a process in `dir`.
    pub(crate) fn start(launch: &Launch, dir: &Path) -> Result<Self, Failure> {
        let empty = || Failure::lasting("there is no program to start: its command is empty");
        let (program, arguments) = launch.argv.split_first().ok_or_else(empty)?;
        let spawned = command(program, arguments, launch, dir).spawn();
        let mut child = spawned.map_err(|error| not_started(program, dir, &error))?;
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
        let mut process = Self { child, input, output, ahead: None, last_words, threads: Vec::new(), is_closed: false };
        // If a thread cannot be started, the process is dropped here, which kills it.
        process.threads = threads.into_iter().flatten().collect::<Result<_, Failure>>()?;
        Ok(process)
    }

    /// Sends a line. A process that no longer reads is noticed when it ends.
    pub(crate) fn tell(&self, line: String) {
        if self.input.send(line).is_err() {
            log::note("the provider's process does not take lines any more");
        }
    }

    /// Waits up to `patience` for a line.
    pub(crate) fn hear(&mut self, patience: Duration) -> ProcessOutput {
        if let Some(heard) = self.ahead.take() {
            return heard;
        }
        match self.output.recv_timeout(patience) {
            Ok(Ok(line)) => ProcessOutput::Line(line),
            Ok(Err(error)) => ProcessOutput::Unreadable(format!("writes what cannot be read: {error}")),
            Err(RecvTimeoutError::Disconnected) => self.gone(),
            // Its last output may still be on its way. Its children may keep the output open forever.
            Err(RecvTimeoutError::Timeout) if self.status().is_some() => match self.output.recv_timeout(LAST_LINES) {
                Ok(Ok(line)) => ProcessOutput::Line(line),
                _ => self.gone(),
            },
            Err(RecvTimeoutError::Timeout) => ProcessOutput::Nothing,
        }
    }

    /// Whether there is a line, or the process has ended.
    pub(crate) fn has_news(&mut self) -> bool {
        if self.ahead.is_none() {
            self.ahead = match self.hear(Duration::ZERO) {
                ProcessOutput::Nothing => None,
                heard => Some(heard),
            };
        }
        self.ahead.is_some()
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.status().is_none()
    }

    /// Ends it gracefully: closes its input, then sends SIGTERM, then kills it. Its further output is dropped.
    pub(crate) fn close(mut self) {
        self.input = channel().0;
        self.is_closed = true;
        if !self.ends_within(AFTER_INPUT) {
            let pid = rustix::process::Pid::from_child(&self.child);
            if rustix::process::kill_process(pid, rustix::process::Signal::TERM).is_ok()
                && !self.ends_within(AFTER_TERM)
            {
                log::note("the provider's process does not end; it is killed");
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
            // Drain its output: a process that blocks on writing could not exit.
            while self.is_closed && self.output.try_recv().is_ok() {}
        }
        true
    }

    fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap_or_default()
    }

    fn gone(&mut self) -> ProcessOutput {
        let watch = Stopwatch::start();
        self.ends_within(LAST_MOMENTS);
        // The threads end with the pipes, unless a child of the process still holds them.
        while !self.threads.iter().skip(1).all(JoinHandle::is_finished) && watch.elapsed() < LAST_WORDS {
            std::thread::sleep(Duration::from_millis(5));
        }
        // If the whole group was signalled, this process may notice its own signal a moment later.
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
            "" => ProcessOutput::Gone(ended),
            words => ProcessOutput::Gone(format!("{ended}; its last words: {words}")),
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

/// Variables of every process that the runner starts, in addition to inherited ones.
pub(crate) fn environment(context: &Context, roots: &Roots) -> Vec<(&'static str, String)> {
    let mut env = vec![
        ("HOME", roots.home.to_string_lossy().into_owned()),
        ("NANOCLAW_SESSION_NAME", context.session_name.clone()),
    ];
    env.extend(env::added());
    if let Some(tmp) = &roots.tmp {
        env.push(("TMPDIR", tmp.to_string_lossy().into_owned()));
    }
    if let Ok(zone) = hearth_zone::Zone::parse(&context.timezone) {
        env.push(("TZ", zone.variable()));
    }
    env
}

/// A missing program is permanent; a lack of system resources may pass.
fn not_started(program: &str, dir: &Path, error: &io::Error) -> Failure {
    let scarce = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::TXTBSY];
    if scarce.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error())) {
        return Failure::passing(format!("cannot start {program} in {}: {error}", dir.display()));
    }
    let dir = dir.display();
    Failure::lasting(format!("cannot start {program} in {dir}: {error}; is it installed where the agent runs?"))
}

fn thread(name: &'static str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Failure> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|error| Failure::passing(format!("cannot start the thread for the provider's {name}: {error}")))
}

/// Writes lines until the process or the provider is gone. It runs in a thread, since a process that does not read
/// would block the runner.
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

/// Passes standard error on to the host and keeps its end. It works by lines, so that secrets are not split.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> LineProcess {
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        LineProcess::start(&Launch { argv, env: Vec::new(), without: Vec::new() }, Path::new("/")).unwrap()
    }

    fn lines_until_gone(process: &mut LineProcess) -> usize {
        let mut lines = 0;
        loop {
            match process.hear(Duration::ZERO) {
                ProcessOutput::Line(_) => lines += 1,
                ProcessOutput::Nothing => {}
                ProcessOutput::Gone(_) | ProcessOutput::Unreadable(_) => return lines,
            }
        }
    }

    /// A verdict that is written just before the end counts, however busy the machine is.
    #[test]
    fn lines_written_before_an_exit_are_read() {
        for _ in 0..50 {
            assert_eq!(lines_until_gone(&mut shell("echo one; echo two; exit 3")), 2);
        }
    }

    #[test]
    fn a_child_that_keeps_the_output_open_does_not_keep_the_process_alive() {
        let mut process = shell("sleep 60 & echo one; exit 3");
        assert_eq!(lines_until_gone(&mut process), 1);
    }
}
