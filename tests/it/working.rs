//! Recovery of agents under the real daemon: failed starts, restarts, session resets.

use serde_json::{Value, json};

use crate::host::{Host, wait_for};

fn json_of(host: &Host, arguments: &[&str]) -> Value {
    let mut arguments = arguments.to_vec();
    arguments.push("--json");
    serde_json::from_str(&host.done(&arguments, b"")).unwrap()
}

fn session(host: &Host) -> Value {
    json_of(host, &["sessions", "show", "se1"])
}

#[test]
fn an_agent_that_cannot_start_says_why_and_is_started_when_it_is_mended() {
    let mut host = Host::with_echo();
    let secret = host.path("secret");
    host.done(&["agents", "set", "main", "--env", &format!("KEY=file:{}", secret.display())], b"");
    host.start();
    host.inject("m1", "hello");
    wait_for("a start to fail", || (session(&host)["failed_starts"] == 1).then_some(()));
    let status = host.status();
    let failed = &status["failed_starts"][0];
    assert_eq!((&failed["session"], &failed["agent"]), (&json!("se1"), &json!("main")), "{status}");
    assert!(failed["why"].as_str().unwrap().contains("could not be started"), "{status}");
    assert_eq!(status["messages"]["due"], 1, "it waits and costs no try: {status}");
    let doctor: Value = serde_json::from_str(&host.run(&["doctor", "--json"], b"").stdout).unwrap();
    let check = doctor["checks"].as_array().unwrap().iter().find(|check| check["check"] == "start").unwrap();
    assert!(check["found"].as_str().unwrap().contains("session se1 of agent main failed to start"), "{check}");
    assert!(check["mend"].as_str().unwrap().contains("hearth agents restart main"), "{check}");

    std::fs::write(&secret, "now it is there").unwrap();
    let told = host.done(&["agents", "restart", "main"], b"");
    assert_eq!(told, "no session of main is running: its queued messages are retried now\n");
    assert_eq!(host.wait_said(1), ["echo: hello"]);
    host.wait_settled();
    let shown = session(&host);
    assert_eq!((&shown["failed_starts"], &shown["messages"]), (&json!(0), &json!(1)), "{shown}");
    host.check();
}

#[test]
fn an_agent_starts_again_now() {
    let mut host = Host::with_echo();
    host.start();
    host.inject("m1", "!sleep 60s\nslow");
    wait_for("the turn to begin", || host.states()[0].get("Claimed").map(|_| ()));
    let told = host.done(&["agents", "set", "main", "--model", "large"], b"");
    assert!(told.contains("updated   agent main"), "{told}");
    assert_eq!(session(&host)["live"], 1, "what works ends its turn first");
    let told = json_of(&host, &["agents", "restart", "main", "--message", "Resuming."]);
    assert_eq!(told, json!({"changes": [{"entity": "session se1 of agent main", "action": "restarted"}]}));
    let dump = wait_for("the next one to take both", || {
        let claimed = host.states().iter().filter(|state| state["Claimed"]["incarnation"] == 2).count();
        (claimed == 2 || session(&host)["live"] == 2).then(|| host.dump(&["--bodies"]).stdout)
    });
    assert!(dump.contains("Resuming."), "{dump}");
    let shown = session(&host);
    let incarnations = shown["incarnations"].as_array().unwrap();
    assert_eq!(incarnations[1]["stopped_for"], "restarted", "{shown}");
    assert!(host.rows("messages").iter().all(|row| row["value"]["tries"] == 0));
    for (arguments, words) in [
        (vec!["agents", "restart", "nobody"], "agent nobody not found"),
        (vec!["agents", "restart", "main", "--message", " "], "the message is empty"),
    ] {
        let refused = host.run(&arguments, b"");
        assert!(refused.code == Some(1) && refused.stderr.contains(words), "{refused:#?}");
    }
}

#[test]
fn a_session_begins_anew_and_is_driven_by_something_else() {
    let mut host = Host::with_echo();
    for daemon in [false, true] {
        if daemon {
            host.start();
        }
        host.inject(if daemon { "m2" } else { "m1" }, "hello");
        let before = session(&host);
        assert_eq!(host.done(&["sessions", "reset", "se1"], b""), "updated   session se1\n");
        assert_eq!(host.done(&["sessions", "reset", "main"], b""), "updated   session se1\n");
        let after = session(&host);
        assert_eq!(after["epoch"].as_u64().unwrap(), before["epoch"].as_u64().unwrap() + 2);
        assert_eq!(after["provider"], "echo");
        if daemon {
            // The next provider is not installed here, so every start would fail.
            wait_for("both to be answered", || {
                host.states().iter().all(|state| state.get("Completed").is_some()).then_some(())
            });
        }
        assert_eq!(host.done(&["sessions", "set", "se1", "provider=claude"], b""), "updated   session se1\n");
        assert_eq!(host.done(&["sessions", "set", "se1", "provider=claude"], b""), "unchanged session se1\n");
        assert_eq!(session(&host)["provider"], "claude");
        assert!(host.done(&["sessions", "show", "se1"], b"").contains("provider             claude"));
        assert_eq!(host.done(&["sessions", "set", "se1", "provider=-"], b""), "updated   session se1\n");
        for (arguments, words) in [
            (vec!["sessions", "reset", "se9"], "session se9 not found"),
            (vec!["sessions", "reset", "nobody"], "agent nobody not found"),
            (vec!["sessions", "set", "se1", "provider=gpt"], "`gpt` is not a provider"),
            (vec!["sessions", "set", "se1", "provider="], "`provider=` is not a setting"),
            (vec!["sessions", "set", "se1", "epoch=3"], "`epoch=3` is not a setting"),
        ] {
            let refused = host.run(&arguments, b"");
            assert!(refused.code == Some(1) && refused.stderr.contains(words), "{refused:#?}");
        }
    }
    assert!(host.said().concat().contains("echo: hello"), "{:?}", host.said());
    host.wait_settled();
    host.check();
}
