//! Which agents receive an event, which refuse it, and why: tables over the whole engine.

use hearth::engine::pattern;
use hearth::model::Timestamp;
use hearth::model::entity::UnknownSenders;
use hearth::model::id::{ChatId, SessionId};
use hearth::model::message::{MessageState, Reason};
use hearth::model::policy::Policy;
use hearth::model::report::{Decision, Outcome, RouteReport};

use crate::world::outside::claim;
use crate::world::routing::drops;
use crate::world::routing::{ALWAYS, KEEP, MENTION, MENTIONED, chat, decisions, launches, session_of};
use crate::world::{ONE, World, event, event_in, inbound};

#[test]
fn the_first_message_of_a_chat() {
    let mut world = World::of(ONE);
    world.begin_script();
    world.inject(&event("1", "Hello agent!", ""));
    world.check("routing_first");
}

/// Four agents always listen, three keep other messages as context, three ignore them: one body, one session each, no
/// recorded drop, because the message was received.
#[test]
fn ten_agents_hear_one_message() {
    let names: Vec<String> = (1..=10).map(|n| format!("a{n:02}")).collect();
    let wirings: Vec<(&str, &str)> = names
        .iter()
        .enumerate()
        .map(|(n, name)| {
            let wiring = match n {
                0..=3 => ALWAYS,
                4..=6 => KEEP,
                _ => "engage = \"pattern\"\npattern = \"^deploy\"",
            };
            (name.as_str(), wiring)
        })
        .collect();
    let mut world = World::of(&chat("public", &wirings));
    world.begin_script();
    let report = world.inject(&event("1", "hello everybody", ""));
    assert_eq!(report.outcome, Outcome::Routed);
    assert_eq!(launches(&world), 4);
    world.check("routing_fan_out");
}

/// Unknown senders in chats that the bot merely sits in leave no rows: not in an unknown chat, not in one without a
/// wired agent, not as people. A sender who addresses the bot in an unknown chat leaves the chat and one record.
#[test]
fn strangers() {
    let mut world = World::of("[[chats]]\nchannel = \"net\"\nplatform_id = \"C\"");
    let before = world.text();
    world.begin_script();
    let unknown = world.inject(&event_in(("net", "D", None), ("1", "hello", "\"senderId\":\"eve\""), ""));
    let unwired = world.inject(&event("2", "hello", ""));
    assert_eq!((unknown.reason, unwired.reason), (Some(Reason::UnknownChat), Some(Reason::NoAgentWired)));
    assert_eq!(world.text(), before);
    world.inject(&event_in(("net", "D", None), ("3", "bot?", "\"senderId\":\"eve\""), MENTIONED));
    world.check("routing_strangers");
}

/// Chats: unknown, unwired, denied, discovered.
#[test]
fn chats_nobody_listens_in() {
    for (group, expected) in [("", false), (",\"isGroup\":true", true), (",\"isGroup\":1", false)] {
        let mut world = World::new();
        let plain = world.inject(&event("1", "hello", ""));
        assert_eq!((plain.outcome, plain.reason, plain.chat), (Outcome::Dropped, Some(Reason::UnknownChat), None));
        let report = world.inject(&event("2", "hello", &format!("{MENTIONED}{group}")));
        assert_eq!((report.reason, report.chat), (Some(Reason::NoAgentWired), Some(ChatId::new(1))));
        let chat = world.read(|db, txn| db.chats.require(txn, &ChatId::new(1)));
        assert_eq!((chat.group, chat.unknown_senders), (expected, UnknownSenders::RequestApproval), "{group}");
        assert_eq!(drops(&world), [Reason::NoAgentWired]);
    }
}

