//! The console over HTTP: signing in, and what is refused. `console::browser` looks at it in a real browser.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::host::agents::json_of;
use crate::host::channels::free_port;
use crate::host::{Host, wait_for};

mod asking;
mod browser;
mod choices;
mod cookies;
mod driver;
mod files;
mod hardship;
mod hostile;
mod lan;
mod live;
mod login;
mod lookup;
mod origins;
mod presses;
mod sessions;
mod streams;
mod tables;

/// An answer to a request.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// The token that it sets.
    fn cookie(&self) -> Option<String> {
        let (cookie, _) = self.header("set-cookie")?.split_once(';')?;
        Some(cookie.to_owned())
    }

    /// The value of a hidden field.
    fn field(&self, name: &str) -> String {
        let (_, rest) = self.body.split_once(&format!("name=\"{name}\" value=\"")).unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    }
}

/// A console and a browser that sends what it is told to.
struct Console {
    host: Host,
    port: u16,
}

impl Console {
    fn start() -> Self {
        Self::with("")
    }

    fn with(more: &str) -> Self {
        Self::of(Host::with_echo(), more)
    }

    fn of(mut host: Host, more: &str) -> Self {
        let port = free_port();
        host.apply(&format!(
            "schema = 1\n[console]\nlisten = \"127.0.0.1:{port}\"\n[[users]]\nid = \"{}\"\nname = \"Ada\"\nroles = [\"owner\"]\n{more}",
            me()
        ));
        host.start();
        Self { host, port }
    }

    fn here(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A raw request, to the end of the connection.
    fn raw(&self, request: &str) -> Answer {
        self.raw_bytes(request.as_bytes())
    }

    fn raw_bytes(&self, request: &[u8]) -> Answer {
        self.answer(request).expect("the console listens")
    }

    /// None while the console does not listen.
    fn answer(&self, request: &[u8]) -> Option<Answer> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // A server that has seen enough may close before everything was sent.
        drop(stream.write_all(request));
        let mut text = Vec::new();
        drop(stream.read_to_end(&mut text));
        let text = String::from_utf8_lossy(&text).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Some(Answer { status, head: head.to_owned(), body: body.to_owned() })
    }

    fn get(&self, path: &str, cookie: &str) -> Answer {
        self.raw(&format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n",
            self.here()
        ))
    }

    fn post(&self, path: &str, cookie: &str, form: &str) -> Answer {
        self.post_with(path, &format!("Origin: http://{}\r\nCookie: {cookie}\r\n", self.here()), form)
    }

    fn post_with(&self, path: &str, headers: &str, form: &str) -> Answer {
        self.raw(&format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\n{headers}Content-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{form}",
            self.here(),
            form.len()
        ))
    }

    /// The code of a new link.
    fn code(&self, user: &[&str]) -> String {
        let link: Value = json_of(&self.host, &[&["console", "--json"], user].concat());
        let link = link["link"].as_str().unwrap();
        let code = link.strip_prefix(&format!("http://{}/sign-in/", self.here())).unwrap();
        code.to_owned()
    }

    /// Signs in and returns the cookie.
    fn sign_in(&self, user: &[&str]) -> String {
        let answer = self.post("/sign-in", "", &format!("code={}", self.code(user)));
        assert_eq!(answer.status, 303, "{answer:?}");
        answer.cookie().unwrap()
    }

    fn sessions(&self) -> usize {
        json_of(&self.host, &["console", "sessions", "--json"])["sessions"].as_array().unwrap().len()
    }
}

/// A chat whose unknown senders need an approval. Its name is not what it seems.
const FAMILY: &str = r#"
[[chats]]
channel = "telegram"
platform_id = "77"
name = 'Family <b>x</b><script>window.xss=1</script>'
unknown_senders = "request_approval"
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
"#;

/// A second agent with an admin, and a member of the first one.
const PEOPLE: &str = r#"
[[agents]]
folder = "other"
name = "Research"
provider = "echo"
[[users]]
id = "telegram:5"
name = "Mel"
member_of = ["main"]
[[users]]
id = "telegram:6"
name = "Grace"
roles = ["admin:other"]
"#;

/// The name of that chat.
const HOSTILE_NAME: &str = "Family <b>x</b><script>window.xss=1</script>";

/// The user who runs the tests.
fn me() -> String {
    format!("terminal:{}", rustix::process::getuid().as_raw())
}

