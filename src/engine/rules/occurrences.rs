//! The occurrences of a series. Pure.

use crate::model::task::{Recurrence, Task};
use crate::model::time::{Millis, Timestamp};
use crate::time::cron::Cron;
use crate::time::every::Every;
use crate::time::zone::Zone;

/// Maximum number of occurrences counted one by one. Of longer runs only the ends are determined.
const COUNTED_MAX: u32 = 1_000;

/// The times of a series.
#[derive(Debug)]
pub(crate) enum Series {
    /// A single time.
    Once,
    /// A cron expression in a time zone.
    Cron(Cron, Zone),
    /// An interval grid that begins at a time.
    Every(Every, Timestamp),
    /// Stored occurrences, followed by another series.
    Kept {
        /// Ascending.
        slots: Vec<Timestamp>,
        /// Until this time there are no other occurrences.
        until: Timestamp,
        /// The series after that time.
        then: Box<Self>,
    },
    /// No occurrences. A stored recurrence was checked, but perhaps by another version of Hearth.
    Unreadable,
}

impl Series {
    /// The series of a task in a time zone.
    pub(crate) fn of(task: &Task, zone: &Zone) -> Self {
        Self::new(&task.recurrence, task.anchor, zone)
    }

    /// The series of a recurrence.
    pub(crate) fn new(recurrence: &Recurrence, anchor: Timestamp, zone: &Zone) -> Self {
        match recurrence {
            Recurrence::Once => Self::Once,
            Recurrence::Cron(text) => match Cron::parse(text) {
                Ok(cron) => Self::Cron(cron, zone.clone()),
                Err(_) => Self::Unreadable,
            },
            Recurrence::Every(length) => match Every::of(*length) {
                Ok(every) => Self::Every(every, anchor),
                Err(_) => Self::Unreadable,
            },
        }
    }

    /// The first occurrence strictly after a time.
    pub(crate) fn after(&self, at: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Once | Self::Unreadable => None,
            Self::Cron(cron, zone) => cron.next(at, zone),
            Self::Every(every, anchor) => every.next(at, *anchor),
            Self::Kept { slots, until, then } => {
                slots.iter().copied().find(|slot| *slot > at).or_else(|| then.after(at.max(*until)))
            }
        }
    }

    /// The slots from `first`, which is a slot, to `now`: the newest ones, and the runs before them.
    pub(crate) fn passed(&self, first: Timestamp, now: Timestamp, newest: usize) -> Passed {
        let newest = newest.max(1);
        let mut slots = std::collections::VecDeque::from([first]);
        let mut before: Vec<Run> = Vec::new();
        let mut at = first;
        let mut seen = 0_u32;
        while let Some(slot) = self.after(at).filter(|slot| *slot <= now) {
            seen = seen.saturating_add(1);
            if seen > COUNTED_MAX {
                return self.long(first, now, newest);
            }
            slots.push_back(slot);
            at = slot;
            if slots.len() > newest
                && let Some(old) = slots.pop_front()
            {
                self.append(&mut before, old);
            }
        }
        Passed { newest: slots.into(), before }
    }

    /// Appends an occurrence to a list of runs. Stored occurrences are not joined, because occurrences between and
    /// after them have records of their own.
    fn append(&self, runs: &mut Vec<Run>, at: Timestamp) {
        let kept = |slot| matches!(self, Self::Kept { slots, .. } if slots.contains(&slot));
        match runs.last_mut().filter(|run| !kept(run.last) && !kept(at)) {
            Some(run) => *run = run.and(at),
            None => runs.push(Run::one(at)),
        }
    }

    /// Like [`Self::passed`], for too many occurrences to enumerate. Searches backwards from now, in growing steps.
    fn long(&self, first: Timestamp, now: Timestamp, newest: usize) -> Passed {
        if let Self::Kept { slots, until, then } = self
            && let Some(after) = then.after(*until).filter(|after| *after <= now)
        {
            let mut passed = then.long(after, now, newest);
            let kept = slots.iter().filter(|slot| **slot >= first).map(|slot| Run::one(*slot));
            passed.before.splice(..0, kept);
            return passed;
        }
        let mut back = Millis::minutes(1);
        loop {
            let from = now.minus(back).max(first);
            let mut slots: Vec<Timestamp> = Vec::new();
            let mut at = from;
            while let Some(slot) = self.after(at).filter(|slot| *slot <= now) {
                slots.push(slot);
                at = slot;
            }
            if slots.len() > newest || from == first {
                let kept = slots.split_off(slots.len().saturating_sub(newest));
                let last = slots.last().copied().unwrap_or(first);
                return Passed { newest: kept, before: vec![Run { first, last, count: None }] };
            }
            back = Millis::new(back.get().saturating_mul(2));
        }
    }
}

