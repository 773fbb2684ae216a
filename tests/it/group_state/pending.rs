//! Messages that programs of the group say they will answer.

use hearth::model::Millis;
use hearth::model::group::{GroupInput, StateChange};
use hearth::model::id::{MessageId, SessionId};
use hearth::model::mailbox::Target;
use hearth::model::message::MessageState;
use serde_json::{Value, json};

use super::{Shared, full};
use crate::world::event;
use crate::world::outside::{claim, end, failed, said};

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
    // A late clear of another message does nothing.
    shared.group(GroupInput::StateChange(StateChange::Clear("x9".to_owned())));
    shared.look(3);
    assert_eq!(shared.json()["pending_response"], b);
    shared.foreign(|file| file["pending_response"] = Value::Null);
    shared.look(3);
    assert_eq!(shared.json()["pending_response"], a, "the first one waits still");
    shared.group(GroupInput::StateChange(StateChange::Clear("x1".to_owned())));
    shared.look(3);
    assert_eq!(shared.json()["pending_response"], Value::Null);
    // Somebody who did not know writes what is over.
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
}

/// What became of the message that an entry names says whether its agent still has to hear of it: by a number of a prompt
/// or by Hearth's id, with an answer, without one, given up, or of somebody else.
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
            Some(true) => vec![claim(2, 1), end(2, 1, vec![said(3, 1, Some(2), Target::Reply)])],
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
