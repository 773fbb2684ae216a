//! The file as other programs write it, and as Hearth leaves it.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;
use crate::model::group::{StatePart, StateTrouble};

fn place() -> (tempfile::TempDir, GroupFolder) {
    let dir = tempfile::tempdir().unwrap();
    let place = GroupFolder(Dir::open(dir.path()).unwrap());
    (dir, place)
}

/// Fields as `part.name=value`.
fn said(text: &str) -> String {
    match parse(text.as_bytes()) {
        Parsed::Fields(document, ids) => {
            let field = |field: &crate::model::group::DocumentField| {
                let part = match field.part {
                    StatePart::Top => "",
                    StatePart::Sessions => "sessions.",
                    StatePart::Muted => "muted.",
                };
                format!("{part}{}={}", field.name.as_str(), field.value.as_str())
            };
            let mut said: Vec<String> = document.fields.iter().map(field).collect();
            said.extend(document.pending.map(|pending| format!("(waits: {})", pending.message)));
            if !ids.is_empty() {
                said.push(format!("(ids: {})", ids.join(" ")));
            }
            said.join(", ")
        }
        Parsed::Unreadable(why) => format!("unreadable: {why}"),
        Parsed::Refused(StateTrouble::Older) => "older".to_owned(),
        Parsed::Refused(StateTrouble::Newer(version)) => format!("newer: {version}"),
        Parsed::Refused(other) => format!("{other:?}"),
    }
}

/// The possible states on disk, from the table of cases of the owner's program.
#[test]
fn every_branch_of_the_table() {
    for (file, expected) in [
        ("", "unreadable: line 1, column 1: a value is missing"),
        ("{\"schema_version\":1", "unreadable: line 1, column 20: a comma is missing"),
        ("{\"schema_version\":1} x", "unreadable: line 1, column 22: there is something after the end"),
        ("\u{feff}{\"schema_version\":1}", "unreadable: line 1, column 1: a value is missing"),
        ("[]", "unreadable: it is not a JSON object, but a list"),
        ("null", "unreadable: it is not a JSON object, but a number or word"),
        ("\"x\"", "unreadable: it is not a JSON object, but a text"),
        ("{\"session_id\":\"old\"}", "older"),
        ("{}", "older"),
        ("{\"schema_version\":0}", "older"),
        ("{\"schema_version\":-1}", "older"),
        ("{\"schema_version\":true}", "older"),
        ("{\"schema_version\":1.0}", "older"),
        ("{\"schema_version\":\"1\"}", "older"),
        ("{\"schema_version\":2,\"sessions\":[]}", "newer: 2"),
        ("{\"schema_version\":123456789012345678901234567890}", "newer: 12345678901234567890"),
        ("{\"schema_version\":1,\"sessions\":[1]}", "schema_version=1, sessions=[\n  1\n]"),
        (
            "{\"schema_version\":1,\"sessions\":{\"default\":5,\"\":{},\"a/b\\ud800\":null}}",
            "schema_version=1, sessions={}, sessions.default=5, sessions.={}, sessions.a/b\\ud800=null",
        ),
        ("{\"a\":1,\"schema_version\":1,\"a\":2}", "a=2, schema_version=1"),
        ("{\"schema_version\":1,\"muted_threads\":[\"t\"]}", "schema_version=1, muted_threads=[\n  \"t\"\n]"),
        ("{\"schema_version\":1,\"muted_threads\":{\"t\":NaN}}", "schema_version=1, muted_threads={}, muted.t=NaN"),
        (
            "{\"schema_version\":1,\"seen_email_ids\":[\"b\",\"a\",\"b\",7]}",
            "schema_version=1, seen_email_ids=[], (ids: \"b\" \"a\" 7)",
        ),
        ("{\"schema_version\":1,\"seen_email_ids\":null}", "schema_version=1, seen_email_ids=null"),
        ("{\"schema_version\":1,\"pending_response\":null}", "schema_version=1, pending_response=null"),
        (
            "{\"schema_version\":1,\"pending_response\":{\"message_id\":\"4\"}}",
            "schema_version=1, pending_response={\n  \"message_id\": \"4\"\n}, (waits: 4)",
        ),
        (
            "{\"schema_version\":1,\"pending_response\":\"m\"}",
            "schema_version=1, pending_response=\"m\", (waits: \"m\")",
        ),
    ] {
        assert_eq!(said(file), expected, "{file}");
    }
    for bytes in [&b"\xff\xfe{\0}\0"[..], b"{\"a\":\"\xe9\"}"] {
        assert_eq!(parse(bytes), Parsed::Unreadable("it is not UTF-8".to_owned()));
    }
    let many: Vec<String> = (0..3_000).map(|n| format!("\"k{n}\":{n}")).collect();
    let many = format!("{{\"schema_version\":1,{}}}", many.join(","));
    assert!(said(&many).contains("too large"));
}

