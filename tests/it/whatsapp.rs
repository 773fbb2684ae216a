//! `hearth-networks whatsapp` between a daemon and a stand-in for WhatsApp's Cloud API.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::host::bridge_programs::{contents, kill, program, running};
use crate::host::chaos::{Chaos, settled, texts};
use crate::host::whatsapp::{ANN, BOB, EVE, NUMBER, OTHER, WhatsApp};
use crate::host::{wait_for, wait_for_or};

impl WhatsApp {
    /// Starts a daemon with the number as the channel `whatsapp`, and an agent that echoes what Ann and Bob write.
    /// Eve is a stranger, who is treated in a way.
    fn connected(strangers: &str) -> Self {
        let mut whatsapp = Self::start();
        whatsapp.connect(strangers);
        whatsapp.up();
        whatsapp
    }

    fn connect(&mut self, strangers: &str) {
        let program = self.program(&program("networks"));
        self.host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "100".to_owned()));
        let settings = self.settings();
        let setting = |name: &str| format!("{name} = {}", settings[name]);
        let settings = ["server", "number", "listen"].map(setting).join(", ");
        let chat = |id: &str, strangers: &str| {
            format!(
                "[[chats]]\nchannel = \"whatsapp\"\nplatform_id = \"{id}\"\nunknown_senders = \"{strangers}\"\n\
                 [[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"\n"
            )
        };
        let owner = |id: &str| format!("[[users]]\nid = \"whatsapp:{id}\"\nroles = [\"owner\"]\n");
        self.host.apply(&format!(
            "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n[channels.whatsapp]\ntype = \"bridge\"\n\
             command = [\"{}\", \"whatsapp\"]\ntoken = \"{}\"\nsecret = \"{}\"\nsettings = {{ {settings} }}\n{}{}{}{}{}",
            program.display(),
            self.secret("token"),
            self.secret("secret"),
            owner(ANN),
            owner(BOB),
            chat(ANN, "strict"),
            chat(BOB, "strict"),
            chat(EVE, strangers),
        ));
        self.host.start();
    }

    fn up(&self) {
        wait_for_or("the bridge", &mut || (self.listed()["state"] == "up").then_some(()), || self.listed().to_string());
    }

    fn listed(&self) -> Value {
        let mut list: Value = serde_json::from_str(&self.host.done(&["channels", "list", "--json"], b"")).unwrap();
        list["channels"].as_array_mut().unwrap().pop().unwrap_or_default()
    }

    /// Waits until the channel is down for a reason.
    fn down(&self, text: &str) -> String {
        wait_for_or(
            text,
            &mut || {
                let listed = self.listed();
                let why = listed["why"].as_str().unwrap_or_default();
                (listed["state"] == "down" && why.contains(text)).then(|| why.to_owned())
            },
            || self.listed().to_string(),
        )
    }

    /// A person writes something; its id.
    fn says(&self, text: &str, more: Value) -> String {
        let mut asked = json!({ "text": text });
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.asks("say", asked)["id"].as_str().unwrap().to_owned()
    }

    /// What the bot sent to a person.
    fn sent(&self, person: &str) -> Vec<Value> {
        self.asks("sent", json!({ "chat": person })).as_array().unwrap().clone()
    }

    /// The first message with a text.
    fn answer(&self, person: &str, text: &str) -> Value {
        let has = |message: &Value| message["text"].as_str().is_some_and(|found| found.contains(text));
        wait_for_or(&format!("the answer with {text}"), &mut || self.sent(person).into_iter().find(has), || {
            let known = self.asks("known", json!({}));
            format!("{:#?}", [self.listed(), self.host.outgoing().into(), self.host.rows("bodies").into(), known])
        })
    }

    fn fault(&self, name: &str, fault: Value) {
        self.asks("fault", json!({ "name": name, "faults": [fault] }));
    }

    fn asked(&self, name: &str) -> Vec<Value> {
        self.asks("log", json!({ "name": name })).as_array().unwrap().clone()
    }

    fn stored(&self) -> String {
        self.host.rows("bodies").iter().map(Value::to_string).collect()
    }

    /// How often the bot sent a text to a person.
    fn count(&self, person: &str, text: &str) -> usize {
        let all: String = self.sent(person).iter().filter_map(|message| message["text"].as_str()).collect();
        all.matches(text).count()
    }

    /// Waits until an outgoing message has ended with a text.
    fn ended(&self, text: &str) {
        let has = |row: &Value| row["value"]["state"].to_string().contains(text);
        wait_for_or(text, &mut || self.host.outgoing().into_iter().find(has), || {
            format!("{:#?}", self.host.outgoing())
        });
    }

    fn spooled(&self) -> Vec<PathBuf> {
        let directory = self.host.data().join("bridges/whatsapp/state/spool");
        std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }

    /// The processes of the bridge.
    fn running(&self) -> Vec<u32> {
        running(&self.directory.path().join("hearth-networks"))
    }

    /// What the bridge answers to bytes; nothing if it closes the connection.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = String::new();
        // It may have closed the connection with bytes that it did not read.
        stream.read_to_string(&mut answer).ok();
        answer
    }
}

