//! Identities: ids, names of people and chats, and unknown senders who leave no rows.

use std::fmt::Write as _;

use hearth::channel::event;
use hearth::model::id::{AgentId, ChatId};
use hearth::model::input::Input;
use hearth::model::message::Reason;
use hearth::model::report::{Decision, Outcome};
use hearth::model::{Effect, Timestamp};

use crate::world::routing::{ALWAYS, MENTION, MENTIONED, chat, decisions, drops};
use crate::world::{ONE, World, event as said, event_in, inbound};

/// Messages in chats that the bot merely sits in leave the store unchanged, whatever they claim, and however often they
/// arrive.
#[test]
fn chatter_leaves_nothing() {
    let mut world = World::of(&format!("{ONE}[[chats]]\nchannel = \"net\"\nplatform_id = \"nobody\""));
    let before = world.text();
    for (chat, thread, sender, text) in [
        ("D", None, "\"senderId\":\"eve\",\"senderName\":\"Eve\"", "hello"),
        ("D", Some("t"), "\"senderId\":\"eve\"", "/clear"),
        ("D", None, "\"sender\":\"net:own\"", "/help"),
        ("nobody", None, "\"senderId\":\"eve\"", "hello"),
        ("nobody", Some("t"), "\"author\":{\"userId\":\"9\",\"fullName\":\"Bo\"}", "/cost"),
    ] {
        for threads in ["", "\"supportsThreads\":true,", "\"supportsThreads\":false,"] {
            let json = event_in(("net", chat, thread), ("1", text, sender), "\"isGroup\":true");
            let mut input = inbound(&json.replacen('{', &format!("{{{threads}"), 1));
            if let (Input::Inbound(event), "D") = (&mut input, chat) {
                event.chat_name = Some("Eve's".to_owned());
            }
            world.put(input.clone());
            world.put(input);
        }
        world.sweep();
    }
    let group = |world: &World| world.read(|db, txn| Ok(db.chats.require(txn, &ChatId::new(2))?.group));
    assert!(group(&world), "what is known of a known chat is kept current");
    let without = |text: &str| text.lines().filter(|line| !line.contains("nobody")).collect::<Vec<_>>().join("\n");
    assert_eq!(without(&world.text()), without(&before));
    assert_eq!(world.read(|db, txn| db.users.len(txn)), 0);
}

/// An unknown sender in a public chat is stored only as part of their message.
#[test]
fn strangers_who_are_heard_get_no_row() {
    let mut world = World::of(ONE);
    world.inject(&said("1", "hello", ""));
    world.inject(&said("2", "/clear", ""));
    let rows = world.read(|db, txn| Ok((db.users.len(txn)?, db.members.len(txn)?, db.direct_messages.len(txn)?)));
    assert_eq!(rows, (0, 0, 0));
}

/// An adapter's information about a chat is kept current, and written only when it changed.
#[test]
fn chats_are_refreshed() {
    let mut world = World::of(&format!("{ONE}[[users]]\nid = \"net:ann\"\n"));
    let say = |world: &mut World, id: &str, name: Option<&str>, group: bool| {
        let more = if group { "\"isGroup\":true" } else { "" };
        let mut input = inbound(&said(id, "x", more));
        if let Input::Inbound(event) = &mut input {
            event.chat_name = name.map(str::to_owned);
        }
        world.lose_effects();
        world.put(input);
        world.read(|db, txn| db.chats.require(txn, &ChatId::new(1)).map(|chat| (chat.name, chat.group)))
    };
    let named = |name: &str, group| (Some(name.to_owned()), group);
    assert_eq!(say(&mut world, "1", None, false), (None, false));
    assert_eq!(say(&mut world, "2", Some("Family"), false), named("Family", false));
    // Context files of agents that have the chat as a destination contain its name: they are rewritten.
    let renewed = |world: &World| {
        let renews = |effect: &&Effect| matches!(effect, Effect::Export(export) if export.messages.is_empty());
        world.effects.iter().filter(renews).count()
    };
    assert_eq!(renewed(&world), 1);
    assert_eq!(say(&mut world, "3", Some("Family"), true), named("Family", true));
    assert_eq!(say(&mut world, "4", Some("Family"), true), named("Family", true));
    assert_eq!(renewed(&world), 0);
    // An event without this information changes nothing.
    assert_eq!(say(&mut world, "5", None, false), named("Family", true));
    assert_eq!(say(&mut world, "6", Some(""), false), named("Family", true));
    assert_eq!(say(&mut world, "7", Some("The others"), false), named("The others", true));
    // A repeated event changes nothing, not even the name.
    assert_eq!(say(&mut world, "7", Some("Other"), false), named("The others", true));
}

/// A chat in which the bot is addressed first has its name from the beginning.
#[test]
fn a_discovered_chat_has_its_name() {
    let mut world = World::new();
    let mut input = inbound(&said("1", "bot?", &format!("{MENTIONED},\"isGroup\":true")));
    if let Input::Inbound(event) = &mut input {
        event.chat_name = Some("Family".to_owned());
    }
    world.put(input);
    let chat = world.read(|db, txn| db.chats.require(txn, &ChatId::new(1)));
    assert_eq!((chat.name.as_deref(), chat.group), (Some("Family"), true));
}

