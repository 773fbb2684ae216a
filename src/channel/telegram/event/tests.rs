//! Every row of the mapping, with messages in the format of the Bot API.

use super::*;

fn me() -> User {
    serde_json::from_value(json!({"id": 4242, "is_bot": true, "first_name": "Hearth", "username": "Hearth_Bot"}))
        .unwrap()
}

/// Ann in her direct chat; `more` replaces and adds fields.
fn private(more: Value) -> Value {
    with(
        json!({
            "message_id": 7, "date": 1_700_000_000,
            "from": {"id": 123, "is_bot": false, "first_name": "Ann", "last_name": "Lee", "username": "annlee"},
            "chat": {"id": 123, "type": "private", "first_name": "Ann", "last_name": "Lee", "username": "annlee"},
        }),
        more,
    )
}

/// Ann in a group.
fn group(more: Value) -> Value {
    let chat = json!({"chat": {"id": -1_001_234, "type": "supergroup", "title": "Home", "is_forum": true}});
    with(with(private(json!({})), chat), more)
}

fn with(mut message: Value, more: Value) -> Value {
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    message
}

fn take_json(message: &Value) -> Taken {
    let message: Message = serde_json::from_value(message.clone()).unwrap_or_else(|error| panic!("{message}: {error}"));
    take(&ChannelName::new("telegram").unwrap(), &me(), &message).unwrap()
}

fn event(message: &Value) -> InboundEvent {
    match take_json(message) {
        Taken::Event(event, _) => *event,
        other => panic!("{message}: {other:?}"),
    }
}

fn payload(event: &InboundEvent) -> Value {
    serde_json::from_str(event.content.raw.as_str()).unwrap()
}

#[test]
fn a_direct_message_is_a_mention_in_the_chat_of_its_sender() {
    let event = event(&private(json!({"text": "hello"})));
    let id = |text: &str| ForeignId::new("id", text).unwrap();
    let expected = InboundEvent {
        source: Address { channel: ChannelName::new("telegram").unwrap(), platform_id: id("123"), thread: None },
        platform_message: Some(id("7")),
        kind: MessageKind::ChatSdk,
        content: Content {
            text: "hello".into(),
            sender: Some(id("123")),
            sender_name: Some("Ann Lee".into()),
            raw: event.content.raw.clone(),
        },
        said: Some(Timestamp::from_millis(1_700_000_000_000)),
        mention: true,
        group: false,
        reply_to: None,
        threads: None,
        cursors: Vec::new(),
        chat_name: Some("Ann Lee".into()),
        attachments: vec![],
    };
    assert_eq!(event, expected);
    assert_eq!(
        payload(&event),
        json!({
            "text": "hello", "messageId": "7", "senderId": "123", "sender": "Ann Lee", "senderName": "Ann Lee",
            "author": {"userId": "123", "fullName": "Ann Lee", "userName": "annlee", "isBot": false},
        })
    );
}

#[test]
fn only_what_the_platform_marks_is_a_mention() {
    let entity = |kind: &str, offset: usize, length: usize| json!([{"type": kind, "offset": offset, "length": length}]);
    let said_by = |id: i64| {
        json!({"message_id": 3, "date": 1, "chat": {"id": -1_001_234, "type": "supergroup"},
        "from": {"id": id, "is_bot": true, "first_name": "X"}, "text": "before"})
    };
    let rows = [
        ("nothing is marked", json!({"text": "hello @hearth_bot"}), false),
        ("its name is marked", json!({"text": "hello @hearth_bot", "entities": entity("mention", 6, 11)}), true),
        ("case does not matter", json!({"text": "@HEARTH_BOT", "entities": entity("mention", 0, 11)}), true),
        ("offsets count UTF-16", json!({"text": "🦀🦀 @hearth_bot", "entities": entity("mention", 5, 11)}), true),
        ("another name", json!({"text": "@hearth_bot2", "entities": entity("mention", 0, 12)}), false),
        ("a name that contains it", json!({"text": "@my_hearth_bot", "entities": entity("mention", 0, 14)}), false),
        ("bounds beyond the text", json!({"text": "@hearth_bot", "entities": entity("mention", 0, 99)}), false),
        ("bounds within a character", json!({"text": "🦀@hearth_bot", "entities": entity("mention", 1, 12)}), false),
        ("huge bounds", json!({"text": "x", "entities": entity("mention", usize::MAX, usize::MAX)}), false),
        (
            "in a caption",
            json!({"caption": "@hearth_bot", "caption_entities": entity("mention", 0, 11),
                "photo": [{"file_id": "p", "width": 1, "height": 1}]}),
            true,
        ),
        (
            "a bot without a public name is marked by its id",
            json!({"text": "Hearth, hi", "entities":
                [{"type": "text_mention", "offset": 0, "length": 6, "user": {"id": 4242, "is_bot": true, "first_name": "H"}}]}),
            true,
        ),
        (
            "somebody else is",
            json!({"text": "Hearth, hi", "entities":
                [{"type": "text_mention", "offset": 0, "length": 6, "user": {"id": 5, "is_bot": false, "first_name": "H"}}]}),
            false,
        ),
        ("a command for it", json!({"text": "/ask@hearth_bot", "entities": entity("bot_command", 0, 15)}), true),
        ("a command for everybody", json!({"text": "/ask", "entities": entity("bot_command", 0, 4)}), false),
        (
            "a command for it in the middle",
            json!({"text": "try /ask@hearth_bot", "entities": entity("bot_command", 4, 15)}),
            true,
        ),
        ("an answer to it", json!({"text": "yes", "reply_to_message": said_by(4242)}), true),
        ("an answer to somebody else", json!({"text": "yes", "reply_to_message": said_by(5)}), false),
        (
            "any message in a topic that it opened",
            json!({"text": "yes", "is_topic_message": true, "message_thread_id": 3,
                "reply_to_message": with(said_by(4242), json!({"text": null, "forum_topic_created": {"name": "T"}}))}),
            false,
        ),
        (
            "an answer to it in a topic",
            json!({"text": "yes", "is_topic_message": true, "message_thread_id": 2, "reply_to_message": said_by(4242)}),
            true,
        ),
    ];
    for (name, more, mention) in rows {
        assert_eq!(event(&group(more)).mention, mention, "{name}");
    }
}