#[test]
fn conversations_with_people_of_whatsapp() {
    let whatsapp = WhatsApp::connected("strict");
    let first = whatsapp.says("🦀 **how** https://x.test/_a_?", json!({ "times": 3 }));
    let answer = whatsapp.answer(ANN, "how");
    assert!(answer["text"].as_str().unwrap().contains("🦀 *how* https://x.test/_a_?"), "{answer}");
    assert_eq!((&answer["preview"], &answer["to"]), (&json!(false), &json!(ANN)));
    whatsapp.says("an answer to it", json!({ "quote": answer["id"] }));
    whatsapp.answer(ANN, "an answer to it");
    whatsapp.says("from one without a number", json!({ "person": BOB }));
    whatsapp.answer(BOB, "from one without a number");
    nothings(&whatsapp);
    whatsapp.asks("batch", json!({ "texts": ["first of two", "second of two"] }));
    whatsapp.answer(ANN, "second of two");
    let stored = whatsapp.stored();
    for text in ["by a stranger", "to another number", "in a group", "by a reaction"] {
        assert!(!stored.contains(text), "{text}: {stored}");
    }
    assert!(stored.contains("Ann <3") && stored.contains(&format!("\"handle\":\"{ANN}\"")), "{stored}");
    assert!(stored.contains("replyTo"), "{stored}");
    let at = |text: &str| stored.find(text).unwrap();
    assert!(at("first of two") < at("second of two"), "by their times");
    assert_eq!(whatsapp.host.rows("bodies").len(), 5);
    let read = whatsapp.asks("known", json!({}))["read"].clone();
    let (shown, id) = (&read[0]["typing_indicator"]["type"], &read[0]["message_id"]);
    assert_eq!((shown, id), (&json!("text"), &json!(first)), "{read}");
    wait_for("an empty spool", || whatsapp.spooled().is_empty().then_some(()));
    whatsapp.host.check();
}

/// What is no message for an agent.
fn nothings(whatsapp: &WhatsApp) {
    whatsapp.says("by a stranger", json!({ "person": EVE, "senderId": ANN, "sender": { "id": ANN } }));
    whatsapp.says("to another number", json!({ "number": OTHER }));
    whatsapp.says("in a group", json!({ "group_id": "a-group" }));
    let reaction = json!({ "emoji": "by a reaction", "message_id": "wamid.A" });
    whatsapp.says("", json!({ "type": "reaction", "reaction": reaction, "text": null }));
    whatsapp.says("", json!({ "type": "system", "system": { "type": "user_changed_number", "wa_id": EVE } }));
}

