//! Tests of the cron dialect and its errors, with two oracles: every local minute, and another library.

use chrono::{DateTime, Datelike as _, NaiveDateTime, Timelike as _, Utc};
use croner::parser::CronParser;
use proptest::prelude::*;

use super::*;

const NY: &str = "America/New_York";
const BERLIN: &str = "Europe/Berlin";

fn at(text: &str) -> Timestamp {
    // `2026-03-08T13:00` and the like.
    let full = if text.len() == 10 { format!("{text}T00:00Z") } else { format!("{text}Z") };
    Timestamp::from_millis(hearth_zone::instant(&full, &Zone::utc()).unwrap())
}

fn next(expression: &str, zone: &str, from: &str, count: usize) -> Vec<Timestamp> {
    let (cron, zone) = (Cron::parse(expression).unwrap(), Zone::parse(zone).unwrap());
    cron.iter(at(from), &zone).take(count).collect()
}

fn check(rows: &[(&str, &str, &str, &[&str])]) {
    for (expression, zone, from, expected) in rows {
        let expected: Vec<Timestamp> = expected.iter().map(|text| at(text)).collect();
        assert_eq!(next(expression, zone, from, expected.len()), expected, "{expression} in {zone} after {from}");
    }
}

#[test]
fn the_dialect_is_that_of_the_table() {
    check(&[
        ("0 9 * * *", NY, "2026-01-15T13:59", &["2026-01-15T14:00", "2026-01-16T14:00", "2026-01-17T14:00"]),
        ("0 9 * * *", NY, "2026-01-15T14:00", &["2026-01-16T14:00", "2026-01-17T14:00"]),
        ("0 9 * * *", "UTC", "2026-01-15T14:00", &["2026-01-16T09:00"]),
        ("0 9 * * 1-5", NY, "2026-01-16T15:00", &["2026-01-19T14:00", "2026-01-20T14:00", "2026-01-21T14:00"]),
        ("0 9 * * 0", "UTC", "2026-01-15", &["2026-01-18T09:00", "2026-01-25T09:00", "2026-02-01T09:00"]),
        ("0 9 * * 7", "UTC", "2026-01-15", &["2026-01-18T09:00", "2026-01-25T09:00", "2026-02-01T09:00"]),
        ("0 9 * * 0-0", "UTC", "2026-01-15", &["2026-01-18T09:00", "2026-01-25T09:00", "2026-02-01T09:00"]),
        ("0 9 * * sun", "UTC", "2026-01-15", &["2026-01-18T09:00", "2026-01-25T09:00", "2026-02-01T09:00"]),
        ("0 0 1 * *", "Asia/Tokyo", "2026-01-15", &["2026-01-31T15:00", "2026-02-28T15:00", "2026-03-31T15:00"]),
        ("0 0 31 * *", "UTC", "2026-02-01", &["2026-03-31", "2026-05-31", "2026-07-31"]),
        ("0 0 29 2 *", "UTC", "2026-03-01", &["2028-02-29", "2032-02-29", "2036-02-29"]),
        ("0 0 13 * 5", "UTC", "2026-01-15", &["2026-01-16", "2026-01-23", "2026-01-30"]),
        ("0 0 L * *", "UTC", "2026-02-10", &["2026-02-28", "2026-03-31", "2026-04-30"]),
        ("0 0 L 2 *", "UTC", "2026-03-10", &["2027-02-28", "2028-02-29", "2029-02-28"]),
        ("0 9 ? * *", "UTC", "2026-01-15", &["2026-01-15T09:00", "2026-01-16T09:00"]),
        (
            "*/30 * * * * *",
            "UTC",
            "2026-01-15T00:00:10",
            &["2026-01-15T00:00:30", "2026-01-15T00:01:00", "2026-01-15T00:01:30"],
        ),
        ("@daily", BERLIN, "2026-06-15T12:00", &["2026-06-15T22:00", "2026-06-16T22:00"]),
        ("@hourly", "UTC", "2026-06-15T12:10", &["2026-06-15T13:00", "2026-06-15T14:00", "2026-06-15T15:00"]),
        ("0 0 * * 5L", "UTC", "2026-01-01", &["2026-01-30", "2026-02-27", "2026-03-27"]),
        ("0 0 * * fri#2", "UTC", "2026-01-01", &["2026-01-09", "2026-02-13"]),
        ("0 0 * * 1#5", "UTC", "2026-01-01", &["2026-03-30", "2026-06-29"]),
        ("0 0 L * 1", "UTC", "2026-01-25", &["2026-01-26", "2026-01-31", "2026-02-02"]),
        ("0 0 * * sat-sun", "UTC", "2026-01-15", &["2026-01-17", "2026-01-18", "2026-01-24"]),
        ("0 0 * * 5/1", "UTC", "2026-01-15", &["2026-01-16", "2026-01-17", "2026-01-18", "2026-01-23"]),
        ("0 0 * * 1/3", "UTC", "2026-01-15", &["2026-01-18", "2026-01-19", "2026-01-22", "2026-01-25"]),
        ("0 0 * * 7/2", "UTC", "2026-01-15", &["2026-01-18", "2026-01-25"]),
        ("0 0 * * 0/4", "UTC", "2026-01-15", &["2026-01-18", "2026-01-22", "2026-01-25"]),
        ("0 0 1 jan,JUL *", "UTC", "2026-01-15", &["2026-07-01", "2027-01-01"]),
        ("5/20 8-18/5 * * *", "UTC", "2026-01-15T13:10", &["2026-01-15T13:25", "2026-01-15T13:45", "2026-01-15T18:05"]),
    ]);
}

