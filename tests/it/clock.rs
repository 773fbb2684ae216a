//! Clocks that are wrong, are set, pause during suspension, or change their time zone.

use hearth::model::id::{AgentId, TaskId};
use hearth::model::input::ClockChange;
use hearth::model::report::Reply;
use hearth::model::task::{FireOutcome, Missed, Overlap, Task, TaskHome, TaskOrigin};
use hearth::model::task_command::{NewTask, Patch, TaskCommand};
use hearth::model::{Effect, Input, Millis, Timestamp};

use crate::world::outside::{claim, end};
use crate::world::{ONE, World, event};

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

fn add(world: &mut World, first: Option<&str>, recurrence: Option<&str>) -> TaskId {
    let new = NewTask {
        agent: AgentId::new(1),
        home: TaskHome::Maintenance,
        prompt: "Look".to_owned(),
        script: None,
        reply: None,
        first: first.map(str::to_owned),
        recurrence: recurrence.map(str::to_owned),
        missed: Missed::RunOnce,
        overlap: Overlap::Refuse,
        origin: TaskOrigin::Operator,
        allow: Vec::new(),
    };
    match world.put(Input::Task(TaskCommand::Add(Box::new(new)))) {
        Reply::Task(id, _) => id,
        other => panic!("{other:?}"),
    }
}

fn task(world: &World, id: TaskId) -> Task {
    world.read(|db, txn| db.tasks.require(txn, &id))
}

fn next(world: &World, id: TaskId) -> String {
    task(world, id).next.map(|at| at.to_string()).unwrap_or_default()
}

/// Slots with a record, and the outcome of each in one word.
fn fires(world: &World, id: TaskId) -> Vec<String> {
    let rows = world.read(|db, txn| db.task_runs.collect_prefix(txn, &id, 1_000));
    let word = |outcome: &FireOutcome| match outcome {
        FireOutcome::Skipped { until, .. } => format!("skipped until {until}"),
        FireOutcome::Running(_) => "running".to_owned(),
        FireOutcome::Done(_) => "done".to_owned(),
        other => format!("{other:?}"),
    };
    rows.into_iter().map(|(slot, fire)| format!("{} {}", slot.at, word(&fire.outcome))).collect()
}

/// A sweep. The agent does at once everything it is given.
fn sweep(world: &mut World) {
    world.sweep();
    world.settle();
    let running: Vec<_> = world.outside.running.iter().map(|(id, number)| (*id, *number)).collect();
    for (session, number) in running {
        let waiting: Vec<u64> = world.outside.inbox[&session].keys().copied().collect();
        for seq in waiting {
            let written = world.outside.write(session, vec![claim(seq, number), end(seq, number, vec![])]);
            world.put(written);
            world.settle();
        }
    }
}

fn set_back(world: &mut World, ms: i64) {
    world.step_clock(-ms);
    world.put(Input::Clock(ClockChange::SetBack(Millis::new(u64::try_from(ms).unwrap()))));
    sweep(world);
}

#[test]
fn a_wrong_future_does_not_silence_a_series() {
    // The engine is told, or the daemon starts and finds out.
    for told in [true, false] {
        let mut world = World::of(ONE);
        let daily = add(&mut world, None, Some("0 9 * * *"));
        world.step_clock(400 * DAY);
        sweep(&mut world);
        assert_eq!(next(&world, daily), "2027-05-26T09:00:00.000Z");
        if told {
            set_back(&mut world, 400 * DAY);
        } else {
            world.step_clock(-400 * DAY);
            world.restart();
            sweep(&mut world);
        }
        assert_eq!(next(&world, daily), "2026-04-21T09:00:00.000Z");
        assert_eq!(fires(&world, daily), ["2027-05-25T09:00:00.000Z done"], "what was skipped is to come again");
        world.step_clock(DAY);
        sweep(&mut world);
        assert_eq!(fires(&world, daily)[0], "2026-04-21T09:00:00.000Z done");
        world.step_clock(398 * DAY);
        sweep(&mut world);
        assert_eq!(fires(&world, daily)[1], "2026-04-22T09:00:00.000Z skipped until 2027-05-23T09:00:00.000Z");
        world.step_clock(DAY);
        sweep(&mut world);
        assert_eq!(next(&world, daily), "2027-05-26T09:00:00.000Z", "a slot that was used is not the next one");
        assert_eq!(world.all_messages().len(), 3, "{:?}", fires(&world, daily));
    }
}

