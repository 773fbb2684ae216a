//! Unguessable numbers, derived from given entropy. Nothing here is random on its own.

use sha2::{Digest, Sha256};
use std::cell::Cell;

/// The entropy of one commit. A number derived from it reveals nothing about the others.
#[derive(Debug)]
pub struct Entropy {
    seed: u64,
    drawn: Cell<u64>,
}

impl Entropy {
    /// Creates it from a number from `clock::random`, or one that a test chose.
    #[must_use]
    pub const fn of(seed: u64) -> Self {
        Self { seed, drawn: Cell::new(0) }
    }

    /// Draws a new number.
    pub(crate) fn nonce(&self) -> u64 {
        let drawn = self.drawn.get();
        self.drawn.set(drawn.saturating_add(1));
        let mut digest = Sha256::new();
        digest.update(self.seed.to_be_bytes());
        digest.update(drawn.to_be_bytes());
        digest.finalize().iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
    }
}

#[cfg(test)]
mod tests {
    use crate::tx::entropy::*;

    #[test]
    fn numbers_differ_and_the_same_entropy_gives_the_same_ones() {
        let numbers = |seed| {
            let entropy = Entropy::of(seed);
            [entropy.nonce(), entropy.nonce(), entropy.nonce()]
        };
        let [a, b, c] = numbers(7);
        assert!(a != b && b != c && a != c);
        assert_eq!(numbers(7), [a, b, c]);
        assert_ne!(numbers(8)[0], a);
        let entropy = Entropy::of(7);
        assert_eq!((0..100).fold(0, |seen, _| seen | entropy.nonce()), u64::MAX, "all bits are drawn");
    }
}
