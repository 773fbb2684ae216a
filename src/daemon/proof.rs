//! The weekly check of the whole store, run as the child process `hearth check` at the lowest priority.
//!
//! It must be a separate process: reading a damaged store can end the process with a signal, and a process that has the
//! store open loses its locks when it opens and closes the store's files a second time. The result is saved in a file,
//! for `status` and the next daemon.

use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::stop::Stop;
use super::worker;
use super::{Error, runtime};
use crate::clock;
use crate::config::{Paths, seams};
use crate::model::time::{Millis, Timestamp};

/// Interval at which the thread tests whether a check is due.
const LOOK: Duration = Duration::from_secs(60);
/// Delay of the first check if no earlier result exists. Short, so that a machine that is never on for a week is
/// checked.
const FIRST: Millis = Millis::minutes(60);
/// Interval at which the thread tests whether the child has exited.
const WAIT: Duration = Duration::from_millis(100);
/// Bytes of the child's standard error that are kept.
const SAID_MAX: u64 = 4 << 10;

/// Largest file that is read, in bytes.
const BYTES_MAX: u64 = 64 << 10;

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Last {
    /// When it ended.
    pub at: Timestamp,
    /// The failure; none if the store is sound.
    pub found: Option<String>,
}

/// Content of the result file.
#[derive(Serialize, Deserialize)]
struct File {
    /// Milliseconds since 1970.
    at_ms: i64,
    found: Option<String>,
}

/// The last saved result; none if the file is missing or invalid.
#[must_use]
pub fn last(paths: &Paths) -> Option<Last> {
    let path = paths.last_check();
    let regular = std::fs::symlink_metadata(&path).is_ok_and(|file| file.is_file() && file.len() <= BYTES_MAX);
    let text = regular.then(|| std::fs::read_to_string(&path).ok())??;
    let File { at_ms, found } = serde_json::from_str(&text).ok()?;
    Some(Last { at: Timestamp::from_millis(at_ms), found })
}

/// Saves a result atomically.
fn note(paths: &Paths, last: &Last) -> io::Result<()> {
    let path = paths.last_check();
    let next = path.with_extension("new");
    let text = serde_json::to_string(&File { at_ms: last.at.millis(), found: last.found.clone() })?;
    match std::fs::remove_file(&next) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    std::fs::rename(&next, &path)
}

/// Saves the reason why the daemon failed, for the next `status`.
pub(super) fn note_end(paths: &Paths, reason: &str) {
    // The log has the reason too, so a failed write is ignored.
    paths.ends().for_each(|path| drop(std::fs::write(path, reason)));
}

/// Removes the reason that an earlier daemon saved.
fn forget_end(paths: &Paths) {
    paths.ends().for_each(|path| drop(std::fs::remove_file(path)));
}

/// Why the last daemon failed, as a message for people; none if it ended in another way.
#[must_use]
pub fn last_end(paths: &Paths) -> Option<String> {
    let regular =
        |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|file| file.is_file() && file.len() <= BYTES_MAX);
    let reason = paths.ends().filter(regular).find_map(|path| std::fs::read_to_string(path).ok())?;
    Some(format!("the last daemon could not go on: {reason}; the next one goes on where it was, nothing is lost"))
}

/// Starts the thread that runs the checks until the daemon stops.
pub(super) fn start(paths: &Paths, stop: &Arc<Stop>) -> Result<(), Error> {
    forget_end(paths);
    let (paths, stop) = (paths.clone(), Arc::clone(stop));
    let every = seams::check_every();
    let look = LOOK.min(Duration::from_millis(every.get()));
    let first = clock::wall().plus(FIRST.min(every));
    let work = move || {
        let mut due = last(&paths).map_or(first, |last| last.at.plus(every));
        while !stop.asked_within(look) {
            let now = clock::wall();
            // If the next check is more than one interval away, its time was computed while the clock was wrong.
            if now < due && due <= now.plus(every) {
                continue;
            }
            let Some(last) = check(&paths, &stop) else { return };
            due = last.at.plus(every);
            if let Err(error) = note(&paths, &last) {
                tracing::warn!(%error, "the result of the weekly check could not be noted");
            }
        }
    };
    worker::start("check", work).map(drop)
}

/// Runs one check; none if the daemon stopped meanwhile.
fn check(paths: &Paths, stop: &Stop) -> Option<Last> {
    let found = match begin(paths) {
        Ok(child) => watch(child, stop)?,
        Err(error) => Err(format!("the check could not be started: {error}")),
    };
    let found = found.err();
    match &found {
        None => tracing::info!("the weekly check found the store sound"),
        Some(found) => tracing::error!("the weekly check of the store failed: {found}"),
    }
    Some(Last { at: clock::wall(), found })
}

#[expect(clippy::disallowed_methods, reason = "Hearth itself, as a process that may open the store's files")]
fn begin(paths: &Paths) -> Result<Child, String> {
    let program = runtime::this_program().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["check", "--child-of", &std::process::id().to_string(), "--data"]).arg(paths.data());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().map_err(|error| error.to_string())
}

/// Waits for the child, which exits at the latest with the daemon. None if the daemon stops. The error is what the
/// check found.
fn watch(mut child: Child, stop: &Stop) -> Option<Result<(), String>> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(judge(status, &said(&mut child))),
            Ok(None) => {}
            Err(error) => return Some(Err(format!("the check could not be waited for: {error}"))),
        }
        if stop.asked_within(WAIT) {
            // If one of these fails, the child still ends with the thread that started it.
            drop(child.kill().and_then(|()| child.wait()));
            return None;
        }
    }
}

fn said(child: &mut Child) -> String {
    let mut bytes = Vec::new();
    if let Some(output) = child.stderr.take() {
        // If the output cannot be read, the exit status still tells the result.
        drop(output.take(SAID_MAX).read_to_end(&mut bytes));
    }
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

fn judge(status: ExitStatus, said: &str) -> Result<(), String> {
    match (status.signal(), status.success()) {
        (None, true) => Ok(()),
        (Some(signal), _) => Err(format!("the check was ended by signal {signal}")),
        (None, false) if said.is_empty() => Err(format!("the check ended with {status}")),
        (None, false) => Err(said.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_ended_is_told() {
        let status = ExitStatus::from_raw;
        assert_eq!(judge(status(0), "warning: x"), Ok(()));
        assert_eq!(judge(status(1 << 8), "error: 3 violations"), Err("error: 3 violations".to_owned()));
        assert!(judge(status(11), "").unwrap_err().contains("signal 11"));
        assert!(judge(status(2 << 8), "").unwrap_err().contains("exit status: 2"));
    }
}
