//! Times for people: local, in one format, and as ages. Programs get RFC 3339.

use std::sync::OnceLock;

use crate::clock;
use crate::config::Machine;
use crate::model::time::{Millis, Timestamp};
use crate::time::zone::Zone;

/// The machine's time zone, as this command sees it.
pub(super) fn machine_zone() -> &'static Zone {
    static ZONE: OnceLock<Zone> = OnceLock::new();
    ZONE.get_or_init(|| Machine::look().zone(None, None).zone)
}

/// `2026-04-20 14:00:05`: an RFC 3339 time, in the machine's time zone. Other texts stay as they are.
pub(super) fn local(text: &str) -> String {
    Timestamp::parse(text).map_or_else(|| text.to_owned(), |at| at_zone(at, machine_zone()))
}

/// `2026-04-20 14:00:05` in a time zone.
pub(super) fn at_zone(at: Timestamp, zone: &Zone) -> String {
    let wall = zone.wall(at.millis().div_euclid(1_000));
    wall.map_or_else(|| at.to_string(), |wall| wall.format("%Y-%m-%d %H:%M:%S").to_string())
}

/// `3 min ago`, or `in 3 min`: an RFC 3339 time relative to now. Other texts stay as they are.
pub(super) fn age(text: &str) -> String {
    Timestamp::parse(text).map_or_else(|| text.to_owned(), |at| relative(at, clock::wall()))
}

/// `in 3 min`: an RFC 3339 time that is still to come.
pub(super) fn ahead(text: &str) -> Option<String> {
    let (at, now) = (Timestamp::parse(text)?, clock::wall());
    (at.since(now) > Millis::ZERO).then(|| relative(at, now))
}

/// A time with its age: `2026-04-20 14:00:05 (3 min ago)`.
pub(super) fn local_with_age(text: &str) -> String {
    format!("{} ({})", local(text), age(text))
}

/// An age, or the time until an instant.
fn relative(at: Timestamp, now: Timestamp) -> String {
    match (now.since(at), at.since(now)) {
        (Millis::ZERO, Millis::ZERO) => "now".to_owned(),
        (Millis::ZERO, ahead) => format!("in {}", length(ahead)),
        (age, _) => format!("{} ago", length(age)),
    }
}

/// A duration in its largest unit, rounded up to whole seconds.
pub(super) fn length_up(ahead: Millis) -> String {
    length(Millis::seconds(ahead.get().div_ceil(1_000)))
}

/// A duration in its largest unit.
fn length(length: Millis) -> String {
    match length.get() / 1_000 {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7_200 => format!("{} min", s / 60),
        s @ 7_200..172_800 => format!("{} h", s / 3_600),
        s => format!("{} days", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_use_the_largest_unit() {
        let now = Timestamp::from_millis(1_000_000_000);
        for (seconds, text) in [
            (0, "now"),
            (59, "59 s ago"),
            (180, "3 min ago"),
            (7_200, "2 h ago"),
            (200_000, "2 days ago"),
            (-300, "in 5 min"),
        ] {
            assert_eq!(relative(Timestamp::from_millis(now.millis() - seconds * 1_000), now), text);
        }
    }

    #[test]
    fn times_are_local_to_the_second() {
        let zone = Zone::parse("Europe/Berlin").unwrap();
        let at = Timestamp::parse("2026-04-20T12:00:05.123Z").unwrap();
        assert_eq!(at_zone(at, &zone), "2026-04-20 14:00:05");
        assert_eq!(local("yesterday"), "yesterday");
    }
}
