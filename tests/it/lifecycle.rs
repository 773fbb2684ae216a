//! The life of incarnations: one at a time per session, ended in a fixed order, judged by awake time.

use hearth::model::delivery::DeliveryResult;
use hearth::model::id::{MessageId, OutboundId, SessionId};
use hearth::model::incarnation::{Exit, Phase, StopReason, ToolUse};
use hearth::model::input::RuntimeEvent;
use hearth::model::mailbox::{
    Answer, Beat, CollectedRecord, Collection, Observation, ObservedState, Recipient, Record,
};
use hearth::model::message::{Completion, Due, MessageState};
use hearth::model::policy::Policy;
use hearth::model::{Effect, Input, Millis};

use crate::world::lifecycle::{answer, live, pass, per_thread, running, threads};
use crate::world::outside::{claim, end, failed, gone, leftover, mid_turn, progress, said};
use crate::world::{ONE, World, event, event_in};

mod many;
mod stuck;

const S: SessionId = SessionId::new(1);
const M: MessageId = MessageId::new(1);

fn phase(world: &World, number: u32) -> Phase {
    world.incarnation(S, number).phase
}

/// The requested effects, without the look for skips after every turn, which these tests do not concern.
fn effects(world: &World) -> Vec<&Effect> {
    world.effects.iter().filter(|effect| !matches!(effect, Effect::LookForSkips(..))).collect()
}

/// A conversation as a transcript: launch, claim, answer, end, the next message, death during the turn, backoff, the
/// next incarnation.
#[test]
fn a_session_from_begin_to_end() {
    let mut world = World::of(ONE);
    world.begin_script();
    world.inject(&event("1", "one", ""));
    world.settle();
    let turn = vec![claim(2, 1), end(2, 1, vec![said(3, 1, Some(2), Recipient::Reply)])];
    let turn = world.outside.write(S, turn);
    world.put(turn);
    world.settle();
    world.inject(&event("2", "two", ""));
    let claims = world.outside.write(S, vec![claim(4, 1)]);
    world.put(claims);
    let gone = world.outside.end(S, 1, Exit::Signal(11));
    world.put(gone);
    world.settle();
    world.pass(Millis::seconds(5));
    world.sweep();
    world.settle();
    world.check("lifecycle_begin_to_end");
}

/// The runtime confirms the end, the mailbox is collected completely, claims are reset, and only then does the next one
/// start, however often it is requested earlier.
#[test]
fn incarnations_end_in_one_order() {
    let mut world = running();
    let claims = world.outside.write(S, vec![claim(2, 1)]);
    world.put(claims);
    world.inject(&event("2", "y", ""));
    world.lose_effects();
    // A close before the runtime has confirmed the end is ignored.
    world.put(Input::Collected(Collection { session: S, found: vec![], closes: Some(1) }));
    assert!(matches!(world.state_of(M), MessageState::Claimed { incarnation: 1, .. }));
    assert_eq!(phase(&world, 1), Phase::Running);
    world.put(gone(S, 1, Exit::Code(1)));
    assert!(matches!(phase(&world, 1), Phase::Collecting { .. }));
    assert!(matches!(world.state_of(M), MessageState::Claimed { .. }), "claims are kept until the mailbox is read");
    assert_eq!(effects(&world), [&Effect::CollectRest(S, 1)]);
    world.inject(&event("3", "z", ""));
    world.sweep();
    assert_eq!(world.session(S).last_incarnation, 1, "nobody starts while one is collected");
    // Output from before its death counts.
    let rest = vec![end(2, 1, vec![said(5, 1, Some(2), Recipient::Reply)])];
    world.put(Input::Collected(Collection { session: S, found: rest, closes: Some(1) }));
    assert!(matches!(world.state_of(M), MessageState::Completed { .. }));
    assert!(matches!(phase(&world, 1), Phase::Closed { .. }));
    // It had ended everything it began: its death costs the messages that arrived meanwhile neither a try nor a delay.
    assert!(matches!(world.state_of(MessageId::new(2)), MessageState::Pending(Due::Now)));
    assert_eq!(world.message(MessageId::new(2)).tries, 0);
    assert_eq!((world.session(S).last_incarnation, world.session(S).live), (2, Some(2)));
    // A second confirmation of the old end changes nothing.
    let before = world.text();
    world.put(gone(S, 1, Exit::Code(0)));
    world.put(Input::Collected(Collection { session: S, found: vec![], closes: Some(1) }));
    assert_eq!(world.text(), before);
}

