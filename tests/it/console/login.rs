//! Signing in to the console by a message to a bot.

use std::net::TcpStream;
use std::process::Command;

use hearth::model::Input;
use hearth::model::address::{Address, ChannelName, ForeignId, UserId};
use hearth::model::card::{Button, PromptSubject};
use hearth::model::configure::{Change, RoleSpec};
use hearth::model::console::{ConsoleInput, Login};
use hearth::model::console_command::ConsoleCommand;
use hearth::model::id::{ApprovalId, ConsoleSessionId};
use hearth::model::input::Press;
use hearth::model::report::Reply;
use hearth::model::request::Request;
use serde_json::{Value, json};

use super::driver::{Browser, look};
use super::{Answer, Console};
use crate::host::agents::{json_of, searched};
use crate::host::channels::free_port;
use crate::host::fake_telegram::{FakeTelegram, TOKEN};
use crate::host::{Host, event, python, wait_for};
use crate::world::World;
use crate::world::requests::{ask, packages, working_in};

const ANN: i64 = 5;
const BOB: i64 = 77;

fn sent(id: i64, person: i64, chat: &Value, text: &str) -> Value {
    json!({"message": {
        "message_id": id, "date": 1_700_000_000, "text": text, "chat": chat,
        "from": {"id": person, "is_bot": false, "first_name": "Ann"},
    }})
}

fn direct(id: i64, person: i64, text: &str) -> Value {
    sent(id, person, &json!({"id": person, "type": "private", "first_name": "Ann"}), text)
}

/// An installation with people of several roles.
const HOUSE: &str = r#"
[[agents]]
folder = "main"
[[agents]]
folder = "other"
[[users]]
id = "terminal:1"
roles = ["owner"]
[[users]]
id = "telegram:2"
roles = ["admin:other"]
[[users]]
id = "telegram:3"
member_of = ["main"]
[[users]]
id = "telegram:4"
"#;

fn user(text: &str) -> UserId {
    UserId::parse(text).unwrap()
}

const ANN_MAY: &str = r#"
[[users]]
id = "telegram:5"
name = "Ann"
roles = ["owner"]
"#;

/// A console in which people sign in from a chat, with a bot.
fn console() -> (Console, FakeTelegram) {
    let server = FakeTelegram::start();
    let mut host = Host::with_echo();
    host.env.push(("BOT_TOKEN".to_owned(), TOKEN.to_owned()));
    let port = free_port();
    host.apply(&format!(
        "schema = 1\n[console]\nlisten = \"127.0.0.1:{port}\"\nchat_login = true\n[channels.telegram]\n\
         token = \"env:BOT_TOKEN\"\nbase_url = \"{}\"\n{ANN_MAY}",
        server.url()
    ));
    host.start();
    (Console { host, port }, server)
}

/// A browser without a session.
struct Shown {
    cookie: String,
    code: String,
}

impl Console {
    fn begin_login(&self) -> Shown {
        let answer = self.post("/login", "", "");
        assert_eq!((answer.status, answer.header("location")), (303, Some("/login")), "{answer:?}");
        let cookie = answer.cookie().unwrap();
        let all = answer.header("set-cookie").unwrap();
        assert!(all.contains("; HttpOnly") && all.contains("; SameSite=Strict"), "{all}");
        let page = self.get("/login", &cookie);
        Shown { code: code_in(&page), cookie }
    }

    /// Asks until the page is another one than that with the code.
    fn wait_login(&self, shown: &Shown) -> Answer {
        wait_for("the code to be received", || {
            let page = self.get("/login", &shown.cookie);
            (page.status == 200 && !page.body.contains("three minutes:")).then_some(page)
        })
    }

    fn signed_in(&self) -> Vec<Value> {
        json_of(&self.host, &["console", "sessions", "--json"])["sessions"].as_array().unwrap().clone()
    }
}

/// The code that a page shows, as people type it.
fn code_in(page: &Answer) -> String {
    let (_, rest) = page.body.split_once("<code>/login ").unwrap_or_else(|| panic!("{page:?}"));
    rest.split_once('<').unwrap().0.to_owned()
}

