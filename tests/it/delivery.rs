//! Delivery of outgoing messages.

use hearth::model::address::{Address, ChannelName, ForeignId};
use hearth::model::delivery::{DeliveryResult, OutState};
use hearth::model::id::{OutboundId, SessionId};
use hearth::model::incarnation::Exit;
use hearth::model::mailbox::{Answer, CollectedRecord, Collection, Recipient, Record, Said};
use hearth::model::message::MessageState;
use hearth::model::request::RequestedAction;
use hearth::model::{Effect, Input, Millis, Timestamp};

use crate::world::outside::{claim, end, gone, mid_turn, said};
use crate::world::{ONE, World, event, event_in};

const S: SessionId = SessionId::new(1);

fn ok() -> DeliveryResult {
    DeliveryResult::Delivered { platform_message: None }
}

fn address(channel: &str, platform_id: &str, thread: Option<&str>) -> Address {
    let id = |text: &str| ForeignId::new("id", text).unwrap();
    Address { channel: ChannelName::new(channel).unwrap(), platform_id: id(platform_id), thread: thread.map(id) }
}

/// A world in which message 2 of session 1 is being worked on.
fn working() -> World {
    let mut world = World::of(ONE);
    world.inject(&event("1", "x", ""));
    world.settle();
    say(&mut world, vec![claim(2, 1)]);
    world.settle();
    world
}

fn say(world: &mut World, found: Vec<CollectedRecord>) {
    let input = world.outside.write(S, found);
    world.put(input);
}

fn say_to(world: &mut World, number: u64, to: Recipient) {
    say(world, vec![mid_turn(said(number, 1, Some(2), to))]);
}

fn state(world: &World, id: u64) -> OutState {
    world.outbound(OutboundId::new(id)).state
}

fn failed_with(world: &World, id: u64) -> String {
    match state(world, id) {
        OutState::Failed { error, .. } | OutState::Refused { error, .. } => error,
        other => panic!("{other:?}"),
    }
}

fn shown(world: &World) -> Vec<&str> {
    world.outside.shown.iter().map(|(_, text)| text.as_str()).collect()
}

/// Passes ten seconds at a time, and performs all effects.
fn pass(world: &mut World, seconds: u64) {
    for _ in 0..seconds / 10 {
        world.pass(Millis::seconds(10));
        world.sweep();
        world.settle();
    }
    world.assert_sound();
}

fn to(thread: &str) -> Recipient {
    Recipient::Address(address("net", "C", Some(thread)))
}

/// Each address has one ordered queue, and queues do not wait for each other. The first message of each is sent at
/// once, the next one when the outcome of the first is known.
#[test]
fn lanes_are_in_order_and_in_parallel() {
    let mut world = working();
    for (number, thread) in [(3, "a"), (5, "a"), (7, "b"), (9, "a"), (11, "b")] {
        say_to(&mut world, number, to(thread));
    }
    let asked = |world: &World| -> Vec<u64> {
        let deliver = |effect: &Effect| match effect {
            Effect::Deliver(delivery) => Some(delivery.id.number()),
            _ => None,
        };
        world.effects.iter().filter_map(deliver).collect()
    };
    assert_eq!(asked(&world), [1, 3]);
    world.lose_effects();
    world.heard_of(OutboundId::new(3), ok());
    assert_eq!(asked(&world), [5]);
    world.heard_of(OutboundId::new(1), ok());
    world.heard_of(OutboundId::new(2), ok());
    assert_eq!(asked(&world), [5, 2, 4]);
    // An outcome for a message without an attempt changes nothing.
    world.heard_of(OutboundId::new(4), ok());
    assert!(matches!(state(&world, 4), OutState::Delivered { .. }));
    let before = world.text();
    world.heard_of(OutboundId::new(4), DeliveryResult::Retry("late".into()));
    world.heard_of(OutboundId::new(99), ok());
    assert_eq!(world.text(), before);
}

#[test]
fn a_message_behind_another_cannot_be_settled() {
    let mut world = working();
    for number in [3, 5] {
        say_to(&mut world, number, Recipient::Reply);
    }
    let before = world.text();
    world.heard_of(OutboundId::new(2), ok());
    assert_eq!(world.text(), before);
}

