//! `/stop` against real programs: how soon it works, and what a crash in between changes.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::host::{Host, event, wait_for};

/// Uses a tool, and then works for ever without listening to signals. Other messages are answered.
const PROGRAM: &str = r#"
import json, os, signal, sys, time

def line(**fields):
    print(json.dumps(fields), flush=True)

signal.signal(signal.SIGTERM, signal.SIG_IGN)
for text in sys.stdin:
    turn = json.loads(text)
    words = turn["messages"][-1]["content"]["text"]
    if words == "work":
        with open("turns", "a") as file:
            file.write("x")
        line(type="tool", name="build", id="1")
        line(type="tool_done", id="1")
        line(type="tool", name="deploy", timeout_ms=600000, id="2")
        time.sleep(600)
    line(type="say", text="done " + words)
    line(type="done")
"#;

const NOTE: &str = "Stopped by Ann. Tools that had already run: build, deploy.";

/// A program that works, and how often it began.
fn working() -> Host {
    let mut host = Host::with_program(PROGRAM);
    host.start();
    host.inject("m1", "work");
    wait_for("the program to work", || (turns(&host) == 1).then_some(()));
    wait_for("the tool to be known", || {
        let state = host.data().join("sessions/se1/agent/state.json");
        std::fs::read_to_string(state).ok().filter(|text| text.contains("\"deploy\""))
    });
    host
}

fn turns(host: &Host) -> usize {
    std::fs::read(host.data().join("groups/main/turns")).map_or(0, |bytes| bytes.len())
}

fn first(host: &Host) -> Value {
    host.rows("messages").remove(0)["value"].take()
}

#[test]
fn a_deaf_program_is_stopped_within_a_moment() {
    let mut host = working();
    let pressed = Instant::now();
    host.inject("m2", "/stop");
    let said = host.wait_said(1);
    let took = pressed.elapsed();
    assert_eq!(said, [NOTE]);
    assert!(took < Duration::from_secs(3), "{took:?}; it gets 0.7 s, the rest is a busy machine");
    host.inject("m3", "hello");
    assert_eq!(host.wait_said(2)[1], "done hello");
    host.wait_settled();
    assert_eq!((turns(&host), &first(&host)["tries"]), (1, &Value::from(0)));
    assert!(first(&host)["state"].to_string().contains("Stopped"), "{}", first(&host));
    let why = host.done(&["why", "ms1"], b"");
    assert!(why.contains("stopped by"), "{why}");
    assert_eq!(host.stop().code, Some(0));
    host.check();
}

/// The daemon dies right before the run is killed. The next one does not repeat the message, and tells the person.
#[test]
fn a_crash_between_the_press_and_its_effect_changes_nothing() {
    let mut host = working();
    host.kill();
    host.env.push(("HEARTH_TEST_CRASH_AT".to_owned(), "stop".to_owned()));
    // The message comes back, and is at work again when it is stopped.
    std::fs::remove_file(host.data().join("groups/main/turns")).unwrap();
    host.start();
    wait_for("the program to work", || (turns(&host) == 1).then_some(()));
    host.run(&["inject"], event("m2", "/stop").to_string().as_bytes());
    host.ended();
    host.env.pop();
    host.start();
    let said = host.wait_said(1);
    assert!(said[0].starts_with("Stopped by Ann."), "{said:?}");
    host.inject("m3", "hello");
    assert_eq!(host.wait_said(2)[1], "done hello", "the person was told once");
    host.wait_settled();
    assert_eq!(turns(&host), 1, "it is not repeated");
    host.check();
}

#[test]
fn a_frozen_agent_is_reported_and_waits() {
    let mut host = working();
    host.done(&["agents", "freeze", "main"], b"");
    host.wait_said(1);
    host.inject("m2", "hello");
    assert_eq!(host.stop().code, Some(0));
    host.start();
    let warned = host.status()["warnings"].to_string();
    assert!(warned.contains("agent main is frozen by the operator since"), "{warned}");
    assert_eq!(host.status()["frozen"][0]["by"], "the operator");
    let why = host.done(&["why", "m2"], b"");
    assert!(why.contains("agent main is frozen by the operator"), "{why}");
    let told = "Your message waits: main was frozen by the operator. The answer comes when it may work again.";
    assert_eq!(host.wait_said(2)[1], told);
    host.done(&["agents", "unfreeze", "main"], b"");
    assert_eq!(host.wait_said(3)[2], "done hello");
    assert!(host.done(&["agents", "stop", "main"], b"").contains("nothing to stop"));
    host.done(&["agents", "freeze", "main"], b"");
    wait_for("the run to end", || (host.status()["places"]["running"] == 0).then_some(()));
    let restarted = host.done(&["agents", "restart", "main", "--message", "hi"], b"");
    assert!(restarted.contains("the message was not sent to anyone"), "{restarted}");
    assert_eq!(host.stop().code, Some(0));
    host.check();
}
