//! Retention: what is removed when, and what stays because it is needed.

use std::cell::RefCell;
use std::rc::Rc;

use hearth::channel::event;
use hearth::engine::retention::needs_sent_files;
use hearth::model::configure::Change;
use hearth::model::content::BlobId;
use hearth::model::delivery::DeliveryResult;
use hearth::model::entity::Folder;
use hearth::model::id::{BodyId, MessageId, OutboundId, SessionId, TaskId};
use hearth::model::mailbox::{CollectedRecord, KeptFile, Recipient, RetryHint, Said};
use hearth::model::message::{Due, MessageState};
use hearth::model::policy::Policy;
use hearth::model::report::{Outcome, Reply};
use hearth::model::request::RequestedAction;
use hearth::model::task_command::{NewTask, TaskCommand};
use hearth::model::{Input, Millis, Timestamp};

use crate::world::outside::{claim, end, mid_turn, said, try_again};
use crate::world::{ONE, World, event_in};

const S: SessionId = SessionId::new(1);
const DAY: i64 = 24 * 60 * 60 * 1_000;

/// An event with a file whose bytes have this digest.
fn with_file(id: &str, digest: u8) -> Input {
    let more = r#""senderId":"ann","attachments":[{"name":"a.png","data":"eA=="}]"#;
    let json = event_in(("net", "C", None), (id, "see", more), "");
    let arrived = event::read(json.as_bytes()).unwrap();
    let event = arrived.keep(|_| Ok::<_, ()>(Ok(BlobId::of_digest(&[digest; 32])))).unwrap();
    Input::Inbound(Box::new(event))
}

fn plain(id: &str) -> Input {
    Input::Inbound(Box::new(event::parse(event_in(("net", "C", None), (id, "x", ""), "").as_bytes()).unwrap()))
}

/// An answer with a file.
fn with_kept(number: u64) -> Said {
    let attachment = hearth::model::content::Attachment {
        name: "r.pdf".to_owned(),
        size: 1,
        mime: None,
        blob: Ok(BlobId::of_digest(&[9; 32])).into(),
    };
    let kept = format!("se1/kept/1.out-1-{number}/r.pdf");
    Said { files: vec![KeptFile { kept, attachment }], ..said(number, 1, Some(2), Recipient::Reply) }
}

/// One message with a file, answered with a file; nothing runs any more.
fn answered() -> World {
    let mut world = World::of(ONE);
    world.put(with_file("m1", 1));
    world.settle();
    let written = world.outside.write(S, vec![claim(2, 1), mid_turn(with_kept(3)), end(2, 1, vec![])]);
    world.put(written);
    world.settle();
    let gone = world.outside.end(S, 1, hearth::model::incarnation::Exit::Code(0));
    world.put(gone);
    world.settle();
    world.sweep();
    world.settle();
    world
}

fn days(world: &mut World, days: i64) {
    match u64::try_from(days * DAY) {
        Ok(ms) => world.pass(Millis::new(ms)),
        Err(_) => world.step_clock(days * DAY),
    }
}

/// Sweeps until nothing is due any more. Returns the number of sweeps that removed something.
fn sweep_all(world: &mut World) -> usize {
    for sweeps in 0..1_000 {
        let Reply::Swept(caused) = world.put(Input::Sweep(world.outside.observations())) else { panic!() };
        world.settle();
        if !caused.iter().any(|one| ["expire", "remove", "release"].contains(&&*one.what)) {
            return sweeps;
        }
    }
    panic!("there is always something due");
}

/// Number of rows: journal, refusals, bodies, files, outgoing messages, remembered ids.
fn counts(world: &World) -> [u64; 6] {
    world.read(|db, txn| {
        Ok([
            db.journal.len(txn)?,
            db.dropped_events.len(txn)?,
            db.bodies.len(txn)?,
            db.bodies_by_file.len(txn)?,
            db.outbound.len(txn)?,
            db.seen_events.len(txn)?,
        ])
    })
}

fn blob_of(world: &World, id: u64) -> Result<BlobId, String> {
    world.read(|db, txn| {
        Ok(db.bodies.require(txn, &BodyId::new(id))?.attachments[0].blob.get().cloned().map_err(str::to_owned))
    })
}

