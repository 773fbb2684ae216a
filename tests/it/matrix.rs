//! `hearth-matrix` between a daemon and a real Synapse.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::host::bridge_programs::{self, kill, running};
use crate::host::chaos::{Chaos, words};
use crate::host::matrix::Matrix;
use crate::host::{wait_for, wait_for_or};

mod backup;
mod sealed;
mod verified;

/// An id in a path.
fn part(id: &str) -> String {
    id.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

impl Matrix {
    /// A request of a person that has to succeed.
    fn asks(&self, person: &str, request: (&str, &str), body: &Value) -> Value {
        let (method, path) = request;
        let path = format!("/_matrix/client/v3/{path}");
        let words = ["as", person, method, &path, &body.to_string()];
        let words = if method == "GET" { &words[..4] } else { &words[..] };
        let answer: Value = serde_json::from_str(&self.people(words)).unwrap();
        assert_eq!(answer[0], 200, "{words:?}: {answer}");
        answer[1].clone()
    }

    /// A person makes a room and invites the bot.
    fn room(&self, person: &str, more: &Value) -> String {
        let mut asked = json!({ "preset": "private_chat", "invite": ["@bot:hearth.test"] });
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.asks(person, ("POST", "createRoom"), &asked)["room_id"].as_str().unwrap().to_owned()
    }

    /// Ann sends something; its id.
    fn sends(&self, room: &str, content: &Value) -> String {
        let path = format!("rooms/{}/send/m.room.message/TXN", part(room));
        self.asks("ann", ("PUT", &path), content)["event_id"].as_str().unwrap().to_owned()
    }

    fn says(&self, room: &str, text: &str) -> String {
        self.sends(room, &json!({ "msgtype": "m.text", "body": text }))
    }

    /// What the bot sent to a room, as a person who is there sees it, in its order.
    fn answers(&self, person: &str, room: &str) -> Vec<Value> {
        self.answers_since(&mut String::new(), person, room)
    }

    /// The same after a place, which it moves to the end: a long conversation is read once.
    fn answers_since(&self, from: &mut String, person: &str, room: &str) -> Vec<Value> {
        let is_ours = |event: &&Value| event["sender"] == "@bot:hearth.test" && event["type"] == "m.room.message";
        let mut found = Vec::new();
        loop {
            let path = format!("rooms/{}/messages?dir=f&limit=1000{from}", part(room));
            let page = self.asks(person, ("GET", &path), &json!({}));
            let events = page["chunk"].as_array().unwrap().iter();
            found.extend(events.filter(is_ours).map(|event| event["content"].clone()));
            let Some(end) = page["end"].as_str() else { return found };
            *from = format!("&from={end}");
        }
    }

    /// The first answer with a text.
    fn answer(&self, room: &str, text: &str) -> Value {
        let has = |content: &Value| content["body"].as_str().is_some_and(|found| found.contains(text));
        wait_for_or(&format!("the answer with {text}"), &mut || self.answers("ann", room).into_iter().find(has), || {
            self.host.unfinished()
        })
    }

    /// What a person is in a room.
    fn membership(&self, person: &str, of: &str, room: &str) -> String {
        let path = format!("rooms/{}/state/m.room.member/{}", part(room), part(of));
        self.asks(person, ("GET", &path), &json!({}))["membership"].as_str().unwrap().to_owned()
    }

    /// Starts a daemon with the server as the channel `matrix`, and an agent that echoes in Ann's room with the bot and in
    /// another one.
    fn connect(&mut self, group: Option<&str>) {
        self.connect_with(group, "");
    }

    /// The same with further settings of the bridge.
    fn connect_with(&mut self, group: Option<&str>, settings: &str) {
        self.connect_keeping(group, settings, "");
    }

    /// The same with a recovery key as another secret of the channel.
    fn connect_keeping(&mut self, group: Option<&str>, settings: &str, secret: &str) {
        self.host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "100".to_owned()));
        // Its own, so that a test kills no other's.
        std::fs::copy(bridge_programs::matrix(), self.program()).unwrap();
        let chat = |id: &str, more: &str| {
            format!("[[chats]]\nchannel = \"matrix\"\nplatform_id = \"{id}\"\nunknown_senders = \"strict\"\n{more}\n")
        };
        let direct = "[[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"";
        let others = "group = true\n[[chats.wirings]]\nagent = \"main\"\nengage = \"mention\"";
        self.host.apply(&format!(
            "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n[channels.matrix]\ntype = \"bridge\"\n\
             command = [\"{}\"]\n{secret}token = \"file:{}\"\nsettings = {{ server = \"{}\", invites = \"@ann:hearth.test\"{settings} }}\n\
             [[users]]\nid = \"matrix:@ann:hearth.test\"\nroles = [\"owner\"]\n{}{}",
            self.program().display(),
            self.path("token-bot").display(),
            self.server(),
            chat("@ann:hearth.test", direct),
            group.map(|group| chat(group, others)).unwrap_or_default(),
        ));
        self.host.start();
        wait_for("the bridge", || (self.listed()["state"] == "up").then_some(()));
        wait_for("the first place", || {
            self.host.rows("bridges").pop().filter(|row| row["value"]["cursors"][0].is_object())
        });
    }

    /// The bot's device has keys that the bridge does not have.
    fn loses_its_keys(&self) {
        let device = self.asks("bot", ("GET", "account/whoami"), &json!({}))["device_id"].clone();
        let name = format!("ed25519:{}", device.as_str().unwrap());
        let mut keys = json!({
            "user_id": "@bot:hearth.test", "device_id": device, "algorithms": [], "signatures": {}, "keys": {},
        });
        keys["keys"][&name] = json!("elsewhere");
        self.asks("bot", ("POST", "keys/upload"), &json!({ "device_keys": keys }));
    }

    fn program(&self) -> PathBuf {
        self.path("hearth-matrix")
    }

    /// The processes of the bridge.
    fn running(&self) -> Vec<u32> {
        running(&self.program())
    }

    fn listed(&self) -> Value {
        let mut list: Value = serde_json::from_str(&self.host.done(&["channels", "list", "--json"], b"")).unwrap();
        list["channels"].as_array_mut().unwrap().pop().unwrap_or_default()
    }

    fn stored(&self) -> String {
        self.host.rows("bodies").iter().map(Value::to_string).collect()
    }

    /// Each text was answered once, and stored once.
    fn once(&self, room: &str, texts: &[String]) {
        for text in texts {
            self.answer(room, text);
        }
        // A second copy would come within moments.
        std::thread::sleep(Duration::from_secs(2));
        let all = self.answers("ann", room);
        let body = |content: &Value| content["body"].as_str().unwrap().to_owned();
        let all: String = all.iter().map(|content| body(content) + "\n").collect();
        for text in texts {
            assert_eq!(all.matches(text).count(), 1, "{text}: {all}");
        }
        assert_eq!(self.host.rows("bodies").len(), texts.len(), "each message is stored once");
        self.host.check();
    }
}

