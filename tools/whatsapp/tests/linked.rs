//! The bridge with a stand-in for WhatsApp: devices are linked, people are devices with the same library, and what they say
//! to each other is encrypted.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test, whose helpers clippy takes for none"
)]

#[path = "linked/answers.rs"]
mod answers;
#[path = "linked/bridge.rs"]
mod bridge;
#[path = "linked/http.rs"]
mod http;
#[path = "linked/kit.rs"]
mod kit;
#[path = "linked/peer.rs"]
mod peer;
#[path = "linked/wire.rs"]
mod wire;
#[path = "linked/world.rs"]
mod world;

use std::time::{Duration, Instant};

use bridge::{Bridge, Home, linking};
use peer::Peer;
use serde_json::{Value, json};
use whatsapp_rust::prelude::{MessageField, wa};
use world::{ANN, BOT, DEVICE, PATIENCE, World, address, jid};

const BOB: &str = "15550000003";
const GROUP: &str = "120363040237990503@g.us";

#[test]
fn people_talk_to_the_bot() {
    let (world, home) = (World::start(), Home::new());
    home.link(&world);
    let ann = Peer::new(&world, ANN, 0);
    let mut bridge = Bridge::start(&world, &home, "bot");
    ann.say(&jid(BOT), "hello");
    let event = bridge.event();
    assert_eq!(event["platformId"], ANN);
    assert_eq!(event["sender"], json!({ "id": ANN, "name": format!("Person {ANN}"), "verified": true }));
    assert_eq!(event["message"]["content"]["text"], "hello");
    assert_eq!((&event["message"]["isGroup"], &event["message"]["isMention"]), (&json!(false), &json!(true)));
    bridge.say("5f0c91ab-mo1", ANN, json!({ "text": "**hi** there" }));
    assert_eq!(ann.heard().text, "*hi* there");
}

/// The text of an event.
fn text(event: &Value) -> &str {
    event["message"]["content"]["text"].as_str().unwrap()
}

/// A message that mentions the bot.
fn mentioning(text: &str) -> wa::Message {
    let context = wa::ContextInfo { mentioned_jid: vec![jid(BOT)], ..Default::default() };
    let extended = wa::message::ExtendedTextMessage {
        text: Some(text.to_owned()),
        context_info: MessageField::some(context),
        ..Default::default()
    };
    wa::Message { extended_text_message: MessageField::some(extended), ..Default::default() }
}

#[test]
fn a_group_hears_the_bot_and_mentions_it() {
    let (world, home) = (World::start(), Home::new());
    home.link(&world);
    let (ann, bob) = (Peer::new(&world, ANN, 0), Peer::new(&world, BOB, 0));
    world.known().groups.insert(GROUP.to_owned(), [BOT, ANN, BOB].map(str::to_owned).to_vec());
    let mut bridge = Bridge::start(&world, &home, "bot");
    ann.say(GROUP, "among us");
    let event = bridge.event();
    assert_eq!((&event["platformId"], &event["sender"]["id"]), (&json!(GROUP), &json!(ANN)));
    assert_eq!((&event["message"]["isGroup"], &event["message"]["isMention"]), (&json!(true), &json!(false)));
    assert_eq!(bob.heard().text, "among us");
    ann.send(GROUP, mentioning(&format!("@{BOT} /clear")));
    let event = bridge.event();
    assert_eq!((text(&event), &event["message"]["isMention"]), ("/clear", &json!(true)));
    bob.heard();
    bridge.say("5f0c91ab-mo1", GROUP, json!({ "text": format!("@{ANN} look") }));
    for person in [&ann, &bob] {
        let heard = person.heard();
        assert_eq!(heard.text, format!("@{ANN} look"));
        let extended = heard.message.extended_text_message.as_option().unwrap();
        assert_eq!(extended.context_info.as_option().unwrap().mentioned_jid, [jid(ANN)]);
    }
}

