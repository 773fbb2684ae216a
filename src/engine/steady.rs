//! Whether the wall clock is believed. A clock that jumped ahead by days may be wrong, and what is removed because it is old
//! does not come back when the clock does.

use std::sync::{Mutex, PoisonError};

use super::Result;
use crate::model::time::{Awake, Millis, Moment};
use crate::state::{Read, Store, Tables};

/// A jump that is believed at once: a night, a day without power.
const PLAUSIBLE: Millis = Millis::minutes(24 * 60);
/// Awake time after which every jump is believed.
const SETTLED: Millis = Millis::minutes(60);

/// The last moment that was believed; none before the first one of this process.
#[derive(Debug, Default)]
pub(super) struct Steady(Mutex<Option<Moment>>);

impl Steady {
    /// Whether the wall clock is believed now. A moment that is goes into what later ones are compared with, if this one is
    /// `real` and not supposed. The first one is compared with the newest thing in the store.
    pub(super) fn look(&self, store: &Store, now: Moment, real: bool) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = || store.read(|db, txn| newest(db, txn, now)).ok().flatten();
        let believed = last.or_else(newest).is_none_or(|last| decide(last, now));
        if real && (believed || last.is_none()) {
            *last = Some(if believed { now } else { last.or_else(newest).unwrap_or(now) });
        }
        believed
    }
}

/// The newest thing in the store, as if it had been believed when this run began.
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
    use super::*;
    use crate::model::time::Timestamp;

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
            (moment(1_025, 4, 89), false), // a minute more than a day beyond what passed awake
            (moment(9_000, 4, 89), false),
            (moment(9_000, 4, 90), true),
            (moment(10, 4, 31), true), // back is never too early
            (moment(9_000, 5, 59), false),
            (moment(9_000, 5, 60), true),
        ] {
            assert_eq!(decide(last, now), believed, "{now:?}");
        }
    }
}
