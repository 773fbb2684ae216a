//! Order among several things that wait for the same person.

/// Whether an item takes its turn or yields to everything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Turn {
    /// It takes its turn.
    Now,
    /// It waits until nothing with `Now` is left.
    Later,
}