/// Occurrences whose time has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Passed {
    /// The newest ones, ascending.
    pub(crate) newest: Vec<Timestamp>,
    /// The runs before them, ascending. Occurrences between two runs have records of their own.
    pub(crate) before: Vec<Run>,
}

/// Consecutive occurrences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    /// Their number, if known.
    pub(crate) count: Option<u32>,
}

impl Run {
    pub(crate) const fn one(at: Timestamp) -> Self {
        Self { first: at, last: at, count: Some(1) }
    }

    /// This run extended by one occurrence.
    fn and(self, at: Timestamp) -> Self {
        Self { last: at, count: self.count.map(|count| count.saturating_add(1)), ..self }
    }
}

#[cfg(test)]
mod tests {
    use crate::rules::occurrences::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn every(minutes: u64) -> Series {
        Series::new(&Recurrence::Every(Millis::minutes(minutes)), at("2026-01-01T00:00:00Z"), &Zone::utc())
    }

    #[test]
    fn what_passed_is_the_newest_and_the_rest() {
        let series = every(60);
        let first = at("2026-01-01T03:00:00Z");
        let one = series.passed(first, at("2026-01-01T03:59:59Z"), 1);
        assert_eq!(one, Passed { newest: vec![first], before: vec![] });
        let passed = series.passed(first, at("2026-01-01T08:30:00Z"), 2);
        assert_eq!(passed.newest, [at("2026-01-01T07:00:00Z"), at("2026-01-01T08:00:00Z")]);
        assert_eq!(passed.before, [Run { first, last: at("2026-01-01T06:00:00Z"), count: Some(4) }]);
    }

    /// Stored occurrences are skipped one by one, because those between and after them already have records.
    #[test]
    fn what_was_kept_is_in_no_run() {
        let [first, second, until] = [3, 5, 7].map(|hour| at(&format!("2026-01-01T0{hour}:00:00Z")));
        let kept = |minutes| Series::Kept { slots: vec![first, second], until, then: Box::new(every(minutes)) };
        let passed = kept(60).passed(first, at("2026-01-01T11:30:00Z"), 1);
        assert_eq!(passed.newest, [at("2026-01-01T11:00:00Z")]);
        let rest = Run { first: at("2026-01-01T08:00:00Z"), last: at("2026-01-01T10:00:00Z"), count: Some(3) };
        assert_eq!(passed.before, [Run::one(first), Run::one(second), rest]);
        let passed = kept(1).passed(second, at("2026-01-03T00:00:00Z"), 1);
        assert_eq!(passed.newest, [at("2026-01-03T00:00:00Z")]);
        let rest = Run { first: at("2026-01-01T07:01:00Z"), last: at("2026-01-02T23:59:00Z"), count: None };
        assert_eq!(passed.before, [Run::one(second), rest]);
    }

    #[test]
    fn a_year_of_minutes_is_not_counted() {
        let cron = Series::new(&Recurrence::Cron("* * * * *".to_owned()), at("2026-01-01T00:00:00Z"), &Zone::utc());
        for series in [every(1), cron] {
            let first = at("2026-01-01T00:01:00Z");
            let passed = series.passed(first, at("2027-01-01T00:00:30Z"), 3);
            let newest = ["2026-12-31T23:58:00Z", "2026-12-31T23:59:00Z", "2027-01-01T00:00:00Z"].map(at);
            assert_eq!(passed.newest, newest);
            assert_eq!(passed.before, [Run { first, last: at("2026-12-31T23:57:00Z"), count: None }]);
        }
    }

    #[test]
    fn slots_are_counted_up_to_a_bound() {
        let first = at("2026-01-01T00:01:00Z");
        for (later, counted) in [(COUNTED_MAX - 1, true), (COUNTED_MAX, true), (COUNTED_MAX + 1, false)] {
            let now = first.plus(Millis::minutes(later.into()));
            let passed = every(1).passed(first, now, 1);
            let last = now.minus(Millis::minutes(1));
            assert_eq!(passed.newest, [now]);
            assert_eq!(passed.before, [Run { first, last, count: counted.then_some(later) }]);
        }
    }

    #[test]
    fn what_comes_once_has_one_slot() {
        let series = Series::new(&Recurrence::Once, at("2026-01-01T00:00:00Z"), &Zone::utc());
        let first = at("2026-01-01T00:00:00Z");
        assert_eq!(series.passed(first, at("2036-01-01T00:00:00Z"), 5), Passed { newest: vec![first], before: vec![] });
        assert_eq!(series.after(first), None);
    }
}
