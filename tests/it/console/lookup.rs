//! The pages on which people look things up: the search, and the memory of agents.

use hearth::model::Millis;
use hearth::model::id::MessageId;
use hearth::model::message::Message;
use hearth::state::{Options, Store};
use serde_json::json;

use super::driver::{Browser, look};
use super::{Answer, Console, me};
use crate::host::{event, wait_for};

const PEOPLE: &str = r#"
[[users]]
id = "telegram:5"
name = "Mel"
member_of = ["main"]
[[users]]
id = "telegram:7"
name = "Ed"
roles = ["admin:main"]
"#;

/// What an agent may write: it would run in a page that does not escape it.
const HOSTILE: &str = "<script>window.xss=1</script>\"'><svg onload=window.xss=1>";

const FILE: &str = "/memory/main/memory%2Fnotes.md";

/// A console, a note of the agent, and one in the memory that trusted agents share.
fn console() -> Console {
    let console = Console::with(PEOPLE);
    let (group, trusted) = (console.host.data().join("groups/main/memory"), console.host.data().join("trusted"));
    std::fs::create_dir_all(&group).unwrap();
    std::fs::create_dir_all(&trusted).unwrap();
    std::fs::write(group.join("notes.md"), format!("Ann likes tea\n{HOSTILE}\nlast\n")).unwrap();
    std::fs::write(trusted.join("user_profile.md"), "lives in Rome\n").unwrap();
    console.host.done(&["agents", "set", "main", "--trust", "trusted"], b"");
    console
}

/// Says something in the chat of a person with the agent.
fn say(console: &Console, cookie: &str, text: &str) {
    let chat = console.get("/chat/main", cookie);
    let form = format!("token={}&id={}&text={text}", chat.field("token"), chat.field("id"));
    assert_eq!(console.post("/chat/main", cookie, &form).status, 303);
}

fn correct(console: &Console, cookie: &str, page: &Answer, how: &str) -> Answer {
    let form = format!(
        "token={}&line={}&was={}&text=Ann+likes+water&how={how}",
        page.field("token"),
        page.field("line"),
        page.field("was").replace(' ', "+")
    );
    console.post(FILE, cookie, &form)
}

/// A person's chat that was removed is a new one when they write again.
#[test]
fn a_removed_chat_is_not_shown_in_the_one_that_follows() {
    let console = Console::start();
    let cookie = console.sign_in(&[]);
    for (text, removes) in [("pelican", true), ("hello", false)] {
        say(&console, &cookie, text);
        console.host.wait_settled();
        let answered = wait_for("the answer", || {
            let page = console.get("/chat/main", &cookie).body;
            page.contains(&format!("echo: {text}")).then_some(page)
        });
        assert_eq!(answered.contains("pelican"), removes);
        if removes {
            let chat = format!("console/main/{}", me());
            console.host.done(&["chats", "remove", &chat], b"");
        }
    }
}

#[test]
fn people_find_what_their_roles_show() {
    let console = console();
    let (owner, admin, member) =
        (console.sign_in(&[]), console.sign_in(&["--user", "telegram:7"]), console.sign_in(&["--user", "telegram:5"]));
    say(&console, &owner, "boiler+of+the+owner");
    say(&console, &member, "boiler+of+Mel");
    console.host.wait_settled();
    let found = |cookie: &str| {
        let page = console.get("/search?q=boiler", cookie);
        assert_eq!(page.status, 200, "{page:?}");
        (page.body.contains("of the owner"), page.body.contains("of Mel"))
    };
    assert_eq!((found(&owner), found(&admin), found(&member)), ((true, true), (true, true), (false, true)));
    let page = console.get("/search?q=boiler", &member).body;
    assert!(page.contains("<mark>boiler</mark>") && page.contains("href=\"/chat/main?at=ms"), "{page}");
    let page = console.get("/search?q=boiler+after%3A%22the+flood%22", &owner).body;
    assert!(page.contains("is not a time"), "{page}");
    let hostile = console.get("/search?q=%3Cscript%3Ewindow.xss%3D1%3C%2Fscript%3E", &owner).body;
    assert!(!hostile.contains("<script>window") && hostile.contains("&lt;script&gt;"), "{hostile}");
    assert_eq!(console.get("/search?q=boiler", "").status, 401);
}

