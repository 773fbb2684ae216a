//! The provider `acp` with an agent that does what real ones do.

use hearth_tool_rules::{ToolRule, ToolVerdict};
use hearth_wire::{AckStatus, OutMessage, Permissions, Reply, Retry, SessionFile, Verbosity};
use serde_json::{Value, json};

use crate::bench::{Bench, wait_for};

const PASSING: Option<Retry> = Some(Retry { rate_limited: false, unreachable: false, after_ms: None });
const LIMITED: Option<Retry> = Some(Retry { rate_limited: true, unreachable: false, after_ms: None });

/// A bench whose agent has these quirks.
fn bench(quirks: &[&str]) -> Bench {
    let mut bench = Bench::new("acp");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/process/acp_agent.py");
    let quirks = quirks.iter().flat_map(|quirk| ["--quirk", *quirk]);
    bench.context.provider.command = ["python3", script].into_iter().chain(quirks).map(str::to_owned).collect();
    bench.publish();
    bench
}

/// The lines of a script for the agent.
fn script(lines: &[&str]) -> String {
    format!("\n{}\n", lines.join("\n"))
}

fn asks(bench: &Bench, seq: u64, lines: &[&str]) {
    bench.say(seq, &script(lines));
}

fn texts(bench: &Bench, seq: u64, lines: &[&str]) -> Vec<String> {
    asks(bench, seq, lines);
    bench.texts(seq)
}

fn error(bench: &Bench, seq: u64, lines: &[&str]) -> (String, Option<Retry>) {
    asks(bench, seq, lines);
    let ack = bench.ended(seq);
    assert_eq!(ack.status, AckStatus::Failed, "{ack:?}");
    (ack.error.unwrap(), ack.retry)
}

fn continuation(bench: &Bench) -> Option<Value> {
    let file = bench.read::<SessionFile>("agent/session.json")?;
    file.continuations.get("acp").map(|text| serde_json::from_str(text).unwrap())
}

#[test]
fn one_process_answers_many_turns_and_the_next_one_goes_on() {
    let mut bench = bench(&[]);
    let mut runner = bench.start();
    assert_eq!(texts(&bench, 2, &["@@say hello there"]), ["hello there"]);
    assert_eq!(texts(&bench, 4, &["@@say again"]), ["again"]);
    let first = continuation(&bench).unwrap();
    assert_eq!(first["agent"], "fake-acp-agent");
    runner.kill();
    bench.next_incarnation();
    let _runner = bench.start();
    assert_eq!(texts(&bench, 6, &["@@say gone on"]), ["gone on"]);
    assert_eq!(continuation(&bench).unwrap(), first);
}

/// Whatever an agent repeats of the conversation, and whenever, is not said again.
#[test]
fn a_repeated_conversation_is_not_said_again() {
    for quirk in ["late-replay", "replay-on-resume"] {
        let mut bench = bench(&[quirk]);
        let mut runner = bench.start();
        assert_eq!(texts(&bench, 2, &["@@say an old answer"]), ["an old answer"]);
        runner.kill();
        bench.next_incarnation();
        let _runner = bench.start();
        assert_eq!(texts(&bench, 4, &["@@say new"]), ["new"], "{quirk}");
    }
}

#[test]
fn an_agent_that_forgot_its_session_begins_a_new_one() {
    for quirk in ["load-forgets", ""] {
        let mut bench = bench(if quirk.is_empty() { &[] } else { &["load-forgets"] });
        let mut runner = bench.start();
        texts(&bench, 2, &["@@say one"]);
        let first = continuation(&bench).unwrap();
        runner.kill();
        std::fs::remove_dir_all(bench.path("group/.fake-acp")).unwrap();
        bench.next_incarnation();
        let _runner = bench.start();
        assert_eq!(texts(&bench, 4, &["@@say anew"]), ["anew"], "{quirk}");
        assert_ne!(continuation(&bench).unwrap(), first, "{quirk}");
    }
}

