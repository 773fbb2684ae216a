//! Graceful shutdown: the daemon begins nothing new, and gives turns and deliveries in progress time to end.
//!
//! New messages are rejected during the shutdown, so they stay at their source. Accepted messages whose turn has not
//! begun are processed after the next start. Turns that do not end in time continue then, too, without using up a
//! retry.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Daemon;
use crate::model::delivery::OutState;
use crate::state::{self, Timed};

/// Time limit for turns in progress.
const TURNS_MAX: Duration = Duration::from_secs(20);
/// Time limit for deliveries in progress, after the turns.
const DELIVERIES_MAX: Duration = Duration::from_secs(10);
/// Longest time for which [`Daemon::drain`] waits.
pub const STOP_MAX: Duration = TURNS_MAX.saturating_add(DELIVERIES_MAX);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(50);

/// What the shutdown waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Number of sessions with a turn in progress.
    Turns(usize),
    /// Number of deliveries in progress.
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
    /// Begins nothing new, and waits at most 20 seconds for turns and then 10 for deliveries in progress. Calls `tell`
    /// when it begins to wait. A caller that stops waiting can shut the daemon down at once.
    pub async fn drain(&self, tell: impl Fn(Waiting)) {
        self.stop.drain();
        self.inbox.drain();
        self.channels.stop_taking();
        let withheld = self.workers.withhold_all();
        let turns = async {
            for heard in withheld {
                // If the thread has ended, nothing is received, which is fine.
                drop(heard.await);
            }
            self.none_left(|| self.turns().map(Waiting::Turns), &tell).await;
        };
        if tokio::time::timeout(TURNS_MAX, turns).await.is_err() {
            let left = self.turns().unwrap_or_default();
            tracing::warn!(turns = left, "turns that did not end in time continue at the next start");
        }
        let sent = self.none_left(|| self.deliveries().map(Waiting::Deliveries), &tell);
        if tokio::time::timeout(DELIVERIES_MAX, sent).await.is_err() {
            let left = self.deliveries().unwrap_or_default();
            tracing::warn!(
                deliveries = left,
                "messages that were not delivered in time are delivered after the next start"
            );
        }
    }

    /// Whether the daemon is draining.
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
                Err(error) => return tracing::error!(%error, "cannot list the work in progress; not waiting for it"),
            }
            told = true;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Sessions with a turn in progress.
    fn turns(&self) -> Result<usize, state::Error> {
        self.store().read(|db, txn| {
            let sessions: Result<BTreeSet<_>, _> =
                db.claimed_messages.iter(txn)?.map(|row| row.map(|(key, _)| key.session)).collect();
            Ok(sessions?.len())
        })
    }

    /// Messages that were handed to their channel.
    fn deliveries(&self) -> Result<usize, state::Error> {
        self.store().read(|db, txn| {
            let mut under_way = 0;
            for row in db.queue_heads.iter(txn)? {
                let (Timed { id, .. }, ()) = row?;
                under_way += usize::from(matches!(db.outbound.require(txn, &id)?.state, OutState::Attempting { .. }));
            }
            Ok(under_way)
        })
    }
}
