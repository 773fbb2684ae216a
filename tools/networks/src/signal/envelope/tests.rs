use super::*;
use crate::hostile::value;
use proptest::prelude::*;

const ANN: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const BOT: &str = "bbbbbbbb-0000-4000-8000-000000000002";
const GROUP: &str = "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXowMTIzNDU=";

fn account(is_linked: bool) -> Account {
    Account { number: "+1".to_owned(), id: BOT.to_owned(), is_linked }
}

fn names() -> BTreeMap<String, String> {
    [(ANN.to_owned(), "Ann 🦀".to_owned())].into()
}

fn with(envelope: Value, is_linked: bool) -> Option<Written> {
    let mut all = json!({ "sourceUuid": ANN, "sourceName": "Ann\n", "timestamp": 7_000 });
    all.as_object_mut().unwrap().extend(envelope.as_object().unwrap().clone());
    read(&json!({ "envelope": all, "account": "+1" }), &account(is_linked), &names())
}

fn data(more: Value) -> Option<Written> {
    let mut data = json!({ "timestamp": 7_001, "message": "hi" });
    data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    with(json!({ "dataMessage": data }), false)
}

#[test]
fn what_is_no_message_of_a_person_is_nothing() {
    for envelope in [
        json!({}),
        json!({ "receiptMessage": { "when": 1, "isDelivery": true } }),
        json!({ "typingMessage": { "action": "STARTED" } }),
        json!({ "editMessage": { "targetSentTimestamp": 1, "dataMessage": { "message": "by an edit" } } }),
        json!({ "dataMessage": "text" }),
        json!({ "dataMessage": { "message": "hi" }, "sourceUuid": BOT }),
        json!({ "dataMessage": { "message": "hi" }, "sourceUuid": null, "sourceNumber": "+2" }),
        json!({ "dataMessage": { "message": "hi" }, "sourceUuid": "Ann" }),
        json!({ "dataMessage": { "message": "hi" }, "timestamp": -1 }),
        json!({ "syncMessage": { "sentMessage": { "message": "hi", "destinationUuid": BOT } } }),
    ] {
        assert_eq!(with(envelope.clone(), true), None, "{envelope}");
    }
    for more in [
        json!({ "message": null }),
        json!({ "message": " " }),
        json!({ "reaction": { "emoji": "👍" } }),
        json!({ "remoteDelete": { "timestamp": 1 } }),
        json!({ "isExpirationUpdate": true }),
        json!({ "storyContext": {} }),
        json!({ "groupInfo": { "groupId": "../x", "type": "DELIVER" } }),
        json!({ "groupInfo": { "groupId": ANN } }),
    ] {
        assert_eq!(data(more.clone()), None, "{more}");
    }
    let plain = data(json!({ "reaction": null, "senderId": BOT })).unwrap();
    assert_eq!((plain.id.to_string(), plain.name.as_deref()), (format!("7001.{ANN}"), Some("Ann")));
}

#[test]
fn a_persons_own_messages_count_on_a_linked_device_only() {
    let sent = |more: Value| {
        let mut sent = json!({ "message": "mine", "timestamp": 8_000 });
        sent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "sourceUuid": BOT, "syncMessage": { "sentMessage": sent } })
    };
    let note = with(sent(json!({ "destinationUuid": BOT })), true).unwrap();
    assert!(note.is_note && note.chat == Chat::Person(BOT.to_owned()) && note.author == BOT);
    let to_ann = with(sent(json!({ "destinationUuid": ANN })), true).unwrap();
    assert!(!to_ann.is_note && to_ann.chat == Chat::Person(ANN.to_owned()));
    let to_all = with(sent(json!({ "groupInfo": { "groupId": GROUP } })), true).unwrap();
    assert!(!to_all.is_note && to_all.chat == Chat::Group(GROUP.to_owned()));
    assert_eq!(with(sent(json!({ "destinationUuid": BOT })), false), None);
    assert_eq!(with(sent(json!({ "destinationUuid": BOT, "editMessage": {} })), true), None);
    assert_eq!(with(sent(json!({})), true), None, "without a recipient");
}