/// Files of a closed incarnation are refused, recorded once, and removed.
#[test]
fn late_files() {
    let mut world = running();
    let gone = world.outside.end(S, 1, Exit::Code(1));
    world.put(gone);
    world.settle();
    world.pass(Millis::seconds(5));
    world.sweep();
    world.settle();
    let late = vec![
        claim(2, 1),
        mid_turn(said(3, 1, Some(2), Recipient::Reply)),
        end(2, 1, vec![said(5, 1, Some(2), Recipient::Reply)]),
        failed(2, 7, "of the future"),
    ];
    let files = late.iter().flat_map(|found| found.files.clone()).count();
    let late = Input::Collected(Collection { session: S, found: late, closes: None });
    world.put(late.clone());
    assert!(matches!(world.state_of(M), MessageState::Pending(Due::Now)));
    assert!(world.all_outbound().is_empty());
    let refused = || world.journal().into_iter().filter(|event| event.starts_with("FileRefused")).collect::<Vec<_>>();
    assert_eq!(refused().len(), 4, "{:?}", refused());
    let [Effect::Discard(discard)] = effects(&world)[..] else { panic!("{:?}", world.effects) };
    assert_eq!(discard.agent_files.len(), files);
    let before = world.text();
    world.put(late);
    assert_eq!(world.text(), before, "found again before it was removed");
}

/// A claim that is found only after the end of its message is not new, before its incarnation is closed and after.
#[test]
fn a_claim_after_the_end() {
    let mut world = running();
    let done = world.outside.write(S, vec![end(2, 1, vec![said(3, 1, Some(2), Recipient::Reply)])]);
    world.put(done);
    let gone = world.outside.end(S, 1, Exit::Code(0));
    world.put(gone);
    let last = Input::Collected(Collection { session: S, found: vec![claim(2, 1)], closes: Some(1) });
    world.put(last.clone());
    let before = world.text();
    world.put(last);
    assert_eq!(world.text(), before, "found again before it was removed");
    world.put(Input::Collected(Collection { session: S, found: vec![claim(2, 7)], closes: None }));
    assert_ne!(world.text(), before, "one that never ran claims nothing");
}

/// Files that are found again change nothing, not even the time of the last progress.
#[test]
fn files_found_twice() {
    let mut world = running();
    world.inject(&event("also", "x", ""));
    world.settle();
    let together = Record::End {
        seq: 2,
        also: vec![4],
        incarnation: 1,
        failure: None,
        gated: None,
        answers: vec![Answer::Read(Box::new(said(7, 1, Some(2), Recipient::Reply)))],
    };
    for found in [
        vec![claim(2, 1)],
        vec![claim(4, 1)],
        vec![mid_turn(said(3, 1, Some(2), Recipient::Reply))],
        vec![mid_turn(said(4, 1, Some(2), Recipient::Reply))],
        vec![leftover(said(5, 1, Some(2), Recipient::Reply))],
        vec![claim(98, 1)],
        vec![CollectedRecord { record: together, files: vec![] }],
        vec![failed(2, 1, "after all")],
        vec![end(98, 1, vec![])],
    ] {
        world.pass(Millis::seconds(1));
        let input = Input::Collected(Collection { session: S, found: found.clone(), closes: None });
        world.put(input.clone());
        world.settle();
        let before = world.text();
        world.pass(Millis::seconds(1));
        world.put(input);
        assert_eq!(world.text(), before, "{found:?}");
        // Files of ended messages that may still be in the mailbox are removed again.
        let again: Vec<u64> = world
            .effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Discard(discard) => Some(discard.seqs.clone()),
                _ => None,
            })
            .flatten()
            .collect();
        if let Record::End { also, .. } = &found[0].record {
            assert!(also.iter().all(|seq| again.contains(seq)), "{again:?}");
        }
    }
}

