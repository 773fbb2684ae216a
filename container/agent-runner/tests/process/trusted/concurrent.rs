//! Concurrent commands, and commands that are killed.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{Place, Ran};

/// Holds a lock with Python as long as its standard input is open.
const HOLDER: &str = "import fcntl, sys\n\
    f = open(sys.argv[1], 'a+')\n\
    getattr(fcntl, sys.argv[2])(f, getattr(fcntl, sys.argv[3]))\n\
    print('held', flush=True)\n\
    sys.stdin.read()\n";

/// None if there is no Python.
fn holder(place: &Place, call: &str, kind: &str) -> Option<Child> {
    let mut command = Command::new("python3");
    command.args(["-c", HOLDER]).arg(place.path("session-state.json.lock")).args([call, kind]);
    let Ok(mut child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        eprintln!("SKIPPED: there is no python3 to hold a lock");
        return None;
    };
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");
    Some(child)
}

#[test]
fn all_of_many_registrations_at_once_are_there() {
    let place = Place::new();
    place.put("session-state.json", r#"{"seen_email_ids": ["a"]}"#);
    let start = |number: usize| {
        let mut command = place.command(&["register-session"]);
        command
            .env("NANOCLAW_SESSION_NAME", format!("s{number}"))
            .env("CLAUDE_SESSION_ID", format!("id{number}"))
            .spawn()
    };
    let children: Vec<Child> = (0..24).map(|number| start(number).unwrap()).collect();
    for child in children {
        let ran: Ran = child.wait_with_output().unwrap().into();
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
    let state = place.state();
    assert_eq!(state["sessions"].as_object().unwrap().len(), 24);
    assert_eq!(state["seen_email_ids"][0], "a");
    assert_eq!(place.names(), ["session-state.json", "session-state.json.lock", "session_bootstrapped"]);
}

#[test]
fn all_lines_of_many_writers_at_once_are_there() {
    let place = Place::new();
    let start = |number: usize| {
        let line = format!("- 09:00 UTC \u{2014} writer {number}");
        place.command(&["append-to-daily-log", "--target", "group", "--date", "2026-05-01", "--line", &line]).spawn()
    };
    let children: Vec<Child> = (0..80).map(|number| start(number).unwrap()).collect();
    for child in children {
        let ran: Ran = child.wait_with_output().unwrap().into();
        assert_eq!((ran.code, ran.json()["appended_lines"].as_u64()), (Some(0), Some(1)), "{}", ran.err);
    }
    let text = place.text("group/2026-05-01.md");
    for number in 0..80 {
        assert_eq!(text.lines().filter(|line| line.ends_with(&format!("writer {number}"))).count(), 1);
    }
    assert_eq!(fs::read_dir(place.path("group")).unwrap().count(), 2);
}

/// Whenever a writer dies, readers see one complete state after the other, and the next writer is not blocked.
#[test]
fn a_writer_that_is_killed_leaves_a_whole_file() {
    let place = Place::new();
    let filler = "x".repeat(200_000);
    place.put("session-state.json", format!(r#"{{"filler": "{filler}"}}"#));
    let mut died = 0;
    for round in 0..60_u64 {
        let mut child = place.command(&["register-session"]).env("CLAUDE_SESSION_ID", "x").spawn().unwrap();
        std::thread::sleep(Duration::from_micros(round * 500));
        child.kill().unwrap();
        died += usize::from(!child.wait().unwrap().success());
        let state: Value = serde_json::from_str(&place.text("session-state.json")).unwrap();
        assert_eq!(state["filler"].as_str().unwrap().len(), filler.len());
        if place.path("session_bootstrapped").exists() {
            assert_eq!(place.text("session_bootstrapped"), "x");
        }
    }
    assert!(died > 0, "none of them was killed in time");
    assert_eq!(place.run(&["register-session"], &[], "").code, Some(0));
}

#[test]
fn a_lock_of_others_is_respected() {
    for kind in ["LOCK_EX", "LOCK_SH"] {
        let place = Place::new();
        let Some(mut held) = holder(&place, "flock", kind) else { return };
        for words in [&["register-session"][..], &["mute", "add", "t"]] {
            let ran = place.run(words, &[("HEARTH_LOCK_WAIT_MS", "50")], "");
            assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
            let words = format!(
                ": cannot acquire LOCK_EX on {}: another process",
                place.path("session-state.json.lock").display()
            );
            assert!(ran.err.contains(&words), "{}", ran.err);
            assert!(!place.path("session-state.json").exists());
        }
        let waiting = place.command(&["register-session"]).spawn().unwrap();
        drop(held.stdin.take());
        let ran: Ran = waiting.wait_with_output().unwrap().into();
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        held.wait().unwrap();
    }
}

#[test]
fn a_record_lock_is_another_kind_of_lock() {
    let place = Place::new();
    let Some(mut held) = holder(&place, "lockf", "LOCK_EX") else { return };
    assert_eq!(place.run(&["register-session"], &[("HEARTH_LOCK_WAIT_MS", "0")], "").code, Some(0));
    drop(held.stdin.take());
    held.wait().unwrap();
}