/// A damaged task is reported, and does not keep other tasks in the previous time zone.
#[test]
fn a_move_to_another_zone_passes_over_a_task_that_cannot_be_read() {
    let mut world = World::of(ONE);
    let lost = add(&mut world, None, Some("0 9 * * *"));
    let daily = add(&mut world, None, Some("0 9 * * *"));
    let row = task(&world, lost);
    world.store().write(|db, txn| db.tasks.rows().delete(txn, &lost).map(drop)).unwrap();
    world.move_to("Asia/Tokyo");
    assert_eq!(next(&world, daily), "2026-04-21T00:00:00.000Z");
    world.store().write(|db, txn| db.tasks.rows().put(txn, &lost, &row)).unwrap();
}

#[test]
fn what_was_used_is_not_used_again_when_the_clock_goes_back_over_it() {
    let mut world = World::of(ONE);
    let hourly = add(&mut world, None, Some("0 * * * *"));
    let grid = add(&mut world, None, Some("1h"));
    for _ in 0..6 {
        world.pass(Millis::minutes(60));
        sweep(&mut world);
    }
    let before = (fires(&world, hourly), fires(&world, grid), world.all_messages().len());
    assert_eq!(before.2, 12);
    set_back(&mut world, 3 * HOUR + 60_000);
    assert_eq!(next(&world, hourly), "2026-04-20T19:00:00.000Z");
    assert_eq!(next(&world, grid), "2026-04-20T19:00:00.000Z");
    for _ in 0..3 {
        world.pass(Millis::minutes(60));
        sweep(&mut world);
    }
    assert_eq!((fires(&world, hourly), fires(&world, grid), world.all_messages().len()), before);
    world.pass(Millis::minutes(62));
    sweep(&mut world);
    assert_eq!(world.all_messages().len(), 14);
}

#[test]
fn instants_that_somebody_asked_for_stay() {
    let mut world = World::of(ONE);
    let once = add(&mut world, Some("2026-04-25T10:00:00"), None);
    let later = add(&mut world, Some("2026-04-25T10:30:00"), Some("0 9 * * *"));
    world.step_clock(DAY);
    // Created while the clock is a day ahead: its grid counts from today on.
    let grid = add(&mut world, None, Some("6h"));
    set_back(&mut world, DAY);
    assert_eq!(next(&world, once), "2026-04-25T10:00:00.000Z");
    assert_eq!(next(&world, later), "2026-04-25T10:30:00.000Z");
    assert_eq!(next(&world, grid), "2026-04-20T18:00:00.000Z");
    world.step_clock(30 * DAY);
    sweep(&mut world);
    assert_eq!(next(&world, later), "2026-05-21T09:00:00.000Z");
    set_back(&mut world, 30 * DAY);
    assert_eq!(next(&world, once), "", "it was used, early");
    assert_eq!(next(&world, later), "2026-04-25T10:30:00.000Z", "it was only skipped, so it comes again");
}

/// A grid that was changed while the clock was a day ahead counts from today, even if the task was paused before the
/// clock was corrected.
#[test]
fn a_grid_of_a_wrong_future_is_asked_for_by_nobody() {
    let mut world = World::of(ONE);
    let grid = add(&mut world, None, Some("6h"));
    world.step_clock(DAY);
    let change =
        hearth::model::task_command::TaskChange { recurrence: Patch::Set("4h".to_owned()), ..Default::default() };
    world.put(Input::Task(TaskCommand::Set(grid, Box::new(change))));
    world.step_clock(-DAY);
    world.put(Input::Task(TaskCommand::Pause(grid)));
    world.put(Input::Task(TaskCommand::Resume(grid)));
    world.put(Input::Clock(ClockChange::SetBack(Millis::days(1))));
    sweep(&mut world);
    assert_eq!(next(&world, grid), "2026-04-20T16:00:00.000Z");
}

