//! Text that people write: configuration, times, patterns.

use hearth::config::file;
use hearth::engine::pattern::{Patterns, check};
use hearth::model::Timestamp;
use hearth::time::cron::Cron;
use hearth::time::every::Every;
use hearth::time::local;
use hearth::time::zone::Zone;
use hearth_zone::YEARS;

/// An accepted configuration is written again with the same meaning. In a refused one, every problem has a position.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let read = match file::parse("hearth.toml", text) {
        Ok(read) => read,
        Err(bad) => {
            assert!(!bad.problems.is_empty());
            let lines = text.lines().count().max(1) + 1;
            return assert!(bad.problems.iter().all(|one| (1..=lines).contains(&one.line) && !one.what.is_empty()));
        }
    };
    let written = file::write::write(&read.changes);
    let again = file::parse("written", &written).unwrap_or_else(|bad| panic!("{bad}\n{written}"));
    assert_eq!(file::write::write(&again.changes), written);
}

/// Zones in which clocks were moved by an hour, half an hour, a day and not at all.
const ZONES: [&str; 6] = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "America/New_York", "+05:45"];

/// Eight bytes of an instant, one of a zone, then an expression. Runs ascend and are the same when computed again, and
/// the written form is the same expression.
pub fn cron(bytes: &[u8]) {
    let Some((head, text)) = bytes.split_first_chunk::<9>() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let [instant @ .., zone] = *head;
    // From 1970 to 2100.
    let after = Timestamp::from_millis(i64::try_from(u64::from_be_bytes(instant) % 4_102_444_800_000).unwrap_or(0));
    let zone = Zone::parse(ZONES[usize::from(zone) % ZONES.len()]).expect("a zone");
    let cron = match Cron::parse(text) {
        Ok(cron) => cron,
        Err(bad) => return assert!(!bad.to_string().is_empty()),
    };
    let again = Cron::parse(&cron.to_string()).unwrap_or_else(|bad| panic!("{bad}: {cron}"));
    assert_eq!(again, cron);
    let runs: Vec<Timestamp> = cron.iter(after, &zone).take(20).collect();
    assert!(runs.first().is_none_or(|first| *first > after), "{cron}: {runs:?}");
    assert!(runs.is_sorted_by(|one, next| one < next), "{cron}: {runs:?}");
    assert_eq!(again.iter(after, &zone).take(20).collect::<Vec<_>>(), runs);
    if let [first, second, ..] = runs.as_slice() {
        // Asked a moment before a run, the next run is that one, not one in between.
        assert_eq!(cron.next(Timestamp::from_millis(second.millis() - 1), &zone), Some(*second), "{cron}");
        assert_eq!(cron.next(Timestamp::from_millis(second.millis() - 1_000), &zone), Some(*second), "{cron} {first}");
    }
}

/// A zone in a line, then a time or an interval. An accepted time is within the supported years, can be shown, and is
/// the same when read again from its written form.
pub fn times(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some((zone, text)) = text.split_once('\n') else { return };
    let zone = match Zone::parse(zone) {
        Ok(zone) => zone,
        Err(bad) => {
            assert!(!bad.to_string().is_empty());
            Zone::utc()
        }
    };
    std::hint::black_box(hearth_zone::show_text(text, &zone));
    if let Some(at) = Timestamp::parse(text) {
        assert_eq!(Timestamp::parse(&at.to_string()), Some(at), "{text}");
    }
    match Every::parse(text) {
        Ok(every) => assert_eq!(Every::parse(&every.to_string()), Ok(every)),
        Err(bad) => assert!(!bad.to_string().is_empty()),
    }
    match local::instant(text, &zone) {
        Ok(at) => {
            // In the last hours of 2100 it may already be 2101 in UTC.
            let again = local::instant(&at.to_string(), &Zone::utc());
            assert!(again == Ok(at) || !YEARS.contains(&utc_year(at)), "{text}");
            assert!((YEARS.start() - 1..=YEARS.end() + 1).contains(&utc_year(at)), "{text}");
            assert!(!local::show(at, &zone).is_empty());
        }
        Err(bad) => assert!(!bad.to_string().is_empty()),
    }
}

fn utc_year(at: Timestamp) -> i32 {
    at.to_string()[..4].parse().expect("a year of four digits")
}

/// A pattern in a line, then a text. A pattern is accepted, or refused with a reason, and an accepted pattern gives the
/// same result for a text every time. The fuzzer itself detects searches that take too long.
pub fn patterns(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some((pattern, text)) = text.split_once('\n') else { return };
    let checked = check(pattern);
    let patterns = Patterns::default();
    let found = patterns.matches(pattern, text);
    assert_eq!(patterns.matches(pattern, text), found);
    match checked {
        Ok(()) => {}
        Err(why) => assert!(!why.is_empty() && (!found || pattern == "."), "{pattern}: {why}"),
    }
}
