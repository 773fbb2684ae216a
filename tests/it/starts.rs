//! Failed starts, and incarnations that outlive the daemon.

use hearth::model::configure::Change;
use hearth::model::entity::Folder;
use hearth::model::id::{MessageId, SessionId};
use hearth::model::incarnation::{Exit, IncarnationId, Phase, StopReason, ToolUse};
use hearth::model::input::RuntimeEvent;
use hearth::model::mailbox::{Beat, Observation, ObservedState};
use hearth::model::message::{Due, MessageState};
use hearth::model::{Effect, Input, Millis};

use crate::world::lifecycle::{answer, pass, running};
use crate::world::outside::{claim, end, gone};
use crate::world::{ONE, World, event, event_in};

const S: SessionId = SessionId::new(1);
const M: MessageId = MessageId::new(1);

fn sweep(world: &mut World, seconds: u64) {
    world.pass(Millis::seconds(seconds));
    world.sweep();
    world.settle();
}

/// A world whose runtime cannot start anything, and a message that waits.
fn stopped() -> World {
    let mut world = World::of(ONE);
    world.outside.startable = false;
    world.inject(&event("1", "x", ""));
    world.settle();
    world
}

/// The message waits without limit and loses no try; starts are retried after growing waits.
#[test]
fn an_agent_that_cannot_start() {
    let mut world = stopped();
    for (number, wait) in [(1, 5_u64), (2, 10), (3, 20), (4, 40), (5, 80), (6, 160), (7, 320), (8, 600), (9, 600)] {
        assert_eq!((world.session(S).last_incarnation, world.session(S).failed_starts), (number, number));
        world.pass(Millis::new(wait * 1_000 - 1));
        world.sweep();
        world.settle();
        assert_eq!(world.session(S).last_incarnation, number, "not a moment too early");
        world.pass(Millis::new(1));
        world.sweep();
        world.settle();
    }
    pass(&mut world, 2 * 3_600);
    assert_eq!((world.state_of(M), world.message(M).tries), (MessageState::Pending(Due::Now), 0));
    world.outside.startable = true;
    sweep(&mut world, 600);
    answer(&mut world, 1, 2);
    assert!(matches!(world.state_of(M), MessageState::Completed { .. }));
    assert_eq!((world.session(S).failed_starts, world.session(S).start_after), (0, None), "success begins anew");
}

/// The third failure in a row, in one transaction, with a snapshot of the store.
#[test]
fn the_third_failure_is_told() {
    let mut world = stopped();
    // The owner is at the terminal.
    world.inject(&event_in(("terminal", "t", None), ("o", "x", ""), ""));
    world.apply("[[chats]]\nchannel = \"terminal\"\nplatform_id = \"t\"");
    sweep(&mut world, 5);
    assert!(world.all_outbound().is_empty());
    world.pass(Millis::seconds(10));
    world.sweep();
    let launched = world.effects.pop_front().unwrap();
    for input in world.outside.perform(launched) {
        world.put(input);
    }
    world.begin_script();
    world.settle();
    world.check("starts_third_failure");
    let told: Vec<(String, String)> = world
        .all_outbound()
        .into_iter()
        .map(|(_, outbound)| (outbound.to.unwrap().platform_id.as_str().to_owned(), outbound.text))
        .collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].0 == "t" && told[0].1.contains("no such program"), "{told:?}");
    assert!(told[0].1.contains("hearth agents restart main"), "{told:?}");
    assert!(
        told[1].0 == "C" && told[1].1.starts_with("The agent is not available; its owner has been told."),
        "{told:?}"
    );
    pass(&mut world, 3_600);
    assert_eq!(world.all_outbound().len(), 2, "once");
}

