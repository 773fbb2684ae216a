//! Real programs as agents, through the whole daemon: a program of the `command` provider, and the real agent CLI against
//! a stand-in for its API.

use std::path::Path;

use serde_json::Value;

use crate::host::agents::cli;
use crate::host::fake_api::FakeApi;
use crate::host::{Host, wait_for};

/// A program as `container/agent-runner/COMMAND.md` describes it.
const PROGRAM: &str = r#"
import json, os, sys
for line in sys.stdin:
    turn = json.loads(line)
    if turn["type"] != "turn":
        continue
    text = turn["messages"][-1]["content"]["text"]
    if text == "file":
        with open("made.txt", "w") as made:
            made.write("made by " + turn["agent"])
        print(json.dumps({"type": "say", "text": "here it is", "files": ["made.txt"]}))
    elif text == "fail":
        print(json.dumps({"type": "error", "message": "as you wished"}), flush=True)
        continue
    elif text == "die" and not os.path.exists("died"):
        open("died", "w").close()
        sys.exit(3)
    else:
        before = turn.get("continuation") or "nothing"
        secret = "secret" if os.environ.get("TEST_SECRET") == "correct horse" else "none"
        print(json.dumps({"type": "say", "text": "%s after %s, %s" % (text.upper(), before, secret)}))
        print(json.dumps({"type": "continuation", "value": text}))
    print(json.dumps({"type": "done"}), flush=True)
"#;

fn program() -> Host {
    let mut host = Host::new();
    let path = host.path("agent.py");
    std::fs::write(&path, PROGRAM).unwrap();
    host.env.push(("TEST_SECRET_OF_THE_HOST".to_owned(), "correct horse".to_owned()));
    let agent = format!(
        "provider = \"command\"\ncommand = [\"python3\", {:?}]\nunconfined = true\n\
         env = {{ TEST_SECRET = \"env:TEST_SECRET_OF_THE_HOST\" }}",
        path.display()
    );
    host.apply(&format!("schema = 1\n[[agents]]\nfolder = \"main\"\n{agent}\n{}", crate::host::CHAT));
    host
}

#[test]
fn any_program_can_be_an_agent() {
    let mut host = program();
    host.start();
    host.inject("m1", "one");
    assert_eq!(host.wait_said(1), ["ONE after nothing, secret"]);
    host.wait_settled();
    host.kill();
    host.start();
    host.inject("m2", "two");
    assert_eq!(host.wait_said(2)[1], "TWO after one, secret", "it goes on where it was, after a kill");
    host.inject("m3", "fail");
    assert!(host.wait_said(3)[2].starts_with("The agent could not process your message."));
    host.wait_settled();
    assert!(host.states()[2]["Failed"]["error"].to_string().contains("as you wished"));
    host.inject("m4", "die");
    assert_eq!(host.wait_said(4)[3], "DIE after two, secret", "a crash is tried again");
    host.inject("m5", "three");
    assert_eq!(host.wait_said(5)[4], "THREE after die, secret");
    let status = host.run(&["status"], b"");
    assert!(status.stdout.contains("main is unconfined"), "{status:#?}");
    host.wait_settled();
    host.check();
    let dump = host.dump(&["--bodies"]).stdout;
    assert!(dump.contains("THREE after die") && !dump.contains("correct horse"), "a secret is stored");
}

/// A file that an agent sends can be opened by the person at the terminal.
#[test]
fn files_are_shown_where_they_are() {
    let mut host = program();
    host.start();
    let shown = host.done(&["chat", "file"], b"");
    let (text, file) = shown.trim_end().split_once("\n[file] ").unwrap();
    assert_eq!(text, "here it is");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "made by main");
    assert!(Path::new(file).starts_with(host.data()));
}

#[test]
fn the_real_agent_remembers_after_a_kill() {
    let Some(cli) = cli() else { return };
    let api = FakeApi::start();
    let mut host = Host::with_agent(&format!(
        "provider = \"claude\"\ncommand = [{:?}]\nunconfined = true\n\
         env = {{ ANTHROPIC_BASE_URL = {:?}, ANTHROPIC_API_KEY = \"sk-ant-test\", CLAUDE_CODE_MAX_RETRIES = \"1\" }}",
        cli.display(),
        api.url()
    ));
    host.start();
    host.inject("m1", "my favourite colour is teal [[say noted]]");
    assert_eq!(host.wait_said(1), ["noted"]);
    host.wait_settled();
    host.kill();
    host.start();
    host.inject("m2", "what was it? [[recall]]");
    let recalled = host.wait_said(2).remove(1);
    assert!(recalled.contains("teal"), "{recalled}");
    let last = api.requests().pop().unwrap();
    let conversation = last["messages"].to_string();
    assert!(conversation.contains("teal") && conversation.contains("noted"), "both halves of the first exchange");
    host.inject("m3", "[[error 400 invalid_request_error]]");
    let failed = host.wait_said(3).remove(2);
    assert!(failed.starts_with("The agent could not process your message."), "{failed}");
    let why = host.done(&["why", "m3"], b"");
    assert!(why.contains("400"), "{why}");
    host.inject("m4", "[[say back again]]");
    assert_eq!(host.wait_said(4)[3], "back again");
    host.wait_settled();
    let ended: Vec<bool> = host.states().iter().map(|state: &Value| state.get("Completed").is_some()).collect();
    assert_eq!(ended, [true, true, false, true]);
    host.check();
    assert!(runs(&cli, &host));
    assert_eq!(host.stop().code, Some(0));
    wait_for("the CLI to be gone", || (!runs(&cli, &host)).then_some(()));
}

/// Whether a process of this program runs in this host's data directory.
fn runs(program: &Path, host: &Host) -> bool {
    let home = host.data().display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes.into_iter().any(|process| {
        let is_program = std::fs::read_link(process.join("exe")).is_ok_and(|exe| exe == program);
        let place = std::fs::read_link(process.join("cwd")).unwrap_or_default();
        is_program && place.starts_with(&home)
    })
}

#[test]
fn instructions_begin_a_memory_and_say_when_there_is_one() {
    let host = Host::new();
    host.create_store();
    let file = host.path("instructions.md");
    std::fs::write(&file, "Be brief.\n").unwrap();
    let from = format!("file:{}", file.display());
    let told = |arguments: &[&str]| host.run(&[&["agents"], arguments].concat(), b"");
    let added = told(&["add", "main", "--instructions", &from]);
    assert!(added.code == Some(0) && !added.stderr.contains("CLAUDE.local.md"), "{added:#?}");
    let shown = || told(&["show", "main", "--json"]).stdout;
    assert!(shown().contains(r#""Be brief.\n""#), "{}", shown());
    let group = host.data().join("groups/main");
    std::fs::create_dir_all(&group).unwrap();
    std::fs::write(group.join("CLAUDE.local.md"), "what it knows").unwrap();
    let set = told(&["set", "main", "--instructions", "Be kind."]);
    assert!(set.code == Some(0) && set.stderr.contains("CLAUDE.local.md exists and stays as it is"), "{set:#?}");
    assert!(shown().contains("Be kind."), "{}", shown());
    let other = told(&["set", "main", "--name", "Main"]);
    assert!(other.code == Some(0) && !other.stderr.contains("CLAUDE.local.md"), "{other:#?}");
    for (given, said) in
        [(" ", "--instructions is empty"), ("file:/nothing/here", "cannot read the instructions in /nothing/here")]
    {
        let refused = told(&["set", "main", "--instructions", given]);
        assert!(refused.code == Some(1) && refused.stderr.contains(said), "{refused:#?}");
    }
}
