//! The console in a real browser.

use serde_json::json;

use super::driver::{Browser, look, look_at};
use super::{Console, FAMILY, HOSTILE_NAME, PEOPLE};
use crate::host::{Host, event, wait_for, with_chat};

/// What strangers send: it would run in a page that does not escape it.
const HOSTILE: &str = "<img src=x onerror=\"window.xss=1\"><script>window.xss=1</script>\"'><svg onload=window.xss=1>";

/// A console in which strangers have said what they should not.
fn hostile() -> Console {
    let console = Console::with(FAMILY);
    let mut stranger = event("s1", HOSTILE);
    stranger["platformId"] = "77".into();
    stranger["message"]["content"]["senderId"] = format!("900{HOSTILE}").into();
    stranger["message"]["content"]["senderName"] = HOSTILE.into();
    console.host.done(&["inject", "--json"], stranger.to_string().as_bytes());
    let mut known = event("s2", HOSTILE);
    known["message"]["content"]["senderName"] = HOSTILE.into();
    console.host.done(&["inject", "--json"], known.to_string().as_bytes());
    console.host.wait_settled();
    console
}

#[test]
fn every_page_shows_what_strangers_send_as_text() {
    let Some(mut browser) = Browser::start() else { return };
    let console = hostile();
    let here = console.here();
    let code = console.code(&[]);
    browser.go(&format!("http://{here}/sign-in/{code}"));
    look(&mut browser, &console, "hostile-sign-in");
    browser.sign_in(&console, &[]);
    look(&mut browser, &console, "hostile-home");
    assert!(browser.text().contains("<script>window.xss=1</script>"), "it is shown: {}", browser.text());
    for (path, name) in [
        ("asked", "decisions"),
        ("asked/ap1", "decision"),
        ("chat/main", "chat-empty"),
        ("why/ms1", "why"),
        ("why", "why-ask"),
        ("sessions", "sessions"),
        ("agents", "agents"),
        ("agents/main", "agent"),
        ("tasks", "tasks"),
        ("people", "people"),
        ("spend", "spend"),
        ("network", "network"),
        ("health", "health"),
    ] {
        browser.go(&format!("http://{here}/{path}"));
        look(&mut browser, &console, &format!("hostile-{name}"));
    }
    browser.go(&format!("http://{here}/asked"));
    assert!(browser.text().contains("window.xss=1"), "{}", browser.text());
    browser.press("Sign out");
    assert!(browser.text().contains("Not signed in"), "{}", browser.text());
    browser.step(&json!({"requests": true}));
    browser.eval("history.back()");
    browser.wait("document.body.innerText.includes('Not signed in')");
}

/// An agent that answers as people would like. It searches for films until there is a file `go`.
const FRIENDLY: &str = r#"
import json, os, sys, time
answers = {
    "Good morning!": "Good morning, Ada. It stays dry today, with 14 °C at noon.",
    "Please remind me to water the plants at six.": "I will remind you at six.",
    "What is the weather on Saturday?": "Sunny, up to 18 °C.",
}
for line in sys.stdin:
    turn = json.loads(line)
    if turn["type"] != "turn":
        continue
    text = turn["messages"][-1]["content"]["text"]
    if "cinema" in text:
        print(json.dumps({"type": "tool", "name": "WebSearch", "timeout_ms": 600000}), flush=True)
        while not os.path.exists("go"):
            time.sleep(0.05)
    print(json.dumps({"type": "say", "text": answers.get(text, "Done.")}), flush=True)
    print(json.dumps({"type": "usage", "model": "sonnet", "input": 1840, "output": 96, "cost_micros": 6960}), flush=True)
    print(json.dumps({"type": "done"}), flush=True)
"#;

/// A console in which people are friendly and one agent is at work.
fn friendly() -> Console {
    let host = Host::on_disk();
    let path = host.path("agent.py");
    std::fs::write(&path, FRIENDLY).unwrap();
    let command = format!("command = [\"python3\", {:?}]", path.display());
    host.apply(&with_chat(&format!("name = \"Andy\"\nprovider = \"command\"\n{command}\nunconfined = true")));
    let budget = "[[budgets]]\nscope = \"agent:main\"\nper = \"day\"\ntokens = 200000\n";
    let console = Console::of(host, &format!("{}{PEOPLE}{budget}", FAMILY.replace(HOSTILE_NAME, "Family")));
    for (id, chat, sender, name, text) in [
        ("f1", "77", "900", "Grace", "Hello, it is Grace. May I talk to you as well?"),
        ("f2", "123", "5", "Mel", "What is the weather on Saturday?"),
    ] {
        let mut message = event(id, text);
        message["platformId"] = chat.into();
        message["message"]["content"]["senderId"] = sender.into();
        message["message"]["content"]["senderName"] = name.into();
        console.host.done(&["inject", "--json"], message.to_string().as_bytes());
    }
    for (prompt, every) in [("Remind us of birthdays this week", "24h"), ("Summarise the news", "12h")] {
        console.host.done(&["tasks", "add", "main", prompt, "--every", every, "--no-chat"], b"");
    }
    console.host.done(&["tasks", "run", "ta2"], b"");
    console.host.done(&["tasks", "pause", "ta2"], b"");
    console.host.done(&["net", "allow", "main", "api.weather.example"], b"");
    console.host.done(&["net", "deny", "main", "tracker.example"], b"");
    wait_for("the first answers", || (console.host.rows("outbound").len() >= 2).then_some(()));
    console.host.inject("f3", "What is on at the cinema tonight?");
    let memory = console.host.data().join("groups/main/memory");
    std::fs::create_dir_all(&memory).unwrap();
    std::fs::write(memory.join("family.md"), "Grace's birthday is on 9 December.\nMel is allergic to nuts.\n").unwrap();
    console
}