#[test]
fn a_denied_chat_is_silent_until_somebody_listens_there() {
    let mut world = World::of("[[chats]]\nchannel = \"net\"\nplatform_id = \"C\"\nunknown_senders = \"public\"");
    let store = world.store();
    let deny = |db: &hearth::state::Tables, txn: &mut hearth::state::Write<'_>| {
        let id = ChatId::new(1);
        let mut chat = db.chats.require(txn, &id)?;
        chat.denied = Some(Timestamp::from_millis(1));
        db.chats.put(txn, &id, &chat)
    };
    store.write(deny).unwrap();
    let before = world.text();
    let report = world.inject(&event("1", "bot?", MENTIONED));
    assert_eq!((report.outcome, report.reason), (Outcome::Dropped, Some(Reason::ChatDenied)));
    assert_eq!(world.text(), before);
    world.apply(ONE);
    assert_eq!(world.inject(&event("2", "bot?", MENTIONED)).outcome, Outcome::Routed);
}

const PEOPLE: &str = r#"
[[agents]]
folder = "another"
[[users]]
id = "net:mem"
member_of = ["main"]
[[users]]
id = "net:own"
roles = ["owner"]
[[users]]
id = "net:adm"
roles = ["admin"]
[[users]]
id = "net:mine"
roles = ["admin:main"]
[[users]]
id = "net:other"
roles = ["admin:another"]
member_of = ["another"]
[[users]]
id = "net:row"
"#;

const KEEP_KNOWN: &str = "engage = \"mention\"\nignored = \"accumulate\"\ncontext_from = \"known\"";
const KEEP_ANYONE: &str = "engage = \"mention\"\nignored = \"accumulate\"\ncontext_from = \"anyone\"";
const KNOWN: &str = "engage = \"pattern\"\npattern = \".\"\nsenders = \"known\"";
const KNOWN_KEEP: &str = "engage = \"pattern\"\npattern = \".\"\nsenders = \"known\"\nignored = \"accumulate\"";
const ALWAYS_KEEP: &str = "engage = \"pattern\"\npattern = \".\"\nignored = \"accumulate\"";

/// (the chat's policy for unknown senders, wiring, sender, fields of the message) -> (decision, reason)
const DECISIONS: &[(&str, &str, &str, &str, Decision, Reason)] = &[
    ("public", ALWAYS, "eve", "", Decision::Engaged, Reason::PatternMatch),
    ("public", KEEP, "eve", "", Decision::Accumulated, Reason::NotMentioned),
    ("public", MENTION, "eve", "", Decision::Ignored, Reason::NotMentioned),
    ("public", MENTION, "eve", MENTIONED, Decision::Engaged, Reason::Mentioned),
    ("public", MENTION, "eve", "\"isMention\":\"true\"", Decision::Ignored, Reason::NotMentioned),
    // A refusal is one record with its real reason, and is never kept as context.
    ("strict", ALWAYS_KEEP, "eve", "", Decision::Refused, Reason::UnknownSenderStrict),
    ("strict", ALWAYS, "", "", Decision::Refused, Reason::UnknownUser),
    // Messages of people who may not talk to the agent do not become context of a strict chat, unless the wiring says
    // so.
    ("strict", KEEP, "eve", "", Decision::Refused, Reason::UnknownSenderStrict),
    ("strict", KEEP, "", "", Decision::Refused, Reason::UnknownUser),
    ("strict", KEEP, "mem", "", Decision::Accumulated, Reason::NotMentioned),
    ("strict", KEEP_ANYONE, "eve", "", Decision::Accumulated, Reason::NotMentioned),
    ("strict", KEEP_KNOWN, "eve", "", Decision::Refused, Reason::UnknownSenderStrict),
    ("request_approval", KEEP, "eve", "", Decision::Accumulated, Reason::NotMentioned),
    ("request_approval", KEEP_KNOWN, "eve", "", Decision::Ignored, Reason::NotMentioned),
    ("request_approval", KEEP_KNOWN, "mem", "", Decision::Accumulated, Reason::NotMentioned),
    ("public", KEEP_KNOWN, "eve", "", Decision::Ignored, Reason::NotMentioned),
    ("public", KEEP_KNOWN, "", "", Decision::Ignored, Reason::NotMentioned),
    ("strict", MENTION, "eve", "", Decision::Ignored, Reason::NotMentioned),
    ("strict", ALWAYS, "mem", "", Decision::Engaged, Reason::PatternMatch),
    ("strict", ALWAYS, "own", "", Decision::Engaged, Reason::PatternMatch),
    ("strict", ALWAYS, "adm", "", Decision::Engaged, Reason::PatternMatch),
    ("strict", ALWAYS, "mine", "", Decision::Engaged, Reason::PatternMatch),
    ("strict", ALWAYS, "other", "", Decision::Refused, Reason::UnknownSenderStrict),
    ("strict", ALWAYS, "row", "", Decision::Refused, Reason::UnknownSenderStrict),
    ("request_approval", ALWAYS, "eve", "", Decision::Refused, Reason::ApprovalUnavailable),
    ("request_approval", ALWAYS, "", "", Decision::Refused, Reason::UnknownUser),
    ("request_approval", ALWAYS, "mem", "", Decision::Engaged, Reason::PatternMatch),
    ("public", KNOWN, "eve", "", Decision::Refused, Reason::SenderScopeNotMember),
    ("public", KNOWN_KEEP, "", "", Decision::Refused, Reason::UnknownUserScope),
    ("public", KNOWN, "mem", "", Decision::Engaged, Reason::PatternMatch),
];

