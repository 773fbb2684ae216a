//! Memory that is used again: the bytes of most keys and values are needed for one call.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// What is kept of one; few rows have more, and what a long one took is given back.
const KEPT_MAX_BYTES: usize = 1 << 16;

thread_local! {
    /// As many as were in use at once.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Bytes that are empty at first. Their memory is kept for the next ones.
pub(super) struct Spare(Vec<u8>);

impl Spare {
    pub(super) fn take() -> Self {
        let mut bytes = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        bytes.clear();
        Self(bytes)
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        if self.0.capacity() <= KEPT_MAX_BYTES {
            let bytes = std::mem::take(&mut self.0);
            // While a thread ends there is nobody left to keep them for.
            let _gone = SPARE.try_with(|spare| spare.borrow_mut().push(bytes));
        }
    }
}

impl Deref for Spare {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Spare {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}
