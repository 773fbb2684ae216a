//! Killed runners, superseded runners, damaged files: nothing is lost or sent twice.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use hearth_wire::{Ack, AckStatus, AlreadySent, Heartbeat, OutMessage, limits};
use serde_json::json;

use crate::bench::{Bench, names, wait_for};

/// Kills a runner after every durable step of a turn, and lets the next incarnation finish the work.
#[test]
fn killed_after_any_step_the_turn_is_done_once_more_or_was_done() {
    let mut survived = false;
    let mut steps = 0;
    while !survived {
        steps += 1;
        assert!(steps < 200, "the turn never ends");
        let mut bench = Bench::new("echo");
        bench.message(2, false, "background");
        bench.say(4, "!file a.txt abc\n!answer one\nrest");
        let mut first = bench.start_with(|command| {
            command.env("HEARTH_TEST_CRASH_AFTER_STEPS", steps.to_string());
        });
        survived = wait_for("the crash or the end", || {
            let crashed = first.ended().is_some();
            let done = !bench.ends().is_empty();
            if crashed { Some(false) } else { done.then_some(true) }
        });
        first.kill();
        let ended_by_first = bench.acks().contains_key("4.1.completed.json");
        check_files_are_whole(&bench);
        bench.next_incarnation();
        let _second = bench.start();
        let ack = bench.ended(4);
        assert_eq!(ack.incarnation, if ended_by_first { 1 } else { 2 }, "after step {steps}");
        assert_eq!(ack.status, AckStatus::Completed);
        let texts: Vec<_> = bench.answers(&ack).iter().map(|content| content["text"].clone()).collect();
        assert_eq!(texts, ["a.txt", "one", "echo: rest (context: background)"], "after step {steps}");
        assert_eq!(ack.ends, [2], "after step {steps}");
        bench.say(6, "!silence");
        assert!(bench.ended(6).ends.is_empty(), "after step {steps}");
        let named: Vec<_> = bench.acks().into_values().flat_map(|ack| ack.out).collect();
        assert_eq!(named.len(), 3, "after step {steps}: one ack names answers, once");
        let outs = bench.outs();
        let file = &outs[&ack.out[0].file_name()];
        assert_eq!(fs::read(bench.session(&format!("agent/out/files/{}/a.txt", file.id))).unwrap(), b"abc");
        let numbers: BTreeMap<u64, &OutMessage> = outs.values().map(|out| (out.number, out)).collect();
        assert_eq!(numbers.len(), outs.len(), "after step {steps}: a number is used once");
        assert!(numbers.keys().all(|number| number % 2 == 1 && *number > 4));
        check_files_are_whole(&bench);
    }
    assert!(steps > 15, "only {steps} steps were seen");
}

/// Whenever a runner is killed, the messages of a turn are all ended by one ack whose answers exist, or none is.
/// Whichever incarnation continues, each message is in exactly one valid answer.
#[test]
fn killed_at_any_moment_a_turn_ends_whole_or_not_at_all() {
    for same in [true, false] {
        let mut moments = [0, 0];
        for steps in 1.. {
            let mut bench = Bench::new("echo");
            for (seq, text) in [(2, "first"), (4, "second"), (6, "third")] {
                bench.say(seq, text);
            }
            let mut runner = bench.start_with(|command| {
                command.env("HEARTH_TEST_CRASH_AFTER_STEPS", steps.to_string());
            });
            let survived = wait_for("the crash or the end", || {
                let crashed = runner.ended().is_some();
                let done = !bench.ends().is_empty();
                if crashed { Some(false) } else { done.then_some(true) }
            });
            runner.kill();
            let ended_before = bench.ends().len();
            moments[ended_before] += 1;
            assert_eq!(stands(&bench), ALL[..ended_before], "after step {steps}");
            if !same {
                bench.next_incarnation();
            }
            let _next = bench.start();
            bench.ended(6);
            bench.say(8, "fourth");
            bench.ended(8);
            assert_eq!(stands(&bench), ALL, "after step {steps}");
            if survived {
                break;
            }
        }
        assert!(moments[0] > 8 && moments[1] > 0, "{moments:?}");
    }
}

/// The final state: the messages that an ack ended, and its answers.
const ALL: [&str; 2] = ["[2, 4, 6] echo: first\nsecond\nthird", "[8] echo: fourth"];

fn stands(bench: &Bench) -> Vec<String> {
    let texts =
        |ack: &Ack| bench.answers(ack).iter().map(|content| content["text"].as_str().unwrap()).collect::<String>();
    bench.ends().iter().map(|ack| format!("{:?} {}", [&*ack.ends, &[ack.seq]].concat(), texts(ack))).collect()
}

