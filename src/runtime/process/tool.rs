//! Runs a program of the operator that turns one thing into another: bounded in time and output, and killed with all it
//! started.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read, Seek as _, Write as _};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use rustix::process::{Signal, kill_process_group};

use super::child::{group, wait_unreaped};
use super::spawn::{Gate, tool};
use super::wait::follow;

/// Bytes of standard error that are kept.
const SAID_MAX: usize = 2_048;
/// How often a running program is checked.
const SLICE: Duration = Duration::from_millis(50);

/// A program to run.
pub struct ToolRun {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// Its environment; it gets nothing else.
    pub variables: Vec<(OsString, OsString)>,
    /// What it reads from standard input.
    pub input: Vec<u8>,
    /// Time after which it is killed.
    pub timeout: Duration,
    /// Bytes of output after which it is killed.
    pub output_max: usize,
}

/// Why a program has no output.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It cannot be started.
    #[error("the command cannot be started: {0}")]
    Start(#[source] io::Error),
    #[error("the command ended with {status}")]
    Failed {
        /// How it ended.
        status: ExitStatus,
        /// The beginning of its standard error.
        said: String,
    },
    /// It writes too much.
    #[error("the command wrote more than {0} bytes")]
    TooLong(usize),
    /// It hangs, or something it started keeps its output open.
    #[error("the command did not end within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The caller does not need the output any more.
    #[error("stopped while the command ran")]
    Stopped,
}

/// Runs a program and returns its standard output. Blocks until it ends, at most for its time, or until `stopped` returns
/// true.
///
/// # Errors
/// [`ToolError`]
pub fn run_tool(run: &ToolRun, stopped: &dyn Fn() -> bool) -> Result<Vec<u8>, ToolError> {
    let mut input = tempfile::tempfile().map_err(ToolError::Start)?;
    input.write_all(&run.input).and_then(|()| input.rewind()).map_err(ToolError::Start)?;
    let mut child = tool(run, Stdio::from(input), &Gate::enter()).map_err(ToolError::Start)?;
    let output = collect(&mut child, run, stopped);
    // Also after success: what it left running holds the machine, and its leader is not reaped yet.
    if let Some(group) = group(&child)
        && let Err(error) = kill_process_group(group, Signal::KILL)
    {
        tracing::debug!(%error, "a command had no processes left to kill");
    }
    let status = child.wait().map_err(ToolError::Start)?;
    let Output { bytes, said } = output?;
    if status.success() { Ok(bytes) } else { Err(ToolError::Failed { status, said }) }
}

/// What a program wrote.
struct Output {
    bytes: Vec<u8>,
    said: String,
}

/// Collects the program's output until it ends. On return it is not reaped, so its group can be killed.
fn collect(child: &mut Child, run: &ToolRun, stopped: &dyn Fn() -> bool) -> Result<Output, ToolError> {
    let (Some(stdout), Some(stderr), Some(group)) = (child.stdout.take(), child.stderr.take(), group(child)) else {
        return Err(ToolError::Start(io::ErrorKind::BrokenPipe.into()));
    };
    let (stop_seen, stop) = io::pipe().map_err(ToolError::Start)?;
    let (done, outcome) = sync_channel(1);
    let (max, other_stop) = (run.output_max, stop_seen.try_clone().map_err(ToolError::Start)?);
    let said =
        read_in_thread("command-stderr", stderr, other_stop, SAID_MAX, Beyond::Skip).map_err(ToolError::Start)?;
    let reader = move || {
        let bytes = read(stdout, &stop_seen, max, Beyond::End);
        if bytes.len() <= max {
            wait_unreaped(group);
        }
        // After a timeout nothing receives this any more.
        drop(done.send(bytes));
    };
    std::thread::Builder::new().name("command".to_owned()).spawn(reader).map_err(ToolError::Start)?;
    let bytes = await_output(&outcome, run.timeout, stopped);
    drop(stop);
    let bytes = bytes?;
    if bytes.len() > max {
        return Err(ToolError::TooLong(max));
    }
    let said = said.recv_timeout(SLICE).unwrap_or_default();
    Ok(Output { bytes, said: String::from_utf8_lossy(&said).trim().to_owned() })
}

