//! Failures of the claude provider: API errors, a missing or fake CLI, and exits during a turn. A script replaces the
//! CLI for failures that the real one cannot be made to produce.

use std::path::Path;

use hearth_wire::{Ack, AckStatus, Retry};

use crate::bench::{Bench, Runner, wait_for};
use crate::claude::{bench, conversation, start};
use crate::claude_midturn::cli_of;
use crate::fake_api::Trouble;

fn failed(bench: &Bench, seq: u64) -> (String, Option<Retry>) {
    let Ack { status, error, retry, .. } = bench.ended(seq);
    assert_eq!(status, AckStatus::Failed);
    (error.unwrap(), retry)
}

const LIMITED: Option<Retry> = Some(Retry { rate_limited: true, unreachable: false, after_ms: None });
const PASSING: Option<Retry> = Some(Retry { rate_limited: false, unreachable: false, after_ms: None });
const UNREACHABLE: Option<Retry> = Some(Retry { rate_limited: true, unreachable: true, after_ms: None });

#[test]
fn errors_of_the_api_say_whether_trying_again_can_help() {
    let Some((bench, api)) = bench() else { return };
    let _runner = start(&bench, &api);
    let errors = [
        (2, "429 rate_limit_error", LIMITED, "429"),
        (4, "529 overloaded_error", LIMITED, "529"),
        (6, "500 api_error", PASSING, "500"),
        (8, "401 authentication_error", None, "ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN"),
        (10, "403 permission_error", None, "ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN"),
        (12, "400 invalid_request_error", None, "400"),
        (14, "404 not_found_error", None, ""),
    ];
    for (seq, error, expected, word) in errors {
        bench.say(seq, &format!("[[error {error}]]"));
        let (said, retry) = failed(&bench, seq);
        assert_eq!(retry, expected, "{error}: {said}");
        assert!(said.contains(word) && !said.contains("sk-ant-test"), "{error}: {said}");
    }
    bench.say(20, "[[say back]]");
    assert_eq!(bench.texts(20), ["back"]);
}

#[test]
fn an_api_that_is_not_there_may_come_back() {
    let Some((bench, api)) = bench() else { return };
    bench.say(2, "hello");
    let _runner = bench.start_with(|command| {
        // Port 9 of the loopback interface refuses connections.
        command.env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9").env("ANTHROPIC_API_KEY", "sk-ant-test");
        command.env("CLAUDE_CODE_MAX_RETRIES", "1").env("LANG", "C.UTF-8");
    });
    let (said, retry) = failed(&bench, 2);
    assert_eq!(retry, UNREACHABLE, "{said}");
    drop(api);
}

/// The CLI gives up after some minutes, or when the agent's environment says so. By default it would wait for half an
/// hour.
#[test]
fn an_api_that_takes_requests_and_never_answers_is_given_up() {
    let Some((bench, api)) = bench() else { return };
    api.trouble(Some(Trouble::Mute));
    bench.say(2, "hello");
    let _runner = bench.start_with(|command| {
        command.env("ANTHROPIC_BASE_URL", api.url()).env("ANTHROPIC_API_KEY", "sk-ant-test");
        command.env("CLAUDE_CODE_MAX_RETRIES", "1").env("API_TIMEOUT_MS", "1500").env("LANG", "C.UTF-8");
    });
    let (said, retry) = failed(&bench, 2);
    assert_eq!(retry, UNREACHABLE, "{said}");
    assert_eq!(api.requests().len(), 2, "asked again once");
    api.trouble(None);
    bench.say(4, "[[say back]]");
    assert_eq!(bench.texts(4), ["back"]);
}

#[test]
fn a_result_that_is_no_text_fails_its_turn() {
    let cli = r#"
for uuid, text in users():
    took(uuid)
    result(7) if "number" in text else result("fine")
"#;
    let Some((bench, _runner)) = script(cli) else { return };
    bench.say(2, "number");
    assert!(failed(&bench, 2).0.contains("a result that is not text"));
    bench.say(4, "text");
    assert_eq!(bench.texts(4), ["fine"]);
}