#[test]
fn commands_lose_the_name_of_the_bot_and_those_for_other_bots_are_passed_over() {
    let command = |text: &str, length: usize| {
        group(json!({"text": text, "entities": [{"type": "bot_command", "offset": 0, "length": length}]}))
    };
    let ours = event(&command("/clear@Hearth_bot now", 17));
    assert_eq!((ours.content.text.as_str(), payload(&ours)["text"].as_str()), ("/clear now", Some("/clear now")));
    assert_eq!(event(&command("/clear now", 6)).content.text, "/clear now");
    let theirs = with(
        command("/clear@other_bot", 16),
        json!({"reply_to_message": {"message_id": 3, "date": 1, "text": "x",
            "from": {"id": 4242, "first_name": "H"}, "chat": {"id": 1}}}),
    );
    assert!(matches!(take_json(&theirs), Taken::Nothing("a command for another bot")));
}

#[test]
fn threads_are_topics_and_nothing_else() {
    let rows = [
        ("no thread", json!({"text": "x"}), None),
        ("a topic", json!({"text": "x", "is_topic_message": true, "message_thread_id": 42}), Some("42")),
        ("a thread of answers", json!({"text": "x", "message_thread_id": 42}), None),
        ("a topic without a number", json!({"text": "x", "is_topic_message": true}), None),
    ];
    for (name, more, thread) in rows {
        let event = event(&group(more));
        assert_eq!(event.source.thread.as_ref().map(ForeignId::as_str), thread, "{name}");
        assert_eq!(event.source.platform_id.as_str(), "-1001234", "{name}");
    }
}

#[test]
fn senders_are_their_ids_and_chats_that_speak_cannot_equal_a_person() {
    let group_bot =
        json!({"id": 1_087_968_824, "is_bot": true, "first_name": "Group", "username": "GroupAnonymousBot"});
    let rows = [
        ("a person", group(json!({"text": "x"})), Some("123"), Some("Ann Lee")),
        (
            "a person with a username only",
            group(json!({"text": "x", "from": {"id": 9, "first_name": "", "username": "nine"}})),
            Some("9"),
            Some("nine"),
        ),
        (
            "a name that pretends",
            group(json!({"text": "x", "from": {"id": 9, "first_name": "telegram:123\n"}})),
            Some("9"),
            Some("telegram:123"),
        ),
        (
            "an anonymous administrator",
            group(json!({"text": "x", "from": group_bot,
                "sender_chat": {"id": -1_001_234, "type": "supergroup", "title": "Home"}})),
            Some("chat:-1001234"),
            Some("Home"),
        ),
        (
            "somebody in the name of a channel",
            group(json!({"text": "x", "from": {"id": 136_817_688, "is_bot": true, "first_name": "Channel"},
                "sender_chat": {"id": -1_009, "type": "channel", "title": "News"}})),
            Some("chat:-1009"),
            Some("News"),
        ),
        (
            "a channel",
            json!({"message_id": 1, "date": 1, "text": "x", "chat": {"id": -1_009, "type": "channel", "title": "News"}}),
            Some("chat:-1009"),
            Some("News"),
        ),
        ("nobody", with(group(json!({"text": "x"})), json!({"from": null})), None, None),
    ];
    for (name, message, sender, called) in rows {
        let event = event(&message);
        assert_eq!(event.content.sender.as_ref().map(ForeignId::as_str), sender, "{name}");
        assert_eq!(event.content.sender_name.as_deref(), called, "{name}");
        let payload = payload(&event);
        assert_eq!(payload["senderId"].as_str(), sender, "{name}");
        assert_eq!(payload["author"]["userId"].as_str(), sender, "{name}");
    }
}

