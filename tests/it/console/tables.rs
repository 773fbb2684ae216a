//! The buttons of the console's tables: what they do, for whom, and how they look.

use serde_json::json;

use super::driver::{Browser, look};
use super::{Console, PEOPLE, me};
use crate::host::wait_for;

/// Two agents with a task each.
fn setup() -> Console {
    let console = Console::with(PEOPLE);
    for (agent, prompt) in [("main", "Water the plants"), ("other", "Read the news")] {
        console.host.done(&["tasks", "add", agent, prompt, "--every", "2h", "--no-chat"], b"");
    }
    console
}

fn task(console: &Console, at: usize) -> String {
    console.host.rows("tasks")[at].to_string()
}

/// The form of a command.
fn form(token: &str, what: &str, of: &str, to: &str) -> String {
    let encoded = |text: &str| text.replace(':', "%3A").replace('/', "%2F");
    format!("token={token}&do={what}&of={}&to={}", encoded(of), encoded(to))
}

#[test]
fn tables_have_buttons_that_do_what_commands_do() {
    let Some(mut browser) = Browser::start() else { return };
    let console = setup();
    let here = console.here();
    browser.sign_in(&console, &[]);
    browser.go(&format!("http://{here}/tasks"));
    assert!(browser.text().contains("Water the plants") && browser.text().contains("Read the news"));
    browser.press_in("ta1", "Pause");
    assert!(browser.text().contains("ta1 is paused.") && task(&console, 0).contains("Paused"), "{}", browser.text());
    browser.press_in("ta1", "Resume");
    assert!(task(&console, 0).contains("Active"), "{}", task(&console, 0));
    browser.press_in("ta2", "Run now");
    browser.wait("document.body.innerText.includes('done')");
    browser.eval("document.querySelector('[data-key^=\"cancel ta2\"] summary').click()");
    look(&mut browser, &console, "tasks-cancel");
    // What was opened stays open while the page updates itself.
    console.host.done(&["tasks", "set", "ta1", "--prompt", "Water all plants"], b"");
    browser.wait("document.body.innerText.includes('Water all plants')");
    browser.press_in("ta2", "Yes: Cancel");
    assert!(task(&console, 1).contains("Cancelled"), "{}", task(&console, 1));

    browser.go(&format!("http://{here}/network"));
    browser.fill("to", "api.example.org");
    look(&mut browser, &console, "network-form");
    browser.press("Allow");
    assert!(browser.text().contains("api.example.org:443"), "{}", browser.text());
    let grants = console.host.rows("host_grants");
    assert!(grants[0].to_string().contains("Always") && grants[0].to_string().contains("Person"), "{grants:?}");
    browser.grave("revoke-host", "Yes: Revoke");
    assert_eq!(console.host.rows("host_grants").len(), 0);
    browser.fill("to", "*.example.org");
    browser.press("Refuse");
    assert!(browser.text().contains("one host"), "{}", browser.text());
    // The browser notes that it was refused.
    browser.step(&json!({"noise": true}));

    browser.go(&format!("http://{here}/agents"));
    browser.grave("freeze other", "Yes: Freeze");
    assert!(browser.text().contains("frozen") && console.host.rows("frozen_agents").len() == 1, "{}", browser.text());
    look(&mut browser, &console, "agents-frozen");
    browser.press("Unfreeze");
    assert_eq!(console.host.rows("frozen_agents").len(), 0);
    browser.go(&format!("http://{here}/agents/main"));
    assert!(browser.text().contains("provider") && browser.text().contains("Sessions"), "{}", browser.text());
    look(&mut browser, &console, "agent");

    browser.go(&format!("http://{here}/people"));
    browser.eval("document.querySelectorAll('form.entry input[name=of]')[1].value = 'telegram:9'");
    browser.eval("document.querySelectorAll('form.entry select')[1].value = 'admin'");
    browser.press("Grant");
    assert!(browser.text().contains("telegram:9"), "{}", browser.text());
    browser.grave("revoke telegram:9", "Yes: Revoke admin");
    browser.grave(&format!("revoke {}", me()), "Yes: Revoke owner");
    assert!(browser.text().contains("only owner"), "{}", browser.text());
    browser.step(&json!({"noise": true}));

    browser.go(&format!("http://{here}/health"));
    assert!(browser.text().contains("Not checked since"), "{}", browser.text());
    browser.press("Check everything now");
    assert!(browser.text().contains("data directory"), "{}", browser.text());
    look(&mut browser, &console, "health-checked");

    browser.go(&format!("http://{here}/sessions"));
    browser.press("Sign out");
    assert!(browser.text().contains("Not signed in"), "{}", browser.text());
}

/// The store changes before the browser leaves the page that was open, so that page updates itself in between.
#[test]
fn what_was_done_is_told_to_the_page_that_opens_next() {
    let console = setup();
    let cookie = console.sign_in(&[]);
    let token = console.get("/tasks", &cookie).field("token");
    assert_eq!(console.post("/do", &cookie, &form(&token, "pause", "ta1", "")).status, 303);
    assert!(!console.get("/tasks?update=1", &cookie).body.contains("ta1 is paused."));
    assert!(console.get("/tasks", &cookie).body.contains("ta1 is paused."));
    assert!(!console.get("/tasks", &cookie).body.contains("ta1 is paused."), "once");
}

