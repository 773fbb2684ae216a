//! Pairing of an owner: a code goes from the terminal over Telegram to the daemon, and appears nowhere else.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::host::fake_telegram::{FakeTelegram, NAME, TOKEN};
use crate::host::pty::Pty;
use crate::host::{Host, event, telegram, wait_for};

const ANN: i64 = 6_037_840_640;
const BOB: i64 = 77;

/// A message of a person in their direct chat.
fn direct(id: i64, person: i64, text: &str) -> Value {
    sent(id, person, json!({"id": person, "type": "private", "first_name": "Ann"}), text)
}

fn sent(id: i64, person: i64, chat: Value, text: &str) -> Value {
    json!({"message": {
        "message_id": id, "date": 1_700_000_000, "text": text, "chat": chat,
        "from": {"id": person, "is_bot": false, "first_name": "Ann", "last_name": "Smith"},
    }})
}

/// A script that pairs: its process, its output, and its first line.
struct Script {
    child: Child,
    out: BufReader<ChildStdout>,
    first: Value,
}

impl Script {
    fn start(host: &Host) -> Self {
        let mut command: Command = host.command(&["channels", "pair", "telegram", "--yes", "--json"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let first = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        Self { child, out, first }
    }

    fn code(&self) -> String {
        self.first["code"].as_str().unwrap().to_owned()
    }

    fn link_code(&self) -> String {
        let link = self.first["link"].as_str().unwrap();
        link.strip_prefix(&format!("https://t.me/{NAME}?start=")).unwrap().to_owned()
    }

    /// Its exit, its last output, and its messages.
    fn end(mut self) -> (bool, String, String) {
        let (mut out, mut error) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        (self.child.wait().unwrap().success(), out, error)
    }
}

/// The code on a terminal.
fn typed_code(shown: &str) -> String {
    let code = shown.lines().map(str::trim).find(|line| line.len() == 9 && line.as_bytes()[4] == b'-');
    code.unwrap_or_else(|| panic!("{shown}")).to_owned()
}

fn owners(host: &Host) -> String {
    host.done(&["roles", "list"], b"")
}

fn connected() -> (Host, FakeTelegram) {
    telegram::connect(Host::with_program("import sys\nfor line in sys.stdin: pass\n"))
}

/// No file of the installation holds the code, no search finds it, and the daemon's log does not name it. The recorded
/// requests to Telegram are not part of it.
fn assert_nowhere(host: &mut Host, code: &str) {
    let found = Command::new("grep").args(["-rlaiF", code]).arg(host.data()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "{code} is in a file");
    let found = host.run(&["search", code, "--json"], b"");
    assert!(found.code == Some(0) && !found.stdout.to_uppercase().contains(&code.to_uppercase()), "{found:?}");
    let log = host.daemon().map(|daemon| daemon.stderr()).unwrap_or_default();
    assert!(!log.to_uppercase().contains(&code.to_uppercase()), "{log}");
}

#[test]
fn the_person_who_sends_the_code_becomes_an_owner_and_is_asked_on_the_phone() {
    let (mut host, server) = connected();
    for (number, is_link) in [(1, false), (2, true)] {
        let person = ANN + number;
        let script = Script::start(&host);
        let (code, link_code) = (script.code(), script.link_code());
        assert!(code.len() == 8 && link_code.len() == 32, "{:?}", script.first);
        let text = if is_link { format!("/start {link_code}") } else { code.to_lowercase() };
        server.happens(direct(number, person, &text));
        let (done, out, error) = script.end();
        assert!(done, "{out}{error}");
        let last: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(last, json!({"user": format!("telegram:{person}"), "name": "Ann Smith", "role": "owner"}));
        assert!(owners(&host).contains(&format!("telegram:{person}")));
        let shown = wait_for("an answer", || Some(server.shown(person)).filter(|shown| !shown.is_empty()));
        assert!(shown[0].contains("received your code"), "{shown:?}");
        let why = host.done(&["why", &number.to_string()], b"");
        assert!(why.contains("hearth channels pair"), "{why}");
        assert_nowhere(&mut host, &code);
        assert_nowhere(&mut host, &link_code);
    }
    // An unknown sender addresses the bot: the owner is asked on the phone.
    server.happens(direct(9, BOB, "hello"));
    let asked = |person| server.shown(person).iter().any(|shown| shown.contains("telegram:77"));
    wait_for("a card on the phone", || (asked(ANN + 1) || asked(ANN + 2)).then_some(()));
    host.check();
}

#[test]
fn a_code_in_a_group_makes_no_owner_and_ends() {
    let (mut host, server) = connected();
    let script = Script::start(&host);
    let code = script.code();
    server.happens(sent(1, ANN, json!({"id": -5, "type": "group", "title": "All"}), &code));
    let (done, _, error) = script.end();
    assert!(!done && error.contains("others may have read it"), "{error}");
    server.happens(direct(2, ANN, &code));
    wait_for("the second message", || server.unconfirmed().is_empty().then_some(()));
    assert!(!owners(&host).contains("telegram:"));
    assert_nowhere(&mut host, &code);
    host.check();
}

/// `hearth inject` may name any sender and any chat.
#[test]
fn a_code_that_no_network_brought_makes_no_owner_and_ends() {
    let (mut host, server) = connected();
    for (number, is_alone) in [(1, true), (2, false)] {
        let script = Script::start(&host);
        let code = script.code();
        let mut claimed = event(&format!("i{number}"), &if is_alone { code.clone() } else { format!("it is {code}") });
        claimed["platformId"] = ANN.to_string().into();
        claimed["message"]["content"]["senderId"] = ANN.to_string().into();
        host.done(&["inject", "--json"], claimed.to_string().as_bytes());
        let (done, _, error) = script.end();
        assert!(!done && error.contains("others may have read it"), "{error}");
        server.happens(direct(number, ANN, &code));
        wait_for("the second message", || server.unconfirmed().is_empty().then_some(()));
        assert!(!owners(&host).contains("telegram:"));
        assert_nowhere(&mut host, &code);
    }
}

#[test]
fn wrong_codes_end_the_code_and_are_ordinary_messages() {
    let (host, server) = connected();
    let script = Script::start(&host);
    for number in 1..=5 {
        server.happens(direct(number, BOB, "WRNG-C0DE"));
    }
    let (done, _, error) = script.end();
    assert!(!done && error.contains("too many wrong codes"), "{error}");
    assert!(error.contains("a wrong code was sent"), "{error}");
    assert!(!owners(&host).contains("telegram:"));
    // The messages are recorded as ordinary ones, not as attempts to pair.
    let why = || Some(host.run(&["why", "1"], b"")).filter(|ended| ended.code == Some(0));
    let why = wait_for("a record of the first one", why).stdout;
    assert!(!why.contains("channels pair"), "{why}");
}

#[test]
fn the_operator_is_asked_before_a_person_becomes_an_owner() {
    let (host, server) = connected();
    for answer in ["n", "y"] {
        let mut at = Pty::start(host.command(&["channels", "pair", "telegram"]));
        at.wait("Waiting …");
        let code = typed_code(&at.shown());
        server.happens(direct(if answer == "n" { 1 } else { 2 }, ANN, &code));
        at.wait(&format!("Ann Smith (telegram:{ANN}) sent the code."));
        at.wait("[y/N]: ");
        assert!(!owners(&host).contains("telegram:"), "not before the answer");
        at.type_keys(&format!("{answer}\r"));
        let (ended, shown) = at.end();
        assert!(ended.success(), "{shown}");
        assert_eq!(owners(&host).contains("telegram:"), answer == "y", "{shown}");
    }
}

#[test]
fn the_end_of_the_daemon_or_the_command_ends_the_code() {
    let (mut host, server) = connected();
    let script = Script::start(&host);
    let code = script.code();
    host.kill();
    let (done, _, error) = script.end();
    assert!(!done && error.contains("the daemon stopped"), "{error}");
    host.start();
    let mut script = Script::start(&host);
    let other = script.code();
    script.child.kill().unwrap();
    script.child.wait().unwrap();
    for (number, text) in [(1, &code), (2, &other)] {
        server.happens(direct(number, ANN, text));
    }
    wait_for("both messages", || server.unconfirmed().is_empty().then_some(()));
    assert!(!owners(&host).contains("telegram:"));
    assert_nowhere(&mut host, &other);
    host.check();
}

#[test]
fn setup_pairs_the_owner() {
    let (mut host, server) = (Host::before_the_first_start(), FakeTelegram::start());
    host.env.push(("TERM".into(), "xterm".into()));
    let token = host.path("token");
    std::fs::write(&token, TOKEN).unwrap();
    let url = server.url();
    let telegram = ["--telegram-base-url", &url, "--telegram-token-file", token.to_str().unwrap()];
    let setup = ["setup", "--provider", "echo", "--runtime", "process", "--no-service", "--no-message"];
    let mut at = Pty::start(host.command(&[&setup[..], &telegram].concat()));
    at.answer("so that approvals reach you there? [Y/n]: ", "");
    at.wait("Waiting …");
    server.happens(direct(1, ANN, &typed_code(&at.shown())));
    at.answer("[y/N]: ", "y");
    at.wait(&format!("telegram:{ANN} is an owner"));
    let (ended, shown) = at.end();
    assert!(ended.success(), "{shown}");
    assert!(owners(&host).contains(&format!("telegram:{ANN}")));
    let again = host.done(&[&setup[..], &["--pair"]].concat(), b"");
    assert!(again.contains(&format!("owner: telegram:{ANN}")), "{again}");
}

#[test]
fn pairing_is_refused_where_it_proves_nothing() {
    let mut host = Host::with_program("import sys\nfor line in sys.stdin: pass\n");
    host.env.push(("HOOK".to_owned(), "a secret that is long enough for a webhook".to_owned()));
    let refused = |host: &Host, options: &[&str], words: &str| {
        let ended = host.run(&[&["channels", "pair"], options].concat(), b"");
        assert!(ended.code != Some(0) && ended.stderr.contains(words), "{options:?}: {ended:#?}");
    };
    refused(&host, &["telegram", "--yes"], "no daemon is running");
    refused(&host, &["telegram"], "add --yes");
    host.apply("schema = 1\n[channels.hook]\ntype = \"webhook\"\nsecret = \"env:HOOK\"\nlisten = \"127.0.0.1:0\"\n");
    host.start();
    refused(&host, &["hook", "--yes"], "proves nothing");
    refused(&host, &["nothing", "--yes"], "not found");
    refused(&host, &["terminal", "--yes"], "not found");
}