#[test]
fn messages_that_any_readable_ack_ended_stay_ended() {
    let mut bench = Bench::new("echo");
    for seq in [2, 4, 6, 8, 10] {
        bench.say(seq, &format!("message {seq}"));
    }
    let ack = |v: u64, seq: u64, status: &str, ends: &[u64]| {
        let ack = json!({"v": v, "seq": seq, "incarnation": 1, "status": status, "at": "", "ends": ends});
        bench.place(&format!("agent/ack/{seq}.1.{status}.json"), &ack);
    };
    ack(1, 2, "completed", &[]);
    ack(1, 6, "failed", &[4]);
    ack(1, 8, "processing", &[]);
    ack(2, 10, "completed", &[8]);
    bench.next_incarnation();
    let runner = bench.start();
    let ack = wait_for("the end of message 8", || bench.ends().into_iter().find(|ack| ack.seq == 8));
    assert_eq!((bench.answers(&ack), ack.ends), (vec![json!({"text": "echo: message 8"})], vec![]));
    assert_eq!(bench.outs().len(), 1);
    assert!(runner.stderr().contains("ends only the message in its name"), "{}", runner.stderr());
}

/// Checks that all files except temporary ones are complete.
fn check_files_are_whole(bench: &Bench) {
    bench.acks();
    bench.outs();
    bench.state();
}

#[test]
fn leftovers_of_a_killed_writer_are_removed() {
    let bench = Bench::new("echo");
    fs::create_dir(bench.session("agent/out/files/1-1-2")).unwrap();
    for path in ["agent/.tmp-1-x", "agent/ack/.tmp-2-x", "agent/out/.tmp-3-x", "agent/out/files/1-1-2/.tmp-4-x"] {
        fs::write(bench.session(path), "half").unwrap();
    }
    bench.say(2, "hello");
    let _runner = bench.start();
    bench.ended(2);
    for dir in ["agent/ack", "agent/out", "agent/out/files/1-1-2"] {
        assert!(names(&bench.session(dir)).iter().all(|name| !name.starts_with('.')), "{dir}");
    }
}

#[test]
fn a_stale_incarnation_does_nothing_and_says_so() {
    let mut bench = Bench::new("echo");
    bench.say(2, "hello");
    bench.context.incarnation = 5;
    bench.publish();
    bench.context.incarnation = 4;
    let mut runner = bench.start();
    assert_eq!(runner.wait().code(), Some(0));
    assert!(runner.stderr().contains("incarnation 4 is over"), "{}", runner.stderr());
    assert!(bench.acks().is_empty() && bench.read::<Heartbeat>("agent/heartbeat").is_none());
}

#[test]
fn a_runner_stops_in_the_middle_of_a_turn_when_another_one_may_work() {
    for text in ["!hang", "!tool Bash 1m 1m", "!say first\n!sleep 1m\n!say second"] {
        let mut bench = Bench::new("echo");
        bench.say(2, text);
        let mut runner = bench.start();
        wait_for("the claim", || bench.acks().into_values().next());
        wait_for("the provider", || bench.state().filter(|state| state.progress > 0));
        bench.next_incarnation();
        assert_eq!(runner.wait().code(), Some(0));
        assert_eq!(bench.acks().len(), 1, "{text}");
        assert!(bench.outs().values().all(|out| out.content["text"] != "second"));
    }
}

#[test]
fn an_idle_runner_stops_when_another_one_may_work() {
    let mut bench = Bench::new("echo");
    bench.say(2, "hello");
    let mut runner = bench.start();
    bench.ended(2);
    bench.next_incarnation();
    assert_eq!(runner.wait().code(), Some(0));
}

#[test]
fn finished_messages_are_not_answered_again_and_numbers_are_not_reused() {
    let mut bench = Bench::new("echo");
    bench.say(2, "hello");
    let mut runner = bench.start();
    bench.ended(2);
    runner.kill();
    // The same incarnation again, after the host has consumed everything but the ack.
    let before: Vec<u64> = bench.outs().values().map(|out| out.number).collect();
    for name in bench.outs().keys() {
        fs::remove_file(bench.session(&format!("agent/out/{name}"))).unwrap();
    }
    let mut runner = bench.start();
    bench.say(4, "!answer more");
    assert_eq!(bench.texts(4), ["more"]);
    let outs = bench.outs();
    assert_eq!(outs.len(), 1, "message 2 has its ack and stays finished");
    assert!(outs.values().all(|out| !before.contains(&out.number)), "{before:?} {outs:?}");
    assert!(bench.read::<Heartbeat>("agent/heartbeat").unwrap().beat > 1);
    runner.kill();
    bench.next_incarnation();
    let _runner = bench.start();
    bench.say(6, "third");
    bench.ended(6);
    assert_eq!(bench.outs().len(), 2);
}

