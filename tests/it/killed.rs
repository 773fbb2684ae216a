//! Programs that are killed, or end without a result, in every state: the messages of the turn are retried, and nothing
//! is lost or sent twice.

use serde_json::Value;

use crate::host::{Host, wait_for};

/// Dies once, at the stage that its file `plan` names. Does not repeat messages that it sent before its death.
const PROGRAM: &str = r#"
import json, os, signal, sys

def line(**fields):
    print(json.dumps(fields), flush=True)

def stage(name):
    try:
        stage, how = open("plan").read().split()
    except FileNotFoundError:
        return
    if stage != name:
        return
    os.unlink("plan")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(int(how))

stage("start")
for text in sys.stdin:
    turn = json.loads(text)
    words = turn["messages"][-1]["content"]["text"]
    stage("read")
    line(type="progress")
    stage("progress")
    line(type="tool", name="build", timeout_ms=60000, id="1")
    stage("tool")
    line(type="tool_done", id="1")
    now = "now " + words
    if all(said["text"] != now for said in turn["already_sent"]):
        line(type="say", text=now, final=False)
    stage("said-now")
    line(type="say", text="end " + words)
    stage("said")
    line(type="done")
    stage("done")
"#;

/// Stages, and the final number of tries of the message: in the program's first turn, and in a later one. A program
/// that dies in a later turn before it wrote a line is restarted at no cost, as if it had ended between turns.
const STAGES: [(&str, Option<u64>, u64); 7] = [
    ("start", Some(1), 0),
    ("read", Some(1), 0),
    ("progress", Some(1), 1),
    ("tool", Some(1), 1),
    ("said-now", Some(1), 1),
    ("said", Some(1), 1),
    ("done", Some(0), 0),
];

fn last_message(host: &Host) -> Value {
    host.rows("messages").pop().unwrap()["value"].take()
}

#[test]
fn a_program_that_dies_in_any_state_costs_one_try_at_most() {
    std::thread::scope(|scope| {
        for how in ["kill", "0", "3"] {
            scope.spawn(move || dies_in_any_state(how));
        }
    });
}

fn dies_in_any_state(how: &str) {
    let mut host = Host::with_program(PROGRAM);
    host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "10".to_owned()));
    host.start();
    let plan = host.data().join("groups/main/plan");
    let mut said = Vec::new();
    let mut tell = |host: &Host, stage: &str| {
        std::fs::create_dir_all(plan.parent().unwrap()).unwrap();
        std::fs::write(&plan, format!("{stage} {how}")).unwrap();
        let words = format!("{stage} {}", said.len());
        host.inject(&words, &words);
        host.wait_settled();
        said.extend([format!("now {words}"), format!("end {words}")]);
        wait_for("the answer", || (host.said().len() >= said.len()).then_some(()));
        assert_eq!(host.said(), said, "{stage} {how}");
        let message = last_message(host);
        assert!(message["state"].get("Completed").is_some(), "{stage} {how}: {message}");
        message["tries"].as_u64().unwrap()
    };
    for (stage, first, later) in STAGES {
        if let Some(tries) = first {
            // The program exits after this turn, so that the next turn is its first.
            tell(&host, "done");
            wait_for("the program to end", || (!plan.exists()).then_some(()));
            assert_eq!(tell(&host, stage), tries, "{stage} {how}, first turn");
        }
        if stage != "start" {
            assert_eq!(tell(&host, stage), later, "{stage} {how}, later turn");
        }
    }
    host.check();
}

#[test]
fn one_notice_counts_and_shows_the_messages_of_a_turn_that_died_too_often() {
    let mut host = Host::with_program(
        "import os, signal\nprint('{\"type\": \"progress\"}', flush=True)\ninput()\nos.kill(os.getpid(), signal.SIGKILL)",
    );
    host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "1".to_owned()));
    let long = "word ".repeat(30);
    for (id, text) in [("m1", "first\nline"), ("m2", "second"), ("m3", &long)] {
        host.inject(id, text);
    }
    host.start();
    host.wait_settled();
    let notice = host.wait_said(1);
    let cut: String = long.chars().take(60).collect();
    let expected = format!(
        "The agent could not process 3 messages. Its owner can find out why with `hearth why ms1`.\n- first line\n- second\n- {cut}…"
    );
    assert_eq!(notice, [expected]);
    for row in host.rows("messages") {
        assert_eq!(row["value"]["tries"], 5, "{row}");
        let why = host.done(&["why", row["id"].as_str().unwrap_or("ms1")], b"");
        assert!(why.contains("signal: 9"), "{why}");
    }
    host.check();
}