#[test]
fn clocks_that_change_skip_and_double_nothing() {
    let (spring, autumn) = ("2026-03-07T20:00", "2026-10-31T20:00");
    check(&[
        ("0 9 * * *", NY, spring, &["2026-03-08T13:00"]),
        ("30 9 * * *", NY, spring, &["2026-03-08T13:30"]),
        ("0 3 * * *", NY, spring, &["2026-03-08T07:00", "2026-03-09T07:00"]),
        ("0 18 * * *", NY, spring, &["2026-03-07T23:00", "2026-03-08T22:00"]),
        ("0 23 * * *", NY, spring, &["2026-03-08T04:00", "2026-03-09T03:00"]),
        ("0 9,17 * * *", NY, spring, &["2026-03-07T22:00", "2026-03-08T13:00", "2026-03-08T21:00"]),
        ("0 */6 * * *", NY, spring, &["2026-03-07T23:00", "2026-03-08T05:00", "2026-03-08T10:00", "2026-03-08T16:00"]),
        ("*/30 9-10 * * *", NY, spring, &["2026-03-08T13:00", "2026-03-08T13:30"]),
        ("0 9 * * 0", NY, "2026-03-05T20:00", &["2026-03-08T13:00"]),
        ("0 9 8 3 *", NY, "2026-03-05T20:00", &["2026-03-08T13:00"]),
        ("0 9 * * *", NY, "2026-03-08T07:30", &["2026-03-08T13:00"]),
        ("0 0 * * *", NY, spring, &["2026-03-08T05:00"]),
        ("0 1 * * *", NY, spring, &["2026-03-08T06:00"]),
        ("0 2 * * *", NY, spring, &["2026-03-08T07:00", "2026-03-09T06:00"]),
        ("30 2 * * *", NY, "2026-03-07T08:00", &["2026-03-08T07:30", "2026-03-09T06:30"]),
        ("*/15 * * * *", NY, "2026-03-08T06:50", &["2026-03-08T07:00", "2026-03-08T07:15", "2026-03-08T07:30"]),
        ("15,45 2,3 * * *", NY, "2026-03-08T06:50", &["2026-03-08T07:15", "2026-03-08T07:45", "2026-03-09T06:15"]),
        ("0,30 2 * * *", NY, "2026-03-08T07:00", &["2026-03-08T07:30", "2026-03-09T06:00"]),
        ("0 9 * * *", BERLIN, "2026-03-28T20:00", &["2026-03-29T07:00"]),
        ("30 2 * * *", BERLIN, "2026-03-28T10:00", &["2026-03-29T01:30", "2026-03-30T00:30"]),
        ("30 1 * * *", NY, "2026-11-01T04:00", &["2026-11-01T05:30", "2026-11-02T06:30"]),
        ("30 1 * * *", NY, "2026-11-01T05:30", &["2026-11-02T06:30"]),
        ("0 1 * * *", NY, autumn, &["2026-11-01T05:00", "2026-11-02T06:00"]),
        ("0 2 * * *", NY, autumn, &["2026-11-01T07:00"]),
        ("0 9 * * *", NY, autumn, &["2026-11-01T14:00"]),
        ("0 * * * *", NY, "2026-11-01T04:30", &["2026-11-01T05:00", "2026-11-01T06:00", "2026-11-01T07:00"]),
        ("45 * * * *", NY, "2026-11-01T04:50", &["2026-11-01T05:45", "2026-11-01T06:45", "2026-11-01T07:45"]),
        ("30 2 * * *", BERLIN, "2026-10-24T10:00", &["2026-10-25T00:30", "2026-10-26T01:30"]),
        ("0 9 * * *", BERLIN, "2026-10-24T20:00", &["2026-10-25T08:00"]),
        // Half an hour, a whole day, and midnight.
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03", &["2026-10-03T15:45", "2026-10-04T15:15"]),
        (
            "15,30 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03",
            &["2026-10-03T15:30", "2026-10-03T15:45", "2026-10-04T15:15"],
        ),
        ("0 9 30 12 *", "Pacific/Apia", "2011-12-01", &["2011-12-30T19:00", "2012-12-29T19:00"]),
        ("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00", &["2018-11-04T03:00", "2018-11-05T02:00"]),
    ]);
}

