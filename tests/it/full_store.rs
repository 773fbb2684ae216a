//! Groups of inputs in which one fails, or for which the store has no space.

use hearth::model::configure::Change;
use hearth::model::effect::Effect;
use hearth::model::entity::Folder;
use hearth::model::id::{AgentId, ChatId, SessionId};
use hearth::model::incarnation::IncarnationId;
use hearth::model::mailbox::{Collection, Recipient};
use hearth::model::message::MessageState;
use hearth::model::policy::Policy;
use hearth::model::recall::{RecallScope, SaidId};
use hearth::model::report::{Outcome, Reply};
use hearth::model::session::{ChatSession, Session};
use hearth::model::{Input, Millis};
use hearth::state::Owned;
use hearth::state::recall::{self, source};

use crate::world::outside::{claim, end, said};
use crate::world::{ONE, World, event, event_in, inbound};

const S: SessionId = SessionId::new(1);

/// An input that is refused and one that fails leave nothing behind; the others of the group are stored.
#[test]
fn one_failure_harms_no_neighbour() {
    let mut world = World::of(ONE);
    world.inject(&event("0", "x", ""));
    world.store().write(|db, txn| db.incarnations.delete(txn, &IncarnationId::new(S, 1)).map(drop)).unwrap();
    let ghost = "[[chats]]\nchannel = \"net\"\nplatform_id = \"D\"\n[[chats.wirings]]\nagent = \"ghost\"";
    let answers = world.group(vec![
        inbound(&event_in(("net", "D", None), ("1", "x", ""), "\"isMention\":true")),
        Input::Configure(crate::world::configuration(ghost)),
        Input::Collected(Collection { session: S, found: vec![claim(2, 1)], closes: None }),
        inbound(&event_in(("net", "D", None), ("2", "x", ""), "\"isMention\":true")),
    ]);
    let answers: Vec<Option<Reply>> = answers.into_iter().map(|answer| answer.ok().map(|done| done.reply)).collect();
    let [Some(Reply::Routed(_)), Some(Reply::Refused(_)), None, Some(Reply::Routed(_))] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!(world.read(|db, txn| db.dropped_events.len(txn)), 2);
    assert!(matches!(world.all_messages()[0].1.state, MessageState::Pending(_)), "nothing of the claim is left");
    world
        .store()
        .write(|db, txn| {
            db.live_incarnations.discard_leftover(txn, &S)?;
            let (key, row) = db.sessions.first(txn, ..)?.unwrap();
            let chat = row.chat().unwrap();
            db.sessions.put(txn, &key, &Session::Chat(ChatSession { live: None, ..chat }))
        })
        .unwrap();
}

/// A full map refuses new work with its own code. Claims, ends, answers, deliveries and removals succeed, and when they
/// have freed space, new work is accepted again.
#[test]
fn a_full_map() {
    let mut world = World::with(Policy { backlog_max: 100_000, ..Policy::STANDARD }, |options| {
        options.map_bytes = Some(6 << 20);
    });
    world.apply(ONE);
    let large = "x".repeat(20_000);
    let mut taken = 0;
    let refusal = loop {
        match world.put(inbound(&event(&taken.to_string(), &large, ""))) {
            Reply::Routed(report) => assert_eq!(report.outcome, Outcome::Routed),
            Reply::Refused(refusal) => break refusal,
            other => panic!("{other:?}"),
        }
        world.lose_effects();
        taken += 1;
        assert!(taken < 1_000);
    };
    assert_eq!((refusal.code, world.all_messages().len()), ("store_full", taken));
    let full = crate::world::configuration("[[agents]]\nfolder = \"b\"").changes;
    assert_eq!(world.configure(full).unwrap_err().code, "store_full");
    // Changed limits and removals free space, so they are attempted.
    world.apply("store_max_bytes = 8388608");
    let gone = Change::RemoveAgent(Folder::new("nobody").unwrap());
    assert_eq!(world.configure(vec![gone]).unwrap_err().code, "invalid");
    world.sweep();
    world.restart();
    world.settle();
    let number = world.session(S).live.unwrap();
    for seq in (2..).step_by(2).take(taken) {
        let words = said(seq + 1_001, number, Some(seq), Recipient::Reply);
        let turn = vec![claim(seq, number), end(seq, number, vec![words])];
        world.put(Input::Collected(Collection { session: S, found: turn, closes: None }));
        world.settle();
    }
    assert_eq!(world.outside.shown.len(), taken);
    assert!(world.all_messages().iter().all(|(_, message)| matches!(message.state, MessageState::Completed { .. })));
    // Retention removes texts of messages, and the space is usable again.
    let bodies = |world: &World| world.read(|db, txn| db.bodies.iter(txn)?.collect::<Result<Vec<_>, _>>());
    let scope = RecallScope::Chat(AgentId::new(1), Some(ChatId::new(1)));
    for (id, body) in bodies(&world).into_iter().take(taken / 2) {
        let words = source::of_body(&body).unwrap().words();
        let removed = world.store().write(|db, txn| {
            for (Owned { id, .. }, ()) in db.messages_by_body.collect_prefix(txn, &id, usize::MAX)? {
                assert!(recall::remove(db, txn, scope, SaidId::Message(id), &words)?);
            }
            db.bodies.delete(txn, &id)
        });
        removed.unwrap();
    }
    assert_eq!(world.inject(&event("new", &large, "")).outcome, Outcome::Routed);
}

