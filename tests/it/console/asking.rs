//! A console with an agent that asks for things, and a walk through all its pages.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Console;
use super::driver::Browser;
use crate::host::Host;

/// Opens every page that links lead to, one of each kind, and looks at it.
pub(super) fn visit_all(browser: &mut Browser, console: &Console, mut look: impl FnMut(&mut Browser, &str)) -> usize {
    let base = format!("http://{}", console.here());
    let (mut known, mut open) = (BTreeSet::new(), vec!["/".to_owned()]);
    while let Some(path) = open.pop() {
        browser.go(&format!("{base}{path}"));
        look(browser, &path);
        let links = browser
            .eval("[...document.querySelectorAll('a[href^=\"/\"]:not([download])')].map(a => a.pathname + a.search)");
        for link in serde_json::from_value::<Vec<String>>(links).unwrap() {
            let kind: String = link.chars().filter(|c| !c.is_ascii_digit()).collect();
            if known.insert(kind) {
                open.push(link);
            }
        }
    }
    known.len()
}

/// Says something in the chat page, by its button.
pub(super) fn say(browser: &mut Browser, console: &Console, text: &str) {
    browser.go(&format!("http://{}/chat/main", console.here()));
    browser.eval(&format!("document.querySelector('textarea').value = {}", Value::from(text)));
    browser.eval("document.querySelector('#say button').click()");
    browser.wait("document.querySelector('textarea').value === '' && !document.getElementById('say').dataset.sending");
}

pub(super) fn ask(browser: &mut Browser, console: &Console, what: &Value) {
    say(browser, console, &format!("!ask {what}"));
}

pub(super) fn skip(console: &Console, reason: &str, item: &str) {
    let summary = json!({
        "schema_version": 1, "skill": "tessl__check-mail", "step": "tier 3", "reason": reason, "items": [item],
        "technical_failure": false, "occurred_at": "2026-05-01T08:00:00Z",
    });
    let file = console.host.data().join("groups/main/.skip-summary-tessl__check-mail.json");
    std::fs::write(file, summary.to_string()).unwrap();
}

/// Presses the button that submits this value about an approval, a question or skipped work.
pub(super) fn decide(browser: &mut Browser, console: &Console, id: &str, value: &str, text: Option<&str>) {
    browser.go(&format!("http://{}/asked", console.here()));
    browser.wait(&format!("!!document.getElementById({id:?})"));
    let form = format!(
        "[...document.querySelectorAll('#{id} form')].find(f => (f.querySelector('[name=value]').value + ':').startsWith({:?}))",
        format!("{value}:")
    );
    if let Some(text) = text {
        browser.eval(&format!("({form}).querySelector('[name=text]').value = {text:?}"));
    }
    browser.eval(&format!("window.before = 1; ({form}).querySelector('button').click()"));
    browser.wait("!window.before && document.readyState === 'complete'");
    assert!(browser.text().contains(&format!("{id}: ")), "{}", browser.text());
    assert_eq!(browser.eval(&format!("!!document.getElementById({id:?})")), false, "{id} is decided");
}

/// All rows of a table, as a text.
pub(super) fn rows(console: &Console, table: &str) -> String {
    json!(console.host.rows(table)).to_string()
}

/// A console with an agent that asks for things.
pub(super) fn asking(more: &str) -> Console {
    let mut host = Host::with_agent("");
    let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agent.py");
    host.env.push(("HEARTH_TEST_RUNNER".to_owned(), agent.to_owned()));
    Console::of(host, more)
}