/// The pages as people see them. Pictures of all are in the documents.
#[test]
fn pages_look_well() {
    let Some(mut browser) = Browser::start() else { return };
    let console = friendly();
    let here = console.here();
    browser.go(&format!("http://{here}/sign-in/{}", console.code(&[])));
    look(&mut browser, &console, "sign-in");
    browser.press("Sign in");
    browser.wait("document.body.innerText.includes('WebSearch')");
    look(&mut browser, &console, "home");
    for (page, name) in [
        ("asked", "decisions"),
        ("asked/ap1", "decision"),
        ("tasks", "tasks"),
        ("people", "people"),
        ("agents", "agents"),
        ("agents/main", "agents-main"),
        ("spend", "spend"),
        ("network", "network"),
        ("health", "health"),
        ("sessions", "sessions"),
        ("why", "why-ask"),
        ("search?q=grace+news", "found"),
        ("memory", "memory-files"),
        ("memory/main/memory%2Ffamily.md", "remembered"),
    ] {
        browser.go(&format!("http://{here}/{page}"));
        look(&mut browser, &console, name);
    }
    browser.go(&format!("http://{here}/chat/main"));
    for (at, text) in ["Good morning!", "Please remind me to water the plants at six."].iter().enumerate() {
        browser.eval(&format!("document.querySelector('textarea').value = {text:?}"));
        browser.eval("document.getElementById('say').requestSubmit()");
        browser.wait(&format!("document.querySelectorAll('.line.agent').length === {}", at + 1));
    }
    let last = browser.eval("[...document.querySelectorAll('.line.person')].at(-1).id");
    browser.eval("document.querySelector('textarea').value = 'And what is on at the cinema?'");
    browser.eval("document.getElementById('say').requestSubmit()");
    browser.wait("document.querySelector('.working')?.innerText.includes('WebSearch')");
    look(&mut browser, &console, "chat");
    browser.go(&format!("http://{here}/why/{}", last.as_str().unwrap()));
    look_at(&mut browser, &console, "why", Some(".picture"));
}

#[test]
fn a_chat_goes_on_after_the_daemon_was_killed_and_nothing_is_doubled() {
    let Some(mut browser) = Browser::start() else { return };
    let mut console = Console::start();
    browser.sign_in(&console, &[]);
    browser.go(&format!("http://{}/chat/main", console.here()));
    let say = |browser: &mut Browser, text: &str| {
        browser.eval(&format!(
            "document.querySelector('textarea').focus(); document.execCommand('insertText', false, {text:?})"
        ));
        browser.step(&json!({"key": "Enter"}));
    };
    say(&mut browser, &format!("first {HOSTILE}"));
    // An agent that echoes says it again: the page shows both without being loaded again.
    browser.eval("window.stays = 1");
    browser.wait("document.querySelectorAll('.line.agent').length === 1 && document.querySelectorAll('.line.person').length === 1");
    console.host.kill();
    browser.wait("!document.getElementById('offline').hidden");
    console.host.start();
    browser.wait("document.getElementById('offline').hidden");
    say(&mut browser, "second");
    browser.wait("document.querySelectorAll('.line.agent').length === 2 && document.querySelectorAll('.line.person').length === 2");
    assert_eq!(browser.eval("window.stays"), 1, "the page was loaded again");
    let order = "[...document.querySelectorAll('.line')].map(l => l.className.split(' ')[1]).join()";
    assert_eq!(browser.eval(order), "person,agent,person,agent");
    assert_eq!(browser.eval("typeof window.xss"), "undefined");
    browser.step(&json!({"noise": true}));
    look(&mut browser, &console, "hostile-chat");
    // A second page of the same chat is told of what the first one sends.
    let mut other = Browser::start().unwrap();
    other.sign_in(&console, &[]);
    other.go(&format!("http://{}/chat/main", console.here()));
    say(&mut browser, "third");
    other.wait("document.querySelectorAll('.line.agent').length === 3");
}

#[test]
fn an_approval_appears_by_itself_and_is_decided_by_a_press() {
    let Some(mut browser) = Browser::start() else { return };
    let console = Console::with(FAMILY);
    browser.sign_in(&console, &[]);
    assert!(browser.text().contains("Nothing."), "{}", browser.text());
    let mut stranger = event("s1", "let me in");
    stranger["platformId"] = "77".into();
    stranger["message"]["content"]["senderId"] = "900".into();
    console.host.done(&["inject", "--json"], stranger.to_string().as_bytes());
    browser.wait("!!document.getElementById('ap1')");
    let label = browser.eval("document.querySelector('#ap1 button').innerText");
    browser.press(label.as_str().unwrap());
    browser.wait("!document.getElementById('ap1')");
    let state = &console.host.rows("approvals")[0];
    assert!(state.to_string().contains("Approved"), "{state}");
    look(&mut browser, &console, "decided");
}
