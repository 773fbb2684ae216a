//! Counts the rows that this thread has read, in debug builds only. Tests use it to check that the cost of an input
//! does not grow with the size of the store.

use std::cell::Cell;

thread_local! {
    static ROWS: Cell<u64> = const { Cell::new(0) };
}

/// How many rows this thread has read so far; 0 in release builds.
#[must_use]
pub fn rows() -> u64 {
    ROWS.get()
}

pub(super) fn count() {
    if cfg!(debug_assertions) {
        ROWS.set(ROWS.get().wrapping_add(1));
    }
}
