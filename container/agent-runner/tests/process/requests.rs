//! Requests to the host: every kind of agent writes the same files and gets the host's answers.

use std::fs;

use hearth_wire::{OutKind, OutMessage, Reply, State};
use serde_json::{Value, json};

use crate::bench::{Bench, wait_for};
use crate::other::bench_with_python;

fn fixture(name: &str) -> Value {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/fixtures");
    serde_json::from_slice(&fs::read(dir.join(name)).unwrap()).unwrap()
}

pub(crate) fn command_bench() -> Bench {
    let mut bench = Bench::new("command");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/process/agent.py");
    bench.context.provider.command = ["python3", script].map(str::to_owned).to_vec();
    bench.publish();
    bench
}

/// Waits for a new request.
fn requested(bench: &Bench, seen: usize) -> OutMessage {
    wait_for("a request", || {
        let mut asked: Vec<OutMessage> = bench.outs().into_values().filter(|out| out.request_id.is_some()).collect();
        asked.sort_by_key(|out| out.number);
        (asked.len() > seen).then(|| asked.pop()).flatten()
    })
}

/// Answers as the host does: one file, written once.
pub(crate) fn answer(bench: &Bench, request: &OutMessage, result: Result<Value, &str>) {
    let request_id = request.request_id.clone().unwrap();
    let reply = Reply {
        v: 1,
        ok: result.is_ok(),
        error: result.clone().err().map(str::to_owned),
        result: result.unwrap_or_default(),
        request_id: request_id.clone(),
    };
    bench.place(&format!("host/reply/{}", request_id.file_name()), &reply);
}

/// Every kind of request, as in the golden files, except for the unique names of the requests.
#[test]
fn the_golden_requests() {
    let mut bench = Bench::new("echo");
    bench.context = serde_json::from_value(fixture("context-minimal.json")).unwrap();
    bench.publish();
    let _runner = bench.start();
    for (seen, name) in
        ["out-question.json", "out-packages.json", "out-server.json", "out-agent.json"].iter().enumerate()
    {
        let mut golden = fixture(name);
        let seq = 12 + 2 * seen as u64;
        bench.say(seq, &format!("!ask {}", golden["content"]));
        let request = requested(&bench, seen);
        let written = serde_json::to_value(&request).unwrap();
        for own in ["id", "number", "request_id", "in_reply_to"] {
            assert!(!written[own].is_null(), "{name} {own}");
            golden[own] = written[own].clone();
        }
        assert_eq!(written, golden, "{name}");
        answer(&bench, &request, Ok(fixture("reply-question.json")["result"].clone()));
        let said: Value = serde_json::from_str(&bench.texts(seq)[0]).unwrap();
        assert_eq!(said, fixture("reply-question.json")["result"]);
    }
}

#[test]
fn a_question_counts_as_a_tool_until_it_is_answered() {
    let bench = Bench::new("echo");
    let _runner = bench.start();
    bench.say(2, r#"!ask {"action":"ask_user_question","title":"T","question":"Q","options":["a"],"timeout":120}"#);
    let request = requested(&bench, 0);
    let tool = wait_for("the tool", || bench.state().and_then(|state: State| state.tool));
    assert_eq!((tool.name.as_str(), tool.timeout_ms), ("ask_user_question", Some(180_000)));
    answer(&bench, &request, Err("Question timed out after 120s"));
    assert_eq!(bench.texts(2), ["Question timed out after 120s"]);
    assert_eq!(bench.state().unwrap().tool, None);
}

#[test]
fn programs_ask_and_hear_the_answer() {
    let bench = command_bench();
    let _runner = bench.start();
    bench.say(2, r#"ask {"action":"create_agent","name":"Scout"}"#);
    let request = requested(&bench, 0);
    assert_eq!((request.kind, request.is_final), (OutKind::System, false));
    assert_eq!(request.content, json!({"action": "create_agent", "name": "Scout"}));
    answer(&bench, &request, Ok(json!({"status": "submitted"})));
    let heard: Value = serde_json::from_str(&bench.texts(2)[0]).unwrap();
    assert_eq!(heard, json!({"type": "reply", "id": "mine", "ok": true, "result": {"status": "submitted"}}));
    bench.say(4, r#"ask {"action":"explode"}"#);
    answer(&bench, &requested(&bench, 1), Err("unknown action `explode`"));
    let heard: Value = serde_json::from_str(&bench.texts(4)[0]).unwrap();
    assert_eq!(heard, json!({"type": "reply", "id": "mine", "ok": false, "error": "unknown action `explode`"}));
}

#[test]
fn an_answer_between_turns_comes_before_the_next_one() {
    let bench = command_bench();
    let _runner = bench.start();
    bench.say(2, r#"leave {"action":"install_packages","apt":["jq"]}"#);
    bench.ended(2);
    answer(&bench, &requested(&bench, 0), Ok(json!(1)));
    bench.say(4, "heard");
    let heard: Value = serde_json::from_str(&bench.texts(4)[0]).unwrap();
    assert_eq!(heard, json!([{"type": "reply", "id": "left", "ok": true, "result": 1}]));
}

#[test]
fn a_program_hears_how_something_said_at_once_went() {
    let bench = command_bench();
    let _runner = bench.start();
    bench.say(2, "sure");
    let said = requested(&bench, 0);
    assert_eq!((said.kind, said.content.clone()), (OutKind::Chat, json!({"text": "at once"})));
    answer(&bench, &said, Ok(json!({"number": said.number})));
    let heard: Value = serde_json::from_str(&bench.texts(2)[0]).unwrap();
    assert_eq!(heard["result"]["number"], said.number);
}

#[test]
fn another_program_asks_too() {
    let Some(bench) = bench_with_python() else { return };
    let _agent = bench.start_other(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/agent.py"));
    bench.say(2, r#"!ask {"action":"create_agent","name":"Scout"}"#);
    let request = requested(&bench, 0);
    assert_eq!(request.request_id.as_ref().unwrap().as_str(), format!("rq-{}", request.id));
    answer(&bench, &request, Ok(json!({"status": "submitted"})));
    assert_eq!(bench.texts(2), [r#"{"status": "submitted"}"#]);
    bench.say(4, "!to family hello, all");
    let ack = bench.ended(4);
    let outs = bench.outs();
    let said = &outs[&ack.out[0].file_name()];
    assert_eq!((said.destination.as_deref(), &said.content), (Some("family"), &json!({"text": "hello, all"})));
}