/// A final answer that no end named is kept, never sent, and not shown to the next incarnation as sent.
#[test]
fn leftover_finals_are_abandoned() {
    let mut world = running();
    let files = vec![
        claim(2, 1),
        mid_turn(said(3, 1, Some(2), Recipient::Reply)),
        mid_turn(said(5, 1, Some(2), Recipient::Destination("nowhere".into()))),
    ];
    let files = world.outside.write(S, files);
    world.put(files);
    let gone = world.outside.end(S, 1, Exit::Signal(9));
    world.put(gone);
    let rest = vec![leftover(said(7, 1, Some(2), Recipient::Reply)), leftover(said(8, 1, Some(2), Recipient::Reply))];
    world.put(Input::Collected(Collection { session: S, found: rest, closes: Some(1) }));
    world.pass(Millis::seconds(5));
    world.sweep();
    let launch = world.effects.iter().find_map(|effect| match effect {
        Effect::Launch(launch) => Some(launch),
        _ => None,
    });
    let context = launch.unwrap().export.context.as_ref().unwrap();
    let told: Vec<u64> = context.already_sent.iter().map(|sent| sent.number).collect();
    assert_eq!((told, context.next_number, context.incarnation), (vec![3], 9, 2));
    world.settle();
    pass(&mut world, 100);
    let shown: Vec<&str> = world.outside.shown.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(shown, ["words 3"]);
}

/// An undelivered message is not shown to the next incarnation as sent.
#[test]
fn what_was_not_delivered_was_not_said() {
    let mut world = running();
    world.outside.channel = Box::new(|delivery| {
        let blocked = delivery.id == OutboundId::new(2);
        let delivered = DeliveryResult::Delivered { platform_message: None };
        Some(if blocked { DeliveryResult::Rejected("blocked".into()) } else { delivered })
    });
    let files = [3, 5].map(|number| mid_turn(said(number, 1, Some(2), Recipient::Reply)));
    let files = world.outside.write(S, [vec![claim(2, 1)], files.to_vec()].concat());
    world.put(files);
    world.settle();
    let gone = world.outside.end(S, 1, Exit::Signal(9));
    world.put(gone);
    world.settle();
    world.pass(Millis::seconds(5));
    world.sweep();
    let launch = world.effects.iter().find_map(|effect| match effect {
        Effect::Launch(launch) => Some(launch),
        _ => None,
    });
    let context = launch.unwrap().export.context.as_ref().unwrap();
    assert_eq!(context.already_sent.iter().map(|sent| sent.number).collect::<Vec<_>>(), [3]);
}

/// Five tries with their waits, then the message fails, and the person is told in the same transaction.
#[test]
fn tries_end() {
    let mut world = running();
    for (try_number, wait) in [(1, 5_u64), (2, 10), (3, 20), (4, 40), (5, 80)] {
        let claims = world.outside.write(S, vec![claim(2, try_number)]);
        world.put(claims);
        let gone = world.outside.end(S, try_number, Exit::Signal(11));
        world.put(gone);
        world.settle();
        let message = world.message(M);
        let due = world.now().awake.plus(Millis::seconds(wait));
        assert_eq!((message.state, message.tries), (MessageState::Pending(Due::Retry(due)), try_number));
        world.pass(Millis::new(wait * 1_000 - 1));
        world.sweep();
        world.settle();
        assert_eq!(world.session(S).live, None, "not a moment too early");
        world.pass(Millis::new(1));
        world.sweep();
        world.settle();
        assert_eq!(world.session(S).live, Some(try_number + 1));
    }
    let claims = world.outside.write(S, vec![claim(2, 6)]);
    world.put(claims);
    let gone = world.outside.end(S, 6, Exit::Signal(11));
    world.put(gone);
    world.settle();
    let MessageState::Failed { error, .. } = world.state_of(M) else { panic!("{:?}", world.state_of(M)) };
    assert!(error.contains("5 tries") && error.contains("signal 11"), "{error}");
    let [(id, notice)] = &world.all_outbound()[..] else { panic!() };
    assert_eq!((notice.in_reply_to, notice.to.as_ref().unwrap().platform_id.as_str()), (Some(M), "C"));
    assert_eq!(world.outside.settled.last().unwrap().answers[..], [world.read(|db, txn| db.outgoing(txn, *id))]);
    pass(&mut world, 600);
    assert_eq!(world.session(S).live, None, "nothing is tried again");
}

