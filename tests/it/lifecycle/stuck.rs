//! Which incarnations count as stuck, silent or idle.

use super::*;
use crate::world::lifecycle::{pass, running};

/// A sweep with the last heartbeat of incarnation 1.
fn hear(world: &mut World, ago: Millis, rest: Millis) {
    let beat = Beat::Heard { ago, rest };
    world.put(Input::Sweep(vec![Observation { session: S, incarnation: 1, beat, state: None }]));
}

/// A sweep that saw no heartbeat of incarnation 1 in this run of the daemon.
fn hear_nothing(world: &mut World) {
    world.put(Input::Sweep(vec![Observation { session: S, incarnation: 1, beat: Beat::None, state: None }]));
}

/// A claim may be 60 s old without progress, or as old as the running tool allows; 30 minutes without progress end any
/// incarnation; a runner that is silent for 30 s is dead.
#[test]
fn stuck_incarnations() {
    // (whether it sends heartbeats, its tool, whether it has a claim, seconds until it is stopped, why)
    let tool = |seconds| Some(ToolUse { name: "Build".into(), timeout: Some(Millis::seconds(seconds)) });
    for (beats, tool, claims, last, why) in [
        (true, None, true, 60, StopReason::ClaimStuck),
        (true, tool(300), true, 300, StopReason::ClaimStuck),
        (true, tool(3_600), false, 3_600, StopReason::Ceiling),
        (true, tool(36_000), true, 7_200, StopReason::Ceiling),
        (true, None, false, 1_800, StopReason::Ceiling),
        (false, None, true, 30, StopReason::Silent),
        (false, None, false, 30, StopReason::Silent),
    ] {
        let mut world = running();
        world.pass(Millis::seconds(1));
        if claims {
            let claims = world.outside.write(S, vec![claim(2, 1)]);
            world.put(claims);
        }
        // From now on nothing counts as progress.
        let state = ObservedState { tool: tool.clone(), progress: !claims, about: None };
        world.put(Input::Sweep(vec![Observation { session: S, incarnation: 1, beat: Beat::NOW, state: Some(state) }]));
        let first = world.now().awake;
        let listen = |world: &mut World, length| {
            world.pass(length);
            let ago = if beats { Millis::ZERO } else { world.now().awake.since(first) };
            hear(world, ago, Millis::ZERO);
        };
        for _ in 0..last / 30 {
            listen(&mut world, Millis::seconds(30));
        }
        assert_eq!(phase(&world, 1), Phase::Running, "{last} s are allowed: {why:?}");
        listen(&mut world, Millis::new(1));
        assert!(matches!(phase(&world, 1), Phase::Stopping { why: found, .. } if found == why), "{why:?}");
        assert!(world.effects.contains(&Effect::Stop(S, 1)));
    }
}

/// Progress from the end of a turn, observed when the next message is already claimed, does not keep that one from
/// being stuck.
#[test]
fn progress_of_the_last_turn_is_none_of_the_next() {
    for (about, stuck) in [(Some(2), true), (Some(4), false), (Some(9), true), (None, false)] {
        let mut world = running();
        world.pass(Millis::seconds(1));
        world.inject(&event("2", "y", ""));
        world.settle();
        let claims = world.outside.write(S, vec![claim(2, 1), end(2, 1, vec![]), claim(4, 1)]);
        world.put(claims);
        world.pass(Millis::seconds(1));
        let state = Some(ObservedState { tool: None, progress: true, about });
        world.put(Input::Sweep(vec![Observation { session: S, incarnation: 1, beat: Beat::NOW, state }]));
        for _ in 0..3 {
            world.pass(Millis::seconds(25));
            world.put(Input::Sweep(vec![Observation { session: S, incarnation: 1, beat: Beat::NOW, state: None }]));
        }
        let why = StopReason::ClaimStuck;
        let found = matches!(phase(&world, 1), Phase::Stopping { why: found, .. } if found == why);
        assert_eq!(found, stuck, "{about:?}: {:?}", phase(&world, 1));
    }
}