/// No file of the installation holds the code, written with or without its dash, and neither does the log.
fn assert_nowhere(console: &mut Console, code: &str) {
    let plain = code.replace('-', "");
    for code in [code, &plain] {
        let found = Command::new("grep").args(["-rlaiF", code]).arg(console.host.data()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "", "{code} is in a file");
        let log = console.host.daemon().unwrap().stderr();
        assert!(!log.contains(code), "{log}");
    }
    let searched = searched(&console.host, &plain);
    let found = searched.stdout;
    assert!(searched.code == Some(0) && !found.contains(&plain) && !found.contains("/login"), "{found}");
}

#[test]
fn the_person_who_sends_the_code_signs_in_without_granting_roles() {
    let (mut console, server) = console();
    let out = console.get("/", "");
    assert!(out.status == 401 && out.body.contains("Sign in from a chat"), "{out:?}");
    let shown = console.begin_login();
    assert!(shown.code.len() == 9 && shown.code.as_bytes()[4] == b'-', "{}", shown.code);
    // Looking at the page neither ends the code nor signs anyone in, and another browser does not see it.
    let again = console.get("/login", &shown.cookie);
    assert!(again.body.contains(&shown.code) && again.cookie().is_none(), "{again:?}");
    assert!(!console.get("/login", "").body.contains(&shown.code));
    assert_eq!(console.post("/login/end", &shown.cookie, "").status, 410, "before the code was sent");

    server.happens(direct(1, ANN, &format!("/login {}", shown.code.to_lowercase())));
    let page = console.wait_login(&shown);
    assert!(page.body.contains("telegram:5") && page.cookie().is_none(), "{page:?}");
    assert_eq!(console.sessions(), 0, "only the button signs in");
    // Another browser, and a page of another site, cannot press it.
    assert_eq!(console.post("/login/end", "", "").status, 403);
    let other = console.begin_login();
    assert_eq!(console.post("/login/end", &other.cookie, "").status, 410);
    let crossed = format!("Origin: http://evil.example\r\nCookie: {}\r\n", shown.cookie);
    assert_eq!(console.post_with("/login/end", &crossed, "").status, 403);
    let done = console.post("/login/end", &shown.cookie, "");
    assert_eq!((done.status, done.header("location")), (303, Some("/")), "{done:?}");
    let cookie = done.cookie().unwrap();
    assert_eq!(console.post("/login/end", &shown.cookie, "").status, 410, "a code works once");
    let sessions = console.signed_in();
    assert_eq!(
        (sessions.len(), &sessions[0]["user"], &sessions[0]["login"]),
        (1, &json!("telegram:5"), &json!("chat"))
    );

    let home = console.get("/", &cookie);
    assert!(home.status == 200 && home.body.contains("Needs a decision"), "{home:?}");
    let token = home.field("token");
    for form in ["do=grant&of=telegram:9&to=owner", "do=freeze&of=main", "do=allow-host&of=main&to=example.com"] {
        let refused = console.post("/do", &cookie, &format!("token={token}&{form}"));
        assert!(refused.status == 403 && refused.body.contains("from a chat"), "{form}: {refused:?}");
    }
    let notes = console.host.data().join("groups/main/memory/notes.md");
    std::fs::create_dir_all(notes.parent().unwrap()).unwrap();
    std::fs::write(&notes, "Ann likes tea\n").unwrap();
    for how in ["remove", "correct"] {
        let form = format!("token={token}&line=1&was=Ann+likes+tea&text=x&how={how}");
        let refused = console.post("/memory/main/memory%2Fnotes.md", &cookie, &form);
        assert!(refused.status == 403 && refused.body.contains("from a chat"), "{how}: {refused:?}");
    }
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "Ann likes tea\n");
    let answered = wait_for("an answer in the chat", || Some(server.shown(ANN)).filter(|shown| !shown.is_empty()));
    assert!(answered[0].contains("received your code") && answered[0].contains("sign it out"), "{answered:?}");
    let why = console.host.done(&["why", "1"], b"");
    assert!(why.contains("signing in to the console"), "{why}");
    assert_nowhere(&mut console, &shown.code);
    console.host.check();
}

