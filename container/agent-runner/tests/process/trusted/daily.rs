//! `append-to-daily-log`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::{Place, Ran, mode};

const DAY: &str = "2026-05-01";
const FILE: &str = "group/2026-05-01.md";
const HEADER: &str = "# Daily Summary \u{2014} 2026-05-01\n\n";

fn run(place: &Place, words: &[&str], input: &str) -> Ran {
    place.run(&[&["append-to-daily-log", "--date", DAY], words].concat(), &[], input)
}

fn group(place: &Place, lines: &[&str]) -> Ran {
    let mut words = vec!["--target", "group"];
    words.extend(lines.iter().flat_map(|line| ["--line", *line]));
    run(place, &words, "")
}

fn with(content: &str) -> Place {
    let place = Place::new();
    fs::create_dir(place.path("group")).unwrap();
    place.put(FILE, content);
    place
}

/// The file's content and the new lines -> the resulting content, the number of added lines, and the number of
/// duplicates.
#[test]
fn lines_are_added_once() {
    let two = format!("{HEADER}- 09:00 UTC \u{2014} one\n- 10:00 UTC \u{2014} two\n");
    let odd = format!("{HEADER}-  09:00 UTC \u{2014}   one\n");
    for (before, lines, after, appended, dropped) in [
        ("", vec!["- 09:00 UTC \u{2014} a"], format!("{HEADER}- 09:00 UTC \u{2014} a\n"), 1, 0),
        (&two, vec!["- 10:00 UTC  \u{2014} two"], two.clone(), 0, 1),
        (
            &two,
            vec!["- 10:00 UTC \u{2014} two", "- 11:00 UTC \u{2014} new"],
            format!("{two}\n- 11:00 UTC \u{2014} new\n"),
            1,
            1,
        ),
        ("", vec!["same", " same "], format!("{HEADER}same\n"), 1, 1),
        (&odd, vec!["- 09:00 UTC \u{2014} one"], odd.clone(), 0, 1),
        ("no end", vec!["x"], "no end\n\nx\n".to_owned(), 1, 0),
        ("empty line\n\n", vec!["x"], "empty line\n\nx\n".to_owned(), 1, 0),
        // Appending makes all line ends of a file the same; until then the file is unchanged.
        ("a\r\nb\r\n", vec!["b", "c"], "a\nb\n\nc\n".to_owned(), 1, 1),
        ("a\r\nb\r\n", vec!["b"], "a\r\nb\r\n".to_owned(), 0, 1),
        // The header of a new file counts as one of its lines.
        ("", vec!["# Daily  Summary \u{2014} 2026-05-01", "x"], format!("{HEADER}x\n"), 1, 1),
        (&two, vec!["more\nthan one\n- 10:00 UTC \u{2014} two"], format!("{two}\nmore\nthan one\n"), 2, 1),
    ] {
        let place = if before.is_empty() { Place::new() } else { with(before) };
        let stamp = (!before.is_empty()).then(|| place.stamp(FILE));
        let ran = group(&place, &lines);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{lines:?}");
        assert_eq!(place.text(FILE), after);
        let wanted = json!({
            "path": place.path(FILE), "appended_lines": appended, "dropped_duplicates": dropped,
            "final_line_count": after.matches('\n').count(), "created": before.is_empty(), "out_of_order": false,
        });
        assert_eq!(ran.json(), wanted);
        assert_eq!(stamp == Some(place.stamp(FILE)), appended == 0, "{lines:?}");
    }
}

#[test]
fn an_added_header_makes_no_file() {
    let place = Place::new();
    let ran = group(&place, &[HEADER.trim_end()]);
    let wanted = json!({
        "path": place.path(FILE), "appended_lines": 0, "dropped_duplicates": 1, "final_line_count": 0, "created": false,
        "out_of_order": false,
    });
    assert_eq!((ran.code, ran.json()), (Some(0), wanted));
    assert!(!place.path(FILE).exists());
    // An existing empty file gets no header.
    let place = with("");
    assert_eq!(group(&place, &["x"]).json()["created"], false);
    assert_eq!(place.text(FILE), "x\n");
}

#[test]
fn the_answer_keeps_its_form() {
    let place = Place::new();
    let path = place.path(FILE).display().to_string();
    let wanted = format!(
        "{{\"path\": \"{path}\", \"appended_lines\": 1, \"dropped_duplicates\": 0, \"final_line_count\": 3, \"created\": true, \"out_of_order\": false}}\n"
    );
    assert_eq!(group(&place, &["x"]).out, wanted);
    assert_eq!(place.text(FILE).lines().next().unwrap(), HEADER.trim_end());
}

#[test]
fn what_comes_late_is_added_with_a_warning() {
    for (line, late) in [
        ("- 09:00 UTC \u{2014} early", true),
        ("- 14:00 UTC \u{2014} same", false),
        ("- 15:00 UTC [main] \u{2014} later", false),
        ("no time", false),
    ] {
        let place = with(&format!("{HEADER}- 16:00 UTC \u{2014} one\n- 14:00 UTC \u{2014} two\n"));
        let ran = group(&place, &[line]);
        assert_eq!((ran.code, &ran.json()["out_of_order"]), (Some(0), &json!(late)), "{line}");
        assert_eq!(ran.err.starts_with("append-to-daily-log: out-of-order append on /"), late, "{}", ran.err);
        assert!(place.text(FILE).ends_with(&format!("\n\n{line}\n")));
    }
}

