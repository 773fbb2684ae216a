//! Rate limit for what an agent writes outside of answers: a burst, refilled over time. Without it, every file that a
//! program writes would become a row of the store.

use crate::model::time::{Awake, Millis};

/// Records allowed in a burst after a rest.
pub(super) const MOST: u32 = 1_000;
/// Time after which one more record is allowed.
const EACH: Millis = Millis::seconds(6);

/// Remaining budget of one session's agent.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    left: u32,
    since: Awake,
    told: bool,
    /// Records discarded since the budget was last full.
    discarded: u64,
}

impl Budget {
    /// A full budget.
    #[must_use]
    pub const fn new(now: Awake) -> Self {
        Self { left: MOST, since: now, told: false, discarded: 0 }
    }

    /// Records allowed now.
    pub fn left(&mut self, now: Awake) -> u32 {
        let more = now.since(self.since).get() / EACH.get();
        if more > 0 {
            self.left = self.left.saturating_add(u32::try_from(more).unwrap_or(u32::MAX)).min(MOST);
            self.since = now;
            self.told &= self.left < MOST;
            if self.left == MOST {
                self.discarded = 0;
            }
        }
        self.left
    }

    /// Records how many were accepted and how many discarded. Returns whether to report the discards: once until the
    /// budget is full again.
    pub fn spend(&mut self, said: u32, left_out: u32) -> bool {
        self.left = self.left.saturating_sub(said);
        self.discarded = self.discarded.saturating_add(left_out.into());
        left_out > 0 && !std::mem::replace(&mut self.told, true)
    }

    /// Records discarded since the budget was last full; zero once it is full again.
    pub fn discarded(&mut self, now: Awake) -> u64 {
        self.left(now);
        self.discarded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_used_up_and_grows_again() {
        let at = |seconds: u64| Awake::new(1, seconds * 1_000);
        let mut budget = Budget::new(at(0));
        assert_eq!(budget.left(at(5)), MOST);
        assert!(!budget.spend(MOST, 0));
        assert_eq!([5, 6, 7, 11, 12, 72].map(|seconds| budget.left(at(seconds))), [0, 1, 1, 1, 2, 12]);
        assert!(budget.spend(12, 3) && !budget.spend(0, 3), "told once");
        assert_eq!(budget.discarded(at(73)), 6);
        assert_eq!((budget.left(at(1_000_000)), budget.discarded(at(1_000_000))), (MOST, 0));
        assert!(budget.spend(0, 1), "and again after a rest");
    }
}
