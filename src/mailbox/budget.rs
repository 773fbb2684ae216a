//! How much an agent may say outside of answers: so much at once, and a little more with each minute that passes. Without
//! it every file that a program writes would become a row of the store.

use crate::model::time::{Awake, Millis};

/// Things that may be said at once after a rest.
pub(super) const MOST: u32 = 1_000;
/// Time after which one more may be said.
const EACH: Millis = Millis::seconds(6);

/// What one session's agent may still say.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    left: u32,
    since: Awake,
    told: bool,
}

impl Budget {
    /// A whole one.
    #[must_use]
    pub const fn new(now: Awake) -> Self {
        Self { left: MOST, since: now, told: false }
    }

    /// Things that may be said now.
    pub fn left(&mut self, now: Awake) -> u32 {
        let more = now.since(self.since).get() / EACH.get();
        if more > 0 {
            self.left = self.left.saturating_add(u32::try_from(more).unwrap_or(u32::MAX)).min(MOST);
            self.since = now;
            self.told &= self.left < MOST;
        }
        self.left
    }

    /// Notes that so many things were said, and how many were left out. Whether that is to be told: once until all of it
    /// has grown again.
    pub fn spend(&mut self, (said, left_out): (u32, u32)) -> bool {
        self.left = self.left.saturating_sub(said);
        left_out > 0 && !std::mem::replace(&mut self.told, true)
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
        assert!(!budget.spend((MOST, 0)));
        assert_eq!([5, 6, 7, 11, 12, 72].map(|seconds| budget.left(at(seconds))), [0, 1, 1, 1, 2, 12]);
        assert!(budget.spend((12, 3)) && !budget.spend((0, 3)), "told once");
        assert_eq!(budget.left(at(1_000_000)), MOST);
        assert!(budget.spend((0, 1)), "and again after a rest");
    }
}
