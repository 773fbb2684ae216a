//! Waits between retries.

use super::time::Millis;

/// A wait that doubles with each failure in a row, up to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Millis,
    longest: Millis,
}

impl Backoff {
    /// The wait after the first failure, and the longest one.
    #[must_use]
    pub const fn new(first: Millis, longest: Millis) -> Self {
        Self { first, longest }
    }

    /// The wait after a failure that follows this many others.
    #[must_use]
    pub fn wait(self, before: u32) -> Millis {
        let factor = 1_u64.checked_shl(before).unwrap_or(u64::MAX);
        Millis::new(self.first.get().saturating_mul(factor)).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let waits = Backoff::new(Millis::seconds(60), Millis::minutes(60));
        let minutes = |before| waits.wait(before).get() / 60_000;
        assert_eq!((0..8).map(minutes).collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 60, 60]);
        for many in [63, 64, 65, u32::MAX] {
            assert_eq!(minutes(many), 60);
        }
        assert_eq!(Backoff::new(Millis::ZERO, Millis::minutes(60)).wait(u32::MAX), Millis::ZERO);
    }
}