#[test]
fn one_wiring_decides() {
    for &(policy, wiring, sender, more, decision, why) in DECISIONS {
        let case = format!("{policy} {wiring:?} {sender:?} {more:?}");
        let mut world = World::of(&format!("{PEOPLE}{}", chat(policy, &[("main", wiring)])));
        let users = world.read(|db, txn| db.users.len(txn));
        // A display name equal to the owner's id does not make the sender the owner.
        let sender = format!("\"senderId\":{sender:?},\"sender\":\"net:own\"");
        let report = world.inject(&event_in(("net", "C", None), ("1", "hello", &sender), more));
        assert_eq!(decisions(&report), [("main".to_owned(), decision, why)], "{case}");
        let (triggers, dropped) = match decision {
            Decision::Engaged => (vec![true], vec![]),
            Decision::Accumulated => (vec![false], vec![]),
            Decision::Refused => (vec![], vec![why]),
            _ => (vec![], vec![Reason::NoAgentEngaged]),
        };
        assert_eq!(report.outcome == Outcome::Routed, dropped.is_empty(), "{case}");
        assert_eq!(drops(&world), dropped, "{case}");
        let stored: Vec<bool> = world.all_messages().iter().map(|(_, message)| message.trigger).collect();
        assert_eq!(stored, triggers, "{case}");
        assert_eq!(world.read(|db, txn| db.bodies.len(txn)), u64::from(dropped.is_empty()), "{case}");
        assert_eq!(launches(&world), usize::from(decision == Decision::Engaged), "{case}");
        assert_eq!(world.read(|db, txn| db.users.len(txn)), users, "{case}: nobody becomes known by talking");
    }
}

/// The agent is told for each person whether it knows them, by their standing at that time.
#[test]
fn what_strangers_said_is_marked_for_the_agent() {
    let mut world = World::of(&format!("{PEOPLE}{}", chat("public", &[("main", KEEP)])));
    for (id, sender, more) in [("1", "eve", ""), ("2", "mem", ""), ("3", "", ""), ("4", "own", MENTIONED)] {
        let sender = format!("\"senderId\":{sender:?}");
        world.inject(&event_in(("net", "C", None), (id, "hello", &sender), more));
    }
    world.settle();
    let told: Vec<bool> =
        world.outside.inbox.values().flat_map(|inbox| inbox.values()).map(|one| one.unknown_sender).collect();
    assert_eq!(told, [true, false, true, false]);
}