/// A group that is larger than the remaining space: inputs that end work are stored, new work is refused with its own
/// code, nothing is lost.
#[test]
fn a_group_that_does_not_fit() {
    let mut world = World::with(Policy::STANDARD, |options| options.map_bytes = Some(4 << 20));
    world.apply(ONE);
    world.inject(&event("first", "x", ""));
    world.settle();
    let large = "x".repeat(100_000);
    let mut inputs: Vec<Input> = (0..60).map(|n| inbound(&event(&n.to_string(), &large, ""))).collect();
    inputs.insert(0, inbound(&event("small", "x", "")));
    let turn = vec![claim(2, 1), end(2, 1, vec![said(1_001, 1, Some(2), Recipient::Reply)])];
    inputs.push(Input::Collected(Collection { session: S, found: turn, closes: None }));
    let answers = world.group(inputs);
    let (mut routed, mut refused) = (0, 0);
    for answer in answers {
        match answer.unwrap().reply {
            Reply::Routed(_) => routed += 1,
            Reply::Refused(refusal) => {
                assert_eq!(refusal.code, "store_full");
                refused += 1;
            }
            _ => {}
        }
    }
    assert!(routed > 0 && refused > 0, "{routed} {refused}");
    assert_eq!(world.all_messages().len(), routed + 1);
    assert!(matches!(world.all_messages()[0].1.state, MessageState::Completed { .. }), "the end got through");
    assert_eq!(world.all_messages()[1].1.seq, 1_002, "what ends work went first");
}

/// There is some space, but not enough: refused as if there were none, each time, and without a fault.
#[test]
fn an_event_that_does_not_fit() {
    let large = "x".repeat(500_000);
    let mut too_large = 0;
    for kib in (1_300..2_100).step_by(100) {
        let mut world = World::with(Policy::STANDARD, |options| options.map_bytes = Some(kib << 10));
        world.apply(ONE);
        for n in 0..5 {
            let open = world.store().admission().unwrap() == hearth::state::Admission::Open;
            match world.put(inbound(&event(&n.to_string(), &large, ""))) {
                Reply::Refused(refusal) => {
                    assert_eq!(refusal.code, "store_full");
                    too_large += usize::from(open);
                }
                reply => assert!(matches!(reply, Reply::Routed(_)), "{reply:?}"),
            }
            world.lose_effects();
        }
        world.assert_sound();
    }
    assert!(too_large > 0, "it was refused where there was room for less");
}

/// An input that fails on a damaged row is a fault, not a lack of space.
#[test]
fn a_row_that_is_missing_is_no_full_store() {
    let mut world = World::of(ONE);
    let id = ChatId::new(1);
    let lost = world.read(|db, txn| db.chats.require(txn, &id));
    world.store().write(|db, txn| db.chats.rows().delete(txn, &id).map(drop)).unwrap();
    let answer = world.try_put(inbound(&event("1", "x", "")));
    assert!(answer.as_ref().is_err_and(|error| error.is_damage()), "{answer:?}");
    world.store().write(|db, txn| db.chats.rows().put(txn, &id, &lost)).unwrap();
}

/// Removing frees space, so it has to work when there is none.
#[test]
fn continuations_run_in_a_full_store() {
    let mut world = World::with(Policy::STANDARD, |options| options.map_bytes = Some(6 << 20));
    world.apply(ONE);
    world.configure(vec![Change::RemoveAgent(Folder::new("main").unwrap())]).unwrap();
    world.apply(ONE);
    let large = "x".repeat(20_000);
    let mut n = 0;
    while matches!(world.put(inbound(&event(&n.to_string(), &large, ""))), Reply::Routed(_)) {
        n += 1;
    }
    world.settle();
    for _ in 0..40 {
        world.pass(Millis::seconds(1));
        world.sweep();
        world.settle();
    }
    assert!(world.effects.iter().all(|effect| !matches!(effect, Effect::Continue(_))));
    world.assert_sound();
}
