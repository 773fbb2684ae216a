//! `needs-bootstrap`: exactly one case returns exit code 1.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use super::{Place, Ran};

fn line(needs: bool, current: &str, stored: &str, reason: &str) -> String {
    format!(
        "{{\"needs_bootstrap\": {needs}, \"current\": {current}, \"stored\": {stored}, \"reason\": \"{reason}\"}}\n"
    )
}

/// Id and sentinel -> the message and the exit code.
#[test]
fn the_sentinel_is_compared_with_the_id() {
    let (mismatch, same) = ("sentinel_mismatch", "sentinel_match");
    for (id, sentinel, needs, stored, reason) in [
        (&b"s1"[..], None, true, "null", "sentinel_missing"),
        (b"s1", Some(&b"s1"[..]), false, "\"s1\"", same),
        (b"s1", Some(b"s1\n"), false, "\"s1\"", same),
        (b"s1", Some(b"\r\n s1\t\r\n"), false, "\"s1\"", same),
        (b"s1", Some(b"\x1c\xc2\xa0s1\x1f"), false, "\"s1\"", same),
        (b"s1", Some(b"other"), true, "\"other\"", mismatch),
        (b"s1", Some(b"S1"), true, "\"S1\"", mismatch),
        (b"s1", Some(b"s1\ns2"), true, r#""s1\ns2""#, mismatch),
        (b"s1", Some(b"done"), true, "\"done\"", mismatch),
        (b"a\nb", Some(b"a\nb"), false, r#""a\nb""#, same),
        // An id with surrounding white space never matches.
        (b"s1 ", Some(b"s1 "), true, "\"s1\"", mismatch),
        (b"s1\n", Some(b"s1\n"), true, "\"s1\"", mismatch),
        (b" ", Some(b" "), true, "\"\"", "sentinel_empty"),
        (b"s1", Some(b""), true, "\"\"", "sentinel_empty"),
        (b"s1", Some(b" \n"), true, "\"\"", "sentinel_empty"),
        (b"\xc3\xa4", Some(b"\xc3\xa4"), false, r#""\u00e4""#, same),
        // Invalid text matches no id.
        (b"s1", Some(b"\xff"), true, "null", "sentinel_unreadable"),
        (b"a\xff", Some(b"a\xff"), true, "null", "sentinel_unreadable"),
        (b"a\xff", Some(b"a"), true, "\"a\"", mismatch),
    ] {
        let place = Place::new();
        if let Some(content) = sentinel {
            place.put("session_bootstrapped", content);
        }
        let mut command = place.command(&["needs-bootstrap", "--help"]);
        let ran: Ran = command.env("CLAUDE_SESSION_ID", OsStr::from_bytes(id)).output().unwrap().into();
        let current = match id {
            b"a\xff" => r#""a\udcff""#.to_owned(),
            b"\xc3\xa4" => r#""\u00e4""#.to_owned(),
            _ => format!("{:?}", std::str::from_utf8(id).unwrap()),
        };
        assert_eq!(ran.out, line(needs, &current, stored, reason));
        assert_eq!(ran.code, Some(i32::from(!needs)), "{id:?} {sentinel:?}");
        assert_eq!(ran.err.is_empty(), reason != "sentinel_unreadable", "{}", ran.err);
        assert_eq!(place.names().len(), usize::from(sentinel.is_some()));
    }
}

#[test]
fn without_an_id_the_sentinel_does_not_matter() {
    let place = Place::new();
    place.put("session_bootstrapped", "");
    for variables in [vec![], vec![("CLAUDE_SESSION_ID", "")]] {
        let ran = place.run(&["needs-bootstrap"], &variables, "");
        assert_eq!((ran.code, ran.out), (Some(0), line(true, "\"\"", "null", "claude_session_id_missing")));
        assert_eq!(ran.err, "needs-bootstrap: $CLAUDE_SESSION_ID missing/empty; defaulting to bootstrap-needed\n");
    }
}

#[test]
fn what_is_no_file_cannot_be_read() {
    let place = Place::new();
    let sentinel = place.path("session_bootstrapped");
    let run = || place.run(&["needs-bootstrap"], &[("CLAUDE_SESSION_ID", "s1")], "");
    symlink("nowhere", &sentinel).unwrap();
    assert_eq!((run().code, run().out), (Some(0), line(true, "\"s1\"", "null", "sentinel_missing")));
    fs::remove_file(&sentinel).unwrap();
    fs::create_dir(&sentinel).unwrap();
    let ran = run();
    assert_eq!((ran.code, ran.out), (Some(0), line(true, "\"s1\"", "null", "sentinel_unreadable")));
    let shown = sentinel.display();
    let words = format!(
        "needs-bootstrap: cannot read sentinel at {shown}: [Errno 21] Is a directory: '{shown}'; assuming bootstrap needed\n"
    );
    assert_eq!(ran.err, words);
    fs::remove_dir(&sentinel).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &sentinel, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert_eq!((run().code, run().out), (Some(0), line(true, "\"s1\"", "null", "sentinel_unreadable")));
}

#[test]
fn what_is_wrong_elsewhere_does_not_say_that_it_is_not_needed() {
    let place = Place::new();
    for roots in ["nonsense", "{\"session\": \"relative\"}", "[]"] {
        let ran = place.run(&["needs-bootstrap"], &[("CLAUDE_SESSION_ID", "s1"), ("HEARTH_ROOTS", roots)], "");
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
    // Standard output is not writable.
    let mut command = place.command(&["needs-bootstrap"]);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = command.env("CLAUDE_SESSION_ID", "s1").stdout(full).status().unwrap();
    assert_eq!(ran.code(), Some(0));
}

#[test]
fn registration_ends_the_need_of_its_session() {
    let place = Place::new();
    let mine = [("CLAUDE_SESSION_ID", "s1")];
    assert_eq!(place.run(&["needs-bootstrap"], &mine, "").code, Some(0));
    assert_eq!(place.run(&["register-session"], &mine, "").code, Some(0));
    assert_eq!(place.run(&["needs-bootstrap"], &mine, "").code, Some(1));
    assert_eq!(place.run(&["needs-bootstrap"], &[("CLAUDE_SESSION_ID", "s2")], "").code, Some(0));
}

#[test]
fn without_variables_the_directories_are_the_runners() {
    let place = Place::new();
    let roots = serde_json::json!({"session": place.path("s"), "group": place.dir.path(), "home": "/h", "tmp": place.dir.path()});
    let run = |tool: &str| -> Ran {
        let mut command = place.command(&[tool]);
        for name in ["NANOCLAW_STATE_PATH", "NANOCLAW_STATE_LOCK_PATH", "NANOCLAW_SENTINEL", "NANOCLAW_MESSAGES_DB"] {
            command.env_remove(name);
        }
        command.env("HEARTH_ROOTS", roots.to_string()).env("CLAUDE_SESSION_ID", "s1").output().unwrap().into()
    };
    assert_eq!(run("register-session").code, Some(0));
    assert_eq!(place.names(), ["session-state.json", "session-state.json.lock", "session_bootstrapped"]);
    assert_eq!(run("needs-bootstrap").code, Some(1));
}
