//! Successful turns, and the files that they write.

use std::time::Duration;

use hearth_wire::{AckStatus, Heartbeat, OutKind};
use serde_json::json;

use crate::bench::{Bench, names, wait_for};

#[test]
fn one_message_one_answer() {
    let bench = Bench::new("echo");
    bench.say(4, "hello");
    let _runner = bench.start();
    let ack = bench.ended(4);
    assert_eq!((ack.status, ack.incarnation, ack.error.clone()), (AckStatus::Completed, 1, None));
    assert_eq!(bench.answers(&ack), [json!({"text": "echo: hello"})]);
    let outs = bench.outs();
    let out = outs.values().next().unwrap();
    assert_eq!((out.number, out.is_final, out.in_reply_to, out.kind), (5, true, Some(4), OutKind::Chat));
    assert_eq!((&out.destination, &out.address), (&None, &None));
    assert_eq!(names(&bench.session("agent/ack")), ["4.1.completed.json", "4.1.processing.json"]);
    assert!(bench.read::<Heartbeat>("agent/heartbeat").is_some_and(|heartbeat| heartbeat.beat > 0));
    wait_for("what happened to be counted", || bench.state().filter(|state| state.progress > 0));
}

#[test]
fn context_waits_for_a_trigger_and_only_the_newest_is_told() {
    let mut bench = Bench::new("echo");
    bench.context.limits.max_prompt_messages = 2;
    bench.publish();
    for seq in [2, 4, 6] {
        bench.message(seq, false, &format!("c{seq}"));
    }
    let _runner = bench.start();
    wait_for("the heartbeat", || bench.read::<Heartbeat>("agent/heartbeat"));
    std::thread::sleep(Duration::from_millis(600));
    assert!(bench.acks().is_empty(), "nothing asked for a turn");
    bench.say(8, "now");
    assert_eq!(bench.texts(8), ["echo: now (context: c4; c6)"]);
    assert_eq!(bench.ends().len(), 1);
    assert_eq!(bench.ended(8).ends, [2, 4, 6]);
}

#[test]
fn several_messages_are_one_turn_with_one_ack() {
    let bench = Bench::new("echo");
    bench.say(2, "one");
    bench.say(4, "two\n!answer extra\n!to family hi");
    let _runner = bench.start();
    assert_eq!(bench.texts(4), ["extra", "hi", "echo: one\ntwo"]);
    let acks: Vec<_> = bench.acks().into_keys().collect();
    assert_eq!(acks, ["2.1.processing.json", "4.1.completed.json", "4.1.processing.json"]);
    assert_eq!(bench.ended(2).ends, [2]);
    let outs = bench.outs();
    let numbers: Vec<u64> = outs.values().map(|out| out.number).collect();
    assert_eq!(numbers, [5, 7, 9]);
    assert_eq!(outs.values().filter_map(|out| out.destination.clone()).collect::<Vec<_>>(), ["family"]);
}

#[test]
fn a_new_message_is_seen_at_once() {
    let bench = Bench::new("echo");
    let _runner = bench.start();
    for seq in [2, 4, 6] {
        bench.say(seq, "again");
        assert_eq!(bench.texts(seq), ["echo: again"]);
    }
}

#[test]
fn what_is_said_in_the_turn_stands_before_its_end() {
    let bench = Bench::new("echo");
    bench.say(2, "!say working on it\n!sleep 300ms\ndone");
    let _runner = bench.start();
    let said = wait_for("something said", || bench.outs().into_values().find(|out| !out.is_final));
    assert_eq!(said.content, json!({"text": "working on it"}));
    assert_eq!(bench.texts(2), ["echo: done"], "the ack names only the answer");
}

#[test]
fn failures_and_silence_end_messages_too() {
    let bench = Bench::new("echo");
    let _runner = bench.start();
    bench.say(2, "!file a.txt x\n!fail no model");
    let ack = bench.ended(2);
    assert_eq!((ack.status, ack.error.as_deref(), ack.out.len()), (AckStatus::Failed, Some("no model"), 0));
    assert!(names(&bench.session("agent/out/files")).is_empty(), "files of a failed turn are taken back");
    bench.say(4, "!silence\nnothing");
    let ack = bench.ended(4);
    assert_eq!((ack.status, ack.out.len()), (AckStatus::Completed, 0));
    bench.say(6, "!nonsense");
    assert_eq!(bench.ended(6).error.as_deref(), Some("echo knows no directive !nonsense"));
}

