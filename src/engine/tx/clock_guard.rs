//! Decides whether to trust the wall clock. A clock that jumped ahead by days may be wrong, and data removed for its
//! age does not come back when the clock is corrected.

use crate::Result;
use crate::model::time::{Awake, Millis, Moment};
use crate::state::{Read, Store, Tables};
use std::sync::{Mutex, PoisonError};

/// The largest jump that is trusted at once: a night, or a day without power.
const PLAUSIBLE: Millis = Millis::minutes(24 * 60);

/// Awake time after which any jump is trusted.
const SETTLED: Millis = Millis::minutes(60);

/// The last trusted moment; none before the first one of this process.
#[derive(Debug, Default)]
pub(crate) struct Steady(Mutex<Option<Moment>>);

impl Steady {
    /// Whether the wall clock is trusted now. If so, and if `real`, later moments are compared with this one. The first
    /// moment is compared with the newest row in the store.
    pub(crate) fn look(&self, store: &Store, now: Moment, real: bool) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = || store.read(|db, txn| newest(db, txn, now)).ok().flatten();
        let believed = last.or_else(newest).is_none_or(|last| decide(last, now));
        if real && (believed || last.is_none()) {
            *last = Some(if believed { now } else { last.or_else(newest).unwrap_or(now) });
        }
        believed
    }
}

/// The time of the newest row in the store, as if it had been trusted when this run began.
fn newest(db: &Tables, txn: &Read<'_>, now: Moment) -> Result<Option<Moment>> {
    let journal = db.journal.last(txn, ..)?.map(|(_, entry)| entry.at);
    let message = db.messages.last(txn, ..)?.map(|(_, message)| message.stored);
    let awake = Awake::new(now.awake.run(), 0);
    Ok(journal.max(message).map(|wall| Moment { wall, awake }))
}

fn decide(last: Moment, now: Moment) -> bool {
    let awake = now.awake.since(last.awake);
    awake >= SETTLED || now.wall <= last.wall.plus(awake).plus(PLAUSIBLE)
}

#[cfg(test)]
mod tests {
    use crate::model::time::Timestamp;
    use crate::tx::clock_guard::*;

    #[test]
    fn a_jump_of_days_is_believed_after_an_hour() {
        let moment = |hours: u64, run, minutes: u64| Moment {
            wall: Timestamp::from_millis(0).plus(Millis::minutes(hours * 60)),
            awake: Awake::new(run, minutes * 60_000),
        };
        let last = moment(1_000, 4, 30);
        for (now, believed) in [
            (moment(1_000, 4, 30), true),
            (moment(1_024, 4, 30), true),
            (moment(1_025, 4, 30), false),
            (moment(1_025, 4, 89), false), // a minute more than one day beyond the awake time that passed
            (moment(9_000, 4, 89), false),
            (moment(9_000, 4, 90), true),
            (moment(10, 4, 31), true), // a clock that was set back is always trusted
            (moment(9_000, 5, 59), false),
            (moment(9_000, 5, 60), true),
        ] {
            assert_eq!(decide(last, now), believed, "{now:?}");
        }
    }
}