#[test]
fn who_is_not_logged_in_hears_what_to_set() {
    let Some((bench, api)) = bench() else { return };
    bench.say(2, "hello");
    let _runner = bench.start_with(|command| {
        command.env("ANTHROPIC_BASE_URL", api.url()).env("LANG", "C.UTF-8");
    });
    let (said, retry) = failed(&bench, 2);
    assert!(said.contains("set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN"), "{said}");
    assert_eq!(retry, None);
}

/// Asked to stop, or superseded by another incarnation: the CLI and its tool end in order, and claimed messages are
/// repeated.
#[test]
fn the_cli_ends_with_its_runner() {
    for superseded in [false, true] {
        let Some((mut bench, api)) = bench() else { return };
        bench.say(2, "[[tool Bash {\"command\":\"echo $$ > begun; exec python3 -c 'import time; time.sleep(600)'\"}]]");
        let mut runner = start(&bench, &api);
        let tool = wait_for("the tool", || {
            std::fs::read_to_string(bench.path("group/begun")).ok().filter(|pid| pid.ends_with('\n'))
        });
        if superseded {
            bench.next_incarnation();
        } else {
            runner.ask_to_stop();
        }
        assert!(runner.wait().success(), "{}", runner.stderr());
        assert!(cli_of(&bench).is_none(), "the CLI is gone");
        assert!(!Path::new("/proc").join(tool.trim()).exists(), "and so is its tool");
        assert!(bench.ends().is_empty(), "nothing ended");
        assert!(conversation(&bench).is_some());
    }
}

#[test]
fn a_cli_that_is_not_installed_or_does_not_start() {
    let mut bench = Bench::new("claude");
    bench.context.provider.command = vec!["/nonexistent/claude".to_owned()];
    bench.publish();
    bench.say(2, "hello");
    let _runner = bench.start();
    let (said, retry) = failed(&bench, 2);
    assert!(said.contains("/nonexistent/claude") && said.contains("is it installed"), "{said}");
    assert_eq!(retry, None);
    bench.context.provider.command =
        ["sh", "-c", "echo 'Invalid MCP configuration, key sesame-sesame' >&2; exit 1"].map(str::to_owned).to_vec();
    bench.publish();
    bench.say(4, "hello");
    let (said, retry) = failed(&bench, 4);
    assert!(said.contains("exit status: 1") && said.contains("Invalid MCP configuration"), "{said}");
    assert_eq!(retry, Some(Retry { rate_limited: false, unreachable: false, after_ms: None }), "it gave no verdict");
}

/// A script that replaces the CLI.
fn script(text: &str) -> Option<(Bench, Runner)> {
    let bench = scripted(text)?;
    let runner = bench.start_with(|command| {
        command.env("MY_API_KEY", "sesame-sesame");
    });
    Some((bench, runner))
}

pub(crate) fn scripted(text: &str) -> Option<Bench> {
    if !Path::new("/usr/bin/python3").exists() {
        eprintln!("SKIPPED: no python3");
        return None;
    }
    let mut bench = Bench::new("claude");
    let path = bench.path("cli.py");
    std::fs::write(&path, format!("{PRELUDE}\n{text}")).unwrap();
    bench.context.provider.command = vec!["python3".to_owned(), path.to_str().unwrap().to_owned()];
    bench.publish();
    Some(bench)
}

const PRELUDE: &str = r#"
import json, os, sys, time
def tell(**fields):
    print(json.dumps(fields), flush=True)
def result(text, **fields):
    tell(type="result", subtype="success", is_error=False, result=text, session_id="s1", **fields)
def users():
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "user":
            yield message["uuid"], message["message"]["content"]
def took(uuid):
    tell(type="command_lifecycle", command_uuid=uuid, state="started")
"#;