#[test]
fn groups_and_their_names_are_told() {
    let chat = |kind: &str| json!({"chat": {"id": -5, "type": kind, "title": "Home"}, "text": "x"});
    for (kind, is_group, mention) in
        [("group", true, false), ("supergroup", true, false), ("channel", false, false), ("private", false, true)]
    {
        let event = event(&private(chat(kind)));
        assert_eq!((event.group, event.mention), (is_group, mention), "{kind}");
        assert_eq!(event.chat_name.as_deref(), Some("Home"), "{kind}");
    }
}

#[test]
fn answers_say_what_they_answer() {
    let chat = json!({"id": -1_001_234, "type": "supergroup", "title": "Home"});
    let answered = |more: Value| {
        let base =
            json!({"message_id": 5, "date": 1, "chat": chat, "from": {"id": 9, "first_name": "Bo", "username": "bo"}});
        event(&group(
            json!({"text": "yes", "reply_to_message": with(base, more), "quote": {"text": "the part", "position": 0}}),
        ))
    };
    let rows = [
        ("a text", json!({"text": "shall we?"}), json!({"text": "shall we?", "sender": "Bo", "messageId": "5"})),
        ("a caption", json!({"caption": "look"}), json!({"text": "look", "sender": "Bo", "messageId": "5"})),
        (
            "no first name",
            json!({"text": "a", "from": {"id": 9, "first_name": "", "username": "bo"}}),
            json!({"text": "a", "sender": "bo", "messageId": "5"}),
        ),
        ("nobody", json!({"text": "a", "from": null}), json!({"text": "a", "sender": "Unknown", "messageId": "5"})),
        (
            "a chat",
            json!({"text": "a", "sender_chat": {"id": -2, "type": "channel", "title": "News"}}),
            json!({"text": "a", "sender": "News", "messageId": "5"}),
        ),
        (
            "nothing to read",
            json!({"dice": {"emoji": "🎲", "value": 3}}),
            json!({"text": "", "sender": "Bo", "messageId": "5"}),
        ),
    ];
    for (name, more, expected) in rows {
        let expected = with(expected, json!({"quote": "the part"}));
        assert_eq!(payload(&answered(more))["replyTo"], expected, "{name}");
    }
}

#[test]
fn files_are_found_with_safe_names() {
    let rows = [
        (
            "the largest size of a photo",
            json!({"photo": [{"file_id": "s", "width": 90, "height": 60, "file_size": 1},
                {"file_id": "l", "width": 900, "height": 600, "file_size": 99}, {"file_id": "m", "width": 300, "height": 200}]}),
            json!([{"type": "photo", "name": "attachment-1700000000000.jpg", "mimeType": "image/jpeg", "size": 99, "width": 900, "height": 600}]),
        ),
        (
            "a document",
            json!({"document": {"file_id": "d", "file_name": "../a b.pdf", "mime_type": "application/pdf", "file_size": 5}}),
            json!([{"type": "document", "name": "attachment-1700000000000.pdf", "mimeType": "application/pdf", "size": 5}]),
        ),
        (
            "a voice",
            json!({"voice": {"file_id": "v", "duration": 3, "mime_type": "audio/ogg"}}),
            json!([{"type": "voice", "name": "attachment-1700000000000.ogg", "mimeType": "audio/ogg", "duration": 3}]),
        ),
        (
            "an audio",
            json!({"audio": {"file_id": "a", "duration": 3, "file_name": "song.mp3"}}),
            json!([{"type": "audio", "name": "song.mp3", "duration": 3}]),
        ),
        (
            "a video",
            json!({"video": {"file_id": "v", "width": 1, "height": 2, "duration": 3}}),
            json!([{"type": "video", "name": "attachment-1700000000000.mp4", "width": 1, "height": 2, "duration": 3}]),
        ),
        (
            "an animation, which is said twice",
            json!({"animation": {"file_id": "g", "file_name": "cat.mp4"}, "document": {"file_id": "g", "file_name": "cat.mp4"}}),
            json!([{"type": "animation", "name": "cat.mp4"}]),
        ),
        (
            "stickers",
            json!({"sticker": {"file_id": "s", "emoji": "😀", "is_animated": false, "is_video": false}}),
            json!([{"type": "sticker", "name": "attachment-1700000000000.webp", "mimeType": "image/webp", "emoji": "😀"}]),
        ),
        (
            "animated ones",
            json!({"sticker": {"file_id": "s", "is_animated": true}}),
            json!([{"type": "sticker", "name": "attachment-1700000000000.tgs", "mimeType": "application/x-tgsticker"}]),
        ),
        (
            "a video note",
            json!({"video_note": {"file_id": "n", "duration": 2}}),
            json!([{"type": "video_note", "name": "attachment-1700000000000.mp4", "mimeType": "video/mp4", "duration": 2}]),
        ),
        (
            "two of one name",
            json!({"document": {"file_id": "1", "file_name": "a.ogg"}, "voice": {"file_id": "2", "file_name": "a.ogg"}}),
            json!([{"type": "document", "name": "a.ogg"}, {"type": "voice", "name": "a-2.ogg"}]),
        ),
    ];
    for (name, more, expected) in rows {
        let event = event(&private(with(more, json!({"caption": "see", "media_group_id": "77"}))));
        assert_eq!(event.content.text, "see", "{name}");
        let payload = payload(&event);
        assert_eq!((&payload["attachments"], &payload["mediaGroupId"]), (&expected, &json!("77")), "{name}");
    }
    let bare = private(json!({"voice": {"file_id": "v"}}));
    assert_eq!(event(&bare).content.text, "", "a file alone is a message");
}

