//! Messages between agents: who receives them, who may not send them, and where loops stop.

use hearth::model::address::{Address, ChannelName, ForeignId, UserId};
use hearth::model::configure::{Change, DestinationSpec};
use hearth::model::content::{Attachment, BlobId};
use hearth::model::delivery::OutState;
use hearth::model::entity::Folder;
use hearth::model::id::{AgentId, DropId, SessionId};
use hearth::model::mailbox::{KeptFile, Recipient, Said};
use hearth::model::message::{Drop, Hop, Message, MessageState, Reason};
use hearth::model::policy::Policy;
use hearth::model::session::{Session, SessionStatus};
use hearth::model::{Millis, RawJson};
use hearth::state::SessionKey;

use crate::world::outside::{claim, end, failed, mid_turn, said};
use crate::world::{World, event_in};

const S1: SessionId = SessionId::new(1);
const S2: SessionId = SessionId::new(2);
const SB: SessionId = SessionId::new(3);
const SC: SessionId = SessionId::new(4);

/// Agents `a` (two chats), `b` and `c` (one each), and `d`, which has received no message. All but `d` may write to
/// `b`, and `b` to `a`. Each session has one message of a person, which its incarnation claimed.
fn world() -> World {
    world_of(Policy::STANDARD)
}

fn world_of(policy: Policy) -> World {
    let mut toml = String::new();
    for folder in ["a", "b", "c", "d"] {
        toml.push_str(&format!("[[agents]]\nfolder = \"{folder}\"\n"));
    }
    for (chat, agent) in [("A1", "a"), ("A2", "a"), ("B", "b"), ("C", "c")] {
        toml.push_str(&format!(
            "[[chats]]\nchannel = \"net\"\nplatform_id = \"{chat}\"\nunknown_senders = \"public\"\n\
             [[chats.wirings]]\nagent = \"{agent}\"\nengage = \"pattern\"\npattern = \".\"\n"
        ));
    }
    let mut world = World::with(policy, |_| {});
    world.apply(&toml);
    let agent = |folder: &str| Folder::new(folder).unwrap();
    let peers = [("a", "b"), ("b", "a"), ("c", "b"), ("a", "d")];
    let add = |(from, to): &(&str, &str)| {
        Change::AddDestination(agent(from), (*to).to_owned(), DestinationSpec::Agent(agent(to)))
    };
    world.configure(peers.iter().map(add).collect()).unwrap();
    for (place, chat) in ["A1", "A2", "B", "C"].into_iter().enumerate() {
        world.inject(&event_in(("net", chat, None), (&place.to_string(), "hello", ""), ""));
        world.settle();
        let session = SessionId::new(place as u64 + 1);
        let input = world.outside.write(session, vec![claim(2, 1)]);
        world.put(input);
        let input = world.outside.write(session, vec![end(2, 1, vec![])]);
        world.put(input);
        world.settle();
    }
    world
}

fn to(name: &str) -> Recipient {
    Recipient::Destination(name.to_owned())
}

/// An agent by its folder.
fn at(folder: &str) -> Recipient {
    Recipient::Address(Address {
        channel: ChannelName::new("agent").unwrap(),
        platform_id: ForeignId::new("agent", folder).unwrap(),
        thread: None,
    })
}

/// Sends a message at once, with an unused number.
fn say(world: &mut World, session: SessionId, in_reply_to: Option<u64>, to: Recipient) -> u64 {
    let number = world.session(session).next_agent_number();
    let live = world.session(session).live.unwrap();
    let input = world.outside.write(session, vec![mid_turn(said(number, live, in_reply_to, to))]);
    world.put(input);
    world.settle();
    number
}

fn messages_of(world: &World, session: SessionId) -> Vec<Message> {
    let mut found: Vec<Message> = world.all_messages().into_iter().map(|(_, message)| message).collect();
    found.retain(|message| message.session == session);
    found.sort_by_key(|message| message.seq);
    found
}

/// Messages of other agents in a session.
fn heard(world: &World, session: SessionId) -> Vec<Message> {
    messages_of(world, session).into_iter().filter(|message| message.from.is_some()).collect()
}