/// NanoClaw counts a refusal once per wiring and once more for the event, with the last reason.
#[test]
fn every_refusal_is_one_record() {
    let mut world = World::of(&chat("strict", &[("a", ALWAYS), ("b", ALWAYS), ("c", MENTION)]));
    let report = world.inject(&event("1", "hello", ""));
    assert_eq!(report.reason, Some(Reason::UnknownSenderStrict));
    assert_eq!(drops(&world), [Reason::UnknownSenderStrict, Reason::UnknownSenderStrict]);
    let agents: Vec<Option<u64>> = world
        .read(|db, txn| db.dropped_events.iter(txn)?.map(|row| Ok(row?.1.agent.map(|agent| agent.number()))).collect());
    assert_eq!(agents, [Some(1), Some(2)]);
}

#[test]
fn what_all_decline_is_recorded_with_its_sender() {
    let mut world = World::of(&chat("public", &[("a", MENTION), ("b", MENTION)]));
    world.inject(&event("1", "hello", ""));
    let rows = world.read(|db, txn| db.dropped_events.iter(txn)?.collect::<Result<Vec<_>, _>>());
    let [(_, drop)] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((drop.reason, drop.agent, drop.chat), (Reason::NoAgentEngaged, None, Some(ChatId::new(1))));
    assert_eq!(drop.sender.as_ref().map(ToString::to_string), Some("net:ann".to_owned()));
    assert_eq!(drop.sender_name.as_deref(), Some("Ann"));
}

/// Patterns that do not compile, which NanoClaw accepts by accident, are refused when they are saved.
#[test]
fn patterns() {
    for (pattern, text, engages) in [
        (".", "", true),
        (r"^@Andy\\b", "@Andy hi", true),
        (r"^@Andy\\b", "hey @Andy", false),
        (r"^@Andy\\b", "@andy hi", false),
        ("deploy", "please deploy now", true),
        ("", "anything", true),
        (r"\\d{3}", "abc", false),
        ("x", "", false),
        ("^$", "", true),
    ] {
        let wiring = format!("engage = \"pattern\"\npattern = \"{pattern}\"");
        let mut world = World::of(&chat("public", &[("main", &wiring)]));
        let report = world.inject(&event("1", text, ""));
        let expected = if engages { Decision::Engaged } else { Decision::Ignored };
        assert_eq!(report.wirings[0].decision, expected, "{pattern} on {text:?}");
    }
    assert!(pattern::check("[").is_err());
    let mut world = World::new();
    let before = world.text();
    let broken = chat("public", &[("main", "engage = \"pattern\"\npattern = \"[\"")]);
    let changes = crate::world::configuration(&broken).changes;
    let refusal = world.configure(changes).unwrap_err();
    assert!(refusal.message.contains("main") && refusal.message.contains("not closed"), "{}", refusal.message);
    assert_eq!(world.text(), before);
}