#[test]
fn an_agent_without_memory_begins_a_session_in_every_process() {
    let mut bench = bench(&["no-load"]);
    let mut runner = bench.start();
    texts(&bench, 2, &["@@say one"]);
    runner.kill();
    bench.next_incarnation();
    let _runner = bench.start();
    assert_eq!(texts(&bench, 4, &["@@say two"]), ["two"]);
}

#[test]
fn only_the_last_message_is_the_answer() {
    let bench = bench(&["unknown-updates"]);
    let runner = bench.start();
    let lines = ["@@say looking", "@@tool build 1", "@@think hm", "@@notice Warning: odd", "@@garbage", "@@say done"];
    assert_eq!(texts(&bench, 2, &lines), ["done"]);
    assert!(runner.stderr().contains("not of the protocol"), "{}", runner.stderr());
    assert_eq!(texts(&bench, 4, &["@@say first", "@@notice Warning: odd"]), ["first"]);
    assert!(runner.stderr().contains("a notice of the agent: Warning: odd"), "{}", runner.stderr());
    assert_eq!(bench.said_at_once(), [""; 0]);
    let compacts = ["@@notice Compacting...", "@@notice Compacting completed.", "@@say on"];
    assert_eq!(texts(&bench, 6, &compacts), ["on"]);
    assert_eq!(bench.said_at_once(), ["Context compacted."], "people are told");
}

#[test]
fn a_text_before_a_tool_is_sent_by_an_agent_that_is_verbose_or_names_a_destination() {
    let mut bench = bench(&[]);
    let name = bench.context.destinations[0].name.clone();
    let _runner = bench.start();
    let addressed = format!("@@say <message to=\"{name}\">Soon.</message> It is 7.");
    assert_eq!(texts(&bench, 2, &[&addressed, "@@tool build 1"]), ["It is 7."], "nothing else answers");
    assert_eq!(bench.said_at_once(), ["Soon."]);
    bench.context.provider.verbosity = Verbosity::Verbose;
    bench.publish();
    assert_eq!(texts(&bench, 4, &["@@say looking", "@@tool build 1", "@@say done"]), ["done"]);
    assert_eq!(bench.said_at_once(), ["Soon.", "looking"]);
}

#[test]
fn tools_of_the_agent_are_shown_while_they_run() {
    let bench = bench(&[]);
    let _runner = bench.start();
    asks(&bench, 2, &["@@tool build 1500", "@@say built"]);
    let tool = wait_for("the tool", || bench.state().and_then(|state| state.tool));
    assert_eq!(tool.name, "build");
    assert_eq!(bench.texts(2), ["built"]);
    assert_eq!(bench.state().unwrap().tool, None);
}

/// Never "always": some agents write that into files that outlive the turn.
#[test]
fn permission_is_given_once_unless_the_tool_is_blocked() {
    let mut bench = bench(&[]);
    bench.context.blocked_tools = vec!["rm*".to_owned()];
    bench.publish();
    let _runner = bench.start();
    assert_eq!(texts(&bench, 2, &["@@ask ls"]), ["permission: once"]);
    assert_eq!(texts(&bench, 4, &["@@ask rm"]), ["permission: no"]);
}

/// Answers the next question about a tool, and returns it.
fn decide(bench: &Bench, result: Value) -> OutMessage {
    let is_open = |out: &OutMessage| {
        out.content["action"] == "use_tool"
            && !bench.session(&format!("host/reply/{}.json", out.request_id.as_ref().unwrap())).exists()
    };
    let asked = wait_for("the question", || bench.outs().into_values().find(is_open));
    let id = asked.request_id.clone().unwrap();
    let reply = Reply { v: 1, request_id: id.clone(), ok: true, result, error: None };
    bench.place(&format!("host/reply/{id}.json"), &reply);
    asked
}

/// Sets the rules.
fn with_rules(bench: &mut Bench, rules: &[(ToolVerdict, &str)]) {
    let rule =
        |(verdict, pattern): &(ToolVerdict, &str)| ToolRule { verdict: *verdict, pattern: (*pattern).to_owned() };
    bench.context.tools.rules = rules.iter().map(rule).collect();
    bench.publish();
}

