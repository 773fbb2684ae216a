//! The receiver asked to be left alone for a while: then nothing is sent to it before that time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::channel::intake::Intake;

/// A pause that an attempt waits through; it gives up before a longer one.
const SHORT: Duration = Duration::from_secs(30);
/// The longest pause: whoever asks for more is asked again after this one.
const LONGEST: Duration = Duration::from_secs(3_600);

/// What a pause is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Now {
    None,
    /// The how manieth pause of this channel, and whether attempts wait for its end.
    Lasts {
        number: u64,
        short: bool,
    },
}

/// The pause of one receiver.
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

    /// Begins a pause, which replaces one that lasts. At the end of a long one the engine is told that it can go on.
    pub(super) fn begin(&self, length: Duration, intake: &Arc<dyn Intake>) {
        let length = length.min(LONGEST);
        let short = length <= SHORT;
        let mut own = 1;
        self.now.send_modify(|now| {
            if let Now::Lasts { number, .. } = now {
                own = *number + 1;
            }
            *now = Now::Lasts { number: own, short };
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

    /// Waits until something may be sent, but not through a long pause.
    pub(super) async fn over(&self) -> Result<(), NotNow> {
        let mut now = self.now.subscribe();
        // Its sender is in this very value.
        let over = now.wait_for(|now| !matches!(now, Now::Lasts { short: true, .. })).await.map(|now| *now);
        match over {
            _ if *self.closed.borrow() => Err(NotNow::Closed),
            Ok(Now::Lasts { .. }) => Err(NotNow::Pause),
            _ => Ok(()),
        }
    }

    /// Whether nothing may be sent at this moment.
    pub(super) fn lasts(&self) -> bool {
        *self.now.borrow() != Now::None || *self.closed.borrow()
    }
}

/// The length in a `Retry-After`: seconds, or a time as HTTP writes it.
pub(super) fn asked_for(header: &str, now: crate::model::time::Timestamp) -> Option<Duration> {
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
    use crate::model::time::Timestamp;

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