#[test]
fn conversations_in_rooms_of_matrix() {
    let Some(mut matrix) = Matrix::start() else { return };
    let direct = matrix.read("room");
    let group = matrix.room("ann", &json!({ "invite": ["@eve:hearth.test"] }));
    matrix.asks("eve", ("POST", &format!("rooms/{}/join", part(&group))), &json!({}));
    let old = matrix.says(&group, "@bot:hearth.test said before the bot was invited");
    let invite = json!({ "user_id": "@bot:hearth.test" });
    matrix.asks("ann", ("POST", &format!("rooms/{}/invite", part(&group))), &invite);
    matrix.says(&group, "@bot:hearth.test said before the bot came");
    matrix.connect(Some(&group));
    let came = || (matrix.membership("ann", "@bot:hearth.test", &group) == "join").then_some(());
    wait_for("the bot in the room that Ann invited it to", came);
    matrix.answer(&group, "before the bot came");

    let first = matrix.says(&direct, "**how** <b>large</b>?");
    let answer = matrix.answer(&direct, "large");
    assert_eq!(answer["msgtype"], "m.text");
    assert_eq!((&answer["m.mentions"], &answer["com.beeper.linkpreviews"]), (&json!({}), &json!([])));
    let html = answer["formatted_body"].as_str().unwrap();
    assert!(html.contains("<strong>how</strong> &lt;b&gt;large&lt;/b&gt;?"), "{html}");

    in_a_group(&matrix, &group);
    // Edits, notices of programs and reactions are nothing.
    let changed = json!({ "msgtype": "m.text", "body": "* by an edit", "m.relates_to": { "rel_type": "m.replace", "event_id": first }, "m.new_content": { "msgtype": "m.text", "body": "by an edit" } });
    matrix.sends(&direct, &changed);
    matrix.sends(&direct, &json!({ "msgtype": "m.notice", "body": "by a program" }));
    let address = matrix.people(&["upload", "ann", "a.txt", "text/plain", "the content of a file"]);
    matrix.sends(&direct, &json!({ "msgtype": "m.file", "body": "a caption", "filename": "a.txt", "url": address.trim(), "info": { "mimetype": "text/plain" } }));
    matrix.answer(&direct, "a caption");
    let stored = matrix.stored();
    for text in ["by an edit", "by a program", "by a stranger", "before the bot was invited", &old] {
        assert!(!stored.contains(text), "{text}: {stored}");
    }
    assert!(stored.contains("a.txt") && stored.contains("\"handle\":\"@ann:hearth.test\""), "{stored}");
    let files = walk(&matrix.host.data().join("files"));
    assert!(files.iter().any(|file| std::fs::read(file).unwrap() == b"the content of a file"), "{files:?}");
    let seen = matrix.asks("ann", ("GET", "sync?timeout=0"), &json!({}));
    assert!(
        seen["rooms"]["join"][&direct]["ephemeral"].to_string().contains("@bot:hearth.test"),
        "received messages are marked"
    );
    matrix.host.check();
}

