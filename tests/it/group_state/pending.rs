//! Pending responses: messages that programs of the group have promised to answer.

use hearth::model::Millis;
use hearth::model::group::{PendingResponse, PendingState};
use hearth::model::id::{MessageId, SessionId};
use hearth::model::mailbox::Recipient;
use hearth::model::message::MessageState;
use hearth::model::policy::Policy;
use serde_json::{Value, json};

use super::{Shared, full};
use crate::world::outside::{claim, end, failed, said};
use crate::world::{event, event_in};

fn pending(id: &str, at: &str) -> Value {
    json!({"message_id": id, "preview": "…", "reacted_at": at})
}

#[test]
fn a_second_message_does_not_erase_the_first() {
    let mut shared = Shared::with(&full());
    shared.look(3);
    let (a, b) = (pending("x1", "2026-04-20T12:00:00Z"), pending("x2", "2026-04-20T12:00:05Z"));
    for entry in [&a, &b] {
        shared.foreign(|file| file["pending_response"] = entry.clone());
        shared.look(3);
        assert_eq!(shared.json()["pending_response"], *entry);
    }
    shared.foreign(|file| file["pending_response"] = Value::Null);
    shared.look(3);
    assert_eq!(shared.json()["pending_response"], a, "the first one waits still");
    shared.foreign(|file| file["pending_response"] = Value::Null);
    shared.look(3);
    assert_eq!(shared.json()["pending_response"], Value::Null);
    // A program with outdated data writes an entry that has ended.
    shared.foreign(|file| file["pending_response"] = b.clone());
    shared.look(3);
    assert_eq!(shared.json()["pending_response"], Value::Null);
    shared.world.assert_sound();
}

#[test]
fn what_nobody_went_on_with_is_told_once() {
    let mut shared = Shared::with(&full());
    shared.world.inject(&event("m1", "hi", "\"isMention\":true"));
    shared.world.settle();
    let before = shared.world.all_messages().len();
    shared.look(3);
    shared.foreign(|file| file["pending_response"] = pending("platform-7", "2026-04-20T11:59:00Z"));
    shared.look(3);
    shared.world.pass(Millis::minutes(13));
    shared.world.sweep();
    assert_eq!(shared.world.all_messages().len(), before, "it is not stale yet");
    shared.world.pass(Millis::minutes(2));
    for _ in 0..3 {
        shared.world.sweep();
        shared.look(3);
    }
    assert_eq!(shared.world.all_messages().len(), before + 1, "the agent is told once");
    assert_eq!(shared.json()["pending_response"], Value::Null);
    shared.world.pass(Millis::minutes(25 * 60));
    shared.world.sweep();
    assert_eq!(shared.world.read(|db, txn| db.pending_responses.len(txn)), 0);
    shared.world.assert_sound();
}

#[test]
fn what_is_worked_on_gets_more_time() {
    let mut shared = Shared::with(&full());
    shared.look(3);
    shared.world.inject(&event("m1", "hi", "\"isMention\":true"));
    let (id, message) = shared.world.all_messages().pop().unwrap();
    assert!(matches!(shared.world.state_of(id), MessageState::Pending(_)));
    shared.foreign(|file| file["pending_response"] = pending(&message.seq.to_string(), "2026-04-20T12:00:00Z"));
    shared.look(3);
    shared.world.lose_effects();
    shared.world.pass(Millis::minutes(16));
    shared.world.sweep();
    shared.look(3);
    assert_ne!(shared.json()["pending_response"], Value::Null);
    assert_eq!(shared.world.all_messages().len(), 1);
    let now = shared.world.now().wall;
    assert_eq!(
        entries(&shared)[0].due,
        now.plus(Policy::STANDARD.response_max),
        "it is looked at again later, not always"
    );
}

