use crate::schedule::run::due;
use crate::schedule::tests::*;
use crate::state::OccurrenceId;

/// An occurrence that was used while the clock was ahead comes again while another one waits. It takes no place in the
/// backlog.
#[test]
fn a_used_slot_does_not_take_the_place_of_one_that_waits() {
    let scene = scene();
    add(&scene, NewTask { overlap: Overlap::Queue, ..new(None, Some("0 * * * *")) }).unwrap();
    done(&scene, sweep(&scene, "2026-01-15T15:00:00Z").running.unwrap());
    set_clock(&scene, "2026-01-15T12:30:00Z");
    let running = sweep(&scene, "2026-01-15T13:00:00Z").running.unwrap();
    assert_eq!(shown(sweep(&scene, "2026-01-15T14:00:00Z").queued), "2026-01-15T14:00:00.000Z");
    let late = sweep(&scene, "2026-01-15T15:30:00Z");
    assert_eq!(
        (shown(late.queued), shown(late.next)),
        ("2026-01-15T14:00:00.000Z".into(), "2026-01-15T16:00:00.000Z".into())
    );
    done(&scene, running);
    let outcomes = fires(&scene);
    assert_eq!(outcomes.len(), 3, "{outcomes:?}");
    assert!(matches!(outcomes[1].1, FireOutcome::Running(_)), "{outcomes:?}");
    assert!(matches!(outcomes[2].1, FireOutcome::Done(_)), "{outcomes:?}");
}

#[test]
fn a_slot_that_waits_and_has_not_come_after_all_comes_in_its_time() {
    let scene = scene();
    add(&scene, NewTask { overlap: Overlap::Queue, ..new(None, Some("0 * * * *")) }).unwrap();
    let running = sweep(&scene, "2026-01-15T13:00:00Z").running.unwrap();
    assert_eq!(shown(sweep(&scene, "2026-01-15T20:00:00Z").queued), "2026-01-15T20:00:00.000Z");
    set_clock(&scene, "2026-01-15T13:30:00Z");
    let back = task(&scene);
    assert_eq!((back.queued, shown(back.next)), (None, "2026-01-15T14:00:00.000Z".to_owned()));
    assert_eq!(fires(&scene).len(), 1);
    done(&scene, running);
    assert_eq!(task(&scene).running, None);
}

#[test]
fn a_slot_that_waits_stays_due_while_there_is_no_place_for_it() {
    for paused in [false, true] {
        let scene = scene();
        add(&scene, NewTask { overlap: Overlap::Queue, ..new(None, Some("0 * * * *")) }).unwrap();
        let running = sweep(&scene, "2026-01-15T13:00:00Z").running.unwrap();
        sweep(&scene, "2026-01-15T14:00:00Z");
        if paused {
            tell(&scene, TaskCommand::Pause(T)).unwrap();
        }
        done_without_room(&scene, running);
        let waiting = task(&scene);
        assert_eq!((waiting.running, waiting.queued), (None, None));
        assert_eq!(shown(waiting.next), "2026-01-15T14:00:00.000Z");
        let later = sweep(&scene, "2026-01-15T14:10:00Z");
        assert_eq!(later.running.is_some(), !paused);
        let later = if paused { tell(&scene, TaskCommand::Resume(T)).unwrap() } else { later };
        assert!(later.running.is_some());
        assert_eq!(shown(later.next), "2026-01-15T15:00:00.000Z");
        assert_eq!(fires(&scene).len(), 2);
    }
}

/// A message ends while there is no space for another one.
fn done_without_room(scene: &Scene, message: MessageId) {
    scene.done(|tx, _| {
        tx.cx.has_room = false;
        let over = MessageState::Completed { how: Completion::Answered, at: tx.now.wall };
        messages::end(tx, message, over, Vec::new()).map(|_| Ok(Vec::new()))
    });
}