/// Files of people: their bytes, and a reason where there is none.
#[test]
fn files_of_people_of_whatsapp() {
    let whatsapp = WhatsApp::connected("strict");
    whatsapp.says("see this", json!({ "file": { "name": "a.txt", "text": "the content of a file" } }));
    whatsapp.answer(ANN, "see this");
    whatsapp.says("a picture", json!({ "file": { "kind": "image", "mime": "image/png", "text": "a png" } }));
    whatsapp.answer(ANN, "a picture");
    for (text, file, why) in [
        ("gone", json!({ "name": "gone.txt", "gone": true }), "Unsupported get request"),
        ("elsewhere", json!({ "name": "b.txt", "url": "https://evil.test/x" }), "is not one of WhatsApp"),
        ("large", json!({ "name": "c.txt", "size": 1_u64 << 40 }), "it is larger than"),
    ] {
        whatsapp.says(text, json!({ "file": file }));
        whatsapp.answer(ANN, text);
        let stored = whatsapp.stored();
        assert!(stored.contains(why) || stored.contains("The file expired"), "{why}: {stored}");
    }
    let asked = whatsapp.asked("file").len();
    whatsapp.says("from a stranger", json!({ "person": EVE, "file": { "name": "d.txt", "text": "of a stranger" } }));
    whatsapp.says("afterwards", json!({}));
    whatsapp.answer(ANN, "afterwards");
    assert_eq!(whatsapp.asked("file").len(), asked, "a stranger's file is not fetched");
    let kept = contents(&whatsapp.host.data().join("files"));
    for content in [&b"the content of a file"[..], b"a png"] {
        assert!(kept.iter().any(|file| file == content));
    }
    whatsapp.host.check();
}

/// A decision has buttons; a stranger's press decides nothing, and a second one is told so.
#[test]
fn cards_of_whatsapp_have_buttons() {
    let whatsapp = WhatsApp::connected("request_approval");
    whatsapp.says("may I?", json!({ "person": EVE }));
    let has_buttons = |message: &Value| message["kind"] == "interactive";
    let card = wait_for("the card", || whatsapp.sent(ANN).into_iter().chain(whatsapp.sent(BOB)).find(has_buttons));
    let owner = card["to"].as_str().unwrap();
    let reply = &card["content"]["action"]["buttons"][0]["reply"];
    let press = |person: &str| {
        whatsapp.says("", json!({ "person": person, "press": ["button_reply", reply["id"], reply["title"]] }));
    };
    let is_open = || whatsapp.host.done(&["approvals", "list", "--json"], b"").contains("\"pending\"");
    press(EVE);
    whatsapp.answer(EVE, "");
    assert!(is_open(), "a stranger pressed");
    press(owner);
    wait_for("the decision", || (!is_open()).then_some(()));
    whatsapp.answer(EVE, "may I?");
    let before = whatsapp.sent(owner).len();
    press(owner);
    wait_for("what a second press does", || (whatsapp.sent(owner).len() > before).then_some(()));
    assert_eq!(whatsapp.host.rows("bodies").len(), 1, "a press is no message");
    whatsapp.host.check();
}

/// What WhatsApp refuses, at once or in a report after it accepted the message.
#[test]
fn refusals_and_pauses_of_whatsapp() {
    let whatsapp = WhatsApp::connected("strict");
    // More than a day after a person's last message, which only the report says.
    whatsapp.asks("set", json!({ "open": false }));
    whatsapp.says("too late.", json!({}));
    whatsapp.ended("they must write first");
    whatsapp.asks("set", json!({ "open": true }));
    whatsapp.fault("messages", json!({ "code": 131_047 }));
    whatsapp.says("refused.", json!({}));
    wait_for("a second refusal", || {
        let refused = |row: &Value| row["value"]["state"].to_string().contains("they must write first");
        (whatsapp.host.outgoing().into_iter().filter(refused).count() == 2).then_some(())
    });
    whatsapp.fault("messages", json!({ "fails": 131_026 }));
    whatsapp.says("blocked.", json!({}));
    whatsapp.ended("that person cannot get it");
    // A pause, or a fault that WhatsApp itself reports as not delivered, and then once.
    for (number, fault) in [
        json!({ "code": 130_429, "status": 429, "headers": { "retry-after": "1" } }),
        json!({ "code": 131_056, "headers": { "retry-after": "4" } }),
        json!({ "code": 80_007, "headers": { "retry-after": "1" } }),
        json!({ "fails": 131_000 }),
    ]
    .into_iter()
    .enumerate()
    {
        whatsapp.fault("messages", fault);
        let text = format!("text-{number}.");
        whatsapp.says(&text, json!({}));
        whatsapp.answer(ANN, &text);
        assert_eq!(whatsapp.count(ANN, &text), 1);
    }
    assert_eq!(whatsapp.count(ANN, "(sent again"), 0);
    // Nothing is sent to that person for a while, and to others it is.
    whatsapp.fault("messages", json!({ "code": 131_056, "headers": { "retry-after": "3000" } }));
    whatsapp.says("held.", json!({}));
    wait_for("the pause", || whatsapp.asks("log", json!({})).to_string().contains("held.").then_some(()));
    whatsapp.says("to Bob.", json!({ "person": BOB }));
    whatsapp.answer(BOB, "to Bob.");
    assert_eq!(whatsapp.count(ANN, "held."), 0);
}