/// An incarnation that only reads context and dies is not started for ever.
#[test]
fn an_agent_that_claims_the_wrong_thing() {
    let mut world = World::of(&ONE.replace("pattern = \".\"", "pattern = \"!\"\nignored = \"accumulate\""));
    world.inject(&event("1", "context", ""));
    world.inject(&event("2", "!", ""));
    world.settle();
    for _ in 0..40 {
        if let Some(number) = world.session(S).live {
            let claims = world.outside.write(S, vec![claim(2, number)]);
            world.put(claims);
            let gone = world.outside.end(S, number, Exit::Code(1));
            world.put(gone);
        }
        world.settle();
        pass(&mut world, 10);
    }
    assert!(world.outside.launched.len() <= 6, "{}", world.outside.launched.len());
    assert!(matches!(world.state_of(MessageId::new(2)), MessageState::Failed { .. }));
    assert_eq!(world.all_outbound().len(), 1, "told once, of the message that asked");
}

/// A restart of the daemon costs no try, and messages in backoff are queued at once.
#[test]
fn a_restart_counts_nothing() {
    let mut world = running();
    world.inject(&event("2", "y", ""));
    let claims = world.outside.write(S, vec![claim(2, 1)]);
    world.put(claims);
    let gone = world.outside.end(S, 1, Exit::Code(1));
    world.put(gone);
    world.settle();
    let claims = world.outside.write(S, vec![claim(4, 2)]);
    world.put(claims);
    assert_eq!((world.message(M).tries, world.session(S).live), (1, Some(2)));
    world.outside.running.clear(); // they die with the daemon
    world.restart();
    assert!(matches!(world.state_of(M), MessageState::Pending(Due::Now)), "its backoff was another run's");
    world.settle();
    assert_eq!((world.message(M).tries, world.message(MessageId::new(2)).tries), (1, 0));
    assert_eq!((world.session(S).live, world.outside.inbox[&S].len()), (Some(3), 2));
}

/// An incarnation that outlives the daemon continues as if nothing had happened.
#[test]
fn an_incarnation_that_outlives_the_daemon() {
    let mut world = running();
    let claims = world.outside.write(S, vec![claim(2, 1)]);
    world.put(claims);
    world.restart();
    world.settle();
    pass(&mut world, 50);
    let done = world.outside.write(S, vec![end(2, 1, vec![said(3, 1, Some(2), Recipient::Reply)])]);
    world.put(done);
    world.settle();
    assert!(matches!(world.state_of(M), MessageState::Completed { how: Completion::Answered, .. }));
    assert_eq!(world.outside.launched.len(), 1);
}

