//! Every button of every page is pressed, and does what it says. The pages themselves say which buttons there are.

use std::collections::BTreeSet;

use serde_json::json;

use super::asking::{ask, asking, decide, rows, skip, visit_all};
use super::driver::Browser;
use super::{Console, FAMILY, HOSTILE_NAME, PEOPLE};
use crate::host::agents::json_of;
use crate::host::{event, wait_for};

/// Notes each button that a page shows and each form that is submitted, by what it does.
const RECORDER: &str = r"
(() => {
  const kind = (form, button) => {
    const field = (name) => button?.name === name ? button.value : form.querySelector(`input[name=${name}]`)?.value;
    const first = new URL(form.action).pathname.split('/')[1];
    const about = {
      do: () => field('do'),
      memory: () => field('how'),
      decide: () => {
        const id = field('id').replace(/\d+/, '');
        return id + ' ' + (id === 'qu' ? 'option' : field('value').split(':')[0]);
      },
    }[first];
    return `${form.method} /${first}` + (about ? ` ${about()}` : '');
  };
  const keep = (name, one) => {
    const all = new Set(JSON.parse(localStorage[name] || '[]'));
    all.add(one);
    localStorage[name] = JSON.stringify([...all]);
  };
  const look = () => {
    for (const button of document.querySelectorAll('button')) {
      keep('seen', button.form ? kind(button.form, button) : `without a form: ${button.innerText}`);
    }
  };
  addEventListener('DOMContentLoaded', () => {
    look();
    new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
  });
  addEventListener('submit', (event) => keep('pressed', kind(event.target, event.submitter)), true);
})()";

/// Someone writes in a chat.
fn inject(console: &Console, id: &str, chat: &str, sender: &str) {
    let mut said = event(id, "Hello?");
    said["platformId"] = chat.into();
    said["message"]["isMention"] = true.into();
    said["message"]["content"]["senderId"] = sender.into();
    console.host.done(&["inject", "--json"], said.to_string().as_bytes());
}

fn questions(browser: &mut Browser, console: &Console) {
    let question = json!({"action": "ask_user_question", "title": "Deploy?", "question": "To production",
        "options": ["Yes", {"label": "No", "value": "never"}]});
    ask(browser, console, &question);
    browser.wait("[...document.querySelectorAll('.line button')].some(b => b.innerText === 'Yes')");
    browser.press("Yes");
    browser.wait("document.body.innerText.includes('\"value\": \"Yes\"')");
    assert_eq!(json_of(&console.host, &["questions", "show", "qu1", "--json"])["value"], "Yes");
    ask(browser, console, &question);
    decide(browser, console, "qu2", "never", None);
    assert_eq!(json_of(&console.host, &["questions", "show", "qu2", "--json"])["value"], "never");
}

fn approvals(browser: &mut Browser, console: &Console) {
    for (name, id, value, agents) in [("Garden Bot", "ap1", "approve", 3), ("House Bot", "ap2", "reject", 3)] {
        ask(browser, console, &json!({"action": "create_agent", "name": name, "instructions": "Find out."}));
        decide(browser, console, id, value, None);
        assert_eq!(console.host.rows("agents").len(), agents, "{name}");
    }
    inject(console, "s1", "77", "900");
    decide(browser, console, "ap3", "approve", None);
    assert!(rows(console, "members").contains("900"));
    for (chat, id, value, text) in
        [("91", "ap4", "connect:ag1", None), ("92", "ap5", "new_agent", Some("Kitchen")), ("93", "ap6", "ignore", None)]
    {
        inject(console, &format!("c{chat}"), chat, "9");
        decide(browser, console, id, value, text);
    }
    let chats = console.host.done(&["chats", "list"], b"");
    let line = |chat: &str| chats.lines().find(|line| line.contains(&format!("telegram/{chat}"))).unwrap().to_owned();
    assert!(line("91").contains("main") && line("92").contains("kitchen") && !line("93").contains("main"), "{chats}");
}