#[test]
fn everything_goes_in_its_time() {
    let mut world = answered();
    world.inject(&event_in(("net", "C", None), ("refused", "x", ""), "").replace("\"C\"", "\"elsewhere\""));
    let mention = event_in(("net", "D", None), ("m2", "x", ""), r#""isMention":true"#);
    world.inject(&mention);
    let [journal, drops, ..] = counts(&world);
    assert!(journal > 0 && drops == 1, "{journal} {drops}");
    days(&mut world, 29);
    assert_eq!(sweep_all(&mut world), 0);
    let before = world.text();
    world.sweep();
    assert_eq!(world.text(), before, "nothing due, nothing written");
    days(&mut world, 2);
    assert_eq!(sweep_all(&mut world), 1);
    // The answer, the body and its remembered event stay; refusals are removed.
    assert_eq!(counts(&world), [0, 0, 1, 0, 1, 1]);
    assert_eq!(blob_of(&world, 1), Err("expired".to_owned()));
    assert_eq!(world.outside.unneeded, [BlobId::of_digest(&[1; 32])]);
    assert_eq!(world.outside.released, ["se1/kept/1.out-1-3/r.pdf"]);
    days(&mut world, 148);
    assert_eq!(sweep_all(&mut world), 0, "179 days");
    assert_eq!(world.inject(&event_in(("net", "C", None), ("m1", "again", ""), "")).outcome, Outcome::Duplicate);
    days(&mut world, 2);
    assert_eq!(sweep_all(&mut world), 1);
    assert_eq!(counts(&world), [0, 0, 0, 0, 0, 0]);
    let state = world.state_of(MessageId::new(1));
    assert!(matches!(state, MessageState::Completed { .. }), "the message's own row stays: {state:?}");
    world.assert_sound();
    let again = world.inject(&event_in(("net", "C", None), ("m1", "again", ""), ""));
    assert_eq!(again.outcome, Outcome::Routed, "nobody remembers it");
}

/// Messages of the session whose files its mailbox has, and those whose files the store promises.
fn readable(world: &World) -> (Vec<u64>, Vec<u64>) {
    let there = world.outside.files.get(&S).into_iter().flatten().copied().collect();
    let rows = world.read(|db, txn| db.session_files.collect_prefix(txn, &S, 100));
    (there, rows.into_iter().map(|(key, _)| key.seq).collect())
}

/// A turn with a message that has a file, or without an end.
fn turn_with_file(world: &mut World, id: &str, end_of: impl Fn(u64) -> CollectedRecord) -> u64 {
    world.put(with_file(id, 1));
    world.settle();
    let seq = *world.outside.inbox[&S].keys().last().unwrap();
    let written = world.outside.write(S, vec![claim(seq, 1), end_of(seq)]);
    world.put(written);
    world.settle();
    seq
}

/// The file is removed with those of its agent's retention, and its copy in the mailbox with it.
#[test]
fn files_stay_readable_as_long_as_they_are_kept() {
    let mut world = answered();
    assert_eq!(readable(&world), (vec![2], vec![2]));
    world.restart();
    world.settle();
    days(&mut world, 29);
    sweep_all(&mut world);
    // A new start restores what a lost mailbox had.
    world.outside.files.clear();
    world.put(plain("m2"));
    world.settle();
    assert_eq!(readable(&world), (vec![2], vec![2]));
    days(&mut world, 2);
    sweep_all(&mut world);
    assert_eq!(readable(&world), (vec![], vec![]));
    world.assert_sound();
}

#[test]
fn the_oldest_files_make_room_and_the_agent_is_told() {
    let mut world = World::of(&format!("session_files_max_bytes = 2\n{ONE}"));
    let done = |seq| end(seq, 1, vec![]);
    let seqs: Vec<u64> = ["m1", "m2"].into_iter().map(|id| turn_with_file(&mut world, id, done)).collect();
    assert_eq!(readable(&world), (seqs.clone(), seqs.clone()));
    let third = turn_with_file(&mut world, "m3", done);
    assert_eq!(readable(&world), (vec![seqs[1], third], vec![seqs[1], third]));
    // The note comes with the next turn.
    world.put(plain("m4"));
    world.settle();
    let note = world.outside.inbox[&S].values().find(|message| !message.trigger).unwrap().content.as_str().to_owned();
    assert!(note.contains(&format!("- a.png (message {})", seqs[0])) && !note.contains("- and"), "{note}");
    world.apply(&format!("session_files_max_bytes = 0\n{ONE}"));
    turn_with_file(&mut world, "m5", done);
    assert_eq!(readable(&world), (vec![], vec![]));
    world.assert_sound();
}

/// Files of a message that is retried or was never begun are no files of an ended message.
#[test]
fn only_files_that_an_agent_has_seen_outlive_their_message() {
    let mut world = World::of(ONE);
    let seq = turn_with_file(&mut world, "m1", |seq| try_again(seq, vec![], 1, RetryHint::Later));
    assert_eq!(readable(&world), (vec![], vec![]), "it is retried");
    world.pass(Millis::minutes(1));
    world.sweep();
    world.settle();
    assert_eq!(readable(&world), (vec![seq], vec![]));
    let number = world.session(S).live.unwrap();
    let written = world.outside.write(S, vec![claim(seq, number), end(seq, number, vec![])]);
    world.put(written);
    world.settle();
    assert_eq!(readable(&world), (vec![seq], vec![seq]));
    world.configure(vec![Change::ResetSession(S)]).unwrap();
    world.settle();
    assert_eq!(readable(&world), (vec![], vec![]), "a new conversation begins without them");
    world.put(with_file("m2", 2));
    world.settle();
    let seq = *world.outside.inbox[&S].keys().last().unwrap();
    let number = world.session(S).live.unwrap();
    let written = world.outside.write(S, vec![claim(seq, number), end(seq, number, vec![])]);
    world.put(written);
    assert_eq!(readable(&world), (vec![seq], vec![seq]));
    world.configure(vec![Change::RemoveAgent(Folder::new("main").unwrap())]).unwrap();
    world.settle();
    world.sweep();
    world.settle();
    assert_eq!(readable(&world), (vec![], vec![]), "an agent that is removed has none");
    world.assert_sound();
}

#[test]
fn what_is_needed_stays_until_it_is_over() {
    let mut world = World::of(&ONE.replace("pattern = \".\"", "pattern = \"^!\"\nignored = \"accumulate\""));
    world.put(with_file("m1", 1));
    days(&mut world, 400);
    world.put(plain("m2"));
    for _ in 0..3 {
        sweep_all(&mut world);
        days(&mut world, 1);
    }
    assert_eq!(world.state_of(MessageId::new(1)), MessageState::Pending(Due::Now));
    assert_eq!(counts(&world)[2..4], [2, 1], "a message that waits keeps its body and its file");
    assert!(blob_of(&world, 1).is_ok());
    sweep_all(&mut world);
    let before = world.text();
    world.sweep();
    assert_eq!(world.text(), before, "what is passed over is not looked at again all day");
    // Its retention ends eventually.
    world.inject(&event_in(("net", "C", None), ("m3", "!go", ""), ""));
    world.settle();
    let written = world.outside.write(S, vec![claim(2, 1), end(2, 1, vec![])]);
    world.put(written);
    world.settle();
    sweep_all(&mut world);
    days(&mut world, 1);
    sweep_all(&mut world);
    assert_eq!(counts(&world)[2..4], [2, 0]);
    assert_eq!(world.outside.unneeded, [BlobId::of_digest(&[1; 32])]);
}

#[test]
fn a_file_goes_with_the_last_message_that_needs_it() {
    let mut world = answered();
    days(&mut world, 20);
    world.put(with_file("m2", 1));
    world.settle();
    let written = world.outside.write(S, vec![claim(4, 2), end(4, 2, vec![])]);
    world.put(written);
    world.settle();
    days(&mut world, 15);
    sweep_all(&mut world);
    assert_eq!((blob_of(&world, 1).is_ok(), blob_of(&world, 2).is_ok()), (false, true));
    assert!(world.outside.unneeded.is_empty());
    days(&mut world, 20);
    sweep_all(&mut world);
    assert_eq!(world.outside.unneeded, [BlobId::of_digest(&[1; 32])]);
}

#[test]
fn the_file_says_how_long() {
    let mut world = answered();
    world.apply("[retention]\nbodies = \"forever\"\njournal = 5\nattachments = \"forever\"\ndrops = \"1d\"");
    let journal = counts(&world)[0];
    days(&mut world, 4);
    assert_eq!((sweep_all(&mut world), counts(&world)[0]), (0, journal));
    days(&mut world, 2);
    sweep_all(&mut world);
    assert_eq!(counts(&world), [0, 0, 1, 1, 1, 1]);
    days(&mut world, 10_000);
    assert_eq!((sweep_all(&mut world), counts(&world)), (0, [0, 0, 1, 1, 1, 1]));
    // Bodies that are removed before their remembered events leave these behind for their time.
    world.apply("[retention]\nbodies = \"7d\"\ndedup = \"20000d\"");
    sweep_all(&mut world);
    assert_eq!(counts(&world), [0, 0, 0, 0, 0, 1]);
    world.apply("[retention]\nbodies = \"7d\"");
    sweep_all(&mut world);
    assert_eq!(counts(&world)[5], 0);
}

/// After a clock that was ahead is corrected, nothing is removed because of it, and everything is removed at its time.
#[test]
fn a_clock_that_is_set_back() {
    let mut world = answered();
    world.apply("[retention]\nbodies = \"forever\"");
    days(&mut world, 40);
    sweep_all(&mut world);
    days(&mut world, -60);
    world.put(with_file("m2", 2));
    world.settle();
    sweep_all(&mut world);
    assert!(blob_of(&world, 2).is_ok());
    world.assert_sound();
}

#[test]
fn a_sweep_removes_a_slice() {
    let policy = Policy { retention_rows: 10, ..Policy::STANDARD };
    let mut world = World::with(policy, |_| {});
    world.apply(ONE);
    for number in 0..35 {
        world.inject(&event_in(("net", "C", None), (&format!("m{number}"), "x", ""), ""));
        world.inject(&event_in(("net", "D", None), (&format!("d{number}"), "x", ""), r#""isMention":true"#));
        world.lose_effects();
        world.pass(Millis::new(7));
    }
    days(&mut world, 31);
    let drops = |world: &World| counts(world)[1];
    assert_eq!(drops(&world), 35);
    world.sweep();
    assert_eq!(drops(&world), 25);
    world.lose_effects();
    sweep_all(&mut world);
    assert_eq!((drops(&world), counts(&world)[5]), (0, 35), "those that were stored are remembered");
}

/// A message that cannot be delivered for long, or an answer scheduled for a distant day, keeps its file.
#[test]
fn what_still_has_to_go_out_keeps_its_files() {
    let mut world = World::of(ONE);
    world.outside.channel = Box::new(|_| Some(hearth::model::delivery::DeliveryResult::Absent));
    world.put(with_file("m1", 1));
    world.settle();
    let written = world.outside.write(S, vec![claim(2, 1), mid_turn(with_kept(3)), end(2, 1, vec![])]);
    world.put(written);
    world.settle();
    days(&mut world, 400);
    sweep_all(&mut world);
    assert!(world.outside.released.is_empty());
    let state = world.outbound(OutboundId::new(1)).state;
    assert!(matches!(state, hearth::model::delivery::OutState::Waiting { .. }), "{state:?}");
    world.assert_sound();
}

/// The target of a queued edit stays until the edit was delivered. Otherwise the next attempt would be different from
/// the last one.
#[test]
fn what_is_still_to_be_edited_is_kept() {
    use hearth::model::address::ForeignId;
    use hearth::model::delivery::DeliveryAct;
    let mut world = World::of(ONE);
    let delivered = || DeliveryResult::Delivered { platform_message: Some(ForeignId::new("a message", "p1").unwrap()) };
    world.apply("[retention]\nbodies = \"30d\"");
    world.outside.channel = Box::new(move |_| Some(delivered()));
    world.inject(&event_in(("net", "C", None), ("m1", "hi", ""), ""));
    world.settle();
    let written = world.outside.write(S, vec![claim(2, 1), mid_turn(said(3, 1, Some(2), Recipient::Reply))]);
    world.put(written);
    world.settle();
    let first = OutboundId::new(1);
    assert!(matches!(world.outbound(first).state, hearth::model::delivery::OutState::Delivered { .. }));
    let tried: Rc<RefCell<Vec<DeliveryAct>>> = Rc::default();
    let heard = Rc::clone(&tried);
    world.outside.channel = Box::new(move |delivery| {
        heard.borrow_mut().push(delivery.act.clone());
        Some(DeliveryResult::NoAdapter)
    });
    let edit = Said { action: RequestedAction::Edit(3), ..said(5, 1, None, Recipient::Reply) };
    let written = world.outside.write(S, vec![mid_turn(edit), end(2, 1, vec![])]);
    world.put(written);
    world.settle();
    // The edit was queued when its target was already old.
    world
        .store()
        .write(|db, txn| {
            let mut row = db.outbound.require(txn, &OutboundId::new(2))?;
            row.stored = row.stored.plus(Millis::days(29));
            db.outbound.put(txn, &OutboundId::new(2), &row)
        })
        .unwrap();
    days(&mut world, 31);
    for _ in 0..3 {
        sweep_all(&mut world);
        world.pass(Millis::minutes(30));
    }
    let acts = tried.borrow().clone();
    assert!(acts.len() > 1 && acts.iter().all(|act| *act == acts[0]), "{acts:?}");
    assert!(matches!(&acts[0], DeliveryAct::Edit(_)), "{acts:?}");
    world.outside.channel = Box::new(move |_| Some(delivered()));
    days(&mut world, 2);
    sweep_all(&mut world);
    let state = world.outbound(OutboundId::new(2)).state;
    assert!(matches!(state, hearth::model::delivery::OutState::Delivered { .. }), "{state:?}");
    days(&mut world, 2);
    sweep_all(&mut world);
    assert!(world.read(|db, txn| db.outbound.get(txn, &first)).is_none(), "it goes when that is over");
    world.assert_sound();
}

/// Decided approvals are removed with the journal; open ones stay, whatever follows them.
#[test]
fn decisions_and_questions_go_when_they_are_over() {
    use hearth::model::approval::{Approval, ApprovalState, ApprovalSubject, Decider, Question, QuestionState};
    use hearth::model::id::{ApprovalId, QuestionId};
    let mut world = answered();
    let now = world.now().wall;
    let place = world.message(MessageId::new(1)).reply.unwrap();
    let approval = |state| Approval {
        about: ApprovalSubject::CreateAgent { session: S, name: "x".into(), instructions: None },
        state,
        approver: None,
        nonce: 1,
        options: vec![],
        card: None,
        due: now,
        expires: now,
        created: now,
    };
    let question = |state| Question {
        session: S,
        incarnation: 1,
        request: "r".into(),
        number: 1,
        to: place.clone(),
        title: String::new(),
        body: String::new(),
        options: vec![],
        nonce: 1,
        card: None,
        state,
        expires: now,
        created: now,
    };
    let decided = || ApprovalState::Approved { by: Decider::Operator, at: now };
    let expired = || QuestionState::Expired { why: String::new(), at: now };
    let filled = world.store().write(|db, txn| {
        for state in [decided(), decided(), ApprovalState::Rejected { by: Decider::Operator, at: now }] {
            let id: ApprovalId = db.allocate(txn)?;
            db.approvals.put(txn, &id, &approval(state))?;
        }
        for state in [expired(), expired()] {
            let id: QuestionId = db.allocate(txn)?;
            db.questions.put(txn, &id, &question(state))?;
        }
        Ok::<_, hearth::state::Error>(())
    });
    filled.unwrap();
    world.assert_sound();
    let left = |world: &World| world.read(|db, txn| Ok((db.approvals.len(txn)?, db.questions.len(txn)?)));
    days(&mut world, 29);
    sweep_all(&mut world);
    assert_eq!(left(&world), (3, 2));
    days(&mut world, 2);
    sweep_all(&mut world);
    assert_eq!(left(&world), (0, 0));
}

/// A task is removed when it is finished, old, and has no records left; a paused one stays for ever.
#[test]
fn tasks_go_when_nothing_of_them_is_left() {
    let mut world = World::of(ONE);
    let ids: Vec<TaskId> = (0..3)
        .map(|number| {
            let task = NewTask { prompt: format!("{number}"), ..crate::world::schedules::new(&world, 60, None) };
            let Reply::Task(id, _) = world.put(crate::world::schedules::add(task)) else { panic!() };
            id
        })
        .collect();
    let [rests, ends, runs] = ids[..] else { panic!() };
    let left =
        |world: &World| ids.iter().map(|id| world.read(|db, txn| db.tasks.contains(txn, id))).collect::<Vec<_>>();
    world.put(Input::Task(TaskCommand::Pause(rests)));
    world.put(Input::Task(TaskCommand::Cancel(ends)));
    world.put(Input::Task(TaskCommand::Run(runs)));
    world.put(Input::Task(TaskCommand::Cancel(runs)));
    world.settle();
    days(&mut world, 20);
    sweep_all(&mut world);
    assert_eq!(left(&world), [true, true, true]);
    // Its message ends long after it was cancelled: the outcome is kept for the usual time.
    let (message, row) = world.all_messages().pop().unwrap();
    while world.session(row.session).live.is_none() {
        world.pass(Millis::minutes(1));
        world.sweep();
        world.settle();
    }
    let number = world.session(row.session).live.unwrap();
    let turn = world.outside.write(row.session, vec![claim(row.seq, number), end(row.seq, number, vec![])]);
    world.put(turn);
    world.settle();
    assert!(matches!(world.state_of(message), MessageState::Completed { .. }));
    for (more, expected) in [(11, [true, false, true]), (20, [true, false, false])] {
        days(&mut world, more);
        sweep_all(&mut world);
        assert_eq!(left(&world), expected);
        world.assert_sound();
    }
}

/// A sweep reports what it removed, by kind.
#[test]
fn what_goes_is_told() {
    let mut world = answered();
    days(&mut world, 31);
    let Reply::Swept(caused) = world.put(Input::Sweep(Vec::new())) else { panic!() };
    let told = |caused: &[hearth::model::report::Caused]| {
        let expired = caused.iter().filter(|one| one.what == "expire");
        expired.map(|one| one.about.split_once(' ').unwrap().1.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(told(&caused), ["journal entries", "messages' files", "sent messages' files", "costs of turns"]);
    days(&mut world, 150);
    let Reply::Swept(caused) = world.put(Input::Sweep(Vec::new())) else { panic!() };
    assert_eq!(told(&caused), ["messages' texts", "sent messages"]);
}

/// Files kept for sending: whether a message needs them, and how long those are kept that no message names.
#[test]
fn files_to_send_are_needed_until_they_are_sent_and_old() {
    let needed = |world: &World, wire_id: &str, since: Timestamp| {
        let now = world.now().wall;
        world.read(|db, txn| needs_sent_files(db, txn, S, wire_id, since, now))
    };
    for sent in [true, false] {
        let mut world = World::of(ONE);
        world.outside.channel = Box::new(move |_| {
            Some(if sent { DeliveryResult::Delivered { platform_message: None } } else { DeliveryResult::Absent })
        });
        world.put(plain("m1"));
        world.settle();
        let written = world.outside.write(S, vec![claim(2, 1), mid_turn(with_kept(3))]);
        world.put(written);
        world.settle();
        let began = world.now().wall;
        for (days_later, named, unknown) in [(0, true, true), (6, true, true), (2, true, false), (400, !sent, false)] {
            days(&mut world, days_later);
            assert_eq!(needed(&world, "out-1-3", began), named, "{sent} {days_later}");
            for id in ["out-1-5", &"x".repeat(5_000)] {
                assert_eq!(needed(&world, id, began), unknown, "{sent} {days_later}");
            }
        }
        world.apply("[retention]\nattachments = \"forever\"");
        assert!(needed(&world, "out-1-3", began));
    }
}