#[test]
fn a_link_signs_in_once_and_by_its_button_alone() {
    let console = Console::start();
    let code = console.code(&[]);
    for _ in 0..3 {
        let page = console.get(&format!("/sign-in/{code}"), "");
        assert!(page.status == 200 && page.body.contains(&me()) && page.cookie().is_none(), "{page:?}");
    }
    assert_eq!(console.sessions(), 0, "a link that is looked at signs nobody in");
    let answer = console.post("/sign-in", "", &format!("code={code}"));
    let cookie = answer.header("set-cookie").unwrap().to_owned();
    assert!(cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict") && cookie.contains("; Path=/"));
    assert_eq!(console.sessions(), 1);
    let again = console.post("/sign-in", "", &format!("code={code}"));
    assert!(again.status == 410 && again.cookie().is_none(), "{again:?}");
    assert_eq!(console.get(&format!("/sign-in/{code}"), "").status, 410);

    let cookie = answer.cookie().unwrap();
    let home = console.get("/", &cookie);
    assert!(home.status == 200 && home.body.contains("Ada") && home.body.contains("Needs a decision"), "{home:?}");
    let (_, token) = cookie.split_once('=').unwrap();
    for row in console.host.rows("console_sessions") {
        assert!(!row.to_string().contains(token), "the token is in the store: {row}");
    }
    let signed_out = console.post("/sign-out", &cookie, &format!("token={}", home.field("token")));
    assert!(signed_out.status == 200 && signed_out.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!((console.get("/", &cookie).status, console.sessions()), (401, 0));
}

#[test]
fn a_link_expires_after_a_minute() {
    let console = Console::start();
    let mut browser = driver::Browser::start();
    let code = console.code(&[]);
    let began = Instant::now();
    // A page that was opened in time, and whose button is pressed too late.
    if let Some(browser) = &mut browser {
        browser.go(&format!("http://{}/sign-in/{code}", console.here()));
    }
    wait_for("the link to expire", || (console.get(&format!("/sign-in/{code}"), "").status == 410).then_some(()));
    let passed = began.elapsed();
    assert!(passed > Duration::from_secs(50) && passed < Duration::from_secs(75), "{passed:?}");
    assert_eq!(console.post("/sign-in", "", &format!("code={code}")).status, 410);
    let Some(mut browser) = browser else { return };
    browser.press("Sign in");
    assert!(browser.text().contains("no longer works"), "{}", browser.text());
    assert_eq!(browser.step(&serde_json::json!({"cookies": true})), serde_json::json!([]));
    browser.step(&serde_json::json!({"noise": true}));
    driver::look(&mut browser, &console, "link-expired");
    assert_eq!(console.sessions(), 0);
}

#[test]
fn requests_that_other_pages_make_are_refused() {
    let console = Console::start();
    let cookie = console.sign_in(&[]);
    let token = console.get("/", &cookie).field("token");
    let form = format!("token={token}");
    let own = format!("Cookie: {cookie}\r\n");
    // Without the origin, and from others.
    assert_eq!(console.post_with("/sign-out", &own, &form).status, 403);
    for origin in ["null", "http://evil.example", "http://127.0.0.1:1", &format!("http://localhost:{}", console.port)] {
        let answer = console.post_with("/sign-out", &format!("{own}Origin: {origin}\r\n"), &form);
        assert_eq!(answer.status, 403, "{origin}");
    }
    let both = format!("{own}Origin: http://{0}\r\nOrigin: http://{0}\r\n", console.here());
    assert_eq!(console.post_with("/sign-out", &both, &form).status, 403);
    // Without the token of the form, and with another one.
    for form in [String::new(), "token=".to_owned(), format!("token={}", "0".repeat(64))] {
        let answer = console.post("/sign-out", &cookie, &form);
        assert!(answer.status == 403 && answer.body.contains("out of date"), "{answer:?}");
    }
    // By another name, as after DNS rebinding.
    for host in
        ["evil.example", &format!("evil.example:{}", console.port), "127.0.0.1", &format!("127.0.0.2:{}", console.port)]
    {
        let answer =
            console.raw(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"));
        assert!(answer.status == 421 && !answer.body.contains("Ada"), "{host}: {answer:?}");
    }
    let none = console.raw(&format!("GET / HTTP/1.0\r\nCookie: {cookie}\r\n\r\n"));
    assert_eq!(none.status, 421);
    // Streams that a page of another origin opens.
    let stream = format!(
        "GET /events HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\nSec-Fetch-Site: cross-site\r\nConnection: close\r\n\r\n",
        console.here()
    );
    assert_eq!(console.raw(&stream).status, 403);
    // Other methods, and what is no form.
    let put = format!("PUT / HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n", console.here());
    assert_eq!(console.raw(&put).status, 405);
    let json = format!(
        "POST /sign-out HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nCookie: {cookie}\r\nContent-Type: text/plain\r\n\
         Content-Length: {1}\r\nConnection: close\r\n\r\n{form}",
        console.here(),
        form.len()
    );
    assert_eq!(console.raw(&json).status, 415);
    assert_eq!((console.get("/", &cookie).status, console.sessions()), (200, 1), "nothing was done");
}

#[test]
fn answers_forbid_what_pages_do_not_need() {
    let console = Console::start();
    let cookie = console.sign_in(&[]);
    for (path, cookie) in
        [("/", cookie.as_str()), ("/", ""), ("/nowhere", cookie.as_str()), ("/console.js", ""), ("/style.css", "")]
    {
        let answer = console.get(path, cookie);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert!(!answer.head.to_lowercase().contains("access-control"), "{answer:?}");
    }
    let home = console.get("/", &cookie);
    assert!(!home.body.contains("<script>") && !home.body.contains(" style=") && !home.body.contains(" onclick"));
    assert!(!home.body.contains("://"), "nothing is loaded from elsewhere: {}", home.body);
    let first: usize =
        ["/", "/style.css", "/console.js"].iter().map(|path| console.get(path, &cookie).body.len()).sum();
    assert!(first < 100_000, "the first page has {first} bytes");
}

#[test]
fn what_is_too_large_or_too_slow_is_cut_off_and_others_are_served() {
    let console = Console::start();
    let cookie = console.sign_in(&[]);
    let token = console.get("/", &cookie).field("token");
    let long = format!("token={token}&text={}", "x".repeat(900 * 1_024));
    assert_eq!(console.post("/chat/main", &cookie, &long).status, 413);
    assert_eq!(console.get(&format!("/{}", "x".repeat(5_000)), &cookie).status, 414);
    let head = format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nX: {}\r\nConnection: close\r\n\r\n",
        console.here(),
        "x".repeat(1 << 20)
    );
    assert!([0, 431].contains(&console.raw(&head).status));
    let many = "X-A: 1\r\n".repeat(500);
    let many = format!("GET / HTTP/1.1\r\nHost: {}\r\n{many}Connection: close\r\n\r\n", console.here());
    assert!([0, 431].contains(&console.raw(&many).status));
    // Clients that begin a request and never end it.
    let slow: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", console.port)).unwrap();
            stream.write_all(b"POST /sign-in HTTP/1.1\r\nHost: x\r\n").unwrap();
            stream
        })
        .collect();
    assert_eq!(console.get("/", &cookie).status, 200);
    drop(slow);
}