fn skips(browser: &mut Browser, console: &Console) {
    for (id, reason, answer, kept) in [("sk1", "no answer", "now", "DoNow"), ("sk2", "no time", "leave", "Leave")] {
        // It belongs to the turn that waits for an answer, so it can be done now.
        let question = json!({"action": "ask_user_question", "title": "Go?", "question": "On", "options": ["Go on"]});
        ask(browser, console, &question);
        browser.wait("[...document.querySelectorAll('.line button')].some(b => b.innerText === 'Go on')");
        skip(console, reason, "letters");
        wait_for("the skip", || rows(console, "skips").contains(reason).then_some(()));
        browser.press("Go on");
        browser.go(&format!("http://{}/", console.here()));
        browser.wait(&format!("!!document.getElementById({id:?})"));
        assert!(browser.text().contains(reason), "{}", browser.text());
        decide(browser, console, id, answer, None);
        assert!(rows(console, "skips").contains(kept), "{}", rows(console, "skips"));
        browser.go(&format!("http://{}/asked/{id}", console.here()));
        assert!(browser.text().contains("acknowledged"), "{}", browser.text());
    }
}

fn tasks(browser: &mut Browser, console: &Console) {
    console.host.done(&["tasks", "add", "main", "Water the plants", "--every", "2h", "--no-chat"], b"");
    browser.go(&format!("http://{}/tasks", console.here()));
    browser.press_in("ta1", "Run now");
    wait_for("the run", || rows(console, "bodies").contains("Water the plants").then_some(()));
    for (label, state) in [("Pause", "Paused"), ("Resume", "Active"), ("Yes: Cancel", "Cancelled")] {
        browser.press_in("ta1", label);
        assert!(rows(console, "tasks").contains(state), "{label}: {}", rows(console, "tasks"));
    }
}

fn hosts(browser: &mut Browser, console: &Console) {
    browser.go(&format!("http://{}/network", console.here()));
    for (label, host, decided) in [("Allow", "a.example", "Always"), ("Refuse", "b.example", "Never")] {
        browser.fill("to", host);
        browser.press(label);
        let grants = rows(console, "host_grants");
        assert!(grants.contains(decided), "{label}: {grants}");
    }
    browser.grave("revoke-host", "Yes: Revoke");
    assert_eq!(console.host.rows("host_grants").len(), 1);
}

fn agents(browser: &mut Browser, console: &Console) {
    // A turn that waits for an answer is running.
    ask(
        browser,
        console,
        &json!({"action": "ask_user_question", "title": "Go?", "question": "Now", "options": ["Yes"]}),
    );
    browser.wait("[...document.querySelectorAll('.line button')].some(b => b.innerText === 'Yes')");
    browser.go(&format!("http://{}/agents", console.here()));
    browser.grave("stop main", "Yes: Stop");
    assert!(browser.text().contains("main is stopped."), "{}", browser.text());
    wait_for("the turn to end", || (!rows(console, "messages").contains("Claimed")).then_some(()));
    browser.grave("freeze main", "Yes: Freeze");
    assert_eq!(console.host.rows("frozen_agents").len(), 1);
    browser.press("Unfreeze");
    assert_eq!(console.host.rows("frozen_agents").len(), 0);
}

/// What rows about the person `telegram:8` contain.
const EIGHT: &str = "\"handle\":\"8\"";

