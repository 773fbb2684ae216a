//! `register-session`.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};

use super::{Place, Ran, mode};

const TOOL: [&str; 1] = ["register-session"];

fn register(place: &Place) -> Ran {
    place.run(&TOOL, &[("CLAUDE_SESSION_ID", "claude-session-99")], "")
}

#[test]
fn state_and_sentinel_are_written() {
    let place = Place::new();
    place.database();
    // Arguments and standard input are ignored.
    let ran = place.run(&["register-session", "--help", "x"], &[("CLAUDE_SESSION_ID", "claude-session-99")], "input");
    let line = r#"{"session_id": "db-session-42", "session_name": "default", "schema_version": 1, "wrote_state": true, "wrote_sentinel": true}"#;
    assert_eq!((ran.code, ran.out, ran.err), (Some(0), format!("{line}\n"), String::new()));
    let text = place.text("session-state.json");
    let state = place.state();
    let session = &state["sessions"]["default"];
    let (started, epoch) = (session["started"].as_str().unwrap(), session["epoch"].as_i64().unwrap());
    let wanted = format!(
        "{{\n  \"sessions\": {{\n    \"default\": {{\n      \"started\": \"{started}\",\n      \"epoch\": {epoch},\n      \"session_id\": \"db-session-42\",\n      \"last_seen\": \"{started}\"\n    }}\n  }},\n  \"session_id\": \"db-session-42\",\n  \"schema_version\": 1\n}}"
    );
    assert_eq!(text, wanted);
    assert_eq!((started.len(), started.ends_with('Z')), (20, true));
    assert_eq!(place.text("session_bootstrapped"), "claude-session-99");
    assert_eq!(place.names(), ["messages.db", "session-state.json", "session-state.json.lock", "session_bootstrapped"]);
    assert_eq!(place.text("session-state.json.lock"), "");
    assert_eq!((mode(&place.path("session-state.json")), mode(&place.path("session_bootstrapped"))), (0o644, 0o644));
}

#[test]
fn without_an_id_there_is_no_sentinel_and_an_old_one_stays() {
    for variables in [vec![], vec![("CLAUDE_SESSION_ID", "")]] {
        let place = Place::new();
        place.put("session_bootstrapped", "old");
        let ran = place.run(&TOOL, &variables, "");
        assert_eq!(ran.code, Some(0));
        let words =
            "register-session: $CLAUDE_SESSION_ID missing/empty; skipping sentinel write so next run re-bootstraps\n";
        assert!(ran.err.contains(words), "{}", ran.err);
        assert_eq!((&ran.json()["wrote_state"], &ran.json()["wrote_sentinel"]), (&json!(true), &json!(false)));
        assert_eq!(place.text("session_bootstrapped"), "old");
        assert_eq!(place.state()["schema_version"], 1);
    }
}

/// Different files in place of the database, and the resulting messages.
#[test]
fn without_a_database_there_is_no_id_and_none_is_made() {
    let place = Place::new();
    let ran = register(&place);
    let said = |words: &str| {
        format!("register-session: cannot read session_id from {}: {words}\n", place.path("messages.db").display())
    };
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), said("unable to open database file").as_str()));
    assert_eq!(ran.json()["session_id"], Value::Null);
    let state = place.state();
    assert_eq!((&state["session_id"], &state["sessions"]["default"]["session_id"]), (&Value::Null, &Value::Null));
    assert!(!place.path("messages.db").exists());

    place.put("messages.db", "this is not a database, and long enough to be seen as none".repeat(20));
    assert_eq!(register(&place).err, said("file is not a database"));
    place.put("messages.db", "");
    assert_eq!(register(&place).err, said("no such table: sessions"));
    assert_eq!(place.text("messages.db"), "");
}

