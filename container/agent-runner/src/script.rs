//! Runs a task's script before the agent is woken. Its last output line decides whether the agent is woken.
//!
//! The script runs in the agent's directory with the agent's permissions and variables, in its own process group, which
//! is killed afterwards with everything in it. If this process is killed first, the inherited lock shows the host that
//! the script is still alive.

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hearth_wire::Gated;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde_json::Value;

use crate::child::environment;
use crate::clock::Stopwatch;
use crate::runner_state::RunnerState;
use crate::stop::Stop;
use crate::{log, secrets};

/// Name of the running tool that the host sees.
const TOOL: &str = "task script";
/// Timeout of a script.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Size limit of its standard output in bytes.
const OUTPUT_BYTES: usize = 1024 * 1024;
/// Bytes kept of its standard error.
const ERROR_BYTES: usize = 16 * 1024;
/// Characters of standard error shown to people.
const SHOWN_CHARS: usize = 500;
/// Pause between two checks.
const SLICE: Duration = Duration::from_millis(20);
/// How long to wait for remaining output after the script has ended.
const LAST_WORDS: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ScriptDecision {
    /// Wakes the agent, with this value.
    Wake(Value),
    /// Does not wake the agent.
    Rest(Gated),
}

/// Runs a script to its end.
pub(crate) fn run(state: &mut RunnerState, script: &str) -> Result<ScriptDecision, Stop> {
    let timeout = u64::try_from(TIMEOUT.as_millis()).ok();
    state.board.progress()?;
    state.board.tool_started(TOOL, TOOL, timeout)?;
    let context = state.gate.pass()?;
    let started = Running::start(script, &state.roots.group, environment(&context, &state.roots));
    let verdict = match started {
        Ok(running) => decide(&running.wait(state)?),
        Err(error) => ScriptDecision::failed(&format!("it cannot be started: {error}")),
    };
    state.board.progress()?;
    state.board.tool_ended(TOOL)?;
    if let ScriptDecision::Rest(Gated { why, failed: true }) = &verdict {
        log::note(format_args!("a task's script failed: {why}"));
    }
    Ok(verdict)
}

impl ScriptDecision {
    fn failed(why: &str) -> Self {
        Self::Rest(Gated { why: format!("the script failed: {why}"), failed: true })
    }
}

/// How a script ended, and its output.
#[derive(Debug)]
struct Ended {
    how: How,
    output: Vec<u8>,
    error: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Exited(ExitStatus),
    TooLong,
    TooMuch,
}

fn decide(ended: &Ended) -> ScriptDecision {
    let trouble = match ended.how {
        How::Exited(status) if status.success() => None,
        How::Exited(status) => Some(format!("it ended with {status}")),
        How::TooLong => Some(format!("it took longer than {} s", TIMEOUT.as_secs())),
        How::TooMuch => Some(format!("it wrote more than {OUTPUT_BYTES} bytes")),
    };
    let last = last_value(&ended.output);
    let trouble = match (trouble, last) {
        (Some(trouble), _) | (None, Err(trouble)) => trouble,
        (None, Ok((true, data))) => return ScriptDecision::Wake(data),
        (None, Ok((false, _))) => {
            return ScriptDecision::Rest(Gated { why: "the script saw nothing to do".to_owned(), failed: false });
        }
    };
    let words = String::from_utf8_lossy(&ended.error);
    let words: String = secrets::redacted(words.trim()).chars().take(SHOWN_CHARS).collect();
    ScriptDecision::failed(&if words.is_empty() { trouble } else { format!("{trouble}: {words}") })
}

/// Parses the last line: whether to wake the agent, and the value for it.
///
/// # Errors
/// What is wrong with it, worded for people.
pub fn last_value(output: &[u8]) -> Result<(bool, Value), String> {
    let text = String::from_utf8_lossy(output);
    let Some(line) = text.trim().lines().last() else { return Err("it wrote nothing".to_owned()) };
    let Ok(mut value) = serde_json::from_str::<Value>(line) else {
        return Err("the last line that it wrote is not JSON".to_owned());
    };
    let wakes = value.get("wakeAgent").and_then(Value::as_bool);
    let wakes = wakes.ok_or("the last line that it wrote has no wakeAgent that is true or false")?;
    Ok((wakes, value.get_mut("data").map(Value::take).unwrap_or_default()))
}

/// A running script. Dropping this kills it.
struct Running {
    child: Child,
    output: Stream,
    error: Stream,
}

