//! A whole conversation through the real daemon: the first provider is limited, another one answers, the first returns.

use std::path::PathBuf;

use serde_json::Value;

use crate::host::fake_api::{FakeApi, Trouble};
use crate::host::{CHAT, Host, agents, wait_for};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/fallback/program.py");

fn program(host: &Host, name: &str) -> String {
    format!("[\"python3\", {PROGRAM:?}, {name:?}, {:?}]", asked_file(host).display())
}

fn asked_file(host: &Host) -> PathBuf {
    host.path("asked")
}

fn begin(host: &mut Host, first: &str) {
    let fallback = format!("fallback = [{{ provider = \"command\", command = {} }}]", program(host, "other"));
    host.apply(&format!(
        "schema = 1\n[[agents]]\nfolder = \"main\"\ntrust = \"main\"\nunconfined = true\n{first}\n{fallback}\n{CHAT}"
    ));
    host.start();
}

fn ask(host: &Host, id: &str, text: &str) {
    host.inject(id, text);
    host.wait_settled();
}

/// What the programs were asked, in order.
fn asked(host: &Host) -> Vec<Value> {
    let text = std::fs::read_to_string(asked_file(host)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn why(host: &Host, message: &str) -> String {
    host.done(&["why", message], b"")
}

/// Waits for the end of the pause.
fn wait_well(host: &Host) {
    let until = host.status()["held_off"][0]["again"].as_str().unwrap().to_owned();
    wait_for("the end of the pause", || (hearth::clock::wall().to_string() > until).then_some(()));
}

#[test]
fn a_program_is_limited_and_returns() {
    let mut host = Host::new();
    let first = format!("provider = \"command\"\ncommand = {}", program(&host, "first"));
    begin(&mut host, &first);
    ask(&host, "m1", "hello");
    ask(&host, "m2", "@@limited question");
    assert_eq!(host.said(), ["from first", "from other"]);
    let limited = host.status()["held_off"][0].take();
    assert_eq!(limited["meanwhile"], "command", "{limited}");
    wait_well(&host);
    ask(&host, "m3", "back?");
    assert_eq!(host.said(), ["from first", "from other", "from first"]);
    let asked = asked(&host);
    let names: Vec<&str> = asked.iter().map(|turn| turn["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["first", "first", "other", "first"]);
    let prompt = |at: usize| asked[at]["prompt"].as_str().unwrap();
    assert!(!prompt(0).contains("<recap>") && !prompt(1).contains("<recap>"), "{asked:?}");
    let told = |at: usize, lines: &[&str]| {
        let (_, recap) = prompt(at).split_once("<recap>").unwrap();
        let (recap, rest) = recap.split_once("</recap>").unwrap();
        assert!(lines.iter().all(|line| recap.contains(line)), "{recap}");
        rest.to_owned()
    };
    assert!(told(2, &["by=\"Ann\">hello<", "by=\"you\">from first<"]).contains("@@limited question"));
    assert!(told(3, &["by=\"Ann\">@@limited question<", "by=\"you\">from other<"]).contains("back?"));
    // Each goes on with its own conversation.
    let continued: Vec<Option<&str>> = asked.iter().map(|turn| turn["continuation"].as_str()).collect();
    assert_eq!(continued, [None, Some("kept by first"), None, Some("kept by first")]);
    let (second, third) = (why(&host, "ms2"), why(&host, "ms3"));
    assert!(second.contains("429 slow down") && second.contains("handled by the fallback command"), "{second}");
    assert!(third.contains("handled by the agent's own provider command again"), "{third}");
    assert_eq!(host.status()["held_off"].as_array().map(Vec::len), Some(0));
    host.check();
}

/// The agent CLI, against a stand-in for its API.
#[test]
fn the_agent_cli_is_limited_and_returns() {
    let Some(cli) = agents::cli() else { return };
    let (mut host, api) = (Host::new(), FakeApi::start());
    begin(
        &mut host,
        &format!(
            "provider = \"claude\"\ncommand = [{:?}]\nenv = {{ ANTHROPIC_BASE_URL = {:?}, ANTHROPIC_API_KEY = \
             \"sk-ant-test\", CLAUDE_CODE_MAX_RETRIES = \"1\" }}",
            cli.display(),
            api.url()
        ),
    );
    ask(&host, "m1", "[[say hello]]");
    api.trouble(Some(Trouble::Status(429, "rate_limit_error", Some(2))));
    ask(&host, "m2", "a question");
    api.trouble(None);
    assert_eq!(host.said(), ["hello", "from other"]);
    assert!(asked(&host)[0]["prompt"].as_str().unwrap().contains("by=\"you\">hello<"));
    wait_well(&host);
    ask(&host, "m3", "[[say again]]");
    assert_eq!(host.said(), ["hello", "from other", "again"]);
    let last = api.requests().pop().unwrap().to_string();
    assert!(last.contains("from other") && last.contains("a question"), "{last}");
    assert!(last.contains("[[say hello]]"), "the conversation goes on: {last}");
    assert!(why(&host, "ms3").contains("handled by the agent's own provider claude again"));
    host.check();
}
