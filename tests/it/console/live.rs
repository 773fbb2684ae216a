//! What happens to an open page when something changes.

use serde_json::{Value, json};

use super::driver::Browser;
use super::{Console, FAMILY};
use crate::host::{event, wait_for};

/// A stranger says something where strangers need an approval.
fn stranger(console: &Console, sender: &str) {
    let mut said = event(&format!("s{sender}"), "May I come in?");
    said["platformId"] = "77".into();
    said["message"]["content"]["senderId"] = sender.into();
    console.host.done(&["inject", "--json"], said.to_string().as_bytes());
}

/// The agent is mentioned in a chat that no one knows.
fn new_chat(console: &Console, chat: &str) {
    let mut said = event(&format!("c{chat}"), "Hello?");
    said["platformId"] = chat.into();
    said["message"]["isMention"] = true.into();
    console.host.done(&["inject", "--json"], said.to_string().as_bytes());
}

/// Whether the element in `window.kept` is in the page and has the focus.
fn keeps_the_focus(browser: &mut Browser) -> bool {
    browser.eval("document.activeElement === window.kept") == true
}

#[test]
fn updates_come_while_something_has_the_focus_which_keeps_it_and_its_text() {
    let Some(mut browser) = Browser::start() else { return };
    let console = Console::with(FAMILY);
    let here = console.here();
    browser.sign_in(&console, &[]);
    browser.go(&format!("http://{here}/asked"));
    stranger(&console, "900");
    browser.wait("!!document.getElementById('ap1')");
    browser.eval("window.kept = document.querySelector('#ap1 button'); window.kept.focus()");
    new_chat(&console, "99");
    browser.wait("!!document.getElementById('ap2')");
    assert!(keeps_the_focus(&mut browser), "a button has the focus, and another card came");
    // More waits for the card that has the focus.
    let more = "document.querySelectorAll('#ap1 blockquote').length";
    let before = browser.eval(more).as_i64().unwrap();
    let mut again = event("s900b", "It is me again.");
    again["platformId"] = "77".into();
    again["message"]["content"]["senderId"] = "900".into();
    console.host.done(&["inject", "--json"], again.to_string().as_bytes());
    browser.wait(&format!("{more} === {}", before + 1));
    assert!(keeps_the_focus(&mut browser), "its card has changed");
    // What is being written stays.
    browser.eval("window.kept = document.querySelector('#ap2 input[name=text]'); window.kept.focus()");
    browser.eval("document.execCommand('insertText', false, 'Research')");
    console.host.done(&["approvals", "reject", "ap1"], b"");
    browser.wait("!document.getElementById('ap1')");
    stranger(&console, "901");
    browser.wait("!!document.getElementById('ap3')");
    assert!(keeps_the_focus(&mut browser));
    assert_eq!(browser.eval("window.kept.value"), "Research");
    // What had the focus goes: the keyboard goes on from the page, and no other button has the focus.
    console.host.done(&["approvals", "reject", "ap2"], b"");
    browser.wait("!document.getElementById('ap2')");
    assert_eq!(browser.eval("document.activeElement.id"), "main");
}

#[test]
fn a_message_that_is_half_written_stays_while_the_chat_goes_on() {
    let Some(mut browser) = Browser::start() else { return };
    let mut console = Console::start();
    browser.sign_in(&console, &[]);
    let elsewhere = console.sign_in(&[]);
    browser.go(&format!("http://{}/chat/main", console.here()));
    browser.eval("window.kept = document.querySelector('textarea'); window.kept.focus()");
    browser.eval("document.execCommand('insertText', false, 'Good mning'); window.kept.setSelectionRange(6, 6)");
    for (at, text) in ["one", "two"].into_iter().enumerate() {
        let page = console.get("/chat/main", &elsewhere);
        let form = format!("token={}&id={}&text={text}", page.field("token"), page.field("id"));
        assert_eq!(console.post("/chat/main", &elsewhere, &form).status, 303);
        browser.wait(&format!("document.querySelectorAll('.line.agent').length === {}", at + 1));
        assert!(keeps_the_focus(&mut browser), "{text}");
        assert_eq!(browser.eval("[window.kept.value, window.kept.selectionStart]"), json!(["Good mning", 6]), "{text}");
        if at == 0 {
            console.host.kill();
            browser.wait("!document.getElementById('offline').hidden");
            console.host.start();
            browser.wait("document.getElementById('offline').hidden");
        }
    }
    browser.eval("document.execCommand('insertText', false, 'or')");
    browser.step(&json!({"key": "Enter"}));
    browser.wait("[...document.querySelectorAll('.line.agent')].at(-1).innerText.includes('echo: Good morning')");
}