/// A failing message is retried after 5, 10, 20 … s. The messages behind it wait, then follow in order.
#[test]
fn retries_back_off() {
    let mut world = working();
    let mut failures = 0;
    world.outside.channel = Box::new(move |_| {
        failures += 1;
        Some(if failures < 4 { DeliveryResult::Retry("502".into()) } else { ok() })
    });
    for number in [3, 5] {
        say_to(&mut world, number, Recipient::Reply);
    }
    world.settle();
    let mut attempts = vec![world.outside.attempts.len()];
    for wait in [4_999, 1, 9_999, 1, 19_999, 1] {
        world.pass(Millis::new(wait));
        world.sweep();
        world.settle();
        attempts.push(world.outside.attempts.len());
    }
    assert_eq!(attempts, [1, 1, 2, 2, 3, 3, 5]);
    assert_eq!(shown(&world), ["words 3", "words 5"]);
    assert_eq!(world.outbound(OutboundId::new(1)).attempts, 4);
}

/// After an hour a failing message fails for good. The agent is told as context, the owner on the terminal.
#[test]
fn giving_up() {
    let terminal = r#"
[[chats]]
channel = "terminal"
platform_id = "main"
"#;
    let mut world = World::of(&format!("{ONE}{terminal}"));
    world.inject(&event("1", "x", ""));
    world.settle();
    say(&mut world, vec![claim(2, 1)]);
    world.outside.channel = Box::new(|delivery| {
        Some(if delivery.to.channel.as_str() == "net" { DeliveryResult::Retry("502".into()) } else { ok() })
    });
    say_to(&mut world, 3, Recipient::Reply);
    say_to(&mut world, 5, Recipient::Reply);
    world.settle();
    pass(&mut world, 3_590);
    assert!(matches!(state(&world, 1), OutState::Waiting { .. }), "{:?}", state(&world, 1));
    pass(&mut world, 700);
    assert_eq!(failed_with(&world, 1), "502");
    assert!(matches!(state(&world, 2), OutState::Waiting { .. }), "the next one has an hour of its own");
    let [text] = shown(&world)[..] else { panic!("{:?}", shown(&world)) };
    assert!(text.contains("mo1") && text.contains("502") && text.contains("net/C"), "{text}");
    let told = world.all_messages().pop().unwrap().1;
    let body = world.read(|db, txn| db.bodies.require(txn, &told.body));
    assert!(!told.trigger && body.content.text == text, "{body:?}");
}

#[test]
fn what_a_platform_rejects_is_given_up_at_once() {
    let mut world = working();
    world.outside.channel = Box::new(|_| Some(DeliveryResult::Rejected("too long".into())));
    say_to(&mut world, 3, Recipient::Reply);
    world.settle();
    assert_eq!((failed_with(&world, 1).as_str(), world.outside.attempts.len()), ("too long", 1));
}

/// A closed terminal keeps its messages without limit, and shows them as soon as it is opened.
#[test]
fn absent_readers_are_waited_for() {
    let mut world = working();
    world.outside.channel = Box::new(|_| Some(DeliveryResult::Absent));
    for number in [3, 5] {
        say_to(&mut world, number, Recipient::Reply);
    }
    say_to(&mut world, 7, to("other"));
    world.settle();
    pass(&mut world, 7_200);
    world.step_clock(30 * 86_400_000);
    pass(&mut world, 120);
    assert!(
        matches!(&state(&world, 1), OutState::Waiting { after: Some(why), .. } if why == "the recipient is not connected")
    );
    world.outside.channel = Box::new(|_| Some(ok()));
    for (channel, chat) in [("net", "D"), ("other", "C")] {
        world.put(Input::Reachable(ChannelName::new(channel).unwrap(), Some(address(channel, chat, None))));
        assert!(world.effects.is_empty(), "somebody else came");
    }
    world.put(Input::Reachable(ChannelName::new("net").unwrap(), Some(address("net", "C", None))));
    world.settle();
    assert_eq!(shown(&world), ["words 3", "words 7", "words 5"], "each thread in its order");
}

