//! Every choice about tools, hosts and budgets is pressed in the browser, and the store has what it says.

use hearth::engine::commit::{Engine, Submission};
use hearth::model::id::SessionId;
use hearth::model::network::HostWanted;
use hearth::model::policy::Policy;
use hearth::model::report::Reply;
use hearth::model::{Awake, Input, Moment};
use hearth::state::{Options, Store};
use serde_json::{Value, json};

use super::Console;
use super::asking::{asking, decide, rows, say};
use super::driver::Browser;
use crate::host::{Host, wait_for};

/// The row of an approval.
fn approval(console: &Console, id: &str) -> Value {
    let number: usize = id[2..].parse().unwrap();
    console.host.rows("approvals")[number - 1]["value"].clone()
}

/// Choices that the page of decisions shows about an approval, in order.
fn offered(browser: &mut Browser, console: &Console, id: &str) -> Value {
    browser.go(&format!("http://{}/asked", console.here()));
    browser.wait(&format!("!!document.getElementById({id:?})"));
    browser.eval(&format!("[...document.querySelectorAll('#{id} button')].map(b => b.innerText)"))
}

#[test]
fn choices_about_tools_are_pressed() {
    let Some(mut browser) = Browser::start() else { return };
    let console = asking("[[agents]]\nfolder = \"main\"\ntools = { rules = [{ ask = \"Bash\" }] }\n");
    browser.sign_in(&console, &[]);
    let call = |number: usize| {
        json!({"action": "use_tool", "tool": "Bash", "kind": "", "folder": "/workspace/agent",
               "input": {"command": format!("make part{number}")}})
    };
    for (at, (value, reason, verdict, state, grant)) in [
        ("approve", None, "allow", "Approved", None),
        ("session", None, "allow", "Approved", Some("Session")),
        ("always", None, "allow", "Approved", Some("Agent")),
        ("reject", None, "deny", "Rejected", None),
        ("reject_why", Some("not on a Sunday"), "deny", "Rejected", None),
    ]
    .into_iter()
    .enumerate()
    {
        let (id, before) = (format!("ap{}", at + 1), console.host.rows("tool_grants").len());
        say(&mut browser, &console, &format!("!ask {}", call(at)));
        let labels = offered(&mut browser, &console, &id);
        assert_eq!(labels, json!(["Allow once", "For this session", "Always", "No", "No, and say why"]), "{value}");
        assert!(browser.text().contains(&format!("make part{at}")), "{}", browser.text());
        decide(&mut browser, &console, &id, value, reason);
        let row = approval(&console, &id);
        assert!(row["state"].to_string().contains(state), "{value}: {row}");
        assert!(row["state"].to_string().contains("Person"), "{value}: {row}");
        let grants = console.host.rows("tool_grants");
        assert_eq!(grants.len() - before, usize::from(grant.is_some()), "{value}: {grants:?}");
        if let Some(scope) = grant {
            let row = grants.last().unwrap()["value"].to_string();
            assert!(row.contains(scope) && row.contains(&format!("make part{at}")), "{value}: {row}");
        }
        // The agent is told.
        browser.go(&format!("http://{}/chat/main", console.here()));
        browser.wait(&format!(
            "[...document.querySelectorAll('.line.agent')].at(-1)?.innerText.includes('\"{verdict}\"')"
        ));
        let told = browser.eval("[...document.querySelectorAll('.line.agent')].at(-1).innerText").to_string();
        assert!(reason.is_none_or(|reason| told.contains(reason)), "{value}: {told}");
    }
    // What was allowed for good is not asked about again.
    say(&mut browser, &console, &format!("!ask {}", call(2)));
    browser.wait("[...document.querySelectorAll('.line.agent')].at(-1)?.innerText.includes('\"granted\"')");
    assert_eq!(console.host.rows("approvals").len(), 5);
    console.host.check();
}

/// Stores that the agent wants to reach hosts, as the gate of a confined agent would, between two lives of the daemon.
fn wants(console: &mut Console, hosts: &[&str]) {
    console.host.inject(&format!("m{}", hosts[0]), "hello");
    console.host.wait_settled();
    console.host.kill();
    let random = || hearth::clock::random().unwrap();
    let store = Store::open(&console.host.data(), Options::new(random())).unwrap();
    let live = store.read(|db, txn| db.live_incarnations.first(txn, ..)).unwrap();
    let (session, incarnation): (SessionId, u32) = live.expect("the agent is there");
    let now = Moment { wall: hearth::clock::wall(), awake: Awake::new(store.begin_run().unwrap(), 0) };
    let groups = console.host.data().join("groups").into_os_string().into_encoded_bytes();
    let engine = Engine::new(store, Policy::STANDARD, groups);
    for host in hosts {
        let wanted = HostWanted { session, incarnation, endpoint: host.parse().unwrap(), local: false };
        let answers = engine.commit(&[Submission::new(Input::HostWanted(wanted))], now, random()).unwrap();
        assert!(matches!(answers[0].as_ref().unwrap().reply, Reply::Host(Ok(()))), "{host}");
    }
    drop(engine);
    console.host.start();
}