#[test]
fn a_slot_that_waited_too_long_is_skipped_once_and_so_are_those_after_it() {
    let scene = scene();
    let new = NewTask { overlap: Overlap::Queue, missed: Missed::Skip, ..new(None, Some("0 * * * *")) };
    add(&scene, new).unwrap();
    let running = sweep(&scene, "2026-01-15T13:00:00Z").running.unwrap();
    sweep(&scene, "2026-01-15T14:00:00Z");
    assert_eq!(shown(sweep(&scene, "2026-01-15T17:30:00Z").queued), "2026-01-15T14:00:00.000Z");
    done_without_room(&scene, running);
    assert_eq!(shown(task(&scene).next), "2026-01-15T14:00:00.000Z");
    assert_eq!(shown(sweep(&scene, "2026-01-15T17:31:00Z").next), "2026-01-15T18:00:00.000Z");
    let missed = |first, until, count| {
        let outcome = FireOutcome::Skipped { reason: SkipReason::Missed, until: at(until), count: Some(count) };
        (at(first).to_string(), outcome)
    };
    let expected = [
        missed("2026-01-15T14:00:00Z", "2026-01-15T14:00:00Z", 1),
        missed("2026-01-15T15:00:00Z", "2026-01-15T16:00:00Z", 2),
        missed("2026-01-15T17:00:00Z", "2026-01-15T17:00:00Z", 1),
    ];
    assert_eq!(fires(&scene)[1..], expected);
}

/// Between an occurrence of the old schedule and the change there may be occurrences of the new schedule, which were
/// never intended.
#[test]
fn a_slot_that_waited_does_not_bring_times_that_the_task_did_not_have_then() {
    let scene = scene();
    add(&scene, NewTask { overlap: Overlap::Queue, ..new(None, Some("0 * * * *")) }).unwrap();
    let running = sweep(&scene, "2026-01-15T13:00:00Z").running.unwrap();
    sweep(&scene, "2026-01-15T14:00:00Z");
    scene.jump(at("2026-01-15T14:55:00Z"));
    let other = TaskChange { recurrence: Patch::Set("*/10 * * * *".to_owned()), ..TaskChange::default() };
    tell(&scene, TaskCommand::Set(T, Box::new(other))).unwrap();
    done_without_room(&scene, running);
    assert_eq!(shown(task(&scene).next), "2026-01-15T14:00:00.000Z");
    let later = sweep(&scene, "2026-01-15T15:00:00Z");
    assert!(later.running.is_some());
    let slots: Vec<String> = fires(&scene).into_iter().map(|(slot, _)| slot).collect();
    assert_eq!(slots, ["2026-01-15T13:00:00.000Z", "2026-01-15T14:00:00.000Z", "2026-01-15T15:00:00.000Z"]);
}

/// Occurrences that are due but wait for the backlog when the series ends or its schedule changes.
#[test]
fn what_was_due_when_its_series_ended_is_skipped() {
    let other = TaskChange { recurrence: Patch::Set("30 * * * *".to_owned()), ..TaskChange::default() };
    let renamed = TaskChange { prompt: Some("other words".to_owned()), ..TaskChange::default() };
    for (command, skipped) in [
        (Some(TaskCommand::Cancel(T)), true),
        (Some(TaskCommand::Set(T, Box::new(other))), true),
        (Some(TaskCommand::Set(T, Box::new(renamed))), false),
        (None, true), // its agent is removed
    ] {
        let scene = scene();
        add(&scene, NewTask { overlap: Overlap::Queue, ..new(None, Some("0 * * * *")) }).unwrap();
        let running = sweep(&scene, "2026-01-15T13:00:00Z").running.unwrap();
        sweep(&scene, "2026-01-15T14:00:00Z");
        tell(&scene, TaskCommand::Pause(T)).unwrap(); // so that nothing uses them meanwhile
        done_without_room(&scene, running);
        sweep(&scene, "2026-01-15T15:10:00Z");
        match command {
            Some(command) => drop(tell(&scene, command).unwrap()),
            None => drop(scene.done(|tx, _| agents::remove(tx, &folder("a")))),
        }
        let records = fires(&scene);
        let outcome = |until| FireOutcome::Skipped { reason: SkipReason::Missed, until: at(until), count: Some(1) };
        let record = |slot, outcome| (at(slot).to_string(), outcome);
        let expected = match skipped {
            true => ["2026-01-15T14:00:00Z", "2026-01-15T15:00:00Z"].map(|slot| record(slot, outcome(slot))).to_vec(),
            false => vec![record("2026-01-15T14:00:00Z", FireOutcome::Queued)],
        };
        assert_eq!(records[1..], expected);
    }
}