/// A retried message is processed after newer ones: progress on those does not concern it.
#[test]
fn progress_of_a_newer_message_is_none_of_one_that_came_back() {
    for (about, stuck) in [(4, true), (2, false)] {
        let mut world = running();
        world.pass(Millis::seconds(1));
        world.inject(&event("2", "y", ""));
        world.settle();
        let found = world.outside.write(S, vec![claim(4, 1), end(4, 1, vec![]), claim(2, 1)]);
        world.put(found);
        world.pass(Millis::seconds(1));
        let state = Some(ObservedState { tool: None, progress: true, about: Some(about) });
        world.put(Input::Sweep(vec![Observation { session: S, incarnation: 1, beat: Beat::NOW, state }]));
        pass(&mut world, 75);
        let found = world.incarnation(S, 1).stopped_for == Some(StopReason::ClaimStuck);
        assert_eq!(found, stuck, "{about}: {:?}", phase(&world, 1));
    }
}

/// A mailbox that was not observed proves nothing: neither that its runner is silent nor that it is idle.
#[test]
fn nobody_is_ended_for_what_was_not_looked_at() {
    let unseen = |world: &mut World| {
        world.pass(Millis::seconds(10));
        let beat = Beat::Unseen;
        world.put(Input::Sweep(vec![Observation { session: S, incarnation: 1, beat, state: None }]));
    };
    for claims in [false, true] {
        let mut world = running();
        if claims {
            let claims = world.outside.write(S, vec![claim(2, 1)]);
            world.put(claims);
        }
        (0..400).for_each(|_| unseen(&mut world));
        assert_eq!(phase(&world, 1), Phase::Running);
        // The look is complete, and there was neither a heartbeat nor anything else.
        hear_nothing(&mut world);
        assert!(matches!(phase(&world, 1), Phase::Stopping { why: StopReason::Silent, .. }));
    }
    let mut world = running();
    let claims = world.outside.write(S, vec![claim(2, 1)]);
    world.put(claims);
    (0..20).for_each(|_| unseen(&mut world));
    let done = world.outside.write(S, vec![end(2, 1, vec![])]);
    world.put(done);
    world.put(Input::Sweep(vec![progress(S, 1)]));
    assert_eq!(phase(&world, 1), Phase::Running, "it had ended what it claimed long ago");
}

/// Work between turns keeps an agent from being stopped, whatever the work concerns.
#[test]
fn work_between_turns_is_progress() {
    let mut world = running();
    let found = world.outside.write(S, vec![claim(2, 1), end(2, 1, vec![])]);
    world.put(found);
    for _ in 0..200 {
        world.pass(Millis::seconds(20));
        let state = Some(ObservedState { tool: None, progress: true, about: Some(2) });
        world.put(Input::Sweep(vec![Observation { session: S, incarnation: 1, beat: Beat::NOW, state }]));
    }
    assert_eq!(phase(&world, 1), Phase::Running);
}

/// A night of suspension, or a clock that is set, ends no incarnation and shortens no wait.
#[test]
fn suspended_machines_kill_nobody() {
    let mut world = running();
    let claims = world.outside.write(S, vec![claim(2, 1)]);
    world.put(claims);
    for step in [8 * 3_600_000, -30 * 86_400_000, 365 * 86_400_000_i64] {
        world.step_clock(step);
        world.put(Input::Sweep(vec![]));
        world.settle();
        assert_eq!(phase(&world, 1), Phase::Running);
    }
    let gone = world.outside.end(S, 1, Exit::Code(1));
    world.put(gone);
    world.settle();
    world.step_clock(86_400_000);
    world.sweep();
    assert!(matches!(world.state_of(M), MessageState::Pending(Due::Retry(_))), "a backoff is awake time");
}

/// A stuck incarnation is stopped, the request is repeated until it ends, and its message is retried.
#[test]
fn a_stop_that_is_not_heard_is_asked_for_again() {
    let mut world = running();
    let claims = world.outside.write(S, vec![claim(2, 1)]);
    world.put(claims);
    for _ in 0..9 {
        world.pass(Millis::seconds(10));
        world.put(Input::Sweep(world.outside.observations()));
    }
    let stops = world.effects.iter().filter(|effect| **effect == Effect::Stop(S, 1)).count();
    assert_eq!(stops, 3, "at 70, 80 and 90 s");
    world.settle();
    assert!(matches!(world.state_of(M), MessageState::Pending(Due::Retry(_))));
    assert_eq!(world.message(M).tries, 1);
}

