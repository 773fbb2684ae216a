use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn with(content: &Value) -> Value {
    json!({"channelType": "telegram", "platformId": "c1", "message": {"id": "m1", "content": content}})
}

fn parsed(event: &Value) -> InboundEvent {
    parse(event.to_string().as_bytes()).unwrap()
}

fn error(event: &Value) -> String {
    parse(event.to_string().as_bytes()).unwrap_err().to_string()
}

/// An event with one field set; dots lead into objects.
fn set(path: &str, value: Value) -> Value {
    let mut event = with(&json!({"text": "hi"}));
    let pointer = format!("/{}", path.replace('.', "/"));
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    event.pointer_mut(parent).unwrap()[key] = value;
    event
}

#[test]
fn a_full_event_is_taken_apart() {
    let event = parse(
        br#" {"channelType":"slack","platformId":"C1","threadId":"t1","extra":[1],
        "message":{"id":"m1","kind":"chat-sdk","timestamp":"2026-04-20T12:00:00.000Z","isMention":true,"isGroup":true,
        "content":{ "text":"hi", "senderId":"u1", "senderName":"Ann", "n": 1.0e3 }},
        "replyTo":{"channelType":"terminal","platformId":"local","threadId":null}} "#,
    )
    .unwrap();
    let address = |channel: &str, chat: &str, thread: Option<&str>| Address {
        channel: ChannelName::new(channel).unwrap(),
        platform_id: ForeignId::new("id", chat).unwrap(),
        thread: thread.map(|id| ForeignId::new("id", id).unwrap()),
    };
    let id = |text: &str| Some(ForeignId::new("id", text).unwrap());
    assert_eq!(
        event,
        InboundEvent {
            source: address("slack", "C1", Some("t1")),
            platform_message: id("m1"),
            kind: MessageKind::ChatSdk,
            content: Content {
                text: "hi".into(),
                sender: id("u1"),
                sender_name: Some("Ann".into()),
                raw: RawJson::trusted(r#"{ "text":"hi", "senderId":"u1", "senderName":"Ann", "n": 1.0e3 }"#.into()),
            },
            said: Timestamp::parse("2026-04-20T12:00:00Z"),
            mention: true,
            group: true,
            reply_to: Some(address("terminal", "local", None)),
            threads: None,
            cursors: Vec::new(),
            chat_name: None,
            attachments: Vec::new(),
        }
    );
}

#[test]
fn what_is_left_out_has_a_meaning() {
    let event = parsed(&json!({"channelType": "a", "platformId": "b", "message": {"content": {}}}));
    assert_eq!(event.source.thread, None);
    assert_eq!(event.platform_message, None);
    assert_eq!(event.kind, MessageKind::Chat);
    assert_eq!(event.said, None);
    assert_eq!((event.mention, event.group, event.reply_to), (false, false, None));
    assert_eq!((event.content.text.as_str(), event.content.sender, event.content.sender_name), ("", None, None));
    for path in ["threadId", "message.id", "message.kind", "message.timestamp", "message.isMention", "replyTo"] {
        assert_eq!(parsed(&set(path, Value::Null)).kind, MessageKind::Chat, "null is absent: {path}");
    }
    assert_eq!(parsed(&set("message.id", json!(""))).platform_message, None);
    assert_eq!(parsed(&set("threadId", json!(""))).source.thread, None);
}

/// Only an adapter's sender id is an identity: a display name would let people choose who they are.
#[test]
fn identities_come_from_sender_ids_only() {
    let cases = [
        (json!({"senderId": "123", "senderName": "Ann"}), Some("telegram:123"), Some("Ann")),
        (json!({"senderId": "telegram:123"}), Some("telegram:telegram:123"), None),
        (json!({"author": {"userId": "9", "fullName": "Bo"}}), Some("telegram:9"), Some("Bo")),
        (json!({"author": {"userId": "9", "userName": "bo"}}), Some("telegram:9"), Some("bo")),
        (json!({"sender": "TestUser"}), None, Some("TestUser")),
        (json!({"senderId": "@a:hs.org"}), Some("telegram:@a:hs.org"), None),
        (json!({"text": "x"}), None, None),
        (json!("not json"), None, None),
        (json!({"senderId": 5}), None, None),
        (json!({"senderId": 5, "author": {"userId": "9"}}), Some("telegram:9"), None),
        (json!({"senderId": null, "author": {"userId": "9"}}), Some("telegram:9"), None),
        (json!({"senderId": "", "author": {"userId": "9"}}), None, None),
        (json!({"senderId": ["1"]}), None, None),
        (json!({"author": "Bo", "sender": "x"}), None, Some("x")),
        (json!({"author": {"userId": 9, "fullName": 1, "userName": "u"}, "sender": "x"}), None, Some("u")),
        (json!({"senderName": "", "sender": "\u{1b}[31m \n"}), None, Some("[31m")),
        (json!({"senderName": " \t", "author": {"fullName": "Full", "userName": "u"}}), None, Some("Full")),
    ];
    for (content, user, name) in cases {
        let event = parsed(&with(&content));
        let channel = event.source.channel;
        let found = event.content.sender.map(|id| crate::model::UserId::new(channel, id).to_string());
        assert_eq!((found.as_deref(), event.content.sender_name.as_deref()), (user, name), "{content}");
    }
    let long = parsed(&with(&json!({"senderName": "n".repeat(1_000)})));
    assert_eq!(long.content.sender_name.map(|name| name.len()), Some(NAME_CHARS_MAX));
}