/// Events that end the backoff at once: another daemon, changed settings, a restart by command.
#[test]
fn what_ends_the_wait_for_a_start() {
    let restarts: [fn(&mut World); 3] = [
        |world| world.restart(),
        |world| drop(world.apply(&ONE.replace("\"main\"\n[[chats]]", "\"main\"\nmodel = \"other\"\n[[chats]]"))),
        |world| drop(world.configure(vec![Change::RestartAgent(Folder::new("main").unwrap(), None)]).unwrap()),
    ];
    for (number, restart) in restarts.into_iter().enumerate() {
        let mut world = stopped();
        pass(&mut world, 100);
        let before = world.session(S).last_incarnation;
        world.outside.startable = true;
        restart(&mut world);
        world.settle();
        assert_eq!(world.session(S).live, Some(before + 1), "{number}");
    }
}

/// A change of one agent does not retry the start of another.
#[test]
fn only_what_was_changed_is_tried_at_once() {
    let other = "[[agents]]\nfolder = \"other\"\n[[chats]]\nchannel = \"net\"\nplatform_id = \"D\"\nunknown_senders = \"public\"\n\
                 [[chats.wirings]]\nagent = \"other\"\nengage = \"pattern\"\npattern = \".\"\n";
    let mut world = World::of(&format!("{ONE}{other}"));
    world.outside.startable = false;
    world.inject(&event("1", "x", ""));
    world.inject(&event_in(("net", "D", None), ("2", "x", "\"senderId\":\"ann\""), ""));
    world.settle();
    let second = SessionId::new(2);
    assert_eq!((world.session(S).failed_starts, world.session(second).failed_starts), (1, 1));
    world.outside.startable = true;
    world.apply(&format!("{ONE}{}", other.replace("\"other\"\n[[chats]]", "\"other\"\nmodel = \"x\"\n[[chats]]")));
    world.settle();
    assert_eq!((world.session(S).failed_starts, world.session(S).live), (1, None));
    assert_eq!((world.session(second).failed_starts, world.session(second).live), (0, Some(2)));
}

/// An incarnation counts as begun as soon as it claims a message, not only when it ends one.
#[test]
fn a_claim_ends_a_series_of_failed_starts() {
    let mut world = stopped();
    world.outside.startable = true;
    sweep(&mut world, 5);
    assert_eq!((world.session(S).failed_starts, world.session(S).live), (1, Some(2)));
    let claims = world.outside.write(S, vec![claim(2, 2)]);
    world.put(claims);
    assert_eq!((world.session(S).failed_starts, world.session(S).start_after), (0, None));
}

/// Output of an incarnation proves that it runs, even before the runtime has reported it.
#[test]
fn whoever_takes_something_has_started() {
    let mut world = World::of(ONE);
    world.inject(&event("1", "x", ""));
    let launch = world.effects.pop_front().unwrap();
    assert!(!world.outside.perform(launch).is_empty(), "what is heard of it is lost");
    world.lose_effects();
    assert_eq!(world.incarnation(S, 1).phase, Phase::Starting);
    let claims = world.outside.write(S, vec![claim(2, 1)]);
    world.put(claims);
    assert_eq!(world.incarnation(S, 1).phase, Phase::Running);
    // Earlier output does not mark an incarnation as running again while it is being stopped.
    world.configure(vec![Change::RestartAgent(Folder::new("main").unwrap(), None)]).unwrap();
    world.lose_effects();
    let done = world.outside.write(S, vec![end(2, 1, vec![])]);
    world.put(done);
    assert!(matches!(world.incarnation(S, 1).phase, Phase::Stopping { .. }));
}

/// Ended soon after its launch and before it claimed anything: a failed start. Ended later, or after a claim: a lost
/// turn, which costs a try.
#[test]
fn what_counts_as_a_start_that_failed() {
    for (seconds, claims, failed_starts, tries) in [(1, false, 1, 0), (70, false, 0, 1), (1, true, 0, 1)] {
        let mut world = running();
        for _ in 0..seconds / 10 {
            world.pass(Millis::seconds(10));
            world.sweep();
        }
        if claims {
            let claims = world.outside.write(S, vec![claim(2, 1)]);
            world.put(claims);
        }
        let gone = world.outside.end(S, 1, Exit::Code(1));
        world.put(gone);
        world.settle();
        let found = (world.session(S).failed_starts, world.message(M).tries);
        assert_eq!(found, (failed_starts, tries), "{seconds} {claims}");
    }
}