#[test]
fn a_night_on_which_clocks_change_and_the_machine_sleeps_has_every_slot_once() {
    let mut world = World::of(ONE);
    world.move_to("America/New_York");
    world.step_clock(Timestamp::parse("2026-11-01T03:00:00Z").unwrap().since(world.now().wall).get().cast_signed());
    let (twice, hourly) = (add(&mut world, None, Some("30 1 * * *")), add(&mut world, None, Some("30 * * * *")));
    for _ in 0..10 {
        world.pass(Millis::minutes(30));
        sweep(&mut world);
    }
    assert_eq!(fires(&world, twice), ["2026-11-01T05:30:00.000Z done"]);
    assert_eq!(fires(&world, hourly).len(), 5);
    let nights = Timestamp::parse("2027-03-14T06:00:00Z").unwrap().since(world.now().wall).get().cast_signed();
    world.step_clock(nights);
    sweep(&mut world);
    let before = fires(&world, hourly).len();
    world.step_clock(4 * HOUR); // the machine sleeps through the gap
    sweep(&mut world);
    assert_eq!(fires(&world, hourly).len(), before + 2, "the newest one ran, a record says what became of the others");
    assert!(
        fires(&world, hourly)[before].contains("skipped until 2027-03-14T08:30:00.000Z"),
        "{:?}",
        fires(&world, hourly)
    );
}

#[test]
fn the_machine_can_move_while_it_runs() {
    // One agent uses the machine's time zone, and another, with its own, is not told of the change.
    let own = "\n[[agents]]\nfolder = \"own\"\ntimezone = \"Asia/Tokyo\"\n";
    let wired = ONE.rsplit("[[chats]]").next().unwrap().replace("\"main\"", "\"own\"").replace("\"C\"", "\"D\"");
    let mut world = World::of(&format!("{ONE}{own}[[chats]]{wired}"));
    world.inject(&event("m1", "hi", ""));
    world.inject(&crate::world::event_in(("net", "D", None), ("m2", "hi", ""), ""));
    world.settle();
    assert_eq!(world.outside.running.len(), 2);
    let daily = add(&mut world, None, Some("0 9 * * *"));
    let once = add(&mut world, Some("2026-04-22T10:00:00"), None);
    assert_eq!(next(&world, daily), "2026-04-21T09:00:00.000Z");
    world.lose_effects();
    world.move_to("Asia/Kolkata");
    assert_eq!(next(&world, daily), "2026-04-21T03:30:00.000Z");
    assert_eq!(next(&world, once), "2026-04-22T10:00:00.000Z");
    let told = |effect: &Effect| matches!(effect, Effect::Export(export) if export.context.is_some());
    assert_eq!(world.effects.iter().filter(|effect| told(effect)).count(), 1, "the context is written again");
    world.settle();
    // With a configured time zone, the machine's time zone is not used.
    let mut world = World::of(&format!("timezone = \"Asia/Tokyo\"\n{ONE}"));
    world.inject(&event("m1", "hi", ""));
    world.settle();
    world.move_to("Asia/Kolkata");
    assert!(!world.effects.iter().any(told));
    world.settle();
}

/// Nine in New York had passed when the machine's or the installation's time zone changed to it. That slot is not made
/// up, unlike nine in UTC.
#[test]
fn what_rested_when_the_machine_or_the_house_moved_is_due_as_it_was() {
    let moves: [fn(&mut World); 2] =
        [|world| world.move_to("America/New_York"), |world| drop(world.apply("timezone = \"America/New_York\"\n"))];
    for move_there in moves {
        let mut world = World::of(ONE);
        let daily = add(&mut world, None, Some("0 9 * * *"));
        world.put(Input::Task(TaskCommand::Pause(daily)));
        world.step_clock(DAY + 3 * HOUR / 2);
        sweep(&mut world);
        move_there(&mut world);
        assert_eq!(next(&world, daily), "2026-04-21T09:00:00.000Z");
        assert_eq!(fires(&world, daily), ["2026-04-21T09:00:00.000Z Queued"]);
        world.restart();
        world.put(Input::Task(TaskCommand::Resume(daily)));
        sweep(&mut world);
        assert_eq!(fires(&world, daily), ["2026-04-21T09:00:00.000Z done"]);
        assert_eq!(next(&world, daily), "2026-04-22T13:00:00.000Z");
        world.assert_sound();
    }
}

