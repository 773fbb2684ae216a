//! The console in hard times: a full disk, a keyboard alone, and a long history.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hearth::model::address::{Address, ChannelName};
use hearth::model::delivery::{Author, Outbound};
use hearth::model::id::OutboundId;
use hearth::state::{Options, Store};
use serde_json::{Value, json};

use super::driver::Browser;
use super::{Console, FAMILY};
use crate::host::disk::{Disk, Filler};
use crate::host::{Host, event, wait_for};

#[test]
fn on_a_full_disk_pages_are_shown_and_changes_are_refused_with_a_reason() {
    let Some(mut browser) = Browser::start() else { return };
    let host = Host::new();
    let Some(_disk) = Disk::mount(host.data()) else { return };
    host.apply(&crate::host::with_chat("provider = \"echo\""));
    let mut console = Console::of(host, "");
    browser.sign_in(&console, &[]);
    let cookie = console.sign_in(&[]);
    let here = console.here();
    browser.go(&format!("http://{here}/chat/main"));
    let say = |browser: &mut Browser, text: &str| {
        browser.eval(&format!("document.querySelector('textarea').value = {text:?}"));
        browser.eval("document.getElementById('say').requestSubmit()");
    };
    say(&mut browser, "before");
    browser.wait("document.querySelectorAll('.line.agent').length === 1");
    let filler = Filler::fill(&console.host.data());
    say(&mut browser, "while it is full");
    browser.wait("!document.getElementById('trouble').hidden");
    let why = browser.eval("document.getElementById('trouble').innerText");
    assert!(why.as_str().unwrap().contains("make room on the disk"), "{why}");
    assert_eq!(browser.eval("document.querySelector('textarea').value"), "while it is full", "it stays in the field");
    for path in
        ["", "asked", "chat/main", "tasks", "people", "spend", "health", "search?q=before", "memory", "sessions"]
    {
        let page = console.get(&format!("/{path}"), &cookie);
        assert_eq!(page.status, 200, "{path}: {page:?}");
    }
    // Signing out makes room, so it is possible; a daemon that dies meanwhile shows the same.
    console.host.kill();
    console.host.start();
    assert_eq!(console.get("/chat/main", &cookie).status, 200);
    filler.make_room();
    browser.wait("document.getElementById('offline').hidden");
    wait_for("room", || {
        say(&mut browser, "while it is full");
        browser.wait("!document.getElementById('say').dataset.sending");
        let sent = browser.eval("document.querySelectorAll('.line.person').length === 2");
        (sent == true).then_some(())
    });
    browser.wait("document.querySelectorAll('.line.agent').length === 2");
    let lines = browser.eval("[...document.querySelectorAll('.line.person')].map(l => l.innerText).join()");
    assert_eq!(lines.as_str().unwrap().matches("while it is full").count(), 1, "sent again, and there once: {lines}");
    console.host.wait_settled();
    console.host.check();
}

/// What has the focus: its kind; its text, name or label; and whether it had the focus before.
const FOCUSED: &str = "(() => { const e = document.activeElement, known = e.known === true; e.known = true; \
    return [e.tagName, (e.innerText || e.name || e.getAttribute('aria-label') || '').trim().slice(0, 20), known]; })()";

/// Presses Tab until something has the focus that had it before, and returns all of it in order.
fn order(browser: &mut Browser) -> Vec<String> {
    browser.eval("document.activeElement.blur()");
    let mut all: Vec<String> = Vec::new();
    for _ in 0..200 {
        browser.step(&json!({"key": "Tab"}));
        let focused = browser.eval(FOCUSED);
        let [kind, text] = [0, 1].map(|at| focused[at].as_str().unwrap().to_owned());
        if kind == "BODY" || focused[2] == true {
            break;
        }
        all.push(format!("{kind} {text}"));
    }
    all
}