/// Answers that are lost: WhatsApp's reports say what was sent, and what may be there twice says so.
#[test]
fn answers_of_whatsapp_that_are_lost() {
    let whatsapp = WhatsApp::connected("strict");
    whatsapp.fault("messages", json!({ "cut": true }));
    whatsapp.says("proved.", json!({}));
    whatsapp.answer(ANN, "proved.");
    // Reported before the answer, which is late.
    whatsapp.fault("messages", json!({ "late": 1 }));
    whatsapp.says("reported.", json!({}));
    whatsapp.answer(ANN, "reported.");
    whatsapp.says("and then.", json!({}));
    whatsapp.answer(ANN, "and then.");
    assert_eq!((whatsapp.count(ANN, "proved."), whatsapp.count(ANN, "reported.")), (1, 1));
    // Neither sent nor answered.
    whatsapp.fault("messages", json!({ "lost": true }));
    whatsapp.says("lost.", json!({}));
    assert!(whatsapp.answer(ANN, "lost.")["text"].as_str().unwrap().starts_with("(sent again"));
    whatsapp.fault("messages", json!({ "html": 502 }));
    whatsapp.says("bad gateway.", json!({}));
    assert!(whatsapp.answer(ANN, "bad gateway.")["text"].as_str().unwrap().starts_with("(sent again"));
    // Without reports, a repeat is marked.
    whatsapp.asks("set", json!({ "told": false }));
    whatsapp.fault("messages", json!({ "cut": true }));
    whatsapp.says("unproved.", json!({}));
    wait_for("a marked repeat", || (whatsapp.count(ANN, "unproved.") == 2).then_some(()));
    assert_eq!(whatsapp.count(ANN, "(sent again, the first attempt may have arrived)"), 3);
    whatsapp.host.check();
}

/// A token that is not accepted is told, at the start and later.
#[test]
fn a_token_that_whatsapp_refuses_is_told() {
    let mut whatsapp = WhatsApp::start();
    whatsapp.asks("set", json!({ "token": "another" }));
    whatsapp.connect("strict");
    whatsapp.down("does not accept the access token");
    let asked = whatsapp.asked("number").len();
    whatsapp.says("while it is refused", json!({}));
    whatsapp.asks("set", json!({ "token": "EAAtokenOfTests" }));
    whatsapp.host.done(&["channels", "reconnect", "whatsapp"], b"");
    whatsapp.up();
    whatsapp.answer(ANN, "while it is refused");
    assert!(asked <= 3, "{asked} requests");
    whatsapp.asks("set", json!({ "token": "another" }));
    whatsapp.says("after it was revoked", json!({}));
    whatsapp.down("does not accept the access token");
    assert!(!whatsapp.host.daemon().unwrap().stderr().contains("EAAtokenOfTests"));
}