/// The host decides and remembers; the agent hears of single permissions only.
#[test]
fn a_person_is_asked_about_a_tool_call() {
    let mut bench = bench(&[]);
    bench.context.blocked_tools = vec!["rm*".to_owned()];
    with_rules(&mut bench, &[(ToolVerdict::Ask, "*"), (ToolVerdict::Deny, "*(dd:*)")]);
    let _runner = bench.start();
    asks(&bench, 2, &["@@ask ls"]);
    let asked = decide(&bench, json!({"verdict": "deny", "reason": "A person said no: not now", "approval": "ap1"}));
    assert_eq!((&asked.content["tool"], &asked.content["input"]), (&json!("ls"), &json!({"command": "ls"})));
    assert_eq!(bench.texts(2), ["permission: no"]);
    asks(&bench, 4, &["@@ask ls"]);
    decide(&bench, json!({"verdict": "allow", "approval": "ap2"}));
    assert_eq!(bench.texts(4), ["permission: once"]);
    assert_eq!(texts(&bench, 6, &["@@ask rm"]), ["permission: no"], "no one is asked about a blocked tool");
    assert_eq!(texts(&bench, 8, &["@@ask dd"]), ["permission: no"], "nor about a denied one");
    bench.context.tools.granted = vec!["ls(command:ls)".to_owned()];
    bench.publish();
    assert_eq!(texts(&bench, 10, &["@@ask ls"]), ["permission: once"], "nor about one that was allowed in advance");
    let calls = bench.calls();
    let decided = |key: &str| calls.iter().filter(|call| call.get(key).is_some()).count();
    assert_eq!(
        (decided("approval"), decided("blocked"), decided("rule"), decided("granted")),
        (2, 1, 1, 1),
        "{calls:?}"
    );
}

#[test]
fn a_person_who_does_not_answer_gives_no_permission_and_a_stop_ends_the_waiting() {
    let mut bench = bench(&[]);
    with_rules(&mut bench, &[(ToolVerdict::Ask, "*")]);
    let mut runner = bench.start();
    asks(&bench, 2, &["@@ask ls"]);
    decide(&bench, json!({"verdict": "deny", "reason": "No one answered."}));
    assert_eq!(bench.texts(2), ["permission: no"]);
    let asked = |bench: &Bench| bench.outs().into_values().filter(|out| out.content["action"] == "use_tool").count();
    asks(&bench, 4, &["@@ask ls"]);
    wait_for("the question", || (asked(&bench) == 2).then_some(()));
    runner.ask_to_stop();
    assert_eq!(runner.wait().code(), Some(0));
}

/// Answers the next question to people, and returns it.
fn choose(bench: &Bench, value: &str) -> OutMessage {
    let is_open = |out: &OutMessage| {
        out.content["action"] == "ask_user_question"
            && !bench.session(&format!("host/reply/{}.json", out.request_id.as_ref().unwrap())).exists()
    };
    let asked = wait_for("the question", || bench.outs().into_values().find(is_open));
    let id = asked.request_id.clone().unwrap();
    let reply = Reply { v: 1, request_id: id.clone(), ok: true, result: json!({"value": value}), error: None };
    bench.place(&format!("host/reply/{id}.json"), &reply);
    asked
}

/// A permission for the session is remembered by the runner, and the agent hears nothing of it.
#[test]
fn a_person_of_the_conversation_is_asked_for_permission() {
    let mut bench = bench(&[]);
    bench.context.provider.permissions = Permissions::Ask;
    bench.context.blocked_tools = vec!["rm*".to_owned()];
    bench.publish();
    let _runner = bench.start();
    asks(&bench, 2, &["@@ask ls"]);
    let question = choose(&bench, "deny").content["question"].as_str().unwrap().to_owned();
    assert_eq!(question, "May the agent use the tool ls (execute)?\n\nls");
    assert_eq!(bench.texts(2), ["permission: no"]);
    asks(&bench, 4, &["@@ask ls"]);
    choose(&bench, "once");
    assert_eq!(bench.texts(4), ["permission: once"]);
    asks(&bench, 6, &["@@ask ls"]);
    choose(&bench, "session");
    assert_eq!(bench.texts(6), ["permission: once"]);
    assert_eq!(texts(&bench, 8, &["@@ask ls"]), ["permission: once"]);
    assert_eq!(texts(&bench, 10, &["@@ask rm"]), ["permission: no"], "no one is asked about a blocked tool");
}

