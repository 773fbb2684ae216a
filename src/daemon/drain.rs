//! The end of a daemon that is in no hurry: nothing new is begun, and what is under way gets some time to end.
//!
//! Messages that come meanwhile are refused where they come from and are not lost there; those that were accepted and not
//! begun with are answered after the next start. What the time is too short for goes on then, too, and costs no try.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Daemon;
use crate::model::delivery::OutState;
use crate::state;

/// Time for turns under way to end.
const TURNS_MAX: Duration = Duration::from_secs(20);
/// Time for deliveries under way to end, after the turns.
const DELIVERIES_MAX: Duration = Duration::from_secs(10);
/// Longest time for which [`Daemon::drain`] waits.
pub const STOP_MAX: Duration = TURNS_MAX.saturating_add(DELIVERIES_MAX);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// What the end waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// So many sessions whose agents work on something.
    Turns(usize),
    /// So many messages on their way to people.
    Deliveries(usize),
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (count, one, many) = match self {
            Self::Turns(count) => (count, "turn", "turns"),
            Self::Deliveries(count) => (count, "delivery", "deliveries"),
        };
        write!(f, "{count} {}", if *count == 1 { one } else { many })
    }
}

impl Daemon {
    /// Begins nothing new any more and waits, 20 seconds for turns and 10 more for deliveries at most, until what is under way
    /// has ended. Says what it begins to wait for. Whoever stops waiting for this stops at once.
    pub async fn drain(&self, tell: impl Fn(Waiting)) {
        self.stop.drain();
        self.inbox.drain();
        self.switchboard.stop_taking();
        let withheld = self.mailroom.withhold_all();
        let turns = async {
            for heard in withheld {
                // A thread that is gone has nothing more to say.
                drop(heard.await);
            }
            self.none_left(|| self.turns().map(Waiting::Turns), &tell).await;
        };
        if tokio::time::timeout(TURNS_MAX, turns).await.is_err() {
            let left = self.turns().unwrap_or_default();
            tracing::warn!(turns = left, "turns that did not end in time go on at the next start");
        }
        let sent = self.none_left(|| self.deliveries().map(Waiting::Deliveries), &tell);
        if tokio::time::timeout(DELIVERIES_MAX, sent).await.is_err() {
            let left = self.deliveries().unwrap_or_default();
            tracing::warn!(deliveries = left, "what was not delivered in time is delivered after the next start");
        }
    }

    /// Whether nothing new is begun any more.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.stop.is_draining()
    }

    async fn none_left(&self, count: impl Fn() -> Result<Waiting, state::Error>, tell: &impl Fn(Waiting)) {
        let mut told = false;
        loop {
            match count() {
                Ok(Waiting::Turns(0) | Waiting::Deliveries(0)) => return,
                Ok(waiting) if !told => tell(waiting),
                Ok(_) => {}
                Err(error) => return tracing::error!(%error, "what is under way cannot be read; nothing is waited for"),
            }
            told = true;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Sessions whose agents have begun with something.
    fn turns(&self) -> Result<usize, state::Error> {
        self.store().read(|db, txn| {
            let sessions: Result<BTreeSet<_>, _> =
                db.claims.iter(txn)?.map(|row| row.map(|((session, _), _)| session)).collect();
            Ok(sessions?.len())
        })
    }

    /// Messages that were handed to their channel.
    fn deliveries(&self) -> Result<usize, state::Error> {
        self.store().read(|db, txn| {
            let mut under_way = 0;
            for row in db.lane_heads.iter(txn)? {
                let ((_, id), ()) = row?;
                under_way += usize::from(matches!(db.outbound.require(txn, &id)?.state, OutState::Attempting { .. }));
            }
            Ok(under_way)
        })
    }
}