#[test]
fn nothing_is_lost_or_doubled_when_the_bridge_is_killed() {
    let (world, home) = (World::start(), Home::new());
    home.link(&world);
    let ann = Peer::new(&world, ANN, 0);
    let mut bridge = Bridge::start(&world, &home, "bot");
    ann.say(&jid(BOT), "first");
    // It is in the spool, and not stored.
    let id = bridge.frame("event")["event"]["message"]["id"].clone();
    bridge.kill();
    ann.say(&jid(BOT), "while it is away");
    let mut bridge = Bridge::start(&world, &home, "bot");
    let event = bridge.event();
    assert_eq!((text(&event), &event["message"]["id"]), ("first", &id));
    let mut event = bridge.event();
    if event["message"]["id"] == id {
        // The bridge was killed before it could confirm the message. Hearth recognises it.
        event = bridge.event();
    }
    assert_eq!(text(&event), "while it is away");
    bridge.say("5f0c91ab-mo1", ANN, json!({ "text": "an answer" }));
    assert_eq!(ann.heard().text, "an answer");
    bridge.kill();
    // The keys of the chat went on: she can read what comes next.
    let mut bridge = Bridge::start(&world, &home, "bot");
    bridge.say("5f0c91ab-mo1", ANN, json!({ "text": "an answer" }));
    bridge.say("5f0c91ab-mo2", ANN, json!({ "text": "another" }));
    assert_eq!(ann.heard().text, "another", "the first one was not sent again");
    ann.say(&jid(BOT), "last");
    assert_eq!(text(&bridge.event()), "last");
    world.cut(&address(BOT, DEVICE));
    ann.say(&jid(BOT), "after its connection was cut");
    assert_eq!(text(&bridge.event()), "after its connection was cut");
}

/// An answer leaves only when the keys that its recipients answer with are on the disk.
#[test]
fn what_answers_an_answer_is_read_after_a_kill() {
    let (world, home) = (World::start(), Home::new());
    home.link(&world);
    let ann = Peer::new(&world, ANN, 0);
    for round in 0..6 {
        let mut bridge = Bridge::start(&world, &home, "bot");
        for part in 0..2 {
            ann.say(&jid(BOT), "hello");
            bridge.event();
            bridge.say(&format!("5f0c91ab-mo{round}{part}"), ANN, json!({ "text": "an answer" }));
            ann.heard();
        }
        bridge.kill();
        // It is encrypted with keys of the last answer.
        ann.say(&jid(BOT), "bye");
    }
    let mut bridge = Bridge::start(&world, &home, "bot");
    ann.say(&jid(BOT), "last");
    while text(&bridge.event()) != "last" {}
    assert_eq!(asked_again(&world), 0);
}

/// The library stores the keys of chats by itself, and can do so before it stored a message that they read. A bridge that is
/// killed then has neither the message nor the key for it when it comes again. Here, storing the message fails.
#[test]
fn a_message_whose_key_was_used_up_without_it_is_asked_for_again() {
    let (world, home) = (World::start(), Home::new());
    home.link(&world);
    let ann = Peer::new(&world, ANN, 0);
    world.known().groups.insert(GROUP.to_owned(), [BOT, ANN].map(str::to_owned).to_vec());
    for chat in [jid(BOT).as_str(), GROUP] {
        let mut bridge = Bridge::start(&world, &home, "bot");
        ann.say(chat, "before");
        assert_eq!(text(&bridge.event()), "before");
        wait("the message to be confirmed", || world.known().waits(&address(BOT, DEVICE)) == 0);
        let keys = || {
            let of = |table: &str| home.sql(&format!("SELECT quote(group_concat(hex(record))) FROM {table}"));
            (of("sessions"), of("sender_keys"))
        };
        // What was in the library's cache is on the disk.
        std::thread::sleep(Duration::from_millis(500));
        let before = keys();
        home.sql("CREATE TRIGGER f BEFORE INSERT ON pending_inbound_messages BEGIN SELECT RAISE(ABORT, 'full'); END");
        ann.say(chat, "unstored");
        wait("the keys", || keys() != before);
        bridge.kill();
        home.sql("DROP TRIGGER f");
        let mut bridge = Bridge::start(&world, &home, "bot");
        assert_eq!(text(&bridge.event()), "unstored");
        ann.say(chat, "after");
        assert_eq!(text(&bridge.event()), "after");
        wait("the messages to be confirmed", || world.known().waits(&address(BOT, DEVICE)) == 0);
        wait("the spool to be empty", || home.state().join("spool").read_dir().unwrap().next().is_none());
    }
}