/// Running agents are limited, in total and per agent; the longest waiting one replaces the longest idle one.
#[test]
fn places() {
    for toml in [per_thread("max_parallel = 2"), format!("max_containers = 2\n{}", per_thread("max_parallel = 9"))] {
        let mut world = World::of(&toml);
        threads(&mut world, &["a", "b", "c", "d"]);
        world.settle();
        assert_eq!(live(&world), [1, 2]);
        for session in [1, 2].map(SessionId::new) {
            let claims = world.outside.write(session, vec![claim(2, 1)]);
            world.put(claims);
        }
        pass(&mut world, 20);
        // An agent that is stopped during a turn would be the first to get the slot again.
        let stopped = |session| world.incarnation(SessionId::new(session), 1).stopped_for;
        assert_eq!((live(&world), stopped(1), stopped(2)), (vec![1, 2], None, None), "nobody is ended in a turn");
        answer(&mut world, 2, 2);
        assert_eq!(live(&world), [1, 3], "the one that is idle goes, the first that waits comes");
        assert_eq!(world.incarnation(SessionId::new(2), 1).stopped_for, Some(StopReason::MadeRoom));
        answer(&mut world, 1, 2);
        assert_eq!(live(&world), [3, 4]);
        answer(&mut world, 3, 2);
        answer(&mut world, 4, 2);
        pass(&mut world, 20);
        assert_eq!(live(&world), [3, 4], "nobody waits, nobody goes");
        assert!(world.all_messages().iter().all(|(_, message)| message.tries == 0));
    }
}

/// A session that always has work does not keep its slot from one that waits longer.
#[test]
fn nobody_starves() {
    let mut world = World::of(&format!("max_containers = 1\n{}", per_thread("")));
    threads(&mut world, &["busy", "busy"]);
    threads(&mut world, &["waits"]);
    world.settle();
    let mut seq = 2;
    for _ in 0..4 {
        threads(&mut world, &["busy"]);
        if live(&world) == [1] {
            answer(&mut world, 1, seq);
            seq += 2;
        }
    }
    assert_eq!(live(&world), [2], "after the busy one's older messages");
    assert_eq!(seq, 6);
    answer(&mut world, 2, 2);
    assert_eq!(live(&world), [1], "and back");
}

/// An agent at its own limit gets no slot by ending another agent's incarnation.
#[test]
fn another_agents_idle_incarnation_is_left_alone() {
    let two = r#"
[[agents]]
folder = "other"
[[chats]]
channel = "net"
platform_id = "D"
unknown_senders = "public"
[[chats.wirings]]
agent = "other"
engage = "pattern"
pattern = "."
"#;
    let mut world = World::of(&format!("{}{two}", per_thread("max_parallel = 1")));
    world.inject(&event_in(("net", "D", None), ("d", "x", ""), ""));
    world.settle();
    answer(&mut world, 1, 2);
    threads(&mut world, &["a", "b"]);
    world.settle();
    pass(&mut world, 20);
    assert_eq!(live(&world), [1, 2]);
}

/// A turn that fails without a message is reported once to every chat with a question in it, whichever of its messages
/// the acknowledgement names.
#[test]
fn a_failed_turn_is_told_wherever_somebody_asked() {
    for lead in [0, 1, 2] {
        let mut world =
            World::of(&format!("{ONE}ignored = \"accumulate\"\n").replace("pattern = \".\"", "pattern = \"ask\""));
        let said = [("context", None), ("ask", Some("a")), ("ask", Some("b")), ("ask more", Some("b"))];
        for (n, (text, thread)) in said.into_iter().enumerate() {
            world.inject(&event_in(("net", "C", thread), (&n.to_string(), text, ""), ""));
        }
        world.settle();
        let mut seqs = vec![2, 4, 6, 8];
        let mut found = seqs.iter().map(|seq| claim(*seq, 1)).collect::<Vec<_>>();
        let first = seqs.remove(lead);
        let mut ended = failed(first, 1, "no luck");
        if let Record::End { also, .. } = &mut ended.record {
            also.clone_from(&seqs);
        }
        found.push(ended);
        let input = world.outside.write(S, found);
        world.put(input);
        let told: Vec<_> =
            world.all_outbound().into_iter().map(|(_, said)| said.to.unwrap().thread.unwrap().to_string()).collect();
        let mut places = told.clone();
        places.sort();
        assert_eq!(places, ["a", "b"], "acknowledged by {first}");
        assert!(world.all_messages().iter().all(|(_, message)| matches!(message.state, MessageState::Failed { .. })));
    }
}
