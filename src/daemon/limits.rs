//! Resource limits of this process: open files and address space.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Requested limit of open files. A higher limit would slow down programs that close every possible descriptor at
/// start.
const FILES_WANTED: u64 = 4_096;
/// Minimum address space. With less, the daemon could not start its threads beside the store's memory map.
const ADDRESS_SPACE_MIN: u64 = 3 << 29;

/// The system grants too little address space.
#[derive(Debug, thiserror::Error)]
#[error(
    "this process may use {limit} MiB of address space, and the daemon needs at least {needed} MiB: raise the limit (`ulimit \
     -v`, or `LimitAS=` of a service)"
)]
pub struct TooSmall {
    /// What it may use, in MiB.
    limit: u64,
    /// What it needs, in MiB.
    needed: u64,
}

/// Raises the limit of open files, and rejects an address space that is too small. Called before anything else starts,
/// because a thread that cannot start later would be a panic.
///
/// # Errors
/// [`TooSmall`].
pub fn prepare() -> Result<(), TooSmall> {
    let files = getrlimit(Resource::Nofile);
    if let Some(current) = raised(&files)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..files })
    {
        // The daemon then runs with fewer connections.
        tracing::debug!(%error, "cannot raise the limit of open files");
    }
    match getrlimit(Resource::As).current {
        Some(limit) if limit < ADDRESS_SPACE_MIN => {
            Err(TooSmall { limit: limit >> 20, needed: ADDRESS_SPACE_MIN >> 20 })
        }
        _ => Ok(()),
    }
}

/// The soft limit to set; none if it is high enough, or as high as it can be.
fn raised(files: &Rlimit) -> Option<u64> {
    let current = files.current?;
    let wanted = files.maximum.map_or(FILES_WANTED, |maximum| maximum.min(FILES_WANTED));
    (wanted > current).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_raised_as_far_as_is_useful_and_possible() {
        for (current, maximum, expected) in [
            (Some(64), Some(64), None),
            (Some(64), Some(1_024), Some(1_024)),
            (Some(1_024), Some(1 << 20), Some(FILES_WANTED)),
            (Some(1_024), None, Some(FILES_WANTED)),
            (Some(1 << 16), Some(1 << 20), None),
            (None, None, None),
        ] {
            assert_eq!(raised(&Rlimit { current, maximum }), expected, "{current:?} {maximum:?}");
        }
    }
}
