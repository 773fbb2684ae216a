//! The end of an incarnation: all of its output is collected, and the next one's output is not touched.

use std::fs;

use serde_json::json;

use crate::model::mailbox::{CollectedRecord, Record};

use super::{Place, SESSION, ack, fifo, lines, names, said, said_with, unreadable};

#[test]
fn leftovers_are_told_and_close_the_incarnation() {
    let place = Place::new();
    place.write("out/late.json", said("late", 1, 9, true));
    place.write("out/files/late/x", "x");
    place.write("out/early.json", said("early", 1, 7, true));
    place.write("out/said.json", said("said", 1, 11, false));
    place.write("out/named.json", said("named", 1, 13, true));
    place.write("ack/4.1.completed.json", ack(4, 1, "completed", &["named"]));
    place.write("ack/6.1.processing.json", ack(6, 1, "processing", &[]));
    let rest = place.rest(1);
    assert_eq!(
        lines(&rest.collection.found),
        ["claim 6 by 1", "said 11 said", "end 4 by 1 [named \"text of named\"]", "leftover 7 early", "leftover 9 late",]
    );
    assert_eq!((rest.collection.closes, rest.more, rest.faults.len()), (Some(1), false, 0));
    assert_eq!(rest.collection.found[4].files, ["out/files/late", "out/late.json"]);
    // A repeat, as after a crash before the commit, gives the same. After the discard there is nothing left, and the
    // incarnation is still closed.
    assert_eq!(place.rest(1).collection, rest.collection);
    place.discard(&rest.collection);
    let again = place.rest(1).collection;
    assert_eq!((again.found, again.closes), (Vec::<CollectedRecord>::new(), Some(1)));
    assert_eq!(names(&place.agent("out")), ["files"]);
    assert_eq!(names(&place.agent("out/files")), [""; 0]);
}

#[test]
fn leftovers_of_earlier_incarnations_count_and_later_ones_cannot_be_forged() {
    let place = Place::new();
    place.write("out/old.json", said("old", 1, 5, true));
    place.write("out/future.json", said("future", 9, 7, true));
    let rest = place.rest(3);
    assert_eq!(lines(&rest.collection.found), ["unreadable out/future.json", "leftover 5 old"]);
    assert_eq!(unreadable(&rest.collection.found)[0].1, "it names incarnation 9, the last one was 3");
    assert_eq!(rest.collection.closes, Some(3));
}