#[test]
fn a_slot_that_waits_goes_with_its_agent() {
    let scene = scene();
    add(&scene, NewTask { overlap: Overlap::Queue, ..new(None, Some("0 * * * *")) }).unwrap();
    sweep(&scene, "2026-01-15T13:00:00Z");
    let waiting = sweep(&scene, "2026-01-15T14:00:00Z");
    assert!(waiting.queued.is_some());
    scene.done(|tx, _| agents::remove(tx, &folder("a")));
    let gone = task(&scene);
    assert_eq!((gone.state, gone.next, gone.queued), (TaskState::Cancelled, None, None));
    assert!(gone.changed > waiting.changed);
    let slot = at("2026-01-15T14:00:00Z");
    let outcome = FireOutcome::Skipped { reason: SkipReason::StillRunning, until: slot, count: Some(1) };
    assert_eq!(fires(&scene)[1..], [(slot.to_string(), outcome)]);
}

/// Changes the clock while there is no space for any message.
fn sweep_without_room(scene: &Scene, when: &str) {
    scene.jump(at(when));
    scene.done(|tx, _| {
        tx.cx.has_room = false;
        due(tx).map(|()| Ok(Vec::new()))
    });
}

/// The outcomes of occurrences, with the time zones they came by.
fn zones(scene: &Scene) -> Vec<(String, String, &'static str)> {
    let mut found = Vec::new();
    scene.done(|tx, _| {
        for (OccurrenceId { at: slot, .. }, fire) in tx.db.task_runs.collect_prefix(tx, &T, usize::MAX)? {
            found.push((slot.to_string(), fire.zone, fire.outcome.as_str()));
        }
        Ok(Ok(Vec::new()))
    });
    found
}

/// At eight in New York the backlog was full. After the move to Los Angeles, the schedule also has a past occurrence:
/// it was eight there an hour ago. That occurrence must not replace the one that was really due.
#[test]
fn what_was_due_when_people_moved_stays_what_it_was() {
    for paused in [false, true] {
        let scene = scene();
        add(&scene, new(None, Some("0 8 * * *"))).unwrap();
        if paused {
            tell(&scene, TaskCommand::Pause(T)).unwrap();
        }
        sweep_without_room(&scene, "2026-01-15T17:00:00Z");
        zone(&scene, "America/Los_Angeles");
        assert_eq!(shown(task(&scene).next), "2026-01-15T13:00:00.000Z");
        // Repeating it changes nothing. Then the time zone changes to one where it is eight at 03:00Z.
        zone(&scene, "America/Los_Angeles");
        let waits = |slot: &str| (slot.to_owned(), "America/New_York".to_owned(), "queued");
        assert_eq!(zones(&scene), [waits("2026-01-15T13:00:00.000Z")]);
        let later = sweep(&scene, "2026-01-15T17:05:00Z");
        let later = if paused { tell(&scene, TaskCommand::Resume(T)).unwrap() } else { later };
        assert_eq!((later.running.is_some(), shown(later.next)), (true, "2026-01-16T16:00:00.000Z".to_owned()));
        done(&scene, later.running.unwrap());
        let run = ("2026-01-15T13:00:00.000Z".to_owned(), "America/New_York".to_owned(), "done");
        assert_eq!(zones(&scene), [run]);
    }
}