#[test]
fn what_is_wrong_is_named() {
    for (expression, expected) in [
        ("", "it is empty"),
        ("   ", "it is empty"),
        ("5", "it has 1 field; write five"),
        ("0 9 * *", "it has 4 fields"),
        ("0 0 9 * * * 2026", "it has 7 fields"),
        ("0 0 9 * * * 2026 x", "it has 8 fields"),
        ("not a cron", "it has 3 fields"),
        ("not a cron at all", "the minutes of the cron expression `not a cron at all`: `not` is not understood"),
        ("60 * * * *", "the minutes of the cron expression `60 * * * *`: 60 is out of range; it must be from 0 to 59"),
        ("* 24 * * *", "the hours"),
        ("60 * * * * *", "the seconds"),
        ("* * 0 * *", "the day of month"),
        ("* * 32 * *", "from 1 to 31"),
        ("* * * 13 *", "the month"),
        ("* * * 0 *", "from 1 to 12"),
        ("* * * * 8", "the day of week"),
        ("H 9 * * *", "the minutes of the cron expression `H 9 * * *`: `H` stands for any value; write a specific one"),
        ("H/5 9 * * *", "`H` stands"),
        ("0 0 30 2 *", "the day of month of the cron expression `0 0 30 2 *`: the selected months have no such day"),
        ("0 0 31 2,4,6,9,11 *", "have no such day"),
        ("*/0 * * * *", "the step 0 is out of range; it must be from 1 to 60"),
        ("*/61 * * * *", "the step 61"),
        ("* */25 * * *", "from 1 to 24"),
        ("*/99999999999999999999 * * * *", "the step"),
        ("*/ * * * *", "not understood"),
        ("*/-1 * * * *", "not understood"),
        ("1.5 * * * *", "not understood"),
        ("-5 * * * *", "not understood"),
        ("1- * * * *", "not understood"),
        ("1,,2 * * * *", "not understood"),
        ("1-2-3 * * * *", "not understood"),
        ("+5 * * * *", "not understood"),
        ("99999999999999999999 * * * *", "out of range"),
        ("30-10 * * * *", "the range 30-10 ends before it begins"),
        ("? * * * *", "`?` has no meaning there"),
        ("L * * * *", "`L` has no meaning"),
        ("* * * * L", "say which day"),
        ("* * 15W * *", "`W` is not supported"),
        ("* * * * 5#6", "from 1 to 5"),
        ("* * * * 5#", "not understood"),
        ("* * * * #2", "not understood"),
        ("* * * foo *", "the month"),
        ("mon * * * *", "the minutes"),
        ("@reboot", "no such short form"),
        ("ä * * * *", "not understood"),
        ("* * * * \u{0}", "not understood"),
    ] {
        let error = Cron::parse(expression).unwrap_err().to_string();
        assert!(error.contains(expected), "{expression}: {error}");
    }
    let long = format!("{}10 * * * *", "1,".repeat(495));
    assert!(long.len() == 1_000 && Cron::parse(&long).is_ok());
    assert!(Cron::parse(&format!("{long} ")).unwrap_err().to_string().contains("more than 1000 bytes"));
}

#[test]
fn an_expression_has_one_form() {
    for (expression, expected) in [
        (" 0 9 * * 1-5 ", "0 9 * * 1-5"),
        ("0\t9 ? JAN-mar Mon,fri", "0 9 * 1-3 1,5"),
        ("*/15 08-18/2 L * 7", "*/15 8-18/2 L * 0"),
        ("@daily", "0 0 * * *"),
        ("@SECONDLY", "* * * * * *"),
        ("0 0 * * 5-7", "0 0 * * 5-7"),
        ("0 0 * * 7/2,sun/2", "0 0 * * 7/2,0/2"),
        ("0 0 * * sat-sun", "0 0 * * 6-7"),
        ("5 5/10 * * 5l,1#2", "5 5/10 * * 5L,1#2"),
    ] {
        let cron = Cron::parse(expression).unwrap();
        assert_eq!(cron.to_string(), expected);
        assert_eq!(Cron::parse(expected).unwrap(), cron);
        assert_ne!(Cron::parse("1 2 3 4 5").unwrap(), cron);
    }
}