/// Only a time in UTC tells since when an answer has been pending.
#[test]
fn times_without_a_zone_do_not_count() {
    for (time, counts) in [
        ("2026-04-27T15:00:00Z", true),
        ("2026-04-27T15:00:00.25Z", true),
        ("2026-04-27T15:00:00", false),
        ("2026-04-27 15:00 UTC", false),
        ("soon", false),
    ] {
        let file =
            format!("{{\"schema_version\":1,\"pending_response\":{{\"message_id\":1,\"reacted_at\":\"{time}\"}}}}");
        let Parsed::Fields(document, _) = parse(file.as_bytes()) else { panic!("{file}") };
        assert_eq!(document.pending.unwrap().reacted.is_some(), counts, "{time}");
    }
}

#[test]
fn a_file_is_replaced_and_its_permissions_stay() {
    let (dir, place) = place();
    let file = dir.path().join(NAME);
    let lock = place.try_lock().unwrap().unwrap();
    for (mode, expected) in [(None, 0o644), (Some(0o600), 0o600), (Some(0o664), 0o664)] {
        if let Some(mode) = mode {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        place.write(&lock, "{}").unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, expected);
    }
    assert_eq!(place.look().unwrap(), FileContent::Bytes(b"{}".to_vec()));
    std::fs::write(dir.path().join(".tmp-1-2-session-state.json"), "half").unwrap();
    place.tidy(&lock).unwrap();
    let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [NAME, "session-state.json.lock"], "nothing else is left");
}

#[test]
fn two_cannot_have_the_lock_and_nothing_removes_it() {
    let (dir, place) = place();
    let lock = place.try_lock().unwrap().unwrap();
    assert!(place.try_lock().unwrap().is_none());
    drop(lock);
    drop(place.try_lock().unwrap().unwrap());
    assert_eq!(std::fs::metadata(dir.path().join(LOCK)).unwrap().len(), 0);
}

#[test]
fn tricks_with_names_lead_nowhere() {
    let (dir, place) = place();
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "{\"schema_version\":1}").unwrap();
    symlink(&secret, dir.path().join(NAME)).unwrap();
    assert!(matches!(place.look().unwrap(), FileContent::Refused(_)));
    symlink(&secret, dir.path().join(LOCK)).unwrap();
    assert!(place.try_lock().is_err());
    std::fs::remove_file(dir.path().join(LOCK)).unwrap();
    std::fs::create_dir(dir.path().join(LOCK)).unwrap();
    assert!(place.try_lock().is_err());
    std::fs::remove_dir(dir.path().join(LOCK)).unwrap();
    std::fs::remove_file(dir.path().join(NAME)).unwrap();
    std::fs::hard_link(&secret, dir.path().join(NAME)).unwrap();
    assert!(matches!(place.look().unwrap(), FileContent::Refused(_)));
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "{\"schema_version\":1}");
}

#[test]
fn what_cannot_be_read_is_kept_once() {
    let (dir, place) = place();
    let lock = place.try_lock().unwrap().unwrap();
    let now = Timestamp::parse("2026-04-20T12:00:00Z").unwrap();
    let names: Vec<String> = (0..2).map(|_| place.quarantine(&lock, b"broken", "0123456789ab", now).unwrap()).collect();
    assert_eq!(names, ["session-state.json.corrupt-2026-04-20-01234567"; 2]);
    assert_eq!(std::fs::read(dir.path().join(&names[0])).unwrap(), b"broken");
}

#[test]
fn what_could_not_be_read_again_is_not_written() {
    let (dir, place) = place();
    let lock = place.try_lock().unwrap().unwrap();
    let long = "x".repeat(usize::try_from(BYTES_MAX).unwrap() + 1);
    let error = place.write(&lock, &long).unwrap_err().to_string();
    assert!(error.contains("it would have 4194305 bytes, at most 4194304 are read"), "{error}");
    assert!(!dir.path().join(NAME).exists());
}

#[test]
fn copies_are_gone_when_nothing_has_their_names() {
    let (dir, place) = place();
    std::fs::write(dir.path().join("a"), "").unwrap();
    symlink("nowhere", dir.path().join("b")).unwrap();
    let names = ["a", "b", "c"].map(str::to_owned);
    assert_eq!(place.gone(&names).unwrap(), ["c"]);
}