#[test]
fn an_id_is_taken_as_it_is() {
    for (value, wanted) in [
        ("'x'", json!("x")),
        ("''", json!("")),
        ("NULL", Value::Null),
        ("17", json!(17)),
        ("9007199254740993", json!(9_007_199_254_740_993_i64)),
        ("1.5", json!(1.5)),
        ("'\u{e4}\u{1f600}'", json!("\u{e4}\u{1f600}")),
    ] {
        let place = Place::new();
        let database = rusqlite::Connection::open(place.path("messages.db")).unwrap();
        let make = format!("CREATE TABLE sessions (session_id); INSERT INTO sessions VALUES ({value}), ('later')");
        database.execute_batch(&make).unwrap();
        let ran = register(&place);
        assert_eq!((&ran.json()["session_id"], ran.err.as_str()), (&wanted, ""), "{value}");
        assert_eq!(place.state()["session_id"], wanted);
    }
    let place = Place::new();
    let database = rusqlite::Connection::open(place.path("messages.db")).unwrap();
    database.execute_batch("CREATE TABLE sessions (session_id)").unwrap();
    let ran = register(&place);
    assert_eq!((&ran.json()["session_id"], ran.err.as_str()), (&Value::Null, ""));
    database.execute_batch("INSERT INTO sessions VALUES (x'00ff')").unwrap();
    fs::remove_file(place.path("session-state.json")).unwrap();
    let ran = register(&place);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("BLOB") && !place.path("session-state.json").exists(), "{}", ran.err);
}

#[test]
fn without_a_database_the_providers_place_is_the_id() {
    let place = Place::new();
    for dir in ["session/agent", "session/host"] {
        fs::create_dir_all(place.path(dir)).unwrap();
    }
    let memory =
        json!({"v": 1, "incarnation": 3, "epoch": 0, "continuations": {"claude": "c-7", "hearth-runner": "3:9"}});
    place.put("session/agent/session.json", memory.to_string());
    let ran = register(&place);
    assert_eq!((&ran.json()["session_id"], ran.err.as_str()), (&json!("c-7"), ""));
    let mut context: Value =
        serde_json::from_str(include_str!("../../../../wire/fixtures/context-minimal.json")).unwrap();
    context["provider"] = json!({"name": "claude"});
    for (epoch, id) in [(0, json!("c-7")), (1, Value::Null)] {
        context["epoch"] = json!(epoch);
        place.put("session/host/context.json", context.to_string());
        assert_eq!(register(&place).json()["session_id"], id, "epoch {epoch}");
    }
    place.database();
    assert_eq!(register(&place).json()["session_id"], "db-session-42");
}