#[test]
fn the_calendar_ends_with_2100() {
    assert_eq!(next("0 0 1 1 *", "UTC", "2100-06-01", 1), []);
    let (cron, utc) = (Cron::parse("* * * * *").unwrap(), Zone::utc());
    assert_eq!(cron.next(Timestamp::from_millis(i64::MAX), &utc), None);
    assert_eq!(cron.next(Timestamp::from_millis(-1), &utc), Some(Timestamp::from_millis(0)));
    assert_eq!(cron.next(Timestamp::from_millis(i64::MIN), &utc), None);
}

/// A field of numbers, as text.
fn field(least: u32, most: u32) -> impl Strategy<Value = String> {
    let value = least..=most;
    let range = (value.clone(), value.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b)));
    let stepped = (range.clone(), 1..=(most - least)).prop_map(|(range, step)| format!("{range}/{step}"));
    let from = (value.clone(), 1..=(most - least)).prop_map(|(value, step)| format!("{value}/{step}"));
    let one = value.prop_map(|value| value.to_string());
    let list = prop::collection::vec(prop_oneof![one, range, stepped, from], 1..4).prop_map(|list| list.join(","));
    prop_oneof![2 => Just("*".to_owned()), 1 => (1..=(most - least)).prop_map(|step| format!("*/{step}")), 3 => list]
}

fn expressions() -> impl Strategy<Value = String> {
    let days = prop_oneof![5 => field(1, 31), 1 => Just("L".to_owned()), 1 => Just("31,L".to_owned())];
    let weekdays = prop_oneof![5 => field(0, 7), 1 => (0..7).prop_map(|day| format!("{day}L")), 1 => (0..7, 1..6).prop_map(|(day, nth)| format!("{day}#{nth}"))];
    (field(0, 59), field(0, 23), days, field(1, 12), weekdays)
        .prop_map(|(minutes, hours, days, months, weekdays)| format!("{minutes} {hours} {days} {months} {weekdays}"))
}

/// First second after the year 2100.
const END: i64 = 4_133_980_800;

/// An instant shortly before a change of the clocks, where the zone has one within a year.
fn moments() -> impl Strategy<Value = (Zone, i64)> {
    let zones: Vec<&str> = [
        "America/New_York",
        "Europe/Berlin",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "America/Sao_Paulo",
        "Africa/Casablanca",
        "Asia/Kathmandu",
        "Atlantic/Azores",
        "America/Havana",
        "Antarctica/Troll",
        "Asia/Tokyo",
        "America/St_Johns",
        "Africa/Monrovia",
        "Pacific/Kwajalein",
        "Europe/Dublin",
        "Asia/Tehran",
        "Asia/Gaza",
        "Africa/Cairo",
        "America/Vancouver",
        "America/Santiago",
        "Pacific/Chatham",
        "America/Scoresbysund",
        "-03:30",
    ]
    .to_vec();
    (prop::sample::select(zones), 0..END - 60 * 604_800, -2_000..2_000_i64).prop_map(|(zone, near, minutes)| {
        let zone = Zone::parse(zone).unwrap();
        let weeks = (0..54).map(|week| near + week * 604_800);
        let change = weeks.map(|at| (at, at + 604_800)).find_map(|(from, to)| zone.change(from, to));
        let at = change.map_or(near, |change| change.at + minutes * 60);
        (zone, at)
    })
}

/// Whether a list like `1-5,7/2` contains a value; written independently of the field parser.
fn has(list: &str, value: u32, (least, most): (u32, u32)) -> bool {
    list.split(',').filter(|entry| !entry.contains(['L', '#'])).any(|entry| {
        let (range, step) = entry.split_once('/').unwrap_or((entry, "1"));
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (least, most),
            Some((from, to)) => (from.parse().unwrap(), to.parse().unwrap()),
            // From there on, if there are steps.
            None if entry.contains('/') => (range.parse().unwrap(), most),
            None => (range.parse().unwrap(), range.parse().unwrap()),
        };
        (from..=to).contains(&value) && (value - from).is_multiple_of(step.parse::<u32>().unwrap())
    })
}

