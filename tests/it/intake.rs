//! Unexpected output of agents: unknown numbers, turns that name too much, repeated answers, files that are found after
//! their incarnation is gone.

use hearth::model::id::{MessageId, SessionId};
use hearth::model::incarnation::{Exit, StopReason};
use hearth::model::mailbox::{Answer, CollectedRecord, Collection, Failure, Recipient, Record, RetryHint};
use hearth::model::message::{Completion, MessageState};
use hearth::model::task::TaskHome;
use hearth::model::task_command::NewTask;
use hearth::model::{Input, Millis};

use crate::world::lifecycle::{answer, pass, running};
use crate::world::outside::{claim, end, mid_turn, said};
use crate::world::schedules;
use crate::world::{World, event};

const S: SessionId = SessionId::new(1);
const M: MessageId = MessageId::new(1);

/// The end of a turn of message 2, with the given content.
fn turn(also: Vec<u64>, error: Option<&str>, answers: Vec<Answer>) -> Input {
    let failure = error.map(|error| Failure { error: error.to_owned(), again: RetryHint::Never });
    let record = Record::End { seq: 2, also, incarnation: 1, failure, gated: None, answers };
    Input::Collected(Collection { session: S, found: vec![CollectedRecord { record, files: vec![] }], closes: None })
}

fn told(world: &World) -> Vec<String> {
    world.all_outbound().into_iter().map(|(_, outbound)| outbound.text).collect()
}

/// An agent claims a message that does not exist: no later message gets its number, or the same file would refer to
/// that one. A far-off number uses nothing up.
#[test]
fn a_number_that_was_taken_in_vain_is_never_given() {
    for (seq, next) in [(1, 4), (98, 100), (1_000_002, 1_000_004), (1_000_004, 4), (u64::MAX, 4)] {
        for ends in [false, true] {
            let mut world = running();
            let found = if ends { end(seq, 1, vec![]) } else { claim(seq, 1) };
            let found = Input::Collected(Collection { session: S, found: vec![found], closes: None });
            world.put(found.clone());
            world.inject(&event("2", "y", ""));
            assert_eq!(world.message(MessageId::new(2)).seq, next, "{seq}");
            world.put(found);
            let waits = |id| matches!(world.state_of(MessageId::new(id)), MessageState::Pending(_));
            assert!(waits(1) && waits(2), "{seq}");
        }
    }
}

/// An agent that reported its own failure gets no second failure notice.
#[test]
fn a_failure_is_told_by_the_agent_or_else_by_the_host() {
    for (says, expected) in [
        (true, "words 3"),
        (false, "The agent could not process your message. Its owner can find out why with `hearth why ms1`."),
    ] {
        let mut world = running();
        let answers = says.then(|| Answer::Read(Box::new(said(3, 1, Some(2), Recipient::Reply))));
        world.put(turn(vec![], Some("too long"), answers.into_iter().collect()));
        world.settle();
        assert!(matches!(world.state_of(M), MessageState::Failed { .. }));
        assert_eq!(told(&world), [expected]);
        assert_eq!(world.outside.settled.last().unwrap().answers.len(), 1);
    }
}

/// A turn that names its own message again, one that has ended, and one that does not exist: each ends once.
#[test]
fn a_turn_ends_only_what_is_open() {
    let mut world = running();
    for id in ["2", "3"] {
        world.inject(&event(id, "y", ""));
    }
    world.settle();
    answer(&mut world, 1, 4);
    let over = world.message(MessageId::new(2));
    world.pass(Millis::seconds(1));
    let answers = vec![Answer::Read(Box::new(said(7, 1, Some(2), Recipient::Reply)))];
    world.put(turn(vec![2, 4, 6, 98], None, answers));
    world.settle();
    assert_eq!(world.message(MessageId::new(2)), over);
    assert!(world.all_messages().iter().all(|(_, message)| matches!(message.state, MessageState::Completed { .. })));
    let ids: Vec<MessageId> = world.outside.settled.iter().map(|settled| settled.message).collect();
    assert_eq!(ids, [2, 3, 1].map(MessageId::new), "their sources are told once each");
    assert_eq!(told(&world), ["words 7"]);
}

/// An answer whose file is gone: it was already sent, or the turn failed.
#[test]
fn an_answer_that_was_said_at_once_is_not_missing() {
    for (id, problem) in [("out-1-3", None), ("out-1-5", Some("did not write it"))] {
        let mut world = running();
        let found = vec![claim(2, 1), mid_turn(said(3, 1, Some(2), Recipient::Reply))];
        world.put(Input::Collected(Collection { session: S, found, closes: None }));
        world.put(turn(vec![], None, vec![Answer::Missing(id.to_owned())]));
        match (world.state_of(M), problem) {
            (MessageState::Completed { how: Completion::Answered, .. }, None) => {}
            (MessageState::Failed { error, .. }, Some(words)) => assert!(error.contains(words), "{error}"),
            other => panic!("{other:?}"),
        }
    }
}

