//! Unknown senders in a wired chat: their messages wait for a decision, then all of them are routed, or none.

use hearth::channel::event;
use hearth::model::configure::Change;
use hearth::model::content::BlobId;
use hearth::model::entity::Folder;
use hearth::model::id::ApprovalId;
use hearth::model::message::Reason;
use hearth::model::policy::Policy;
use hearth::model::report::{Outcome, Reply};
use hearth::model::{ChannelName, ForeignId, Input, Millis, Timestamp, UserId};

use super::ground::{GROUP, GROUP_CHAT, Ground, closed, sender_text};
use crate::world::{World, inbound};

const ALLOW: u32 = 0;
const DENY: u32 = 1;

fn folder(name: &str) -> Folder {
    Folder::new(name).unwrap()
}

fn user(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

/// One card for any number of messages; all of them are kept.
#[test]
fn a_strangers_messages_wait() {
    let mut ground = Ground::of(GROUP);
    let first = ground.says("stranger", "hello");
    assert_eq!((first.outcome, first.reason), (Outcome::Held, Some(Reason::SenderHeld)));
    assert_eq!(first.wirings[0].why, Reason::SenderHeld);
    let second = ground.says("stranger", "anybody there?");
    assert_eq!(second.outcome, Outcome::Held);
    assert_eq!(ground.card_places(), ["telegram/owner"]);
    let (_, card) = ground.last_card();
    assert_eq!(card.title, "👤 New sender");
    assert_eq!(card.body, sender_text(r#""telegram:stranger", named “Ann”,"#, "“Andy” (andy)", GROUP_CHAT));
    let labels: Vec<_> = card.options.iter().map(|option| (option.label.as_str(), option.value.as_str())).collect();
    assert_eq!(labels, [("Allow", "approve"), ("Deny", "reject")]);
    assert_eq!((ground.states(), ground.held().len()), (vec!["pending"], 2));
    assert_eq!((ground.count("sessions"), ground.count("dropped"), ground.count("users")), (0, 0, 1));
}

/// All of them are routed to the agent, in order, with their original times.
#[test]
fn allowed_strangers_are_heard_from_their_first_message_on() {
    let mut ground = Ground::of(GROUP);
    for (n, text) in ["one", "two", "three"].iter().enumerate() {
        let time = format!(r#""timestamp":"2026-04-20T11:0{n}:00Z""#);
        ground.says_in(("telegram", "chat-123", None), ("stranger", text), &time);
    }
    assert_eq!(ground.presses("telegram:owner", ALLOW), (true, "✅ Allowed".to_owned()));
    assert_eq!(ground.heard(), ["one", "two", "three"]);
    assert_eq!(ground.members(), ["ag1 telegram:stranger by telegram:owner"]);
    assert_eq!((ground.states(), ground.held().len()), (vec!["approved"], 0));
    assert_eq!(ground.edits(), [closed("✅ Allowed")]);
    assert_eq!(ground.world.outside.launched.len(), 1, "the agent was woken");
    let said = ground.world.read(|db, txn| Ok(db.bodies.first(txn, ..)?.unwrap().1.said));
    assert_eq!(said, Timestamp::parse("2026-04-20T11:00:00Z").unwrap());
    let name = ground.world.read(|db, txn| Ok(db.users.iter(txn)?.nth(1).unwrap()?.1.name));
    assert_eq!(name.as_deref(), Some("Ann"));
    // From now on the sender is known, and the held messages are stored like routed ones.
    assert_eq!(ground.says("stranger", "four").outcome, Outcome::Routed);
    let again = ground.world.inject(&crate::world::event_in(("telegram", "chat-123", None), ("m1", "one", ""), ""));
    assert_eq!((again.outcome, again.reason), (Outcome::Duplicate, Some(Reason::AlreadyStored)));
    assert!(again.wirings[0].message.is_some());
}

/// A rejection is not remembered; the next message asks again.
#[test]
fn a_no_leaves_nothing_but_the_record() {
    let mut ground = Ground::of(GROUP);
    ground.says("stranger", "one");
    let more = r#""attachments":[{"name":"a.png","data":"eA=="}]"#;
    let json = ground.event(("telegram", "chat-123", None), ("stranger", "two"), "");
    let json = json.replace(r#""text":"two""#, &format!(r#""text":"two",{more}"#));
    let file = BlobId::of_digest(&[7; 32]);
    let event = event::read(json.as_bytes()).unwrap().keep(|_| Ok::<_, ()>(Ok(file.clone()))).unwrap();
    ground.world.put(Input::Inbound(Box::new(event)));
    ground.world.settle();
    assert_eq!(ground.presses("telegram:owner", DENY), (true, "❌ Denied".to_owned()));
    assert_eq!(ground.world.outside.unneeded, [file], "nobody has what came with it");
    assert_eq!(ground.reasons(), [Reason::Rejected, Reason::Rejected]);
    assert_eq!((ground.states(), ground.held().len(), ground.count("bodies")), (vec!["rejected"], 0, 0));
    assert_eq!((ground.members().len(), ground.count("users")), (0, 1));
    let again = ground.world.inject(&crate::world::event_in(("telegram", "chat-123", None), ("m1", "one", ""), ""));
    assert_eq!((again.outcome, again.reason), (Outcome::Duplicate, Some(Reason::Rejected)));
    ground.says("stranger", "three");
    assert_eq!((ground.cards().len(), ground.open()), (2, 1));
}

/// Whatever retention removes, messages that wait for a decision are still there when it is made.
#[test]
fn what_waits_for_a_decision_is_kept() {
    let mut ground = Ground::of(&format!("{GROUP}\n[retention]\nbodies = \"1d\"\nattachments = \"1d\"\n"));
    ground.says("stranger", "one");
    for text in ["two", "three"] {
        ground.world.pass(Millis::days(2));
        ground.says("owner", text);
        for _ in 0..3 {
            ground.world.sweep();
            ground.world.settle();
        }
    }
    ground.presses("telegram:owner", ALLOW);
    assert!(ground.heard().contains(&"one".to_owned()), "{:?}", ground.heard());
}

#[test]
fn where_nobody_is_asked() {
    let nobody = GROUP.replace("roles = [\"owner\"]", "");
    let policy = |policy: &str| GROUP.replace("group = true", &format!("group = true\nunknown_senders = \"{policy}\""));
    for (case, toml, who, outcome, reason) in [
        ("nobody may decide", nobody, "s", Outcome::Dropped, Some(Reason::ApprovalUnavailable)),
        ("no sender id", GROUP.to_owned(), "", Outcome::Dropped, Some(Reason::UnknownUser)),
        ("a strict chat", policy("strict"), "s", Outcome::Dropped, Some(Reason::UnknownSenderStrict)),
        ("a public chat", policy("public"), "s", Outcome::Routed, None),
    ] {
        let mut ground = Ground::of(&toml);
        let report = ground.says(who, "hello");
        assert_eq!((report.outcome, report.reason), (outcome, reason), "{case}");
        assert_eq!((ground.cards().len(), ground.approvals().len(), ground.held().len()), (0, 0, 0), "{case}");
        let dropped = usize::from(outcome == Outcome::Dropped);
        assert_eq!(ground.drops().len(), dropped, "{case}: one record with the real reason");
    }
}

/// Unlike in NanoClaw, a name is always shown with the identity it belongs to.
#[test]
fn the_card_says_who_and_where() {
    let mut ground = Ground::of(&GROUP.replace("name = \"Group Chat\"\n", ""));
    ground.says("s1", "hello");
    let place = r#"the group "telegram/chat-123""#;
    let body = |who: &str| sender_text(who, "“Andy” (andy)", place);
    assert_eq!(ground.last_card().1.body, body(r#""telegram:s1", named “Ann”,"#));
    let evil = r#""senderId":"s2","senderName":"Owner\u2066” (telegram:owner) ✅ Allowed""#;
    let json = crate::world::event_in(("telegram", "chat-123", None), ("x", "hi", evil), "");
    ground.world.inject(&json);
    ground.world.settle();
    let shown = ground.last_card().1.body;
    let named = r"named “Owner\” (telegram:owner) ✅ Allowed”,";
    let hidden = r"named “Owner\u{2066}\” (telegram:owner) ✅ Allowed”,";
    // The channel removes direction marks from names; any that remained would be visible.
    let possible = [named, hidden].map(|name| body(&format!(r#""telegram:s2", {name}"#)));
    assert!(possible.contains(&shown), "{shown}");
}

#[test]
fn what_waits_is_bounded_and_what_is_beyond_is_recorded() {
    let policy = Policy { held_max: 3, approvals_per_chat: 2, ..Policy::STANDARD };
    let mut ground = Ground::in_world(World::with(policy, |_| {}), GROUP);
    for n in 0..5 {
        ground.says("s1", &format!("{n}"));
    }
    ground.says("s2", "a");
    let full = ground.says("s3", "b");
    assert_eq!((full.outcome, full.reason), (Outcome::Dropped, Some(Reason::ApprovalsFull)));
    assert_eq!(ground.reasons(), [Reason::HeldFull, Reason::HeldFull, Reason::ApprovalsFull]);
    assert_eq!((ground.open(), ground.held().len()), (2, 4));
    let id = ground.approvals()[0].0;
    ground.decides(id, "approve");
    assert_eq!(ground.heard(), ["0", "1", "2"]);
}

/// Two agents listen in the chat; the person is already a member of one of them.
const TWO: &str = r#"
[[agents]]
folder = "andy"
name = "Andy"
[[agents]]
folder = "bob"
name = "Bob"
[[agents]]
folder = "eve"
name = "Eve"
[[users]]
id = "telegram:owner"
roles = ["owner"]
[[users]]
id = "telegram:bobs"
roles = ["admin:bob"]
[[users]]
id = "telegram:half"
member_of = ["andy"]
[[chats]]
channel = "telegram"
platform_id = "chat-123"
group = true
[[chats.wirings]]
agent = "andy"
engage = "pattern"
pattern = "."
[[chats.wirings]]
agent = "bob"
engage = "pattern"
pattern = "."
[[chats.wirings]]
agent = "eve"
engage = "mention"
ignored = "accumulate"
"#;

#[test]
fn a_fan_out_waits_only_for_those_who_refused() {
    let mut ground = Ground::of(TWO);
    let report = ground.says("half", "hello");
    let why: Vec<Reason> = report.wirings.iter().map(|wiring| wiring.why).collect();
    assert_eq!(why, [Reason::PatternMatch, Reason::SenderHeld, Reason::NotMentioned]);
    assert_eq!((report.outcome, ground.heard().len()), (Outcome::Routed, 2));
    let place = r#"the group "telegram/chat-123""#;
    assert_eq!(ground.last_card().1.body, sender_text(r#""telegram:half", named “Ann”,"#, "“Bob” (bob)", place));
    assert_eq!(ground.card_places(), ["telegram/bobs"], "the agent's own administrator is asked first");
    ground.presses("telegram:bobs", ALLOW);
    let agents: Vec<String> =
        ground.world.all_messages().iter().map(|(_, message)| message.agent.to_string()).collect();
    assert_eq!(agents, ["ag1", "ag3", "ag2"]);
    assert_eq!(ground.count("bodies"), 1, "one body for all of them");
    // Rejecting the person for one agent does not affect the others.
    ground.world.configure(vec![Change::RemoveMember(folder("bob"), user("telegram:half"))]).unwrap();
    ground.says("half", "more");
    ground.presses("telegram:bobs", DENY);
    assert_eq!(ground.heard().iter().filter(|text| *text == "more").count(), 2);
    assert_eq!(ground.reasons(), [Reason::Rejected]);
}

/// An administrator of one of two agents admits people to that agent only.
#[test]
fn authority_over_one_agent_opens_that_one() {
    let mut ground = Ground::of(TWO);
    ground.says("stranger", "hello");
    assert_eq!(ground.card_places(), ["telegram/owner"], "somebody who can decide for both is asked");
    assert!(ground.presses("telegram:bobs", ALLOW).0);
    assert_eq!(ground.members()[1..], ["ag2 telegram:stranger by telegram:bobs"]);
    let dropped: Vec<_> = ground.drops().iter().map(|drop| (drop.agent.unwrap().to_string(), drop.reason)).collect();
    assert_eq!(dropped, [("ag1".to_owned(), Reason::Rejected)]);
}

/// Another agent is addressed while a card is open: one new card covers both agents, however often that happens.
#[test]
fn an_agent_that_is_addressed_later_is_asked_about_as_well() {
    let wiring =
        |agent: &str| format!("[[chats.wirings]]\nagent = \"{agent}\"\nengage = \"pattern\"\npattern = \"{agent}\"\n");
    let people = TWO.split("[[chats.wirings]]").next().unwrap();
    let mut ground = Ground::of(&format!("{people}{}{}", wiring("andy"), wiring("bob")));
    let place = r#"the group "telegram/chat-123""#;
    let body = |agents: &str| sender_text(r#""telegram:stranger", named “Ann”,"#, agents, place);
    ground.says("stranger", "bob, hello");
    assert_eq!(
        (ground.last_card().1.body, ground.card_places()),
        (body("“Bob” (bob)"), vec!["telegram/bobs".to_owned()])
    );
    let (first, card) = ground.last_card();
    ground.says("stranger", "andy and bob, hello");
    ground.says("stranger", "bob, once more");
    // An administrator of one agent does not decide about the other.
    assert_eq!(ground.card_places(), ["telegram/bobs", "telegram/owner"]);
    assert_eq!((ground.last_card().1.body, ground.states()), (body("“Bob” (bob) and “Andy” (andy)"), vec!["pending"]));
    assert_eq!(ground.edits().len(), 1, "the first card says that it was replaced");
    let old = ground.presses_on("telegram:owner", (&first, card.button(ALLOW)));
    assert_eq!(old, (false, "This card was replaced by a newer one.".to_owned()));
    assert!(ground.presses("telegram:owner", ALLOW).0);
    let members = ["ag1 telegram:stranger by telegram:owner", "ag2 telegram:stranger by telegram:owner"];
    assert_eq!(ground.members().iter().filter(|line| members.contains(&line.as_str())).count(), 2);
    assert_eq!(ground.heard(), ["bob, hello", "andy and bob, hello", "andy and bob, hello", "bob, once more"]);
}

/// One of two agents leaves the chat, or the sender becomes a member of it: what is held for the other one stays held.
#[test]
fn a_message_stays_held_for_the_agents_that_are_left() {
    let wiring = |agent: &str, text: &str| {
        format!("[[chats.wirings]]\nagent = \"{agent}\"\nengage = \"pattern\"\npattern = \"{text}\"\n")
    };
    let people = TWO.split("[[chats.wirings]]").next().unwrap();
    let both = format!("{people}{}{}", wiring("andy", "."), wiring("bob", "bob"));
    let (net, chat) = (ChannelName::new("telegram").unwrap(), ForeignId::new("chat", "chat-123").unwrap());
    let leaves = Change::RemoveWiring(net, chat, folder("bob"));
    let admits = Change::AddMember(folder("bob"), user("telegram:stranger"));
    for (change, at_once, superseded) in [(leaves, vec![], 1), (admits, vec!["bob, hello"], 0)] {
        for (decision, later, rejected) in [("approve", vec!["hello", "bob, hello"], 0), ("reject", vec![], 2)] {
            let mut ground = Ground::of(&both);
            ground.says("stranger", "hello");
            ground.says("stranger", "bob, hello");
            ground.world.configure(vec![change.clone()]).unwrap();
            ground.world.settle();
            ground.world.assert_sound();
            assert_eq!((ground.states(), ground.held().len()), (vec!["pending"], 2), "{decision}");
            assert_eq!(ground.heard(), at_once, "{decision}");
            ground.decides(ApprovalId::new(1), decision);
            assert_eq!(ground.heard(), [at_once.clone(), later].concat(), "{decision}");
            let dropped: Vec<_> =
                ground.drops().iter().map(|drop| (drop.agent.unwrap().to_string(), drop.reason)).collect();
            let mut expected = vec![("ag2".to_owned(), Reason::Superseded); superseded];
            expected.extend(vec![("ag1".to_owned(), Reason::Rejected); rejected]);
            assert_eq!(dropped, expected, "{decision}");
        }
    }
}

/// More cards than one sweep examines, all old enough to be removed.
#[test]
fn decisions_lapse_after_a_long_time_without_a_daemon() {
    let mut ground = Ground::of(&format!("[retention]\nbodies = \"1d\"\n{GROUP}"));
    for stranger in 0..18 {
        ground.says(&format!("s{stranger}"), "hello");
    }
    ground.world.pass(Millis::minutes(60 * 24 * 60));
    for _ in 0..4 {
        ground.world.sweep();
        ground.world.settle();
    }
    assert_eq!((ground.open(), ground.held().len(), ground.count("asked")), (0, 0, 0));
    let expired = ground.reasons().iter().filter(|reason| **reason == Reason::ApprovalExpired).count();
    assert_eq!(expired, 18);
}

#[test]
fn a_decision_lapses() {
    let mut ground = Ground::of(GROUP);
    ground.says("stranger", "one");
    ground.world.pass(Millis::minutes(7 * 24 * 60));
    let late = ground.presses("telegram:owner", ALLOW);
    assert_eq!(late, (false, "It is too late: no one answered in time.".to_owned()));
    let id = ground.approvals()[0].0;
    assert!(matches!(ground.decides(id, "approve").reply, Reply::Refused(_)), "for the operator as well");
    assert_eq!(ground.open(), 1, "a late answer changes nothing");
    ground.world.sweep();
    ground.world.settle();
    assert_eq!((ground.states(), ground.reasons()), (vec!["expired"], vec![Reason::ApprovalExpired]));
    assert_eq!(ground.edits(), [closed("⌛ Expired: no one answered in time")]);
    assert_eq!((ground.held().len(), ground.count("bodies"), ground.count("asked")), (0, 0, 0));
    ground.says("stranger", "two");
    assert_eq!(ground.open(), 1);
}

/// The subject of the approval is removed while it is open.
#[test]
fn what_is_gone_is_not_decided_any_more() {
    let net = || ChannelName::new("telegram").unwrap();
    let chat = || ForeignId::new("chat", "chat-123").unwrap();
    for (case, change) in [
        ("the agent", Change::RemoveAgent(folder("andy"))),
        ("the chat", Change::RemoveChat(net(), chat())),
        ("the wiring", Change::RemoveWiring(net(), chat(), folder("andy"))),
    ] {
        let mut ground = Ground::of(GROUP);
        ground.says("stranger", "one");
        ground.world.configure(vec![change]).unwrap();
        ground.world.settle();
        assert_eq!(ground.states(), ["superseded"], "{case}");
        assert_eq!(ground.reasons(), [Reason::Superseded], "{case}");
        assert_eq!((ground.members().len(), ground.held().len(), ground.count("bodies")), (0, 0, 0), "{case}");
        assert!(ground.edits()[0].contains("No longer needed"), "{case}");
        assert_eq!(ground.presses("telegram:owner", ALLOW), (false, "This was decided already.".to_owned()), "{case}");
        assert_eq!(ground.members().len(), 0, "{case}");
    }
}

/// A command admits them: the held messages are routed at once. A chat that became strict changes nothing.
#[test]
fn what_was_configured_answers_the_question() {
    let put = |policy: &str| {
        let toml = GROUP.replace("group = true", &format!("group = true\nunknown_senders = \"{policy}\""));
        Input::Configure(crate::world::configuration(&toml))
    };
    let configure = |change| {
        let origin = hearth::model::entity::Origin::Runtime;
        Input::Configure(hearth::model::configure::Configure::new(vec![change], origin))
    };
    let stranger = || user("telegram:stranger");
    for (case, input, state, heard) in [
        ("a member", configure(Change::AddMember(folder("andy"), stranger())), "superseded", 2),
        ("an owner", configure(Change::Grant(stranger(), hearth::model::configure::RoleSpec::Owner)), "superseded", 2),
        ("a public chat", put("public"), "superseded", 2),
        ("a strict chat", put("strict"), "pending", 0),
        ("the same chat", put("request_approval"), "pending", 0),
    ] {
        let mut ground = Ground::of(GROUP);
        ground.says("stranger", "one");
        ground.says("stranger", "two");
        ground.world.put(input);
        ground.world.settle();
        ground.world.assert_sound();
        assert_eq!((ground.states(), ground.heard().len()), (vec![state], heard), "{case}");
        assert_eq!(ground.drops().len(), 0, "{case}");
        if state == "pending" {
            ground.presses("telegram:owner", ALLOW);
            assert_eq!(ground.heard(), ["one", "two"], "{case}");
        }
    }
}

/// The agent's backlog is full when the decision is made: messages that do not fit are recorded as dropped.
#[test]
fn a_replay_keeps_the_rules_of_routing() {
    let policy = Policy { backlog_max: 2, ..Policy::STANDARD };
    let mut ground = Ground::in_world(World::with(policy, |_| {}), GROUP);
    for n in 0..4 {
        ground.says("stranger", &format!("{n}"));
    }
    ground.presses("telegram:owner", ALLOW);
    assert_eq!(ground.heard(), ["0", "1"]);
    assert_eq!(ground.reasons(), [Reason::Backlog, Reason::Backlog]);
}

/// A message without a platform id waits like any other; sent twice it counts as two.
#[test]
fn messages_without_an_id_wait_as_well() {
    let mut ground = Ground::of(GROUP);
    let json = crate::world::event_in(("telegram", "chat-123", None), ("", "hi", "\"senderId\":\"s\""), "");
    for _ in 0..2 {
        assert!(matches!(ground.world.put(inbound(&json)), Reply::Routed(report) if report.outcome == Outcome::Held));
    }
    ground.world.settle();
    ground.presses("telegram:owner", DENY);
    assert_eq!((ground.count("bodies"), ground.reasons().len()), (0, 2));
}

/// A card is edited when its question ends, so it stays as long as that, and then goes with other texts.
#[test]
fn an_open_card_outlives_the_retention_of_texts() {
    let policy = Policy { approval_lifetime: Millis::days(60), ..Policy::STANDARD };
    let mut ground = Ground::in_world(World::with(policy, |_| {}), &format!("[retention]\nbodies = \"1d\"\n{GROUP}"));
    ground.says("stranger", "hello");
    let days = |ground: &mut Ground, days: u32| {
        ground.world.pass(Millis::days(days));
        for _ in 0..40 {
            ground.world.sweep();
            ground.world.settle();
        }
        ground.world.assert_sound();
    };
    days(&mut ground, 50);
    assert_eq!((ground.open(), ground.edits().len()), (1, 0));
    ground.decides(ApprovalId::new(1), "approve");
    assert_eq!(ground.edits().len(), 1);
    days(&mut ground, 40);
    assert_eq!(ground.count("outbound"), 0);
}
