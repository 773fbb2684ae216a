//! Receives secrets from the host through a named pipe, so that neither a file nor the container's description contains
//! them.
//!
//! The runner reads them before anything else. Then it executes its own program again in the same process, with these
//! variables in its environment. The pipe is read once, and the host then removes it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::env::{SECRET_NAMES_VARIABLE, SECRETS_VARIABLE};

/// How long to wait until the host starts writing. The host ends a container that does not get its secrets.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// Pause between two checks.
const PAUSE: Duration = Duration::from_millis(5);
/// Size limit in bytes, larger than all secrets of an agent.
const BYTES_MAX: u64 = 16 << 20;

/// Why there are no secrets.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandedError {
    /// The pipe cannot be read.
    #[error("cannot read the agent's secrets from {}: {source}", path.display())]
    Pipe { path: PathBuf, source: io::Error },
    /// The host wrote nothing.
    #[error("the host wrote no secrets into {} within {} s", path.display(), WAIT_MAX.as_secs())]
    Late { path: PathBuf },
    /// The content does not follow the contract.
    #[error("what the host wrote into {} is not the agent's secrets: {reason}", path.display())]
    Invalid { path: PathBuf, reason: &'static str },
    /// The program cannot be executed again.
    #[error("cannot start the runner again with the agent's secrets: {0}")]
    Restart(io::Error),
}

/// Reads the variables from the pipe and executes this program again with them. Returns only on failure.
pub(crate) fn restart_with(pipe: &OsStr) -> HandedError {
    let path = Path::new(pipe);
    match read(path, WAIT_MAX)
        .and_then(|bytes| parse(bytes).map_err(|reason| HandedError::Invalid { path: path.to_owned(), reason }))
    {
        Ok(variables) => HandedError::Restart(restart(variables)),
        Err(error) => error,
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Variable {
    name: OsString,
    value: OsString,
}

#[expect(clippy::disallowed_methods, reason = "no process is started: this one becomes the same program once more")]
fn restart(variables: Vec<Variable>) -> io::Error {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let names: Vec<&OsStr> = variables.iter().map(|variable| variable.name.as_os_str()).collect();
    let names = names.join(OsStr::new(","));
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).env_remove(SECRETS_VARIABLE).env(SECRET_NAMES_VARIABLE, names);
    command.envs(variables.into_iter().map(|variable| (variable.name, variable.value)));
    command.exec()
}

/// Reads everything that the host writes. A pipe without a writer looks the same before and after writing: the end
/// counts once something was read.
fn read(path: &Path, wait_max: Duration) -> Result<Vec<u8>, HandedError> {
    let failed = |source| HandedError::Pipe { path: path.to_owned(), source };
    let pipe = open(path).map_err(failed)?;
    let (mut bytes, watch) = (Vec::new(), Stopwatch::start());
    loop {
        let ended = match (&pipe).take(BYTES_MAX).read_to_end(&mut bytes) {
            Ok(_) => !bytes.is_empty(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => return Err(failed(error)),
        };
        if bytes.len() as u64 >= BYTES_MAX {
            return Err(HandedError::Invalid { path: path.to_owned(), reason: "it is too long" });
        }
        if ended {
            return Ok(bytes);
        }
        if watch.elapsed() >= wait_max {
            return Err(HandedError::Late { path: path.to_owned() });
        }
        std::thread::sleep(PAUSE);
    }
}

fn open(path: &Path) -> io::Result<File> {
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let pipe = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    if pipe.metadata()?.file_type().is_fifo() {
        Ok(pipe)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a named pipe"))
    }
}

/// Parses `NAME=VALUE` and a zero byte, for each variable.
fn parse(mut bytes: Vec<u8>) -> Result<Vec<Variable>, &'static str> {
    if bytes.pop() != Some(0) {
        return Err("its end is missing");
    }
    let variable = |entry: &[u8]| {
        let equals = entry.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
        let (name, value) = entry.split_at_checked(equals)?;
        let value = value.get(1..)?;
        Some(Variable { name: OsStr::from_bytes(name).to_owned(), value: OsString::from_vec(value.to_vec()) })
    };
    let variables: Option<Vec<Variable>> = bytes.split(|byte| *byte == 0).map(variable).collect();
    variables.ok_or("a variable has no name")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn pipe() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        (directory, path)
    }

    #[test]
    fn the_reader_waits_for_the_writer_and_reads_more_than_a_pipe_holds() {
        let (_directory, path) = pipe();
        let long = "x".repeat(300_000);
        let text = format!("A=1\0B={long}\0C=a=b\nc\0");
        let writer = std::thread::spawn({
            let (path, text) = (path.clone(), text.clone());
            move || {
                std::thread::sleep(Duration::from_millis(50));
                let mut pipe = OpenOptions::new().write(true).open(path).unwrap();
                for piece in text.as_bytes().chunks(70_000) {
                    pipe.write_all(piece).unwrap();
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        });
        let bytes = read(&path, Duration::from_secs(20)).unwrap();
        writer.join().unwrap();
        assert_eq!(bytes, text.as_bytes());
        let values: Vec<(String, usize)> = parse(bytes)
            .unwrap()
            .into_iter()
            .map(|variable| (variable.name.into_string().unwrap(), variable.value.len()))
            .collect();
        assert_eq!(values, [("A".to_owned(), 1), ("B".to_owned(), 300_000), ("C".to_owned(), 5)]);
    }

    #[test]
    fn a_host_that_writes_nothing_is_not_waited_for_without_end() {
        let (_directory, path) = pipe();
        assert!(matches!(read(&path, Duration::from_millis(30)), Err(HandedError::Late { .. })));
    }

    #[test]
    fn only_a_pipe_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "A=1\0").unwrap();
        for path in [&file, &directory.path().join("none")] {
            assert!(matches!(read(path, Duration::ZERO), Err(HandedError::Pipe { .. })), "{}", path.display());
        }
    }

    #[test]
    fn a_text_that_was_cut_off_is_refused() {
        for text in ["", "A=1", "A=1\0B=2", "=1\0", "A\0", "\0"] {
            assert!(parse(text.as_bytes().to_vec()).is_err(), "{text:?}");
        }
    }
}