/// An existing file -> its new content and the message. `{}` is the path. A copy is kept exactly if a message says so.
#[test]
fn every_state_file_is_brought_into_shape() {
    let fresh = json!({"sessions": {"default": 0}, "session_id": null, "schema_version": 1});
    let malformed = "state file malformed at {}";
    for (content, wanted, words) in [
        (r#"{"session_id":"old-stamp"}"#, fresh.clone(), ""),
        (
            r#"{"a":1,"sessions":{"default":[],"other":{"x":1}}}"#,
            json!({"a": 1, "sessions": {"default": 0, "other": {"x": 1}}, "session_id": null, "schema_version": 1}),
            "",
        ),
        (r#"{"schema_version":0}"#, fresh.clone(), ""),
        (r#"{"schema_version":"9"}"#, fresh.clone(), ""),
        (r#"{"schema_version":null}"#, fresh.clone(), ""),
        (r#"{"schema_version":1.0}"#, fresh.clone(), ""),
        (
            r#"{"pending_response":{"message_id":"m"},"sessions":[]}"#,
            json!({"pending_response": {"message_id": "m"}, "sessions": {"default": 0}, "session_id": null, "schema_version": 1}),
            "state.sessions was not an object (type list); resetting",
        ),
        (r#"{"sessions":null}"#, fresh.clone(), "state.sessions was not an object (type NoneType); resetting"),
        ("this is not json", fresh.clone(), malformed),
        ("{\"sessions\": {", fresh.clone(), malformed),
        ("{} x", fresh.clone(), malformed),
        ("\u{feff}{}", fresh.clone(), malformed),
        ("[]", fresh.clone(), "state file at {} contained non-object JSON (type list); starting fresh"),
        ("null", fresh.clone(), "state file at {} contained non-object JSON (type NoneType); starting fresh"),
        ("\"x\"", fresh.clone(), "state file at {} contained non-object JSON (type str); starting fresh"),
        ("17", fresh.clone(), "state file at {} contained non-object JSON (type int); starting fresh"),
        ("1.5", fresh.clone(), "state file at {} contained non-object JSON (type float); starting fresh"),
        ("true", fresh.clone(), "state file at {} contained non-object JSON (type bool); starting fresh"),
    ] {
        let place = Place::new();
        let database = rusqlite::Connection::open(place.path("messages.db")).unwrap();
        database.execute_batch("CREATE TABLE sessions (session_id)").unwrap();
        place.put("session-state.json", content);
        let ran = register(&place);
        assert_eq!(ran.code, Some(0), "{content}: {}", ran.err);
        let mut state = place.state();
        assert!(state["sessions"]["default"].is_object());
        state["sessions"]["default"] = json!(0);
        assert_eq!(state, wanted, "{content}");
        let kept: Vec<String> = place.names().into_iter().filter(|name| name.contains(".corrupt-")).collect();
        if words.is_empty() {
            assert_eq!((ran.err.as_str(), kept.len()), ("", 0), "{content}");
        } else {
            let words = words.replace("{}", &place.path("session-state.json").display().to_string());
            assert!(ran.err.starts_with(&format!("register-session: {words}")), "{content}: {}", ran.err);
            assert_eq!(kept.len(), 1);
            assert_eq!(place.text(&kept[0]), content);
            assert!(ran.err.contains(&kept[0]), "{}", ran.err);
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_kept_and_an_empty_file_is_not() {
    let place = Place::new();
    for (content, copies) in [(&b""[..], 0), (b"{\"a\": \"\xff\"}", 1), (b"\xff\xfe{\0}\0", 2)] {
        place.put("session-state.json", content);
        let ran = register(&place);
        assert!(ran.err.contains("state file malformed at"), "{}", ran.err);
        let kept = place.names().into_iter().filter(|name| name.contains(".corrupt-"));
        assert_eq!((ran.code, kept.count()), (Some(0), copies));
    }
}

#[test]
fn later_versions_and_bottomless_files_are_left_alone() {
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(1500), "]".repeat(1500));
    for (content, words) in [
        (r#"{"schema_version": 2, "sessions": []}"#, "has schema_version 2, above this program's 1"),
        (r#"{"schema_version": 1.5}"#, "has schema_version 1.5"),
        (r#"{"schema_version": 123456789012345678901234567890}"#, "has schema_version 123456789012345678901234567890"),
        (deep.as_str(), "more than 1000 levels of nesting"),
    ] {
        let place = Place::new();
        place.put("session-state.json", content);
        place.put("session_bootstrapped", "old");
        let ran = register(&place);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{content}");
        assert!(ran.err.contains(words), "{}", ran.err);
        assert_eq!(
            (place.text("session-state.json").as_str(), place.text("session_bootstrapped").as_str()),
            (content, "old")
        );
    }
}

#[test]
fn what_others_wrote_comes_back_as_it_was() {
    let nested = format!("{}{}", "[".repeat(900), "]".repeat(900));
    let members = [
        r#""seen_email_ids": ["a", "b"]"#,
        r#""big": 123456789012345678901234567890"#,
        r#""exact": [1e5, -0.0, 0.10, NaN, Infinity, -Infinity]"#,
        r#""half": "\ud800""#,
        r#""muted_threads": {"z": 1, "a": null, "\ud83d\ude00": "\u007f"}"#,
        &format!("\"deep\": {nested}"),
        r#""schema_version": 0"#,
    ];
    let place = Place::new();
    place.put("session-state.json", format!("{{{}}}", members.join(", ")));
    assert_eq!(register(&place).code, Some(0));
    let text = place.text("session-state.json");
    let squeezed = text.split_whitespace().collect::<Vec<_>>().concat();
    let mut last = 0;
    for member in &members[..6] {
        let member = member.split_whitespace().collect::<Vec<_>>().concat();
        let at = squeezed.find(&member).unwrap_or_else(|| panic!("{member} is not in {squeezed}"));
        assert!(at >= last, "{member} moved");
        last = at;
    }
    // The version keeps its position, and new members are appended.
    assert!(squeezed.contains(r#""schema_version":1,"sessions":{"default":{"#), "{squeezed}");
}

#[test]
fn names_are_keys_whatever_they_are() {
    for (name, key) in [
        (&b"maintenance"[..], "\"maintenance\""),
        (b"", "\"\""),
        (b"a/../b", "\"a/../b\""),
        ("\u{e4}\u{1f600}".as_bytes(), r#""\u00e4\ud83d\ude00""#),
        (b"a\xffb", r#""a\udcffb""#),
    ] {
        let place = Place::new();
        place.database();
        let mut command = place.command(&TOOL);
        command.env("NANOCLAW_SESSION_NAME", OsStr::from_bytes(name)).env("CLAUDE_SESSION_ID", "x");
        let ran: Ran = command.output().unwrap().into();
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(ran.out.contains(&format!("\"session_name\": {key},")), "{}", ran.out);
        assert!(place.text("session-state.json").contains(&format!("    {key}: {{")));
    }
}

#[test]
fn sentinels_are_written_whole_or_not_at_all() {
    let place = Place::new();
    place.database();
    for id in [" padded\n", "\u{e4}", "in\nside"] {
        assert_eq!(place.run(&TOOL, &[("CLAUDE_SESSION_ID", id)], "").code, Some(0));
        assert_eq!(place.text("session_bootstrapped"), id);
    }
    let ran: Ran = place.command(&TOOL).env("CLAUDE_SESSION_ID", OsStr::from_bytes(b"a\xff")).output().unwrap().into();
    assert_eq!((ran.code, &ran.json()["wrote_sentinel"]), (Some(0), &json!(false)));
    // A link is replaced, and its target is unchanged.
    place.put("target", "t");
    fs::remove_file(place.path("session_bootstrapped")).unwrap();
    symlink(place.path("target"), place.path("session_bootstrapped")).unwrap();
    register(&place);
    assert_eq!(
        (place.text("target").as_str(), place.text("session_bootstrapped").as_str()),
        ("t", "claude-session-99")
    );
    assert!(!fs::symlink_metadata(place.path("session_bootstrapped")).unwrap().is_symlink());
    // The state was written before, so the next session repeats the bootstrap.
    fs::remove_file(place.path("session_bootstrapped")).unwrap();
    fs::create_dir(place.path("session_bootstrapped")).unwrap();
    fs::remove_file(place.path("session-state.json")).unwrap();
    let ran = register(&place);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.starts_with("register-session: failed to write sentinel /"), "{}", ran.err);
    assert_eq!(place.state()["session_id"], "db-session-42");
    assert!(place.names().iter().all(|name| !name.ends_with(".tmp")), "{:?}", place.names());
}

#[test]
fn what_cannot_be_read_or_locked_is_not_replaced() {
    let place = Place::new();
    fs::create_dir(place.path("session-state.json")).unwrap();
    let ran = register(&place);
    let words = format!(
        "state file read failed at {0}: [Errno 21] Is a directory: '{0}'",
        place.path("session-state.json").display()
    );
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains(&words), "{}", ran.err);

    let place = Place::new();
    fs::create_dir(place.path("session-state.json.lock")).unwrap();
    let ran = register(&place);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("register-session: cannot open lock file /"), "{}", ran.err);

    let ran = place.run(
        &TOOL,
        &[("NANOCLAW_STATE_PATH", "/nonexistent/s.json"), ("NANOCLAW_STATE_LOCK_PATH", "/nonexistent/s.lock")],
        "",
    );
    assert!(
        ran.err.contains(
            "cannot open lock file /nonexistent/s.lock: [Errno 2] No such file or directory: '/nonexistent/s.lock'"
        ),
        "{}",
        ran.err
    );
}

#[test]
fn modes_are_kept_and_links_to_the_state_replaced() {
    let place = Place::new();
    place.put("session-state.json", "{}");
    fs::set_permissions(place.path("session-state.json"), Permissions::from_mode(0o660)).unwrap();
    register(&place);
    assert_eq!(mode(&place.path("session-state.json")), 0o660);
    fs::rename(place.path("session-state.json"), place.path("real.json")).unwrap();
    let before = place.text("real.json");
    symlink("real.json", place.path("session-state.json")).unwrap();
    register(&place);
    assert_eq!(place.text("real.json"), before);
    assert!(!fs::symlink_metadata(place.path("session-state.json")).unwrap().is_symlink());
    // A dangling link counts as a missing file.
    fs::remove_file(place.path("session-state.json")).unwrap();
    symlink("nowhere", place.path("session-state.json")).unwrap();
    assert_eq!(register(&place).code, Some(0));
    assert_eq!(place.state()["schema_version"], 1);
}