#[test]
fn a_late_effect_leaves_the_next_incarnation_alone() {
    let place = Place::new();
    fs::write(place.host("context.json"), r#"{"version":9,"incarnation":4}"#).unwrap();
    place.write("out/next.json", said("next", 4, 5, true));
    place.write("out/bad.json", said_with("bad", 4, 8, json!({ "final": true })));
    place.write("out/.tmp-1-x.json", "");
    place.write("out/files/coming/x", "x");
    place.write("out/old.json", said("old", 3, 3, true));
    let rest = place.rest(3);
    assert_eq!(lines(&rest.collection.found), ["leftover 3 old"]);
    assert_eq!(rest.collection.closes, Some(3));
    assert_eq!(names(&place.agent("out")), [".tmp-1-x.json", "bad.json", "files", "next.json", "old.json"]);
    assert_eq!(names(&place.agent("out/files")), ["coming"]);
}

#[test]
fn what_nobody_counts_on_is_removed() {
    let place = Place::new();
    for name in ["out/.tmp-1-a.json", "ack/.tmp-2-b", ".tmp-3-state.json", "out/files/orphan/deep/x", "out/files/plain"]
    {
        place.write(name, "x");
    }
    fs::create_dir_all(place.agent("ack/.tmp-directory/inner")).unwrap();
    fifo(&place.agent("out/.tmp-fifo"));
    std::os::unix::fs::symlink(place.outside(), place.agent("out/files/link")).unwrap();
    let kept = place.mailboxes.path(SESSION).join("kept/.tmp-9-1.a");
    fs::create_dir(&kept).unwrap();
    for keep in ["state.json", "session.json", "heartbeat"] {
        place.write(keep, "x");
    }
    let rest = place.rest(1);
    assert_eq!((rest.collection.found, rest.collection.closes), (Vec::<CollectedRecord>::new(), Some(1)));
    assert_eq!(names(&place.agent("")), ["ack", "heartbeat", "out", "session.json", "state.json"]);
    assert_eq!(names(&place.agent("ack")), [""; 0]);
    assert_eq!(names(&place.agent("out")), ["files"]);
    assert_eq!(names(&place.agent("out/files")), [""; 0]);
    assert!(!kept.exists());
    assert_eq!(names(&place.mailboxes.path(SESSION).join("trash")), [""; 0]);
    place.assert_outside_untouched();
}

#[test]
fn bad_answers_without_an_ack_are_reported_at_the_end() {
    let place = Place::new();
    place.write("out/a.json", said_with("a", 1, 5, json!({ "final": true, "content": 3 })));
    assert_eq!(place.found(), []);
    let rest = place.rest(1);
    assert_eq!(
        unreadable(&rest.collection.found),
        [("out/a.json".to_owned(), "the content is not an object".to_owned())]
    );
    assert_eq!(rest.collection.closes, Some(1));
}

#[test]
fn trouble_of_the_machine_keeps_one_thing_back_and_the_incarnation_open() {
    let place = Place::new();
    place.write("out/files/a/x", "x");
    place.write("out/a.json", said_with("a", 1, 5, json!({ "files": ["x"] })));
    place.write("out/b.json", said("b", 1, 7, false));
    place.write("out/late.json", said("late", 1, 9, true));
    // The copy cannot get its final name.
    let kept = place.mailboxes.path(SESSION).join("kept/1.a");
    fs::write(&kept, "").unwrap();
    for collected in [place.collect(), place.rest(1)] {
        assert_eq!(collected.faults.len(), 1);
        assert_eq!((collected.collection.closes, collected.more), (None, false));
        assert_eq!(lines(&collected.collection.found)[0], "said 7 b");
        place.discard(&collected.collection);
    }
    fs::remove_file(&kept).unwrap();
    let rest = place.rest(1);
    assert_eq!(lines(&rest.collection.found), ["said 5 a"]);
    assert_eq!((rest.collection.closes, rest.faults.len()), (Some(1), 0));
    assert_eq!(names(&place.mailboxes.path(SESSION).join("kept")), ["1.a"]);
}

#[test]
fn twenty_thousand_files_are_worked_off() {
    let place = Place::new();
    for n in 0..20_000_u64 {
        let name = match n % 4 {
            0 => format!("out/.tmp-{n}"),
            1 => format!("out/not an id {n}.json"),
            2 => format!("out/x{n}.json"),
            _ => format!("ack/junk{n}"),
        };
        let text = if n % 4 == 2 { said(&format!("x{n}"), 1, 2 * n + 1, true) } else { String::new() };
        fs::write(place.agent(&name), text).unwrap();
    }
    let live = place.collect();
    assert!(live.collection.found.len() <= 500 && live.crowded && live.more);
    let (mut leftovers, mut reports, mut rounds) = (0, 0, 0);
    let last = loop {
        let rest = place.rest(1);
        assert!(rest.collection.found.len() <= 500 && rest.faults.is_empty());
        let count = |kind: fn(&Record) -> bool| rest.collection.found.iter().filter(|f| kind(&f.record)).count();
        leftovers += count(|record| matches!(record, Record::Leftover(_)));
        reports += count(|record| matches!(record, Record::Unreadable { .. }));
        place.discard(&rest.collection);
        rounds += 1;
        assert!(rounds < 100);
        if !rest.more {
            break rest;
        }
        assert_eq!(rest.collection.closes, None);
    };
    assert_eq!(last.collection.closes, Some(1));
    assert_eq!((leftovers, reports), (5_000, 10_000));
    assert_eq!(names(&place.agent("out")), ["files"]);
    assert_eq!(names(&place.agent("ack")), [""; 0]);
}

#[test]
fn a_leftover_is_not_judged_before_all_acks_were_read() {
    let place = Place::new();
    for n in 0..400_u64 {
        let (seq, id) = (2 * n + 2, format!("a{n}"));
        place.write(&format!("out/{id}.json"), said(&id, 1, 2 * n + 1, true));
        place.write(&format!("ack/{seq}.1.completed.json"), ack(seq, 1, "completed", &[&id]));
    }
    place.write("out/late.json", said("late", 1, 9_001, true));
    let mut all = Vec::new();
    loop {
        let rest = place.rest(1);
        place.discard(&rest.collection);
        all.extend(lines(&rest.collection.found));
        if rest.collection.closes.is_some() {
            break;
        }
        assert!(rest.more);
    }
    assert_eq!(all.iter().filter(|line| line.starts_with("end")).count(), 400);
    assert_eq!(all.iter().filter(|line| line.starts_with("leftover")).collect::<Vec<_>>(), ["leftover 9001 late"]);
    assert!(!all.iter().any(|line| line.contains("missing")));
}

/// A program may write any number of files: those beyond the limit are reported as a single refusal, and removed.
#[test]
fn what_is_said_too_often_is_left_out() {
    let place = Place::new();
    for n in 0..900_u64 {
        place.write(&format!("out/m{n}.json"), said(&format!("m{n}"), 1, 2 * n + 1, false));
    }
    place.write("out/f.json", said("f", 1, 9_001, true));
    place.write("ack/2.1.completed.json", ack(2, 1, "completed", &["f"]));
    let (mut allowed, mut taken, mut left_out, mut rounds) = (300, 0, 0, 0);
    let (mut all, mut reasons) = (Vec::new(), Vec::new());
    while left_out + taken < 900 {
        let collected = place.mailboxes.collect(SESSION, allowed).unwrap();
        assert!(collected.faults.is_empty());
        (taken, left_out, allowed) = (taken + collected.said, left_out + collected.left_out, allowed - collected.said);
        all.extend(lines(&collected.collection.found));
        reasons.extend(collected.collection.found.iter().filter_map(|found| match &found.record {
            Record::Unreadable { reason, .. } => Some(reason.clone()),
            _ => None,
        }));
        place.discard(&collected.collection);
        rounds += 1;
        assert!(rounds < 20);
    }
    assert_eq!((taken, left_out), (300, 600));
    assert_eq!(all.iter().filter(|line| line.starts_with("said")).count(), 300);
    assert!(reasons.iter().any(|reason| reason.contains("the others were discarded")), "{reasons:?}");
    assert!(names(&place.agent("out")).iter().all(|name| !name.starts_with('m')), "nothing is left of it");
    let rest = place.rest(1);
    all.extend(lines(&rest.collection.found));
    assert!(all.iter().any(|line| line.starts_with("end")), "answers are not a part of it: {all:?}");
}