/// An incarnation whose runner never sends a heartbeat also counts as a failed start.
#[test]
fn a_runner_that_never_beats() {
    let mut world = running();
    for _ in 0..7 {
        world.pass(Millis::seconds(10));
        world.put(Input::Sweep(vec![Observation { session: S, incarnation: 1, beat: Beat::None, state: None }]));
        world.settle();
    }
    assert_eq!(world.incarnation(S, 1).stopped_for, Some(StopReason::Silent));
    assert_eq!((world.session(S).failed_starts, world.message(M).tries), (1, 0));
}

/// A crash during a turn, of a run that outlived its daemon, is handled by the daemon that adopted it.
#[test]
fn an_adopted_incarnation_is_the_new_daemons() {
    let mut world = running();
    let claims = world.outside.write(S, vec![claim(2, 1)]);
    world.put(claims);
    world.restart();
    assert!(world.effects.contains(&Effect::Inquire(S, 1)));
    assert!(matches!(world.state_of(M), MessageState::Claimed { .. }), "claims are kept until the answer");
    world.settle();
    assert_eq!(world.incarnation(S, 1).adopted, Some(world.now().awake));
    let before = world.text();
    world.put(Input::Runtime(RuntimeEvent::Running(S, 1)));
    assert_eq!(world.text(), before, "the same answer twice");
    pass(&mut world, 50);
    let crashed = world.outside.end(S, 1, Exit::Signal(11));
    world.put(crashed);
    world.settle();
    assert_eq!((world.message(M).tries, world.session(S).failed_starts), (1, 0));
}

/// A runtime that does not answer after the daemon's start: nothing is judged and nothing is requeued, however long it
/// takes.
#[test]
fn nobody_is_judged_before_the_answer() {
    for lives in [true, false] {
        let mut world = running();
        let claims = world.outside.write(S, vec![claim(2, 1)]);
        world.put(claims);
        if !lives {
            world.outside.running.clear();
        }
        world.restart();
        world.lose_effects();
        for _ in 0..60 {
            world.pass(Millis::seconds(10));
            world.sweep();
            assert!(world.effects.contains(&Effect::Inquire(S, 1)), "it is asked for again");
            world.lose_effects();
        }
        assert_eq!(world.incarnation(S, 1).phase, Phase::Running);
        world.sweep();
        world.settle();
        assert_eq!(world.message(M).tries, 0);
        if lives {
            // Its ages count from now.
            pass(&mut world, 50);
            assert!(matches!(world.state_of(M), MessageState::Claimed { incarnation: 1, .. }));
            let done = world.outside.write(S, vec![end(2, 1, vec![])]);
            world.put(done);
            assert!(matches!(world.state_of(M), MessageState::Completed { .. }));
        } else {
            assert_eq!(world.session(S).live, Some(2), "it ended with its daemon: no try, no wait");
        }
    }
}

/// An incarnation whose launch configuration is outdated is replaced when it is idle.
#[test]
fn what_was_started_otherwise_is_replaced() {
    for claims in [false, true] {
        let mut world = running();
        let turn = if claims { vec![claim(2, 1)] } else { vec![claim(2, 1), end(2, 1, vec![])] };
        let turn = world.outside.write(S, turn);
        world.put(turn);
        world.settle();
        let older = |db: &hearth::state::Tables, txn: &mut hearth::state::Write<'_>| {
            let digest = hearth::model::incarnation::SpecDigest::new(7);
            db.incarnations.update(txn, &IncarnationId::new(S, 1), |row| row.digest = digest).map(drop)
        };
        world.store().write::<_, hearth::state::Error>(older).unwrap();
        world.restart();
        world.settle();
        assert_eq!(world.incarnation(S, 1).outdated, Some(StopReason::Renewed));
        assert_eq!(world.outside.running.contains_key(&S), claims, "it may end its turn");
        world.inject(&event("2", "y", ""));
        world.settle();
        assert!(claims != (world.session(S).live == Some(2)));
        if claims {
            let turn = world.outside.write(S, vec![end(2, 1, vec![])]);
            world.put(turn);
            world.settle();
        }
        assert_eq!(world.session(S).live, Some(2));
    }
}