#[test]
fn codes_prove_nothing_in_groups_for_strangers_or_when_they_are_wrong() {
    let (mut console, server) = console();
    // In a group, where others read it.
    let shown = console.begin_login();
    let group = json!({"id": -5, "type": "group", "title": "All"});
    server.happens(sent(1, ANN, &group, &format!("/login {}", shown.code)));
    let page = console.wait_login(&shown);
    assert!(page.body.contains("no longer works"), "{page:?}");
    assert_nowhere(&mut console, &shown.code);
    // Without the command, in a direct message: no agent gets it.
    let shown = console.begin_login();
    server.happens(direct(2, ANN, &format!("is it {}?", shown.code)));
    assert!(console.wait_login(&shown).body.contains("no longer works"));
    assert_nowhere(&mut console, &shown.code);
    // Over a network that proves nothing: people who type at this machine say who they are.
    let shown = console.begin_login();
    let mut claimed = event("t1", &format!("/login {}", shown.code));
    claimed["platformId"] = "5".into();
    claimed["message"]["content"]["senderId"] = "5".into();
    console.host.done(&["inject", "--json"], claimed.to_string().as_bytes());
    assert_ne!(console.post("/login/end", &shown.cookie, "").status, 303, "an injected message proves nothing");
    assert!(console.wait_login(&shown).body.contains("no longer works"));
    assert_nowhere(&mut console, &shown.code);
    // A stranger may see nothing, so the code of one signs no one in.
    let shown = console.begin_login();
    server.happens(direct(3, BOB, &format!("/login {}", shown.code)));
    let page = console.wait_login(&shown);
    assert!(page.body.contains("telegram:77"), "{page:?}");
    let refused = console.post("/login/end", &shown.cookie, "");
    assert!(refused.status == 403 && refused.body.contains("no role") && refused.cookie().is_none(), "{refused:?}");
    assert!(server.shown(BOB).is_empty(), "strangers get no answer");
    // Wrong codes, until not even the right one works.
    let shown = console.begin_login();
    for number in 10..15 {
        server.happens(direct(number, ANN, "/login WRNG-C0DE"));
    }
    server.happens(direct(15, ANN, &format!("/login {}", shown.code)));
    let told = wait_for("all answers", || {
        Some(server.shown(ANN)).filter(|shown| shown.iter().any(|text| text.contains("too many wrong codes")))
    });
    assert!(told.iter().any(|text| text.contains("No browser shows this code")), "{told:?}");
    assert!(console.get("/login", &shown.cookie).body.contains(&shown.code), "it waits for somebody else");
    assert_eq!((console.post("/login/end", &shown.cookie, "").status, console.sessions()), (410, 0));
    assert_nowhere(&mut console, &shown.code);
    console.host.check();
}

/// The console, the terminal and `hearth inject` prove no sender, like a network that does not.
#[test]
fn codes_that_are_typed_elsewhere_go_to_no_agent_and_no_longer_work() {
    let (mut console, _server) = console();
    let cookie = console.sign_in(&["--user", "telegram:5"]);
    for place in ["console", "terminal", "inject"] {
        let shown = console.begin_login();
        let text = format!("my code is {} ok?", shown.code);
        match place {
            "console" => {
                let chat = console.get("/chat/main", &cookie);
                let (token, id) = (chat.field("token"), chat.field("id"));
                let form = format!("token={token}&id={id}&text={}", text.replace(' ', "+"));
                assert_eq!(console.post("/chat/main", &cookie, &form).status, 303);
                let chat = console.get("/chat/main", &cookie).body;
                assert!(chat.contains("This was not sent") && !chat.contains("echo:"), "{chat}");
            }
            "terminal" => {
                let said = console.host.run(&["chat", "--agent", "main", &text], b"");
                assert!(said.stderr.contains("this was not sent") && !said.stdout.contains("echo:"), "{said:?}");
            }
            _ => drop(console.host.inject("i1", &text)),
        }
        assert!(console.wait_login(&shown).body.contains("no longer works"), "{place}");
        console.host.wait_settled();
        assert_nowhere(&mut console, &shown.code);
    }
}