/// Collected files that could not be removed are not collected again when their incarnation is gone.
#[test]
fn what_was_taken_in_is_known_after_its_incarnation() {
    let mut world = running();
    let found = vec![
        claim(2, 1),
        mid_turn(said(3, 1, Some(2), Recipient::Reply)),
        end(2, 1, vec![said(5, 1, Some(2), Recipient::Reply)]),
    ];
    let found = Input::Collected(Collection { session: S, found, closes: None });
    world.put(found.clone());
    world.settle();
    let gone = world.outside.end(S, 1, Exit::Code(0));
    world.put(gone);
    world.settle();
    for live in [None, Some(2)] {
        assert_eq!(world.session(S).live, live);
        let before = world.text();
        world.put(found.clone());
        assert_eq!(world.text(), before);
        world.inject(&event("2", "y", ""));
        world.settle();
    }
}

/// An agent that writes during its turn is working: it does not count as stuck.
#[test]
fn what_is_said_at_once_is_progress() {
    for says in [true, false] {
        let mut world = running();
        let claims = world.outside.write(S, vec![claim(2, 1)]);
        world.put(claims);
        pass(&mut world, 50);
        if says {
            let words = world.outside.write(S, vec![mid_turn(said(3, 1, Some(2), Recipient::Reply))]);
            world.put(words);
            world.settle();
        }
        pass(&mut world, 100);
        assert_eq!(world.incarnation(S, 1).stopped_for, (!says).then_some(StopReason::ClaimStuck));
    }
}

/// Files found in one look have no order in time: claims are applied first, then messages, then ends. Output about the
/// previous message is no progress of the next one; output about the next one is.
#[test]
fn what_ends_or_is_said_of_the_last_message_is_no_progress_of_the_next() {
    let words = |about| mid_turn(said(7, 1, about, Recipient::Reply));
    let done = || end(2, 1, vec![said(9, 1, Some(2), Recipient::Reply)]);
    for (number, first, look, works) in [
        (1, vec![claim(2, 1)], vec![claim(4, 1), done()], false),
        (2, vec![claim(2, 1)], vec![claim(4, 1), words(Some(2)), done()], false),
        (3, vec![claim(2, 1)], vec![claim(4, 1), words(Some(2))], false),
        (4, vec![claim(2, 1)], vec![claim(4, 1), words(Some(4)), done()], true),
        (5, vec![claim(2, 1)], vec![claim(4, 1), words(None), done()], true),
        (6, vec![], vec![claim(2, 1), claim(4, 1), words(Some(2)), done()], false),
        (7, vec![], vec![claim(2, 1), claim(4, 1), words(Some(4)), done()], true),
        // Both belong to one turn.
        (8, vec![], vec![claim(2, 1), claim(4, 1), words(Some(2))], true),
    ] {
        let mut world = running();
        world.inject(&event("2", "y", ""));
        world.settle();
        for found in [first, look] {
            let found = world.outside.write(S, found);
            world.put(found);
            pass(&mut world, 10);
        }
        pass(&mut world, 100);
        let stopped = world.incarnation(S, 1).stopped_for;
        assert_eq!(stopped, (!works).then_some(StopReason::ClaimStuck), "case {number}");
    }
}

/// An agent that only writes has not begun to work: its starts count as failed until it claims a message.
#[test]
fn words_before_a_claim_are_no_start() {
    let mut world = World::of(crate::world::ONE);
    world.outside.startable = false;
    world.inject(&event("1", "x", ""));
    world.settle();
    world.outside.startable = true;
    pass(&mut world, 30);
    let number = world.session(S).live.unwrap();
    for (found, failed) in [(mid_turn(said(3, number, None, Recipient::Reply)), 1), (claim(2, number), 0)] {
        let found = world.outside.write(S, vec![found]);
        world.put(found);
        assert_eq!(world.session(S).failed_starts, failed);
    }
}

/// The answer of a task that names no destination goes to its conversation's address.
#[test]
fn a_task_of_a_conversation_answers_there() {
    let mut world = running();
    answer(&mut world, 1, 2);
    let home = TaskHome::Session(S);
    world.put(schedules::add(NewTask { home, reply: None, ..schedules::new(&world, 1, None) }));
    pass(&mut world, 10);
    let (id, message) = world.all_messages().pop().unwrap();
    let done = end(message.seq, 1, vec![said(9, 1, Some(message.seq), Recipient::Reply)]);
    let done = world.outside.write(S, vec![claim(message.seq, 1), done]);
    world.put(done);
    world.settle();
    assert!(matches!(world.state_of(id), MessageState::Completed { .. }));
    assert_eq!(told(&world), ["words 9"]);
}