#[test]
fn content_is_an_object_or_a_string_with_one() {
    let cases = [
        (json!({"text": "a"}), "a", r#"{"text":"a"}"#),
        (json!("{ \"text\" : \"a b\", \"n\": 1.50 }"), "a b", r#"{"text":"a b","n":1.50}"#),
        (json!(" {\"text\":\"x\"}\n"), "x", r#"{"text":"x"}"#),
        (json!("say hello"), "say hello", r#"{"text":"say hello"}"#),
        (json!("{\"text\":"), "{\"text\":", r#"{"text":"{\"text\":"}"#),
        (json!("42"), "42", r#"{"text":"42"}"#),
        (json!("[1]"), "[1]", r#"{"text":"[1]"}"#),
        (json!("\"quoted\""), "\"quoted\"", r#"{"text":"\"quoted\""}"#),
        (json!(""), "", r#"{"text":""}"#),
        (json!({"other": 1}), "", r#"{"other":1}"#),
        (json!({"text": 5}), "", r#"{"text":5}"#),
        (json!({"text": null}), "", r#"{"text":null}"#),
        (json!({"text": ["a"]}), "", r#"{"text":["a"]}"#),
        (json!({"text": "a\u{0}b"}), "a\u{0}b", "{\"text\":\"a\\u0000b\"}"),
    ];
    for (content, text, raw) in cases {
        let event = parsed(&with(&content));
        assert_eq!((event.content.text.as_str(), event.content.raw.as_str()), (text, raw), "{content}");
    }
}

#[test]
fn numbers_of_any_size_keep_their_spelling() {
    let event = |content: &str| format!(r#"{{"channelType":"a","platformId":"b","message":{{"content":{content}}}}}"#);
    for number in ["12345678901234567890123", "0.10", "-0", "1E2", "3.141592653589793238462643"] {
        let raw = format!(r#"{{"n":{number}}}"#);
        assert_eq!(parse(event(&raw).as_bytes()).unwrap().content.raw.as_str(), raw);
        let quoted = serde_json::to_string(&raw).unwrap();
        assert_eq!(parse(event(&quoted).as_bytes()).unwrap().content.raw.as_str(), raw);
    }
    let refused = parse(event(r#"{"n":1e999}"#).as_bytes()).unwrap_err().to_string();
    assert!(refused.contains("message.content") && refused.contains("out of range"), "{refused}");
}

/// An emoji cut in two by an adapter: the message arrives, the half is replaced, and readers can parse what is stored.
#[test]
fn halves_of_characters_do_not_lose_the_message() {
    let half = br#"{"channelType":"a","platformId":"b","message":{"content":{"text":"hi \ud83e","x":"\udd9e"}}}"#;
    let event = parse(half).unwrap();
    assert_eq!(event.content.text, "hi \u{fffd}");
    assert_eq!(event.content.raw.as_str(), r#"{"text":"hi \ufffd","x":"\ufffd"}"#);
    let quoted = br#"{"channelType":"a","platformId":"b","message":{"content":"{\"text\":\"hi \\ud83e\"}"}}"#;
    assert_eq!(parse(quoted).unwrap().content.text, "hi \u{fffd}");
}

#[test]
fn of_equal_keys_the_last_one_counts() {
    let event = parse(
        br#"{"channelType":"a","channelType":"b","platformId":"1","platformId":"2",
        "message":{"content":{"text":"first"}},"message":{"content":{"text":"x","text":"y","senderId":"1","senderId":"2"}}}"#,
    )
    .unwrap();
    assert_eq!((event.source.channel.as_str(), event.source.platform_id.as_str()), ("b", "2"));
    assert_eq!((event.content.text.as_str(), event.content.sender.unwrap().as_str()), ("y", "2"));
}

#[test]
fn only_true_is_true() {
    for (value, expected) in
        [(json!(true), true), (json!(false), false), (json!("true"), false), (json!(1), false), (json!([]), false)]
    {
        assert_eq!(parsed(&set("message.isMention", value.clone())).mention, expected, "{value}");
        assert_eq!(parsed(&set("message.isGroup", value.clone())).group, expected, "{value}");
    }
}

#[test]
fn what_cannot_be_routed_is_refused_by_name() {
    let long = "x".repeat(1_025);
    let cases = [
        ("channelType", json!(null), "channelType is missing; it must be a string"),
        ("channelType", json!(5), "channelType is a number; it must be a string"),
        ("channelType", json!(""), "channelType is empty"),
        ("channelType", json!("agent"), "channelType is `agent`, which is reserved for messages between agents"),
        ("channelType", json!("a\nb"), "channelType contains the control character U+000A"),
        ("platformId", json!(null), "platformId is missing"),
        ("platformId", json!(""), "platformId is empty"),
        ("platformId", json!(long), "platformId has 1025 bytes, at most 1024"),
        ("platformId", json!({}), "platformId is an object; it must be a string"),
        ("threadId", json!(7), "threadId is a number"),
        ("threadId", json!(long), "threadId has 1025 bytes"),
        ("message", json!(null), "message is missing; it must be an object"),
        ("message", json!("hi"), "message is a string; it must be an object"),
        ("message", json!([]), "message is an array"),
        ("message.id", json!(5), "message.id is a number; it must be a string"),
        ("message.id", json!(long), "message.id has 1025 bytes"),
        ("message.id", json!("a\u{0}"), "message.id contains the control character U+0000"),
        ("message.kind", json!("Chat"), "message.kind is `Chat`; it must be `chat` or `chat-sdk`"),
        ("message.kind", json!("system"), "message.kind is `system`"),
        ("message.kind", json!("task"), "message.kind is `task`"),
        ("message.kind", json!(""), "message.kind is ``"),
        ("message.kind", json!(1), "message.kind is a number"),
        ("message.kind", json!("k".repeat(500)), "message.kind is `kkkk"),
        ("message.timestamp", json!("noon"), "message.timestamp is `noon`, which is not a time"),
        ("message.timestamp", json!(""), "message.timestamp is ``"),
        ("message.timestamp", json!(1_776_686_400), "message.timestamp is a number"),
        ("message.content", json!(null), "message.content is missing; it must be an object"),
        ("message.content", json!(5), "message.content is a number; it must be an object"),
        ("message.content", json!([{"text": "x"}]), "message.content is an array"),
        ("message.content", json!(true), "message.content is a boolean"),
        ("message.content", json!({"senderId": long}), "message.content.senderId has 1025 bytes"),
        ("message.content", json!({"senderId": "a\tb"}), "message.content.senderId contains the control character"),
        ("message.content", json!({"author": {"userId": long}}), "message.content.author.userId has 1025 bytes"),
        ("replyTo", json!("cli"), "replyTo is a string; it must be an object"),
        ("replyTo", json!({}), "replyTo.channelType is missing"),
        ("replyTo", json!({"channelType": "a"}), "replyTo.platformId is missing"),
        ("replyTo", json!({"channelType": "a", "platformId": 1}), "replyTo.platformId is a number"),
        ("replyTo", json!({"channelType": "a", "platformId": "b", "threadId": 1}), "replyTo.threadId is a number"),
    ];
    for (path, value, expected) in cases {
        let refused = error(&set(path, value));
        assert!(refused.contains(expected), "{path}: {refused}");
        assert!(refused.len() < 300, "{refused}");
    }
    assert!(parse(set("message.id", json!("x".repeat(1_024))).to_string().as_bytes()).is_ok());
}

#[test]
fn what_is_no_event_is_refused() {
    let cases: [(&[u8], &str); 12] = [
        (b"", "the event is not usable JSON: EOF"),
        (b" ", "the event is not usable JSON: EOF"),
        (b"{", "the event is not usable JSON: EOF"),
        (b"[]", "the event is an array; it must be an object"),
        (b"\"x\"", "the event is a string"),
        (b"null", "the event is null"),
        (b"5", "the event is a number"),
        (b"{} {}", "the event is not usable JSON: trailing characters"),
        (b"{}", "message is missing"),
        (b"{\"a\":1,}", "the event is not usable JSON"),
        (b"{\"a\":\xff}", "the event is not UTF-8 from byte 5 on"),
        (b"\xef\xbb\xbf{}", "the event is not usable JSON"),
    ];
    for (event, expected) in cases {
        let refused = parse(event).unwrap_err().to_string();
        assert!(refused.starts_with(expected), "{}: {refused}", String::from_utf8_lossy(event));
    }
}

#[test]
fn sizes_are_bounded() {
    let text = |bytes: usize| json!({"text": "x".repeat(bytes)});
    let fits = CONTENT_BYTES_MAX - r#"{"text":""}"#.len();
    assert!(parse(with(&text(fits)).to_string().as_bytes()).is_ok());
    assert_eq!(
        error(&with(&text(fits + 1))),
        "message.content is too large: 524289 bytes, at most 524288 are accepted; send long texts and files as attachments"
    );
    let refused = parse(&vec![b' '; EVENT_BYTES_MAX + 1]).unwrap_err();
    assert_eq!(refused, BadEvent::TooLarge { what: "the event", bytes: EVENT_BYTES_MAX + 1, max: EVENT_BYTES_MAX });
    let refused = parse(&vec![b' '; EVENT_REST_MAX + 1]).unwrap_err();
    assert_eq!(refused, BadEvent::TooLarge { what: EVENT_REST, bytes: 1_048_577, max: 1_048_576 });
    // A string gets longer when it is wrapped in an object.
    let quotes = json!("\"".repeat(CONTENT_BYTES_MAX / 2 - 1));
    assert!(matches!(parse(with(&quotes).to_string().as_bytes()), Err(BadEvent::TooLarge { .. })));
}

#[test]
fn nesting_does_not_overflow_the_stack() {
    let event = |content: &str| format!(r#"{{"channelType":"a","platformId":"b","message":{{"content":{content}}}}}"#);
    let nested = |levels: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(levels - 1), "]".repeat(levels - 1));
    assert!(parse(event(&nested(CONTENT_DEPTH_MAX)).as_bytes()).is_ok());
    for levels in [CONTENT_DEPTH_MAX + 1, 250_000] {
        let refused = parse(event(&nested(levels)).as_bytes()).unwrap_err();
        assert_eq!(refused, BadEvent::TooDeep { levels });
        let quoted = serde_json::to_string(&nested(levels)).unwrap();
        assert_eq!(parse(event(&quoted).as_bytes()).unwrap_err(), BadEvent::TooDeep { levels });
    }
    let elsewhere = event(r#"{"text":"x"}"#).replacen('{', &format!(r#"{{"bomb":{},"#, nested(250_000)), 1);
    assert_eq!(parse(elsewhere.as_bytes()).unwrap().content.text, "x", "an unknown field is skipped");
    assert!(parse("[".repeat(EVENT_BYTES_MAX).as_bytes()).is_err());
    assert!(parse(event(&"[".repeat(400_000)).as_bytes()).is_err());
}

/// Reads an event. If it is refused, checks that the message says what is wrong and what to do, and returns it.
fn told(event: &[u8]) -> Result<(), String> {
    let Err(bad) = parse(event) else { return Ok(()) };
    if let BadEvent::NotText { at } = bad {
        assert!(std::str::from_utf8(&event[..at]).is_ok() && std::str::from_utf8(event).is_err(), "{at}");
    }
    let message = bad.to_string();
    let whole = message.split_once("; ").is_some_and(|(what, advice)| !what.is_empty() && !advice.is_empty());
    if whole { Ok(()) } else { Err(message) }
}

proptest! {
    #[test]
    fn random_bytes_are_refused_in_words(event in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(told(&event).is_ok(), "{:?}", told(&event));
    }

    #[test]
    fn random_fields_are_taken_or_refused_in_words(
        channel in ".{0,8}", chat in ".{0,8}", id in ".{0,8}", raw in r#"[{}\[\]":,\\u0-9a-d ]{0,30}"#, text in ".{0,30}",
    ) {
        let event = json!({"channelType": channel, "platformId": chat, "message": {"id": id, "content": text}});
        let event = event.to_string();
        prop_assert!(told(event.as_bytes()).is_ok(), "{:?}", told(event.as_bytes()));
        let quoted = serde_json::to_string(&text).unwrap();
        let odd = event.replacen(&quoted, &raw, 1);
        prop_assert!(told(odd.as_bytes()).is_ok(), "{:?}", told(odd.as_bytes()));
    }

    /// The agents' side can parse every accepted event.
    #[test]
    fn what_is_stored_is_an_object(content in r#"\{"[a-z]{0,3}":("[\\nu0-9a-f]{0,12}"|[0-9.eE-]{1,6}|[\[\]]{0,4})\}"#) {
        let event = format!(r#"{{"channelType":"a","platformId":"b","message":{{"content":{content}}}}}"#);
        if let Ok(event) = parse(event.as_bytes()) {
            prop_assert!(serde_json::from_str::<Value>(event.content.raw.as_str()).unwrap().is_object());
        }
    }
}