/// What is sent before anyone signed in stays in memory until it has arrived.
#[test]
fn only_people_who_signed_in_send_long_forms() {
    let console = Console::start();
    for (path, status) in [("/sign-in", 413), ("/login", 413), ("/login/end", 413), ("/chat/main", 401), ("/do", 401)] {
        let answer = console.raw(&format!(
            "POST {path} HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: 700000\r\nConnection: close\r\n\r\ncode=",
            console.here()
        ));
        assert_eq!(answer.status, status, "{path}: {answer:?}");
    }
}

#[test]
fn a_browser_that_is_signed_out_elsewhere_sees_nothing() {
    let console = Console::start();
    let (one, other) = (console.sign_in(&[]), console.sign_in(&[]));
    let listed = json_of(&console.host, &["console", "sessions", "--json"]);
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 2);
    console.host.done(&["console", "sign-out", "cs1"], b"");
    assert_eq!((console.get("/", &one).status, console.get("/", &other).status), (401, 200));
    let again = console.host.run(&["console", "sign-out", "cs1"], b"");
    assert!(again.code == Some(1) && again.stderr.contains("cs1"), "{again:?}");
    console.host.done(&["users", "remove", &me(), "--force"], b"");
    assert_eq!(console.get("/", &other).status, 401, "a person without rights sees nothing");
}

#[test]
fn a_session_survives_a_killed_daemon_and_a_disabled_console_does_not_listen() {
    let mut console = Console::start();
    let cookie = console.sign_in(&[]);
    console.host.kill();
    console.host.start();
    assert_eq!(console.get("/", &cookie).status, 200);
    console.host.apply("schema = 1\n[console]\nenabled = false\n");
    wait_for("the console to close", || TcpStream::connect(("127.0.0.1", console.port)).is_err().then_some(()));
    let off = console.host.run(&["console"], b"");
    assert!(off.code == Some(1) && off.stderr.contains("[console]"), "{off:?}");
}

