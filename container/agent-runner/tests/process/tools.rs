//! The agents' tools from outside: a program's MCP messages, the resulting files of the contract, and the host's
//! answers.

use std::fs;

use hearth_wire::{OutMessage, Reply, State};
use serde_json::{Value, json};

use crate::bench::{Bench, wait_for};
use crate::requests::{answer, command_bench};

fn message(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    let meta = json!({"claudecode/toolUseId": "toolu_1"});
    message(id, "tools/call", &json!({"name": tool, "arguments": arguments, "_meta": meta}))
}

fn say(bench: &Bench, seq: u64, messages: &[Value]) {
    bench.say(seq, &format!("mcp {}", Value::from(messages)));
}

/// The MCP server's answers, by id.
fn answers(bench: &Bench, seq: u64) -> Vec<Value> {
    let mut answers: Vec<Value> = serde_json::from_str(&bench.texts(seq)[0]).unwrap();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    answers
}

/// A tool's text, and whether it is an error.
fn told(answer: &Value) -> (String, bool) {
    let result = &answer["result"];
    (result["content"][0]["text"].as_str().unwrap_or_default().to_owned(), result["isError"] == true)
}

/// Waits for this number of files that need an answer of the host, and returns them.
fn written(bench: &Bench, count: usize) -> Vec<OutMessage> {
    wait_for(&format!("{count} files"), || {
        let mut outs: Vec<OutMessage> = bench.outs().into_values().filter(|out| out.request_id.is_some()).collect();
        outs.sort_by_key(|out| out.number);
        (outs.len() >= count).then_some(outs)
    })
}

