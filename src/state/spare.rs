//! A pool of reusable buffers: most keys and values are needed for only one call.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Largest buffer that is kept. Few rows are larger, and larger buffers are freed.
const KEPT_MAX_BYTES: usize = 1 << 16;

thread_local! {
    /// Holds as many buffers as were in use at once.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer, empty at first. Its memory is reused.
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
            // While a thread ends, the pool no longer exists.
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
