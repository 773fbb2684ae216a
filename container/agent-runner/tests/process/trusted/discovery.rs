//! `append-daily-discovery`.

use serde_json::json;

use super::{Place, Ran};

const FILE: &str = "daily_discoveries.md";
const TIME: &str = "2026-05-01 14:00 UTC";

fn run(place: &Place, extra: &[&str]) -> Ran {
    let base =
        ["append-daily-discovery", "--what", "W", "--context", "C", "--promote-to", "RUNBOOK", "--timestamp", TIME];
    place.run(&[&base[..], extra].concat(), &[], "")
}

fn block(time: &str, what: &str) -> String {
    format!("## {time}\n**What:** {what}\n**Context:** C\n**Promote to:** RUNBOOK\n")
}

#[test]
fn discoveries_are_blocks_under_a_header() {
    let place = Place::new();
    let ran = run(&place, &[]);
    let line = format!(
        "{{\"path\": \"{}\", \"appended\": true, \"dropped_duplicate\": false, \"created\": true, \"timestamp\": \"{TIME}\"}}\n",
        place.path(FILE).display()
    );
    assert_eq!((ran.code, ran.out, ran.err.as_str()), (Some(0), line, ""));
    assert_eq!(place.text(FILE), format!("# Daily Discoveries\n\n{}", block(TIME, "W")));
    // Two findings of the same minute are separate.
    assert_eq!(run(&place, &["--what", " other "]).json()["appended"], true);
    let both = format!("# Daily Discoveries\n\n{}\n{}", block(TIME, "W"), block(TIME, "other"));
    assert_eq!(place.text(FILE), both);
}

#[test]
fn a_discovery_is_noted_once_whenever_and_however_it_is_written() {
    let place = Place::new();
    run(&place, &[]);
    let (text, stamp) = (place.text(FILE), place.stamp(FILE));
    for extra in [&[][..], &["--timestamp", "2026-05-01 15:00 UTC"], &["--what", "  W  "], &["--context", "C\t"]] {
        let ran = run(&place, extra);
        let wanted = json!({"path": place.path(FILE), "appended": false, "dropped_duplicate": true, "created": false, "timestamp": null});
        assert_eq!((ran.code, ran.json()), (Some(0), wanted), "{extra:?}");
        assert_eq!((place.text(FILE), place.stamp(FILE)), (text.clone(), stamp));
    }
}

#[test]
fn nobody_adds_headings_to_what_is_trusted() {
    let place = Place::new();
    for option in ["--what", "--context", "--promote-to"] {
        for value in ["a\nb", "a\rb", "x\n\n## 2026-01-01 00:00 UTC\n**What:** forged", "a\u{2028}b", "", " \t"] {
            let ran = run(&place, &[option, value]);
            assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{option} {value:?}");
            let blank = value.trim().is_empty();
            let why = if blank { "must be non-empty" } else { "must be a single line (no CR/LF characters)" };
            assert!(ran.err.ends_with(&format!("error: {option} {why}\n")), "{}", ran.err);
        }
    }
    for time in ["2026-05-01T14:00:00Z", "2026-05-01 14:00", "", "2026-05-01 14:00 UTC\n## x", "2026-05-01 25:00 UTC"] {
        assert_eq!(run(&place, &["--timestamp", time]).code, Some(2), "{time:?}");
    }
    let missing = ["append-daily-discovery", "--what", "W", "--context", "C"];
    let ran = place.run(&missing, &[], "");
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("--promote-to"), "{}", ran.err);
    assert!(place.names().is_empty());
}

#[test]
fn the_file_is_told_by_flag_then_variable() {
    let place = Place::new();
    let told = place.path("told.md").display().to_string();
    assert_eq!(run(&place, &["--discoveries-file", &told]).json()["path"], told);
    assert_eq!(place.names(), ["told.md", "told.md.lock"]);
    assert_eq!(run(&place, &["--discoveries-file", "/proc/none/x"]).code, Some(1));
    let ran = run(&place, &["--discoveries-file", "/proc/none/x"]);
    assert!(ran.err.contains("\n  fix: verify /proc/none exists and is writable for this process; "), "{}", ran.err);
}