/// A client that sends a greeting, lists the tools and makes mistakes.
#[test]
fn the_server_speaks_mcp() {
    let bench = command_bench();
    let _runner = bench.start();
    let client =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
    let silent = json!({"jsonrpc": "2.0", "method": "notifications/initialized", "silent": true});
    let messages = [
        message(1, "server/discover", &json!({})),
        message(2, "initialize", &client),
        silent,
        message(3, "tools/list", &json!({})),
        message(4, "ping", &json!({})),
        json!({"id": 5, "method": "ping"}),
        call(6, "fly", &json!({})),
        call(7, "send_message", &json!({"text": 5})),
    ];
    say(&bench, 2, &messages);
    let answers = answers(&bench, 2);
    assert_eq!(answers.iter().map(|answer| answer["id"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
    assert!(answers.iter().all(|answer| answer["jsonrpc"] == "2.0"));
    assert_eq!(answers[0]["error"]["code"], -32601);
    assert_eq!(answers[1]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answers[1]["result"]["serverInfo"], json!({"name": "nanoclaw", "version": "2.0.0"}));
    assert_eq!(answers[2]["result"]["tools"].as_array().unwrap().len(), 21);
    assert_eq!(answers[3]["result"], json!({}));
    assert_eq!(answers[4]["error"]["code"], -32600);
    assert_eq!(told(&answers[5]), ("Unknown tool: fly".to_owned(), true));
    assert_eq!(told(&answers[6]), ("Error: text is required".to_owned(), true));
    assert!(bench.outs().values().all(|out| out.is_final), "nothing was written but the answer of the turn");
}

/// Several calls at once: each gets the host's answer to its own file, in whatever order the answers arrive.
#[test]
fn calls_wait_for_the_host_and_not_for_each_other() {
    let bench = command_bench();
    fs::write(bench.path("group/made.txt"), "made here").unwrap();
    let _runner = bench.start();
    let question = json!({"title": "T", "question": "Q", "options": ["Yes"], "timeout": 120});
    let messages = [
        call(1, "ask_user_question", &question),
        call(2, "send_message", &json!({"text": "on it"})),
        call(3, "send_file", &json!({"path": "made.txt", "to": "family"})),
        call(4, "edit_message", &json!({"messageId": 99, "text": "x"})),
        call(5, "install_packages", &json!({"apt": ["jq"]})),
    ];
    say(&bench, 2, &messages);
    let outs = written(&bench, 5);
    let [asked, message, file, edit, packages] = outs.as_slice() else { panic!("{outs:#?}") };
    assert!(outs.iter().all(|out| !out.is_final && out.in_reply_to == Some(2)));
    assert_eq!((&message.content, message.destination.as_deref()), (&json!({"text": "on it"}), None));
    assert_eq!((file.files.as_slice(), file.destination.as_deref()), (&["made.txt".to_owned()][..], Some("family")));
    let copy = bench.session("agent/out/files").join(file.id.as_str()).join("made.txt");
    assert_eq!(fs::read_to_string(copy).unwrap(), "made here");
    let tool = wait_for("the tool", || bench.state().and_then(|state: State| state.tool));
    assert_eq!((tool.name.as_str(), tool.timeout_ms), ("ask_user_question", Some(180_000)));
    answer(&bench, packages, Ok(json!({"status": "submitted", "approval": "ap1", "text": "Submitted."})));
    answer(&bench, edit, Err("Message #99 not found"));
    answer(&bench, file, Ok(json!({"number": file.number})));
    answer(&bench, message, Err("the agent has no destination in telegram/1"));
    answer(&bench, asked, Ok(json!({"value": "yes", "label": "Yes", "userId": "u"})));
    let said: Vec<(String, bool)> = answers(&bench, 2).iter().map(told).collect();
    let submitted = "Package install request submitted. You will be notified when admin approves or rejects.";
    let expected = [
        ("yes", false),
        ("Error: the agent has no destination in telegram/1", true),
        (&format!("File sent to family (id: {}, filename: made.txt)", file.number), false),
        ("Error: Message #99 not found", true),
        (submitted, false),
    ];
    assert_eq!(said, expected.map(|(text, error)| (text.to_owned(), error)));
    assert_eq!(bench.state().unwrap().tool, None);
}

/// A host that is silent for a while has not rejected the message, so it counts as accepted.
#[test]
fn a_slow_host_holds_nothing_up_for_long() {
    let bench = command_bench();
    let _runner = bench.start();
    say(&bench, 2, &[call(1, "send_message", &json!({"text": "on it", "to": "family"}))]);
    let number = written(&bench, 1)[0].number;
    assert_eq!(told(&answers(&bench, 2)[0]), (format!("Message sent to family (id: {number})"), false));
}

/// The agent's destinations are looked up when it writes.
#[test]
fn new_destinations_are_known_at_once() {
    let mut bench = command_bench();
    let _runner = bench.start();
    let to_office = || call(1, "send_message", &json!({"text": "x", "to": "office"}));
    say(&bench, 2, &[to_office()]);
    let unknown = ("Error: Unknown destination \"office\". Known: family".to_owned(), true);
    assert_eq!(told(&answers(&bench, 2)[0]), unknown);
    let mut office = bench.context.destinations[0].clone();
    office.name = "office".to_owned();
    bench.context.destinations.push(office);
    bench.publish();
    say(&bench, 4, &[to_office()]);
    let out = written(&bench, 1).remove(0);
    assert_eq!(out.destination.as_deref(), Some("office"));
    answer(&bench, &out, Ok(json!({"number": out.number})));
    assert_eq!(told(&answers(&bench, 4)[0]), (format!("Message sent to office (id: {})", out.number), false));
}

/// An agent that only writes messages is stopped; the next turn may write again.
#[test]
fn an_agent_in_a_circle_is_told_to_stop() {
    let bench = command_bench();
    let _runner = bench.start();
    for seq in [2, 4] {
        bench.say(seq, "circle");
        wait_for("the end of the turn", || {
            for out in bench.outs().into_values().filter(|out| out.request_id.is_some()) {
                if !bench.session("host/reply").join(out.id.file_name()).exists() {
                    answer(&bench, &out, Ok(json!({"number": out.number})));
                }
            }
            bench.ends().iter().any(|ack| ack.seq == seq).then_some(())
        });
        let said = bench.texts(seq).remove(0);
        assert!(said.starts_with("200: Error: this turn has used its 200 calls"), "{said}");
    }
}

#[test]
fn so_many_calls_may_wait_at_once() {
    let bench = command_bench();
    let _runner = bench.start();
    let many: Vec<Value> = (0..60).map(|id| call(id, "send_message", &json!({"text": "again"}))).collect();
    say(&bench, 2, &many);
    let is_full = |(text, error): &(String, bool)| *error && text.contains("32 calls wait for their answers");
    assert_eq!(answers(&bench, 2).iter().map(told).filter(is_full).count(), 28);
    assert_eq!(written(&bench, 32).len(), 32);
}

/// A cancelled call gets no answer, and its tool no longer counts as running.
#[test]
fn a_cancelled_question_is_forgotten() {
    let bench = command_bench();
    let _runner = bench.start();
    let question = json!({"title": "T", "question": "Q", "options": ["Yes"]});
    let asked = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "silent": true,
        "params": {"name": "ask_user_question", "arguments": question}});
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "silent": true,
        "params": {"requestId": 1}});
    say(&bench, 2, &[asked, cancelled, message(2, "ping", &json!({}))]);
    let answers = answers(&bench, 2);
    assert_eq!(answers.iter().map(|answer| &answer["id"]).collect::<Vec<_>>(), [2]);
    assert_eq!(bench.state().unwrap().tool, None);
}

/// The requests about tasks as in the golden files, and the host's texts as the agent receives them.
#[test]
fn tasks_are_the_hosts() {
    let bench = command_bench();
    let _runner = bench.start();
    let fixture = |name: &str| -> Value {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/fixtures");
        serde_json::from_slice(&fs::read(dir.join(name)).unwrap()).unwrap()
    };
    let golden: OutMessage = serde_json::from_value(fixture("out-task.json")).unwrap();
    let mut arguments = golden.content.clone();
    arguments.as_object_mut().unwrap().remove("action");
    say(&bench, 2, &[call(1, "schedule_task", &arguments), call(2, "list_tasks", &json!({}))]);
    let outs = written(&bench, 2);
    assert_eq!((outs[0].kind, &outs[0].content), (golden.kind, &golden.content));
    assert_eq!(outs[1].content, json!({"action": "list_tasks"}));
    let reply: Reply = serde_json::from_value(fixture("reply-task.json")).unwrap();
    answer(&bench, &outs[0], Ok(reply.result.clone()));
    answer(&bench, &outs[1], Err("invalid status: nope"));
    let said: Vec<(String, bool)> = answers(&bench, 2).iter().map(told).collect();
    let text = reply.result["text"].as_str().unwrap().to_owned();
    assert_eq!(said, [(text, false), ("Error: invalid status: nope".to_owned(), true)]);
}
