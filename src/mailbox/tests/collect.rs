//! Collecting the output of a well-behaved runner.

use std::fs;
use std::io::Read as _;

use serde_json::json;

use crate::model::address::{Address, ChannelName, ForeignId};
use crate::model::mailbox::{Answer, CollectedRecord, Failure, Recipient, Record, Said};
use crate::model::time::Timestamp;

use super::{Place, ack, lines, names, said, said_with, unreadable};

fn only_said(found: &[CollectedRecord]) -> &Said {
    match found {
        [CollectedRecord { record: Record::Said(said), .. }] => said,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_empty_or_unknown_mailbox_has_nothing() {
    let place = Place::new();
    let nothing = place.collect();
    assert_eq!((nothing.collection.found.len(), nothing.collection.closes, nothing.more), (0, None, false));
    let unknown = crate::model::id::SessionId::new(99);
    assert_eq!(place.mailboxes.collect(unknown, 9).unwrap().collection.found, []);
    assert_eq!(place.mailboxes.collect_rest(unknown, 3, 9).unwrap().collection.closes, Some(3));
    assert!(!place.mailboxes.path(unknown).exists());
}

#[test]
fn claims_and_things_said_come_before_ends() {
    let place = Place::new();
    place.write("out/answer.json", said("answer", 1, 9, true));
    place.write("ack/6.1.completed.json", ack(6, 1, "completed", &["answer"]));
    place.write("ack/4.1.completed.json", ack(4, 1, "completed", &[]));
    place.write("ack/6.1.processing.json", ack(6, 1, "processing", &[]));
    place.write("ack/4.1.processing.json", ack(4, 1, "processing", &[]));
    place.write("out/z.json", said("z", 1, 5, false));
    place.write("out/a.json", said("a", 1, 7, false));
    let found = place.found();
    assert_eq!(
        lines(&found),
        [
            "claim 4 by 1",
            "claim 6 by 1",
            "said 5 z",
            "said 7 a",
            "end 4 by 1 []",
            "end 6 by 1 [answer \"text of answer\"]",
        ]
    );
    let files: Vec<&[String]> = found.iter().map(|found| found.files.as_slice()).collect();
    assert_eq!(files[0], ["ack/4.1.processing.json"]);
    assert_eq!(files[2], ["out/z.json"]);
    // The ack goes last: until then it can come again.
    assert_eq!(files[5], ["out/answer.json", "ack/6.1.completed.json"]);
    assert_eq!(lines(&place.found()), lines(&found), "looking changes nothing");
}

#[test]
fn an_answer_waits_for_its_ack() {
    let place = Place::new();
    place.write("out/a.json", said("a", 1, 5, true));
    assert_eq!(place.found(), []);
    assert!(!place.collect().more);
    place.write("ack/4.1.failed.json", ack(4, 1, "failed", &["a"]));
    assert_eq!(lines(&place.found()), ["end 4 by 1 failed: the agent gave no reason [a \"text of a\"]"]);
}

#[test]
fn a_failed_turn_says_why_within_bounds() {
    let place = Place::new();
    let failed = |error: &str| {
        json!({ "v": 1, "seq": 4, "incarnation": 1, "status": "failed", "at": "", "error": error }).to_string()
    };
    place.write("ack/4.1.failed.json", failed("no key\nline 2"));
    assert_eq!(lines(&place.found()), ["end 4 by 1 failed: no key\nline 2 []"]);
    place.write("ack/4.1.failed.json", failed(&"x".repeat(500_000)));
    let found = place.found();
    let Record::End { failure: Some(Failure { error, .. }), .. } = &found[0].record else { panic!() };
    assert_eq!(error.chars().count(), 2_001);
}

#[test]
fn what_was_taken_in_before_is_missing() {
    let place = Place::new();
    place.write("out/a.json", said("a", 1, 5, true));
    place.write("ack/4.1.completed.json", ack(4, 1, "completed", &["a", "never", "a"]));
    assert_eq!(lines(&place.found()), ["end 4 by 1 [a \"text of a\", never missing]"]);
    fs::remove_file(place.agent("out/a.json")).unwrap();
    let found = place.found();
    assert_eq!(lines(&found), ["end 4 by 1 [a missing, never missing]"]);
    assert_eq!(found[0].files, ["ack/4.1.completed.json"]);
}

#[test]
fn an_ack_cannot_make_a_second_thing_of_what_was_said_at_once() {
    let place = Place::new();
    place.write("out/a.json", said("a", 1, 5, false));
    place.write("ack/4.1.completed.json", ack(4, 1, "completed", &["a"]));
    assert_eq!(lines(&place.found()), ["said 5 a", "end 4 by 1 [a missing]"]);
}

#[test]
fn a_bad_answer_is_refused_with_its_ack() {
    let place = Place::new();
    place.write("out/a.json", said_with("a", 1, 5, json!({ "final": true, "deliver_after": "soon" })));
    place.write("out/b.json", said_with("b", 1, 6, json!({ "final": true })));
    place.write("out/c.json", said("other", 1, 7, true));
    place.write("out/d.json", "{");
    assert_eq!(unreadable(&place.found()).len(), 1, "only d does not say that it is final");
    place.write("ack/4.1.completed.json", ack(4, 1, "completed", &["a", "b", "c", "d"]));
    let found = place.found();
    assert_eq!(
        lines(&found),
        [
            "end 4 by 1 [a refused: `soon` is not a time, b refused: the number 6 is not odd and below 1000000000000000, \
          c refused: name and content differ, \
          d refused: it is not JSON: EOF while parsing an object at line 1 column 1]"
        ]
    );
    assert_eq!(found[0].files, ["out/a.json", "out/b.json", "out/c.json", "out/d.json", "ack/4.1.completed.json"]);
}

#[test]
fn everything_said_gets_its_type() {
    let place = Place::new();
    let other = json!({
        "in_reply_to": 4, "address": { "channel": "telegram", "platform_id": "-100", "thread_id": "7" },
        "content": { "markdown": "*hello*", "text": "", "n": 1 }, "deliver_after": "2026-04-20T14:00:00+02:00",
        "kind": "chat-sdk", "unknown key": [1, 2],
    });
    place.write("out/a.json", said_with("a", 3, 5, other));
    let found = place.found();
    let said = only_said(&found);
    let address = Address {
        channel: ChannelName::new("telegram").unwrap(),
        platform_id: ForeignId::new("chat", "-100").unwrap(),
        thread: Some(ForeignId::new("thread", "7").unwrap()),
    };
    assert_eq!(said.to, Recipient::Address(address));
    assert_eq!((said.incarnation, said.number, said.in_reply_to), (3, 5, Some(4)));
    assert_eq!((said.text.as_str(), said.content.as_str()), ("*hello*", r#"{"markdown":"*hello*","n":1,"text":""}"#));
    assert_eq!(said.deliver_after, Timestamp::parse("2026-04-20T12:00:00Z"));
    assert_eq!(said.request, None);
}

#[test]
fn targets_and_requests_follow_the_contract() {
    for (other, to, request) in [
        (json!({}), Some(Recipient::Reply), None),
        (json!({ "destination": "family" }), Some(Recipient::Destination("family".to_owned())), None),
        (json!({ "kind": "system", "request_id": "r1" }), Some(Recipient::Reply), Some("r1")),
        (json!({ "kind": "system" }), Some(Recipient::Reply), Some("a")),
        (json!({ "destination": "" }), None, None),
        (json!({ "destination": "a\nb" }), None, None),
        (json!({ "destination": "x", "address": { "channel": "c", "platform_id": "p" } }), None, None),
        (json!({ "address": { "channel": "", "platform_id": "p" } }), None, None),
        (json!({ "address": { "channel": "c", "platform_id": "x".repeat(1_025) } }), None, None),
        (json!({ "address": { "channel": "c", "platform_id": "p", "thread_id": "\u{0}" } }), None, None),
        (json!({ "request_id": "../r" }), None, None),
        (json!({ "content": "text" }), None, None),
        (json!({ "content": [] }), None, None),
        (json!({ "kind": "other" }), None, None),
        (json!({ "number": 0 }), None, None),
        (json!({ "number": -5 }), None, None),
        (json!({ "number": 1.5 }), None, None),
        (json!({ "number": u64::MAX }), None, None),
        (json!({ "incarnation": u64::MAX }), None, None),
        (json!({ "final": "no" }), None, None),
        (json!({ "v": 2 }), None, None),
        (json!({ "v": null }), None, None),
    ] {
        let place = Place::new();
        place.write("out/a.json", said_with("a", 1, 5, other.clone()));
        let found = place.found();
        match to {
            Some(to) => {
                assert_eq!(only_said(&found).to, to, "{other}");
                assert_eq!(only_said(&found).request.as_deref(), request, "{other}");
            }
            None => assert_eq!(unreadable(&found).len(), 1, "{other}: {found:?}"),
        }
    }
}

fn kept_names(said: &Said) -> Vec<String> {
    said.files.iter().map(|file| file.kept.clone()).collect()
}

#[test]
fn files_are_kept_where_the_agent_cannot_change_them() {
    let place = Place::new();
    place.write("out/files/a/report.pdf", "first");
    place.write("out/files/a/ö 2.txt", "umlaut");
    place.write("out/a.json", said_with("a", 1, 5, json!({ "files": ["report.pdf", "ö 2.txt", "report.pdf"] })));
    let found = place.found();
    let files = kept_names(only_said(&found));
    assert_eq!(files, ["se12/kept/1.a/report.pdf", "se12/kept/1.a/ö 2.txt"]);
    assert_eq!(found[0].files, ["out/files/a", "out/a.json"]);
    // The agent changes its own file, also through a descriptor it may have kept: the first copy counts.
    place.write("out/files/a/report.pdf", "second");
    assert_eq!(kept_names(only_said(&place.found())), files);
    place.discard(&place.collect().collection);
    assert!(!place.agent("out/files/a").exists());
    let mut text = String::new();
    place.mailboxes.kept(&files[0]).unwrap().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "first");
    place.mailboxes.release(&files).unwrap();
    assert!(place.mailboxes.kept(&files[0]).unwrap().is_none());
    assert_eq!(names(&place.mailboxes.path(super::SESSION).join("kept")), [""; 0]);
    place.mailboxes.release(&files).unwrap();
}

#[test]
fn names_of_kept_files_lead_nowhere_else() {
    let place = Place::new();
    for name in [
        "",
        "se12",
        "se12/kept/1.a",
        "se12/kept/1.a/../../agent/x",
        "se12/agent/out/a.json",
        "../outside/secret.json",
        "/etc/passwd",
        "se12/kept/../host/context.json",
        "se012/kept/1.a/x",
        "se12/kept/.tmp-1/x",
        "se12/kept/1.a/..",
    ] {
        assert!(place.mailboxes.kept(name).is_err(), "{name}");
        assert!(place.mailboxes.release(&[name.to_owned()]).is_err(), "{name}");
    }
    place.assert_outside_untouched();
}

#[test]
fn an_answer_stands_without_the_files_that_cannot_be_sent() {
    let place = Place::new();
    place.write("out/files/a/good", "x");
    let files = json!({ "final": true, "files": ["good", "missing", "../../../ack", ""] });
    place.write("out/a.json", said_with("a", 1, 5, files));
    place.write("ack/4.1.completed.json", ack(4, 1, "completed", &["a"]));
    let found = place.found();
    let reason = "it is not a safe name; 2 more were skipped";
    assert_eq!(unreadable(&found), [("out/files/a/../../../ack".to_owned(), reason.to_owned())]);
    let Record::End { answers, .. } = &found[1].record else { panic!() };
    let [Answer::Read(said)] = answers.as_slice() else { panic!() };
    assert_eq!(kept_names(said), ["se12/kept/1.a/good"]);
}

#[test]
fn no_more_files_than_agreed_go_with_one_answer() {
    let place = Place::new();
    let all: Vec<String> = (0..40).map(|n| format!("f{n}")).collect();
    for name in &all {
        place.write(&format!("out/files/a/{name}"), "x");
    }
    place.write("out/a.json", said_with("a", 1, 5, json!({ "files": all })));
    let found = place.found();
    let Record::Said(said) = &found[1].record else { panic!() };
    assert_eq!(said.files.len(), 32);
    assert_eq!(unreadable(&found)[0].1, "40 files are named, 32 are sent with one answer");
}

#[test]
fn files_of_other_incarnations_are_handed_over_too() {
    let place = Place::new();
    place.write("out/a.json", said("a", 7, 5, false));
    place.write("ack/4.9.completed.json", ack(4, 9, "completed", &[]));
    assert_eq!(lines(&place.found()), ["said 5 a", "end 4 by 9 []"]);
}

#[test]
fn unfinished_files_are_not_looked_at() {
    let place = Place::new();
    place.write("out/.tmp-1-a.json", said("a", 1, 5, false));
    place.write("ack/.tmp-2-4.1.completed.json", "");
    assert_eq!(place.found(), []);
    assert_eq!(names(&place.agent("out")), [".tmp-1-a.json", "files"]);
}

#[test]
fn an_ack_that_names_too_much_is_cut() {
    let place = Place::new();
    let ids: Vec<String> = (0..5_000).map(|n| format!("a{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    place.write("ack/4.1.completed.json", ack(4, 1, "completed", &ids));
    let found = place.found();
    let Record::End { answers, .. } = &found[0].record else { panic!() };
    assert_eq!(answers.len(), 101);
    let reason = "an ack may name 100 answers, this one names 5000".to_owned();
    assert_eq!(answers[100], Answer::Refused { id: "a100".to_owned(), reason });
}

#[test]
fn one_ack_cannot_fill_the_memory() {
    let place = Place::new();
    let big = |id: &str, number| {
        said_with(id, 1, number, json!({ "final": true, "content": { "text": "x".repeat(1_000_000) } }))
    };
    let ids: Vec<String> = (0..20).map(|n| format!("a{n}")).collect();
    for (n, id) in ids.iter().enumerate() {
        place.write(&format!("out/{id}.json"), big(id, 2 * n as u64 + 1));
    }
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    place.write("ack/4.1.completed.json", ack(4, 1, "completed", &ids));
    let found = place.found();
    let Record::End { answers, .. } = &found[0].record else { panic!() };
    let read = answers.iter().filter(|answer| matches!(answer, Answer::Read(_))).count();
    assert_eq!((read, answers.len()), (16, 20));
}

#[test]
fn much_is_taken_in_slices_without_an_end_before_what_was_said() {
    let place = Place::new();
    for n in 0..600_u64 {
        place.write(&format!("out/s{n}.json"), said(&format!("s{n}"), 1, 2 * n + 1, false));
        place.write(&format!("ack/{}.1.completed.json", 2 * n + 2), ack(2 * n + 2, 1, "completed", &[]));
    }
    let (mut all, mut rounds) = (Vec::new(), 0);
    loop {
        let collected = place.collect();
        place.discard(&collected.collection);
        assert!(collected.collection.found.len() <= 500);
        all.extend(lines(&collected.collection.found));
        rounds += 1;
        if !collected.more {
            break;
        }
    }
    assert_eq!((all.len(), rounds), (1_200, 5));
    let last_said = all.iter().rposition(|line| line.starts_with("said")).unwrap();
    let first_end = all.iter().position(|line| line.starts_with("end")).unwrap();
    assert!(last_said < first_end);
    assert_eq!(place.found(), []);
}

/// After an agent sent large files, other sessions are served first.
#[test]
fn one_look_copies_no_more_than_one_large_message() {
    let place = Place::new();
    for (number, id) in [(1, "a"), (3, "b")] {
        place.write(&format!("out/files/{id}/f"), "");
        place.write(&format!("out/{id}.json"), said_with(id, 1, number, json!({ "files": ["f"] })));
    }
    place.write("out/files/c/f", "");
    place.write("out/c.json", said_with("c", 1, 5, json!({ "final": true, "files": ["f"] })));
    place.write("ack/4.1.completed.json", ack(4, 1, "completed", &["c"]));
    for id in ["a", "b", "c"] {
        let file = std::fs::File::options().write(true).open(place.agent(&format!("out/files/{id}/f"))).unwrap();
        file.set_len(hearth_wire::limits::FILE_BYTES).unwrap();
    }
    let mut all = Vec::new();
    for look in 1..=3 {
        let collected = place.collect();
        place.discard(&collected.collection);
        assert_eq!((collected.collection.found.len(), collected.more), (1, look < 3), "{collected:?}");
        all.extend(lines(&collected.collection.found));
    }
    all[..2].sort_unstable();
    assert_eq!(all, ["said 1 a", "said 3 b", "end 4 by 1 [c \"text of c\"]"]);
}

#[test]
fn one_ack_ends_a_whole_turn_within_bounds() {
    let place = Place::new();
    let ends = |seq: u64, status: &str, ends: &[u64]| {
        json!({ "v": 1, "seq": seq, "incarnation": 1, "status": status, "at": "2026-01-01T00:00:00.000Z", "ends": ends })
            .to_string()
    };
    place.write("ack/8.1.completed.json", ends(8, "completed", &[6, 4, 6, 8]));
    let found = place.found();
    let [CollectedRecord { record: Record::End { seq: 8, also, .. }, .. }] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!(also, &[4, 6], "each once, and not the one that says so");

    let place = Place::new();
    let many: Vec<u64> = (0..1_001).collect();
    place.write("ack/8.1.completed.json", ends(8, "completed", &many));
    place.write("ack/4.1.processing.json", ends(4, "processing", &[6]));
    let reasons: Vec<String> = unreadable(&place.found()).into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.contains("at most 1000")), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.contains("a claim ends no messages")), "{reasons:?}");
}
