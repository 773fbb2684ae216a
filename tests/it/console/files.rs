//! Files in the chat page: sent by people, and kept by them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use super::driver::{Browser, look};
use super::{Answer, Console, PEOPLE};
use crate::host::telegram::PROGRAM;
use crate::host::{Host, event, wait_for};

/// A console whose agent says what is in a file, and sends another one.
fn reader() -> Console {
    Console::of(Host::with_program(PROGRAM), PEOPLE)
}

/// A form with one file.
fn upload(console: &Console, cookie: &str, file: &[u8], fields: &[(&str, &str)]) -> Answer {
    let mut body = String::new();
    for (name, value) in fields {
        body += &format!("--xYx\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    }
    body += "--xYx\r\nContent-Disposition: form-data; name=\"file\"; filename=\"../../a.txt\"\r\n\r\n";
    let body = [body.as_bytes(), file, b"\r\n--xYx--\r\n"].concat();
    let head = format!(
        "POST /chat/main HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nCookie: {cookie}\r\n\
         Content-Type: multipart/form-data; boundary=xYx\r\nContent-Length: {1}\r\nConnection: close\r\n\r\n",
        console.here(),
        body.len()
    );
    console.raw_bytes(&[head.as_bytes(), &body].concat())
}

#[test]
fn a_file_goes_to_the_agent_and_its_answer_is_kept_by_the_browser() {
    let Some(mut browser) = Browser::start() else { return };
    let console = reader();
    let (sent, kept) = (console.host.path("cat list.txt"), console.host.path("downloads"));
    std::fs::write(&sent, "a cat").unwrap();
    std::fs::create_dir(&kept).unwrap();
    browser.sign_in(&console, &[]);
    browser.go(&format!("http://{}/chat/main", console.here()));
    browser.step(&json!({"choose": [sent], "in": "input[type=file]"}));
    browser.eval("window.stays = 1; document.querySelector('#say button').click()");
    browser.wait("document.body.innerText.includes('it says a cat')");
    browser.wait("document.querySelector('.line.agent .file a')?.innerText === 'answer.txt'");
    assert!(browser.text().contains("cat list.txt"), "{}", browser.text());
    assert_eq!(browser.eval("window.stays"), 1, "the page was loaded again");
    assert_eq!(browser.eval("document.querySelector('input[type=file]').files.length"), 0, "it is sent once");
    look(&mut browser, &console, "chat-files");
    browser.step(&json!({"downloads": kept}));
    browser.eval("document.querySelector('.line.agent .file a').click()");
    let text = wait_for("the download", || std::fs::read_to_string(kept.join("answer.txt")).ok());
    assert_eq!(text, "A CAT");

    // Without the script, the form is the same.
    let cookie = console.sign_in(&[]);
    let page = console.get("/chat/main", &cookie);
    assert!(page.body.contains("enctype=\"multipart/form-data\""), "{page:?}");
}

#[test]
fn files_are_for_the_people_of_the_chat_alone_and_are_never_shown() {
    let console = reader();
    let owner = console.sign_in(&[]);
    let member = console.sign_in(&["--user", "telegram:5"]);
    let page = console.get("/chat/main", &member);
    let (token, id) = (page.field("token"), page.field("id"));
    let sent = upload(&console, &member, b"<script>1</script>", &[("token", &token), ("id", &id), ("text", "look")]);
    assert_eq!(sent.status, 303, "{sent:?}");
    let path = wait_for("the answer", || {
        let page = console.get("/chat/main", &member);
        let (_, rest) = page.body.split_once("href=\"/file/main/")?;
        Some(format!("/file/main/{}", rest.split_once('"')?.0))
    });
    let file = console.get(&path, &member);
    assert!(file.status == 200 && file.body == "<SCRIPT>1</SCRIPT>", "{file:?}");
    assert_eq!(file.header("content-type"), Some("application/octet-stream"));
    assert_eq!(file.header("content-disposition"), Some("attachment; filename*=UTF-8''answer.txt"));
    assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
    assert!(file.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    // A file of many pieces arrives whole.
    let page = console.get("/chat/main", &member);
    let (token, id) = (page.field("token"), page.field("id"));
    let long = "abc".repeat(60_000);
    assert_eq!(
        upload(&console, &member, long.as_bytes(), &[("token", &token), ("id", &id), ("text", "long")]).status,
        303
    );
    let second = wait_for("the second answer", || {
        let page = console.get("/chat/main", &member);
        let (_, rest) = page.body.rsplit_once("href=\"/file/main/")?;
        Some(format!("/file/main/{}", rest.split_once('"')?.0)).filter(|second| *second != path)
    });
    assert!(console.get(&second, &member).body == long.to_uppercase());
    // A name that leads elsewhere is replaced.
    let page = console.get("/chat/main", &member);
    assert!(page.body.contains(">attachment") && !page.body.contains("../"), "{page:?}");
    // Others, other agents, other files, and nobody.
    let (stem, _) = path.rsplit_once('/').unwrap();
    for (path, cookie, status) in [
        (path.as_str(), owner.as_str(), 404),
        (path.as_str(), "", 401),
        (&format!("{stem}/1"), &member, 404),
        (&format!("{stem}/-1"), &member, 404),
        (&format!("{stem}/..%2f0"), &member, 404),
        (&path.replace("main", "other"), &member, 404),
        ("/file/main/mo999/0", &member, 404),
        ("/file/main", &member, 404),
    ] {
        assert_eq!(console.get(path, cookie).status, status, "{path}");
    }
}

#[test]
fn forms_with_files_are_bounded_and_need_the_token() {
    let console = reader();
    let cookie = console.sign_in(&[]);
    let page = console.get("/chat/main", &cookie);
    let (token, id) = (page.field("token"), page.field("id"));
    let large = vec![b'x'; 18 << 20];
    let refused = upload(&console, &cookie, &large, &[("token", &token), ("id", &id)]);
    // The connection may end before the answer was read.
    assert!([0, 413].contains(&refused.status), "{}", refused.status);
    for fields in [vec![("id", id.as_str())], vec![("token", "0"), ("id", &id)]] {
        assert_eq!(upload(&console, &cookie, b"a", &fields).status, 403);
    }
    assert_eq!(upload(&console, "", b"a", &[("token", &token), ("id", &id)]).status, 401);
    assert_eq!(upload(&console, &cookie, b"a", &[("token", &token), ("id", "x")]).status, 409);
    assert_eq!(console.host.rows("messages").len(), 0, "nothing was sent");
    // The same form twice is one message.
    for _ in 0..2 {
        assert_eq!(upload(&console, &cookie, b"a", &[("token", &token), ("id", &id)]).status, 303);
    }
    assert_eq!(console.host.rows("messages").len(), 1);
}

/// Begins to send a long file and does not go on.
fn begin(console: &Console, cookie: &str, token: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", console.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let head = format!(
        "POST /chat/main HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nCookie: {cookie}\r\n\
         Content-Type: multipart/form-data; boundary=xYx\r\nContent-Length: 9000000\r\nConnection: close\r\n\r\n\
         --xYx\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\n{token}\r\n\
         --xYx\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n",
        console.here()
    );
    drop(stream.write_all(&[head.as_bytes(), &[b'x'; 900_000]].concat()));
    stream
}

/// The status with which it was refused; none if it is being received.
fn refused(stream: &mut TcpStream) -> Option<String> {
    let mut line = [0; 12];
    stream.read_exact(&mut line).ok()?;
    Some(String::from_utf8_lossy(&line).into_owned())
}

#[test]
fn slow_files_of_one_person_keep_no_others_from_writing() {
    let console = reader();
    let (owner, member) = (console.sign_in(&[]), console.sign_in(&["--user", "telegram:5"]));
    let token = console.get("/chat/main", &member).field("token");
    assert_eq!(refused(&mut begin(&console, &member, "")).as_deref(), Some("HTTP/1.1 403"), "without the token");
    let mut slow = begin(&console, &member, &token);
    let again = console.sign_in(&["--user", "telegram:5"]);
    let mut second = begin(&console, &again, &console.get("/chat/main", &again).field("token"));
    assert_eq!(refused(&mut slow), None);
    assert_eq!(refused(&mut second).as_deref(), Some("HTTP/1.1 409"), "one at a time");
    for (cookie, text) in [(&owner, "by the owner"), (&member, "by Mel meanwhile")] {
        let page = console.get("/chat/main", cookie);
        let sent = upload(
            &console,
            cookie,
            b"a",
            &[("token", &page.field("token")), ("id", &page.field("id")), ("text", text)],
        );
        assert_eq!(sent.status, 303, "{sent:?}");
    }
    let page = console.get("/chat/main", &owner);
    let long = vec![b'x'; 1 << 20];
    let sent = upload(&console, &owner, &long, &[("token", &page.field("token")), ("id", &page.field("id"))]);
    assert_eq!(sent.status, 303, "{sent:?}");
    drop(slow);
    // What ended early makes room.
    wait_for("room", || {
        let page = console.get("/chat/main", &member);
        let sent = upload(&console, &member, &long, &[("token", &page.field("token")), ("id", &page.field("id"))]);
        (sent.status == 303).then_some(())
    });
}

/// A store that takes nothing new is said where a person writes, and what was written stays.
#[test]
fn a_full_store_is_said_in_the_browser() {
    let Some(mut browser) = Browser::start() else { return };
    let console = Console::start();
    browser.sign_in(&console, &[]);
    console.host.apply("schema = 1\nstore_max_bytes = 4194304\n");
    let full = (0..40).any(|number| {
        let large = event(&format!("f{number}"), &"x".repeat(300_000)).to_string();
        let answer = console.host.run(&["inject", "--json"], large.as_bytes());
        answer.code != Some(0) || answer.stdout.contains("store_full")
    });
    assert!(full, "the store takes twelve megabytes although it may have four");
    browser.go(&format!("http://{}/", console.here()));
    assert!(browser.text().contains("new work is refused"), "{}", browser.text());
    browser.go(&format!("http://{}/chat/main", console.here()));
    browser.eval("document.querySelector('textarea').value = 'is there room?'");
    browser.eval("document.getElementById('say').requestSubmit()");
    browser.wait("!document.getElementById('trouble').hidden");
    let said = browser.eval("document.getElementById('trouble').innerText");
    assert!(said.as_str().unwrap().contains("raise store_max_bytes"), "{said}");
    assert_eq!(browser.eval("document.querySelector('textarea').value"), "is there room?");
    browser.step(&json!({"noise": true}));
    look(&mut browser, &console, "chat-full");
}