/// Data removed for its age does not come back.
#[test]
fn nothing_is_removed_by_a_clock_that_has_just_jumped_ahead() {
    let mut world = World::of(ONE);
    world.inject(&event("m1", "hi", ""));
    sweep(&mut world);
    let bodies = |world: &World| world.read(|db, txn| db.bodies.len(txn));
    world.step_clock(1_000 * DAY);
    for _ in 0..59 {
        world.pass(Millis::minutes(1));
        sweep(&mut world);
        assert_eq!(bodies(&world), 1);
    }
    set_back(&mut world, 1_000 * DAY);
    world.pass(Millis::minutes(120));
    sweep(&mut world);
    assert_eq!(bodies(&world), 1, "the clock was wrong");
    world.step_clock(1_000 * DAY);
    sweep(&mut world);
    world.pass(Millis::minutes(61));
    sweep(&mut world);
    assert_eq!(bodies(&world), 0, "the clock is right");
}

#[test]
fn the_engine_says_when_something_is_due_next() {
    let mut world = World::of(ONE);
    assert_eq!(world.next_due(), None);
    let id = add(&mut world, Some("2026-04-20T12:00:10.250"), Some("1h"));
    assert_eq!(world.next_due(), Some(Millis::new(10_250)));
    world.pass(Millis::new(10_250));
    assert_eq!(world.next_due(), None, "what is due already is for the sweep");
    sweep(&mut world);
    assert_eq!(fires(&world, id), ["2026-04-20T12:00:10.250Z done"]);
    assert_eq!(world.next_due(), Some(Millis::minutes(60)));
}

/// With the real daemon and the real clocks. Nothing is started, since there is no slot.
#[test]
fn due_work_begins_within_a_second_of_its_time() {
    use hearth::config::Paths;
    use hearth::daemon::{Daemon, DaemonOptions};
    use hearth::model::configure::RuntimeKind;
    use hearth::model::policy::Policy;
    let directory = tempfile::tempdir().unwrap();
    let paths = Paths::find(Some(&directory.path().join("data"))).unwrap();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let policy = Policy { max_containers: 0, ..Policy::STANDARD };
    let opening = hearth::daemon::opening::Opening::OrNew;
    let options = DaemonOptions { policy, runtime: Some(RuntimeKind::Process), metrics: None, opening };
    let daemon = Daemon::start(&paths, options, tokio.handle()).unwrap();
    let submit = |input| tokio.block_on(daemon.submit(input, false)).unwrap();
    submit(Input::Configure(crate::world::configuration("[[agents]]\nfolder = \"main\"\n")));
    let new = NewTask {
        agent: AgentId::new(1),
        home: TaskHome::Maintenance,
        prompt: "Look".to_owned(),
        script: None,
        reply: None,
        first: None,
        recurrence: Some("1370".to_owned()),
        missed: Missed::RunOnce,
        overlap: Overlap::Refuse,
        origin: TaskOrigin::Operator,
        allow: Vec::new(),
    };
    let Reply::Task(id, _) = submit(Input::Task(TaskCommand::Add(Box::new(new)))) else { panic!() };
    let late = crate::host::wait_for("three slots", || {
        let fires = daemon.store().read(|db, txn| db.task_runs.collect_prefix(txn, &id, 9)).unwrap();
        let late: Vec<u64> = fires.iter().map(|(slot, fire)| fire.at.since(slot.at).get()).collect();
        (late.len() >= 3).then_some(late)
    });
    daemon.shut_down().unwrap();
    eprintln!("late by {late:?} ms");
    assert!(late.iter().all(|late| *late < 1_000), "{late:?}");
}