/// Only signed bytes are read, and neither size nor slowness of others holds up a message.
#[test]
fn the_entrance_for_whatsapp_is_closed_to_others() {
    let mut whatsapp = WhatsApp::connected("strict");
    assert_eq!(whatsapp.asks("verify", json!({ "challenge": "77" })), json!([200, "77"]));
    assert_eq!(whatsapp.asks("verify", json!({ "token": "another" }))[0], 403);
    assert_eq!(whatsapp.asks("verify", json!({ "mode": "unsubscribe" }))[0], 403);
    let forged = |secret: &str| whatsapp.asks("say", json!({ "text": "forged", "secret": secret }))["status"].clone();
    assert_eq!((forged("another"), forged("")), (json!(401), json!(401)));
    assert_eq!(whatsapp.asks("reencoded", json!({ "text": "forged ä" })), 401);
    let post = |text: &str| whatsapp.asks("post", json!({ "text": text }));
    assert_eq!((post("[]"), post("no JSON"), post(&"[".repeat(100_000))), (json!(200), json!(400), json!(400)));
    assert_eq!(whatsapp.asks("post", json!({ "text": "{}", "path": "/" })), 404);
    assert_eq!(whatsapp.asks("huge", json!({ "size": 3_000_000 })), 200, "the largest that WhatsApp sends");
    for (request, status) in [
        ("POST /whatsapp HTTP/1.1\r\ncontent-length: 99999999\r\n\r\n".to_owned(), "413"),
        (format!("GET /whatsapp HTTP/1.1\r\na: {}\r\n\r\n", "x".repeat(16 << 10)), "431"),
        ("POST /whatsapp HTTP/1.1\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}".to_owned(), "400"),
        ("POST /whatsapp HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n".to_owned(), "401"),
        ("\0\0\0\0\r\n\r\n".to_owned(), "400"),
        ("PUT /whatsapp HTTP/1.1\r\n\r\n".to_owned(), "405"),
    ] {
        let answer = whatsapp.raw(request.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.60}: {answer}");
    }
    // More connections than it has, none of which says anything.
    let slow: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(("127.0.0.1", whatsapp.port)).unwrap()).collect();
    whatsapp.says("behind many slow ones.", json!({}));
    whatsapp.answer(ANN, "behind many slow ones.");
    drop(slow);
    let stored = whatsapp.stored();
    assert!(!stored.contains("forged") && stored.contains("huge x"));
    let log = whatsapp.host.daemon().unwrap().stderr();
    for secret in ["0a1b2c3d4e5f60718293a4b5c6d7e8f9", "words-of-the-operator"] {
        assert!(!log.contains(secret));
    }
    whatsapp.host.check();
}

/// Two bridges cannot listen on one port, and settings that are wrong are told.
#[test]
fn settings_of_whatsapp_that_are_wrong_are_told() {
    let mut whatsapp = WhatsApp::start();
    let taken = std::net::TcpListener::bind(("127.0.0.1", whatsapp.port)).unwrap();
    whatsapp.connect("strict");
    whatsapp.down("cannot be listened on");
    drop(taken);
    whatsapp.up();
    let changed = whatsapp.host.done(&["export"], b"").replace(&format!("number = \"{NUMBER}\""), "number = \"+1555\"");
    whatsapp.host.apply(&changed);
    whatsapp.down("must be the phone number ID");
    let secret = whatsapp.secret("secret");
    let changed = changed
        .replace("number = \"+1555\"", &format!("number = \"{NUMBER}\""))
        .replace(&secret, &whatsapp.secret("token"));
    whatsapp.host.apply(&changed);
    whatsapp.down("with a colon between them");
}

/// The bridge and the daemon are killed while messages arrive and answers leave: nothing is lost, and what people see twice
/// says so.
#[test]
fn nothing_is_lost_by_whatsapp_and_repeats_are_marked() {
    let mut whatsapp = WhatsApp::connected("strict");
    let chaos = Chaos::new(8);
    let shown = |whatsapp: &WhatsApp| texts(&whatsapp.sent(ANN));
    for (number, burst) in chaos.bursts() {
        burst.iter().for_each(|text| drop(whatsapp.says(text, json!({}))));
        std::thread::sleep(Duration::from_millis(37 * (number as u64 % 5)));
        match number % 4 {
            0 => whatsapp.fault("messages", json!({ "cut": true })),
            1 | 2 => whatsapp.running().into_iter().for_each(kill),
            _ => {
                whatsapp.host.kill();
                wait_for("the bridge to end with the daemon", || whatsapp.running().is_empty().then_some(()));
                whatsapp.host.start();
            }
        }
        chaos.follow(number, || shown(&whatsapp), || whatsapp.host.unfinished());
    }
    chaos.marked(|| shown(&whatsapp), || whatsapp.host.unfinished());
    settled(&whatsapp.host);
    assert_eq!(whatsapp.host.rows("bodies").len(), chaos.texts.len(), "each message is stored once");
    wait_for("an empty spool", || whatsapp.spooled().is_empty().then_some(()));
    whatsapp.host.check();
}