#[test]
fn a_killed_daemon_ends_codes_and_it_is_off_unless_configured() {
    let (mut console, server) = console();
    let waiting = console.begin_login();
    let proved = console.begin_login();
    server.happens(direct(1, ANN, &format!("/login {}", proved.code)));
    console.wait_login(&proved);
    console.host.kill();
    console.host.start();
    wait_for("the console", || TcpStream::connect(("127.0.0.1", console.port)).ok());
    for shown in [&waiting, &proved] {
        let page =
            wait_for("the page", || Some(console.get("/login", &shown.cookie)).filter(|page| page.status == 200));
        assert!(page.body.contains("no longer works"), "{page:?}");
        assert_eq!(console.post("/login/end", &shown.cookie, "").status, 410);
    }
    server.happens(direct(2, ANN, &format!("/login {}", waiting.code)));
    wait_for("the answer", || server.shown(ANN).iter().any(|text| text.contains("No browser shows")).then_some(()));
    assert_nowhere(&mut console, &waiting.code);

    let shown = console.begin_login();
    console.host.apply(&format!("schema = 1\n[console]\nlisten = \"127.0.0.1:{}\"\n", console.port));
    let request = format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", console.here());
    wait_for("it to be off", || {
        // It listens anew when its settings change.
        let page = console.answer(request.as_bytes())?;
        (page.status == 401 && !page.body.contains("from a chat")).then_some(())
    });
    assert_eq!(console.post("/login", "", "").status, 403);
    assert_eq!(console.post("/login/end", &shown.cookie, "").status, 410);
    assert_eq!(console.sessions(), 0);
    console.host.check();
}

/// Asks for a code from this address of the machine, and returns the status.
fn begin_from(console: &Console, address: &str) -> String {
    const CLIENT: &str = r#"
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 30, (sys.argv[2], 0)) as stream:
    stream.sendall(sys.argv[3].encode())
    print(stream.makefile().readline().split()[1])
"#;
    let request = format!(
        "POST /login HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n",
        console.here()
    );
    let port = console.port.to_string();
    let ended = python().args(["-c", CLIENT, &port, address, &request]).output().unwrap();
    String::from_utf8_lossy(&ended.stdout).trim().to_owned()
}

#[test]
fn a_visitor_who_asks_for_many_codes_ends_no_code_of_others() {
    let (console, server) = console();
    let shown = console.begin_login();
    let answers: Vec<Answer> = (0..40).map(|_| console.post("/login", "", "")).collect();
    let refused: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert_eq!(refused.len(), 36, "{answers:?}");
    for answer in refused {
        assert!(answer.cookie().is_none() && answer.body.contains("Try again in three minutes"), "{answer:?}");
    }
    // The person who was there before has a code, and the browser can show another one in its place.
    assert!(console.get("/login", &shown.cookie).body.contains(&shown.code));
    let another = console.post("/login", &shown.cookie, "");
    assert_eq!(another.status, 303, "{another:?}");
    let cookie = another.cookie().unwrap();
    let other = Shown { code: code_in(&console.get("/login", &cookie)), cookie };
    assert!(console.get("/login", &shown.cookie).body.contains("no longer works"));
    // Elsewhere there are codes.
    assert_eq!((begin_from(&console, "127.0.0.1"), begin_from(&console, "127.0.0.2")), ("429".into(), "303".into()));
    server.happens(direct(1, ANN, &format!("/login {}", other.code)));
    assert!(console.wait_login(&other).body.contains("telegram:5"));
    assert_eq!(console.post("/login/end", &other.cookie, "").status, 303);
    assert_eq!(console.sessions(), 1);
}

#[test]
fn the_page_goes_on_when_the_code_was_sent() {
    let Some(mut browser) = Browser::start() else { return };
    let (console, server) = console();
    browser.go(&format!("http://{}/", console.here()));
    browser.press("Sign in from a chat");
    browser.wait("!!document.querySelector('.code')");
    // In a group, others have read it.
    let group = json!({"id": -5, "type": "group", "title": "All"});
    let shown = browser.eval("document.querySelector('.code').innerText").as_str().unwrap().trim().to_owned();
    server.happens(sent(7, ANN, &group, &shown));
    browser.wait("document.body.innerText.includes('no longer works')");
    browser.press("Show another code");
    browser.wait("!!document.querySelector('.code')");
    assert_ne!(browser.eval("document.querySelector('.code').innerText.trim()"), shown);
    // The first page was for people who are signed in, and its status says so.
    browser.step(&json!({"noise": true}));
    look(&mut browser, &console, "login");
    let code = browser.eval("document.querySelector('.code').innerText").as_str().unwrap().trim().to_owned();
    server.happens(direct(1, ANN, &code));
    browser.wait("document.body.innerText.includes('telegram:5')");
    look(&mut browser, &console, "login-sent");
    browser.press("Sign in");
    browser.wait("document.querySelector('h1')?.innerText === 'Home'");
    // Back: the code is used up, and its page says so.
    browser.go(&format!("http://{}/login", console.here()));
    assert!(
        browser.text().contains("Not signed in") || browser.text().contains("no longer works"),
        "{}",
        browser.text()
    );
    browser.go(&format!("http://{}/people", console.here()));
    assert!(browser.text().contains("signed in from a chat"), "{}", browser.text());
}