#[test]
fn no_answer_from_the_conversation_is_no_permission() {
    let mut bench = bench(&[]);
    bench.context.provider.permissions = Permissions::Ask;
    bench.publish();
    let mut runner = bench.start();
    asks(&bench, 2, &["@@ask ls"]);
    let asked = wait_for("the question", || bench.outs().into_values().find(|out| out.request_id.is_some()));
    let id = asked.request_id.unwrap();
    let error = Some("no answer".to_owned());
    let reply = Reply { v: 1, request_id: id.clone(), ok: false, result: Value::Null, error };
    bench.place(&format!("host/reply/{id}.json"), &reply);
    assert_eq!(bench.texts(2), ["permission: no"]);
    asks(&bench, 4, &["@@ask ls"]);
    wait_for("the question", || bench.outs().into_values().find(|out| out.request_id.as_ref() != Some(&id)));
    runner.ask_to_stop();
    assert_eq!(runner.wait().code(), Some(0));
}

#[test]
fn every_request_is_refused_if_the_policy_is_to_deny() {
    let mut bench = bench(&[]);
    bench.context.provider.permissions = Permissions::Deny;
    bench.publish();
    let _runner = bench.start();
    assert_eq!(texts(&bench, 2, &["@@ask ls"]), ["permission: no"]);
    let calls = wait_for("the call", || Some(bench.calls()).filter(|calls| !calls.is_empty()));
    assert_eq!((&calls[0]["permissions"], &calls[0]["outcome"]), (&json!(true), &json!("denied")));
}

/// What the rules deny or ask the host about is not left to the conversation.
#[test]
fn rules_come_before_the_policy() {
    let mut bench = bench(&[]);
    bench.context.provider.permissions = Permissions::Ask;
    with_rules(&mut bench, &[(ToolVerdict::Ask, "ls"), (ToolVerdict::Deny, "dd")]);
    let _runner = bench.start();
    assert_eq!(texts(&bench, 2, &["@@ask dd"]), ["permission: no"]);
    asks(&bench, 4, &["@@ask ls"]);
    decide(&bench, json!({"verdict": "allow", "approval": "ap1"}));
    assert_eq!(bench.texts(4), ["permission: once"]);
    asks(&bench, 6, &["@@ask df"]);
    choose(&bench, "once");
    assert_eq!(bench.texts(6), ["permission: once"]);
}

/// A known agent has variables, and a mode for each policy. A program of the operator's replaces its own.
#[test]
fn a_known_agent_is_started_as_the_table_says() {
    let mut bench = bench(&[]);
    bench.context.provider.preset = Some("gemini".to_owned());
    bench.publish();
    let _runner = bench.start();
    assert_eq!(texts(&bench, 2, &["@@mode", "@@env GEMINI_CLI_TRUST_WORKSPACE"]), ["mode: yoloenv: true"]);
    bench.context.provider.permissions = Permissions::Ask;
    bench.context.provider.model = Some("m".to_owned());
    bench.publish();
    assert_eq!(texts(&bench, 4, &["@@mode", "@@env GEMINI_MODEL"]), ["mode: defaultenv: m"]);
    bench.context.provider.mode = Some("yolo".to_owned());
    bench.publish();
    assert_eq!(texts(&bench, 6, &["@@mode"]), ["mode: yolo"]);
    bench.context.provider.mode = Some("calm".to_owned());
    bench.publish();
    let (why, _) = error(&bench, 8, &["@@mode"]);
    assert_eq!(why, "the agent does not offer the mode \"calm\"; it offers: default, yolo");
}