#[test]
fn lines_come_from_one_place() {
    let place = Place::new();
    place.put("lines", "a\n\n \t\nb\u{2028}c\r\nd");
    let file = place.path("lines").display().to_string();
    let ran = run(&place, &["--target=trusted", "--lines-file", &file], "ignored");
    assert_eq!(ran.json()["appended_lines"], 4);
    assert_eq!(place.text("trusted/2026-05-01.md"), format!("{HEADER}a\nb\nc\nd\n"));
    assert_eq!(run(&place, &["--target", "group"], "from input\n").json()["appended_lines"], 1);
    let ran = run(&place, &["--tar", "group", "--line", "- x", "--line=-y", "--line", "-z"], "ignored");
    assert_eq!(ran.json()["appended_lines"], 3);
    assert_eq!(place.text(FILE), format!("{HEADER}from input\n\n- x\n-y\n-z\n"));
}

#[test]
fn wrong_usage_writes_nothing() {
    let place = Place::new();
    place.put("lines", "a\n");
    let file = place.path("lines").display().to_string();
    let none = "no lines to append \u{2014} pass --line, --lines-file, or pipe non-empty content on stdin";
    for (words, message) in [
        (vec!["--target", "group"], none),
        (vec!["--target", "group", "--line", " "], none),
        (
            vec!["--target", "group", "--line", "x", "--lines-file", &file],
            "specify --line OR --lines-file, not both (mixing is ambiguous)",
        ),
        (vec!["--target", "group", "--lines-file", "/nonexistent"], "cannot read --lines-file /nonexistent"),
        (
            vec!["--target", "group", "--line", "x", "--date", "2026/05/01"],
            "--date '2026/05/01' must be YYYY-MM-DD (ISO-8601 calendar date)",
        ),
        (vec!["--target", "group", "--line", "x", "--date", "../../etc/x"], "must be YYYY-MM-DD"),
        (vec!["--target", "group", "--line", "x", "--date", "2026-13-99"], "must be YYYY-MM-DD"),
        (vec!["--target", "group", "--line", "x", "--date", "2026-05-01\n"], "must be YYYY-MM-DD"),
        (vec!["--target", "both", "--line", "x"], "invalid choice: 'both'"),
        (vec!["--line", "x"], "the following arguments are required: --target"),
        (vec!["--target", "group", "--line", "x", "y"], "unrecognized arguments: y"),
    ] {
        let ran = run(&place, &words, "");
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{words:?}");
        assert!(ran.err.starts_with("usage: append-to-daily-log") && ran.err.contains(message), "{}", ran.err);
        assert_eq!(place.names(), ["lines"]);
    }
}

#[test]
fn the_directory_is_told_by_flag_then_variable() {
    let place = Place::new();
    let told = place.path("told").display().to_string();
    let ran = run(&place, &["--target", "group", "--line", "x", "--group-daily", &told], "");
    assert_eq!(ran.json()["path"], format!("{told}/2026-05-01.md"));
    run(&place, &["--target", "trusted", "--line", "x", "--trusted-daily", &told], "");
    assert_eq!(place.names(), ["told"]);
    // An empty variable counts as unset.
    let words = ["append-to-daily-log", "--target", "group", "--line", "x"];
    let ran = place.run(&words, &[("NANOCLAW_GROUP_DAILY", "")], "");
    assert!(ran.json()["path"].as_str().unwrap().contains("/memory/daily/20"));
    let words = ["append-to-daily-log", "--target", "trusted", "--line", "x"];
    let ran = place.run(&words, &[("NANOCLAW_TRUSTED_DAILY", "")], "");
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("no directory that trusted agents share"), "{}", ran.err);
}

#[test]
fn what_cannot_be_written_is_said() {
    let place = with("\u{fffd}");
    place.put(FILE, b"\xff\n");
    let ran = group(&place, &["x"]);
    assert_eq!((ran.code, fs::read(place.path(FILE)).unwrap()), (Some(1), b"\xff\n".to_vec()));
    assert!(ran.err.contains("append-to-daily-log: IO failed for /"), "{}", ran.err);
    fs::remove_file(place.path(FILE)).unwrap();
    fs::create_dir(place.path(FILE)).unwrap();
    assert!(group(&place, &["x"]).err.contains("IsADirectoryError: [Errno 21]"));
    let place = Place::new();
    place.put("group", "a file");
    let ran = group(&place, &["x"]);
    assert_eq!(ran.code, Some(1));
    let lock = place.path("group/2026-05-01.md.lock");
    let why = format!(
        "append-to-daily-log: cannot open lock file {0}: FileExistsError: [Errno 17] File exists: '{0}'\n",
        lock.display()
    );
    assert_eq!(ran.err, why);
    let place = with("x\n");
    fs::set_permissions(place.path(FILE), Permissions::from_mode(0o640)).unwrap();
    assert_eq!(group(&place, &["y"]).json()["appended_lines"], 1);
    assert_eq!(mode(&place.path(FILE)), 0o640);
}
