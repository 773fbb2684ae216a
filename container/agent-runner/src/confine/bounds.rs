//! Resource limits and priorities of a process and its children.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};

use super::Bounds;
use crate::log;

/// Nice value: agents yield to the user's other processes.
const NICENESS: i32 = 5;
/// When memory runs out, the kernel kills agents before the daemon. An agent can raise this value, but not lower it.
const OOM_SCORE: &str = "500";

/// Sets the limits. Existing stricter limits are kept.
pub(super) fn apply(bounds: &Bounds) -> io::Result<()> {
    let wanted = [
        (Resource::Core, Some(0)),
        (Resource::Nproc, bounds.processes),
        (Resource::Data, bounds.memory),
        (Resource::Fsize, bounds.file_size),
    ];
    for (resource, wanted) in wanted {
        let Some(wanted) = wanted else { continue };
        let there = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let bound = Some(wanted.min(there));
        setrlimit(resource, Rlimit { current: bound, maximum: bound })?;
    }
    Ok(())
}

/// Lowers the CPU priority and raises the OOM score of this process and its children. Errors are only logged.
pub(super) fn yield_to_others() {
    if let Err(error) = nice(NICENESS) {
        log::note(format_args!("the agent runs at the priority of the daemon: {error}"));
    }
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE) {
        log::note(format_args!("the agent may outlive the daemon when memory runs out: {error}"));
    }
}
