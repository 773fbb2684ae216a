//! How fast the bridge sends. WhatsApp bans accounts that send like machines.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hearth_bridge::program::now;

/// Messages that may be sent at once.
const BURST: u32 = 20;
/// After that, one in this time.
const EACH: Duration = Duration::from_secs(3);

/// The pace of all threads.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    each: Duration,
    paid: Arc<Mutex<Duration>>,
}

impl Pace {
    /// The pace that WhatsApp tolerates.
    pub(crate) fn slow() -> Self {
        Self { each: EACH, paid: Arc::default() }
    }

    /// No pace: a stand-in bans no account.
    #[cfg(debug_assertions)]
    pub(crate) fn any() -> Self {
        Self { each: Duration::ZERO, paid: Arc::default() }
    }

    /// How long the next message has to wait, which counts as sent then. Where that is longer than `most`, it does not count.
    pub(crate) fn next(&self, most: Duration) -> Result<Duration, Duration> {
        self.at(now(), most)
    }

    fn at(&self, now: Duration, most: Duration) -> Result<Duration, Duration> {
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        // Every message costs a while; what was not used is saved up, up to a burst.
        let next = (*paid).max(now.saturating_sub(self.each * BURST)) + self.each;
        let wait = next.saturating_sub(now);
        if wait > most {
            return Err(wait - most);
        }
        *paid = next;
        Ok(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_followed_by_a_pace() {
        let (pace, start, most) = (Pace::slow(), Duration::from_secs(1_000), Duration::from_secs(4));
        for _ in 0..BURST {
            assert_eq!(pace.at(start, most), Ok(Duration::ZERO));
        }
        assert_eq!(pace.at(start, most), Ok(EACH));
        assert_eq!(pace.at(start, most), Err(Duration::from_secs(2)), "it does not count");
        assert_eq!(pace.at(start + EACH * 2, most), Ok(Duration::ZERO));
        assert_eq!(pace.at(start + EACH * 2, most), Ok(EACH));
    }
}
