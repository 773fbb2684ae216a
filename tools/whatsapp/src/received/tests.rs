//! Tests of what is read of messages.

use super::*;
use proptest::prelude::*;
use whatsapp_rust::prelude::MessageField;

const OWN: &str = "15550000001@s.whatsapp.net";

fn account(owner: Owner) -> Account {
    let hidden = Chat::read("100000000000001@lid");
    Account { number: Chat::read("15550000001").unwrap(), hidden, owner }
}

fn info(chat: &str, sender: &str, other: Option<&str>, is_own: bool) -> MessageInfo {
    let mut info = MessageInfo { id: "3EB0".to_owned(), push_name: "Ann\u{0}".to_owned(), ..MessageInfo::default() };
    info.source.chat = chat.parse().unwrap();
    info.source.sender = sender.parse().unwrap();
    info.source.sender_alt = other.map(|other| other.parse().unwrap());
    info.source.is_from_me = is_own;
    info
}

fn text(text: &str) -> wa::Message {
    wa::Message { conversation: Some(text.to_owned()), ..Default::default() }
}

fn of(message: &wa::Message, info: &MessageInfo) -> Option<Written> {
    read(message, info, &account(Owner::Person), &People::default())
}

#[test]
fn people_have_their_numbers_where_whatsapp_tells_them() {
    let hidden = "100000012345678:3@lid";
    let known = of(&text("x"), &info(hidden, hidden, Some("15550000002@s.whatsapp.net"), false)).unwrap();
    assert_eq!((known.chat.as_str(), known.author.as_str()), ("15550000002", "15550000002"));
    assert_eq!((known.id.as_str(), known.name.as_deref()), ("3EB0/100000012345678@lid", Some("Ann")));
    let unknown = of(&text("x"), &info(hidden, hidden, None, false)).unwrap();
    assert_eq!(unknown.author, "100000012345678@lid");
    // A number is no hidden one, whatever is said beside it.
    let strange = of(&text("x"), &info("15550000002@s.whatsapp.net", "15550000002@s.whatsapp.net", Some(OWN), false));
    assert_eq!(strange.unwrap().author, "15550000002");
}

#[test]
fn what_the_owner_writes_is_theirs_and_of_a_bots_account_nothing() {
    let note = info(OWN, OWN, None, true);
    let read_note = of(&text("x"), &note).unwrap();
    assert!(read_note.is_note && read_note.author == "15550000001" && read_note.chat == "15550000001");
    assert_eq!(read(&text("x"), &note, &account(Owner::Bot), &People::default()), None);
    let other = of(&text("x"), &info("15550000002@s.whatsapp.net", OWN, None, true)).unwrap();
    assert!(!other.is_note && other.chat == "15550000002");
}

#[test]
fn what_is_no_message_is_none() {
    let from = info("15550000002@s.whatsapp.net", "15550000002@s.whatsapp.net", None, false);
    let reaction = wa::message::ReactionMessage { text: Some("👍".to_owned()), ..Default::default() };
    let change = wa::message::ProtocolMessage { edited_message: MessageField::some(text("y")), ..Default::default() };
    for message in [
        wa::Message::default(),
        wa::Message { reaction_message: MessageField::some(reaction), ..Default::default() },
        wa::Message { protocol_message: MessageField::some(change), ..text("x") },
    ] {
        assert_eq!(of(&message, &from), None);
    }
    for chat in ["status@broadcast", "120363040237990503@newsletter"] {
        assert_eq!(of(&text("x"), &info(chat, "15550000002@s.whatsapp.net", None, false)), None, "{chat}");
    }
}

#[test]
fn answers_and_mentions_of_the_account_address_it() {
    let from = info("120363040237990503@g.us", "15550000002@s.whatsapp.net", None, false);
    let with = |context: wa::ContextInfo, text: &str| {
        let extended = wa::message::ExtendedTextMessage {
            text: Some(text.to_owned()),
            context_info: MessageField::some(context),
            ..Default::default()
        };
        let message = wa::Message { extended_text_message: MessageField::some(extended), ..Default::default() };
        of(&message, &from).unwrap()
    };
    assert!(!of(&text("@15550000001 hi"), &from).unwrap().is_mention, "a number in a text is none");
    for own in [OWN, "100000000000001@lid"] {
        let context = wa::ContextInfo { mentioned_jid: vec![own.to_owned()], ..Default::default() };
        let number = own.split('@').next().unwrap();
        let written = with(context, &format!("@{number} hi"));
        assert_eq!((written.text.as_str(), written.is_mention), ("@hearth hi", true));
    }
    let context = wa::ContextInfo {
        stanza_id: Some("3EB1".to_owned()),
        participant: Some(OWN.to_owned()),
        quoted_message: MessageField::some(text("before")),
        ..Default::default()
    };
    let written = with(context, "yes");
    assert!(written.is_mention);
    assert_eq!(written.answered, Some(json!({ "text": "before", "sender": "hearth", "messageId": "3EB1" })));
}

#[test]
fn names_that_name_each_other_do_not_grow() {
    let (jid, next) = ("15550000002@s.whatsapp.net", "15550000003@s.whatsapp.net");
    let mut people = People::default();
    for (of, name) in [(jid, "@15550000003@15550000003"), (next, "@15550000002@15550000002")] {
        people.names.insert(person(of).unwrap(), name.to_owned());
    }
    let mentions: Vec<String> = [jid, next].repeat(50).into_iter().map(str::to_owned).collect();
    let shown = with_names("@15550000002", &mentions, (&account(Owner::Bot), &people));
    assert_eq!(shown, "@@15550000003@15550000003", "what replaced a mention is not replaced");
}

#[test]
fn hostile_ids_and_places_of_files_are_no_paths() {
    let mut from = info("15550000002@s.whatsapp.net", "15550000002@s.whatsapp.net", None, false);
    from.id = "../../x \n".to_owned();
    let id = of(&text("x"), &from).unwrap().id;
    assert!(id.starts_with("strange-") && Id::read(&id).is_some(), "{id}");
}

proptest! {
    #[test]
    fn whatever_is_mentioned_a_text_stays_one(words in "[@0-9 /:é🦀]{0,60}", jids in prop::collection::vec("[@0-9:a-z.]{0,20}", 0..4)) {
        let context = wa::ContextInfo { mentioned_jid: jids, participant: Some(words.clone()), ..Default::default() };
        let extended = wa::message::ExtendedTextMessage {
            text: Some(words),
            context_info: MessageField::some(context),
            ..Default::default()
        };
        let message = wa::Message { extended_text_message: MessageField::some(extended), ..Default::default() };
        of(&message, &info("120363040237990503@g.us", "15550000002@s.whatsapp.net", None, false));
    }
}