/// Content that is not an object, or has no text.
#[test]
fn payloads_without_text() {
    let says = |content: &str| format!(r#"{{"channelType":"net","platformId":"C","message":{{"content":{content}}}}}"#);
    let wiring = "engage = \"pattern\"\npattern = \"hello\"";
    let mut world = World::of(&chat("public", &[("main", wiring)]));
    assert_eq!(world.inject(&says("\"say hello\"")).outcome, Outcome::Routed);
    assert_eq!(world.inject(&says("{\"attachments\":[]}")).outcome, Outcome::Dropped);
    assert_eq!(world.inject(&says("{\"text\":7}")).outcome, Outcome::Dropped);
}

/// Identity comes from the adapter's sender id alone, always in the channel's own namespace: where NanoClaw takes
/// `telegram:123` and `@a:hs.org` as complete ids and `sender` as an identity, Hearth does not.
#[test]
fn sender_ids() {
    for (channel, content, id, name) in [
        ("telegram", r#""senderId":"123","senderName":"Ann""#, Some("telegram:123"), Some("Ann")),
        ("telegram", r#""senderId":"telegram:123""#, Some("telegram:telegram:123"), None),
        ("discord", r#""author":{"userId":"9","fullName":"Bo"}"#, Some("discord:9"), Some("Bo")),
        ("discord", r#""author":{"userId":"9","userName":"bo"}"#, Some("discord:9"), Some("bo")),
        ("mock", r#""sender":"TestUser""#, None, Some("TestUser")),
        ("matrix", r#""senderId":"@a:hs.org""#, Some("matrix:@a:hs.org"), None),
        ("net", "", None, None),
        ("net", r#""senderId":5"#, None, None),
        ("net", r#""senderId":"""#, None, None),
    ] {
        let toml = ONE.replace("\"net\"", &format!("{channel:?}"));
        let mut world = World::of(&toml);
        world.inject(&event_in((channel, "C", None), ("1", "x", content), ""));
        let body = world.read(|db, txn| Ok(db.bodies.first(txn, ..)?.unwrap().1));
        assert_eq!(body.sender.map(|user| user.to_string()).as_deref(), id, "{channel} {content}");
        assert_eq!(body.content.sender_name.as_deref(), name, "{channel} {content}");
    }
}

#[test]
fn sessions_by_mode() {
    // (mode, [(chat, thread) of each message], which session each goes to)
    for (mode, places, sessions) in [
        ("shared", vec![("C", None), ("C", Some("t1")), ("C", Some("t2"))], [1, 1, 1]),
        ("per-thread", vec![("C", Some("t1")), ("C", Some("t2")), ("C", Some("t1"))], [1, 2, 1]),
        ("per-thread", vec![("C", None), ("C", Some("t1")), ("C", None)], [1, 2, 1]),
        ("agent-shared", vec![("C", Some("t1")), ("D", None), ("C", None)], [1, 1, 1]),
        ("shared", vec![("C", None), ("D", None), ("C", None)], [1, 2, 1]),
    ] {
        let wiring = format!("{ALWAYS}\nsession = \"{mode}\"");
        let c = chat("public", &[("main", &wiring)]);
        let d = chat("public", &[("main", &wiring)]).replace("\"C\"", "\"D\"");
        let d = d.split_once("[[chats]]").map(|(_, rest)| format!("[[chats]]{rest}")).unwrap();
        let mut world = World::of(&format!("{c}{d}"));
        for (n, ((chat, thread), session)) in places.iter().zip(sessions).enumerate() {
            let report = world.inject(&event_in(("net", chat, *thread), (&n.to_string(), "x", ""), ""));
            assert_eq!(session_of(&report), SessionId::new(session), "{mode} {places:?} at {n}");
            let message = world.message(report.wirings[0].message.unwrap());
            let reply = message.reply.unwrap();
            assert_eq!(reply.thread.map(|t| t.to_string()).as_deref(), *thread, "answers go where it was said");
            assert_eq!(reply.platform_id.as_str(), *chat);
        }
    }
}

/// A conversation about a whole chat is answered in the chat, not in the thread in which it happened to begin. For an
/// agent with one session NanoClaw has no address at all; Hearth uses the chat in which it began.
#[test]
fn the_default_address_of_a_session() {
    for (mode, thread) in [("shared", None), ("per-thread", Some("t1")), ("agent-shared", None)] {
        let mut world = World::of(&chat("public", &[("main", &format!("{ALWAYS}\nsession = \"{mode}\""))]));
        world.inject(&event_in(("net", "C", Some("t1")), ("1", "x", ""), ""));
        let reply = world.session(SessionId::new(1)).reply.unwrap();
        assert_eq!(reply.thread.map(|t| t.to_string()).as_deref(), thread, "{mode}");
    }
}

#[test]
fn an_operator_may_redirect_the_answer() {
    let mut world = World::of(ONE);
    let json = r#"{"channelType":"net","platformId":"C","threadId":"t","message":{"id":"1","content":{"text":"x"}},
        "replyTo":{"channelType":"cli","platformId":"local"}}"#;
    let report = world.inject(json);
    let reply = world.message(report.wirings[0].message.unwrap()).reply.unwrap();
    assert_eq!((reply.channel.as_str(), reply.platform_id.as_str(), reply.thread), ("cli", "local", None));
    let session = world.session(session_of(&report)).reply.unwrap();
    assert_eq!(session.channel.as_str(), "net");
}

#[test]
fn higher_priority_is_asked_first() {
    let wirings = [("low", "priority = -1"), ("high", "priority = 7"), ("mid", ""), ("mid2", "priority = 0")]
        .map(|(name, more)| (name, format!("{ALWAYS}\n{more}")));
    let wirings: Vec<(&str, &str)> = wirings.iter().map(|(name, wiring)| (*name, wiring.as_str())).collect();
    let mut world = World::of(&chat("public", &wirings));
    let report = world.inject(&event("1", "x", ""));
    let order: Vec<String> = report.wirings.iter().map(|wiring| wiring.agent.to_string()).collect();
    assert_eq!(order, ["high", "mid", "mid2", "low"]);
}

/// A repeated event is one message; an empty id is never a duplicate; the chat is part of the id.
#[test]
fn duplicates() {
    let mut world = World::of(&chat("public", &[("a", ALWAYS), ("b", KEEP)]));
    let first = world.inject(&event("1", "x", ""));
    let before = world.text();
    let again = world.inject(&event("1", "x", ""));
    assert_eq!((again.outcome, again.reason), (Outcome::Duplicate, Some(Reason::AlreadyStored)));
    let stored = |report: &RouteReport| report.wirings.iter().map(|wiring| wiring.message).collect::<Vec<_>>();
    assert_eq!(stored(&again), stored(&first));
    assert_eq!(world.text(), before);
    for (id, channel) in [("", "net"), ("", "net")] {
        assert_eq!(world.inject(&event_in((channel, "C", None), (id, "x", ""), "")).outcome, Outcome::Routed);
    }
    assert_eq!(world.all_messages().len(), 6);
}

#[test]
fn a_refused_event_stays_refused_when_it_comes_again() {
    let mut world = World::of(&chat("strict", &[("a", ALWAYS)]));
    world.inject(&event("1", "x", ""));
    let before = world.text();
    let again = world.inject(&event("1", "x", ""));
    assert_eq!((again.outcome, again.reason), (Outcome::Duplicate, Some(Reason::UnknownSenderStrict)));
    assert_eq!(world.text(), before);
}

/// A platform sends a message again, now with the mention it omitted before: the stored context becomes a trigger.
#[test]
fn a_duplicate_raises_context() {
    let mut world = World::of(&chat("public", &[("a", KEEP)]));
    let first = world.inject(&event("1", "bot, help", ""));
    assert_eq!(launches(&world), 0);
    let again = world.inject(&event("1", "bot, help", MENTIONED));
    assert_eq!(decisions(&again), [("a".to_owned(), Decision::Engaged, Reason::RaisedToTrigger)]);
    assert!(world.message(first.wirings[0].message.unwrap()).trigger);
    assert_eq!((world.all_messages().len(), launches(&world)), (1, 1));
    let third = world.inject(&event("1", "bot, help", MENTIONED));
    assert_eq!(third.wirings[0].why, Reason::AlreadyStored);
    assert_eq!(world.journal(), ["Raised"]);
}

/// A message that the agent already processes as context does not become a trigger.
#[test]
fn a_claimed_context_message_is_not_raised() {
    let mut world = World::of(&chat("public", &[("a", KEEP)]));
    world.inject(&event("1", "one", ""));
    let trigger = world.inject(&event("2", "two", MENTIONED));
    world.settle();
    let session = session_of(&trigger);
    let claims = world.outside.write(session, vec![claim(2, 1), claim(4, 1)]);
    world.put(claims);
    let again = world.inject(&event("1", "one", MENTIONED));
    assert_eq!(decisions(&again), [("a".to_owned(), Decision::Accumulated, Reason::AlreadyStored)]);
}

/// Waiting messages of an agent are limited; context is not. Refusals are recorded, and reported once.
#[test]
fn a_full_backlog() {
    let policy = Policy { backlog_max: 3, ..Policy::STANDARD };
    let mut world = World::with(policy, |_| {});
    world.apply(&chat("public", &[("a", MENTION), ("b", KEEP)]));
    for n in 0..3 {
        assert_eq!(world.inject(&event(&n.to_string(), "x", MENTIONED)).wirings[0].decision, Decision::Engaged);
    }
    for n in 3..6 {
        let report = world.inject(&event(&n.to_string(), "x", MENTIONED));
        assert_eq!(decisions(&report)[0], ("a".to_owned(), Decision::Refused, Reason::Backlog));
    }
    assert_eq!(drops(&world).len(), 6);
    for n in 6..9 {
        let report = world.inject(&event(&n.to_string(), "x", ""));
        assert_eq!(decisions(&report)[1], ("b".to_owned(), Decision::Accumulated, Reason::NotMentioned));
    }
    let told: Vec<String> = world.all_outbound().into_iter().map(|(_, outbound)| outbound.text).collect();
    assert_eq!(told.len(), 2, "once per agent: {told:?}");
    // One turn ends, one more message is accepted.
    world.settle();
    let done = world.outside.write(SessionId::new(1), vec![claim(2, 1), crate::world::outside::end(2, 1, vec![])]);
    world.put(done);
    assert_eq!(world.inject(&event("9", "x", MENTIONED)).wirings[0].decision, Decision::Engaged);
}

/// People configured by an operator get their current names (NanoClaw keeps the first one for ever); unknown senders
/// get no row.
#[test]
fn names_of_known_people_are_refreshed() {
    let mut world = World::of(&format!("[[users]]\nid = \"net:ann\"\nname = \"Old\"\n{ONE}"));
    world.inject(&event("1", "x", ""));
    let names: Vec<Option<String>> =
        world.read(|db, txn| db.users.iter(txn)?.map(|row| row.map(|(_, user)| user.name)).collect());
    assert_eq!(names, [Some("Ann".to_owned())]);
}

/// A dry run says what would happen and leaves the store as it is.
#[test]
fn a_dry_run_changes_nothing() {
    let world = World::of(ONE);
    let before = world.text();
    let applied = world.dry_run(inbound(&event("1", "x", "")));
    let hearth::model::report::Reply::Routed(report) = applied.reply else { panic!() };
    assert_eq!(report.outcome, Outcome::Routed);
    assert!(applied.effects.is_empty());
    assert_eq!(world.text(), before);
    assert!(matches!(world.all_messages().as_slice(), []));
}

/// Threads, chats and ids of the maximum length, and one byte more.
#[test]
fn long_ids_are_ids() {
    let long = "x".repeat(1_024);
    let toml = ONE.replace("\"C\"", &format!("{long:?}")).replace("engage", "session = \"per-thread\"\nengage");
    let mut world = World::of(&toml);
    let place = ("net", long.as_str(), Some(long.as_str()));
    let first = world.inject(&event_in(place, (&long, "x", &format!("\"senderId\":{long:?}")), ""));
    let again = world.inject(&event_in(place, (&long, "x", ""), ""));
    assert_eq!((first.outcome, again.outcome), (Outcome::Routed, Outcome::Duplicate));
    let other = format!("{}y", "x".repeat(1_023));
    let second = world.inject(&event_in(("net", &long, Some(&other)), (&other, "x", ""), ""));
    assert_ne!(session_of(&first), session_of(&second));
    assert!(matches!(world.state_of(second.wirings[0].message.unwrap()), MessageState::Pending(_)));
}
