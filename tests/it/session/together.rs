//! Concurrent clients of sessions, and clients that die in the middle.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::Value;

use super::{Desk, turn};
use crate::host::Running;

/// The texts of all records in the store, in any revision.
fn texts_of(desk: &Desk) -> BTreeSet<String> {
    desk.host.rows("records").iter().map(|row| row["value"].to_string()).collect()
}

fn many(desk: &Desk) {
    let dir = &desk.dir("p");
    desk.begun(dir, "s");
    let running: Vec<(usize, Running)> = (0..50)
        .map(|number| {
            let text = format!("message {number:02}");
            let arguments: Vec<&str> = match number % 10 {
                7 => vec!["fork", "s"],
                8 => vec!["clear", "s", "--confirm"],
                9 => vec!["compact", "s", "--keep", "2"],
                _ => vec!["append", "s", &text],
            };
            (number, desk.start(dir, &[&arguments[..], &["--json"]].concat(), ""))
        })
        .collect();
    let mut said = BTreeSet::new();
    for (number, one) in running {
        let ended = one.end();
        let answer: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:#?}"));
        match ended.code {
            Some(0) if number % 10 < 7 => drop(said.insert(format!("message {number:02}"))),
            Some(0) => {}
            _ => assert!(
                ["concurrent_modification", "store_busy"].contains(&answer["kind"].as_str().unwrap()),
                "{answer}"
            ),
        }
    }
    let kept = texts_of(desk);
    for text in &said {
        assert!(kept.iter().any(|blocks| blocks.contains(text)), "{text} was committed and is lost");
    }
    assert!(!said.is_empty(), "nobody got through");
    desk.host.check();
}

#[test]
fn fifty_processes_lose_nothing_with_a_daemon() {
    many(&Desk::served());
}

#[test]
fn fifty_processes_lose_nothing_without_a_daemon() {
    many(&Desk::new());
}

/// A writer that is killed has written a complete turn or nothing of it.
#[test]
fn a_killed_writer_leaves_whole_turns() {
    let desk = Desk::new();
    let dir = &desk.dir("p");
    desk.begun(dir, "s");
    let mut acknowledged = Vec::new();
    for number in 0..40 {
        let mut one = desk.start(dir, &["append", "s", "--lines", "--json"], &turn(number));
        // Killed at a different point each time: before it opens the store, while it writes, after its answer.
        std::thread::sleep(std::time::Duration::from_millis((number as u64 * 7) % 60));
        if one.try_end().is_none() {
            one = one.signal(Signal::KILL);
        }
        if one.end().code == Some(0) {
            acknowledged.push(number);
        }
    }
    let texts = desk.texts(dir, &["s", "--limit", "1000"]);
    let said: Vec<&str> = texts[1..].iter().map(String::as_str).collect();
    for pair in said.chunks(2) {
        let number = pair[0].strip_suffix(" user").unwrap_or_else(|| panic!("{said:?}"));
        assert_eq!(pair.get(1), Some(&format!("{number} assistant").as_str()), "{said:?}");
    }
    for number in acknowledged {
        assert!(said.contains(&format!("{number} user").as_str()), "{number} was acknowledged: {said:?}");
    }
    desk.host.check();
    assert_eq!(desk.ids(dir), ["s"]);
}
