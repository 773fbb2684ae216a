//! Edge cases of tasks: full backlogs, removed agents, closed sessions, old records.

use hearth::model::configure::Change;
use hearth::model::delivery::Outbound;
use hearth::model::entity::Folder;
use hearth::model::id::{AgentId, ChatId, SessionId, TaskId};
use hearth::model::mailbox::{CollectedRecord, Collection, Failure, Recipient, Record, RetryHint, Said};
use hearth::model::policy::Policy;
use hearth::model::recall::{RecallScope, SaidId};
use hearth::model::report::Reply;
use hearth::model::task::{FireOutcome, Gated, SkipReason, Task, TaskHome, TaskState};
use hearth::model::task_command::{NewTask, TaskCommand};
use hearth::model::{Address, ChannelName, ForeignId, Input, Millis};
use hearth::state::recall::{self, source};
use hearth::state::{Tables, Write};

use crate::world::lifecycle::answer;
use crate::world::outside::{claim, end, said};
use crate::world::schedules::{add, new};
use crate::world::{ONE, World, event, event_in, inbound};

const T: TaskId = TaskId::new(1);
const S: SessionId = SessionId::new(1);

fn task(world: &World) -> Task {
    world.read(|db, txn| db.tasks.require(txn, &T))
}

fn outcomes(world: &World) -> Vec<FireOutcome> {
    world.read(|db, txn| db.task_runs.iter(txn)?.map(|row| row.map(|(_, fire)| fire.outcome)).collect())
}

/// Runs a one-time task to its end, with these answers of the incarnation.
fn done_once(answers: impl FnOnce(u32) -> Vec<Said>) -> World {
    let mut world = World::of(ONE);
    world.put(add(new(&world, 60, None)));
    world.pass(Millis::minutes(2));
    world.sweep();
    world.settle();
    let number = world.session(S).live.unwrap();
    let done = world.outside.write(S, vec![claim(2, number), end(2, number, answers(number))]);
    world.put(done);
    world.settle();
    assert!(matches!(outcomes(&world)[..], [FireOutcome::Done(_)]), "{:?}", outcomes(&world));
    world
}

/// One command or one sweep each, with a snapshot of the store.
#[test]
fn tasks_in_the_store() {
    let mut world = World::of(ONE);
    world.begin_script();
    world.put(add(new(&world, 60, Some("1m"))));
    world.check("tasks_added");
    for name in ["tasks_fired", "tasks_skipped"] {
        world.begin_script();
        world.pass(Millis::minutes(1));
        world.put(Input::Sweep(Vec::new()));
        world.check(name);
    }
    for (command, name) in [(TaskCommand::Pause(T), "tasks_paused"), (TaskCommand::Cancel(T), "tasks_cancelled")] {
        world.begin_script();
        world.put(Input::Task(command));
        world.check(name);
    }
}

/// Sends large messages until the store is full. Returns their number.
fn fill(world: &mut World) -> usize {
    let large = "x".repeat(20_000);
    let mut taken = 0;
    while matches!(world.put(inbound(&event(&taken.to_string(), &large, ""))), Reply::Routed(_)) {
        world.lose_effects();
        taken += 1;
        assert!(taken < 1_000);
    }
    taken
}

