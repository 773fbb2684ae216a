//! Resolves the recipient of a tool's message. Pure.

use hearth_wire::{Address, Destination, DestinationTarget};
use serde_json::Value;

use super::arguments::Arguments;
use crate::outgoing::{OutgoingRecipient, answered};
use crate::report::Scene;

/// A recipient, and the agent's name for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedRecipient {
    pub(super) target: OutgoingRecipient,
    pub(super) in_reply_to: Option<u64>,
    pub(super) name: String,
}

/// With `to`: the destination of that name. Otherwise the current conversation, else the only destination.
pub(super) fn place(arguments: &Arguments, scene: &Scene<'_>) -> Result<NamedRecipient, String> {
    match arguments.given("to") {
        None => conversation(scene),
        Some(Value::String(name)) if name.is_empty() => conversation(scene),
        Some(Value::String(name)) => named(name, scene),
        // Anything but a name is a mistake, and must not be sent to the conversation.
        Some(other) => Err(unknown(&other.to_string(), scene)),
    }
}

/// The current conversation: the origin of the messages being handled, else the session's.
pub(super) fn conversation(scene: &Scene<'_>) -> Result<NamedRecipient, String> {
    let somewhere = scene.asked.iter().any(|message| message.reply.is_some()) || scene.context.reply.is_some();
    if somewhere {
        let in_reply_to = answered(scene.asked, &OutgoingRecipient::Reply, None);
        return Ok(NamedRecipient {
            target: OutgoingRecipient::Reply,
            in_reply_to,
            name: "(current conversation)".to_owned(),
        });
    }
    match scene.context.destinations.as_slice() {
        [] => Err("No destinations configured.".to_owned()),
        [only] => Ok(at(only, scene)),
        _ => Err(format!("You have multiple destinations — specify \"to\". Options: {}", names(scene))),
    }
}

fn named(name: &str, scene: &Scene<'_>) -> Result<NamedRecipient, String> {
    let known = scene.context.destinations.iter().find(|destination| destination.name == name);
    known.map(|destination| at(destination, scene)).ok_or_else(|| unknown(name, scene))
}

/// In the conversation's chat the thread is kept; in other chats none is set.
fn at(destination: &Destination, scene: &Scene<'_>) -> NamedRecipient {
    let name = OutgoingRecipient::Destination(destination.name.clone());
    let in_reply_to = answered(scene.asked, &name, Some(destination));
    let target = match &destination.target {
        DestinationTarget::Channel { channel, platform_id } => {
            let here = |address: &&Address| address.channel == *channel && address.platform_id == *platform_id;
            let replies = scene.asked.iter().rev().filter_map(|message| message.reply.as_ref());
            let reply = replies.chain(&scene.context.reply).find(here);
            reply.map_or(name, |address| OutgoingRecipient::Address(address.clone()))
        }
        DestinationTarget::Agent { .. } => name,
    };
    NamedRecipient { target, in_reply_to, name: destination.name.clone() }
}

fn unknown(name: &str, scene: &Scene<'_>) -> String {
    let known = if scene.context.destinations.is_empty() { "(none)".to_owned() } else { names(scene) };
    let name: String = name.chars().take(200).collect();
    format!("Unknown destination \"{name}\". Known: {known}")
}

fn names(scene: &Scene<'_>) -> String {
    let mut names: Vec<&str> = scene.context.destinations.iter().map(|known| known.name.as_str()).collect();
    names.sort_unstable();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::tests::{Stage, message};

    fn chat(name: &str, platform_id: &str) -> Value {
        json!({"name": name, "type": "channel", "channel": "telegram", "platform_id": platform_id})
    }

    fn peer(name: &str) -> Value {
        json!({"name": name, "type": "agent", "folder": name})
    }

    fn address(platform_id: &str, thread: Option<&str>) -> Address {
        let (channel, platform_id) = ("telegram".to_owned(), platform_id.to_owned());
        Address { channel, platform_id, thread_id: thread.map(str::to_owned) }
    }

    fn to(stage: &Stage, to: Value) -> Result<NamedRecipient, String> {
        place(&Arguments::read(json!({ "to": to })).unwrap(), &stage.scene())
    }

    /// The rows about addresses, with and without a conversation.
    #[test]
    fn names_conversations_and_neither() {
        let home = Some(address("1", Some("t")));
        let here = |name: &str| Ok((OutgoingRecipient::Reply, name.to_owned()));
        let at = |name: &str| Ok((OutgoingRecipient::Destination(name.to_owned()), name.to_owned()));
        let error = |text: &str| Err(text.to_owned());
        let current = "(current conversation)";
        for (row, reply, destinations, name, expected) in [
            ("conversation", home.clone(), json!([]), json!(null), here(current)),
            ("empty is none", home.clone(), json!([chat("b", "2")]), json!(""), here(current)),
            ("nowhere", None, json!([]), json!(null), error("No destinations configured.")),
            ("the only one", None, json!([chat("b", "2")]), json!(null), at("b")),
            (
                "two",
                None,
                json!([chat("b", "2"), peer("a")]),
                json!(null),
                error("You have multiple destinations — specify \"to\". Options: a, b"),
            ),
            (
                "unknown",
                home.clone(),
                json!([chat("b", "2"), peer("a")]),
                json!("x"),
                error("Unknown destination \"x\". Known: a, b"),
            ),
            ("unknown", None, json!([]), json!("x"), error("Unknown destination \"x\". Known: (none)")),
            ("exact", home.clone(), json!([peer("a")]), json!("A"), error("Unknown destination \"A\". Known: a")),
            ("no name", home.clone(), json!([peer("a")]), json!(5), error("Unknown destination \"5\". Known: a")),
            ("other chat", home.clone(), json!([chat("b", "2")]), json!("b"), at("b")),
            ("agent", home.clone(), json!([peer("a")]), json!("a"), at("a")),
            (
                "same chat, thread kept",
                home.clone(),
                json!([chat("b", "1")]),
                json!("b"),
                Ok((OutgoingRecipient::Address(address("1", Some("t"))), "b".to_owned())),
            ),
        ] {
            let stage = Stage::new(reply, &destinations, vec![message(4, None)]);
            assert_eq!(to(&stage, name).map(|place| (place.target, place.name)), expected, "{row}");
        }
    }

    #[test]
    fn the_newest_message_of_the_chat_is_answered_in_its_thread() {
        let asked = vec![
            message(4, Some(address("1", Some("old")))),
            message(6, Some(address("1", Some("new")))),
            message(8, Some(address("2", None))),
        ];
        let stage = Stage::new(None, &json!([chat("one", "1"), chat("two", "2"), chat("far", "3")]), asked);
        let said = |name: Value| to(&stage, name).map(|place| (place.target, place.in_reply_to)).unwrap();
        assert_eq!(said(json!("one")), (OutgoingRecipient::Address(address("1", Some("new"))), Some(6)));
        assert_eq!(said(json!("two")), (OutgoingRecipient::Address(address("2", None)), Some(8)));
        assert_eq!(said(json!("far")), (OutgoingRecipient::Destination("far".to_owned()), Some(8)));
        assert_eq!(said(json!(null)), (OutgoingRecipient::Reply, Some(8)), "as an answer would");
        let outside = Stage::new(Some(address("1", None)), &json!([]), Vec::new());
        assert_eq!(to(&outside, json!(null)).unwrap().in_reply_to, None);
    }
}