/// An id with a colon, or of the maximum length, is like any other; one byte more is refused at the edge.
#[test]
fn ids_of_every_kind() {
    let long = "y".repeat(1_024);
    for sender in ["a:b", "telegram:123", ":", "::x", "@a:hs.org", &long] {
        let mut toml = String::from(ONE).replace("unknown_senders = \"public\"", "unknown_senders = \"strict\"");
        write!(toml, "[[users]]\nid = \"net:{sender}\"\nmember_of = [\"main\"]\n").unwrap();
        let mut world = World::of(&toml);
        let from = |who: &str| format!("\"senderId\":\"{who}\"");
        let report = world.inject(&event_in(("net", "C", None), ("1:2", "x", &from(sender)), ""));
        assert_eq!(report.outcome, Outcome::Routed, "{sender}");
        let near = format!("{}z", &sender[..sender.len() - 1]);
        let report = world.inject(&event_in(("net", "C", None), ("2:2", "x", &from(&near)), ""));
        assert_eq!(report.reason, Some(Reason::UnknownSenderStrict), "{sender} is not {near}");
    }
    let huge = "z".repeat(2_048);
    for (json, field) in [
        (event_in(("net", "C", None), (&huge, "x", ""), ""), "message.id"),
        (event_in(("net", &huge, None), ("1", "x", ""), ""), "platformId"),
        (event_in(("net", "C", Some(&huge)), ("1", "x", ""), ""), "threadId"),
        (event_in((&huge, "C", None), ("1", "x", ""), ""), "channel"),
        (event_in(("net", "C", None), ("1", "x", &format!("\"senderId\":\"{huge}\"")), ""), "senderId"),
    ] {
        let error = event::parse(json.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(field) && error.contains("2048 bytes"), "{error}");
    }
}

/// An event without a platform id is never a duplicate, and leaves nothing to compare with.
#[test]
fn events_without_an_id_are_all_different() {
    let mut world = World::of(ONE);
    for json in [said("", "x", ""), said("", "x", ""), said("", "x", "").replace("\"id\":\"\",", "")] {
        assert_eq!(world.inject(&json).outcome, Outcome::Routed);
    }
    assert_eq!((world.all_messages().len(), world.read(|db, txn| db.seen_events.len(txn))), (3, 0));
}

/// A wiring whose agent is gone is skipped, and the others decide.
#[test]
fn a_wiring_without_its_agent_is_skipped() {
    let mut world = World::of(&chat("public", &[("a", ALWAYS), ("b", ALWAYS)]));
    let archive = |db: &hearth::state::Tables, txn: &mut hearth::state::Write<'_>| {
        let mut agent = db.agents.require(txn, &AgentId::new(1))?;
        agent.archived = Some(Timestamp::from_millis(1));
        db.agents.put(txn, &AgentId::new(1), &agent)
    };
    world.store().write(archive).unwrap();
    let report = world.inject(&said("1", "x", ""));
    assert_eq!(decisions(&report), [("b".to_owned(), Decision::Engaged, Reason::PatternMatch)]);
}

/// Content that is only text identifies no sender, whatever it says.
#[test]
fn plain_text_has_no_sender() {
    let mut world = World::of(ONE);
    for content in [r#""hello""#, r#""senderId: own""#, r#""[{\"senderId\":\"own\"}]""#] {
        world.inject(&format!(r#"{{"channelType":"net","platformId":"C","message":{{"content":{content}}}}}"#));
    }
    let bodies = world.read(|db, txn| db.bodies.iter(txn)?.collect::<Result<Vec<_>, _>>());
    assert!(bodies.len() == 3 && bodies.iter().all(|(_, body)| body.sender.is_none()), "{bodies:?}");
}

/// Content without a text counts as empty text.
#[test]
fn content_without_text_is_empty_text() {
    for (pattern, engages) in [("x", false), (".", true), ("^$", true)] {
        let mut world =
            World::of(&chat("public", &[("main", &format!("engage = \"pattern\"\npattern = \"{pattern}\""))]));
        let json = r#"{"channelType":"net","platformId":"C","message":{"id":"1","content":{"attachments":[]}}}"#;
        assert_eq!(world.inject(json).outcome == Outcome::Routed, engages, "{pattern}");
    }
}

/// Each refusal is one record with its own reason, however many wirings there are and whatever they are.
#[test]
fn one_record_per_refusal() {
    let known = &format!("{ALWAYS}\nsenders = \"known\"");
    for (policy, wirings, text, expected) in [
        ("strict", vec![("a", ALWAYS)], "x", vec![Reason::UnknownSenderStrict]),
        ("public", vec![("a", known.as_str())], "x", vec![Reason::SenderScopeNotMember]),
        ("strict", vec![("a", ALWAYS), ("b", ALWAYS)], "x", vec![Reason::UnknownSenderStrict; 2]),
        ("strict", vec![("a", MENTION), ("b", ALWAYS)], "x", vec![Reason::UnknownSenderStrict]),
        (
            "public",
            vec![("a", known.as_str()), ("b", ALWAYS)],
            "/login",
            vec![Reason::SenderScopeNotMember, Reason::CommandFiltered],
        ),
        ("public", vec![("a", MENTION), ("b", ALWAYS)], "/clear", vec![Reason::CommandDenied]),
        ("public", vec![("a", MENTION), ("b", MENTION)], "x", vec![Reason::NoAgentEngaged]),
        ("public", vec![("a", MENTION), ("b", ALWAYS)], "x", vec![]),
    ] {
        let mut world = World::of(&chat(policy, &wirings));
        let report = world.inject(&said("1", text, ""));
        assert_eq!(drops(&world), expected, "{policy} {wirings:?} {text}");
        assert_eq!(report.reason, expected.first().copied(), "{policy} {wirings:?} {text}");
        assert_eq!(world.read(|db, txn| db.bodies.len(txn)), u64::from(expected.is_empty()));
    }
}
