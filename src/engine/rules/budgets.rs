//! Decides whether a budget has room for a turn. Pure.

use crate::model::budget::{BudgetPeriod, OnLimit, PassReason};
use crate::model::time::{Day, Timestamp};
use crate::time::local;
use crate::time::zone::Zone;

/// Recent turns whose median is expected of the next one.
pub(crate) const RECENT: usize = 15;
/// Fewer turns say nothing about the next one.
const RECENT_MIN: usize = 3;
/// No turn is expected to use more than this part of a budget.
const SHARE: u64 = 4;

/// A limit of a budget in one unit: millionths of a dollar, or tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    /// How much may be used, with what people added.
    pub(crate) limit: u64,
    /// How much was used.
    pub(crate) spent: u64,
    /// What turns of other sessions are expected to use.
    pub(crate) reserved: u64,
}

/// What a turn is expected to use: the median of the last ones, else a cap, and never more than a quarter of the tightest
/// limit.
pub(crate) fn decide_expected(mut recent: Vec<u64>, cap: Option<u64>, limits: impl Iterator<Item = u64>) -> u64 {
    recent.sort_unstable();
    let usual = if recent.len() < RECENT_MIN { cap } else { recent.get(recent.len() / 2).copied() };
    let share = limits.map(|limit| limit / SHARE).min();
    match (usual, share) {
        (Some(usual), Some(share)) => usual.min(share),
        (None, Some(share)) => share,
        (_, None) => 0,
    }
}

/// Whether a limit has room for a turn that is expected to use so much.
pub(crate) const fn decide_room(of: Limit, expected: u64) -> bool {
    let used = of.spent.saturating_add(of.reserved);
    used < of.limit && used.saturating_add(expected) <= of.limit
}

/// Whether most of a limit is spent.
pub(crate) fn decide_most(limit: u64, spent: u64) -> bool {
    u128::from(spent) * 100 >= u128::from(limit) * 80
}

/// What happens to a message that a budget has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass(PassReason),
    /// It waits. `true`: a person is asked.
    Wait(bool),
}

/// Decides about a message that a budget has no room for. `grace` is whether its sender has a message left that passes.
pub(crate) const fn decide_over(on_limit: OnLimit, is_owner: bool, grace: bool) -> Verdict {
    match on_limit {
        OnLimit::Warn => Verdict::Pass(PassReason::Warn),
        _ if is_owner => Verdict::Pass(PassReason::Owner),
        _ if grace => Verdict::Pass(PassReason::Grace),
        OnLimit::Ask => Verdict::Wait(true),
        OnLimit::Hold => Verdict::Wait(false),
    }
}

/// A day of the installation's users, and when the periods that it is in end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Today {
    zone: Zone,
    from: Timestamp,
    pub(crate) day: Day,
    end_of_day: Timestamp,
    end_of_month: Timestamp,
}

impl Today {
    pub(crate) fn of(now: Timestamp, zone: Zone) -> Self {
        let day = local::day(now, &zone);
        let begin = |day| local::begin_of_day(day, now, &zone);
        let (end_of_day, end_of_month) = (begin(day.next()), begin(day.next_month()));
        Self { zone, from: now, day, end_of_day, end_of_month }
    }

    /// Whether it is one in this time zone.
    pub(crate) fn is_in(&self, zone: &str) -> bool {
        self.zone.name() == zone
    }

    /// Whether it is the same at a later time.
    pub(crate) fn holds(&self, now: Timestamp) -> bool {
        // The day is compared because clocks may go back over midnight.
        (self.from..self.end_of_day).contains(&now) && local::day(now, &self.zone) == self.day
    }

