//! Resolves a reference to its value when an agent starts. Values go into the child's environment and nowhere else.
//! Errors name the reference, never the value or a command's output.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use rustix::process::{Signal, kill_process_group};

use super::child::{group, wait_unreaped};
use super::spawn::{Gate, shell};
use super::wait::follow;

/// Longest value. The system allows little more for one environment variable.
const MAX_BYTES: usize = 64 * 1024;
/// How often a running command is checked.
const SLICE: Duration = Duration::from_millis(100);
/// Number of slices that a command may take: ten seconds.
const SLICES: u32 = 100;

/// Looks up a variable in the daemon's environment, which only the configuration reads.
pub type Lookup = std::sync::Arc<dyn Fn(&str) -> Option<OsString> + Send + Sync>;

/// Why a reference has no value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Unknown kind of reference.
    #[error("a reference begins with `env:`, `file:` or `cmd:`")]
    Kind,
    /// The daemon has no such variable.
    #[error("`env:{0}` is not set where hearth runs")]
    Unset(String),
    /// The path would depend on where the daemon was started.
    #[error("`file:{}` is not an absolute path", .0.display())]
    Relative(PathBuf),
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// Directories, pipes and devices have no value.
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// The value is too long for a secret.
    #[error("the value is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// The environment cannot hold it.
    #[error("the value contains a zero byte")]
    ZeroByte,
    /// A container's environment is text.
    #[error("the value is not UTF-8")]
    NotText,
    /// The command cannot be run.
    #[error("cannot run the `cmd:` reference")]
    Command(#[source] io::Error),
    /// The command failed.
    #[error("the command of the `cmd:` reference failed ({0})")]
    Failed(ExitStatus),
    /// The command hangs, or something it started keeps its output open.
    #[error("the command of the `cmd:` reference did not end within {} s", SLICES / 10)]
    TimedOut,
    /// The caller does not need the value any more.
    #[error("stopped while the `cmd:` reference was being resolved")]
    Stopped,
}

/// Resolves a reference. Trailing line ends are removed.
pub(in crate::runtime) fn resolve(
    reference: &str,
    lookup: &Lookup,
    stopped: &dyn Fn() -> bool,
) -> Result<OsString, SecretError> {
    let mut value = match reference.split_once(':') {
        Some(("env", name)) => lookup(name).ok_or_else(|| SecretError::Unset(name.to_owned()))?.into_vec(),
        Some(("file", path)) => read(Path::new(path))?,
        Some(("cmd", text)) => run(text, SLICES, stopped)?,
        _ => return Err(SecretError::Kind),
    };
    while value.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        value.pop();
    }
    if value.len() > MAX_BYTES {
        return Err(SecretError::TooLong);
    }
    if value.contains(&0) { Err(SecretError::ZeroByte) } else { Ok(OsString::from_vec(value)) }
}

fn read(path: &Path) -> Result<Vec<u8>, SecretError> {
    if !path.is_absolute() {
        return Err(SecretError::Relative(path.to_owned()));
    }
    let failed = |source| SecretError::File { path: path.to_owned(), source };
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(SecretError::NotAFile(path.to_owned()));
    }
    let mut value = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut value).map_err(failed)?;
    if value.len() > MAX_BYTES { Err(SecretError::TooLong) } else { Ok(value) }
}

fn run(text: &str, slices: u32, stopped: &dyn Fn() -> bool) -> Result<Vec<u8>, SecretError> {
    let mut child = shell(text, &Gate::enter()).map_err(SecretError::Command)?;
    let value = collect(&mut child, slices, stopped);
    if value.is_err()
        && let Some(group) = group(&child)
        && let Err(error) = kill_process_group(group, Signal::KILL)
    {
        tracing::debug!(%error, "the command of a reference had no processes left to kill");
    }
    let status = child.wait().map_err(SecretError::Command)?;
    let value = value?;
    if status.success() { Ok(value) } else { Err(SecretError::Failed(status)) }
}