/// A channel that comes up gets the first message of every queue, however long the queues are.
#[test]
fn a_channel_that_comes_up() {
    let policy = hearth::model::policy::Policy { rows_per_input: 16, ..hearth::model::policy::Policy::STANDARD };
    let mut world = World::with(policy, |_| {});
    world.apply(ONE);
    world.inject(&event("1", "x", ""));
    world.settle();
    say(&mut world, vec![claim(2, 1)]);
    world.outside.channel = Box::new(|_| Some(DeliveryResult::NoAdapter));
    for number in 0..40 {
        say_to(&mut world, 2 * number + 3, to("a"));
    }
    say_to(&mut world, 101, to("b"));
    world.settle();
    world.outside.channel = Box::new(|_| Some(ok()));
    world.put(Input::Reachable(ChannelName::new("net").unwrap(), None));
    world.settle();
    assert_eq!(world.outside.shown.len(), 41);
}

/// Without an adapter a message waits, is listed as waiting, and fails after a week.
#[test]
fn no_adapter() {
    let mut world = working();
    world.outside.channel = Box::new(|_| Some(DeliveryResult::NoAdapter));
    say_to(&mut world, 3, Recipient::Reply);
    world.settle();
    pass(&mut world, 7_200);
    assert!(
        matches!(&state(&world, 1), OutState::Waiting { after: Some(why), .. } if why == "its channel is not running")
    );
    world.step_clock(7 * 86_400_000 - 7_200_000);
    pass(&mut world, 120);
    assert!(failed_with(&world, 1).contains("its channel has not run for a week"));
}

/// The daemon dies between an attempt and its outcome: the message is retried under the same id, and counted.
#[test]
fn a_crash_in_an_attempt() {
    let mut world = working();
    world.outside.channel = Box::new(|_| None); // it goes out, and no result is reported
    say_to(&mut world, 3, Recipient::Reply);
    world.settle();
    for uncertain in 1..=2 {
        world.restart();
        world.settle();
        world.pass(Millis::seconds(600));
        assert_eq!(world.outbound(OutboundId::new(1)).uncertain, uncertain);
    }
    world.outside.channel = Box::new(|_| Some(ok()));
    world.restart();
    world.settle();
    pass(&mut world, 600);
    assert!(matches!(state(&world, 1), OutState::Delivered { .. }));
    assert!(world.outside.attempts.len() >= 3 && world.outside.attempts.iter().all(|id| id.number() == 1));
    assert_eq!(shown(&world), ["words 3"]);
    let uncertain = world.journal().into_iter().filter(|event| event.starts_with("DeliveryUncertain")).count();
    assert_eq!(uncertain, 2);
}

/// An attempt without a report for a minute has an uncertain outcome.
#[test]
fn a_silent_channel() {
    let mut world = working();
    world.outside.channel = Box::new(|_| None);
    say_to(&mut world, 3, Recipient::Reply);
    world.settle();
    world.pass(Millis::new(59_999));
    world.sweep();
    world.settle();
    assert_eq!(world.outside.attempts.len(), 1);
    pass(&mut world, 5_000);
    let outbound = world.outbound(OutboundId::new(1));
    assert!(matches!(outbound.state, OutState::Failed { .. }), "{outbound:?}");
    assert_eq!(outbound.uncertain, outbound.attempts);
}

/// A message for later waits for its time, then joins the queue: behind the message that is being attempted, before
/// those that were sent after it.
#[test]
fn deliver_after() {
    let mut world = working();
    let later = |number, minutes: i64| {
        let time = Timestamp::from_millis(Timestamp::parse(crate::world::NOON).unwrap().millis() + minutes * 60_000);
        mid_turn(Said { deliver_after: Some(time), ..said(number, 1, Some(2), Recipient::Reply) })
    };
    world.outside.channel = Box::new(|_| None);
    say(&mut world, vec![later(3, 1), later(5, 0)]);
    say_to(&mut world, 7, Recipient::Reply);
    assert!(matches!(state(&world, 1), OutState::Later(_)));
    world.lose_effects();
    world.step_clock(60_000);
    world.put(Input::Sweep(vec![]));
    world.assert_sound();
    for id in [2, 1, 3] {
        assert!(matches!(state(&world, id), OutState::Attempting { .. }), "{id}");
        world.heard_of(OutboundId::new(id), ok());
        world.assert_sound();
    }
    assert!(world.read(|db, txn| Ok(db.queue_heads.is_empty(txn)? && db.outgoing_queues.is_empty(txn)?)));
}

