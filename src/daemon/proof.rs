//! The weekly check of the whole store, run as the child process `hearth check` at the lowest priority.
//!
//! It must be a separate process: reading a damaged store can end the process with a signal, and a process that has the
//! store open loses its locks when it opens and closes the store's files a second time. The result is saved in a file,
//! for `status` and the next daemon.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::noted::BYTES_MAX;
use super::stop::Stop;
use super::{Error, child, noted, worker};
use crate::clock;
use crate::config::{Paths, seams};
use crate::model::time::{Millis, Timestamp};

/// Interval at which the thread tests whether a check is due.
const LOOK: Duration = Duration::from_secs(60);
/// Delay of the first check if no earlier result exists. Short, so that a machine that is never on for a week is
/// checked.
const FIRST: Millis = Millis::minutes(60);

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
    let File { at_ms, found } = noted::read(&paths.last_check())?;
    Some(Last { at: Timestamp::from_millis(at_ms), found })
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

/// Why the last daemon failed, as a message for people; none if it did not fail.
#[must_use]
pub fn last_end(paths: &Paths) -> Option<String> {
    let regular =
        |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|file| file.is_file() && file.len() <= BYTES_MAX);
    let reason = paths.ends().filter(regular).find_map(|path| std::fs::read_to_string(path).ok())?;
    Some(format!(
        "the last daemon could not continue: {reason}; the next one continues where it stopped, and nothing is lost"
    ))
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
            let file = File { at_ms: last.at.millis(), found: last.found };
            if let Err(error) = noted::write(&paths.last_check(), &file) {
                tracing::warn!(%error, "cannot record the result of the weekly check");
            }
        }
    };
    worker::start("check", work).map(drop)
}

/// Runs one check; none if the daemon stopped meanwhile.
fn check(paths: &Paths, stop: &Stop) -> Option<Last> {
    let found = match child::begin(paths, &["check".to_owned()]) {
        Ok(child) => child::watch(child, stop, "the check")?,
        Err(error) => Err(format!("the check could not be started: {error}")),
    };
    let found = found.err();
    match &found {
        None => tracing::info!("the weekly check found the store sound"),
        Some(found) => tracing::error!("the weekly check of the store failed: {found}"),
    }
    Some(Last { at: clock::wall(), found })
}
