//! Memory that is used again: the bytes of most keys and values are needed for one call.

use std::cell::RefCell;

/// What is kept of one; few rows have more, and what a long one took is given back.
const KEPT_MAX_BYTES: usize = 1 << 16;

thread_local! {
    /// As many as were in use at once.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Does something with bytes that are empty at first.
pub(super) fn with_spare<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut bytes = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
    bytes.clear();
    let done = work(&mut bytes);
    if bytes.capacity() <= KEPT_MAX_BYTES {
        SPARE.with_borrow_mut(|spare| spare.push(bytes));
    }
    done
}