/// The target of an edit or reaction may be gone later, so only messages can be scheduled.
#[test]
fn changes_do_not_wait_for_a_time() {
    let mut world = working();
    say_to(&mut world, 3, Recipient::Reply);
    world.settle();
    let in_a_minute = world.now().wall.plus(Millis::minutes(1));
    for (number, action) in [(5, RequestedAction::Edit(3)), (7, RequestedAction::React(3))] {
        for (id, deliver_after, refused) in [(number, Some(in_a_minute), true), (number + 8, None, false)] {
            let change = Said { action: action.clone(), deliver_after, ..said(id, 1, Some(2), Recipient::Reply) };
            say(&mut world, vec![mid_turn(change)]);
            let last = world.all_outbound().pop().unwrap().1.state;
            assert_eq!(matches!(last, OutState::Refused { .. }), refused, "{id}: {last:?}");
        }
    }
    world.assert_sound();
}

/// A message to an address that the agent may not write to is stored as refused, with the reason.
#[test]
fn refused_targets() {
    let more = r#"
[[chats]]
channel = "net"
platform_id = "D"
"#;
    let mut world = World::of(&format!("{ONE}{more}"));
    world.inject(&event_in(("net", "C", Some("t")), ("1", "x", ""), ""));
    world.settle();
    say(&mut world, vec![claim(2, 1)]);
    let long = "x".repeat(1_000);
    for (n, (target, refused)) in [
        (Recipient::Reply, None),
        (Recipient::Destination("net-mg1".into()), None),
        (Recipient::Destination("nowhere".into()), Some("no destination named \"nowhere\"")),
        (Recipient::Destination(long), Some("no destination named")),
        (Recipient::Address(address("net", "C", Some("t"))), None),
        (Recipient::Address(address("net", "C", Some("other"))), None),
        (Recipient::Address(address("net", "D", None)), Some("no destination in net/D")),
        (Recipient::Address(address("net", "E", None)), Some("no destination in net/E")),
        (Recipient::Address(address("telegram", "C", None)), Some("no destination in telegram/C")),
    ]
    .into_iter()
    .enumerate()
    {
        let number = u64::try_from(n).unwrap() * 2 + 3;
        say_to(&mut world, number, target);
        let (_, outbound) = world.all_outbound().pop().unwrap();
        match (refused, &outbound.state) {
            (None, OutState::Attempting { .. } | OutState::Waiting { .. }) => {}
            (Some(said), OutState::Refused { error, .. }) => assert!(error.contains(said), "{error}"),
            (_, other) => panic!("{n}: {other:?}"),
        }
        world.assert_sound();
    }
    world.settle();
    assert_eq!(world.outside.shown.len(), 4);
}

/// An answer that may not be sent is a failure, and the person is told.
#[test]
fn a_refused_answer_fails_the_turn() {
    let mut world = working();
    say(&mut world, vec![end(2, 1, vec![said(3, 1, Some(2), Recipient::Destination("nowhere".into()))])]);
    world.settle();
    let MessageState::Failed { error, .. } = world.state_of(hearth::model::id::MessageId::new(1)) else { panic!() };
    assert!(error.contains("nowhere"), "{error}");
    assert!(shown(&world)[0].contains("could not process your message"), "{:?}", shown(&world));
}