/// A message that arrives while an idle incarnation is stopped for its age costs no try and goes to the next one at
/// once.
#[test]
fn a_message_that_meets_an_idle_end() {
    let mut world = running();
    let done = world.outside.write(S, vec![claim(2, 1), end(2, 1, vec![])]);
    world.put(done);
    world.settle();
    pass(&mut world, 1_800);
    world.pass(Millis::seconds(10));
    world.sweep();
    assert!(matches!(phase(&world, 1), Phase::Stopping { why: StopReason::Ceiling, .. }));
    let report = world.inject(&event("2", "y", ""));
    world.settle();
    let message = world.message(report.wirings[0].message.unwrap());
    assert_eq!((message.tries, world.session(S).live), (0, Some(2)));
}

/// Every sweep gets the heartbeat. Only the first one is stored.
#[test]
fn a_heartbeat_is_no_commit() {
    let mut world = running();
    world.pass(Millis::seconds(1));
    hear(&mut world, Millis::ZERO, Millis::ZERO);
    let (first, change, text) = (world.incarnation(S, 1).beat, world.store().reader().last_change(), world.text());
    assert_eq!(first, world.now().awake);
    for second in 0..1_200 {
        world.pass(Millis::seconds(1));
        hear(&mut world, Millis::seconds(second % 5), Millis::ZERO);
    }
    assert_eq!((world.store().reader().last_change(), world.text()), (change, text));
    assert_eq!(phase(&world, 1), Phase::Running);
    // A dead runner is found without stored heartbeats.
    hear(&mut world, Millis::seconds(31), Millis::ZERO);
    assert!(matches!(phase(&world, 1), Phase::Stopping { why: StopReason::Silent, .. }));
}

/// `hearth sweep` has no observations.
#[test]
fn a_sweep_without_observations_judges_no_silence() {
    let mut world = running();
    world.pass(Millis::seconds(1));
    hear(&mut world, Millis::ZERO, Millis::ZERO);
    world.pass(Millis::minutes(20));
    world.put(Input::Sweep(vec![]));
    assert_eq!(phase(&world, 1), Phase::Running);
}

/// 30 s after its rest, or after its newest claim, whichever is earlier.
#[test]
fn a_resting_runner_is_silent_after_its_rest() {
    let rest = Policy::STANDARD.idle_beat;
    for claims in [false, true] {
        let mut world = running();
        world.pass(Millis::seconds(1));
        hear(&mut world, Millis::ZERO, rest);
        let first = world.now().awake;
        world.pass(Millis::minutes(9));
        if claims {
            let claims = world.outside.write(S, vec![claim(2, 1)]);
            world.put(claims);
        }
        world.pass(Millis::seconds(30));
        let listen = |world: &mut World| hear(world, world.now().awake.since(first), rest);
        listen(&mut world);
        assert_eq!(phase(&world, 1), Phase::Running, "{claims}");
        if !claims {
            world.pass(Millis::minutes(1));
            listen(&mut world);
            assert_eq!(phase(&world, 1), Phase::Running);
        }
        world.pass(Millis::new(1));
        listen(&mut world);
        let silent = matches!(phase(&world, 1), Phase::Stopping { why: StopReason::Silent, .. });
        assert!(silent, "{claims}: {:?}", phase(&world, 1));
    }
}

/// A restarted daemon has no heartbeats in memory.
#[test]
fn silence_counts_from_the_adoption() {
    let mut world = running();
    world.pass(Millis::seconds(1));
    hear(&mut world, Millis::ZERO, Policy::STANDARD.idle_beat);
    world.pass(Millis::minutes(5));
    world.restart();
    world.settle();
    assert_eq!(world.incarnation(S, 1).adopted, Some(world.now().awake));
    world.pass(Millis::seconds(30));
    hear_nothing(&mut world);
    assert_eq!(phase(&world, 1), Phase::Running);
    hear(&mut world, Millis::ZERO, Policy::STANDARD.idle_beat);
    world.pass(Millis::minutes(9));
    hear(&mut world, Millis::minutes(9), Policy::STANDARD.idle_beat);
    assert_eq!(phase(&world, 1), Phase::Running);
    // Without a heartbeat in that time the runner is dead.
    let mut world = running();
    world.pass(Millis::seconds(1));
    hear(&mut world, Millis::ZERO, Policy::STANDARD.idle_beat);
    world.restart();
    world.settle();
    world.pass(Millis::new(30_001));
    hear_nothing(&mut world);
    assert!(matches!(phase(&world, 1), Phase::Stopping { why: StopReason::Silent, .. }));
}
