//! Encrypted rooms. The people there use another implementation of encryption than the bridge.

use std::time::Duration;

use serde_json::{Value, json};

use super::{part, walk};
use crate::host::bridge_programs::{self, kill};
use crate::host::matrix::Matrix;
use crate::host::wait_for;

const KILLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/matrix_kills.py");

impl Matrix {
    /// Ann opens an encrypted room with the bot, and waits for it.
    fn sealed_room(&self) -> String {
        let room = self.sealed(&["open", "ann"]);
        self.came(&room);
        room
    }

    fn came(&self, room: &str) {
        let came = || (self.membership("ann", "@bot:hearth.test", room) == "join").then_some(());
        wait_for("the bot in the encrypted room", came);
    }

    fn sealed_says(&self, room: &str, text: &str) -> String {
        self.sealed(&["say", "ann", room, &json!({ "msgtype": "m.text", "body": text }).to_string()])
    }

    /// What the bot sent to an encrypted room, as Ann reads it.
    fn sealed_answers(&self, room: &str) -> Vec<Value> {
        serde_json::from_str(&self.sealed(&["heard", "ann", room])).unwrap()
    }

    /// The first answer with a text. It was encrypted.
    pub(super) fn sealed_answer(&self, room: &str, text: &str) -> Value {
        let has = |found: &Value| found["content"]["body"].as_str().is_some_and(|found| found.contains(text));
        let found = wait_for(&format!("the encrypted answer with {text}"), || {
            let answers = self.sealed_answers(room);
            assert!(answers.iter().all(|found| found["type"] != "unreadable"), "{answers:#?}");
            answers.into_iter().find(has)
        });
        assert_eq!(found["sealed"], true, "{found}");
        found["content"].clone()
    }

    /// Each text was answered once in an encrypted room, and stored once.
    fn sealed_once(&self, room: &str, texts: &[String]) {
        for text in texts {
            self.sealed_answer(room, text);
        }
        // A second copy would come within moments.
        std::thread::sleep(Duration::from_secs(2));
        let all: String = self.sealed_answers(room).iter().map(|found| found["content"]["body"].to_string()).collect();
        for text in texts {
            assert_eq!(all.matches(text).count(), 1, "{text}: {all}");
        }
        assert_eq!(self.host.rows("bodies").len(), texts.len(), "each message is stored once");
        self.host.check();
    }
}

#[test]
fn conversations_in_encrypted_rooms() {
    let Some(mut matrix) = Matrix::start_sealed() else { return };
    let group = matrix.sealed(&["open", "ann", "a group"]);
    matrix.asks("ann", ("POST", &format!("rooms/{}/invite", part(&group))), &json!({ "user_id": "@eve:hearth.test" }));
    matrix.asks("eve", ("POST", &format!("rooms/{}/join", part(&group))), &json!({}));
    matrix.connect(Some(&group));
    matrix.came(&group);
    let direct = matrix.sealed_room();
    matrix.sealed_says(&direct, "**how** large?");
    let answer = matrix.sealed_answer(&direct, "large");
    assert!(answer["formatted_body"].as_str().unwrap().contains("<strong>how</strong>"), "{answer}");
    // The server has no word of it.
    let page = matrix.asks("ann", ("GET", &format!("rooms/{}/messages?dir=b&limit=50", part(&direct))), &json!({}));
    assert!(!page.to_string().contains("large"), "{page}");

    matrix.sealed_says(&group, "Not for the bot.");
    let root = matrix.sealed_says(&group, "A beginning.");
    let thread = json!({ "rel_type": "m.thread", "event_id": root, "is_falling_back": true, "m.in_reply_to": { "event_id": root } });
    let mention = json!({ "user_ids": ["@bot:hearth.test"] });
    let content = json!({ "msgtype": "m.text", "body": "in a thread", "m.relates_to": thread, "m.mentions": mention });
    matrix.sealed(&["say", "ann", &group, &content.to_string()]);
    let answer = matrix.sealed_answer(&group, "in a thread");
    assert_eq!(
        (&answer["m.relates_to"]["rel_type"], &answer["m.relates_to"]["event_id"]),
        (&json!("m.thread"), &json!(root))
    );
    matrix.sealed(&["file", "ann", &direct, "a.txt", "text/plain", "the content of a file"]);
    wait_for("the file", || {
        let files = walk(&matrix.host.data().join("files"));
        files.iter().any(|file| std::fs::read(file).unwrap() == b"the content of a file").then_some(())
    });
    // An answer to the bot addresses it, and the agent sees what was answered.
    let ours = matrix.sealed_answers(&group)[0]["id"].as_str().unwrap().to_owned();
    let content = json!({ "msgtype": "m.text", "body": "what did you mean?", "m.relates_to": { "m.in_reply_to": { "event_id": ours } } });
    matrix.sealed(&["say", "ann", &group, &content.to_string()]);
    matrix.sealed_answer(&group, "what did you mean");
    let stored = matrix.stored();
    assert!(stored.contains("in a thread\\\",\\\"") || stored.matches("in a thread").count() > 1, "{stored}");
    assert!(!stored.contains("Not for the bot"), "{stored}");
    matrix.host.check();
}

