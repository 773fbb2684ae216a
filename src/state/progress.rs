//! Progress reports of long work on a store.

/// A stage of long work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The store is copied; the total is unknown.
    Copying,
    /// The digest of a copy is being computed; counted in bytes.
    Reading,
    /// The consistency of a copy is being checked.
    Checking,
    /// Rows are exported or imported; counted in rows.
    Rows,
}

/// Receives progress reports of long work.
pub trait Progress {
    /// A stage begins. `total` is its size, if known.
    fn begin(&self, step: Step, total: Option<u64>);

    /// Adds to the work done.
    fn advance(&self, by: u64);
}

/// Ignores progress reports.
#[derive(Debug, Clone, Copy)]
pub struct Unwatched;

impl Progress for Unwatched {
    fn begin(&self, _step: Step, _total: Option<u64>) {}

    fn advance(&self, _by: u64) {}
}
