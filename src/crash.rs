//! Points at which tests let a process of Hearth die, as a power cut would: before every commit, and before everything
//! that is done outside of a transaction. Without the variables that ask for it (`config::seams`) they do nothing.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::config::seams;

/// What was asked for. One per process, like its death.
static ASKED: LazyLock<Asked> = LazyLock::new(Asked::look);

/// Where to die, and where to note the way there.
struct Asked {
    /// A point, or [`ANY`], and how often this process has still to come to it.
    at: Option<(String, AtomicU32)>,
    notes: Option<File>,
}

/// Stands for every point.
const ANY: &str = "any";

impl Asked {
    fn look() -> Self {
        let notes = seams::points().and_then(|path| OpenOptions::new().create(true).append(true).open(path).ok());
        let at = seams::crash_at().map(|(point, nth)| (point, AtomicU32::new(nth)));
        if let Some((point, nth)) = &at {
            tracing::warn!(%point, ?nth, "a test wants this process to die by itself");
        }
        Self { at, notes }
    }
}

/// Dies here if that was asked for. To stand right before what it is named after: then to die at the next one is to die
/// after it.
pub(crate) fn point(name: &str) {
    let Asked { at, notes } = &*ASKED;
    if at.is_none() && notes.is_none() {
        return;
    }
    if let Some(mut notes) = notes.as_ref() {
        // In one piece, so that points of several threads do not mix. A test misses what could not be noted.
        drop(notes.write_all(format!("{name}\n").as_bytes()));
    }
    if let Some((point, left)) = at
        && (point == name || point == ANY)
        && left.fetch_sub(1, Ordering::SeqCst) == 1
    {
        die();
    }
}

/// Whether the process is to die at a point, for work that has to be cut in two there.
pub(crate) fn is_at(name: &str) -> bool {
    ASKED.at.as_ref().is_some_and(|(point, _)| point == name)
}

fn die() {
    let own = rustix::process::getpid();
    if rustix::process::kill_process(own, rustix::process::Signal::KILL).is_err() {
        std::process::abort();
    }
}
