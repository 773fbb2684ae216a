//! Work that no person triggers: start, sweep, retention, clock changes, removals in slices.

pub(crate) mod clock;
pub(crate) mod deadline;
pub(crate) mod group_files;
pub(crate) mod reachable;
pub(crate) mod removal;
pub mod retention;
pub(crate) mod start;
pub(crate) mod sweep;