/// The ids of the messages of a page, in order.
fn lines(page: &str) -> Vec<String> {
    let parts = page.split("class=\"line person\" id=\"").skip(1);
    parts.map(|part| part.split_once('"').unwrap().0.to_owned()).collect()
}

/// The chat is longer than a page.
#[test]
fn what_was_found_is_reached_however_long_ago_it_was_said() {
    let mut console = Console::start();
    let cookie = console.sign_in(&[]);
    say(&console, &cookie, "boiler");
    console.host.wait_settled();
    console.host.stop();
    let store = Store::open(&console.host.data(), Options::new(hearth::clock::random().unwrap())).unwrap();
    let wrote = store.write(|db, txn| {
        let (_, first) = db.messages.last(txn, ..)?.unwrap();
        for number in 1..200 {
            let id = db.allocate::<MessageId>(txn)?;
            let stored = first.stored.plus(Millis::seconds(number));
            let seq = first.seq + number;
            db.messages.put(txn, &id, &Message { seq, stored, ..first.clone() })?;
        }
        Ok::<_, hearth::state::Error>(())
    });
    wrote.unwrap();
    drop(store);
    console.host.start();
    let newest = console.get("/chat/main", &cookie).body;
    assert!(
        lines(&newest).len() == 60 && !newest.contains("id=\"ms1\"") && newest.contains("Earlier messages"),
        "{newest}"
    );
    let found = console.get("/search?q=boiler", &cookie).body;
    assert!(found.contains("href=\"/chat/main?at=ms1#ms1\""), "{found}");
    // From the first to the newest message, by the links of the pages.
    let (mut at, mut seen) = ("ms1".to_owned(), Vec::new());
    for _ in 0..20 {
        let page = console.get(&format!("/chat/main?at={at}"), &cookie).body;
        assert!(lines(&page).contains(&at), "{at}: {page}");
        seen.extend(lines(&page));
        let Some((before, _)) = page.split_once("\">Later messages") else { break };
        at = before.rsplit_once('#').unwrap().1.to_owned();
    }
    seen.sort_by_key(|id| id[2..].parse::<u32>().unwrap());
    seen.dedup();
    assert_eq!(seen, (1..=200).map(|id| format!("ms{id}")).collect::<Vec<_>>());
    let page = console.get("/chat/main?at=ms100", &cookie).body;
    assert_eq!((lines(&page).first().unwrap().as_str(), lines(&page).last().unwrap().as_str()), ("ms70", "ms129"));
    // An answer is where its message is, and what is no message is no reason to show nothing.
    let page = console.get("/chat/main?at=mo1", &cookie).body;
    assert!(page.contains("id=\"mo1\"") && lines(&page).contains(&"ms1".to_owned()), "{page}");
    for at in ["ms999", "mo999", "x", ""] {
        assert_eq!(lines(&console.get(&format!("/chat/main?at={at}"), &cookie).body), lines(&newest), "{at}");
    }
}