/// NanoClaw's sweep started a new incarnation and killed it in the same pass for its predecessor's claims. Here the
/// predecessor's claims are reset first, and a sweep does not judge what it launched.
#[test]
fn a_newborn_is_not_judged_for_its_predecessor() {
    let mut world = running();
    let claims = world.outside.write(S, vec![claim(2, 1)]);
    world.put(claims);
    for _ in 0..9 {
        world.pass(Millis::seconds(10));
        world.put(Input::Sweep(world.outside.observations()));
        world.lose_effects();
    }
    // Stuck, stopped, and its end was not reported.
    world.put(gone(S, 1, Exit::Signal(9)));
    world.outside.running.clear();
    world.settle();
    assert_eq!((world.state_of(M), world.session(S).live), (world.state_of(M), None));
    world.pass(Millis::minutes(120));
    world.put(Input::Sweep(vec![]));
    assert_eq!(world.session(S).live, Some(2));
    let asked: Vec<&Effect> = world.effects.iter().filter(|effect| !matches!(effect, Effect::Typing(..))).collect();
    assert!(matches!(asked[..], [Effect::Launch(_)]), "{asked:?}");
    world.put(Input::Sweep(vec![]));
    assert_eq!(world.incarnation(S, 2).phase, Phase::Starting, "nor in the next one");
    world.settle();
    assert_eq!(world.incarnation(S, 2).stopped_for, None);
    assert_eq!(world.message(M).tries, 1);
}

/// The owner's notice about a failed message says what the agent was doing.
#[test]
fn the_tool_that_ran_is_named() {
    let mut world = World::of(&format!("{ONE}[[chats]]\nchannel = \"terminal\"\nplatform_id = \"t\""));
    world.inject(&event("1", "x", ""));
    world.settle();
    for number in 1..=6 {
        let claims = world.outside.write(S, vec![claim(2, number)]);
        world.put(claims);
        let tool = Some(ToolUse { name: "Bash".into(), timeout: Some(Millis::seconds(170)) });
        let state = Some(ObservedState { tool, progress: false, about: None });
        world.put(Input::Sweep(vec![Observation { session: S, incarnation: number, beat: Beat::NOW, state }]));
        world.settle();
        pass(&mut world, 180);
        assert_eq!(world.incarnation(S, number).stopped_for, Some(StopReason::ClaimStuck), "{number}");
        pass(&mut world, 100);
    }
    let MessageState::Failed { error, .. } = world.state_of(M) else { panic!("{:?}", world.state_of(M)) };
    assert!(error.ends_with("(it was running the tool Bash for 3 min)"), "{error}");
    let told: Vec<String> = world.all_outbound().into_iter().map(|(_, outbound)| outbound.text).collect();
    assert!(told.len() == 2 && told[0].contains("running the tool Bash for 3 min"), "{told:?}");
    assert!(world.journal().iter().any(|event| event.starts_with("TurnLost") && event.contains("the tool Bash")));
}

/// Events that wake no agent.
#[test]
fn what_a_sweep_leaves_alone() {
    let mut world = World::of(&ONE.replace("pattern = \".\"", "pattern = \"!\"\nignored = \"accumulate\""));
    world.inject(&event("1", "only context", ""));
    sweep(&mut world, 60);
    assert!(world.outside.launched.is_empty());
}
