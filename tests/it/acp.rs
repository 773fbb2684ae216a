//! Agents that speak the Agent Client Protocol, through the real daemon.

use serde_json::Value;

use crate::host::Host;
use crate::host::agents::ACP as AGENT;
use crate::host::confined::possible;

fn host(more: &str) -> Host {
    let agent = format!("provider = \"acp\"\ncommand = [\"python3\", {AGENT:?}]\ntrust = \"main\"\n{more}");
    let host = Host::new();
    host.apply(&format!("schema = 1\n[[agents]]\nfolder = \"main\"\n{agent}\n{}", crate::host::CHAT));
    host
}

/// The lines of a script for the agent.
fn script(host: &Host, id: &str, line: &str) {
    host.inject(id, &format!("\n{line}\n"));
}

fn conversation(host: &Host) -> Value {
    let file = std::fs::read(host.data().join("sessions/se1/agent/session.json")).unwrap();
    serde_json::from_slice::<Value>(&file).unwrap()["continuations"]["acp"].clone()
}

fn talks_and_uses_tools(mut host: Host) {
    host.start();
    script(&host, "m1", "@@say hello");
    assert_eq!(host.wait_said(1), ["hello"]);
    host.wait_settled();
    let first = conversation(&host);
    assert!(first.as_str().unwrap().contains("fake-acp-agent"), "{first}");
    host.kill();
    host.start();
    script(&host, "m2", "@@say and on");
    assert_eq!(host.wait_said(2)[1], "and on");
    host.wait_settled();
    assert_eq!(conversation(&host), first, "it goes on where it was, after a kill");
    script(&host, "m3", r#"@@mcp nanoclaw send_message {"text": "at once"}"#);
    let said = host.wait_said(4);
    assert!(said[2] == "at once" && said[3].contains("sent"), "{said:?}");
    script(&host, "m4", "@@fail -32000 Authentication required");
    host.wait_settled();
    assert!(host.states().last().unwrap()["Failed"]["error"].to_string().contains("not logged in"));
    assert!(std::fs::read_to_string(host.data().join("groups/main/AGENTS.md")).unwrap().contains("Where you are"));
    host.stop();
    host.check();
}

#[test]
fn an_agent_talks_goes_on_after_a_kill_and_has_hearths_tools() {
    talks_and_uses_tools(host("unconfined = true"));
}

/// Its tools are reached by named pipes, because it may not create sockets.
#[test]
fn a_confined_agent_has_them_too() {
    if possible() {
        talks_and_uses_tools(host(""));
    }
}

#[test]
fn an_agent_without_a_program_is_refused_with_an_example() {
    let host = Host::new();
    let refused = host.run(&["apply", "-"], b"schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"acp\"\n");
    assert!(refused.code != Some(0) && refused.stderr.contains("command = [\"opencode\", \"acp\"]"), "{refused:#?}");
}

/// What `hearth doctor` says of agents: the result, the finding, and the fix.
fn checks(host: &Host, options: &[&str]) -> Vec<[String; 3]> {
    let answer = host.run(&[&["doctor", "--json"], options].concat(), b"").stdout;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let checks = answer["checks"].as_array().unwrap().iter().filter(|check| check["check"] == "agent");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    checks.map(|check| [text(&check["result"]), text(&check["found"]), text(&check["mend"])]).collect()
}

fn is_asked_what_it_is(mut host: Host) {
    let told = "main is fake-acp-agent 1; mode default of 2 modes (default, yolo); it has Hearth's tools".to_owned();
    let expected = [["ok".to_owned(), told, String::new()]];
    assert_eq!(checks(&host, &[]), expected);
    host.start();
    script(&host, "m1", "@@say hello");
    host.wait_settled();
    assert_eq!(checks(&host, &[]), expected, "while it runs");
    let [[result, found, _]] = &checks(&host, &["--offline"])[..] else { panic!() };
    assert_eq!((result.as_str(), found.as_str()), ("ok", "main was not started: it may use a network"));
    script(&host, "m2", "@@say and on");
    assert_eq!(host.wait_said(2)[1], "and on");
    host.stop();
    host.check();
}

#[test]
fn the_doctor_asks_an_agent_what_it_is() {
    is_asked_what_it_is(host("unconfined = true"));
}

#[test]
fn the_doctor_asks_a_confined_agent_too() {
    if possible() {
        is_asked_what_it_is(host(""));
    }
}

#[test]
fn the_doctor_says_why_an_agent_does_not_start() {
    let host = Host::new();
    let agent = |folder: &str, more: &str| format!("[[agents]]\nfolder = {folder:?}\nunconfined = true\n{more}\n");
    let agents = [
        agent("a", "provider = \"codex\""),
        agent("b", "provider = \"acp\"\ncommand = [\"sh\", \"-c\", \"echo nonsense; exit 3\"]"),
        agent("c", "provider = \"acp\"\ncommand = [\"cat\"]\nenv = { A = \"file:/nonexistent\" }"),
        agent("d", &format!("provider = \"acp\"\ncommand = [\"python3\", {AGENT:?}]\nmode = \"none\"")),
    ];
    host.apply(&format!("schema = 1\n{}", agents.concat()));
    let found = checks(&host, &[]);
    assert!(found.iter().all(|[result, ..]| result == "fail"), "{found:?}");
    for (at, what, fix) in [
        (0, "a does not start: ", "run `npm install -g @agentclientprotocol/codex-acp@"),
        (1, "exit status: 3", "docs/providers.md"),
        (2, "/nonexistent", "docs/providers.md"),
        (3, "it offers: default, yolo", "docs/providers.md"),
    ] {
        let [_, found, mend] = &found[at];
        assert!(found.contains(what) && mend.contains(fix), "{found}: {mend}");
    }
}