/// Collects the command's output until it ends. On return it may still run, but it is not reaped, so its group can be
/// killed.
fn collect(child: &mut Child, slices: u32, stopped: &dyn Fn() -> bool) -> Result<Vec<u8>, SecretError> {
    let (Some(stdout), Some(group)) = (child.stdout.take(), group(child)) else {
        return Err(SecretError::Command(io::ErrorKind::BrokenPipe.into()));
    };
    let (stop_seen, stop) = io::pipe().map_err(SecretError::Command)?;
    let (done, outcome) = sync_channel(1);
    let reader = move || {
        let value = read_output(stdout, &stop_seen);
        wait_unreaped(group);
        // After a timeout nothing receives this any more.
        drop(done.send(value));
    };
    std::thread::Builder::new().name("reference".to_owned()).spawn(reader).map_err(SecretError::Command)?;
    let value = await_outcome(&outcome, slices, stopped);
    drop(stop);
    value
}

fn read_output(mut stdout: ChildStdout, stop: &io::PipeReader) -> Result<Vec<u8>, SecretError> {
    let mut value = Vec::new();
    follow(&mut stdout, stop, |bytes| {
        value.extend_from_slice(bytes);
        value.len() <= MAX_BYTES
    })
    .map_err(SecretError::Command)?;
    if value.len() > MAX_BYTES { Err(SecretError::TooLong) } else { Ok(value) }
}

fn await_outcome(
    outcome: &Receiver<Result<Vec<u8>, SecretError>>,
    slices: u32,
    stopped: &dyn Fn() -> bool,
) -> Result<Vec<u8>, SecretError> {
    for _ in 0..slices {
        match outcome.recv_timeout(SLICE) {
            Ok(value) => return value,
            Err(RecvTimeoutError::Timeout) if stopped() => return Err(SecretError::Stopped),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Err(SecretError::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn value(reference: &str) -> Result<OsString, SecretError> {
        let lookup: Lookup = Arc::new(|name| (name == "TOKEN").then(|| "from env\n".into()));
        resolve(reference, &lookup, &|| false)
    }

    #[test]
    fn values_come_without_the_line_end() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        std::fs::write(&file, "from file\r\n").unwrap();
        assert_eq!(value("env:TOKEN").unwrap(), "from env");
        assert_eq!(value(&format!("file:{}", file.display())).unwrap(), "from file");
        assert_eq!(value("cmd:printf 'from:%s\\n\\n' command").unwrap(), "from:command");
        assert_eq!(value("cmd:true").unwrap(), "");
    }

    #[test]
    fn errors_name_the_reference_and_never_what_was_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| format!("file:{}", directory.path().join(name).display());
        std::fs::write(directory.path().join("zero"), b"hush\0hush").unwrap();
        std::fs::write(directory.path().join("long"), "hush".repeat(MAX_BYTES)).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, directory.path().join("fifo"), rustix::fs::Mode::RWXU).unwrap();
        for (reference, expected) in [
            ("hush".to_owned(), "a reference begins"),
            ("env:OTHER".to_owned(), "`env:OTHER` is not set"),
            ("file:hush".to_owned(), "not an absolute path"),
            (path("none"), "cannot read"),
            (path(""), "not a regular file"),
            (path("fifo"), "not a regular file"),
            (path("long"), "longer than"),
            (path("zero"), "zero byte"),
            ("cmd:echo hush; echo hush >&2; exit 3".to_owned(), "exit status: 3"),
            ("cmd:printf 'hush\\0'".to_owned(), "zero byte"),
            ("cmd:exec yes hush".to_owned(), "longer than"),
        ] {
            let error = value(&reference).unwrap_err();
            assert!(error.to_string().contains(expected), "{reference}: {error}");
            assert!(reference == "file:hush" || !error.to_string().contains("hush"), "{reference}: {error}");
        }
    }

    #[test]
    fn a_hanging_command_is_ended_with_all_it_started() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let text = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let noted = || std::fs::read_to_string(&file).unwrap_or_default();
        assert!(matches!(run(&text, u32::MAX, &|| noted().ends_with('\n')), Err(SecretError::Stopped)));
        let pid: i32 = noted().trim().parse().unwrap();
        crate::runtime::recorder::wait_until("the child is gone", || !crate::runtime::process::tests::lives(pid));
        assert!(matches!(run("sleep 1000", 3, &|| false), Err(SecretError::TimedOut)));
    }

    #[test]
    fn what_leaves_the_group_with_the_output_is_not_waited_for() {
        let text = "setsid sleep 5 & echo value";
        assert!(matches!(run(text, 3, &|| false), Err(SecretError::TimedOut)));
    }
}