/// In a group only what mentions the bot reaches it, in a thread in its thread, and only from Ann.
fn in_a_group(matrix: &Matrix, group: &str) {
    matrix.says(group, "Not for the bot.");
    let root = matrix.says(group, "A beginning.");
    let thread = json!({ "rel_type": "m.thread", "event_id": root, "is_falling_back": true, "m.in_reply_to": { "event_id": root } });
    let mention = json!({ "user_ids": ["@bot:hearth.test"] });
    let content = json!({ "msgtype": "m.text", "body": "in a thread", "m.relates_to": thread, "m.mentions": mention });
    matrix.sends(group, &content);
    let answer = matrix.answer(group, "in a thread");
    assert_eq!(
        (&answer["m.relates_to"]["rel_type"], &answer["m.relates_to"]["event_id"]),
        (&json!("m.thread"), &json!(root))
    );
    let path = format!("rooms/{}/send/m.room.message/TXN", part(group));
    let forged = json!({
        "msgtype": "m.text", "body": "by a stranger", "m.mentions": mention,
        "senderId": "@ann:hearth.test", "sender": "@ann:hearth.test", "author": { "userId": "@ann:hearth.test" },
    });
    matrix.asks("eve", ("PUT", &path), &forged);
    // An answer to the bot addresses it; an agent can mention a person of the room.
    let events = matrix.asks("ann", ("GET", &format!("rooms/{}/messages?dir=b&limit=50", part(group))), &json!({}));
    let ours = events["chunk"]
        .as_array()
        .unwrap()
        .iter()
        .find(|event| event["sender"] == "@bot:hearth.test" && event["type"] == "m.room.message");
    let ours = ours.unwrap()["event_id"].as_str().unwrap();
    let content = json!({ "msgtype": "m.text", "body": "> <@bot:hearth.test> echo\n\nask @eve:hearth.test", "m.relates_to": { "m.in_reply_to": { "event_id": ours } } });
    matrix.sends(group, &content);
    let answer = matrix.answer(group, "ask @eve");
    assert_eq!(answer["m.mentions"], json!({ "user_ids": ["@eve:hearth.test"] }), "{answer}");
    assert!(
        answer["formatted_body"].as_str().unwrap().contains("<a href=\"https://matrix.to/#/@eve:hearth.test\">eve</a>"),
        "{answer}"
    );
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// Only who is named may invite the bot; an encrypted room is told once that it cannot be read if the keys of the bot's
/// device are lost; a message with the code of a pairing makes an owner.
#[test]
fn strangers_and_encrypted_rooms() {
    let Some(mut matrix) = Matrix::start() else { return };
    let direct = matrix.read("room");
    matrix.loses_its_keys();
    matrix.connect(None);
    let strange = matrix.room("eve", &json!({ "name": "owner" }));
    let gone = || (matrix.membership("eve", "@bot:hearth.test", &strange) == "leave").then_some(());
    wait_for("the refusal of Eve's invitation", gone);

    let encryption =
        json!({ "type": "m.room.encryption", "state_key": "", "content": { "algorithm": "m.megolm.v1.aes-sha2" } });
    let secret = matrix.room("ann", &json!({ "initial_state": [encryption] }));
    matrix.answer(&secret, "the keys of my device are not here");
    let path = format!("rooms/{}/send/m.room.encrypted/TXN", part(&secret));
    let sealed = json!({ "algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "AwgA", "session_id": "x", "sender_key": "x", "device_id": "x" });
    matrix.asks("ann", ("PUT", &path), &sealed);
    matrix.running().into_iter().for_each(kill);
    matrix.asks("ann", ("PUT", &path), &sealed);
    matrix.says(&direct, "still there?");
    matrix.answer(&direct, "still there?");
    assert_eq!(matrix.answers("ann", &secret).len(), 1, "it is said once");
    assert_eq!(matrix.host.rows("bodies").len(), 1, "nothing of such a room is stored");

    let mut command = matrix.host.command(&["channels", "pair", "matrix", "--yes", "--json"]);
    let mut pair = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(pair.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let code: Value = serde_json::from_str(&line).unwrap();
    // Eve may not invite the bot, but a room of two makes her a person who can send the code.
    let asked = json!({ "preset": "trusted_private_chat", "invite": ["@eve:hearth.test"] });
    let room = matrix.asks("bot", ("POST", "createRoom"), &asked);
    let room = room["room_id"].as_str().unwrap();
    matrix.asks("eve", ("POST", &format!("rooms/{}/join", part(room))), &json!({}));
    let words = ["as", "eve", "PUT", &format!("/_matrix/client/v3/rooms/{}/send/m.room.message/TXN", part(room))];
    let body = json!({ "msgtype": "m.text", "body": code["code"] }).to_string();
    matrix.people(&[&words[..], &[&body]].concat());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(pair.wait().unwrap().success() && rest.contains("@eve:hearth.test"), "{rest}");
    assert!(matrix.host.done(&["roles", "list"], b"").contains("matrix:@eve:hearth.test"));
    assert!(!matrix.stored().contains(code["code"].as_str().unwrap()));
    matrix.host.check();
}

/// The server, the bridge and the daemon are killed: everything is there exactly once.
#[test]
fn nothing_is_lost_or_doubled_by_matrix() {
    let Some(mut matrix) = Matrix::start() else { return };
    let room = matrix.read("room");
    matrix.connect(None);
    let mut chaos = Chaos::new(6);
    let (from, heard) = (RefCell::new(String::new()), RefCell::new(Vec::new()));
    let shown = |matrix: &Matrix| {
        let new = matrix.answers_since(&mut from.borrow_mut(), "ann", &room);
        heard.borrow_mut().extend(new.iter().map(|content| content["body"].as_str().unwrap().to_owned()));
        heard.borrow().clone()
    };
    for (number, burst) in chaos.bursts() {
        matrix.people(&[&["say"], &words(burst)[..]].concat());
        std::thread::sleep(Duration::from_millis(97 * (number as u64 % 5)));
        match number % 4 {
            0 => {
                matrix.people(&["stop"]);
                matrix.people(&["start"]);
            }
            1 | 2 => matrix.running().into_iter().for_each(kill),
            _ => {
                matrix.host.kill();
                wait_for("the bridge to end with the daemon", || matrix.running().is_empty().then_some(()));
                matrix.host.start();
            }
        }
        chaos.follow(number, || shown(&matrix), || matrix.host.unfinished());
    }
    // More than the server puts into one answer.
    matrix.host.stop();
    matrix.people(&["many", "120"]);
    matrix.host.start();
    chaos.texts.extend((0..120).map(|number| format!("many-{number}.")));
    chaos.once(|| shown(&matrix), || matrix.host.unfinished());
    assert_eq!(matrix.host.rows("bodies").len(), chaos.texts.len(), "each message is stored once");
    matrix.host.check();
}

/// A server that was restored from a backup does not know the place of the bridge and does not say so: what is written then
/// arrives, once.
#[test]
fn a_restored_server_loses_no_message_that_comes_later() {
    let Some(mut matrix) = Matrix::start() else { return };
    let (room, here) = (matrix.read("room"), matrix.directory.path().to_owned());
    matrix.connect(None);
    matrix.people(&["say", "text-1."]);
    matrix.answer(&room, "text-1.");
    matrix.people(&["stop"]);
    let files = ["database", "database-wal", "database-shm"];
    let copy = |from: &str, to: &str| {
        for name in files {
            std::fs::remove_file(here.join(format!("{to}{name}"))).ok();
            std::fs::copy(here.join(format!("{from}{name}")), here.join(format!("{to}{name}"))).ok();
        }
    };
    copy("", "kept-");
    matrix.people(&["start"]);
    for text in ["text-2.", "text-3.", "text-4."] {
        matrix.people(&["say", text]);
        matrix.answer(&room, text);
    }
    matrix.people(&["stop"]);
    copy("kept-", "");
    matrix.people(&["start"]);
    matrix.people(&["say", "text-5."]);
    matrix.answer(&room, "text-5.");
    assert_eq!(matrix.host.rows("bodies").len(), 5);
    let all: Vec<Value> = matrix.answers("ann", &room);
    assert_eq!(all.len(), 2, "what was answered before comes no second time: {all:#?}");
    matrix.host.check();
}

/// The server asks for pauses after three messages: all parts of long answers come, once.
#[test]
fn a_server_that_asks_for_pauses_gets_everything_once() {
    let Some(mut matrix) = Matrix::start_with(&["few"]) else { return };
    let room = matrix.read("room");
    matrix.connect(None);
    let texts: Vec<String> = (0..2).map(|number| format!("long-{number}.")).collect();
    for text in &texts {
        matrix.people(&["say", &format!("{} {text}", "A sentence of a long text. ".repeat(2_000))]);
    }
    matrix.once(&room, &texts);
    let all = matrix.answers("ann", &room);
    assert!(all.len() >= 8, "{}", all.len());
    let length: usize = all.iter().map(|content| content["body"].as_str().unwrap().len()).sum();
    assert!(length > 2 * 27 * 2_000, "{length}");
}