#[test]
fn a_button_that_has_the_focus_never_comes_to_do_something_else() {
    let Some(mut browser) = Browser::start() else { return };
    let console = Console::start();
    for prompt in ["Water the plants", "Read the news"] {
        console.host.done(&["tasks", "add", "main", prompt, "--every", "2h", "--no-chat"], b"");
    }
    browser.sign_in(&console, &[]);
    browser.go(&format!("http://{}/tasks", console.here()));
    let button = "[...document.querySelectorAll('button')].find(b => b.getAttribute('aria-label') === 'Pause (ta1)')";
    browser.eval(&format!("window.kept = {button}; window.kept.focus()"));
    console.host.done(&["tasks", "pause", "ta2"], b"");
    browser.wait("document.body.innerText.includes('Resume')");
    assert!(keeps_the_focus(&mut browser), "another row has changed");
    let pressed = browser.eval("new FormData(window.kept.form).get('of')");
    assert_eq!(pressed, "ta1");
    console.host.done(&["tasks", "cancel", "ta2"], b"");
    browser.wait("!document.body.innerText.includes('Read the news')");
    assert!(keeps_the_focus(&mut browser), "another row is gone");
    console.host.done(&["tasks", "pause", "ta1"], b"");
    browser.wait("document.body.innerText.includes('Resume')");
    assert_ne!(browser.eval("document.activeElement.tagName"), "BUTTON", "the button does something else now");
}

#[test]
fn memory_is_shown_as_it_is_and_a_line_that_is_corrected_stays() {
    let Some(mut browser) = Browser::start() else { return };
    let console = Console::start();
    let dir = console.host.data().join("groups/main/memory");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("notes.md"), "one\ntwo\n").unwrap();
    console.host.done(&["tasks", "add", "main", "Water the plants", "--every", "2h", "--no-chat"], b"");
    browser.sign_in(&console, &[]);
    let file = format!("http://{}/memory/main/memory%2Fnotes.md", console.here());
    browser.go(&format!("{file}?from=2"));
    std::fs::write(dir.join("notes.md"), "one\ntwo\nthree\n").unwrap();
    console.host.done(&["tasks", "pause", "ta1"], b"");
    browser.wait("document.body.innerText.includes('three')");
    assert_eq!(browser.eval("!!document.getElementById('line1')"), false, "it shows the lines that were asked for");
    browser.go(&format!("{file}?line=1"));
    browser.eval("document.querySelector('textarea').value = 'a better one'");
    std::fs::write(dir.join("notes.md"), "other\ntwo\nthree\n").unwrap();
    console.host.done(&["tasks", "resume", "ta1"], b"");
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(browser.eval("document.querySelector('textarea').value"), "a better one");
    browser.press("Correct");
    assert!(browser.text().contains("not that any more"), "{}", browser.text());
    browser.go(&format!("http://{}/memory", console.here()));
    std::fs::write(dir.join("more.md"), "more\n").unwrap();
    console.host.done(&["tasks", "pause", "ta1"], b"");
    browser.wait("document.body.innerText.includes('memory/more.md')");
}

/// Sends a text with its line breaks.
fn say(browser: &mut Browser, text: &str) {
    browser.eval(&format!("document.querySelector('textarea').value = {}", Value::from(text)));
    browser.eval("document.getElementById('say').requestSubmit()");
}

#[test]
fn the_chat_shows_what_the_agent_does_and_what_it_is_writing() {
    let Some(mut browser) = Browser::start() else { return };
    let console = Console::start();
    browser.sign_in(&console, &[]);
    browser.go(&format!("http://{}/chat/main", console.here()));
    browser.eval("window.stays = 1");
    say(&mut browser, "!tool Search - 3s");
    browser.wait("document.querySelector('.working')?.innerText.includes('uses Search')");
    browser.wait("!document.querySelector('.working')");
    say(&mut browser, "!write 3s a text that is not complete\nthe answer");
    browser.wait("document.querySelector('.partial')?.innerText === 'a text that is not complete'");
    assert_eq!(browser.eval("[...document.querySelectorAll('.line')].at(-1).className"), "line agent partial");
    // What has the focus in the history keeps it while the answer arrives.
    browser.eval("window.kept = document.querySelector('.line.person a'); window.kept.focus()");
    browser.wait("[...document.querySelectorAll('.line.agent')].at(-1).innerText.includes('echo: the answer')");
    assert!(keeps_the_focus(&mut browser));
    let shown = "[...document.querySelectorAll('.line')].filter(l => l.innerText.includes('not complete')).length";
    assert_eq!(browser.eval(shown), 1, "only what the person wrote says it");
    assert_eq!(browser.eval("!!document.querySelector('.partial')"), false);
    assert_eq!(browser.eval("window.stays"), 1, "the page was loaded again");
}