/// The kit of bridges in an encrypted room: files, edits, kills and all. Each look of a person into the room takes seconds,
/// so only files are tried by day.
#[test]
fn an_encrypted_room_passes_every_case() {
    let Some(matrix) = Matrix::start_sealed() else { return };
    let room = matrix.sealed(&["open", "ann"]);
    matrix.asks("bot", ("POST", &format!("rooms/{}/join", part(&room))), &json!({}));
    let only = if std::env::var_os("HEARTH_ALL_POINTS").is_some() { "" } else { "file" };
    let found = matrix.test_sealed(&room, only);
    assert_eq!(found["failed"], 0, "{found:#}");
    let answers = matrix.sealed_answers(&room);
    let is_message = |found: &&Value| found["type"] != "m.reaction";
    assert!(answers.iter().filter(is_message).all(|found| found["sealed"] == true), "{answers:#?}");
    let files: Vec<&Value> = answers.iter().filter(|found| found["text"].is_string()).collect();
    assert!(!files.is_empty() && files.iter().all(|file| file["readable"] == false), "{files:#?}");
}

/// The server, the bridge and the daemon are killed: everything is there exactly once.
#[test]
fn nothing_is_lost_or_doubled_in_encrypted_rooms() {
    let Some(mut matrix) = Matrix::start_sealed() else { return };
    matrix.connect(None);
    let room = matrix.sealed_room();
    let nightly = std::env::var_os("HEARTH_ALL_POINTS").is_some();
    let texts: Vec<String> = (0..if nightly { 24 } else { 6 }).map(|number| format!("message-{number}.")).collect();
    for (number, text) in texts.iter().enumerate() {
        matrix.sealed_says(&room, text);
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
    }
    matrix.sealed_once(&room, &texts);
}

/// The server, the bridge and both are killed at each point of the way of a key: before and after the bridge has it, and before
/// and after the server knows that. Servers tell keys once.
#[test]
fn a_key_survives_kills_at_each_point_of_its_way() {
    let Some(matrix) = Matrix::start_sealed() else { return };
    let mut command = matrix.host.bare("/usr/bin/python3");
    command.arg(KILLS).arg(bridge_programs::matrix()).env("MATRIX_PEOPLE", matrix.directory.path());
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
}

/// A message whose key is missing waits for it. What never comes is told in the room. Neither reaches an agent empty.
#[test]
fn a_message_without_its_key_waits_for_it() {
    let Some(mut matrix) = Matrix::start_sealed() else { return };
    matrix.connect_with(None, ", key_patience = \"20\"");
    let room = matrix.sealed_room();
    matrix.sealed(&["keyless", "ann", &room, "came late"]);
    matrix.sealed_says(&room, "in time");
    matrix.sealed_answer(&room, "in time");
    assert_eq!(matrix.host.rows("bodies").len(), 1);
    matrix.running().into_iter().for_each(kill);
    matrix.sealed(&["key", "ann", &room]);
    matrix.sealed_answer(&room, "came late");
    matrix.sealed(&["keyless", "ann", &room, "never came"]);
    matrix.sealed_answer(&room, "I cannot read a message of @ann:hearth.test");
    assert_eq!(matrix.host.rows("bodies").len(), 2);
    matrix.host.check();
}

/// A server can copy a message, and send one without encryption: neither reaches an agent.
#[test]
fn copies_and_plain_messages_reach_no_agent() {
    let Some(mut matrix) = Matrix::start_sealed() else { return };
    matrix.connect(None);
    let room = matrix.sealed_room();
    let said = matrix.sealed_says(&room, "yes, do it");
    matrix.sealed_answer(&room, "yes, do it");
    matrix.sealed(&["again", "ann", &room, &said]);
    matrix.says(&room, "without encryption");
    matrix.sealed_answer(&room, "it is a copy of");
    matrix.answer(&room, "I do not read messages without encryption");
    assert_eq!(matrix.host.rows("bodies").len(), 1);
    matrix.host.check();
}

/// A person with a new signing key is held until the owner agrees.
#[test]
fn a_changed_signing_key_holds_the_chat() {
    let Some(mut matrix) = Matrix::start_sealed() else { return };
    matrix.connect(None);
    matrix.sealed(&["identity", "ann"]);
    let room = matrix.sealed_room();
    matrix.sealed_says(&room, "as ever");
    matrix.sealed_answer(&room, "as ever");
    let new = matrix.sealed(&["identity", "ann"]);
    matrix.sealed_says(&room, "with another key");
    wait_for("the changed key", || matrix.listed().to_string().contains(&new).then_some(()));
    assert_eq!(matrix.host.rows("bodies").len(), 1, "it is held");
    matrix.host.stop();
    matrix.connect_with(None, &format!(", identities = \"@ann:hearth.test={new}\""));
    matrix.sealed_answer(&room, "with another key");
    matrix.host.check();
}