#[test]
fn what_is_neither_text_nor_file_is_put_into_words() {
    let rows = [
        (json!({"location": {"latitude": 52.5, "longitude": 13.25}}), "[location: 52.5, 13.25]"),
        (
            json!({"venue": {"title": "Cafe", "address": "Main St 1", "location": {"latitude": 1.0, "longitude": 2.0}},
                "location": {"latitude": 1.5, "longitude": 2.5}}),
            "[place: Cafe, Main St 1 (1.5, 2.5)]",
        ),
        (json!({"contact": {"phone_number": "+491", "first_name": "Bo", "last_name": "Li"}}), "[contact: Bo Li +491]"),
        (
            json!({"poll": {"id": "1", "question": "When?", "options": [{"text": "now"}, {"text": "later"}]}}),
            "[poll: When? (now / later)]",
        ),
        (json!({"dice": {"emoji": "🎲", "value": 4}}), "[🎲 4]"),
    ];
    for (more, expected) in rows {
        assert_eq!(event(&private(more)).content.text, expected);
    }
}

#[test]
fn what_nobody_said_is_no_message() {
    for (name, more) in [
        ("joined", json!({"new_chat_members": [{"id": 5, "is_bot": false, "first_name": "Cy"}]})),
        ("left", json!({"left_chat_member": {"id": 5, "is_bot": false, "first_name": "Cy"}})),
        (
            "pinned",
            json!({"pinned_message": {"message_id": 1, "date": 1, "chat": {"id": 1, "type": "group"}, "text": "x"}}),
        ),
        ("a new title", json!({"new_chat_title": "Homes"})),
        ("a new topic", json!({"forum_topic_created": {"name": "T", "icon_color": 1}, "is_topic_message": true})),
        ("where it came from", json!({"migrate_from_chat_id": -5})),
        ("something new", json!({"teleported_to_mars": {"crew": 4}})),
        ("an empty text", json!({"text": ""})),
    ] {
        assert!(matches!(take_json(&group(more)), Taken::Nothing("not a message from a person")), "{name}");
    }
    let own = group(json!({"text": "hi", "from": {"id": 4242, "is_bot": true, "first_name": "Hearth"}}));
    assert!(matches!(take_json(&own), Taken::Nothing("the bot sent it")));
    assert!(matches!(take_json(&group(json!({"migrate_to_chat_id": -1_005}))), Taken::Moved(-1_005)));
    let huge = private(json!({"text": "x".repeat(CONTENT_BYTES_MAX)}));
    assert!(matches!(take_json(&huge), Taken::Nothing("larger than the maximum size of a message")));
}

#[test]
fn forms_that_are_no_messages_are_errors_and_nothing_else() {
    for bad in
        [json!({}), json!({"message_id": "x"}), json!([]), json!(null), json!({"message_id": 1, "chat": {"id": "x"}})]
    {
        assert!(serde_json::from_value::<Message>(bad.clone()).is_err(), "{bad}");
    }
}