/// The bridge is killed after a message was stored and before WhatsApp heard of it.
#[test]
fn what_was_received_is_not_asked_for_again() {
    let (world, home) = (World::start(), Home::new());
    home.link(&world);
    let ann = Peer::new(&world, ANN, 0);
    let mut bridge = Bridge::start(&world, &home, "bot");
    world.known().is_deaf = true;
    ann.say(&jid(BOT), "once");
    assert_eq!(text(&bridge.event()), "once");
    wait("the confirmation", || !world.known().receipts.is_empty());
    std::thread::sleep(Duration::from_millis(500));
    bridge.kill();
    world.known().is_deaf = false;
    let mut bridge = Bridge::start(&world, &home, "bot");
    wait("the message to be confirmed", || world.known().waits(&address(BOT, DEVICE)) == 0);
    ann.say(&jid(BOT), "twice");
    assert_eq!(text(&bridge.event()), "twice");
    assert_eq!(asked_again(&world), 0);
}

fn asked_again(world: &World) -> usize {
    world.known().receipts.iter().filter(|(_, kind)| kind.contains("retry")).count()
}

fn wait(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "no sign of {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_repeat_has_the_same_id_and_says_that_it_is_one() {
    let (world, home) = (World::start(), Home::new());
    home.link(&world);
    let ann = Peer::new(&world, ANN, 0);
    let mut bridge = Bridge::start(&world, &home, "bot");
    world.known().answers = vec![None, Some("463".to_owned()), Some("429".to_owned())];
    bridge.deliver("5f0c91ab-mo1", ANN, json!({ "text": "once" }));
    assert_eq!(bridge.outcome()["result"], "uncertain");
    let first = ann.heard();
    bridge.deliver("5f0c91ab-mo2", ANN, json!({ "text": "cold call" }));
    let outcome = bridge.outcome();
    assert_eq!(outcome["result"], "rejected");
    assert!(outcome["why"].as_str().unwrap().contains("write first"), "{outcome}");
    bridge.deliver("5f0c91ab-mo3", ANN, json!({ "text": "too much" }));
    let outcome = bridge.outcome();
    assert_eq!((&outcome["result"], &outcome["after"]), (&json!("retry"), &json!(60)));
    let id = bridge.say("5f0c91ab-mo1", ANN, json!({ "text": "once", "repeated": true }));
    assert_eq!(id, first.id);
    let sent = world.known().sent.iter().filter(|(device, _)| *device == address(BOT, DEVICE)).count();
    assert_eq!(sent, 4);
}

#[test]
fn files_go_both_ways_and_messages_change() {
    let (world, home) = (World::start(), Home::new());
    home.link(&world);
    let ann = Peer::new(&world, ANN, 0);
    let mut bridge = Bridge::start(&world, &home, "bot");
    ann.say(&jid(BOT), "hello");
    let hello = bridge.event()["message"]["id"].as_str().unwrap().to_owned();
    std::fs::write(home.files().join("out-1"), b"some bytes").unwrap();
    let files = json!([{ "name": "note.txt", "size": 10, "path": "out-1" }]);
    bridge.say("5f0c91ab-mo1", ANN, json!({ "text": "a file", "files": files }));
    assert_eq!(ann.heard().text, "a file");
    let heard = ann.heard();
    let document = heard.message.document_message.as_option().unwrap();
    assert_eq!(document.file_name.as_deref(), Some("note.txt"));
    assert_eq!(ann.wait(ann.client.download(document)).unwrap(), b"some bytes");
    // The same back again.
    ann.send(&jid(BOT), (*heard.message).clone());
    assert_eq!(bridge.wanted(true)["sender"]["id"], ANN);
    let event = bridge.event();
    assert_eq!(event["files"][0]["name"], "note.txt");
    let path = home.files().join(event["files"][0]["path"].as_str().unwrap());
    assert_eq!(std::fs::read(path).unwrap(), b"some bytes");
    let id = bridge.say("5f0c91ab-mo2", ANN, json!({ "text": "a mistake" }));
    ann.heard();
    assert_eq!(bridge.say("5f0c91ab-mo3", ANN, json!({ "act": "edit", "messageId": id, "text": "right" })), id);
    let changed = ann.heard().message;
    let change = changed.edited_message.as_option().and_then(|outer| outer.message.as_option()).unwrap_or(&changed);
    let change = change.protocol_message.as_option().unwrap();
    assert_eq!(change.key.as_option().unwrap().id.as_deref(), Some(id.as_str()));
    assert_eq!(change.edited_message.as_option().unwrap().conversation.as_deref(), Some("right"));
    bridge.say("5f0c91ab-mo4", ANN, json!({ "act": "react", "messageId": hello, "text": "👍" }));
    let reaction = ann.heard().message;
    assert_eq!(reaction.reaction_message.as_option().unwrap().text.as_deref(), Some("👍"));
}