fn sign_in(world: &mut World, person: &str, login: Login) -> ConsoleSessionId {
    let token = [if login == Login::Chat { 2 } else { 1 }; 32];
    let input = ConsoleInput::SignIn { user: user(person), token, browser: String::new(), login };
    match world.put(Input::Console(input)) {
        Reply::Console(session) => session,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_from_a_chat_decides_nothing_that_gives_an_agent_more() {
    let mut world = working_in(World::new());
    ask(&mut world, "r1", packages());
    ask(&mut world, "r2", Request::CreateAgent { name: "helper".into(), instructions: None });
    let by_chat = sign_in(&mut world, "terminal:7", Login::Chat);
    let before = world.text();
    let approval = |id| PromptSubject::Approval(ApprovalId::new(id));
    for (id, value) in [(1, "approve"), (1, "Approve"), (1, "1"), (2, "approve")] {
        let refused = world.put(Input::DecideAs(by_chat, approval(id), value.into()));
        let Reply::Refused(refusal) = &refused else { panic!("{id} {value}: {refused:?}") };
        assert!(refusal.code == "forbidden" && refusal.message.contains("from a chat"), "{refusal:?}");
    }
    // A press in the console does not say how its person signed in.
    let nonce = world.read(|db, txn| db.approvals.require(txn, &ApprovalId::new(1))).nonce;
    let button = Button { matter: approval(1), nonce, option: 0 };
    let platform_id = ForeignId::new("the chat", "main/terminal:7").unwrap();
    let at = Address { channel: ChannelName::new("console").unwrap(), platform_id, thread: None };
    let pressed = world.put(Input::Pressed(Press { by: user("terminal:7"), at, button }));
    assert!(matches!(&pressed, Reply::Answered { decided: false, .. }), "{pressed:?}");
    assert_eq!(world.text(), before);
    let rejected = world.put(Input::DecideAs(by_chat, approval(1), "reject".into()));
    assert!(matches!(rejected, Reply::Answered { decided: true, .. }), "{rejected:?}");
    let by_link = sign_in(&mut world, "terminal:7", Login::Link);
    let approved = world.put(Input::DecideAs(by_link, approval(2), "approve".into()));
    assert!(matches!(approved, Reply::Answered { decided: true, .. }), "{approved:?}");
    world.assert_sound();
}

#[test]
fn a_session_from_a_chat_has_all_rights_but_over_roles_and_agents() {
    let mut world = World::of(HOUSE);
    let by_link = sign_in(&mut world, "terminal:1", Login::Link);
    let by_chat = sign_in(&mut world, "terminal:1", Login::Chat);
    let folder = |name: &str| hearth::model::entity::Folder::new(name).unwrap();
    let changes = [
        Change::Grant(user("telegram:4"), RoleSpec::Owner),
        Change::Revoke(user("telegram:2"), RoleSpec::AdminOf(folder("other"))),
        Change::AddMember(folder("main"), user("telegram:4")),
        Change::RemoveMember(folder("main"), user("telegram:3")),
        Change::FreezeAgent(folder("main")),
        Change::UnfreezeAgent(folder("main")),
        Change::AllowHost(folder("main"), "example.com:443".parse().unwrap()),
    ];
    for change in changes {
        let command = || Box::new(ConsoleCommand::Change(change.clone()));
        let refused = world.put(Input::CommandAs(by_chat, command()));
        let Reply::Refused(refusal) = &refused else { panic!("{change:?}: {refused:?}") };
        assert!(refusal.code == "forbidden" && refusal.message.contains("from a chat"), "{refusal:?}");
        let done = world.put(Input::CommandAs(by_link, command()));
        assert!(!matches!(done, Reply::Refused(_)), "{change:?}: {done:?}");
    }
    let stop = || Box::new(ConsoleCommand::Change(Change::StopAgent(folder("main"))));
    let stopped = world.put(Input::CommandAs(by_chat, stop()));
    assert!(!matches!(stopped, Reply::Refused(_)), "{stopped:?}");
    world.assert_sound();
}
