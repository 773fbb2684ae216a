//! Sorts terms. Most differ in their first bytes, which are compared as a number.

use super::packed::to_u64;

/// Bytes of a term that are compared first.
const BEGINNING: usize = size_of::<u64>();

/// The places of terms in the order of the terms; those of equal terms in order.
#[must_use]
pub fn sorted<'t>(count: usize, term: impl Fn(usize) -> &'t [u8]) -> Vec<usize> {
    let key = |place: usize| u128::from(beginning(term(place))) << 64 | u128::from(to_u64(place));
    let place = |key: u128| usize::try_from(key & u128::from(u64::MAX)).unwrap_or_default();
    let mut keys: Vec<u128> = (0..count).map(key).collect();
    keys.sort_unstable();
    for same in keys.chunk_by_mut(|one, other| one >> 64 == other >> 64) {
        // Short terms are equal if their beginnings are, because no term contains NUL.
        if same.len() > 1 && same.iter().any(|key| term(place(*key)).len() > BEGINNING) {
            same.sort_unstable_by_key(|key| (term(place(*key)), *key));
        }
    }
    keys.into_iter().map(place).collect()
}

/// The beginning of a term as a number, which sorts as terms do.
#[inline]
#[must_use]
pub fn beginning(term: &[u8]) -> u64 {
    match term.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => (0..BEGINNING).fold(0, |sum, at| sum << 8 | term.get(at).map_or(0, |byte| u64::from(*byte))),
    }
}