#[test]
fn of_a_persons_account_only_what_concerns_an_agent_is_passed_on() {
    let (world, home) = (World::start(), Home::new());
    let phone = Peer::new(&world, BOT, 0);
    home.link(&world);
    let ann = Peer::new(&world, ANN, 0);
    let mut bridge = Bridge::start(&world, &home, "personal");
    ann.say(&jid(BOT), "private");
    assert_eq!(bridge.wanted(false)["sender"]["id"], ANN);
    ann.say(&jid(BOT), "for the agent");
    bridge.wanted(true);
    assert_eq!(text(&bridge.event()), "for the agent");
    phone.say(&jid(BOT), "a note");
    let event = bridge.event();
    assert_eq!((text(&event), &event["platformId"], &event["sender"]["id"]), ("a note", &json!(BOT), &json!(BOT)));
    bridge.say("5f0c91ab-mo1", BOT, json!({ "text": "an answer" }));
    assert_eq!([(); 3].map(|()| phone.heard().text), ["private", "for the agent", "an answer"]);
}

#[test]
fn a_device_that_was_removed_is_linked_again() {
    let (world, home) = (World::start(), Home::new());
    let mut bridge = Bridge::open(&world, &home, "bot");
    let failed = bridge.frame("failed")["failed"].clone();
    assert!(failed["why"].as_str().unwrap().contains("run `hearth-whatsapp link /"), "{failed}");
    drop(bridge);
    home.link(&world);
    let mut bridge = Bridge::start(&world, &home, "bot");
    let busy = linking(&home.state(), &[&world.address.to_string()]).output().unwrap();
    assert!(!busy.status.success() && String::from_utf8_lossy(&busy.stderr).contains("in use"));
    world.remove(&address(BOT, DEVICE));
    let failed = bridge.frame("failed")["failed"].clone();
    assert!(failed["why"].as_str().unwrap().contains("was removed on the phone"), "{failed}");
    drop(bridge);
    let mut bridge = Bridge::open(&world, &home, "bot");
    assert!(bridge.frame("failed")["failed"]["why"].as_str().unwrap().contains("was removed on the phone"));
    drop(bridge);
    home.link(&world);
    let mut bridge = Bridge::start(&world, &home, "bot");
    let conflict = whatsapp_rust::NodeBuilder::new("conflict").attr("type", "replaced").build();
    let error = whatsapp_rust::NodeBuilder::new("stream:error").children([conflict]).build();
    world.tell(&address(BOT, DEVICE), error);
    let failed = bridge.frame("failed")["failed"].clone();
    assert!(failed["why"].as_str().unwrap().contains("another program"), "{failed}");
    assert_eq!(failed["until"], 600);
}

#[test]
fn only_who_runs_hearth_links_a_device() {
    let (world, home) = (World::start(), Home::new());
    if std::os::unix::fs::chown(home.root(), Some(1), None).is_err() {
        return eprintln!("SKIPPED: only root can give a directory to another user");
    }
    let ended = linking(&home.state(), &[&world.address.to_string()]).output().unwrap();
    assert!(String::from_utf8_lossy(&ended.stderr).contains("as the user who runs Hearth (id 1)"), "{ended:?}");
    assert!(home.state().read_dir().unwrap().next().is_none(), "nothing is left there");
}