/// What happens to output beyond its limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beyond {
    End,
    /// It is read and forgotten, so that the program does not wait.
    Skip,
}

fn read_in_thread(
    name: &str,
    source: impl Read + AsFd + Send + 'static,
    stop: PipeReader,
    max: usize,
    beyond: Beyond,
) -> io::Result<Receiver<Vec<u8>>> {
    let (done, outcome) = sync_channel(1);
    let read = move || drop(done.send(read(source, &stop, max, beyond)));
    std::thread::Builder::new().name(name.to_owned()).spawn(read)?;
    Ok(outcome)
}

/// Reads at most one byte more than `max`.
fn read(mut source: impl Read + AsFd, stop: &PipeReader, max: usize, beyond: Beyond) -> Vec<u8> {
    let mut kept = Vec::new();
    let end = follow(&mut source, stop, |bytes| {
        let room = max.saturating_add(1).saturating_sub(kept.len());
        kept.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        beyond == Beyond::Skip || kept.len() <= max
    });
    if let Err(error) = end {
        tracing::debug!(%error, "the output of a command cannot be read to its end");
    }
    kept
}

fn await_output(
    outcome: &Receiver<Vec<u8>>,
    timeout: Duration,
    stopped: &dyn Fn() -> bool,
) -> Result<Vec<u8>, ToolError> {
    for _ in 0..timeout.as_millis().div_ceil(SLICE.as_millis()) {
        match outcome.recv_timeout(SLICE) {
            Ok(bytes) => return Ok(bytes),
            Err(RecvTimeoutError::Timeout) if stopped() => return Err(ToolError::Stopped),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Err(ToolError::TimedOut(timeout))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> ToolRun {
        ToolRun {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            variables: vec![("PATH".into(), "/usr/bin:/bin".into())],
            input: b"in\n".to_vec(),
            timeout: Duration::from_secs(20),
            output_max: 1_000,
        }
    }

    fn run(script: &str) -> Result<Vec<u8>, ToolError> {
        run_tool(&sh(script), &|| false)
    }

    #[test]
    fn output_comes_from_a_program_with_its_input_and_only_its_environment() {
        assert_eq!(run("cat; echo out; echo err >&2").unwrap(), b"in\nout\n");
        let variables = String::from_utf8(run("env").unwrap()).unwrap();
        assert!(variables.contains("PATH=/usr/bin:/bin\n") && !variables.contains("HOME="), "{variables}");
        assert_eq!(run("head -c 1000 /dev/zero").unwrap().len(), 1_000);
    }

    #[test]
    fn failures_are_named() {
        let Err(ToolError::Failed { status, said }) = run("echo no >&2; exit 3") else { panic!("it failed") };
        assert_eq!((status.code(), said.as_str()), (Some(3), "no"));
        assert!(matches!(run("exec yes"), Err(ToolError::TooLong(1_000))));
        assert!(run("yes >&2 & head -c 100000 /dev/zero >&2; exit 0").is_ok());
        let none = ToolRun { program: "/nonexistent/program".into(), ..sh("") };
        assert!(matches!(run_tool(&none, &|| false), Err(ToolError::Start(_))));
    }

    #[test]
    fn what_a_program_started_is_killed_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let pid = || std::fs::read_to_string(&file).unwrap_or_default();
        let begun = format!("sleep 1000 & echo $! > {}", file.display());
        let gone = || {
            let pid: i32 = pid().trim().parse().unwrap();
            crate::runtime::recorder::wait_until("the child is gone", || !crate::runtime::process::tests::lives(pid));
            std::fs::remove_file(&file).unwrap();
        };
        assert!(matches!(run_tool(&sh(&format!("{begun}; wait")), &|| pid().ends_with('\n')), Err(ToolError::Stopped)));
        gone();
        let slow = ToolRun { timeout: Duration::from_secs(1), ..sh(&format!("{begun}; wait")) };
        assert!(matches!(run_tool(&slow, &|| false), Err(ToolError::TimedOut(_))));
        gone();
        // It ends well, and leaves a process without its output.
        assert_eq!(run(&format!("sleep 1000 >&- 2>&- & echo $! > {}; echo done", file.display())).unwrap(), b"done\n");
        gone();
    }
}
