//! Pages of other origins, stolen cookies, and going back.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::driver::Browser;
use super::{Console, FAMILY};
use crate::host::{event, wait_for};

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
    let (port, seen) = attacker(page);
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
    assert_eq!(console.sessions(), 1, "no one was signed out");
    of_the_attacker(&mut browser, &console, port, &seen.lock().unwrap().clone());
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

/// What an attacker got, and what it is good for.
fn of_the_attacker(browser: &mut Browser, console: &Console, port: u16, seen: &[String]) {
    let first = seen.first().unwrap();
    for request in seen {
        assert!(request.starts_with("GET / ") || request.starts_with("GET /favicon.ico "), "{request}");
        assert!(
            !request.contains("/sign-in/") && !request.contains(&format!("http://{}", console.here())),
            "{request}"
        );
    }
    // Browsers send cookies to all ports of an address, as docs/console.md says.
    let name = format!("hearth-{}=", console.port);
    let (_, rest) = first.split_once(&name).unwrap_or_else(|| panic!("{first}"));
    let stolen = format!("{name}{}", rest.split(['\r', ';']).next().unwrap());
    // In the name of its own page, or without a form of the console, it does nothing.
    let form = "token=x&do=freeze&of=main";
    for path in ["/sign-out", "/do", "/decide", "/doctor", "/chat/main"] {
        for origin in [format!("Origin: http://127.0.0.1:{port}\r\n"), "Origin: null\r\n".to_owned(), String::new()] {
            let answer = console.post_with(path, &format!("{origin}Cookie: {stolen}\r\n"), form);
            assert!(answer.status == 403 && answer.cookie().is_none(), "{path} {origin}: {answer:?}");
        }
        assert_eq!(console.post(path, &stolen, form).status, 403, "{path}");
    }
    assert_eq!((console.sessions(), console.host.rows("frozen_agents").len()), (1, 0));
    // Another name of this machine gets no cookie.
    let (port, seen) = attacker("<p>nothing</p>".to_owned());
    browser.go(&format!("http://localhost:{port}/"));
    let seen = seen.lock().unwrap().clone();
    assert!(!seen.is_empty() && seen.iter().all(|request| !request.contains(&name)), "{seen:?}");
}

#[test]
fn going_back_repeats_nothing_and_shows_what_holds_now() {
    let Some(mut browser) = Browser::start() else { return };
    let mut console = Console::with(FAMILY);
    let here = console.here();
    console.host.done(&["tasks", "add", "main", "Water the plants", "--every", "2h", "--no-chat"], b"");
    browser.sign_in(&console, &[]);
    // After a form that was sent without the script.
    browser.go(&format!("http://{here}/tasks"));
    browser.press_in("ta1", "Run now");
    wait_for("the run", || (console.host.rows("bodies").len() == 1).then_some(()));
    console.host.wait_settled();
    for way in ["history.back()", "history.forward()", "location.reload()"] {
        browser.eval(&format!("window.before = 1; {way}"));
        browser.wait("!window.before && document.readyState === 'complete'");
    }
    assert_eq!(console.host.rows("bodies").len(), 1, "the task ran once");
    // After a decision.
    let mut stranger = event("s1", "May I come in?");
    stranger["platformId"] = "77".into();
    stranger["message"]["content"]["senderId"] = "900".into();
    console.host.done(&["inject", "--json"], stranger.to_string().as_bytes());
    browser.go(&format!("http://{here}/"));
    browser.wait("!!document.getElementById('ap1')");
    browser.eval("window.before = 1; document.querySelector('#ap1 button').click()");
    browser.wait("!window.before && location.pathname === '/asked' && document.readyState === 'complete'");
    browser.eval("window.before = 1; history.back()");
    browser.wait("!window.before && location.pathname === '/' && !document.getElementById('ap1')");
    assert_eq!(console.host.rows("approvals").len(), 1);
    // While the daemon is down: the browser says so, and the page is whole when it is back.
    browser.wait("document.readyState === 'complete'");
    browser.go(&format!("http://{here}/tasks"));
    browser.wait("location.pathname === '/tasks' && document.readyState === 'complete'");
    console.host.kill();
    browser.wait("!document.getElementById('offline').hidden");
    browser.eval("window.before = 1; history.back()");
    browser.wait(
        "!window.before && (location.protocol === 'chrome-error:' || document.getElementById('offline')?.hidden === false)",
    );
    console.host.start();
    browser.go(&format!("http://{here}/tasks"));
    assert!(browser.text().contains("Water the plants"), "{}", browser.text());
    // After signing out, nothing of what was open is shown: neither a page that updates itself nor one that does not.
    browser.go(&format!("http://{here}/search?q=plants"));
    assert!(browser.text().contains("Water the"), "{}", browser.text());
    browser.go(&format!("http://{here}/tasks"));
    browser.press("Sign out");
    for _ in 0..2 {
        browser.eval("window.before = 1; history.back()");
        browser.wait("!window.before && document.body.innerText.includes('Not signed in')");
        assert!(!browser.text().contains("Water the"), "{}", browser.text());
    }
    console.host.check();
}
