//! `hearth-whatsapp`, a linked device of WhatsApp, between a daemon and a stand-in for WhatsApp's server. Only
//! `.ci/run nightly` builds the two programs.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::host::bridge_programs::{contents, kill};
use crate::host::chaos::{Chaos, settled, texts};
use crate::host::wait_for;
use crate::host::whatsapp_linked::{ANN, BOT, EVE, Linked};

impl Linked {
    /// A person becomes an owner by the code that `hearth channels pair` shows.
    fn pair(&self, person: &str) {
        let mut command = self.host.command(&["channels", "pair", "phone", "--yes", "--json"]);
        let mut pair = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut out, mut line, mut rest) = (BufReader::new(pair.stdout.take().unwrap()), String::new(), String::new());
        out.read_line(&mut line).unwrap();
        let shown: Value = serde_json::from_str(&line).unwrap();
        self.says(person, shown["code"].as_str().unwrap());
        out.read_to_string(&mut rest).unwrap();
        assert!(pair.wait().unwrap().success() && rest.contains(&format!("phone:{person}")), "{rest}");
        self.answer(person, "received your code");
    }

    /// Adds an agent that echoes in the direct chats of these people.
    fn wire(&self, account: &str, people: &[(&str, &str)]) {
        let chat = |(person, strangers): &(&str, &str)| {
            format!(
                "[[chats]]\nchannel = \"phone\"\nplatform_id = \"{person}\"\nunknown_senders = \"{strangers}\"\n\
                 [[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"\n"
            )
        };
        let agent = "[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n";
        self.host.apply(&(self.channel(account) + agent + &people.iter().map(chat).collect::<String>()));
    }

    fn pending(&self) -> bool {
        self.host.done(&["approvals", "list", "--json"], b"").contains("\"pending\"")
    }
}

/// A device is linked and an owner paired, texts and files go both ways, and a card is decided by a number.
#[test]
fn conversations_with_people_of_a_linked_device() {
    let Some(linked) = Linked::start("bot") else { return };
    linked.pair(ANN);
    linked.wire("bot", &[(ANN, "strict"), (EVE, "request_approval")]);
    linked.says(ANN, "🦀 **bold** https://x.test/_a_?");
    let answer = linked.answer(ANN, "bold");
    assert!(answer["text"].as_str().unwrap().contains("🦀 *bold* https://x.test/_a_?"), "{answer}");

    linked.asks("say", json!({ "text": "the content of a file", "file": "a.txt" }));
    let of_ann = || contents(&linked.host.data().join("files")).iter().any(|file| file == b"the content of a file");
    wait_for("her file", || of_ann().then_some(()));
    linked.says(ANN, "!file b.txt what the agent made");
    let has_file = |message: &Value| message["file"]["name"] == "b.txt";
    let found = wait_for("the agent's file", || linked.sent(ANN).into_iter().find(has_file));
    assert_eq!(found["file"]["text"], "what the agent made", "{found}");

    linked.says(EVE, "may I?");
    let card = linked.answer(ANN, "\n1. ");
    assert!(card["text"].as_str().unwrap().contains(EVE), "{card}");
    linked.says(EVE, "1");
    linked.says(ANN, "2.5");
    linked.answer(ANN, "2.5");
    assert!(linked.pending(), "neither a stranger's number nor another text decides");
    linked.says(ANN, "1");
    wait_for("the decision", || (!linked.pending()).then_some(()));
    linked.answer(EVE, "may I?");
    linked.host.check();
}

/// Notes of a person to themselves, and nothing of their other chats.
#[test]
fn notes_of_a_person_whose_device_is_linked() {
    let Some(linked) = Linked::start("personal") else { return };
    linked.pair(BOT);
    linked.wire("personal", &[(BOT, "strict")]);
    linked.says(ANN, "private words");
    linked.says(BOT, "a note");
    linked.answer(BOT, "echo: a note");
    assert_eq!(linked.sent(ANN), Vec::<Value>::new());
    let stored: String = linked.host.rows("bodies").iter().map(Value::to_string).collect();
    assert!(stored.contains("a note") && !stored.contains("private words"), "{stored}");
    linked.host.check();
}

/// The phone removes the device: the channel says how it is linked again, and then everything arrives.
#[test]
fn a_device_that_was_removed_is_linked_again_under_a_daemon() {
    let Some(linked) = Linked::start("bot") else { return };
    linked.pair(ANN);
    linked.wire("bot", &[(ANN, "strict")]);
    linked.says(ANN, "before");
    linked.answer(ANN, "echo: before");
    linked.asks("remove", json!({}));
    linked.down("was removed on the phone");
    linked.link();
    linked.says(ANN, "afterwards");
    linked.answer(ANN, "echo: afterwards");
    linked.host.check();
}

/// The bridge and the daemon are killed and the connection is cut while messages arrive and answers leave: nothing is lost,
/// and what people see twice says so.
#[test]
fn nothing_is_lost_by_a_linked_device_and_repeats_are_marked() {
    let Some(mut linked) = Linked::start("bot") else { return };
    linked.pair(ANN);
    linked.wire("bot", &[(ANN, "strict")]);
    let before = (linked.sent(ANN).len(), linked.host.rows("bodies").len());
    let chaos = Chaos::new(8);
    let shown = |linked: &Linked| texts(&linked.sent(ANN)[before.0..]);
    for (number, burst) in chaos.bursts() {
        burst.iter().for_each(|text| linked.says(ANN, text));
        std::thread::sleep(Duration::from_millis(37 * (number as u64 % 5)));
        match number % 4 {
            0 => drop(linked.asks("cut", json!({}))),
            1 | 2 => linked.running().into_iter().for_each(kill),
            _ => linked.kill_daemon(),
        }
        chaos.follow(number, || shown(&linked), || linked.host.unfinished());
    }
    chaos.marked(|| shown(&linked), || linked.host.unfinished());
    settled(&linked.host);
    // An app that shows a message of a known id once shows no answer twice.
    let mut answers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for message in linked.sent(ANN) {
        let text = message["text"].as_str().unwrap();
        let text = text.strip_prefix("(sent again, the first attempt may have arrived)\n").unwrap_or(text);
        answers.entry(text.to_owned()).or_default().push(message["id"].as_str().unwrap().to_owned());
    }
    answers.values_mut().for_each(|ids| ids.dedup());
    assert!(answers.values().all(|ids| ids.len() == 1), "{answers:?}");
    assert_eq!(linked.host.rows("bodies").len(), before.1 + chaos.texts.len(), "each message is stored once");
    wait_for("an empty spool", || {
        let spool = linked.host.data().join("bridges/phone/state/spool");
        contents(&spool).is_empty().then_some(())
    });
    linked.host.check();
}