/// A CLI that hangs after its first sign of life fails its turn in two minutes, here a hundred times sooner. One that
/// answers, or has a tool, may be silent for longer. Its answers are no progress.
#[test]
fn a_cli_that_answers_no_request_is_wedged() {
    let cli = r#"
asked = {}
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "user":
        text, uuid = message["message"]["content"], message["uuid"]
        took(uuid)
        if "tool" in text:
            call = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
            tell(type="assistant", session_id="s1", message={"content": [call]})
            time.sleep(2)
            result("after the tool")
    elif message["type"] == "control_request" and message["request_id"] == "hearth-alive":
        asked[text] = asked.get(text, 0) + 1
        if "patient" in text:
            tell(type="control_response", response={"subtype": "success", "request_id": "hearth-alive"})
            if asked[text] == 4:
                result("thought for long")
"#;
    let Some(bench) = scripted(cli) else { return };
    let _runner = bench.start_with(|command| {
        command.env("HEARTH_TEST_HASTE", "100");
    });
    bench.say(2, "patient");
    assert_eq!(bench.texts(2), ["thought for long"]);
    let progress = bench.state().unwrap().progress;
    assert!(progress < 8, "{progress}: only its own lines count");
    bench.say(4, "tool");
    assert_eq!(bench.texts(4), ["after the tool"]);
    bench.say(6, "hang");
    let (said, retry) = failed(&bench, 6);
    assert_eq!(
        (said.as_str(), retry),
        ("the agent CLI was silent and did not answer for a minute, so it was ended", PASSING)
    );
    bench.say(8, "patient again");
    assert_eq!(bench.texts(8), ["thought for long"]);
}

#[test]
fn garbage_and_other_versions_are_survived() {
    let cli = r#"
for uuid, text in users():
    print("Warning: this is no JSON"); print(""); print("[1]"); print('{"type":"later"}')
    sys.stderr.write("the key is sesame-sesame\n"); sys.stderr.flush()
    tell(type="system", subtype="init", claude_code_version="9.9.9")
    took(uuid)
    result("fine")
"#;
    let Some((bench, runner)) = script(cli) else { return };
    bench.say(2, "hello");
    assert_eq!(bench.texts(2), ["fine"]);
    bench.say(4, "hello");
    assert_eq!(bench.texts(4), ["fine"]);
    let log = runner.stderr();
    assert_eq!(log.matches("the agent CLI is \"9.9.9\", Hearth was tried with 2.1.329").count(), 1, "{log}");
    assert!(log.contains("24 bytes that are not JSON") && log.contains("the key is [redacted]"), "{log}");
    assert!(!log.contains("sesame"), "{log}");
}

#[test]
fn a_line_without_end_fails_the_turn_and_only_it() {
    let cli = r#"
for uuid, text in users():
    took(uuid)
    if "huge" in text:
        for _ in range(40):
            sys.stdout.write("x" * 1024 * 1024)
        sys.stdout.flush()
    result("fine")
"#;
    let Some((bench, _runner)) = script(cli) else { return };
    bench.say(2, "huge");
    let (said, retry) = failed(&bench, 2);
    assert!(said.contains("a line has more than"), "{said}");
    assert_eq!(retry, None);
    bench.say(4, "small");
    assert_eq!(bench.texts(4), ["fine"]);
}

/// A CLI that does not report what it reads gets one message at a time, and no message is ended by the answer to
/// another.
#[test]
fn a_cli_that_does_not_say_what_it_takes_gets_one_message_at_a_time() {
    let cli = r#"
for uuid, text in users():
    open("asked", "w").close()
    time.sleep(1)
    result("one" if "first" in text else "two")
"#;
    let Some((bench, _runner)) = script(cli) else { return };
    bench.say(2, "first");
    wait_for("the CLI to be asked", || bench.path("group/asked").exists().then_some(()));
    bench.say(4, "second");
    assert_eq!(bench.texts(2), ["one"]);
    assert_eq!(bench.texts(4), ["two"]);
    assert_eq!(bench.ended(2).ends, [0_u64; 0]);
}