fn matches(expression: &str, wall: NaiveDateTime) -> bool {
    let fields: Vec<&str> = expression.split(' ').collect();
    let [minutes, hours, days, months, weekdays] = fields[..] else { panic!("{expression}") };
    let left = u32::from(wall.date().num_days_in_month()) - wall.day();
    let weekday = wall.weekday().num_days_from_sunday();
    let by_day = has(days, wall.day(), (1, 31)) || days.contains('L') && left == 0;
    let is_special = |entry: &str| match entry.split_once('#') {
        Some((day, nth)) => day.parse() == Ok(weekday) && nth.parse() == Ok(wall.day().div_ceil(7)),
        None => entry.strip_suffix('L').is_some_and(|day| day.parse() == Ok(weekday) && left < 7),
    };
    let is_numbered = |number: &u32| has(weekdays, *number, (0, 7));
    let by_weekday = [weekday, 7].iter().take(if weekday == 0 { 2 } else { 1 }).any(is_numbered)
        || weekdays.split(',').any(is_special);
    let is_open = |list: &str| list.split(',').any(|entry| entry == "*" || entry == "*/1");
    let by_either = match (is_open(days), is_open(weekdays)) {
        (true, true) => true,
        (false, true) => by_day,
        (true, false) => by_weekday,
        (false, false) => by_day || by_weekday,
    };
    wall.second() == 0
        && by_either
        && has(minutes, wall.minute(), (0, 59))
        && has(hours, wall.hour(), (0, 23))
        && has(months, wall.month(), (1, 12))
}

/// All instants within three and a half days at which an expression runs, found by checking every local minute.
fn brute(expression: &str, zone: &Zone, from: i64) -> Vec<i64> {
    let hours = expression.split(' ').nth(1).unwrap();
    let is_hourly = (0..24).all(|hour| has(hours, hour, (0, 23)));
    let start = DateTime::from_timestamp(from.div_euclid(60) * 60, 0).unwrap().naive_utc() - Duration::days(2);
    let mut found = Vec::new();
    for minute in 0..6 * 1_440 {
        let wall = start + Duration::minutes(minute);
        if matches(expression, wall) {
            match zone.resolve(wall) {
                Resolved::Unique(at) | Resolved::Gap { shifted: at, .. } => found.push(at),
                Resolved::Fold { first, second, .. } => {
                    found.push(first);
                    if is_hourly {
                        found.push(second);
                    }
                }
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found.retain(|at| (from + 1..from + 2 * 86_400).contains(at));
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_run_is_found_minute_by_minute(expression in expressions(), (zone, from) in moments()) {
        let Ok(cron) = Cron::parse(&expression) else { return Ok(()) };
        let until = Timestamp::from_millis((from + 2 * 86_400) * 1_000);
        let runs = cron.iter(Timestamp::from_millis(from * 1_000), &zone).take_while(|at| *at < until);
        let runs: Vec<i64> = runs.map(|at| at.millis() / 1_000).collect();
        prop_assert!(runs.is_sorted_by(|a, b| a < b));
        prop_assert_eq!(runs, brute(&expression, &zone, from), "{} in {} after {}", expression, zone, from);
    }

    /// In UTC, without clock changes, the two libraries agree, except that the other one treats a day's `*/1` as a
    /// restriction.
    #[test]
    fn another_library_agrees(
        seconds in prop_oneof![3 => Just(String::new()), 1 => field(0, 59)], expression in expressions(), from in 0..END,
    ) {
        let expression = format!("{seconds} {expression}").trim_start().to_owned();
        let Ok(cron) = Cron::parse(&expression) else { return Ok(()) };
        prop_assume!(!expression.split([' ', ',']).any(|entry| entry == "*/1"));
        let other = CronParser::builder().sloppy_ranges(true).build().parse(&expression).unwrap();
        let mut at = DateTime::from_timestamp(from, 0).unwrap();
        let utc = Zone::utc();
        for run in cron.iter(Timestamp::from_millis(from * 1_000), &utc).take(5) {
            // The other library's calendar does not end in 2100.
            let expected: DateTime<Utc> = other.find_next_occurrence(&at, false).unwrap();
            prop_assert_eq!(run.millis() / 1_000, expected.timestamp(), "{} after {}", expression, at);
            at = expected;
        }
    }

    /// Every accepted expression has one canonical form, and no text causes a panic.
    #[test]
    fn any_text_is_read_or_refused(text in "[0-9*/,LWH#?@a-z -]{0,24}", expression in expressions()) {
        for text in [text, expression] {
            if let Ok(cron) = Cron::parse(&text) {
                prop_assert_eq!(Cron::parse(&cron.to_string()).unwrap().to_string(), cron.to_string());
            }
        }
    }
}
