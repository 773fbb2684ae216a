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
