//! The console in Chromium, driven through its pipe by `tests/browser.py`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::tables::PEOPLE;
use super::{Console, FAMILY, HOSTILE_NAME};
use crate::host::{event, skipped, wait_for};

/// What strangers send: it would run in a page that does not escape it.
const HOSTILE: &str = "<img src=x onerror=\"window.xss=1\"><script>window.xss=1</script>\"'><svg onload=window.xss=1>";

/// A browser with one page.
pub(super) struct Browser {
    child: Child,
    steps: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Browser {
    /// None if this machine has no browser, which the list of skipped tests says.
    pub(super) fn start() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let found =
            std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name))).find(|it| it.is_file());
        let Some(program) = found else {
            skipped("the console was not looked at in a browser: install chromium");
            return None;
        };
        let driver = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/browser.py");
        let mut child = Command::new("python3")
            .arg(driver)
            .arg(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (steps, answers) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser = Self { child, steps, answers };
        assert_eq!(browser.answer(), json!("ready"));
        Some(browser)
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("the browser said {line:?}"));
        assert!(answer["error"].is_null(), "{}", answer["error"]);
        answer["ok"].clone()
    }

    #[track_caller]
    pub(super) fn step(&mut self, step: &Value) -> Value {
        let steps = self.steps.as_mut().unwrap();
        writeln!(steps, "{step}").unwrap();
        self.answer()
    }

    #[track_caller]
    pub(super) fn go(&mut self, url: &str) {
        self.step(&json!({"go": url}));
    }

    #[track_caller]
    pub(super) fn eval(&mut self, script: &str) -> Value {
        self.step(&json!({"eval": script}))
    }

    #[track_caller]
    pub(super) fn wait(&mut self, script: &str) {
        self.step(&json!({"wait": script}));
    }

    pub(super) fn text(&mut self) -> String {
        self.eval("document.body.innerText").as_str().unwrap().to_owned()
    }

    /// Presses the button with this text and waits for the next page.
    #[track_caller]
    pub(super) fn press(&mut self, label: &str) {
        let button = format!("[...document.querySelectorAll('button')].find(b => b.innerText.trim() === {label:?})");
        self.eval(&format!("window.before = 1; ({button}).click()"));
        self.wait("!window.before && document.readyState === 'complete'");
    }

    /// Presses a button in the row of a table whose first cell, or second one, is this.
    #[track_caller]
    pub(super) fn press_in(&mut self, row: &str, label: &str) {
        let found = format!(
            "[...document.querySelectorAll('tr')].filter(r => r.cells[0].innerText.trim() === {row:?})\
             .flatMap(r => [...r.querySelectorAll('button')]).find(b => b.textContent === {label:?})"
        );
        self.eval(&format!("window.before = 1; ({found}).click()"));
        self.wait("!window.before && document.readyState === 'complete'");
    }

    /// Opens what is done with care, and presses its button.
    #[track_caller]
    pub(super) fn grave(&mut self, key: &str, label: &str) {
        let place = format!("document.querySelector('[data-key^={key:?}]')");
        self.eval(&format!("{place}.querySelector('summary').click()"));
        assert_eq!(self.eval(&format!("{place}.querySelector('button').innerText.trim()")), label);
        self.eval(&format!("window.before = 1; {place}.querySelector('button').click()"));
        self.wait("!window.before && document.readyState === 'complete'");
    }

    /// Writes into a field.
    #[track_caller]
    pub(super) fn fill(&mut self, name: &str, text: &str) {
        self.eval(&format!("document.querySelector('form.entry [name={name}]').value = {text:?}"));
    }

    #[track_caller]
    pub(super) fn sign_in(&mut self, console: &Console, user: &[&str]) {
        let code = console.code(user);
        self.go(&format!("http://{}/sign-in/{code}", console.here()));
        self.press("Sign in");
        self.wait("document.querySelector('h1')?.innerText === 'Home'");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.steps.take());
        drop(self.child.wait());
    }
}

/// The pictures of docs/console.md.
const DOCUMENTED: [&str; 6] =
    ["home-desktop", "decision-phone", "chat-desktop-dark", "why-phone", "tasks-desktop", "people-phone-dark"];

/// Where a picture goes: into the documents if they are to be updated and have it.
fn picture(name: &str) -> PathBuf {
    let update = std::env::var_os("HEARTH_UPDATE_DOCS").is_some() && DOCUMENTED.contains(&name);
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/console");
    let dir = if update { docs } else { PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("console") };
    std::fs::create_dir_all(&dir).unwrap();
    dir.join(format!("{name}.png"))
}

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

/// What has to hold for every page.
#[track_caller]
pub(super) fn look(browser: &mut Browser, console: &Console, name: &str) {
    for (shape, width, height, dark) in [
        ("phone", 360, 740, false),
        ("phone-dark", 360, 740, true),
        ("desktop", 1_200, 800, false),
        ("desktop-dark", 1_200, 800, true),
    ] {
        let file = picture(&format!("{name}-{shape}"));
        let wide = browser.step(&json!({"shot": file, "width": width, "height": height, "dark": dark}));
        assert!(wide.as_i64().unwrap() <= width, "{name} is {wide} wide in a window of {width}");
    }
    assert_eq!(browser.eval("typeof window.xss"), "undefined", "{name}: a text of a stranger ran");
    let noise = browser.step(&json!({"noise": true}));
    assert_eq!(noise, json!([]), "{name}");
    for url in browser.step(&json!({"requests": true})).as_array().unwrap() {
        let url = url.as_str().unwrap();
        let own = url.starts_with(&format!("http://{}/", console.here()));
        assert!(own, "{name} asks others: {url}");
    }
    let headings =
        "document.querySelectorAll('h1').length === 1 && document.documentElement.lang === 'en' && !!document.title";
    assert_eq!(browser.eval(headings), true, "{name}");
    for node in browser.step(&json!({"axtree": true})).as_array().unwrap() {
        let role = node[0].as_str().unwrap();
        if ["button", "link", "textbox", "image", "main", "navigation"].contains(&role) && role != "main" {
            assert!(!node[1].as_str().unwrap().trim().is_empty(), "{name}: a {role} has no name");
        }
    }
    // Everything that is clicked is large enough for a finger, and reached by the keyboard.
    let small =
        "[...document.querySelectorAll('main button')].filter(b => b.getBoundingClientRect().height < 32).length";
    assert_eq!(browser.eval(small), 0, "{name}");
    assert_eq!(browser.eval("[...document.querySelectorAll('[tabindex]')].some(e => e.tabIndex > 0)"), false, "{name}");
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