#[test]
fn tools_show_in_the_state_and_progress_rises() {
    let bench = Bench::new("echo");
    let _runner = bench.start();
    bench.say(2, "!tool Bash 90s 400ms\n!progress 3 150ms");
    let tool = wait_for("the tool", || bench.state().and_then(|state| state.tool));
    assert_eq!((tool.name.as_str(), tool.timeout_ms), ("Bash", Some(90_000)));
    let during = bench.state().unwrap().progress;
    bench.ended(2);
    let after = bench.state().unwrap();
    assert!(after.progress > during && after.tool.is_none(), "{after:?}");
}

#[test]
fn files_addresses_and_payloads_are_sent() {
    let bench = Bench::new("echo");
    let _runner = bench.start();
    bench.say(2, "!file notes.txt the content\n!address {\"channel\":\"c\",\"platform_id\":\"p\",\"text\":\"t\"}\n!payload {\"type\":\"card\"}");
    let ack = bench.ended(2);
    let outs = bench.outs();
    let [file, address, payload] = [0, 1, 2].map(|place: usize| &outs[&ack.out[place].file_name()]);
    assert_eq!(file.files, ["notes.txt"]);
    let stored = bench.session(&format!("agent/out/files/{}/notes.txt", file.id));
    assert_eq!(std::fs::read_to_string(stored).unwrap(), "the content");
    assert_eq!(address.address.as_ref().unwrap().platform_id, "p");
    assert_eq!((payload.kind, &payload.content), (OutKind::ChatSdk, &json!({"type": "card"})));
}

#[test]
fn an_unknown_destination_loses_nothing() {
    let bench = Bench::new("echo");
    let _runner = bench.start();
    bench.say(2, "!to nobody hello there");
    let text = bench.texts(2).remove(0);
    assert!(text.contains("nobody") && text.ends_with("hello there"), "{text}");
}

#[test]
fn large_answers_are_sent_in_pieces_and_too_large_ones_fail() {
    let mut bench = Bench::new("echo");
    bench.context.limits.max_json_bytes = 4096;
    bench.publish();
    let _runner = bench.start();
    bench.say(2, "!large 20000");
    let texts = bench.texts(2);
    assert!(texts.len() > 4);
    assert_eq!(texts.concat(), "large ".repeat(3334));
    for name in bench.outs().keys() {
        let size = std::fs::metadata(bench.session(&format!("agent/out/{name}"))).unwrap().len();
        assert!(size <= 4096, "{name} has {size} bytes");
    }
    bench.say(4, "!large 2000000");
    let error = bench.ended(4).error.unwrap();
    assert!(error.contains("too long"), "{error}");
}

#[test]
fn a_provider_nobody_knows_is_a_failed_turn() {
    let mut bench = Bench::new("oracle");
    let _runner = bench.start();
    bench.say(2, "hello");
    let error = bench.ended(2).error.unwrap();
    assert!(error.contains("oracle") && error.contains("echo"), "{error}");
    bench.context.provider.name = "echo".to_owned();
    bench.publish();
    bench.say(4, "hello");
    assert_eq!(bench.texts(4), ["echo: hello"], "the context is read again before each turn");
}

/// `idle_beat_ms` of the context.
#[test]
fn an_idle_runner_rests_until_a_message_comes() {
    let mut bench = Bench::new("echo");
    bench.context.idle_beat_ms = Some(600_000);
    bench.publish();
    let _runner = bench.start();
    let beat = || bench.read::<Heartbeat>("agent/heartbeat");
    let first = wait_for("the first beat", beat);
    assert_eq!((first.beat, first.rest_ms), (1, None), "it only rests if it stays idle");
    let resting = || beat().filter(|beat| beat.rest_ms == Some(600_000));
    let rest = wait_for("a rest", resting);
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(beat(), Some(rest));
    bench.say(2, "!until go");
    let work = wait_for("a beat at once", || beat().filter(|beat| beat.beat > rest.beat));
    assert_eq!(work.rest_ms, None);
    let next = wait_for("a beat in the turn", || beat().filter(|beat| beat.beat > work.beat));
    assert_eq!(next.rest_ms, None);
    bench.go();
    bench.ended(2);
    assert!(wait_for("a rest after the turn", resting).beat > next.beat);
    // A short turn and an unreadable message also end the rest.
    for (seq, good) in [(4, true), (6, false)] {
        let rest = wait_for("a rest", resting);
        if good {
            bench.say(seq, "x")
        } else {
            bench.place_bytes(&format!("host/in/{seq:016}.json"), b"{")
        }
        bench.ended(seq);
        wait_for("a beat", || beat().filter(|beat| beat.beat > rest.beat));
    }
}

#[test]
fn a_runner_that_is_not_asked_to_rest_beats_on() {
    let bench = Bench::new("echo");
    let _runner = bench.start();
    let third = wait_for("a third beat", || bench.read::<Heartbeat>("agent/heartbeat").filter(|beat| beat.beat >= 3));
    assert_eq!(third.rest_ms, None);
}