#[test]
fn where_there_is_no_room_a_time_waits_and_all_else_goes_on() {
    let mut world = World::with(Policy { backlog_max: 100_000, ..Policy::STANDARD }, |options| {
        options.map_bytes = Some(6 << 20);
    });
    world.apply(ONE);
    assert!(matches!(world.put(add(new(&world, 60, Some("1h")))), Reply::Task(..)));
    let taken = fill(&mut world);
    let due = task(&world).next;
    world.pass(Millis::minutes(2));
    assert!(matches!(world.put(Input::Sweep(Vec::new())), Reply::Swept(_)));
    assert_eq!((task(&world).next, outcomes(&world).len()), (due, 0), "it stays due");
    assert!(matches!(world.put(Input::Task(TaskCommand::Run(T))), Reply::Refused(_)));
    assert!(matches!(world.put(Input::Task(TaskCommand::Pause(T))), Reply::Task(..)), "ends need no room");
    assert!(matches!(world.put(Input::Task(TaskCommand::Resume(T))), Reply::Task(..)));
    assert_eq!((task(&world).next, outcomes(&world).len()), (due, 0), "not by a resumption either");
    world.restart();
    world.settle();
    while world.session(S).live.is_none() {
        world.pass(Millis::minutes(1));
        world.sweep();
        world.settle();
    }
    let number = world.session(S).live.unwrap();
    for seq in (2..).step_by(2).take(taken) {
        let turn = vec![claim(seq, number), end(seq, number, vec![])];
        world.put(Input::Collected(Collection { session: S, found: turn, closes: None }));
        world.settle();
    }
    assert_eq!((task(&world).next, outcomes(&world).len()), (due, 0));
    let bodies: Vec<_> = world.read(|db, txn| db.bodies.iter(txn)?.collect::<Result<Vec<_>, _>>());
    for (id, body) in bodies.into_iter().take(taken / 2) {
        let words = source::of_body(&body).unwrap().words();
        let scope = RecallScope::Chat(AgentId::new(1), Some(ChatId::new(1)));
        let forget = |db: &Tables, txn: &mut Write<'_>| {
            for (key, ()) in db.messages_by_body.collect_prefix(txn, &id, 9)? {
                recall::remove(db, txn, scope, SaidId::Message(key.id), &words)?;
            }
            db.bodies.delete(txn, &id).map(drop)
        };
        world.store().write(forget).unwrap();
    }
    world.put(Input::Sweep(Vec::new()));
    assert!(matches!(outcomes(&world)[..], [FireOutcome::Running(_)]), "{:?}", outcomes(&world));
    assert!(task(&world).next > due);
}

#[test]
fn a_sweep_twice_is_a_sweep_once() {
    let mut world = World::of(ONE);
    world.put(add(new(&world, 60, Some("1h"))));
    world.pass(Millis::minutes(2));
    world.sweep();
    let once = world.text();
    world.sweep();
    assert_eq!(world.text(), once);
    world.assert_sound();
}

#[test]
fn tasks_and_the_maintenance_session_go_with_their_agent() {
    let mut world = World::of(ONE);
    for _ in 0..300 {
        world.put(add(new(&world, 60, Some("1h"))));
    }
    world.pass(Millis::minutes(2));
    world.sweep();
    world.lose_effects();
    let fired = |world: &World| {
        outcomes(world).into_iter().filter(|outcome| !matches!(outcome, FireOutcome::Skipped { .. })).count()
    };
    let before = fired(&world);
    world.configure(vec![Change::RemoveAgent(Folder::new("main").unwrap())]).unwrap();
    for _ in 0..60 {
        world.pass(Millis::seconds(30));
        world.sweep();
        world.settle();
        world.assert_sound();
    }
    let left = world.read(|db, txn| {
        Ok((
            db.tasks_due.len(txn)?,
            db.tasks_by_agent.len(txn)?,
            db.maintenance_sessions.len(txn)?,
            db.ready_messages.len(txn)?,
        ))
    });
    assert_eq!(left, (0, 0, 0, 0));
    assert_eq!((task(&world).state, fired(&world)), (TaskState::Cancelled, before));
}

#[test]
fn old_records_go_and_tasks_that_are_over_with_them() {
    let mut world = done_once(|_| vec![]);
    world.pass(Millis::days(29));
    world.sweep();
    assert_eq!(outcomes(&world).len(), 1);
    world.pass(Millis::days(2));
    for _ in 0..3 {
        world.sweep();
    }
    assert_eq!((outcomes(&world).len(), world.read(|db, txn| db.tasks.len(txn))), (0, 0));
    world.assert_sound();
}

/// The final text of a run without a conversation is stored; that it is not delivered is no failure.
#[test]
fn an_answer_for_nobody_is_no_failure() {
    done_once(|number| vec![said(3, number, Some(2), Recipient::Reply)]).assert_sound();
}