fn people(browser: &mut Browser, console: &Console) {
    browser.go(&format!("http://{}/people", console.here()));
    for (at, label, with, kept) in [(0, "Add", "main", "members"), (1, "Grant", "admin", "roles")] {
        let form = format!("document.querySelectorAll('form.entry')[{at}]");
        browser.eval(&format!("{form}.querySelector('[name=of]').value = 'telegram:8'"));
        browser.eval(&format!("{form}.querySelector('[name=to]').value = {with:?}"));
        browser.press(label);
        assert!(rows(console, kept).contains(EIGHT), "{label}: {}", rows(console, kept));
    }
    browser.grave("remove-member telegram:8", "Yes: Remove from main");
    browser.grave("revoke telegram:8", "Yes: Revoke admin");
    assert!(!rows(console, "members").contains(EIGHT) && !rows(console, "roles").contains(EIGHT));
    let denied = |console: &Console| {
        let chats = console.host.rows("chats");
        chats.iter().find(|row| row["value"]["platform_id"] == "93").map(|row| row["value"]["denied"].clone())
    };
    for (label, is_denied) in [("Do not ask", true), ("Ask again", false)] {
        browser.press_in("mg7", label);
        assert_eq!(denied(console).map(|at| !at.is_null()), Some(is_denied), "{label}");
    }
}

fn lookups(browser: &mut Browser, console: &Console) {
    let dir = console.host.data().join("groups/main/memory");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("notes.md"), "Ann likes tea\nBob likes tea\n").unwrap();
    let file = format!("http://{}/memory/main/memory%2Fnotes.md", console.here());
    let text = || std::fs::read_to_string(dir.join("notes.md")).unwrap();
    browser.go(&format!("{file}?line=1"));
    browser.eval("document.querySelector('textarea').value = 'Ann likes water'");
    browser.press("Correct");
    assert_eq!(text(), "Ann likes water\nBob likes tea\n");
    browser.go(&format!("{file}?line=2"));
    browser.press("Remove");
    assert_eq!(text(), "Ann likes water\n");
    for (page, field, value, shows) in
        [("why", "id", "latest", "What happened"), ("search", "q", "plants", "Water the")]
    {
        browser.go(&format!("http://{}/{page}", console.here()));
        browser.eval(&format!("document.querySelector('main input[name={field}]').value = {value:?}"));
        browser.press(if page == "why" { "Show" } else { "Search" });
        assert!(browser.text().contains(shows), "{page}: {}", browser.text());
    }
    browser.go(&format!("http://{}/health", console.here()));
    browser.press("Check everything now");
    assert!(browser.text().contains("data directory"), "{}", browser.text());
}

#[test]
fn every_button_is_pressed_and_does_what_it_says() {
    let Some(mut browser) = Browser::start() else { return };
    let console = asking(&format!("{}{PEOPLE}", FAMILY.replace(HOSTILE_NAME, "Family")));
    browser.step(&json!({"inject": RECORDER}));
    browser.sign_in(&console, &[]);
    questions(&mut browser, &console);
    approvals(&mut browser, &console);
    skips(&mut browser, &console);
    tasks(&mut browser, &console);
    hosts(&mut browser, &console);
    agents(&mut browser, &console);
    people(&mut browser, &console);
    lookups(&mut browser, &console);
    let pages = visit_all(&mut browser, &console, |_, _| {});
    assert!(pages > 15, "{pages} kinds of pages");
    // Another browser, and then this one.
    console.sign_in(&["--user", "telegram:5"]);
    assert_eq!(console.sessions(), 2);
    browser.go(&format!("http://{}/sessions", console.here()));
    browser.press_in("cs2", "Sign out");
    assert!(console.sessions() == 1 && browser.text().contains("cs2 is signed out."), "{}", browser.text());
    browser.press("Sign out");
    assert_eq!(console.sessions(), 0);
    let [seen, pressed] = ["seen", "pressed"].map(|name| {
        let all = browser.eval(&format!("JSON.parse(localStorage.{name})"));
        serde_json::from_value::<BTreeSet<String>>(all).unwrap()
    });
    assert!(seen.len() > 30, "{seen:?}");
    let left: Vec<_> = seen.difference(&pressed).collect();
    assert!(left.is_empty(), "not pressed: {left:?}; pressed: {pressed:?}");
    console.host.check();
}