/// Two agents listen in a chat, and each has an admin.
#[test]
fn what_people_see_has_a_history_of_what_they_see() {
    let console = Console::with(
        "[[agents]]\nfolder = \"other\"\nprovider = \"echo\"\n[[agents]]\nfolder = \"idle\"\nprovider = \"echo\"\n\
         [[users]]\nid = \"telegram:5\"\nmember_of = [\"main\"]\n\
         [[users]]\nid = \"telegram:6\"\nroles = [\"admin:other\"]\n[[users]]\nid = \"telegram:7\"\nroles = [\"admin:main\"]\n\
         [[users]]\nid = \"telegram:8\"\nroles = [\"admin:idle\"]\n\
         [[chats]]\nchannel = \"telegram\"\nplatform_id = \"77\"\nunknown_senders = \"public\"\n\
         [[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"\n\
         [[chats.wirings]]\nagent = \"other\"\nengage = \"pattern\"\npattern = \"both\"\n\
         [[chats.wirings]]\nagent = \"idle\"\nengage = \"pattern\"\npattern = \"never\"\n",
    );
    for (id, text) in [("e1", "boiler for one"), ("e2", "boiler for both")] {
        let mut said = event(id, text);
        said["platformId"] = "77".into();
        console.host.done(&["inject", "--json"], said.to_string().as_bytes());
        console.host.wait_settled();
    }
    let owner = console.sign_in(&[]);
    let [member, other, main, idle] = [5, 6, 7, 8].map(|id| console.sign_in(&["--user", &format!("telegram:{id}")]));
    // All that the search of a person leads to is there.
    for (cookie, count) in [(&owner, 2), (&main, 2), (&other, 1), (&idle, 0), (&member, 0)] {
        let found = console.get("/search?q=boiler+for", cookie).body;
        let links: Vec<&str> = found.split("href=\"").skip(1).map(|part| part.split_once('"').unwrap().0).collect();
        let links: Vec<&str> = links.into_iter().filter(|link| link.starts_with("/why/ms")).collect();
        assert!(links.len() >= count, "{found}");
        for link in links {
            assert_eq!(console.get(link, cookie).status, 200, "{link}");
        }
    }
    let pages = ["ms1", "ms2", "ms3"].map(|id| format!("/why/{id}"));
    for (cookie, seen) in [(&main, [200, 200, 200]), (&other, [404, 200, 200]), (&idle, [404; 3]), (&member, [404; 3])]
    {
        assert_eq!(pages.each_ref().map(|page| console.get(page, cookie).status), seen);
    }
    let why = console.get("/why/ms2", &main).body;
    assert!(why.contains("for main") && !why.contains("for other"), "{why}");
    let why = console.get("/why/ms2", &owner).body;
    assert!(why.contains("for main") && why.contains("for other"), "{why}");
    // What Hearth itself says in a chat.
    for cookie in [&owner, &member] {
        say(&console, cookie, "good+morning");
        say(&console, cookie, "%2Fhelp");
        let chat = wait_for("the answer", || {
            Some(console.get("/chat/main", cookie).body).filter(|chat| chat.contains("line hearth"))
        });
        let (_, line) = chat.split_once("line hearth").unwrap();
        let link = line.split_once("href=\"").unwrap().1.split_once('"').unwrap().0;
        assert!(link.starts_with("/why/mo"), "{link}");
        assert_eq!(console.get(link, cookie).status, 200, "{link}");
        assert_eq!(console.get(link, &idle).status, 404, "{link}");
    }
}