/// A result without a request is sent at once and ends nothing, during a turn and between turns.
#[test]
fn an_unasked_result_ends_no_message() {
    let cli = r#"
for uuid, text in users():
    tell(type="command_lifecycle", command_uuid=uuid, state="queued")
    result("before: nobody asked")
    took(uuid)
    result("the answer")
    time.sleep(0.5)
    result("after: nobody asked")
"#;
    let Some((bench, _runner)) = script(cli) else { return };
    bench.say(2, "hello");
    assert_eq!(bench.texts(2), ["the answer"]);
    let unasked = |bench: &Bench| {
        let mut texts: Vec<_> = bench.outs().into_values().filter(|out| !out.is_final).collect();
        texts.sort_by_key(|out| out.number);
        texts.into_iter().map(|out| out.content["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let said = wait_for("both", || Some(unasked(&bench)).filter(|said| said.len() == 2));
    assert_eq!(said, ["before: nobody asked", "after: nobody asked"]);
}

/// An error after the agent was asked for a better answer does not lose the original answer.
#[test]
fn what_was_said_badly_is_said_if_it_cannot_be_said_better() {
    let cli = r#"
for uuid, text in users():
    took(uuid)
    if "was not delivered" in text:
        tell(type="result", subtype="success", is_error=True, result="API Error: 529 overloaded", api_error_status=529)
    else:
        result("the answer")
"#;
    let Some((mut bench, _runner)) = script(cli) else { return };
    let mut office = bench.context.destinations[0].clone();
    office.name = "office".to_owned();
    bench.context.destinations.push(office);
    bench.publish();
    bench.say(2, "hello");
    assert_eq!(bench.texts(2), ["the answer"]);
}

/// The error for a subscription limit says when the limit ends. If a tool was running, the error names it.
#[test]
fn limits_say_when_they_end() {
    let cli = r#"
for uuid, text in users():
    took(uuid)
    tell(type="assistant", session_id="s1", message={"content": [{"type": "tool_use", "id": "t", "name": "Deploy", "input": {}}]})
    tell(type="rate_limit_event", rate_limit_info={"status": "rejected", "resetsAt": int(time.time()) + 600})
    tell(type="result", subtype="success", is_error=True, result="You've hit your limit, key sesame-sesame")
"#;
    let Some((bench, _runner)) = script(cli) else { return };
    bench.say(2, "hello");
    let (said, retry) = failed(&bench, 2);
    assert_eq!(said, "You've hit your limit, key [redacted] (while the tool Deploy ran)");
    let retry = retry.unwrap();
    assert!(retry.rate_limited && (590_000..=600_000).contains(&retry.after_ms.unwrap()), "{retry:?}");
}

/// Late answers reach their requests, and a hook denies tools with a reason that the agent understands.
#[test]
fn requests_of_the_cli_are_answered_by_their_names() {
    let cli = r#"
def ask(name, request):
    tell(type="control_request", request_id=name, request=request)
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "control_response" and message["response"]["request_id"] == name:
            return message["response"]
def hook(event, tool, **fields):
    return ask(event + tool, {"subtype": "hook_callback", "callback_id": event, "input": {"hook_event_name": event, "tool_name": tool, "tool_use_id": "t1", **fields}})
def mcp(message):
    return ask("mcp", {"subtype": "mcp_message", "server_name": "nanoclaw", "message": message})
for uuid, text in users():
    took(uuid)
    answers = [
        hook("PreToolUse", "Bash", tool_input={"timeout": 5})["response"],
        hook("PostToolUse", "Bash")["response"],
        hook("PreToolUse", "ScheduleWakeup")["response"],
        hook("PreToolUse", "WebFetch")["response"]["hookSpecificOutput"]["permissionDecision"],
        mcp({"jsonrpc": "2.0", "id": 7, "method": "ping"})["response"]["mcp_response"],
        mcp({"jsonrpc": "2.0", "method": "notifications/initialized"})["response"]["mcp_response"],
        mcp({"jsonrpc": "2.0", "id": "x", "method": "server/discover"})["response"]["mcp_response"]["error"]["code"],
        ask("odd", {"subtype": "odd"})["error"],
    ]
    result(json.dumps(answers))
"#;
    let Some((mut bench, _runner)) = script(cli) else { return };
    bench.context.blocked_tools = vec!["WebFetch".to_owned()];
    bench.publish();
    bench.say(2, "hello");
    let answers: serde_json::Value = serde_json::from_str(&bench.texts(2)[0]).unwrap();
    let refusal = "Tool 'ScheduleWakeup' is not available in this environment — use the nanoclaw equivalent.";
    assert_eq!(
        answers,
        serde_json::json!([
            {"continue": true},
            {"continue": true},
            {"hookSpecificOutput": {
                "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": refusal,
            }},
            "deny",
            {"jsonrpc": "2.0", "id": 7, "result": {}},
            {"jsonrpc": "2.0", "result": {}, "id": 0},
            -32601,
            "not supported",
        ])
    );
    assert_eq!(bench.state().unwrap().tool, None);
}

/// A turn that a second message joins, and a third message that is read only after it: killed after any durable step,
/// each message ends up in exactly one valid answer.
#[test]
fn killed_after_any_step_each_message_is_answered_once() {
    let mut steps = 0;
    loop {
        steps += 1;
        let Some(mut bench) = scripted(JOINING) else { return };
        bench.say(2, "first");
        let mut runner = bench.start_with(|command| {
            command.env("HEARTH_TEST_CRASH_AFTER_STEPS", steps.to_string());
        });
        let mut given = 0;
        let survived = wait_for("the crash or the end", || {
            for (file, seq, text) in [("go2", 4, "second"), ("go3", 6, "third")] {
                if bench.path("group").join(file).exists() && given < seq {
                    bench.say(seq, text);
                    given = seq;
                }
            }
            let crashed = runner.ended().is_some();
            let done = bench.ends().iter().any(|ack| ack.seq == 6 || ack.ends.contains(&6));
            if crashed { Some(false) } else { done.then_some(true) }
        });
        runner.kill();
        bench.next_incarnation();
        for (seq, text) in [(4, "second"), (6, "third")].into_iter().filter(|(seq, _)| given < *seq) {
            bench.say(seq, text);
        }
        let _runner = bench.start();
        for seq in [2, 4, 6] {
            bench.ended(seq);
        }
        let mut words: Vec<String> = Vec::new();
        let mut seqs = Vec::new();
        for ack in bench.ends() {
            for content in bench.answers(&ack) {
                words.extend(content["text"].as_str().unwrap().split_whitespace().map(str::to_owned));
            }
            seqs.extend(ack.ends.iter().copied().chain([ack.seq]));
        }
        words.sort();
        seqs.sort_unstable();
        assert_eq!(words, ["first", "second", "third"], "after step {steps}");
        assert_eq!(seqs, [2, 4, 6], "after step {steps}");
        if survived {
            break;
        }
    }
    assert!(steps > 12, "only {steps} steps were seen");
}

/// Reports what it has read. Waits for a second message during the turn of the first, and for a third at its end.
const JOINING: &str = r#"
import threading, queue
lines = queue.Queue()
def read():
    for user in users():
        lines.put(user)
    lines.put(None)
threading.Thread(target=read, daemon=True).start()
while True:
    user = lines.get()
    if user is None:
        break
    seen = []
    def see(user):
        took(user[0]); seen.extend(word for word in ("first", "second", "third") if word in user[1])
    tell(type="command_lifecycle", command_uuid=user[0], state="queued")
    see(user)
    if seen == ["first"]:
        open("go2", "w").close()
        later = lines.get()
        see(later)
    if "third" not in seen:
        open("go3", "w").close()
        time.sleep(0.3)
    result(" ".join(seen))
"#;