/// A finished entry begins again with another note about the same message, but not with the same note. It is stored as
/// long as a program might write it again.
#[test]
fn what_is_over_may_be_begun_again() {
    let mut shared = Shared::with(&full());
    shared.look(3);
    let begin = |shared: &mut Shared, at: &str| {
        shared.foreign(|file| file["pending_response"] = pending("x1", at));
        shared.look(3);
        entries(shared)[0].clone()
    };
    assert_eq!(begin(&mut shared, "2026-04-20T12:00:00Z").state, PendingState::Waiting);
    shared.world.pass(Millis::minutes(1));
    shared.foreign(|file| file["pending_response"] = Value::Null);
    shared.look(3);
    let fields = shared.world.read(|db, txn| db.state_fields.iter(txn)?.collect::<Result<Vec<_>, _>>());
    let slot = fields.iter().find(|(_, row)| row.name.as_str() == "pending_response").unwrap();
    assert_eq!(slot.1.changed, shared.world.now().wall);
    let over = entries(&shared)[0].clone();
    assert_eq!(over.due, shared.world.now().wall.plus(Policy::STANDARD.response_kept));
    assert_eq!(begin(&mut shared, "2026-04-20T12:00:00Z").state, PendingState::Cleared);
    assert_eq!(begin(&mut shared, "2026-04-20T12:00:01Z").state, PendingState::Waiting);
    // The same entry again while it is pending: it becomes the newest.
    let first = entries(&shared)[0].position;
    shared.foreign(|file| file["pending_response"] = pending("x2", "2026-04-20T12:00:02Z"));
    shared.look(3);
    shared.foreign(|file| file["pending_response"] = pending("x1", "2026-04-20T12:00:01Z"));
    shared.look(3);
    assert!(entries(&shared).iter().any(|row| row.message == "x1" && row.position > first));
}

/// A write of another field does not count as a write of the slot, but a slot that appears does.
#[test]
fn only_the_slot_is_the_slot() {
    let mut shared = Shared::with(&json!({"schema_version": 1}));
    shared.look(3);
    let a = pending("x1", "2026-04-20T12:00:00Z");
    shared.foreign(|file| file["pending_response"] = a.clone());
    shared.look(3);
    assert_eq!(entries(&shared).len(), 1);
    // The second of two entries is cleared. Before the slot shows the first one again, another field is written.
    let b = pending("x2", "2026-04-20T12:00:05Z");
    shared.foreign(|file| file["pending_response"] = b);
    shared.look(3);
    shared.foreign(|file| file["pending_response"] = Value::Null);
    shared.look(1);
    shared.foreign(|file| file["another"] = json!(1));
    shared.look(3);
    assert_eq!((entries(&shared)[0].state, shared.json()["pending_response"].clone()), (PendingState::Waiting, a));
}

/// A program empties the slot. If an older entry has its answer by then, that entry may be the one that was meant, and
/// the one in progress stays.
#[test]
fn a_slot_that_is_emptied_may_be_that_of_the_one_before() {
    for (answered, stays) in [(true, true), (false, false)] {
        let mut shared = Shared::with(&full());
        shared.look(3);
        for id in ["m1", "m2"] {
            shared.world.inject(&event(id, "hi", "\"isMention\":true"));
        }
        shared.world.settle();
        for number in ["2", "4"] {
            shared.foreign(|file| file["pending_response"] = pending(number, "2026-04-20T12:00:00Z"));
            shared.look(3);
        }
        if answered {
            let turn = vec![claim(2, 1), end(2, 1, vec![said(3, 1, Some(2), Recipient::Reply)])];
            let turn = shared.world.outside.write(SessionId::new(1), turn);
            shared.world.put(turn);
        }
        shared.foreign(|file| file["pending_response"] = Value::Null);
        shared.look(3);
        let state = |number: &str| entries(&shared).iter().find(|row| row.message == number).unwrap().state;
        let older = if answered { PendingState::Answered } else { PendingState::Waiting };
        let newer = if stays { PendingState::Waiting } else { PendingState::Cleared };
        assert_eq!((state("2"), state("4")), (older, newer), "{answered}");
    }
}