#[test]
fn memory_is_corrected_by_those_who_administer_the_agent() {
    let console = console();
    let (owner, admin, member) =
        (console.sign_in(&[]), console.sign_in(&["--user", "telegram:7"]), console.sign_in(&["--user", "telegram:5"]));
    let lists = |cookie: &str| console.get("/memory", cookie).body;
    assert!(lists(&owner).contains("trusted/user_profile.md"), "{}", lists(&owner));
    assert!(lists(&admin).contains("memory/notes.md") && !lists(&admin).contains("trusted/"), "{}", lists(&admin));
    assert_eq!((console.get("/memory", &member).status, console.get(FILE, &member).status), (404, 404));
    assert_eq!(console.get("/memory/main/trusted%2Fuser_profile.md", &admin).status, 404);
    for path in ["..%2F..%2Fhearth.toml", "session-state.json", "%2Fetc%2Fpasswd", "memory%2F..%2F..%2F..%2Ftoken"] {
        assert_eq!(console.get(&format!("/memory/main/{path}"), &owner).status, 404, "{path}");
    }
    std::fs::write(console.host.data().join("groups/main/memory/log.md"), "- [2026-03-01 12:00] Ann moved\n").unwrap();
    for cookie in [&owner, &admin] {
        let changes = console.get("/memory/main", cookie).body;
        assert!(changes.contains("memory/notes.md") && changes.contains("memory/log.md"), "{changes}");
        assert_eq!(changes.contains("trusted/user_profile.md"), cookie == &owner, "{changes}");
    }
    for (path, cookie) in [("/memory/main", &member), ("/memory/none", &owner)] {
        assert_eq!(console.get(path, cookie).status, 404, "{path}");
    }
    let page = console.get(&format!("{FILE}?line=1"), &admin);
    assert_eq!(page.field("was"), "Ann likes tea", "{page:?}");
    let text = || std::fs::read_to_string(console.host.data().join("groups/main/memory/notes.md")).unwrap();
    let home = console.get("/", &member);
    let form = format!("token={}&line=1&was=Ann+likes+tea&how=remove", home.field("token"));
    assert_eq!(console.post(FILE, &member, &form).status, 404, "not by a member");
    let stolen = format!("token={}&line=1&was=Ann+likes+tea&how=remove", "0".repeat(64));
    assert_eq!(console.post(FILE, &admin, &stolen).status, 403, "not without the token of the form");
    assert!(text().starts_with("Ann likes tea\n"));
    assert_eq!(correct(&console, &admin, &page, "correct").status, 303);
    assert_eq!(text(), format!("Ann likes water\n{HOSTILE}\nlast\n"));
    let again = correct(&console, &admin, &page, "remove");
    assert!(again.status == 409 && again.body.contains("not that any more"), "an old page removes nothing: {again:?}");
    let page = console.get(&format!("{FILE}?line=1"), &admin);
    assert_eq!(correct(&console, &admin, &page, "remove").status, 303);
    assert_eq!(text(), format!("{HOSTILE}\nlast\n"));
    assert!(console.get("/memory", &admin).body.contains("Line 1 of memory/notes.md was removed."));
}

#[test]
fn the_search_and_memory_look_right_in_a_browser() {
    let Some(mut browser) = Browser::start() else { return };
    let console = console();
    browser.sign_in(&console, &[]);
    let cookie = console.sign_in(&[]);
    say(&console, &cookie, "the+boiler+is+%3Cscript%3Ewindow.xss%3D1%3C%2Fscript%3E+broken");
    console.host.wait_settled();
    let here = console.here();
    browser.go(&format!("http://{here}/search"));
    browser.eval("document.querySelector('input[name=q]').value = 'boiler'");
    browser.press("Search");
    browser.wait("document.querySelectorAll('mark').length > 0");
    look(&mut browser, &console, "search");
    assert_eq!(browser.eval("document.querySelector('mark').innerText"), "boiler");
    browser.eval("window.before = 1; document.querySelector('.found a').click()");
    browser.wait("!window.before && location.pathname === '/chat/main' && !!document.querySelector(location.hash)");
    browser.go(&format!("http://{here}/memory"));
    look(&mut browser, &console, "memory");
    browser.go(&format!("http://{here}{FILE}"));
    look(&mut browser, &console, "memory-file");
    assert!(browser.text().contains("window.xss=1"), "{}", browser.text());
    browser.eval("window.before = 1; document.querySelector('#line1 a').click()");
    browser.wait("!window.before && !!document.querySelector('textarea')");
    look(&mut browser, &console, "memory-line");
    browser.eval("document.querySelector('textarea').value = 'Ann likes water'");
    browser.press("Correct");
    browser.wait("document.body.innerText.includes('was corrected')");
    assert!(browser.text().contains("Ann likes water") && !browser.text().contains("likes tea"), "{}", browser.text());
    browser.step(&json!({"requests": true}));
}
