//! The claude provider with the real CLI against a fake API. Skipped with a message if the CLI is not installed;
//! `.ci/agent-cli.sh` installs it.

use std::path::{Path, PathBuf};

use hearth_wire::{AckStatus, SessionFile};

use crate::bench::{Bench, Runner, names, until_go, wait_for};
use crate::fake_api::FakeApi;

/// A session whose agent is the CLI; `None` if there is no CLI here.
pub(crate) fn bench() -> Option<(Bench, FakeApi)> {
    let installed = "target/agent-cli/node_modules/@anthropic-ai/claude-code-linux-x64/claude";
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let binary = crate::bench::variable("HEARTH_TEST_CLAUDE").map_or_else(|| workspace.join(installed), PathBuf::from);
    if !binary.exists() {
        eprintln!("SKIPPED: no agent CLI at {}; .ci/agent-cli.sh installs it", binary.display());
        return None;
    }
    let mut bench = Bench::new("claude");
    bench.context.provider.command = vec![binary.to_str().unwrap().to_owned()];
    bench.publish();
    Some((bench, FakeApi::start()))
}

pub(crate) fn start(bench: &Bench, api: &FakeApi) -> Runner {
    bench.start_with(|command| {
        command.env("ANTHROPIC_BASE_URL", api.url()).env("ANTHROPIC_API_KEY", "sk-ant-test").env("LANG", "C.UTF-8");
        command.env("CLAUDE_CODE_MAX_RETRIES", "1");
    })
}

pub(crate) fn conversation(bench: &Bench) -> Option<String> {
    bench.read::<SessionFile>("agent/session.json")?.continuations.get("claude").cloned()
}

#[test]
fn a_conversation_goes_on_after_a_kill() {
    let Some((mut bench, api)) = bench() else { return };
    bench.say(2, "my favourite colour is teal [[say noted]]");
    let mut runner = start(&bench, &api);
    assert_eq!(bench.texts(2), ["noted"]);
    let first = conversation(&bench).unwrap();
    bench.say(4, "and the second turn of one process [[say fine]]");
    assert_eq!(bench.texts(4), ["fine"]);
    runner.kill();
    bench.next_incarnation();
    bench.say(6, "[[recall]]");
    let _runner = start(&bench, &api);
    let recalled = bench.texts(6).remove(0);
    assert!(recalled.contains("teal") && recalled.contains("second turn"), "{recalled}");
    assert_eq!(conversation(&bench).unwrap(), first, "the same conversation, not a copy");
}

#[test]
fn tools_show_while_they_run_and_the_cli_knows_its_session() {
    let Some((bench, api)) = bench() else { return };
    let script = format!("{}; pwd > place; echo $CLAUDE_SESSION_ID $NANOCLAW_SESSION_NAME > told", until_go("begun"));
    bench.say(2, &format!("[[tool Bash {{\"command\":\"{script}\",\"timeout\":90000}}]] [[say done]]"));
    let _runner = start(&bench, &api);
    let tool = wait_for("the tool", || bench.state().and_then(|state| state.tool));
    assert_eq!((tool.name.as_str(), tool.timeout_ms), ("Bash", Some(90_000)));
    bench.go();
    assert_eq!(bench.texts(2), ["done"]);
    assert_eq!(bench.state().unwrap().tool, None);
    let read = |name: &str| std::fs::read_to_string(bench.path("group").join(name)).unwrap();
    assert_eq!(Path::new(read("place").trim()), std::fs::canonicalize(bench.path("group")).unwrap());
    assert_eq!(read("told").trim(), format!("{} default", conversation(&bench).unwrap()));
}

#[test]
fn a_kill_in_the_middle_of_a_tool_brings_the_message_back() {
    let Some((mut bench, api)) = bench() else { return };
    let once = "test -e begun || { touch begun; python3 -c 'import time; time.sleep(30)'; }";
    bench.say(2, &format!("remember plum [[tool Bash {{\"command\":\"{once}\"}}]]"));
    let mut runner = start(&bench, &api);
    wait_for("the tool to begin", || bench.path("group/begun").exists().then_some(()));
    runner.kill();
    assert_eq!(names(&bench.session("agent/ack")), ["2.1.processing.json"]);
    bench.next_incarnation();
    bench.say(4, "[[recall]]");
    let _runner = start(&bench, &api);
    let recalled = bench.texts(4).remove(0);
    assert!(recalled.contains("plum"), "{recalled}");
    assert_eq!(bench.ended(2).incarnation, 2);
}

#[test]
fn what_is_no_conversation_begins_one_without_a_word() {
    let Some((bench, api)) = bench() else { return };
    for (seq, lost) in [(4, "not-a-uuid"), (6, ""), (8, "a b"), (10, "nul \0")] {
        let continuations = [("claude".to_owned(), lost.to_owned())].into();
        bench.place("agent/session.json", &SessionFile { v: 1, incarnation: 1, epoch: 0, continuations });
        bench.say(seq, "[[say here I am]]");
        let mut runner = start(&bench, &api);
        assert_eq!(bench.texts(seq), ["here I am"]);
        assert_ne!(conversation(&bench).unwrap(), lost);
        runner.kill();
    }
}