/// While the task was paused, the newest passed occurrence was used by a clock that was ahead. The occurrences before
/// it are missed, by the old time zone, and the next one follows the new time zone.
#[test]
fn what_was_due_when_people_moved_is_missed_if_the_newest_was_used() {
    let scene = scene();
    add(&scene, new(None, Some("0 8 * * *"))).unwrap();
    let ahead = sweep(&scene, "2026-01-17T14:00:00Z").running.unwrap();
    done(&scene, ahead);
    set_clock(&scene, "2026-01-15T12:30:00Z");
    tell(&scene, TaskCommand::Pause(T)).unwrap();
    scene.jump(at("2026-01-17T20:00:00Z"));
    zone(&scene, "America/Los_Angeles");
    let moved = task(&scene);
    assert_eq!((moved.state, shown(moved.next)), (TaskState::Paused, "2026-01-18T16:00:00.000Z".to_owned()));
    let missed = ("2026-01-15T13:00:00.000Z".to_owned(), "America/New_York".to_owned(), "skipped");
    let used = ("2026-01-17T13:00:00.000Z".to_owned(), "America/New_York".to_owned(), "done");
    assert_eq!(zones(&scene), [missed, used]);
    let until = FireOutcome::Skipped { reason: SkipReason::Missed, until: at("2026-01-16T13:00:00Z"), count: Some(2) };
    assert_eq!(fires(&scene)[0].1, until);
}

/// An occurrence that was used while the clock was ahead is not counted among the skipped ones around it.
#[test]
fn what_is_skipped_counts_no_slot_that_was_used() {
    let scene = scene();
    add(&scene, new(None, Some("0 8 * * *"))).unwrap();
    let ahead = sweep(&scene, "2026-01-16T14:00:00Z").running.unwrap();
    done(&scene, ahead);
    set_clock(&scene, "2026-01-15T12:30:00Z");
    let by_hand = tell(&scene, TaskCommand::Run(T)).unwrap().running.unwrap();
    done(&scene, by_hand);
    sweep(&scene, "2026-01-18T14:00:00Z");
    let slot = |day: u32| at(&format!("2026-01-{day}T13:00:00Z")).to_string();
    let skipped = FireOutcome::Skipped { reason: SkipReason::Missed, until: at(&slot(17)), count: Some(2) };
    let fires = fires(&scene);
    assert_eq!(fires.iter().find(|(at, _)| *at == slot(15)).map(|(_, outcome)| outcome), Some(&skipped));
    let used = |day| matches!(fires.iter().find(|(at, _)| *at == slot(day)), Some((_, FireOutcome::Done(_))));
    assert!(used(16) && !used(17), "{fires:?}");
}

/// Missed runs are made up for the occurrences that came, each by the time zone of its time, however often the time
/// zone changes while they wait.
#[test]
fn all_that_was_due_stays_due_through_moves_and_what_follows_is_by_the_new_zone() {
    let scene = scene();
    add(&scene, NewTask { missed: Missed::RunAll(3), ..new(None, Some("0 * * * *")) }).unwrap();
    sweep_without_room(&scene, "2026-01-15T13:10:00Z");
    sweep_without_room(&scene, "2026-01-15T14:40:00Z");
    zone(&scene, "Asia/Kolkata"); // half an hour off the other zones
    sweep_without_room(&scene, "2026-01-15T15:45:00Z");
    zone(&scene, "America/New_York");
    let slots = |scene: &Scene| zones(scene).into_iter().map(|(slot, _, outcome)| (slot, outcome)).collect::<Vec<_>>();
    let slot = |slot: &str, outcome| (at(slot).to_string(), outcome);
    let waiting = ["2026-01-15T13:00:00Z", "2026-01-15T14:00:00Z", "2026-01-15T15:30:00Z"];
    assert_eq!(slots(&scene), waiting.map(|at| slot(at, "queued")));
    sweep(&scene, "2026-01-15T16:20:00Z");
    let ran = ["2026-01-15T14:00:00Z", "2026-01-15T15:30:00Z", "2026-01-15T16:00:00Z"];
    let expected: Vec<_> = [slot(waiting[0], "skipped")].into_iter().chain(ran.map(|at| slot(at, "running"))).collect();
    assert_eq!(slots(&scene), expected);
    let zones: Vec<String> = zones(&scene).into_iter().map(|(_, zone, _)| zone).collect();
    assert_eq!(zones[1..], ["America/New_York", "Asia/Kolkata", "America/New_York"]);
    assert_eq!(shown(task(&scene).next), "2026-01-15T17:00:00.000Z");
}

