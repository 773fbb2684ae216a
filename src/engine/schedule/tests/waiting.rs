//! Slots that wait: for the occurrence that runs, or for a place.

use super::*;

/// A slot that was used by a clock that was ahead comes once more while another one waits: it takes no place.
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

/// A message ends while there is no room for another one.
fn done_without_room(scene: &Scene, message: MessageId) {
    scene.done(|cx, txn, after| {
        let cx = &Cx { has_room: false, fires: std::cell::RefCell::default(), careful: None, ..*cx };
        let over = MessageState::Completed { how: Completion::Answered, at: cx.now.wall };
        messages::end(cx, txn, message, (over, Vec::new()), &mut after.effects).map(|_| Ok(Vec::new()))
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
    assert_eq!(shown(task(&scene).next), "2026-01-15T18:00:00.000Z");
    sweep(&scene, "2026-01-15T17:31:00Z");
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

/// Between a slot of the old times and the change there may be slots of the new ones, which nobody meant.
#[test]
fn a_slot_that_waited_does_not_bring_times_that_the_task_did_not_have_then() {
    let scene = scene();
    add(&scene, NewTask { overlap: Overlap::Queue, ..new(None, Some("0 * * * *")) }).unwrap();
    let running = sweep(&scene, "2026-01-15T13:00:00Z").running.unwrap();
    sweep(&scene, "2026-01-15T14:00:00Z");
    scene.jump(at("2026-01-15T14:55:00Z"));
    let other = TaskChange { recurrence: Some(Some("*/10 * * * *".to_owned())), ..TaskChange::default() };
    tell(&scene, TaskCommand::Set(T, Box::new(other))).unwrap();
    done_without_room(&scene, running);
    assert_eq!(shown(task(&scene).next), "2026-01-15T15:00:00.000Z");
    let later = sweep(&scene, "2026-01-15T15:00:00Z");
    assert!(later.running.is_some());
    let slots: Vec<String> = fires(&scene).into_iter().map(|(slot, _)| slot).collect();
    assert_eq!(slots, ["2026-01-15T13:00:00.000Z", "2026-01-15T14:00:00.000Z", "2026-01-15T15:00:00.000Z"]);
}

/// Slots that are due, because there is no place for them, when the series ends or gets other times.
#[test]
fn what_was_due_when_its_series_ended_is_skipped() {
    let other = TaskChange { recurrence: Some(Some("30 * * * *".to_owned())), ..TaskChange::default() };
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
            None => drop(scene.done(|cx, txn, after| agents::remove(cx, txn, &folder("a"), &mut after.effects))),
        }
        let records = fires(&scene);
        let outcome = |until| FireOutcome::Skipped { reason: SkipReason::Missed, until: at(until), count: Some(1) };
        let expected = [("2026-01-15T14:00:00Z", skipped), ("2026-01-15T15:00:00Z", skipped)];
        let expected: Vec<_> =
            expected.iter().filter(|(_, is)| *is).map(|(slot, _)| (at(slot).to_string(), outcome(slot))).collect();
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
    scene.done(|cx, txn, after| agents::remove(cx, txn, &folder("a"), &mut after.effects));
    let gone = task(&scene);
    assert_eq!((gone.state, gone.next, gone.queued), (TaskState::Cancelled, None, None));
    assert!(gone.changed > waiting.changed);
    let slot = at("2026-01-15T14:00:00Z");
    let outcome = FireOutcome::Skipped { reason: SkipReason::StillRunning, until: slot, count: Some(1) };
    assert_eq!(fires(&scene)[1..], [(slot.to_string(), outcome)]);
}
