//! The console in a real browser.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::driver::{Browser, look};
use super::{Console, FAMILY, HOSTILE_NAME, PEOPLE};
use crate::host::{event, wait_for};

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

/// The pages as people see them, who are friendly. Some of the pictures are in the documents.
#[test]
fn pages_look_well() {
    let Some(mut browser) = Browser::start() else { return };
    let console = Console::with(&format!("{}{PEOPLE}", FAMILY.replace(HOSTILE_NAME, "Family")));
    let here = console.here();
    for (id, chat, sender, name, text) in [
        ("f1", "77", "900", "Grace", "Hello, it is Grace. May I talk to you as well?"),
        ("f2", "1", "5", "Mel", "What is the weather on Saturday?"),
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
    console.host.wait_settled();
    browser.sign_in(&console, &[]);
    look(&mut browser, &console, "home");
    for page in ["tasks", "people", "agents", "agents/main", "spend", "network", "health", "sessions", "why"] {
        browser.go(&format!("http://{here}/{page}"));
        look(&mut browser, &console, &page.replace('/', "-"));
    }
    let memory = console.host.data().join("groups/main/memory");
    std::fs::create_dir_all(&memory).unwrap();
    std::fs::write(memory.join("family.md"), "Grace's birthday is on 9 December.\nMel is allergic to nuts.\n").unwrap();
    for (page, name) in [("search?q=grace+news", "found"), ("memory/main/memory%2Ffamily.md", "remembered")] {
        browser.go(&format!("http://{here}/{page}"));
        look(&mut browser, &console, name);
    }
    browser.go(&format!("http://{here}/asked/ap1"));
    look(&mut browser, &console, "decision");
    browser.go(&format!("http://{here}/chat/main"));
    for (at, text) in ["Good morning!", "Please remind me to water the plants at six."].iter().enumerate() {
        browser.eval(&format!("document.querySelector('textarea').value = {text:?}"));
        browser.eval("document.getElementById('say').requestSubmit()");
        browser.wait(&format!("document.querySelectorAll('.line.agent').length === {}", at + 1));
    }
    look(&mut browser, &console, "chat");
    let last = browser.eval("[...document.querySelectorAll('.line.person')].at(-1).id");
    browser.go(&format!("http://{here}/why/{}", last.as_str().unwrap()));
    look(&mut browser, &console, "why");
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

/// Serves a page under another port of the same machine, to which browsers send the same cookies.
fn attacker(page: String) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, seen) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<String>>>::default());
    let record = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4_096];
            let read = stream.read(&mut request).unwrap_or(0);
            record.lock().unwrap().push(String::from_utf8_lossy(&request[..read]).into_owned());
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
                page.len()
            );
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    (port, seen)
}

#[test]
fn pages_of_other_origins_neither_read_nor_do_anything() {
    let Some(mut browser) = Browser::start() else { return };
    let console = Console::start();
    browser.sign_in(&console, &[]);
    let here = console.here();
    let cookies = browser.step(&json!({"cookies": true}));
    let cookie = &cookies.as_array().unwrap()[0];
    assert!(cookie["httpOnly"] == true && cookie["sameSite"] == "Strict", "{cookie}");
    assert_eq!(browser.eval("document.cookie"), "");
    let page = format!("<form id=f method=post action=\"http://{here}/sign-out\"><input name=token value=x></form>");
    let (port, _) = attacker(page);
    browser.go(&format!("http://127.0.0.1:{port}/"));
    let read = format!("fetch('http://{here}/', {{credentials: 'include'}}).then(a => a.text(), () => 'refused')");
    assert_eq!(browser.eval(&read), "refused");
    let sent = format!(
        "fetch('http://{here}/sign-out', {{method: 'POST', mode: 'no-cors', credentials: 'include', body: new URLSearchParams('token=x')}}).then(a => a.type, () => 'refused')"
    );
    browser.eval(&sent);
    let framed = format!(
        "new Promise(done => {{ const f = document.createElement('iframe'); f.src = 'http://{here}/'; f.onload = () => {{ try {{ done(f.contentDocument ? f.contentDocument.body.innerText : 'opaque') }} catch (e) {{ done('opaque') }} }}; document.body.append(f) }})"
    );
    assert!(!browser.eval(&framed).as_str().unwrap().contains("Hearth"));
    browser.eval("window.before = 1; document.getElementById('f').submit()");
    browser.wait("!window.before && document.readyState === 'complete'");
    assert!(browser.text().contains("came from another page"), "{}", browser.text());
    assert_eq!(console.sessions(), 1, "nobody was signed out");
    // A name of the attacker that leads here.
    browser.go(&format!("http://evil.example:{}/", console.port));
    assert!(browser.text().contains("asked for under another name"), "{}", browser.text());
    // A link that works once.
    let code = console.code(&[]);
    browser.go(&format!("http://{here}/sign-in/{code}"));
    browser.press("Sign in");
    browser.go(&format!("http://{here}/sign-in/{code}"));
    assert!(browser.text().contains("no longer works"), "{}", browser.text());
    wait_for("two sessions", || (console.sessions() == 2).then_some(()));
}