    /// When the period that the day is in ends.
    pub(crate) const fn end_of(&self, per: BudgetPeriod) -> Timestamp {
        match per {
            BudgetPeriod::Day => self.end_of_day,
            BudgetPeriod::Month => self.end_of_month,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Millis;

    #[test]
    fn a_turn_is_expected_to_be_like_the_last_ones_but_never_more_than_a_quarter() {
        for (recent, cap, limits, expected) in [
            (vec![], None, vec![100], 25),
            (vec![], Some(10), vec![100], 10),
            (vec![7, 7], Some(10), vec![100], 10),
            (vec![9, 1, 5], None, vec![100], 5),
            (vec![90, 100, 80], None, vec![100, 40], 10),
            (vec![5, 5, 5], None, vec![], 0),
            (vec![5, 5, 5], None, vec![0], 0),
        ] {
            assert_eq!(decide_expected(recent.clone(), cap, limits.iter().copied()), expected, "{recent:?} {limits:?}");
        }
    }

    #[test]
    fn a_limit_is_never_passed_by_what_is_expected() {
        let room = |limit, spent, reserved, expected| decide_room(Limit { limit, spent, reserved }, expected);
        assert!(room(100, 0, 0, 25) && room(100, 50, 25, 25) && room(100, 99, 0, 0));
        assert!(!room(100, 50, 26, 25) && !room(100, 100, 0, 0) && !room(100, 0, 100, 0));
        assert!(!room(0, 0, 0, 0), "a budget of nothing has no room");
        assert!(!room(u64::MAX, u64::MAX, u64::MAX, u64::MAX));
    }

    #[test]
    fn owners_and_first_messages_pass_and_the_others_wait() {
        use OnLimit::{Ask, Hold, Warn};
        for (on_limit, is_owner, grace, expected) in [
            (Warn, false, true, Verdict::Pass(PassReason::Warn)),
            (Ask, true, true, Verdict::Pass(PassReason::Owner)),
            (Hold, false, true, Verdict::Pass(PassReason::Grace)),
            (Ask, false, false, Verdict::Wait(true)),
            (Hold, false, false, Verdict::Wait(false)),
        ] {
            assert_eq!(decide_over(on_limit, is_owner, grace), expected, "{on_limit:?} {is_owner} {grace}");
        }
    }

    #[test]
    fn most_is_four_fifths() {
        assert!(decide_most(100, 80) && !decide_most(100, 79) && decide_most(0, 0));
        assert!(decide_most(u64::MAX, u64::MAX) && !decide_most(u64::MAX, u64::MAX / 2));
    }

    #[test]
    fn a_day_holds_until_it_ends_or_the_clock_is_set_back() {
        let zone = Zone::parse("America/St_Johns").unwrap();
        let at = |text| local::instant(text, &zone).unwrap();
        let today = Today::of(at("2026-04-20T12:00:00"), zone.clone());
        assert!(today.is_in("America/St_Johns") && !today.is_in("UTC"));
        for (now, holds) in [
            ("2026-04-20T12:00:00", true),
            ("2026-04-20T23:59:59", true),
            ("2026-04-21T00:00:00", false),
            ("2026-04-20T11:59:59", false),
        ] {
            assert_eq!(today.holds(at(now)), holds, "{now}");
        }
        // One minute after midnight, the clocks went back to 23:01 of the day before.
        let midnight = at("2010-11-07T00:00:00");
        let today = Today::of(midnight, zone.clone());
        assert!(today.holds(midnight) && !today.holds(midnight.plus(Millis::minutes(2))));
        assert!(today.holds(midnight.plus(Millis::minutes(62))));
    }

    #[test]
    fn periods_end_at_the_midnight_of_the_place() {
        for (per, now, zone, end) in [
            (BudgetPeriod::Day, "2026-04-20T12:00:00Z", "UTC", "2026-04-21T00:00:00.000Z"),
            (BudgetPeriod::Day, "2026-04-20T12:00:00Z", "Europe/Berlin", "2026-04-20T22:00:00.000Z"),
            (BudgetPeriod::Day, "2026-04-20T22:00:00Z", "Europe/Berlin", "2026-04-21T22:00:00.000Z"),
            // Clocks go back or forward on these days.
            (BudgetPeriod::Day, "2026-10-25T12:00:00Z", "Europe/Berlin", "2026-10-25T23:00:00.000Z"),
            (BudgetPeriod::Day, "2026-03-29T12:00:00Z", "Europe/Berlin", "2026-03-29T22:00:00.000Z"),
            // There is no midnight: the day begins at 01:00.
            (BudgetPeriod::Day, "2026-09-05T12:00:00Z", "America/Santiago", "2026-09-06T04:00:00.000Z"),
            // Clocks go back to 23:00 at midnight.
            (BudgetPeriod::Day, "2026-04-04T12:00:00Z", "America/Santiago", "2026-04-05T04:00:00.000Z"),
            (BudgetPeriod::Month, "2026-02-28T12:00:00Z", "UTC", "2026-03-01T00:00:00.000Z"),
            (BudgetPeriod::Month, "2026-12-31T12:00:00Z", "+05:30", "2026-12-31T18:30:00.000Z"),
        ] {
            let zone = Zone::parse(zone).unwrap();
            let now = local::instant(now, &zone).unwrap();
            assert_eq!(Today::of(now, zone.clone()).end_of(per).to_string(), end, "{now} {zone}");
        }
    }
}