/// Numbers are odd, bounded, not far above the last one, and used once. Output that is refused for its number uses none
/// up.
#[test]
fn numbers() {
    let mut world = working();
    for (wire, number, good) in [
        ("a", 3, true),
        ("b", 3, false),
        ("c", 4, false),
        ("d", 0, false),
        ("e", 1_000_000_000_000_001, false),
        ("f", u64::MAX, false),
        ("g", 999_999_999_999_999, false),
        ("h", 1_000_004, false),
        ("i", 1_000_003, true),
        ("j", 5, true),
    ] {
        let words = Said { wire_id: wire.into(), number, ..said(3, 1, Some(2), Recipient::Reply) };
        say(&mut world, vec![mid_turn(words)]);
        let (_, outbound) = world.all_outbound().pop().unwrap();
        assert_eq!(!matches!(outbound.state, OutState::Refused { .. }), good, "{wire}");
        world.assert_sound();
    }
    assert_eq!(world.session(S).last_number, 1_000_003);
    assert_eq!(world.inject(&event("2", "y", "")).wirings.len(), 1);
    assert_eq!(world.all_messages().pop().unwrap().1.seq, 1_000_004);
    for (number, good) in [(1_000_003, true), (1_000_005, false)] {
        let mut world = working();
        for number in [3, number] {
            say(&mut world, vec![mid_turn(said(number, 1, Some(2), Recipient::Reply))]);
        }
        let (_, outbound) = world.all_outbound().pop().unwrap();
        assert_eq!(
            !matches!(outbound.state, OutState::Refused { .. }),
            good,
            "a million above 3 is the most: {number}"
        );
    }
}

/// Answers go where the question came from, even if the conversation began elsewhere. Other output goes to the
/// conversation's own address.
#[test]
fn reply_addresses() {
    let mut world = World::of(ONE);
    world.inject(&event_in(("net", "C", Some("t1")), ("1", "x", ""), ""));
    let redirected = r#"{"channelType":"net","platformId":"C","message":{"id":"2","content":{"text":"x"}},
        "replyTo":{"channelType":"cli","platformId":"local"}}"#;
    world.inject(redirected);
    world.settle();
    let cli = Recipient::Address(address("cli", "local", None));
    for (n, (question, target, expected)) in [
        (Some(2), Recipient::Reply, Some(address("net", "C", Some("t1")))),
        (Some(4), Recipient::Reply, Some(address("cli", "local", None))),
        (None, Recipient::Reply, Some(address("net", "C", None))),
        (Some(98), Recipient::Reply, Some(address("net", "C", None))),
        (Some(4), cli.clone(), Some(address("cli", "local", None))),
        (Some(2), cli, None),
    ]
    .into_iter()
    .enumerate()
    {
        let number = u64::try_from(n).unwrap() * 2 + 5;
        say(&mut world, vec![mid_turn(said(number, 1, question, target))]);
        assert_eq!(world.all_outbound().pop().unwrap().1.to, expected, "{n}");
    }
}

/// An answer with a name that cannot even be searched for fails its own turn, not the mailbox.
#[test]
fn answers_with_impossible_names() {
    let mut world = working();
    let answers = vec![
        Answer::Missing("x".repeat(5_000)),
        Answer::Missing("a\0b".into()),
        Answer::Refused { id: "y".repeat(5_000), reason: "too large".into() },
    ];
    let record = Record::End { seq: 2, also: vec![], incarnation: 1, failure: None, gated: None, answers };
    world.put(Input::Collected(Collection {
        session: S,
        found: vec![CollectedRecord { record, files: vec![] }],
        closes: None,
    }));
    assert!(matches!(world.all_messages()[0].1.state, MessageState::Failed { .. }));
}

/// The last messages of an incarnation are delivered although it is gone. A request whose answer can no longer be read
/// is refused, and the next incarnation is told as context.
#[test]
fn last_words_and_requests() {
    let mut world = working();
    world.outside.running.clear();
    world.put(gone(S, 1, Exit::Code(0)));
    let words = mid_turn(said(3, 1, Some(2), Recipient::Reply));
    let action = RequestedAction::Impossible("unknown action `x`".into());
    let request = mid_turn(Said { action, request: Some("r1".into()), ..said(5, 1, None, Recipient::Reply) });
    world.put(Input::Collected(Collection { session: S, found: vec![words, request], closes: Some(1) }));
    world.settle();
    assert_eq!(shown(&world), ["words 3"]);
    let note = world.read(|db, txn| Ok(db.bodies.iter(txn)?.last().unwrap()?.1.content.text));
    assert_eq!(note, "Your request #5 was refused: unknown action `x`");
}
