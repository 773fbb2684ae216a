//! Checks zones and local times against another library, which has its own copy of the time zone rules.
//!
//! The other copy is older and ends with the year 2099. Where rules have been changed or corrected since, only the time
//! before that is compared.

use chrono::{DateTime, LocalResult, NaiveDateTime, Offset as _, TimeZone as _};
use chrono_tz::{TZ_VARIANTS, Tz};
use proptest::prelude::*;

use crate::{Zone, instant, show, show_text};

/// End of the comparison, in seconds since 1970 UTC.
const END: i64 = 4_102_444_800;
/// The display format, in the other library's syntax.
const SHOWN: &str = "%b %-d, %Y, %-I:%M %p";

/// Zones for which the other copy is outdated, and since when. All names of a zone are in one entry.
const CHANGED: [(&[&str], i64); 9] = [
    (&["America/Ensenada", "America/Santa_Isabel", "America/Tijuana", "Mexico/BajaNorte"], 9_972_000),
    (&["Asia/Tehran", "Iran"], 296_000_000),
    (&["America/Bogota"], 704_000_000),
    (&["Europe/Chisinau", "Europe/Tiraspol"], 1_648_000_000),
    // 2026: Morocco and some provinces of Canada stop changing their clocks.
    (&["Africa/Casablanca", "Africa/El_Aaiun"], 1_789_000_000),
    (&["America/Winnipeg", "America/Rainy_River", "Canada/Central"], 1_793_000_000),
    (&["America/Edmonton", "America/Yellowknife", "Canada/Mountain"], 1_793_000_000),
    (&["America/Inuvik"], 1_793_000_000),
    (&["America/Vancouver", "Canada/Pacific"], 1_793_000_000),
];

fn end(zone: Tz) -> i64 {
    CHANGED.iter().find(|(names, _)| names.contains(&zone.name())).map_or(END, |(_, at)| *at)
}

fn utc(at: i64) -> NaiveDateTime {
    DateTime::from_timestamp(at, 0).unwrap().naive_utc()
}

fn offset(zone: Tz, at: i64) -> i32 {
    zone.offset_from_utc_datetime(&utc(at)).fix().local_minus_utc()
}

/// The next change of a zone's clocks within a year and a half, to the second. Assumes at most one change per day.
fn change(zone: Tz, from: i64) -> Option<i64> {
    let days = (0..550).map(|day| from + day * 86_400);
    let (mut old, mut new) = days.map(|at| (at, at + 86_400)).find(|(a, b)| offset(zone, *a) != offset(zone, *b))?;
    let before = offset(zone, old);
    while new - old > 1 {
        let middle = i64::midpoint(old, new);
        if offset(zone, middle) == before { old = middle } else { new = middle }
    }
    Some(new)
}

/// A zone and an instant in its years, half of them within three hours of a clock change.
fn moments() -> impl Strategy<Value = (Tz, i64)> {
    let zone = prop::sample::select(TZ_VARIANTS.to_vec());
    (zone, 0..END, -10_800..10_800_i64, any::<bool>()).prop_map(|(zone, near, seconds, at_change)| {
        let near = near % end(zone);
        let change = at_change.then(|| change(zone, near)).flatten().map(|at| at + seconds);
        (zone, change.filter(|at| *at < end(zone)).unwrap_or(near))
    })
}

/// The instant of a local time in the other library: in a fold the first, in a gap shifted by the length of the gap.
fn meant(wall: NaiveDateTime, zone: Tz) -> i64 {
    match zone.from_local_datetime(&wall) {
        LocalResult::Single(at) | LocalResult::Ambiguous(at, _) => at.timestamp(),
        // No gap is longer than a day, so the offset of two days earlier is the one before the gap.
        LocalResult::None => {
            wall.and_utc().timestamp() - i64::from(offset(zone, wall.and_utc().timestamp() - 2 * 86_400))
        }
    }
}

/// Every change of every zone, with the offsets before and after it, and no further changes in between.
#[test]
fn all_changes_are_those_that_the_other_library_knows() {
    const STEP: usize = 20 * 86_400;
    for zone in TZ_VARIANTS {
        let ours = Zone::parse(zone.name()).unwrap();
        let same = |at| assert_eq!(ours.offset_at(at), offset(zone, at), "{zone} at {}", utc(at));
        for from in (0..end(zone)).step_by(STEP) {
            let to = (from + 20 * 86_400).min(end(zone) - 1);
            same(from);
            same(to);
            if offset(zone, from) != offset(zone, to) {
                let change = change(zone, from).unwrap();
                same(change - 1);
                same(change);
            }
        }
    }
}

/// Recent rules that the older copy does not have.
#[test]
fn the_rules_are_those_of_today() {
    for (zone, at, expected) in [
        ("America/Vancouver", "2026-12-01T20:00:00Z", "Dec 1, 2026, 1:00 PM"),
        ("America/Winnipeg", "2026-12-01T20:00:00Z", "Dec 1, 2026, 3:00 PM"),
        ("America/New_York", "2100-07-01T12:00:00Z", "Jul 1, 2100, 8:00 AM"),
        ("Europe/Berlin", "2100-12-31T22:59:59Z", "Dec 31, 2100, 11:59 PM"),
    ] {
        assert_eq!(show_text(at, &Zone::parse(zone).unwrap()), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn instants_are_shown_as_the_other_library_writes_them((zone, at) in moments(), ms in 0..1_000_i64) {
        let ours = Zone::parse(zone.name()).unwrap();
        let expected = zone.from_utc_datetime(&utc(at)).format(SHOWN).to_string();
        prop_assert_eq!(show(at * 1_000 + ms, &ours), expected.as_str(), "{} {}", zone, at);
        prop_assert_eq!(show_text(&utc(at).and_utc().to_rfc3339(), &ours), expected, "{} {}", zone, at);
    }

    /// Includes times in gaps and folds.
    #[test]
    fn local_times_mean_what_they_mean_to_the_other_library((zone, at) in moments(), hours in -2..=2_i64) {
        let ours = Zone::parse(zone.name()).unwrap();
        let wall = zone.from_utc_datetime(&utc(at)).naive_local() + chrono::Duration::hours(hours);
        let text = wall.format("%Y-%m-%dT%H:%M:%S").to_string();
        if wall.and_utc().timestamp() > 3 * 86_400 && at + 4 * 3_600 < end(zone) {
            prop_assert_eq!(instant(&text, &ours), Ok(meant(wall, zone) * 1_000), "{} in {}", wall, zone);
        }
    }
}