/// Browsers open six connections to a host.
#[test]
fn each_of_many_tabs_is_loaded_and_live() {
    let Some(mut browser) = Browser::start() else { return };
    let mut console = Console::start();
    console.host.done(&["tasks", "add", "main", "Water the plants", "--every", "2h", "--no-chat"], b"");
    browser.sign_in(&console, &[]);
    for tab in 0..8 {
        browser.step(&json!({"tab": tab}));
        browser.go(&format!("http://{}/tasks", console.here()));
        browser.eval("window.stays = 1");
    }
    let shows = |browser: &mut Browser, prompt: &str| {
        browser.wait(&format!("document.body.innerText.includes({prompt:?}) && window.stays === 1"));
    };
    console.host.done(&["tasks", "set", "ta1", "--prompt", "Water all plants"], b"");
    shows(&mut browser, "Water all plants");
    // One that was hidden catches up, and is live again.
    browser.step(&json!({"tab": 1}));
    shows(&mut browser, "Water all plants");
    console.host.done(&["tasks", "set", "ta1", "--prompt", "Water no plants"], b"");
    shows(&mut browser, "Water no plants");
    // Also if the daemon died meanwhile.
    console.host.kill();
    browser.step(&json!({"tab": 2}));
    browser.wait("!document.getElementById('offline').hidden");
    console.host.start();
    shows(&mut browser, "Water no plants");
    browser.wait("document.getElementById('offline').hidden");
}

/// Home warns of what `hearth status` warns of, as far as a running daemon can have it.
#[test]
fn home_and_the_command_warn_of_the_same() {
    let more = "[[budgets]]\nscope = \"agent:main\"\nper = \"day\"\ntokens = 5\n\
                [channels.nowhere]\ntype = \"webhook\"\nsecret = \"env:NO_SUCH_VARIABLE\"\nlisten = \"127.0.0.1:1\"\n\
                [[agents]]\nfolder = \"other\"\nprovider = \"echo\"\nunconfined = true\n";
    let console = Console::of(crate::host::Host::with_echo(), more);
    let cookie = console.sign_in(&[]);
    std::fs::write(console.host.data().join("groups/main/session-state.json"), "{\"schema_version\": 9}").ok();
    let warned = wait_for("warnings", || {
        let status = console.host.status();
        let warnings = status["warnings"].as_array()?.clone();
        (warnings.len() > 2).then_some(warnings)
    });
    let home = console.get("/", &cookie).body;
    let (_, problems) = home.split_once("<h2>Problems</h2>").unwrap();
    for warning in &warned {
        let text = warning.as_str().unwrap().replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
        assert!(problems.contains(&text), "{text}: {problems}");
    }
    let all = json!(warned).to_string();
    for part in ["unconfined", "provider echo", "nowhere"] {
        assert!(all.contains(part), "{part}: {all}");
    }
}

/// What Home shows as problems; none if it has no such part.
fn problems(console: &Console, cookie: &str) -> Option<String> {
    let home = console.get("/", cookie).body;
    let (_, rest) = home.split_once("<h2>Problems</h2>")?;
    Some(rest.split_once("</section>").unwrap().0.to_owned())
}

/// The owner's and another admin's agent have the same problems, and the installation has its own.
#[test]
fn admins_are_warned_of_their_agents_and_of_nothing_else() {
    let mut more = "[[budgets]]\nscope = \"agent:none\"\nper = \"day\"\ntokens = 5\n\
                    [channels.nowhere]\ntype = \"webhook\"\nsecret = \"env:NO_SUCH_SECRET\"\nlisten = \"127.0.0.1:1\"\n\
                    [[users]]\nid = \"telegram:5\"\nmember_of = [\"first\"]\n"
        .to_owned();
    for (agent, admin) in [("first", "telegram:6"), ("second", "telegram:7")] {
        more += &format!(
            "[[agents]]\nfolder = \"{agent}\"\nprovider = \"echo\"\nunconfined = true\nnetwork = \"none\"\n\
             env = {{ TOKEN = \"env:NO_SUCH_TOKEN\" }}\n[[users]]\nid = \"{admin}\"\nroles = [\"admin:{agent}\"]\n"
        );
    }
    let console = Console::of(crate::host::Host::with_echo(), &more);
    for agent in ["first", "second"] {
        console.host.done(&["agents", "freeze", agent], b"");
    }
    let of_agents = ["is unconfined", "is frozen", "env:NO_SUCH_TOKEN of"];
    let of_all = ["nowhere", "there is no agent:none", "provider echo"];
    let owner = console.sign_in(&[]);
    let shown = problems(&console, &owner).unwrap();
    for part in of_agents.iter().chain(&of_all).chain(&["agent first", "agent second"]) {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    for (admin, own, other) in [("telegram:6", "first", "second"), ("telegram:7", "second", "first")] {
        let cookie = console.sign_in(&["--user", admin]);
        let shown = problems(&console, &cookie).unwrap();
        for part in of_agents.map(str::to_owned).iter().chain(&[format!("agent {own}")]) {
            assert!(shown.contains(part.as_str()), "{admin} {part}: {shown}");
        }
        for part in of_all.iter().chain(&[other, "main"]) {
            assert!(!shown.contains(part), "{admin} {part}: {shown}");
        }
    }
    assert_eq!(problems(&console, &console.sign_in(&["--user", "telegram:5"])), None);
}
