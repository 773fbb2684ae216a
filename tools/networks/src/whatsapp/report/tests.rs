//! Tests of what reads reports.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::hostile::{changed, value};

const NUMBER: &str = "42";
const ANN: &str = "15550000001";

fn report(messages: &Value, statuses: &Value) -> Value {
    let value = json!({
        "metadata": { "phone_number_id": NUMBER },
        "contacts": [{ "wa_id": ANN, "user_id": "US.1", "profile": { "name": "Ann\n" } }],
        "messages": messages, "statuses": statuses,
    });
    let changes = json!([{ "field": "messages", "value": value }]);
    json!({ "object": "whatsapp_business_account", "entry": [{ "changes": changes }] })
}

fn message() -> Value {
    json!({ "from": ANN, "id": "wamid.A=", "timestamp": "7", "type": "text", "text": { "body": "hi" } })
}

fn one(more: &Value) -> Option<Written> {
    read(&report(&json!([changed(message(), more)]), &json!([])), NUMBER).messages.pop()
}

#[test]
fn messages_of_people_are_read() {
    let plain = one(&json!({ "context": { "id": "wamid.B" }, "sender": { "id": "9" } })).unwrap();
    assert_eq!((plain.text.as_str(), plain.name.as_deref(), plain.seconds), ("hi", Some("Ann"), 7));
    assert_eq!(plain.event().sender.map(|sender| sender.id).as_deref(), Some(ANN));
    assert_eq!(plain.event().rest["message"]["content"]["replyTo"]["messageId"], "wamid.B");
    // A frame of a bridge has a limit, and a message that cannot be passed on would come again and again.
    let huge = one(&json!({ "text": { "body": "\u{1}".repeat(3_000_000) } })).unwrap();
    assert!(serde_json::to_string(&huge.event().rest).unwrap().len() < 500_000);
    let unnumbered = one(&json!({ "from": null, "from_user_id": "US.1" })).unwrap();
    assert_eq!((unnumbered.person.id(), unnumbered.name.as_deref()), ("US.1", Some("Ann")));
    let document = json!({ "id": "5", "filename": "../a\n", "caption": "see", "mime_type": "text/plain" });
    let file = one(&json!({ "type": "document", "document": document })).unwrap();
    let attached = Attached { id: Some("5".into()), name: Some("../a".into()), mime: Some("text/plain".into()) };
    assert_eq!((file.text.as_str(), file.file), ("see", Some(attached)));
    for (kind, reply) in [("button_reply", "hearth:ap1.0"), ("list_reply", "hearth:ap1.0")] {
        let press = one(&json!({ "type": "interactive", "interactive": { kind: { "id": reply, "title": "Yes" } } }));
        assert_eq!(press.and_then(|press| press.button).as_deref(), Some("ap1.0"));
    }
    let other = json!({ "type": "interactive", "interactive": { "button_reply": { "id": "ap1.0", "title": "Yes" } } });
    assert_eq!(one(&other).map(|other| (other.button, other.text)), Some((None, "Yes".to_owned())));
    // Only WhatsApp's own kind of message is a press.
    assert_eq!(one(&json!({ "interactive": { "button_reply": { "id": "hearth:ap1.0" } } })).unwrap().button, None);
}

#[test]
fn what_is_no_text_becomes_one() {
    let contact = json!({ "name": { "formatted_name": "Bob" }, "phones": [{ "phone": "+7" }] });
    for (more, text) in [
        (
            json!({ "type": "location", "location": { "latitude": 1.5, "longitude": 2, "name": "Home" } }),
            "(place: 1.5, 2 Home)",
        ),
        (json!({ "type": "contacts", "contacts": [contact] }), "(contact: Bob +7)"),
        (json!({ "type": "order", "order": {} }), "(a message of the kind order)"),
        (json!({ "type": "button", "button": { "text": "Yes" } }), "Yes"),
        (json!({ "type": "unsupported" }), "(a message that WhatsApp does not pass on to programs)"),
    ] {
        assert_eq!(one(&more).map(|written| written.text).as_deref(), Some(text));
    }
}

#[test]
fn nothing_else_is_a_message() {
    for more in [
        json!({ "from": "Ann" }),
        json!({ "from": 7 }),
        json!({ "from": "+15550000001", "from_user_id": "US.1" }),
        json!({ "id": "a b" }),
        json!({ "id": null }),
        json!({ "type": null }),
        json!({ "type": "reaction", "reaction": { "emoji": "x", "message_id": "wamid.B" } }),
        json!({ "type": "system", "system": { "type": "user_changed_number", "wa_id": "9" } }),
        json!({ "group_id": "g" }),
        json!({ "text": { "body": "" } }),
        json!({ "text": "hi" }),
    ] {
        assert_eq!(one(&more), None, "{more}");
    }
    assert_eq!(read(&report(&json!([message()]), &json!([])), "43"), Report::default(), "another number");
    let mut other = report(&json!([message()]), &json!([]));
    other["entry"][0]["changes"][0]["field"] = json!("account_update");
    assert_eq!(read(&other, NUMBER), Report::default());
}

#[test]
fn statuses_have_keys_and_say_why_they_failed() {
    let errors =
        json!([{ "code": 131_047, "title": "Re-engagement message", "error_data": { "details": "24 hours" } }]);
    let statuses = json!([
        { "id": "wamid.A", "status": "sent", "biz_opaque_callback_data": "k" },
        { "id": "wamid.B", "status": "failed", "errors": errors }, { "status": "sent" }, 7,
    ]);
    let failure = Failure { code: 131_047, why: "24 hours".to_owned() };
    let sent = Status { id: "wamid.A".to_owned(), key: Some("k".to_owned()), failure: None };
    let failed = Status { id: "wamid.B".to_owned(), key: None, failure: Some(failure) };
    assert_eq!(read(&report(&json!([]), &statuses), NUMBER).statuses, [sent, failed]);
}

const KEYS: &[&str] = &[
    "entry",
    "changes",
    "field",
    "value",
    "metadata",
    "phone_number_id",
    "contacts",
    "wa_id",
    "user_id",
    "profile",
    "name",
    "messages",
    "statuses",
    "from",
    "from_user_id",
    "group_id",
    "id",
    "type",
    "timestamp",
    "text",
    "body",
    "context",
    "image",
    "document",
    "caption",
    "filename",
    "mime_type",
    "interactive",
    "button_reply",
    "list_reply",
    "title",
    "location",
    "latitude",
    "phones",
    "phone",
    "formatted_name",
    "status",
    "errors",
    "code",
    "error_data",
    "details",
    "biz_opaque_callback_data",
];
const WORDS: &[&str] = &[
    "messages",
    NUMBER,
    ANN,
    "US.1",
    "wamid.A",
    "text",
    "image",
    "interactive",
    "location",
    "contacts",
    "failed",
    "hearth:",
];

proptest! {
    #[test]
    fn whatever_comes_is_read_or_nothing(whole in value(KEYS, WORDS), more in value(KEYS, WORDS), status in value(KEYS, WORDS)) {
        read(&whole, NUMBER);
        let found = read(&report(&json!([changed(message(), &more), more]), &json!([status])), NUMBER);
        for written in &found.messages {
            prop_assert!(Person::read(written.person.id()).is_some() && is_id(&written.id));
            prop_assert!(written.seconds >= 0 && written.name.as_ref().is_none_or(|name| !name.is_empty()));
            written.event();
        }
        prop_assert!(found.statuses.iter().all(|status| is_id(&status.id)));
    }
}
