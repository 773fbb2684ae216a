//! Points at which tests make a process of Hearth die, as a power cut would: before every commit, and before everything
//! that is done outside of a transaction. Unless a test enables them with [`ask`], they do nothing, and a build without
//! debug assertions does not contain them.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The test's request. There is one per process.
static ASKED: OnceLock<Asked> = OnceLock::new();

/// Where to die, and where to record the points on the way.
struct Asked {
    /// A point, or [`ANY`], and the number of visits that are left.
    at: Option<(String, AtomicU32)>,
    notes: Option<File>,
}

/// Makes this process die when it reaches a point for the nth time, and record every point that it passes in a file.
/// Only the first call in a process has an effect. The point `any` is every point.
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

/// Dies here if requested. Place the call right before the action that the point is named after: dying after the action
/// is dying at the next point.
pub fn point(name: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    let Some(Asked { at, notes }) = ASKED.get() else { return };
    if let Some(mut notes) = notes.as_ref() {
        // Written in one piece, so that points of several threads do not mix. A failed write is ignored: the test
        // notices the missing point.
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

/// Whether the process is to die at a point, for an action that has to be interrupted halfway.
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
