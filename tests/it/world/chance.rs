//! A random number generator that gives the same numbers for the same seed.

use std::ops::RangeInclusive;

use proptest::prelude::ProptestConfig;

/// The seeds of a run: those of `HEARTH_SEED`, which is `3` or `1-12`, else `default`.
pub(crate) fn seeds(default: &str) -> RangeInclusive<u64> {
    #[expect(clippy::disallowed_methods, reason = "a test is told its seeds by the environment")]
    let seeds = std::env::var("HEARTH_SEED").unwrap_or_else(|_| default.to_owned());
    let (first, last) = seeds.split_once('-').unwrap_or((&seeds, &seeds));
    first.parse().unwrap()..=last.parse().unwrap()
}

/// Number of cases for a law about the whole engine: `PROPTEST_CASES`, otherwise the given number.
pub(crate) fn cases(ordinary: u32) -> ProptestConfig {
    #[expect(clippy::disallowed_methods, reason = "a test is told its cases by the environment")]
    let told = std::env::var_os("PROPTEST_CASES").is_some();
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if told { config } else { ProptestConfig { cases: ordinary, ..config } }
}

/// A stream of such numbers (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    /// The stream of one step of a run: it does not depend on what the steps before it drew.
    pub(crate) fn of_step(seed: u64, step: u64) -> Self {
        let mut own = Self(seed ^ step.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self(own.next(u64::MAX))
    }

    pub(crate) fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.next(n) == 0
    }

    /// A number from 0 up to and not including `end`, signed.
    pub(crate) fn below(&mut self, end: i64) -> i64 {
        i64::try_from(self.next(u64::try_from(end).unwrap())).unwrap()
    }

    /// A number from 0 up to and not including `end`.
    pub(crate) fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.next(u64::try_from(end).unwrap())).unwrap()
    }

    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.index(all.len())]
    }
}
