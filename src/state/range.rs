//! Converts ranges of keys to ranges of bytes.

use std::ops::{Bound, RangeBounds};

use super::key::KeyPart;

pub(super) type ByteRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

pub(super) fn borrowed(range: &ByteRange) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (range.0.as_ref().map(Vec::as_slice), range.1.as_ref().map(Vec::as_slice))
}

pub(super) fn byte_range<K: KeyPart>(keys: &impl RangeBounds<K>) -> ByteRange {
    (keys.start_bound().map(K::to_bytes), keys.end_bound().map(K::to_bytes))
}

pub(super) fn prefix_range(prefix: &impl KeyPart) -> ByteRange {
    let start = prefix.to_bytes();
    let end = after_prefix(&start).map_or(Bound::Unbounded, Bound::Excluded);
    (Bound::Included(start), end)
}

/// The smallest bytes above everything that begins with `prefix`, if there are any.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix.get(..=last)?.to_vec();
    if let Some(byte) = end.last_mut() {
        *byte = byte.saturating_add(1);
    }
    Some(end)
}