#[test]
fn everything_is_reached_by_the_keyboard_in_the_order_of_the_page() {
    let Some(mut browser) = Browser::start() else { return };
    let console = Console::with(FAMILY);
    let mut stranger = event("s1", "May I come in?");
    stranger["platformId"] = "77".into();
    stranger["message"]["content"]["senderId"] = "900".into();
    console.host.done(&["inject", "--json"], stranger.to_string().as_bytes());
    console.host.wait_settled();
    browser.sign_in(&console, &[]);
    for path in ["", "asked", "chat/main", "people", "network", "search", "sessions", "why"] {
        browser.go(&format!("http://{}/{path}", console.here()));
        // What can have the focus and is shown, in the order of the document.
        let script = "[...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary, \
                      [tabindex=\"0\"]')].filter(e => e.checkVisibility({checkOpacity: false}) && !e.disabled)\
                      .map(e => e.tagName + ' ' + (e.innerText || e.name || e.getAttribute('aria-label') || '').trim().slice(0, 20))";
        let expected: Vec<String> = serde_json::from_value(browser.eval(script)).unwrap();
        let found = order(&mut browser);
        assert_eq!(found, expected, "{path}");
        assert!(found[0].contains("Skip to the page"), "{found:?}");
    }
    // The first stop leads past the navigation, and a decision is made without a mouse.
    browser.go(&format!("http://{}/asked", console.here()));
    browser.eval("document.activeElement.blur()");
    browser.step(&json!({"key": "Tab"}));
    browser.step(&json!({"key": "Enter"}));
    browser.wait("location.hash === '#main'");
    let mut focused = Value::Null;
    for _ in 0..20 {
        browser.step(&json!({"key": "Tab"}));
        focused = browser.eval(FOCUSED);
        if focused[0] == "BUTTON" && focused[1].as_str().unwrap().starts_with("Allow") {
            break;
        }
    }
    assert!(focused[1].as_str().unwrap().starts_with("Allow"), "{focused}");
    assert_ne!(browser.eval("getComputedStyle(document.activeElement).outlineStyle"), "none", "the focus is seen");
    browser.step(&json!({"key": "Enter"}));
    wait_for("the decision", || console.host.rows("approvals")[0].to_string().contains("Approved").then_some(()));
}

/// Other chats fill the store with newer messages; the chat is shown as before.
#[test]
fn a_chat_is_whole_however_much_was_said_elsewhere() {
    let mut console = Console::start();
    let cookie = console.sign_in(&[]);
    let chat = console.get("/chat/main", &cookie);
    let form = format!("token={}&id={}&text=long+ago", chat.field("token"), chat.field("id"));
    assert_eq!(console.post("/chat/main", &cookie, &form).status, 303);
    console.host.wait_settled();
    console.host.stop();
    let store = Store::open(&console.host.data(), Options::new(hearth::clock::random().unwrap())).unwrap();
    let wrote = store.write(|db, txn| {
        let (_, answer) = db.outbound.last(txn, ..)?.unwrap();
        let elsewhere = Address { channel: ChannelName::new("telegram").unwrap(), ..answer.to.clone().unwrap() };
        let reminder = Outbound { author: Author::Hearth, in_reply_to: None, text: "a reminder".to_owned(), ..answer };
        for number in 0..700 {
            let to = if number == 0 { reminder.to.clone() } else { Some(elsewhere.clone()) };
            let id = db.allocate::<OutboundId>(txn)?;
            db.outbound.put(txn, &id, &Outbound { to, ..reminder.clone() })?;
        }
        Ok::<_, hearth::state::Error>(())
    });
    wrote.unwrap();
    drop(store);
    console.host.start();
    let page = console.get("/chat/main", &cookie);
    assert_eq!(page.body.matches("a reminder").count(), 1, "{page:?}");
    assert!(page.body.contains("long ago"), "{page:?}");
}

/// Memory that is the daemon's own.
fn memory(console: &mut Console) -> u64 {
    let process = console.host.daemon().unwrap().pid().as_raw_nonzero();
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

/// Also in a build without optimisation.
#[test]
fn a_thousand_open_pages_cost_less_than_30_mb_and_a_first_page_less_than_100_ms() {
    let mut console = Console::start();
    let cookie = console.sign_in(&[]);
    let mut took: Vec<Duration> = (0..21)
        .map(|_| {
            let begin = Instant::now();
            let bytes: usize =
                ["/", "/style.css", "/console.js"].iter().map(|path| console.get(path, &cookie).body.len()).sum();
            assert!(bytes < 100_000, "{bytes}");
            begin.elapsed()
        })
        .collect();
    took.sort_unstable();
    let before = memory(&mut console);
    let streams: Vec<TcpStream> = (0..1_000)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", console.port)).unwrap();
            let here = console.here();
            write!(stream, "GET /events HTTP/1.1\r\nHost: {here}\r\nCookie: {cookie}\r\n\r\n").unwrap();
            let mut answer = [0; 15];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200 OK");
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_secs(1));
    let more = memory(&mut console).saturating_sub(before);
    let found = format!("first page {:?}, {} streams {} kB", took[10], streams.len(), more / 1024);
    println!("{found}");
    assert!(more < 30_000_000 && took[0] < Duration::from_millis(100), "{found}");
    assert_eq!(console.get("/", &cookie).status, 200, "and others are served");
}