/// The decision about a host of the agent; none if there is none.
fn grant(console: &Console, host: &str) -> Option<String> {
    let of = |row: &&Value| row["key"].to_string().contains(host);
    console.host.rows("host_grants").iter().find(of).map(|row| row["value"]["decision"].to_string())
}

#[test]
fn choices_about_hosts_are_pressed() {
    let Some(mut browser) = Browser::start() else { return };
    let agent = "[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\nunconfined = true\nnetwork = \"ask\"\n";
    let mut console = Console::of(Host::with_echo(), agent);
    browser.sign_in(&console, &[]);
    let choices = [("approve", Some("Once")), ("always", Some("Always")), ("never", Some("Never")), ("reject", None)];
    let mut number = 0;
    for (value, decision) in choices {
        number += 1;
        let host = format!("{value}.example:443");
        wants(&mut console, &[&host]);
        let id = format!("ap{number}");
        assert_eq!(offered(&mut browser, &console, &id), json!(["Once", "Always", "Never", "Not now"]), "{value}");
        decide(&mut browser, &console, &id, value, None);
        let found = grant(&console, &host);
        assert_eq!(found.is_some(), decision.is_some(), "{value}: {found:?}");
        assert!(decision.is_none_or(|is| found.unwrap().contains(is)), "{value}");
    }
    for (value, decision) in choices {
        // Two have cards of their own, and the others share one.
        let hosts: Vec<String> = (0..4).map(|at| format!("{value}{at}.example:443")).collect();
        wants(&mut console, &hosts.iter().map(String::as_str).collect::<Vec<_>>());
        let id = format!("ap{}", number + 3);
        let labels = offered(&mut browser, &console, &id);
        assert_eq!(labels, json!(["All once", "All always", "None, never", "Not now"]), "{value}");
        decide(&mut browser, &console, &id, value, None);
        for host in &hosts[2..] {
            let found = grant(&console, host);
            assert_eq!(found.is_some(), decision.is_some(), "{host}: {found:?}");
            assert!(decision.is_none_or(|is| found.unwrap().contains(is)), "{host}");
        }
        for single in [number + 1, number + 2] {
            decide(&mut browser, &console, &format!("ap{single}"), "reject", None);
        }
        number += 3;
    }
    console.host.check();
}

/// An agent whose every turn costs more than there is.
const COSTLY: &str = r#"
import json, sys
for line in sys.stdin:
    turn = json.loads(line)
    if turn["type"] != "turn":
        continue
    print(json.dumps({"type": "say", "text": "done: " + turn["messages"][-1]["content"]["text"]}), flush=True)
    print(json.dumps({"type": "usage", "model": "m", "input": 400, "output": 0, "cost_micros": 0}), flush=True)
    print(json.dumps({"type": "done"}), flush=True)
"#;

#[test]
fn choices_about_a_budget_are_pressed() {
    let Some(mut browser) = Browser::start() else { return };
    for (value, label) in [("approve", "Allow"), ("tomorrow", "Allow until tomorrow"), ("reject", "Drop")] {
        let host = Host::with_program(COSTLY);
        host.apply("schema = 1\ngrace = 0\n[[budgets]]\nscope = \"agent:main\"\nper = \"day\"\ntokens = 100\n");
        let console = Console::of(host, "");
        browser.sign_in(&console, &[]);
        // Of a person who is no owner: messages of owners always pass.
        console.host.inject("m1", "first");
        wait_for("the first answer", || rows(&console, "outbound").contains("done: first").then_some(()));
        console.host.wait_settled();
        console.host.inject("m2", "second");
        let labels = offered(&mut browser, &console, "ap1");
        assert!(labels.as_array().unwrap().iter().any(|one| one.as_str().unwrap().starts_with(label)), "{labels}");
        decide(&mut browser, &console, "ap1", value, None);
        let budget = console.host.rows("budget_states")[0]["value"].clone();
        assert_eq!(!budget["open_until"].is_null(), value == "tomorrow", "{value}: {budget}");
        wait_for("the message that waits to end", || match value {
            "reject" => rows(&console, "messages").contains("Dropped").then_some(()),
            _ => rows(&console, "outbound").contains("done: second").then_some(()),
        });
        console.host.check();
    }
}