/// The CLI announces a conversation before it exists. A runner that stored the id then could not resume.
#[test]
fn a_kill_before_the_first_answer_leaves_no_conversation_behind() {
    let Some((mut bench, api)) = bench() else { return };
    bench.say(2, "[[gate 0]] [[say noted]]");
    let mut runner = start(&bench, &api);
    wait_for("the API to be asked", || (api.gated() > 0).then_some(()));
    runner.kill();
    api.open();
    assert_eq!(conversation(&bench), None);
    bench.next_incarnation();
    let _runner = start(&bench, &api);
    assert_eq!(bench.texts(2), ["noted"]);
    assert!(conversation(&bench).is_some());
}

#[test]
fn an_error_of_the_api_fails_the_turn_and_only_it() {
    let Some((bench, api)) = bench() else { return };
    bench.say(2, "[[error 400 invalid_request_error]]");
    let _runner = start(&bench, &api);
    let ack = bench.ended(2);
    assert_eq!(ack.status, AckStatus::Failed);
    assert!(ack.error.as_ref().unwrap().contains("400"), "{ack:?}");
    bench.say(4, "[[say back]]");
    assert_eq!(bench.texts(4), ["back"]);
}

#[test]
fn words_find_their_destinations_and_new_ones_are_known_at_once() {
    let Some((mut bench, api)) = bench() else { return };
    bench.say(2, "hello");
    let _runner = start(&bench, &api);
    assert!(bench.texts(2)[0].starts_with("heard: hello"));
    let mut office = bench.context.destinations[0].clone();
    office.name = "office".to_owned();
    bench.context.destinations.push(office);
    bench.publish();
    let blocks = "<internal>hm</internal>bare <message to=\"office\">to them</message>";
    bench.say(4, &format!("[[say {}]]", blocks.replace('<', "{{").replace('>', "}}")));
    let ack = bench.ended(4);
    let outs = bench.outs();
    let said: Vec<_> = ack.out.iter().map(|id| &outs[&id.file_name()]).collect();
    assert_eq!((said[0].content["text"].as_str(), said[0].destination.as_deref()), (Some("bare"), None));
    assert_eq!((said[1].content["text"].as_str(), said[1].destination.as_deref()), (Some("to them"), Some("office")));
    let last = api.requests().pop().unwrap();
    assert!(last["system"].to_string().contains("office"), "a resumed conversation gets the new instructions");
    assert!(last["messages"].to_string().contains("hello"), "and keeps its history");
}

#[test]
fn model_effort_and_blocked_tools_reach_the_api() {
    let Some((mut bench, api)) = bench() else { return };
    bench.context.provider.model = Some("claude-test-model".to_owned());
    bench.context.provider.effort = Some("low".to_owned());
    bench.context.blocked_tools = vec!["WebFetch".to_owned()];
    bench.publish();
    bench.say(2, "hello");
    let _runner = start(&bench, &api);
    bench.ended(2);
    let request = api.requests().pop().unwrap();
    assert_eq!(request["model"], "claude-test-model");
    let tools: Vec<&str> =
        request["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(tools.contains(&"Bash"), "{tools:?}");
    assert!(!tools.contains(&"WebFetch") && !tools.contains(&"AskUserQuestion"), "{tools:?}");
}

/// An MCP server is started beside the CLI. Its secret comes from the environment and is no process's argument.
#[test]
fn servers_of_tools_are_started_with_their_secrets() {
    let Some((mut bench, api)) = bench() else { return };
    let server = bench.path("server.py");
    let seen = bench.path("group/seen");
    std::fs::write(&server, SERVER.replace("SEEN", seen.to_str().unwrap())).unwrap();
    bench.context.mcp_servers = vec![hearth_wire::McpServer {
        name: "demo".to_owned(),
        command: "python3".to_owned(),
        args: vec![server.to_str().unwrap().to_owned()],
        env: [("MODE".to_owned(), "calm".to_owned())].into(),
        secret_env: [("TOKEN".to_owned(), "HEARTH_MCP_demo_TOKEN".to_owned())].into(),
    }];
    bench.publish();
    bench.say(2, "[[tool mcp__demo__echo {\"text\":\"yo\"}]] [[say done]]");
    let _runner = bench.start_with(|command| {
        command.env("ANTHROPIC_BASE_URL", api.url()).env("ANTHROPIC_API_KEY", "sk-ant-test").env("LANG", "C.UTF-8");
        command.env("CLAUDE_CODE_MAX_RETRIES", "1").env("HEARTH_MCP_demo_TOKEN", "sesame");
    });
    assert_eq!(bench.texts(2), ["done"]);
    assert_eq!(std::fs::read_to_string(seen).unwrap(), "calm sesame yo");
    let last = api.requests().pop().unwrap()["messages"].to_string();
    assert!(last.contains("echo:yo"), "{last}");
}

const SERVER: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        answer = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "demo", "version": "1"}}
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        answer = {"tools": [{"name": "echo", "description": "says it again", "inputSchema": schema}]}
    elif method == "tools/call":
        text = params["arguments"]["text"]
        with open("SEEN", "w") as seen:
            seen.write(" ".join([os.environ["MODE"], os.environ["TOKEN"], text]))
        answer = {"content": [{"type": "text", "text": "echo:" + text}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
"#;