/// The third failure in a row is reported to the owner. A script's failure is also reported to the reply address.
#[test]
fn a_task_that_fails_again_and_again_is_told() {
    for (script, places) in [(None, vec!["t"]), (Some("exit 1".to_owned()), vec!["t", "C"])] {
        let mut world = World::of(ONE);
        // The owner is at the terminal.
        world.inject(&event_in(("terminal", "t", None), ("o", "x", ""), ""));
        world.apply("[[chats]]\nchannel = \"terminal\"\nplatform_id = \"t\"");
        let reply = Some(hearth::model::Address {
            channel: hearth::model::ChannelName::new("net").unwrap(),
            platform_id: hearth::model::ForeignId::new("chat", "C").unwrap(),
            thread: None,
        });
        let scripted = script.is_some();
        world.put(add(NewTask { script: script.clone(), reply, ..new(&world, 60, Some("10m")) }));
        let told = |world: &World| -> Vec<(String, String)> {
            let all = world.all_outbound().into_iter().map(|(_, row)| row);
            let row = |row: Outbound| (row.to.unwrap().platform_id.to_string(), row.text);
            all.filter(|row| row.text.contains("failed several times in a row")).map(row).collect()
        };
        for run in 1..=4 {
            world.pass(Millis::minutes(10));
            world.sweep();
            world.settle();
            let message = world.all_messages().pop().unwrap().1;
            let body = world.read(|db, txn| db.bodies.require(txn, &message.body));
            let given: serde_json::Value = serde_json::from_str(body.content.raw.as_str()).unwrap();
            assert_eq!(given.get("script").and_then(|text| text.as_str()), script.as_deref());
            let (session, seq) = (message.session, message.seq);
            let incarnation = world.session(session).live.unwrap();
            let why = "no model".to_owned();
            let failure = (!scripted).then(|| Failure { error: why.clone(), again: RetryHint::Never });
            let gated = scripted.then_some(Gated { why, failed: true });
            let record = Record::End { seq, also: vec![], incarnation, failure, gated, answers: vec![] };
            let over = CollectedRecord { record, files: vec![format!("ack/{seq}.json")] };
            let turn = world.outside.write(session, vec![claim(seq, incarnation), over]);
            world.put(turn);
            world.settle();
            let found: Vec<String> = told(&world).into_iter().map(|(place, _)| place).collect();
            assert_eq!(found, if run < 3 { vec![] } else { places.clone() }, "{scripted} {run}");
        }
        let words = "The scheduled task ta1 of main failed several times in a row: no model. See `hearth tasks";
        let plain = "The agent failed several times in a row at the scheduled task ta1; its owner has been told.";
        let told = told(&world);
        let is_told =
            |(place, text): &(String, String)| if place == "t" { text.starts_with(words) } else { text == plain };
        assert!(told.iter().all(is_told), "{told:?}");
    }
}

#[test]
fn a_task_of_a_session_that_is_over_runs_in_the_maintenance_session() {
    let mut world = World::of(ONE);
    world.inject(&event("m1", "x", ""));
    world.settle();
    let home = TaskHome::Session(S);
    let gone = Address {
        channel: ChannelName::new("net").unwrap(),
        platform_id: ForeignId::new("chat", "gone").unwrap(),
        thread: None,
    };
    world.put(add(NewTask { home, reply: Some(gone), ..new(&world, 60, Some("1h")) }));
    world.pass(Millis::minutes(2));
    world.sweep();
    let first = world.all_messages().pop().unwrap().1;
    assert_eq!(first.session, S);
    assert_eq!(first.reply, world.session(S).reply, "a chat that is not there gets no answers");
    // Nothing archives sessions yet; the row is changed as such a feature would.
    world
        .store()
        .write(|db, txn| {
            let (key, row) = db.sessions.first(txn, ..)?.unwrap();
            let status = hearth::model::session::SessionStatus::Archived;
            let chat = hearth::model::session::ChatSession { status, ..row.chat().unwrap() };
            db.sessions.put(txn, &key, &hearth::model::session::Session::Chat(chat))?;
            db.tasks.update(txn, &T, |task| task.running = None).map(drop)
        })
        .unwrap();
    world.pass(Millis::minutes(60));
    world.sweep();
    let second = world.all_messages().pop().unwrap().1;
    assert_ne!(second.session, S);
    assert_eq!(world.session(second.session).name, hearth::model::session::SessionName::Maintenance);
}