/// A waiting occurrence that is too old is skipped together with those behind it, and has no other record.
#[test]
fn what_was_kept_and_is_skipped_after_all_waits_no_more() {
    let scene = scene();
    add(&scene, NewTask { missed: Missed::RunAll(2), ..new(None, Some("0 * * * *")) }).unwrap();
    sweep_without_room(&scene, "2026-01-15T14:40:00Z");
    zone(&scene, "Asia/Kolkata");
    sweep(&scene, "2026-01-15T17:20:00Z");
    let outcomes: Vec<_> = zones(&scene).into_iter().map(|(slot, _, outcome)| (slot, outcome)).collect();
    let slot = |slot: &str, outcome| (at(slot).to_string(), outcome);
    let expected = [
        slot("2026-01-15T13:00:00Z", "skipped"),
        slot("2026-01-15T14:00:00Z", "skipped"),
        slot("2026-01-15T15:30:00Z", "running"),
        slot("2026-01-15T16:30:00Z", "running"),
    ];
    assert_eq!(outcomes, expected);
}

#[test]
fn a_clock_that_is_set_back_takes_back_what_was_kept_and_has_not_come() {
    let scene = scene();
    add(&scene, NewTask { missed: Missed::RunAll(3), ..new(None, Some("0 * * * *")) }).unwrap();
    sweep_without_room(&scene, "2026-01-15T15:40:00Z");
    zone(&scene, "Asia/Kolkata");
    assert_eq!(zones(&scene).len(), 3);
    set_clock(&scene, "2026-01-15T13:20:00Z");
    sweep(&scene, "2026-01-15T13:40:00Z");
    let outcomes: Vec<_> = zones(&scene).into_iter().map(|(slot, _, outcome)| (slot, outcome)).collect();
    let running = ["2026-01-15T13:00:00Z", "2026-01-15T13:30:00Z"].map(|slot| (at(slot).to_string(), "running"));
    assert_eq!(outcomes, running);
}

/// Future occurrences that were skipped behind a waiting occurrence have no record any more.
#[test]
fn a_clock_that_is_set_back_cuts_what_was_skipped_behind_a_slot_that_waits() {
    let scene = scene();
    let new = NewTask { overlap: Overlap::Queue, missed: Missed::Skip, ..new(None, Some("0 * * * *")) };
    add(&scene, new).unwrap();
    let running = sweep(&scene, "2026-01-15T13:00:00Z").running.unwrap();
    sweep(&scene, "2026-01-15T14:00:00Z");
    sweep(&scene, "2026-01-15T17:30:00Z");
    done_without_room(&scene, running);
    set_clock(&scene, "2026-01-15T15:20:00Z");
    assert_eq!(shown(task(&scene).next), "2026-01-15T14:00:00.000Z");
    let skipped = |fires: Vec<(String, FireOutcome)>| -> Vec<(String, String)> {
        let until = |outcome| match outcome {
            FireOutcome::Skipped { until, .. } => Some(until.to_string()),
            _ => None,
        };
        fires.into_iter().filter_map(|(slot, outcome)| Some((slot, until(outcome)?))).collect()
    };
    let one = |slot: &str, until: &str| (at(slot).to_string(), at(until).to_string());
    assert_eq!(skipped(fires(&scene)), [one("2026-01-15T15:00:00Z", "2026-01-15T15:20:01Z")]);
    sweep(&scene, "2026-01-15T17:31:00Z");
    let found = skipped(fires(&scene));
    for slot in ["2026-01-15T15:00:00Z", "2026-01-15T16:00:00Z", "2026-01-15T17:00:00Z"] {
        let slot = at(slot).to_string();
        let covers = found.iter().filter(|(first, until)| *first <= slot && slot <= *until).count();
        assert_eq!(covers, 1, "{slot}: {found:?}");
    }
}
