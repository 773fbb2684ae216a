//! Points at which tests let the daemon die, as a power cut would: between a commit and its effects, between an effect and
//! its outcome. Without the variable that names one (`config::seams`) they do nothing.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::config::seams;

/// The point to die at, and how often the daemon has still to come to it. One per process, like its death.
static AT: LazyLock<Option<(String, AtomicU32)>> =
    LazyLock::new(|| seams::crash_at().map(|(point, nth)| (point, AtomicU32::new(nth))));

/// Dies here if that was asked for.
pub(super) fn point(name: &str) {
    if let Some((point, left)) = AT.as_ref()
        && point == name
        && left.fetch_sub(1, Ordering::SeqCst) == 1
    {
        let own = rustix::process::getpid();
        if rustix::process::kill_process(own, rustix::process::Signal::KILL).is_err() {
            std::process::abort();
        }
    }
}

/// Whether the daemon is to die at a point, for work that has to be cut in two there.
pub(super) fn is_at(name: &str) -> bool {
    AT.as_ref().is_some_and(|(point, _)| point == name)
}
