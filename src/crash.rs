//! Points at which tests let a process of Hearth die, as a power cut would: before every commit, and before everything
//! that is done outside of a transaction. Unless a test asked for it with [`ask`], they do nothing, and a build without
//! debug assertions does not contain them.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// What was asked for. One per process, like its death.
static ASKED: OnceLock<Asked> = OnceLock::new();

/// Where to die, and where to note the way there.
struct Asked {
    /// A point, or [`ANY`], and how often this process has still to come to it.
    at: Option<(String, AtomicU32)>,
    notes: Option<File>,
}

/// Asks this process to die when it comes to a point for the nth time, and to note every point that it passes in a file.
/// The first call of a process counts. The point `any` is every point.
pub fn ask(at: Option<(String, u32)>, notes: Option<&Path>) {
    if at.is_none() && notes.is_none() {
        return;
    }
    let notes = notes.and_then(|path| OpenOptions::new().create(true).append(true).open(path).ok());
    let at = at.map(|(point, nth)| (point, AtomicU32::new(nth)));
    ASKED.get_or_init(|| Asked { at, notes });
}

/// Stands for every point.
const ANY: &str = "any";

/// Dies here if that was asked for. To stand right before what it is named after: then to die at the next one is to die
/// after it.
pub fn point(name: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    let Some(Asked { at, notes }) = ASKED.get() else { return };
    if let Some(mut notes) = notes.as_ref() {
        // In one piece, so that points of several threads do not mix. A test misses what could not be noted.
        drop(notes.write_all(format!("{name}\n").as_bytes()));
    }
    if let Some((point, left)) = at
        && (point == name || point == ANY)
        && left.fetch_sub(1, Ordering::SeqCst) == 1
    {
        tracing::warn!(point = name, "this process kills itself, as a test asked for");
        die();
    }
}

/// Whether the process is to die at a point, for work that has to be cut in two there.
#[must_use]
pub fn is_at(name: &str) -> bool {
    let at = ASKED.get().and_then(|asked| asked.at.as_ref());
    cfg!(debug_assertions) && at.is_some_and(|(point, _)| point == name)
}

fn die() {
    let own = rustix::process::getpid();
    if rustix::process::kill_process(own, rustix::process::Signal::KILL).is_err() {
        std::process::abort();
    }
}