/// Archives one session alone, which otherwise only the removal of its agent does.
fn archive(world: &World, session: SessionId) {
    world
        .store()
        .write(|db, txn| {
            let workspace = db.sessions_by_id.require(txn, &session)?;
            let mut row = db.sessions.require(txn, &SessionKey { workspace, session })?.chat().unwrap();
            row.status = SessionStatus::Archived;
            db.sessions.put(txn, &SessionKey { workspace, session }, &Session::Chat(row))
        })
        .unwrap();
}

enum Step {
    /// Sends a message to an agent, about the newest message that the sender has from another agent, or about none.
    Say(SessionId, &'static str, bool),
    /// The same about a person's message.
    SayOf(SessionId, &'static str),
    /// Sends a message without a destination, about the newest message from another agent.
    Answer(SessionId),
    /// The session is archived.
    Archive(SessionId),
}

/// Which session gets the last message, as in NanoClaw. NanoClaw's closed sessions correspond to Hearth's archived
/// ones.
#[test]
fn a_message_goes_to_the_session_that_is_answered_else_to_the_one_that_wrote_last_else_to_the_newest() {
    use Step::{Answer, Archive, Say, SayOf};
    for (row, steps, gets) in [
        ("the only session", vec![Say(S1, "b", false)], SB),
        ("an answer goes to the session that asked", vec![Say(S1, "b", false), Say(SB, "a", true)], S1),
        ("so does one that names no destination", vec![Say(S1, "b", false), Answer(SB)], S1),
        ("nobody wrote before: the newest", vec![Say(SB, "a", false)], S2),
        ("no answer: the one that wrote last", vec![Say(S1, "b", false), Say(SB, "a", false)], S1),
        ("of two that wrote, the last one", vec![Say(S1, "b", false), Say(S2, "b", false), Say(SB, "a", false)], S2),
        (
            "the session that asked is archived: the newest",
            vec![Say(S1, "b", false), Archive(S1), Say(SB, "a", true)],
            S2,
        ),
        ("an answer to somebody else: the newest", vec![Say(SC, "b", false), Say(SB, "a", true)], S2),
        ("an answer to a person: the newest", vec![SayOf(SB, "a")], S2),
        ("to itself: the newest", vec![Say(S1, "a", false)], S2),
    ] {
        let mut world = world();
        for step in steps {
            match step {
                Archive(session) => archive(&world, session),
                Say(from, agent, about) => {
                    let seq = heard(&world, from).last().map(|message| message.seq).filter(|_| about);
                    say(&mut world, from, seq, at(agent));
                }
                SayOf(from, agent) => drop(say(&mut world, from, Some(2), at(agent))),
                Answer(from) => {
                    let seq = heard(&world, from).last().map(|message| message.seq);
                    say(&mut world, from, seq, Recipient::Reply);
                }
            }
        }
        let (_, last) = world.all_messages().pop().unwrap();
        assert_eq!((last.session, last.from.is_some()), (gets, true), "{row}");
    }
}

#[test]
fn a_message_says_who_sent_it_whatever_the_agent_wrote() {
    let mut world = world();
    say(&mut world, S1, None, to("b"));
    let message = heard(&world, SB).pop().unwrap();
    assert_eq!(message.from, Some(Hop { session: S1, count: 1 }));
    assert_eq!((message.trigger, message.reply.clone()), (true, None));
    let body = world.read(|db, txn| db.bodies.require(txn, &message.body));
    assert_eq!(body.sender.unwrap().to_string(), "agent:a");
    assert_eq!(body.content.sender_name.as_deref(), Some("a"));
    assert_eq!(body.content.raw.as_str(), r#"{"sender":"a","senderId":"agent:a","text":"words 3"}"#);
    let exported = &world.outside.inbox[&SB][&message.seq];
    assert_eq!(exported.reply.as_ref().map(|to| (to.channel.as_str(), to.platform_id.as_str())), Some(("agent", "a")));
    let outbound = world.all_outbound().pop().unwrap().1;
    assert!(matches!(outbound.state, OutState::Carried { message: Some(_), .. }), "{outbound:?}");
    assert!(world.outside.attempts.is_empty(), "no channel hears of it");
}

/// A file is imported once, however often it is found. NanoClaw creates a new message for every attempt.
#[test]
fn a_file_found_again_is_not_another_message() {
    let mut world = world();
    let said = mid_turn(said(3, 1, None, to("b")));
    for _ in 0..3 {
        let input = world.outside.write(S1, vec![said.clone()]);
        world.put(input);
    }
    world.settle();
    assert_eq!(heard(&world, SB).len(), 1);
}

/// Refused, reported to the agent as context, and not delivered.
#[test]
fn an_agent_writes_only_to_its_destinations() {
    for (session, target, reason) in [
        (SC, at("a"), "the agent has no destination that is the agent \"a\""),
        (SC, to("a"), "the agent has no destination named \"a\""),
        (S1, at("nobody"), "the agent has no destination that is the agent \"nobody\""),
        (S1, at("../b"), "the agent has no destination that is the agent \"../b\""),
        (S1, at("c"), "the agent has no destination that is the agent \"c\""),
    ] {
        let mut world = world();
        let number = say(&mut world, session, None, target.clone());
        assert!([S1, S2, SB, SC].iter().all(|session| heard(&world, *session).is_empty()), "{target:?}");
        let note = messages_of(&world, session).pop().unwrap();
        let text = world.read(|db, txn| db.bodies.require(txn, &note.body)).content.text;
        assert_eq!((text, note.trigger), (format!("Your message #{number} was refused: {reason}"), false));
    }
    let mut world = world();
    world.configure(vec![Change::RemoveAgent(Folder::new("b").unwrap())]).unwrap();
    world.settle();
    say(&mut world, S1, None, to("b"));
    assert!(heard(&world, SB).is_empty(), "a removed agent hears nothing");
}

#[test]
fn an_agent_without_sessions_gets_one_without_a_chat() {
    let mut world = world();
    say(&mut world, S1, None, to("d"));
    let message = world.all_messages().pop().unwrap().1;
    let session = world.session(message.session);
    assert_eq!((session.reply, message.reply), (None, None));
    assert_eq!(world.outside.running.get(&message.session), Some(&1), "it was started");
    say(&mut world, message.session, Some(message.seq), Recipient::Reply);
    assert_eq!(heard(&world, S1).len(), 1, "who was asked may answer, also without a destination");
    let session = message.session;
    turn(&mut world, session, Recipient::Reply);
    assert_eq!(heard(&world, S1).len(), 2, "so does what its turn ends with");
    say(&mut world, message.session, None, Recipient::Reply);
    assert!(world.journal().last().unwrap().contains("it has no address"), "{:?}", world.journal());
}

/// Unlike in NanoClaw, a missing file is detected at the edge, and the whole message is refused with that reason.
#[test]
fn files_go_along() {
    let mut world = world();
    let blob = BlobId::parse(&"0f".repeat(32)).unwrap();
    let attachment =
        Attachment { name: "report.pdf".into(), size: 3, mime: Some("application/pdf".into()), blob: Ok(blob).into() };
    let kept = KeptFile { kept: "se1/kept/1.a/report.pdf".into(), attachment: attachment.clone() };
    let with_file = Said { files: vec![kept], ..said(3, 1, None, to("b")) };
    let input = world.outside.write(S1, vec![mid_turn(with_file)]);
    world.put(input);
    let heard = messages_of(&world, SB).pop().unwrap();
    let body = world.store().read(|db, txn| db.bodies.require(txn, &heard.body)).unwrap();
    assert_eq!(body.attachments, [attachment]);
}

/// Claims the newest message of a session and sends a message in the same turn.
fn turn(world: &mut World, session: SessionId, answer: Recipient) {
    let seq = messages_of(world, session).last().unwrap().seq;
    let live = world.session(session).live.unwrap();
    let input = world.outside.write(session, vec![claim(seq, live)]);
    world.put(input);
    let number = world.session(session).next_agent_number();
    let words = said(number, live, Some(seq), answer);
    let input = world.outside.write(session, vec![end(seq, live, vec![words])]);
    world.put(input);
    world.settle();
}

/// Differs on purpose: NanoClaw lets two agents talk for ever.
#[test]
fn two_agents_stop_after_ten_messages_without_a_person() {
    let mut world = world();
    world.apply("[[chats]]\nchannel = \"terminal\"\nplatform_id = \"a\"\n");
    // Earlier refusals of others do not suppress the notice about these two.
    let (a, now) = (UserId::parse("agent:a").unwrap(), world.now().wall);
    let others = [
        (AgentId::new(1), a.clone(), Reason::TooManyHops, now),
        (AgentId::new(2), UserId::parse("agent:c").unwrap(), Reason::TooManyHops, now),
        (AgentId::new(2), a, Reason::Backlog, now),
    ];
    world
        .store()
        .write(|db, txn| {
            for (agent, sender, reason, at) in others {
                let row = Drop {
                    at,
                    channel: sender.channel().clone(),
                    platform_id: sender.handle().clone(),
                    thread: None,
                    chat: None,
                    agent: Some(agent),
                    platform_message: None,
                    sender: Some(sender),
                    sender_name: None,
                    reason,
                };
                let id: DropId = db.allocate(txn)?;
                db.dropped_events.put(txn, &id, &row)?;
            }
            Ok::<_, hearth::state::Error>(())
        })
        .unwrap();
    say(&mut world, S1, None, to("b"));
    for _ in 0..20 {
        for session in [SB, S1] {
            if matches!(messages_of(&world, session).last(), Some(message) if message.from.is_some()
                && matches!(message.state, MessageState::Pending(_)))
            {
                turn(&mut world, session, Recipient::Reply);
            }
        }
    }
    let hops: Vec<u32> =
        world.all_messages().iter().filter_map(|(_, message)| message.from.map(|hop| hop.count)).collect();
    assert_eq!(hops, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    let drops = world.read(|db, txn| db.dropped_events.iter(txn)?.collect::<Result<Vec<_>, _>>());
    assert_eq!(drops.len(), 4);
    let (_, drop) = &drops[3];
    assert_eq!((drop.reason, drop.sender.as_ref().unwrap().to_string()), (Reason::TooManyHops, "agent:a".to_owned()));
    let owner: Vec<&str> = world.outside.shown.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(owner.len(), 1, "{owner:?}");
    assert!(owner[0].starts_with("a and b have written to each other 10 times"), "{owner:?}");
    let note = messages_of(&world, S1).pop().unwrap();
    assert!(!note.trigger && matches!(note.state, MessageState::Pending(_)), "the agent is told with its next turn");
    // A repetition is recorded and reported to the agent, but the owner is not told again.
    let newest = heard(&world, S1).pop().unwrap().seq;
    say(&mut world, S1, Some(newest), to("b"));
    assert_eq!(world.outside.shown.len(), 1);
    assert_eq!(world.read(|db, txn| db.dropped_events.len(txn)), 5);
    world.pass(Millis::minutes(60));
    say(&mut world, S1, Some(newest), to("b"));
    assert_eq!(world.outside.shown.len(), 2, "they hear of it again after an hour");
    // A person writes: the count starts over.
    world.inject(&event_in(("net", "A1", None), ("again", "go on", ""), ""));
    world.settle();
    turn(&mut world, S1, to("b"));
    assert_eq!(heard(&world, SB).last().unwrap().from.unwrap().count, 1);
}

/// A message between turns, or about no message, does not restart the count.
#[test]
fn the_largest_count_among_what_a_turn_works_on_counts() {
    let mut world = world();
    say(&mut world, S1, None, to("b"));
    say(&mut world, SB, None, to("a"));
    assert_eq!(heard(&world, S1).last().unwrap().from.unwrap().count, 2, "about nothing, the newest message counts");
    world.inject(&event_in(("net", "A1", None), ("p", "hello", ""), ""));
    world.settle();
    let seqs: Vec<u64> = messages_of(&world, S1).iter().map(|message| message.seq).skip(1).collect();
    let live = world.session(S1).live.unwrap();
    let claims = seqs.iter().map(|seq| claim(*seq, live)).collect();
    let input = world.outside.write(S1, claims);
    world.put(input);
    say(&mut world, S1, seqs.last().copied(), to("b"));
    assert_eq!(
        heard(&world, SB).last().unwrap().from.unwrap().count,
        3,
        "a person and an agent are worked on together"
    );
    say(&mut world, S1, None, to("b"));
    assert_eq!(heard(&world, SB).last().unwrap().from.unwrap().count, 3, "and not only the newest of them");
}

#[test]
fn a_message_may_wait_for_its_time_and_a_full_agent_takes_none() {
    let mut world = world_of(Policy { backlog_max: 2, ..Policy::STANDARD });
    let at = world.now().wall.plus(Millis::minutes(5));
    let later = Said { deliver_after: Some(at), ..said(3, 1, None, to("b")) };
    let input = world.outside.write(S1, vec![mid_turn(later)]);
    world.put(input);
    world.settle();
    let waits = heard(&world, SB).pop().unwrap();
    assert!(!world.outside.inbox[&SB].contains_key(&waits.seq));
    world.pass(Millis::minutes(6));
    world.sweep();
    world.settle();
    assert!(world.outside.inbox[&SB].contains_key(&waits.seq));
    turn(&mut world, SB, to("a"));
    // A delivery time that has passed causes no wait.
    let late = Said { deliver_after: Some(world.now().wall), ..said(5, 1, None, to("b")) };
    let input = world.outside.write(S1, vec![mid_turn(late)]);
    world.put(input);
    world.settle();
    let brought = heard(&world, SB).pop().unwrap();
    assert!(brought.seq > waits.seq && world.outside.inbox[&SB].contains_key(&brought.seq));
    say(&mut world, S1, None, to("b"));
    say(&mut world, S1, None, to("b"));
    assert_eq!(heard(&world, SB).len(), 3);
    assert!(world.journal().iter().any(|line| line.contains("too many waiting messages")), "{:?}", world.journal());
}

/// The author of a message that failed is told, and so is the owner.
#[test]
fn a_failed_message_is_told_to_the_agent_that_wrote_it() {
    let mut world = world();
    world.apply("[[chats]]\nchannel = \"terminal\"\nplatform_id = \"a\"\n");
    say(&mut world, S1, None, to("b"));
    let seq = heard(&world, SB).pop().unwrap().seq;
    let input = world.outside.write(SB, vec![claim(seq, 1)]);
    world.put(input);
    let input = world.outside.write(SB, vec![failed(seq, 1, "no model")]);
    world.put(input);
    world.settle();
    let note = messages_of(&world, S1).pop().unwrap();
    let text = world.read(|db, txn| db.bodies.require(txn, &note.body)).content.text;
    assert!(text.ends_with("to another agent failed") && !note.trigger, "its chat is not the owner's: {text}");
    assert!(world.outside.shown.last().unwrap().1.contains("failed: no model"));
}

/// With every effect lost, sweeps alone deliver the message to the other agent.
#[test]
fn a_lost_effect_costs_time_and_nothing_else() {
    let mut world = world();
    let input = world.outside.write(S1, vec![mid_turn(said(3, 1, None, to("b")))]);
    world.put(input);
    world.lose_effects();
    let seq = heard(&world, SB).pop().unwrap().seq;
    assert!(!world.outside.inbox[&SB].contains_key(&seq));
    world.sweep();
    world.settle();
    assert!(world.outside.inbox[&SB].contains_key(&seq));
}

#[test]
fn what_an_agent_wrote_is_kept_as_it_is() {
    let mut world = world();
    let content = RawJson::trusted(r#"{"n":[1,{"a":"b"}],"text":"hi"}"#.to_owned());
    let rich = Said { content, text: "hi".into(), ..said(3, 1, None, to("b")) };
    let input = world.outside.write(S1, vec![mid_turn(rich)]);
    world.put(input);
    let body = heard(&world, SB).pop().unwrap().body;
    let raw = world.read(|db, txn| db.bodies.require(txn, &body)).content.raw;
    let value: serde_json::Value = serde_json::from_str(raw.as_str()).unwrap();
    assert_eq!(value, serde_json::json!({"sender": "a", "senderId": "agent:a", "n": [1, {"a": "b"}], "text": "hi"}));
}