#[test]
fn mentions_are_ranges_in_utf_16() {
    let mention =
        |start: u64, length: u64, uuid: &str| json!({ "start": start, "length": length, "uuid": uuid, "name": "+9" });
    let of = |text: &str, mentions: Value| data(json!({ "message": text, "mentions": mentions })).unwrap().text;
    assert_eq!(of("🦀 \u{fffc} hi", json!([mention(3, 1, ANN)])), "🦀 @Ann 🦀 hi");
    assert_eq!(of("\u{fffc}\u{fffc}", json!([mention(1, 1, BOT), mention(0, 1, ANN)])), "@Ann 🦀@hearth");
    assert_eq!(of("\u{fffc}: /clear", json!([mention(0, 1, BOT)])), "/clear");
    assert_eq!(of("\u{fffc} /clear", json!([mention(0, 1, ANN)])), "@Ann 🦀 /clear");
    assert_eq!(of("x", json!([mention(0, 9, BOT), mention(u64::MAX, 1, BOT), mention(0, u64::MAX, ANN), 7])), "x");
    let is = |more: Value| {
        let mut all = json!({ "groupInfo": { "groupId": GROUP } });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        data(all).unwrap().is_mention
    };
    assert!(is(json!({ "mentions": [mention(0, 1, BOT)] })) && is(json!({ "quote": { "id": 1, "authorUuid": BOT } })));
    assert!(!is(json!({ "message": "@hearth +1", "quote": { "id": 1, "authorUuid": ANN } })));
    assert!(data(json!({})).unwrap().is_mention, "a direct message");
}

#[test]
fn quotes_files_and_other_things_are_read() {
    let found = data(json!({ "quote": { "id": 5, "authorUuid": ANN, "text": "before" } })).unwrap().event();
    let content = &found.rest["message"]["content"];
    assert_eq!(content["replyTo"], json!({ "text": "before", "sender": "Ann 🦀", "messageId": format!("5.{ANN}") }));
    let files = json!([
        { "id": "a1.png", "contentType": "image/png", "filename": "a.png", "size": 3 },
        { "id": "../b", "size": -1 },
        { "id": "long", "contentType": "text/x-signal-plain", "size": 40_000 },
    ]);
    let found = data(json!({ "message": null, "attachments": files })).unwrap();
    assert_eq!((found.files.len(), found.long_text.and_then(|file| file.id).as_deref()), (2, Some("long")));
    assert_eq!(
        (found.files[0].id.as_deref(), found.files[1].id.as_deref(), found.files[1].size),
        (Some("a1.png"), None, 0)
    );
    let once = data(json!({ "viewOnce": true, "message": null, "attachments": [{ "id": "a" }] })).unwrap();
    assert!(once.files.is_empty() && once.text.contains("seen once"));
    let other = json!({ "message": null, "sticker": { "packId": "x" }, "pollCreate": { "question": "when?" }, "contacts": [{ "name": { "display": "Bob" } }] });
    assert_eq!(data(other).unwrap().text, "(sticker)\n(contact: Bob )\n(poll: when?)");
}

#[test]
fn other_accounts_of_a_daemon_are_not_for_this_one() {
    let notification = |params: Value| json!({ "method": "receive", "params": params });
    let envelope = json!({ "envelope": {}, "account": "+1" });
    let of = |params: Value| reported(&notification(params), &account(false)).is_some();
    assert!(of(json!({ "subscription": 0, "result": envelope })) && of(envelope));
    assert!(!of(json!({ "subscription": 0, "result": { "envelope": {}, "account": "+2" } })));
}

const KEYS: &[&str] = &[
    "message",
    "timestamp",
    "mentions",
    "uuid",
    "start",
    "length",
    "quote",
    "id",
    "authorUuid",
    "text",
    "attachments",
    "contentType",
    "groupInfo",
    "groupId",
    "viewOnce",
    "sticker",
    "contacts",
    "name",
    "reaction",
    "destinationUuid",
];
const TEXTS: &[&str] = &[ANN, BOT, GROUP, "text/x-signal-plain"];

proptest! {
    #[test]
    fn whatever_comes_is_read_or_nothing(data in value(KEYS, TEXTS), is_sync: bool, is_linked: bool) {
        let envelope = if is_sync {
            json!({ "sourceUuid": BOT, "syncMessage": { "sentMessage": data } })
        } else {
            json!({ "dataMessage": data })
        };
        if let Some(written) = with(envelope, is_linked) {
            prop_assert!(Id::read(&written.id.to_string()).is_some() && Chat::read(written.chat.id()).is_some());
            let author = if is_sync { BOT } else { ANN };
            prop_assert_eq!(written.event().sender.map(|sender| sender.id), Some(author.to_owned()));
        }
    }
}