/// The message's file stays named in the prompt as well.
#[test]
fn images_are_given_to_an_agent_that_sees_them() {
    for (quirks, expected) in [(&[] as &[&str], "images: image/gif"), (&["blind"], "images: none")] {
        let bench = bench(quirks);
        std::fs::create_dir_all(bench.session("host/in/files/2")).unwrap();
        std::fs::write(bench.session("host/in/files/2/cat.png"), b"GIF89a\x02\0\x03\0....;").unwrap();
        let _runner = bench.start();
        let file = json!([{"type": "image", "name": "cat.png", "localPath": "host/in/files/2/cat.png"}]);
        bench.message_with(2, &json!({"text": "\n@@images\n", "sender": "Ann", "attachments": file}));
        assert_eq!(bench.texts(2), [expected]);
    }
}

/// What the agents keep themselves has a format of their own.
#[test]
fn a_transcript_has_what_was_asked_called_and_said() {
    let bench = bench(&[]);
    let _runner = bench.start();
    texts(&bench, 2, &["@@tool build 1", "@@say built"]);
    error(&bench, 4, &["@@fail 404 no such model"]);
    let id = continuation(&bench).unwrap()["session"].as_str().unwrap().to_owned();
    let text = std::fs::read_to_string(bench.path(&format!("home/.hearth/transcripts/{id}.jsonl"))).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let roles: Vec<&str> = lines.iter().map(|line| line["message"]["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    assert!(lines[0]["message"]["content"].as_str().unwrap().contains("@@say built"));
    let parts = &lines[1]["message"]["content"];
    assert_eq!((&parts[0]["name"], &parts[1]["text"]), (&json!("build"), &json!("built")));
    assert!(lines[3]["message"]["content"][0]["text"].as_str().unwrap().contains("no such model"));
}

#[test]
fn a_known_agent_that_is_not_installed_names_its_package() {
    let mut bench = bench(&[]);
    bench.context.provider.command.clear();
    for (seq, preset, expected) in [
        (2, "opencode", "`npm install -g opencode-ai@"),
        (4, "hermes", "`pip install 'hermes-agent[acp,mcp]=="),
        (6, "newer", "does not know the provider newer"),
    ] {
        bench.context.provider.preset = Some(preset.to_owned());
        bench.context.provider.model = Some("m".to_owned());
        bench.publish();
        let _runner = bench.start();
        let (why, _) = error(&bench, seq, &["@@say x"]);
        assert!(why.contains(expected), "{preset}: {why}");
        bench.next_incarnation();
    }
}

/// The program that the agent starts as its server leads to the tools of the runner.
#[test]
fn hearths_tools_are_reached_through_a_program() {
    let bench = bench(&[]);
    let runner = bench.start();
    asks(&bench, 2, &[r#"@@mcp nanoclaw send_message {"text": "at once"}"#]);
    let sent = wait_for("the message", || bench.outs().into_values().find(|out| out.content["text"] == "at once"));
    let id = sent.request_id.clone().unwrap();
    let reply = Reply { v: 1, request_id: id.clone(), ok: true, result: json!({}), error: None };
    bench.place(&format!("host/reply/{id}.json"), &reply);
    assert!(bench.texts(2)[0].contains("sent"), "{:?}", bench.texts(2));
    assert!(!runner.stderr().contains("answers without them"), "{}", runner.stderr());
}

#[test]
fn errors_have_their_class() {
    let bench = bench(&[]);
    let _runner = bench.start();
    assert_eq!(error(&bench, 2, &["@@fail 429 slow down"]), ("slow down".to_owned(), LIMITED));
    assert_eq!(error(&bench, 4, &["@@fail -32603 503 overcrowded"]), ("503 overcrowded".to_owned(), PASSING));
    let (login, retry) = error(&bench, 6, &["@@fail -32000 Authentication required"]);
    assert!(login.contains("not logged in") && retry.is_none(), "{login}");
    assert_eq!(error(&bench, 8, &["@@stop refusal"]), ("the model refused to answer this".to_owned(), None));
    let cut = texts(&bench, 10, &["@@say half", "@@stop max_tokens"]);
    assert!(cut[0].starts_with("half\n\n[The answer is cut off"), "{cut:?}");
    assert_eq!(texts(&bench, 12, &["@@say well again"]), ["well again"]);
}

#[test]
fn an_agent_that_dies_in_a_turn_is_started_again_for_the_next() {
    let bench = bench(&[]);
    let _runner = bench.start();
    let (why, retry) = error(&bench, 2, &["@@cry out of luck", "@@say half", "@@die 7"]);
    assert!(why.contains("exit status: 7") && why.contains("out of luck"), "{why}");
    assert_eq!(retry, PASSING);
    assert_eq!(texts(&bench, 4, &["@@say back"]), ["back"]);
}

#[test]
fn a_second_message_waits_for_the_next_prompt() {
    let bench = bench(&["one-prompt"]);
    let _runner = bench.start();
    asks(&bench, 2, &["@@tool slow 800", "@@say one"]);
    wait_for("the tool", || bench.state().and_then(|state| state.tool));
    asks(&bench, 4, &["@@say two"]);
    assert_eq!(bench.texts(2), ["one"]);
    assert_eq!(bench.texts(4), ["two"]);
}

/// Its turn is cancelled, and it does not outlive the runner, though it ignores the end of its input.
#[test]
fn a_runner_that_is_asked_to_stop_cancels_the_turn() {
    let bench = bench(&["deaf"]);
    let mut runner = bench.start();
    asks(&bench, 2, &["@@tool slow 60000", "@@say never"]);
    wait_for("the tool", || bench.state().and_then(|state| state.tool));
    runner.ask_to_stop();
    assert_eq!(runner.wait().code(), Some(0));
    assert!(bench.ends().is_empty());
}

#[test]
fn what_is_no_agent_fails_with_a_reason() {
    for (command, expected) in [
        (&["true"] as &[&str], "ended with exit status: 0"),
        (&["sh", "-c", "echo Invalid API key >&2; exit 1"], "not logged in"),
        (&["sh", "-c", "read x; echo '{\"id\":1,\"result\":{}}'; cat"], "does not speak version 1"),
        (&["no-such-program"], "is it installed where the agent runs?"),
        (&[], "set the agent's `command`"),
    ] {
        let mut bench = bench(&[]);
        bench.context.provider.command = command.iter().map(|&word| word.to_owned()).collect();
        bench.publish();
        let _runner = bench.start();
        let (why, _) = error(&bench, 2, &["@@say x"]);
        assert!(why.contains(expected), "{command:?}: {why}");
    }
}

#[test]
fn a_model_that_is_not_on_offer_is_refused() {
    let mut bench = bench(&[]);
    bench.context.provider.model = Some("large".to_owned());
    bench.publish();
    let _runner = bench.start();
    let (why, retry) = error(&bench, 2, &["@@say x"]);
    assert!(why.contains("offers no choice of model") && retry.is_none(), "{why}");
}

/// Some agents give their servers sockets instead of pipes.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts the program and waits for it")]
fn the_program_of_the_tools_passes_on_at_once_what_comes_through_a_socket() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    let dir = tempfile::tempdir().unwrap();
    let (mut agent, theirs) = UnixStream::pair().unwrap();
    let output = theirs.try_clone().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_hearth-runner"))
        .args([std::ffi::OsStr::new("tools"), dir.path().as_os_str()])
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .stdout(Stdio::from(std::os::fd::OwnedFd::from(output)))
        .spawn()
        .unwrap();
    let pipe = |ending: &str| dir.path().join(format!("{}.{ending}", program.id()));
    wait_for("the pipes", || pipe("up").exists().then_some(()));
    agent.write_all(b"{\"id\":1}\n").unwrap();
    let mut line = String::new();
    BufReader::new(std::fs::File::open(pipe("up")).unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "{\"id\":1}\n");
    std::fs::OpenOptions::new().write(true).open(pipe("down")).unwrap().write_all(b"answer\n").unwrap();
    let mut line = String::new();
    BufReader::new(agent.try_clone().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "answer\n");
    agent.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(program.wait().unwrap().success());
}
