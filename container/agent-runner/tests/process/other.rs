//! Runs `tests/agent.py`, an agent that shares no code with the runner, in its place.

#![expect(clippy::disallowed_methods, reason = "tests look for programs")]

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use hearth_wire::{AckStatus, Heartbeat, OutKind};
use serde_json::{Value, json};

use crate::bench::Bench;

const AGENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/agent.py");

/// Its steps, and how often the effect of a turn is visible if the turn is killed there and repeated.
const STEPS: [(&str, usize); 11] = [
    ("started", 1),
    ("beaten", 1),
    ("listed", 1),
    ("claimed-first", 1),
    ("claimed-all", 1),
    ("working", 2),
    ("said-now", 2),
    ("answer-file", 2),
    ("answer-written", 2),
    ("ack-temp", 2),
    ("ack-written", 1),
];

/// A session; none without Python.
pub(crate) fn bench_with_python() -> Option<Bench> {
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: there is no python3, so tests/agent.py was not tried");
        return None;
    }
    Some(Bench::new("echo"))
}

/// A session with two triggering messages and a context message.
fn bench(settings: &Value) -> Option<Bench> {
    let bench = bench_with_python()?;
    fs::write(bench.path("group/agent-test.json"), settings.to_string()).unwrap();
    bench.message(2, false, "background");
    bench.say(4, "one");
    bench.say(6, "two");
    Some(bench)
}

fn effects(bench: &Bench) -> Vec<Value> {
    let lines = fs::read_to_string(bench.path("group/effects")).unwrap_or_default();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn another_program_keeps_the_contract() {
    let Some(mut bench) = bench(&json!({"HEARTH_TEST_EFFECTS": "effects"})) else { return };
    let mut agent = bench.start_other(AGENT);
    let ack = bench.ended(2);
    assert_eq!((ack.seq, &*ack.ends, ack.status), (6, &[2, 4][..], AckStatus::Completed));
    assert_eq!(bench.answers(&ack), [json!({"text": "echo: one\ntwo"})]);
    assert_eq!(bench.acks().len(), 4, "three claims and one end");
    let outs = bench.outs();
    let out = outs.values().next().unwrap();
    assert_eq!((out.number, out.is_final, out.in_reply_to, out.kind), (7, true, Some(6), OutKind::Chat));
    assert_eq!(effects(&bench), [json!({"incarnation": 1, "seqs": [2, 4, 6], "step": "working"})]);
    assert_eq!(bench.read::<Heartbeat>("agent/heartbeat").unwrap().beat, 1);
    assert!(bench.state().unwrap().progress > 0);
    bench.place_bytes("host/in/0000000000000008.json", b"damaged");
    assert!(bench.ended(8).error.unwrap().contains("is not JSON"));
    bench.next_incarnation();
    assert_eq!(agent.wait().code(), Some(0), "another incarnation may work");
    let mut agent = bench.start_other(AGENT);
    bench.say(10, "three");
    assert_eq!(bench.texts(10), ["echo: three"]);
    assert_eq!(bench.ends().len(), 3);
    agent.leave();
    assert_eq!(agent.wait().code(), Some(0), "the host is gone");
}

#[test]
fn another_program_dies_at_every_step_and_the_next_one_goes_on() {
    for (step, times) in STEPS {
        let settings =
            json!({"HEARTH_TEST_EFFECTS": "effects", "HEARTH_TEST_DIE_AT": step, "HEARTH_TEST_DIE_ONCE": "died"});
        let Some(mut bench) = bench(&settings) else { return };
        let mut agent = bench.start_other(AGENT);
        assert_eq!(agent.wait().signal(), Some(9), "{step}: {}", agent.stderr());
        assert!(bench.path("group/died").exists());
        assert_eq!(bench.ends().len(), usize::from(step == "ack-written"), "{step}");
        bench.next_incarnation();
        let _agent = bench.start_other(AGENT);
        bench.say(8, "later");
        bench.ended(8);
        let ended: Vec<u64> = bench.ends().iter().flat_map(|ack| ack.ends.iter().chain([&ack.seq])).copied().collect();
        assert_eq!(ended, [2, 4, 6, 8], "{step}");
        let seen = effects(&bench).iter().filter(|effect| effect["seqs"][0] == 2).count();
        assert_eq!(seen, times, "{step}");
    }
}