#[test]
fn people_see_what_their_roles_show_and_do_only_that() {
    let more = "[[users]]\nid = \"telegram:5\"\nname = \"Mel\"\nmember_of = [\"main\"]\n[[users]]\nid = \"telegram:6\"\nname = \"Nobody\"\n";
    let console = Console::with(more);
    let (owner, member) = (console.sign_in(&[]), console.sign_in(&["--user", "telegram:5"]));
    let refused = console.host.run(&["console", "--user", "telegram:6"], b"");
    assert!(refused.code == Some(1) && refused.stderr.contains("no role"), "{refused:?}");

    let home = console.get("/", &member);
    assert!(home.body.contains("Mel") && !home.body.contains("Needs a decision"), "{home:?}");
    let asked = console.get("/asked", &member);
    assert!(asked.status == 200 && asked.body.contains("Nothing needs a decision"), "{asked:?}");
    let token = home.field("token");
    let decided = console.post("/decide", &member, &format!("token={token}&id=ap1&value=approve"));
    assert_eq!(decided.status, 403, "{decided:?}");
    for (cookie, may) in [(&owner, true), (&member, false)] {
        assert_eq!(console.get("/health", cookie).body.contains("Check everything now"), may);
    }
    // A message of each, which the other one's pages do not show.
    let chat = console.get("/chat/main", &member);
    let said =
        console.post("/chat/main", &member, &format!("token={token}&id={}&text=secret+of+Mel", chat.field("id")));
    assert_eq!(said.status, 303, "{said:?}");
    let again =
        console.post("/chat/main", &member, &format!("token={token}&id={}&text=secret+of+Mel", chat.field("id")));
    assert_eq!(again.status, 303, "{again:?}");
    let page = wait_for("the answer", || {
        let page = console.get("/chat/main", &member);
        (page.body.matches("secret of Mel").count() >= 2).then_some(page)
    });
    assert!(page.body.matches("class=\"line person\"").count() == 1, "the same form twice is one message: {page:?}");
    assert!(!console.get("/chat/main", &owner).body.contains("secret of Mel"));
    assert!(console.get("/", &owner).body.contains("secret of Mel"), "an owner sees that it was said");
    let mine = console.host.rows("messages").len();
    assert_eq!(console.get("/why/ms1", &member).status, 200, "{mine} messages");
    let owners = console.get("/chat/main", &owner);
    let form = format!("token={}&id={}&text=for+the+owner", owners.field("token"), owners.field("id"));
    assert_eq!(console.post("/chat/main", &owner, &form).status, 303);
    assert_eq!((console.get("/why/ms2", &owner).status, console.get("/why/ms2", &member).status), (200, 404));
    let bodies = console.host.rows("bodies");
    assert!(
        bodies.iter().any(|row| row.to_string().contains("telegram:5") || row.to_string().contains("\"5\"")),
        "{bodies:?}"
    );
    // No agent of that name, and one that may not be talked to.
    assert_eq!((console.get("/chat/other", &owner).status, console.get("/chat/..%2f..", &member).status), (404, 404));
}

#[test]
fn an_approval_is_decided_by_its_button_once() {
    let console = Console::with(FAMILY);
    let cookie = console.sign_in(&[]);
    let mut stranger = crate::host::event("s1", "let me <b>in</b>");
    stranger["platformId"] = "77".into();
    stranger["message"]["content"]["senderId"] = "900".into();
    stranger["message"]["content"]["senderName"] = "<script>alert(1)</script>".into();
    console.host.done(&["inject", "--json"], stranger.to_string().as_bytes());
    let page = console.get("/asked", &cookie);
    assert!(page.body.contains("id=\"ap1\"") && page.body.contains("let me &lt;b&gt;in&lt;/b&gt;"), "{page:?}");
    assert!(!page.body.contains("<script>alert"), "{page:?}");
    let form = format!("token={}&id=ap1&value=approve", page.field("token"));
    assert_eq!(console.post("/decide", &cookie, &form).status, 303);
    let approvals = console.host.rows("approvals");
    assert!(
        approvals[0].to_string().contains("Approved") && approvals[0].to_string().contains("terminal"),
        "{approvals:?}"
    );
    let again = console.post("/decide", &cookie, &form);
    assert!(again.status == 409 && again.body.contains("already approved"), "{again:?}");
    assert!(console.get("/asked", &cookie).body.contains("Nothing needs a decision"));
}