/// A number refers to the session in which that message was the newest before the note.
#[test]
fn a_number_is_that_of_the_newest_session_before_the_note() {
    for (noted, told) in [("12:00:30", "y"), ("12:10:00", "z"), ("12:30:00", "z")] {
        let mut shared = Shared::with(&full());
        shared.world.apply(&crate::world::ONE.replace("pattern = \".\"", "pattern = \".\"\nsession = \"per-thread\""));
        shared.look(3);
        // Two conversations with an unanswered message 2 each, ten minutes apart, the second one with the smaller id.
        for thread in ["z", "y"] {
            shared.world.inject(&event_in(("net", "C", Some(thread)), (thread, "hi", ""), ""));
        }
        let stored = |shared: &Shared, id: u64| shared.world.message(MessageId::new(id)).stored;
        assert_eq!(stored(&shared, 1), stored(&shared, 2));
        shared.world.settle();
        let later = shared.world.now().wall.plus(Millis::minutes(10));
        shared
            .world
            .store()
            .write(|db, txn| {
                let mut row = db.messages.require(txn, &MessageId::new(1))?;
                row.stored = later;
                db.messages.put(txn, &MessageId::new(1), &row)
            })
            .unwrap();
        for session in [1, 2] {
            let turn = shared.world.outside.write(SessionId::new(session), vec![claim(2, 1), end(2, 1, vec![])]);
            shared.world.put(turn);
            shared.world.settle();
        }
        shared.world.pass(Millis::minutes(31));
        shared.foreign(|file| file["pending_response"] = pending("2", &format!("2026-04-20T{noted}Z")));
        shared.look(3);
        shared.world.pass(Millis::minutes(60));
        shared.world.sweep();
        let (_, message) = shared.world.all_messages().pop().unwrap();
        let thread = shared.world.session(message.session).reply.and_then(|reply| reply.thread);
        assert_eq!(thread.unwrap().as_str(), told, "{noted}");
    }
}

/// An agent without a session cannot be reminded: its owner is told, with the agent's name and the note.
#[test]
fn where_nobody_can_be_asked_the_owner_is_told() {
    let mut shared = Shared::with(&full());
    shared.world.apply("[[chats]]\nchannel = \"terminal\"\nplatform_id = \"console\"\n");
    shared.world.lose_effects();
    shared.look(3);
    shared.foreign(|file| file["pending_response"] = pending("platform-7", "2026-04-20T11:59:00Z"));
    shared.look(3);
    shared.world.pass(Millis::minutes(16));
    shared.world.sweep();
    let said: Vec<String> = shared.world.all_outbound().into_iter().map(|(_, row)| row.text).collect();
    let words = "Agent main began to answer the message platform-7 at 2026-04-20T11:59:00.000Z";
    assert!(said.iter().any(|text| text.starts_with(words)), "{said:?}");
    assert_eq!(entries(&shared)[0].state, PendingState::GivenUp);
}

fn entries(shared: &Shared) -> Vec<PendingResponse> {
    shared.world.read(|db, txn| db.pending_responses.iter(txn)?.map(|row| row.map(|(_, row)| row)).collect())
}

/// The outcome of the message that an entry names decides whether its agent is reminded. The name is a number of a
/// prompt or Hearth's id; the message was answered, completed without an answer, failed, or belongs to another agent.
#[test]
fn what_was_answered_is_told_to_nobody() {
    for (named, ends, tells) in [
        ("2", Some(true), false),
        ("ms1", Some(true), false),
        ("2", Some(false), true),
        ("ms1", Some(false), true),
        ("ms9", Some(true), true),
        ("4", Some(true), true),
        ("2", None, false),
    ] {
        let mut shared = Shared::with(&full());
        shared.look(3);
        let world = &mut shared.world;
        world.inject(&event("m1", "hi", "\"isMention\":true"));
        world.settle();
        let (id, session) = (MessageId::new(1), SessionId::new(1));
        assert_eq!((world.message(id).seq, id.to_string().as_str()), (2, "ms1"));
        shared.foreign(|file| file["pending_response"] = pending(named, "2026-04-20T12:00:00Z"));
        shared.look(3);
        let world = &mut shared.world;
        let turn = match ends {
            Some(true) => vec![claim(2, 1), end(2, 1, vec![said(3, 1, Some(2), Recipient::Reply)])],
            Some(false) => vec![claim(2, 1), end(2, 1, vec![])],
            None => vec![claim(2, 1), failed(2, 1, "no model")],
        };
        let turn = world.outside.write(session, turn);
        world.put(turn);
        world.settle();
        let before = world.all_messages().len();
        world.pass(Millis::minutes(16));
        world.sweep();
        let told = world.all_messages().len() - before;
        assert_eq!(told, usize::from(tells), "{named} {ends:?}");
        if tells {
            let body = world.all_messages().pop().unwrap().1.body;
            let text = world.read(|db, txn| db.bodies.require(txn, &body)).content.text;
            assert!(text.contains(&format!("the message {named}, at 2026-04-20T12:00:00")), "{text}");
        }
        shared.look(3);
        assert_eq!(shared.json()["pending_response"], Value::Null, "{named} {ends:?}");
    }
}