#[test]
fn what_was_said_before_the_crash_is_not_said_again() {
    let mut bench = Bench::new("echo");
    bench.say(2, "!say starting\n!until go\nend");
    let mut runner = bench.start();
    let said = wait_for("something said", || bench.outs().into_values().next());
    runner.kill();
    let sent = AlreadySent { in_reply_to: Some(2), number: said.number, text: "starting".to_owned() };
    bench.context.already_sent = vec![sent];
    bench.next_incarnation();
    bench.go();
    let _runner = bench.start();
    assert_eq!(bench.texts(2), ["echo: end"]);
    assert_eq!(bench.outs().values().filter(|out| !out.is_final).count(), 1);
}

#[test]
fn a_provider_that_takes_the_process_along_leaves_its_claim() {
    for (text, code, signal) in [("!exit 3", Some(3), None), ("!abort", None, Some(9))] {
        let bench = Bench::new("echo");
        bench.say(2, text);
        let mut runner = bench.start();
        let status = runner.wait();
        assert_eq!((status.code(), status.signal()), (code, signal));
        assert_eq!(names(&bench.session("agent/ack")), ["2.1.processing.json"]);
    }
}

#[test]
fn damaged_messages_fail_and_the_rest_goes_on() {
    let bench = Bench::new("echo");
    let huge = vec![b' '; usize::try_from(limits::JSON_BYTES).unwrap() + 1];
    let message = |seq: u64, v: u64| {
        let message = json!({"v": v, "seq": seq, "id": "ms", "kind": "chat", "trigger": true, "timestamp": "", "content": {"text": "x"}});
        serde_json::to_vec(&message).unwrap()
    };
    bench.place_bytes("host/in/0000000000000002.json", b"{\"v\":1,");
    bench.place_bytes("host/in/0000000000000004.json", &huge);
    bench.place_bytes("host/in/0000000000000006.json", &message(6, 2));
    bench.place_bytes("host/in/0000000000000008.json", &message(10, 1));
    bench.place_bytes("host/in/notes.txt", b"not a message");
    bench.say(12, "hello");
    let runner = bench.start();
    assert_eq!(bench.texts(12), ["echo: hello"]);
    for (seq, word) in [(2, "contract"), (4, "more than"), (6, "version 2"), (8, "seq is 10")] {
        let ack = bench.ended(seq);
        let error = ack.error.unwrap();
        assert!(ack.status == AckStatus::Failed && error.contains(word), "{seq}: {error}");
        assert!(bench.acks().contains_key(&format!("{seq}.1.processing.json")));
    }
    assert!(runner.stderr().contains("message 6 cannot be read"));
}

#[test]
fn an_unreadable_message_waits_without_stopping_the_others() {
    let bench = Bench::new("echo");
    fs::create_dir(bench.session("host/in/0000000000000002.json")).unwrap();
    bench.say(4, "hello");
    let runner = bench.start();
    assert_eq!(bench.texts(4), ["echo: hello"]);
    bench.say(6, "hello");
    bench.ended(6);
    assert_eq!(runner.stderr().matches("message 2 cannot be read now").count(), 1, "{}", runner.stderr());
}

#[test]
fn without_a_context_nothing_starts() {
    for (content, word) in [(None, "No such file"), (Some("{}"), "context.json"), (Some(r#"{"v":3}"#), "version 3")] {
        let bench = Bench::new("echo");
        fs::remove_file(bench.session("host/context.json")).unwrap();
        if let Some(content) = content {
            bench.place_bytes("host/context.json", content.as_bytes());
        }
        let mut runner = bench.start();
        assert_eq!(runner.wait().code(), Some(2));
        assert!(runner.stderr().contains(word), "{}", runner.stderr());
    }
}

#[test]
fn a_session_that_disappears_ends_the_runner() {
    let bench = Bench::new("echo");
    bench.say(2, "hello");
    let mut runner = bench.start();
    bench.ended(2);
    // The runner may write while the directory is removed.
    wait_for("the session to be removed", || fs::remove_dir_all(bench.path("session")).ok());
    assert!(runner.wait().code().is_some_and(|code| code != 0));
}

#[test]
fn a_wrong_start_is_a_usage_error() {
    for (name, value) in [("HEARTH_INCARNATION", "many"), ("HEARTH_ROOTS", "[]"), ("HEARTH_LIFE_FD", "77")] {
        let bench = Bench::new("echo");
        let mut runner = bench.start_with(|command| {
            command.env(name, value);
        });
        assert_eq!(runner.wait().code(), Some(2), "{name}");
        assert!(runner.stderr().contains(name), "{}", runner.stderr());
    }
}

#[test]
fn the_heart_beats_while_the_provider_hangs() {
    let bench = Bench::new("echo");
    bench.say(2, "!hang");
    let _runner = bench.start();
    let second = wait_for("a second beat", || bench.read::<Heartbeat>("agent/heartbeat").filter(|beat| beat.beat >= 2));
    assert_eq!(second.incarnation, 1);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(bench.acks().len(), 1);
}
