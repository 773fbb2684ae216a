//! Commands of Hearth that the daemon runs as children.
//!
//! They are separate processes: reading a damaged store can end a process with a signal, and a process that has the store
//! open loses its locks when it opens and closes the store's files a second time.

use std::io::{Read as _, Seek as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::runtime;
use super::stop::Stop;
use crate::clock::Stopwatch;
use crate::config::Paths;

/// Interval at which the thread tests whether the child has exited.
const WAIT: Duration = Duration::from_millis(100);
/// Bytes of the child's standard error that are kept.
const SAID_MAX: u64 = 4 << 10;
/// Bytes of an answer.
const ANSWER_MAX: u64 = 1 << 20;
/// Time within which an answer has to come.
const ANSWERING: Duration = Duration::from_secs(120);

/// Starts a command, which has to know `--child-of`.
pub(super) fn begin(paths: &Paths, arguments: &[String]) -> Result<Child, String> {
    start(paths, arguments, Stdio::null())
}

#[expect(clippy::disallowed_methods, reason = "Hearth itself, as a process that may open the store's files")]
fn start(paths: &Paths, arguments: &[String], answer: Stdio) -> Result<Child, String> {
    let program = runtime::this_program().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(arguments).args(["--child-of", &std::process::id().to_string(), "--data"]).arg(paths.data());
    command.stdin(Stdio::null()).stdout(answer).stderr(Stdio::piped());
    command.spawn().map_err(|error| error.to_string())
}

/// Waits for the child, which exits at the latest with the daemon. None if the daemon stops. The error is the child's
/// standard error. `what` describes the child's work.
pub(super) fn watch(mut child: Child, stop: &Stop, what: &str) -> Option<Result<(), String>> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(judge(status, &said(&mut child), what)),
            Ok(None) => {}
            Err(error) => return Some(Err(format!("cannot wait for {what}: {error}"))),
        }
        if stop.asked_within(WAIT) {
            // If one of these fails, the child still ends with the thread that started it.
            drop(child.kill().and_then(|()| child.wait()));
            return None;
        }
    }
}

/// Runs a command that answers on standard output, and returns the answer, whatever its exit status says. A command that
/// does not answer in time is ended.
pub(super) fn answer(paths: &Paths, arguments: &[String], stop: &Stop) -> Result<String, String> {
    // A file, because nothing reads a pipe while the command runs.
    let mut file = tempfile::tempfile().map_err(|error| error.to_string())?;
    let output = file.try_clone().map_err(|error| error.to_string())?;
    let mut child = start(paths, arguments, Stdio::from(output))?;
    let began = Stopwatch::start();
    let ended = loop {
        match child.try_wait() {
            Ok(Some(_)) => break Ok(()),
            Ok(None) if began.elapsed() > ANSWERING => break Err("it took more than two minutes".to_owned()),
            Ok(None) if stop.asked_within(WAIT) => break Err("Hearth is stopping".to_owned()),
            Ok(None) => {}
            Err(error) => break Err(error.to_string()),
        }
    };
    if ended.is_err() {
        drop(child.kill().and_then(|()| child.wait()));
    }
    ended?;
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(ANSWER_MAX).read_to_string(&mut text));
    read.map_err(|error| error.to_string())?;
    if text.is_empty() { Err(said(&mut child)) } else { Ok(text) }
}

fn said(child: &mut Child) -> String {
    let mut bytes = Vec::new();
    if let Some(output) = child.stderr.take() {
        // If the output cannot be read, the exit status still tells the result.
        drop(output.take(SAID_MAX).read_to_end(&mut bytes));
    }
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

fn judge(status: ExitStatus, said: &str, what: &str) -> Result<(), String> {
    match (status.signal(), status.success()) {
        (None, true) => Ok(()),
        (Some(signal), _) => Err(format!("{what} was ended by signal {signal}")),
        (None, false) if said.is_empty() => Err(format!("{what} ended with {status}")),
        (None, false) => Err(said.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_ended_is_told() {
        let status = ExitStatus::from_raw;
        assert_eq!(judge(status(0), "warning: x", "it"), Ok(()));
        assert_eq!(judge(status(1 << 8), "error: 3 violations", "it"), Err("error: 3 violations".to_owned()));
        assert!(judge(status(11), "", "it").unwrap_err().contains("signal 11"));
        assert!(judge(status(2 << 8), "", "it").unwrap_err().contains("exit status: 2"));
    }
}