#[test]
fn a_task_answers_in_its_chat_until_that_is_removed() {
    let (channel, chat) = (ChannelName::new("net").unwrap(), ForeignId::new("chat", "C").unwrap());
    let to = Address { channel: channel.clone(), platform_id: chat.clone(), thread: None };
    for removed in [false, true] {
        let mut world = World::of(ONE);
        world.put(add(NewTask { reply: Some(to.clone()), ..new(&world, 60, None) }));
        if removed {
            world.configure(vec![Change::RemoveChat(channel.clone(), chat.clone())]).unwrap();
        }
        world.pass(Millis::minutes(2));
        world.sweep();
        let message = world.all_messages().pop().unwrap().1;
        assert_eq!(message.reply, Some(to.clone()).filter(|_| !removed));
    }
}

/// A paused task is run by hand at one of its times. When it is resumed, only those after it were missed.
#[test]
fn a_time_at_which_a_task_was_run_by_hand_was_not_missed() {
    let mut world = World::of(ONE);
    world.put(add(new(&world, 60, Some("1m"))));
    world.put(Input::Task(TaskCommand::Pause(T)));
    world.pass(Millis::minutes(1));
    world.put(Input::Task(TaskCommand::Run(T)));
    world.settle();
    let session = world.all_messages().pop().unwrap().1.session;
    answer(&mut world, session.number(), 2);
    world.pass(Millis::minutes(1));
    let missed = world.now().wall;
    world.pass(Millis::minutes(1));
    world.put(Input::Task(TaskCommand::Resume(T)));
    let skipped = FireOutcome::Skipped { reason: SkipReason::Missed, until: missed, count: Some(1) };
    let found = outcomes(&world);
    assert!(matches!(&found[..], [FireOutcome::Done(_), two, FireOutcome::Running(_)] if *two == skipped), "{found:?}");
}

/// A time waits while the agent has as many messages as it may, and comes when one of them is done.
#[test]
fn a_time_waits_while_the_backlog_is_full() {
    let mut world = World::with(Policy { backlog_max: 3, ..Policy::STANDARD }, |_| {});
    world.apply(ONE);
    world.put(add(new(&world, 60, Some("1h"))));
    for id in ["1", "2", "3"] {
        world.inject(&event(id, "hello", ""));
    }
    world.settle();
    let due = task(&world).next;
    world.pass(Millis::minutes(2));
    world.sweep();
    world.settle();
    assert_eq!((task(&world).next, outcomes(&world)), (due, vec![]));
    answer(&mut world, 1, 2);
    world.sweep();
    assert!(matches!(outcomes(&world)[..], [FireOutcome::Running(_)]), "{:?}", outcomes(&world));
    assert!(task(&world).next > due);
    world.assert_sound();
}

/// While the store is full, not even a record is made that a time was skipped.
#[test]
fn a_time_stays_due_in_a_full_store_although_its_task_runs() {
    let mut world = World::with(Policy { backlog_max: 100_000, ..Policy::STANDARD }, |options| {
        options.map_bytes = Some(6 << 20);
    });
    world.apply(ONE);
    world.put(add(new(&world, 60, Some("1h"))));
    world.pass(Millis::minutes(2));
    world.sweep();
    assert!(matches!(outcomes(&world)[..], [FireOutcome::Running(_)]), "{:?}", outcomes(&world));
    fill(&mut world);
    let due = task(&world).next;
    world.pass(Millis::minutes(60));
    world.put(Input::Sweep(Vec::new()));
    assert_eq!((task(&world).next, outcomes(&world).len()), (due, 1));
}

/// Only a time that would run waits for room: one that is skipped leaves no message.
#[test]
fn a_time_is_skipped_while_its_task_runs_even_without_room() {
    let mut world = World::with(Policy { backlog_max: 3, ..Policy::STANDARD }, |_| {});
    world.apply(ONE);
    world.put(add(new(&world, 60, Some("1m"))));
    world.pass(Millis::minutes(1));
    world.sweep();
    world.settle();
    assert!(matches!(outcomes(&world)[..], [FireOutcome::Running(_)]), "{:?}", outcomes(&world));
    for id in ["1", "2", "3"] {
        world.inject(&event(id, "hello", ""));
    }
    let due = task(&world).next;
    world.pass(Millis::minutes(1));
    world.sweep();
    assert!(matches!(outcomes(&world)[..], [_, FireOutcome::Skipped { .. }]), "{:?}", outcomes(&world));
    assert!(task(&world).next > due);
    world.assert_sound();
}