#[test]
fn an_admin_of_one_agent_sees_and_does_nothing_to_others() {
    let Some(mut browser) = Browser::start() else { return };
    let console = setup();
    let here = console.here();
    browser.sign_in(&console, &["--user", "telegram:6"]);
    browser.go(&format!("http://{here}/tasks"));
    let text = browser.text();
    assert!(text.contains("Read the news") && !text.contains("Water the plants"), "{text}");
    browser.press_in("ta2", "Pause");
    assert!(task(&console, 1).contains("Paused"), "{}", task(&console, 1));
    let links = browser.eval("[...document.querySelectorAll('nav a')].map(a => a.innerText).join()");
    let links = links.as_str().unwrap();
    assert!(!links.contains("People") && !links.contains("Spend") && !links.contains("Health"), "{links}");
    for (page, shows) in [("agents", "Research"), ("agents/other", "Sessions"), ("network", "Decide about a host")] {
        browser.go(&format!("http://{here}/{page}"));
        let text = browser.text();
        assert!(text.contains(shows) && !text.contains("main"), "{page}: {text}");
    }
    for page in ["agents/main", "chat/main", "agents/..%2Fmain"] {
        browser.go(&format!("http://{here}/{page}"));
        assert!(browser.text().contains("you may not"), "{page}: {}", browser.text());
    }
    for page in ["people", "spend", "health"] {
        browser.go(&format!("http://{here}/{page}"));
        assert!(browser.text().contains("Nothing."), "{page}: {}", browser.text());
    }
    // The browser notes that some were not found.
    browser.step(&json!({"noise": true}));
    browser.go(&format!("http://{here}/agents"));
    look(&mut browser, &console, "admin-agents");

    // A member sees the own chat.
    let mut member = Browser::start().unwrap();
    member.sign_in(&console, &["--user", "telegram:5"]);
    for page in ["tasks", "agents", "network", "people", "spend", "health"] {
        member.go(&format!("http://{here}/{page}"));
        assert!(member.text().contains("Nothing."), "{page}: {}", member.text());
    }
    member.go(&format!("http://{here}/agents/main"));
    assert!(member.text().contains("you may not"), "{}", member.text());
    member.step(&json!({"noise": true}));
    member.go(&format!("http://{here}/chat/main"));
    assert_eq!(member.eval("!!document.getElementById('say')"), json!(true));
    look(&mut member, &console, "member-chat");
}

/// Forms that no page of the person has.
#[test]
fn commands_without_the_right_are_refused_and_do_nothing() {
    let console = setup();
    let (owner, admin, member) =
        (console.sign_in(&[]), console.sign_in(&["--user", "telegram:6"]), console.sign_in(&["--user", "telegram:5"]));
    let tables = ["tasks", "host_grants", "frozen_agents", "roles", "members", "chats", "console_sessions"];
    let before = tables.map(|table| console.host.rows(table));
    let me = me();
    let denied = [
        ("pause", "ta1", ""),
        ("resume", "ta1", ""),
        ("run", "ta1", ""),
        ("cancel", "ta1", ""),
        ("pause", "ta99", ""),
        ("stop", "main", ""),
        ("freeze", "main", ""),
        ("unfreeze", "main", ""),
        ("freeze", "nowhere", ""),
        ("allow-host", "main", "a.example"),
        ("deny-host", "main", "a.example"),
        ("revoke-host", "main", "a.example"),
        ("grant", "telegram:6", "owner"),
        ("grant", "telegram:6", "admin:other"),
        ("revoke", me.as_str(), "owner"),
        ("add-member", "telegram:6", "main"),
        ("add-member", "telegram:5", "other"),
        ("remove-member", "telegram:5", "main"),
        ("deny-chat", "telegram", "77"),
        ("allow-chat", "telegram", "77"),
        ("sign-out", "cs1", ""),
    ];
    for (who, cookie) in [("admin", &admin), ("member", &member)] {
        let token = console.get("/", cookie).field("token");
        for (what, of, to) in denied {
            let answer = console.post("/do", cookie, &form(&token, what, of, to));
            assert_eq!(answer.status, 403, "{who}: {what} {of} {to}: {answer:?}");
        }
        assert_eq!(console.post("/doctor", cookie, &format!("token={token}")).status, 403, "{who}");
        // Without the token, and as a page that is only looked at.
        assert_eq!(console.post("/do", cookie, &form("", "pause", "ta2", "")).status, 403);
        assert_eq!(console.get(&format!("/do?{}", form(&token, "pause", "ta2", "")), cookie).status, 404);
    }
    let after = tables.map(|table| console.host.rows(table));
    assert_eq!(before, after, "nothing was done");
    let token = console.get("/", &owner).field("token");
    for (what, of, to, status) in [
        ("put-agent", "main", "", 409),
        ("pause", "x", "", 409),
        ("revoke", me.as_str(), "owner", 409),
        ("sign-out", "cs2", "", 303),
    ] {
        assert_eq!(console.post("/do", &owner, &form(&token, what, of, to)).status, status, "{what}");
    }
    assert_eq!(console.get("/", &admin).status, 401);
    // A right that was taken away is gone with the next request.
    let token = console.get("/", &member).field("token");
    console.host.done(&["roles", "grant", "telegram:5", "owner"], b"");
    assert_eq!(console.post("/do", &member, &form(&token, "pause", "ta1", "")).status, 303);
    console.host.done(&["roles", "revoke", "telegram:5", "owner"], b"");
    assert_eq!(console.post("/do", &member, &form(&token, "resume", "ta1", "")).status, 403);
    wait_for("the pause", || task(&console, 0).contains("Paused").then_some(()));
}