impl Running {
    fn start(script: &str, dir: &Path, env: Vec<(&'static str, String)>) -> io::Result<Self> {
        let mut child = match spawn("bash", script, dir, &env) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => spawn("sh", script, dir, &env)?,
            spawned => spawned?,
        };
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let streams =
            Stream::of(stdout, OUTPUT_BYTES).and_then(|output| Ok((output, Stream::of(stderr, ERROR_BYTES)?)));
        match streams {
            Ok((output, error)) => Ok(Self { child, output, error }),
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }

    fn wait(mut self, state: &mut RunnerState) -> Result<Ended, Stop> {
        let watch = Stopwatch::start();
        let cut = loop {
            state.gate.check()?;
            state.board.flush()?;
            if self.is_over() {
                break None;
            }
            if watch.elapsed() >= TIMEOUT {
                break Some(How::TooLong);
            }
            if self.output.is_too_long() {
                break Some(How::TooMuch);
            }
            std::thread::sleep(SLICE);
        };
        let status = end(&mut self.child);
        let watch = Stopwatch::start();
        while !(self.output.is_read() && self.error.is_read()) && watch.elapsed() < LAST_WORDS {
            std::thread::sleep(Duration::from_millis(5));
        }
        let cut = cut.or(self.output.is_too_long().then_some(How::TooMuch));
        let how = cut.or(status.map(How::Exited)).unwrap_or(How::TooLong);
        Ok(Ended { how, output: self.output.bytes(), error: self.error.bytes() })
    }

    /// Whether the shell has ended. It is not reaped yet, so that its group id is not reused.
    fn is_over(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), options), Ok(None))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Kills the remains of a script and reaps its shell.
fn end(child: &mut Child) -> Option<ExitStatus> {
    if let Ok(Some(status)) = still_reaped(child) {
        return Some(status);
    }
    if kill_process_group(Pid::from_child(child), Signal::KILL).is_err() {
        // Nothing is left of it.
    }
    child.wait().ok()
}

/// The status of a shell that was already reaped, so that its group id may have been reused.
fn still_reaped(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(Pid::from_child(child)), options) {
        Err(_) => child.try_wait(),
        Ok(_) => Ok(None),
    }
}

#[expect(clippy::disallowed_methods, reason = "the runner's one way to start a script")]
fn spawn(shell: &str, script: &str, dir: &Path, env: &[(&'static str, String)]) -> io::Result<Child> {
    let mut command = Command::new(shell);
    command.args(["-c", script, TOOL]).current_dir(dir).process_group(0);
    command.envs(env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// One of a script's outputs, read by a thread, since a full pipe would block the script.
struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    most: usize,
    thread: Option<JoinHandle<()>>,
}

impl Stream {
    fn of(pipe: Option<impl Read + Send + 'static>, most: usize) -> io::Result<Self> {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let read =
            move |pipe| std::thread::Builder::new().name(TOOL.to_owned()).spawn(move || drain(pipe, &into, most));
        let thread = pipe.map(read).transpose()?;
        Ok(Self { bytes, most, thread })
    }

    fn is_read(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn is_too_long(&self) -> bool {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).len() > self.most
    }

    fn bytes(&self) -> Vec<u8> {
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads to the end. Keeps at most one byte more than the limit, which shows that there was more.
fn drain(mut pipe: impl Read, into: &Mutex<Vec<u8>>, most: usize) {
    let mut buffer = vec![0_u8; 16 * 1024];
    while let Ok(read @ 1..) = pipe.read(&mut buffer) {
        let mut bytes = into.lock().unwrap_or_else(PoisonError::into_inner);
        let room = (most + 1).saturating_sub(bytes.len());
        bytes.extend(buffer.iter().take(read.min(room)));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use serde_json::json;

    use super::*;

    fn ended(output: &str, code: i32) -> ScriptDecision {
        let how = How::Exited(ExitStatus::from_raw(code << 8));
        decide(&Ended { how, output: output.as_bytes().to_vec(), error: b" oops\n".to_vec() })
    }

    #[test]
    fn the_last_line_decides() {
        assert_eq!(ended(r#"{"wakeAgent":true,"data":{"a":1}}"#, 0), ScriptDecision::Wake(json!({"a": 1})));
        assert_eq!(ended("log\n{\"wakeAgent\":true}\n\n", 0), ScriptDecision::Wake(Value::Null));
        let ScriptDecision::Rest(rest) = ended(r#"{"wakeAgent":false}"#, 0) else { panic!() };
        assert!(!rest.failed, "{rest:?}");
        for (output, code, words) in [
            (r#"{"wakeAgent":"yes"}"#, 0, "no wakeAgent"),
            ("not json", 0, "is not JSON"),
            ("[true]", 0, "no wakeAgent"),
            ("", 0, "wrote nothing"),
            (r#"{"wakeAgent":true}"#, 1, "exit status: 1: oops"),
        ] {
            let ScriptDecision::Rest(rest) = ended(output, code) else { panic!("{output}") };
            assert!(rest.failed && rest.why.contains(words) && rest.why.ends_with("oops"), "{output}: {rest:?}");
        }
        let verdict = decide(&Ended { how: How::TooLong, output: Vec::new(), error: vec![b'e'; 9_000] });
        let ScriptDecision::Rest(rest) = verdict else { panic!() };
        assert!(rest.failed && rest.why.len() < 600, "{rest:?}");
    }
}
