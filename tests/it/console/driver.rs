//! Chromium, driven through its pipe by `tests/browser.py`, and what has to hold for every page in it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use super::Console;
use crate::host::{python, skipped};

/// A browser with one page.
pub(super) struct Browser {
    child: Child,
    steps: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Browser {
    /// None if this machine has no browser, which the list of skipped tests says.
    pub(super) fn start() -> Option<Self> {
        Self::with(&[])
    }

    /// With options of Chromium.
    pub(super) fn with(options: &[String]) -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let found =
            std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name))).find(|it| it.is_file());
        let Some(program) = found else {
            skipped("the console was not looked at in a browser: install chromium");
            return None;
        };
        let driver = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/browser.py");
        let mut command = python();
        command.arg(driver).arg(program).args(options);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
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
const DOCUMENTED: [&str; 18] = [
    "sign-in-phone",
    "login-phone",
    "home-desktop",
    "decisions-desktop",
    "decision-phone",
    "chat-desktop-dark",
    "why-phone",
    "found-desktop",
    "memory-files-desktop",
    "remembered-phone",
    "agents-desktop",
    "agents-main-desktop-dark",
    "tasks-desktop",
    "people-phone-dark",
    "network-desktop",
    "spend-desktop",
    "health-desktop-dark",
    "sessions-phone",
];

/// Where a picture goes, and whether that is into the documents: if they are to be updated and have it.
fn picture(name: &str) -> (PathBuf, bool) {
    let update = std::env::var_os("HEARTH_UPDATE_DOCS").is_some() && DOCUMENTED.contains(&name);
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/console");
    let dir = if update { docs } else { PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("console") };
    std::fs::create_dir_all(&dir).unwrap();
    (dir.join(format!("{name}.png")), update)
}

/// Nothing that axe-core knows keeps people from using a page.
#[track_caller]
fn obstacles(browser: &mut Browser, name: &str) {
    let axe = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/axe/node_modules/axe-core/axe.min.js");
    if !axe.is_file() {
        return skipped("pages of the console were not checked by axe-core; .ci/axe.sh installs it");
    }
    assert_eq!(browser.step(&json!({"axe": axe})), json!([]), "{name}");
}

/// What has to hold for every page.
#[track_caller]
pub(super) fn look(browser: &mut Browser, console: &Console, name: &str) {
    look_at(browser, console, name, None);
}

/// The same, with the pictures from this place on.
#[track_caller]
pub(super) fn look_at(browser: &mut Browser, console: &Console, name: &str, at: Option<&str>) {
    for (shape, width, height, dark) in [
        ("phone", 360, 740, false),
        ("phone-dark", 360, 740, true),
        ("desktop", 1_200, 800, false),
        ("desktop-dark", 1_200, 800, true),
    ] {
        let (file, small) = picture(&format!("{name}-{shape}"));
        let wide = browser
            .step(&json!({"shot": file, "width": width, "height": height, "dark": dark, "at": at, "small": small}));
        obstacles(browser, &format!("{name}-{shape}"));
        assert!(wide.as_i64().unwrap() <= width, "{name} is {wide} wide in a window of {width}");
    }
    let header = browser.eval("document.querySelector('header')?.offsetHeight ?? 0");
    assert!(header.as_i64().unwrap() < 64, "{name}: the navigation has more than one line, {header} pixels");
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
