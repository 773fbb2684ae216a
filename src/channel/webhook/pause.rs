//! Pauses that the receiver asked for. Nothing is sent to it during a pause.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::channel::intake::Ingress;
use crate::model::time::{Millis, Timestamp};

/// Longest pause that an attempt waits for. Before a longer one it ends.
const SHORT: Duration = Duration::from_secs(30);
/// Longest pause. If the receiver asks for more, it is asked again after this time.
const LONGEST: Duration = Duration::from_secs(3_600);

/// The current state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Now {
    None,
    /// Number of this pause in the channel, whether attempts wait for its end, and when that is.
    Lasts {
        number: u64,
        short: bool,
        until: Timestamp,
    },
}

/// The pause state of one receiver.
pub(super) struct Pause {
    now: Arc<watch::Sender<Now>>,
    closed: watch::Receiver<bool>,
}

/// Why nothing may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotNow {
    /// The receiver asked for a longer pause.
    Pause,
    /// The channel was closed.
    Closed,
}

impl Pause {
    pub(super) fn new(closed: watch::Receiver<bool>) -> Self {
        Self { now: Arc::new(watch::Sender::new(Now::None)), closed }
    }

    /// Starts a pause, replacing the current one. At the end of a long one the engine is notified that the channel is
    /// reachable.
    pub(super) fn begin(&self, length: Duration, start: Timestamp, intake: &Arc<dyn Ingress>) {
        let length = length.min(LONGEST);
        let short = length <= SHORT;
        let until = start.plus(Millis::new(u64::try_from(length.as_millis()).unwrap_or(u64::MAX)));
        let mut own = 1;
        self.now.send_modify(|now| {
            if let Now::Lasts { number, .. } = now {
                own = *number + 1;
            }
            *now = Now::Lasts { number: own, short, until };
        });
        let (now, intake, mut closed) = (Arc::clone(&self.now), Arc::clone(intake), self.closed.clone());
        tokio::spawn(async move {
            let over = tokio::time::timeout(length, closed.wait_for(|closed| *closed)).await;
            let still = |now: &mut Now| {
                let own = matches!(now, Now::Lasts { number, .. } if *number == own);
                if own {
                    *now = Now::None;
                }
                own
            };
            if now.send_if_modified(still) && over.is_err() && !short {
                intake.reachable();
            }
        });
    }

    /// Waits for the end of a short pause; returns at once during a long one.
    pub(super) async fn over(&self) -> Result<(), NotNow> {
        let mut now = self.now.subscribe();
        // The sender is a field of this value.
        let over = now.wait_for(|now| !matches!(now, Now::Lasts { short: true, .. })).await.map(|now| *now);
        match over {
            _ if *self.closed.borrow() => Err(NotNow::Closed),
            Ok(Now::Lasts { .. }) => Err(NotNow::Pause),
            _ => Ok(()),
        }
    }

    /// When the current pause ends.
    pub(super) fn end(&self) -> Option<Timestamp> {
        match *self.now.borrow() {
            Now::Lasts { until, .. } => Some(until),
            Now::None => None,
        }
    }

    /// Whether sending is currently forbidden.
    pub(super) fn lasts(&self) -> bool {
        *self.now.borrow() != Now::None || *self.closed.borrow()
    }
}

/// The length in a `Retry-After` header: seconds, or an HTTP date.
pub(super) fn asked_for(header: &str, now: Timestamp) -> Option<Duration> {
    let header = header.trim();
    if !header.is_empty() && header.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(header.parse().unwrap_or(u64::MAX)));
    }
    let at = chrono::DateTime::parse_from_rfc2822(header).ok()?.timestamp_millis();
    Some(Duration::from_millis(u64::try_from(at.saturating_sub(now.millis())).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_times_are_understood_and_nothing_else() {
        let now = Timestamp::parse("2026-04-20T12:00:00Z").unwrap();
        for (header, expected) in [
            ("0", Some(0)),
            (" 30 ", Some(30)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Mon, 20 Apr 2026 12:00:10 GMT", Some(10)),
            ("Mon, 20 Apr 2026 11:00:00 GMT", Some(0)),
            ("", None),
            ("-1", None),
            ("soon", None),
            ("1.5", None),
        ] {
            assert_eq!(asked_for(header, now), expected.map(Duration::from_secs), "{header}");
        }
    }
}
