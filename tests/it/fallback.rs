//! Fallbacks: another provider of an agent answers while one takes no work, and the first one again when it does.

mod daemon;

use hearth::model::Millis;
use hearth::model::configure::Change;
use hearth::model::entity::Folder;
use hearth::model::id::{MessageId, SessionId};
use hearth::model::incarnation::{Exit, StopReason};
use hearth::model::mailbox::{Recipient, RetryHint};
use hearth::model::message::{Due, MessageState};
use hearth::model::session::SessionChoice;

use crate::world::lifecycle::{live, per_thread, threads};
use crate::world::outside::{claim, end, said, try_again};
use crate::world::{ONE, World, event};

const S: SessionId = SessionId::new(1);

/// An agent with two fallbacks.
fn with_fallbacks(toml: &str, more: &str) -> String {
    let keys = "folder = \"main\"\nfallback = [{ provider = \"command\", command = [\"answer\"] }, \
                { provider = \"echo\", model = \"small\" }]\n";
    toml.replace("folder = \"main\"\n", &format!("{keys}{more}"))
}

/// The configuration of tests with one chat.
fn setup() -> World {
    World::of(&with_fallbacks(ONE, ""))
}

fn ask(world: &mut World, id: &str, text: &str) {
    world.inject(&event(id, text, ""));
    world.settle();
}

/// The run takes a message, and answers it.
fn answer(world: &mut World, session: u64, seq: u64, number: u64) {
    let session = SessionId::new(session);
    let run = world.session(session).live.unwrap();
    let said = said(number, run, Some(seq), Recipient::Reply);
    let turn = world.outside.write(session, vec![claim(seq, run), end(seq, run, vec![said])]);
    world.put(turn);
    world.settle();
    world.assert_sound();
}

/// The run takes a message, and its provider takes no requests.
fn refuse(world: &mut World, session: u64, seq: u64, again: RetryHint) {
    let session = SessionId::new(session);
    let run = world.session(session).live.unwrap();
    let turn = world.outside.write(session, vec![claim(seq, run), try_again(seq, vec![], run, again)]);
    world.put(turn);
    world.settle();
    world.assert_sound();
}

fn limited(seconds: u64) -> RetryHint {
    RetryHint::Wait(Some(Millis::seconds(seconds)))
}

fn sweep(world: &mut World, seconds: u64) {
    world.pass(Millis::seconds(seconds));
    world.sweep();
    world.settle();
    world.assert_sound();
}

/// The provider that drives a session: 0 is the agent's own.
fn driver(world: &World, session: u64) -> usize {
    let started = &world.outside.started[&SessionId::new(session)];
    match &started.memory {
        None => 0,
        Some(memory) if memory.starts_with("command-") => 1,
        Some(memory) if memory.starts_with("echo-") => 2,
        Some(other) => panic!("{other}"),
    }
}

/// What the last run of a session was told of the conversation.
fn recap(world: &World, session: u64) -> Vec<String> {
    let line = |from: &Option<String>, text: &str| format!("{}: {text}", from.as_deref().unwrap_or("you"));
    world.outside.started[&SessionId::new(session)].recap.iter().map(|told| line(&told.from, &told.text)).collect()
}

fn gaps(world: &World) -> usize {
    world.read(|db, txn| db.session_providers.get(txn, &S)).map_or(0, |row| row.gaps.len())
}

#[test]
fn another_provider_answers_and_the_first_one_returns() {
    let mut world = setup();
    ask(&mut world, "1", "one");
    answer(&mut world, 1, 2, 3);
    ask(&mut world, "2", "two");
    refuse(&mut world, 1, 4, limited(60));
    assert_eq!((driver(&world, 1), world.session(S).live), (1, Some(2)), "the next provider has it at once");
    assert_eq!(recap(&world, 1), ["Ann: one", "you: words 3"]);
    assert_eq!(world.message(MessageId::new(2)).tries, 0);
    answer(&mut world, 1, 4, 5);
    ask(&mut world, "3", "three");
    assert_eq!(world.session(S).live, Some(2), "it goes on while the first one is paused");
    answer(&mut world, 1, 6, 7);
    sweep(&mut world, 60);
    assert_eq!(world.session(S).live, Some(2), "nothing is started without a message");
    ask(&mut world, "4", "four");
    assert_eq!(world.incarnation(S, 2).stopped_for, Some(StopReason::ProviderChanged));
    assert_eq!((driver(&world, 1), world.session(S).live), (0, Some(3)));
    assert_eq!(recap(&world, 1), ["Ann: two", "you: words 5", "Ann: three", "you: words 7"]);
    answer(&mut world, 1, 8, 9);
    assert_eq!(world.read(|db, txn| db.rate_limits.len(txn)), 0);
    // The fallback never saw the last one; it would be told.
    assert_eq!(gaps(&world), 1);
    let shown: Vec<&str> = world.outside.shown.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(shown, ["words 3", "words 5", "words 7", "words 9"]);
    let journal = world.journal();
    for (event, count) in [("FailedOver", 1), ("StoodIn", 2), ("TookOverAgain", 1)] {
        assert_eq!(journal.iter().filter(|row| row.starts_with(event)).count(), count, "{event}: {journal:?}");
    }
}

/// The digests of the runs differ, so that no container is taken for one of another provider.
#[test]
fn each_provider_has_a_launch_configuration_of_its_own() {
    let mut world = setup();
    ask(&mut world, "1", "one");
    for _ in 0..2 {
        refuse(&mut world, 1, 2, limited(60));
    }
    let digests = [1, 2, 3].map(|run| world.incarnation(S, run).digest);
    assert!(digests[0] != digests[1] && digests[1] != digests[2] && digests[0] != digests[2], "{digests:?}");
}

#[test]
fn when_all_are_limited_a_message_waits_for_the_first_that_returns() {
    let mut world = setup();
    ask(&mut world, "1", "one");
    for (expected, seconds) in [(0, 90), (1, 20), (2, 60)] {
        assert_eq!(driver(&world, 1), expected);
        refuse(&mut world, 1, 2, limited(seconds));
    }
    let due = MessageState::Pending(Due::Retry(world.now().awake.plus(Millis::seconds(20))));
    assert_eq!((world.state_of(MessageId::new(1)), world.session(S).live), (due, None));
    sweep(&mut world, 20);
    assert_eq!(driver(&world, 1), 1);
    assert_eq!(recap(&world, 1), [""; 0], "no one has answered anything");
    answer(&mut world, 1, 2, 3);
    assert_eq!(world.read(|db, txn| db.fallback_limits.len(txn)), 1, "the other one is still paused");
    let world_after = world.message(MessageId::new(1));
    assert_eq!((world_after.tries, matches!(world_after.state, MessageState::Completed { .. })), (0, true));
}

/// The whole agent leaves a provider that takes no work. When its pause is over, one session tries it, and the others go
/// on with the fallback.
#[test]
fn one_session_tries_the_first_provider() {
    let mut world = World::of(&with_fallbacks(&per_thread("max_parallel = 3"), ""));
    threads(&mut world, &["a", "b"]);
    world.settle();
    refuse(&mut world, 1, 2, limited(20));
    assert_eq!((driver(&world, 1), driver(&world, 2)), (1, 1), "what waits in the other mailbox goes along");
    answer(&mut world, 1, 2, 3);
    answer(&mut world, 2, 2, 3);
    sweep(&mut world, 20);
    threads(&mut world, &["a", "b"]);
    world.settle();
    assert_eq!((driver(&world, 1), driver(&world, 2)), (0, 1));
    let other = world.session(SessionId::new(2)).live;
    refuse(&mut world, 1, 4, limited(20));
    assert_eq!((driver(&world, 1), live(&world)), (1, vec![1, 2]), "it was tried too early");
    assert_eq!(world.session(SessionId::new(2)).live, other, "the fallback's run goes on with its message");
    answer(&mut world, 2, 4, 5);
    answer(&mut world, 1, 4, 5);
    sweep(&mut world, 20);
    threads(&mut world, &["b"]);
    world.settle();
    answer(&mut world, 2, 6, 7);
    threads(&mut world, &["a", "b"]);
    world.settle();
    assert_eq!((driver(&world, 1), driver(&world, 2)), (0, 0), "it works again");
}

/// The slot for trying a provider is taken by a session that works with it, not by one that is idle or tries it itself.
#[test]
fn a_trial_is_taken_by_work() {
    let mut world = World::of(&with_fallbacks(&per_thread("max_parallel = 3"), ""));
    let second = SessionId::new(2);
    threads(&mut world, &["idle"]);
    world.settle();
    answer(&mut world, 1, 2, 3);
    threads(&mut world, &["busy"]);
    world.settle();
    refuse(&mut world, 2, 2, limited(20));
    answer(&mut world, 2, 2, 3);
    assert_eq!((driver(&world, 2), world.session(S).live), (1, Some(1)), "a run without messages stays");
    sweep(&mut world, 20);
    for _ in 0..2 {
        threads(&mut world, &["busy"]);
        world.settle();
        assert_eq!((driver(&world, 2), world.session(second).live), (0, Some(3)));
    }
    let claims = world.outside.write(second, vec![claim(4, 3), claim(6, 3)]);
    world.put(claims);
    threads(&mut world, &["idle"]);
    world.settle();
    assert_eq!(driver(&world, 1), 1, "the other one is busy with it");
}

/// If no other provider takes work, the second session waits for the trial of the first one.
#[test]
fn a_session_waits_for_the_trial_of_another_one() {
    let mut world = World::of(&with_fallbacks(&per_thread("max_parallel = 3"), ""));
    threads(&mut world, &["a"]);
    world.settle();
    for seconds in [20, 600, 600] {
        refuse(&mut world, 1, 2, limited(seconds));
    }
    sweep(&mut world, 20);
    threads(&mut world, &["b"]);
    world.settle();
    assert_eq!((driver(&world, 1), live(&world)), (0, vec![1]));
    answer(&mut world, 1, 2, 3);
    assert_eq!((driver(&world, 2), live(&world)), (0, vec![1, 2]));
}

/// A provider misses nothing if only its run ended.
#[test]
fn a_new_run_of_the_same_provider_is_told_nothing() {
    let mut world = setup();
    ask(&mut world, "1", "one");
    answer(&mut world, 1, 2, 3);
    let gone = world.outside.end(S, 1, Exit::Signal(9));
    world.put(gone);
    world.settle();
    ask(&mut world, "2", "two");
    assert_eq!((world.session(S).live, recap(&world, 1).len(), gaps(&world)), (Some(2), 0, 0));
}

/// A message that arrives during a turn of the fallback joins it.
#[test]
fn a_turn_under_way_is_not_interrupted() {
    let mut world = setup();
    ask(&mut world, "1", "one");
    refuse(&mut world, 1, 2, limited(20));
    let claims = world.outside.write(S, vec![claim(2, 2)]);
    world.put(claims);
    world.pass(Millis::seconds(20));
    ask(&mut world, "2", "two");
    assert_eq!((driver(&world, 1), world.session(S).live), (1, Some(2)));
    assert!(world.outside.inbox[&S].contains_key(&4));
    answer(&mut world, 1, 2, 3);
    answer(&mut world, 1, 4, 5);
    ask(&mut world, "3", "three");
    assert_eq!(driver(&world, 1), 0);
}

/// Nothing from before a reset reaches another provider.
#[test]
fn a_recap_begins_after_a_reset() {
    for reset in ["command", "chat"] {
        let owner = "[[users]]\nid = \"net:ann\"\nroles = [\"owner\"]\n";
        let mut world = World::of(&with_fallbacks(&format!("{ONE}{owner}"), ""));
        ask(&mut world, "1", "a secret");
        answer(&mut world, 1, 2, 3);
        if reset == "chat" {
            ask(&mut world, "2", "/clear");
            answer(&mut world, 1, 4, 5);
        } else {
            world.configure(vec![Change::ResetSession(S)]).unwrap();
            world.settle();
        }
        ask(&mut world, "3", "later");
        let seq = world.session(S).last_number;
        answer(&mut world, 1, seq, seq + 1);
        ask(&mut world, "4", "now");
        refuse(&mut world, 1, seq + 2, limited(60));
        assert_eq!(driver(&world, 1), 1);
        let told = recap(&world, 1).join("\n");
        assert!(
            told.contains("Ann: later") && !told.contains("secret") && !told.contains("words 3"),
            "{reset}: {told}"
        );
    }
}

/// A fallback that the file does not list any more gets nothing, and its pause is forgotten.
#[test]
fn a_provider_that_is_not_listed_gets_nothing() {
    let mut world = setup();
    ask(&mut world, "1", "one");
    refuse(&mut world, 1, 2, limited(600));
    answer(&mut world, 1, 2, 3);
    assert_eq!(driver(&world, 1), 1);
    world.apply(ONE);
    world.settle();
    assert_eq!(world.session(S).live, None, "its idle run ends");
    ask(&mut world, "2", "two");
    assert_eq!((driver(&world, 1), recap(&world, 1).len()), (0, 2));
    answer(&mut world, 1, 4, 5);
    assert_eq!(gaps(&world), 0);
    refuse_all(&mut world);
}

/// Without fallbacks the agent waits, as ever.
fn refuse_all(world: &mut World) {
    ask(world, "9", "nine");
    refuse(world, 1, 6, limited(60));
    assert_eq!((driver(world, 1), world.session(S).live), (0, None));
}

/// Providers that refuse in turns cannot keep a message for ever.
#[test]
fn a_message_fails_after_a_day() {
    let mut world = setup();
    ask(&mut world, "1", "one");
    world.pass(Millis::days(1));
    world.pass(Millis::seconds(1));
    refuse(&mut world, 1, 2, limited(60));
    let MessageState::Failed { error, .. } = world.state_of(MessageId::new(1)) else {
        panic!("{:?}", world.state_of(MessageId::new(1)))
    };
    assert!(error.starts_with("the agent's providers refused requests for"), "{error}");
}

/// Starts that failed with one provider do not delay the next one.
#[test]
fn failed_starts_are_those_of_one_provider() {
    let mut world = setup();
    ask(&mut world, "1", "one");
    world.outside.startable = false;
    refuse(&mut world, 1, 2, limited(20));
    for _ in 0..3 {
        sweep(&mut world, 6);
    }
    assert!(world.session(S).failed_starts > 0);
    world.outside.startable = true;
    sweep(&mut world, 6);
    assert_eq!((driver(&world, 1), world.session(S).failed_starts, world.session(S).live.is_some()), (0, 0, true));
}

/// The daemon dies after each step of a switch, and its effects are lost.
#[test]
fn a_switch_survives_the_end_of_the_daemon_at_each_step() {
    for dies in 0..12 {
        let mut world = setup();
        let mut step = 0;
        let mut maybe = |world: &mut World| {
            if step == dies {
                world.lose_effects();
                world.restart();
            }
            step += 1;
            world.settle();
            world.sweep();
            world.settle();
        };
        world.inject(&event("1", "one", ""));
        maybe(&mut world);
        for (seq, fails) in [(2, true), (2, false), (4, false), (6, false)] {
            let Some(run) = world.session(S).live else { panic!("nothing runs at {seq}, dies {dies}") };
            let turn = match fails {
                true => vec![claim(seq, run), try_again(seq, vec![], run, limited(600))],
                false => vec![claim(seq, run), end(seq, run, vec![said(seq + 1, run, Some(seq), Recipient::Reply)])],
            };
            let turn = world.outside.write(S, turn);
            world.put(turn);
            maybe(&mut world);
            if !fails {
                world.inject(&event(&seq.to_string(), "more", ""));
                maybe(&mut world);
            }
        }
        world.assert_sound();
        let shown: Vec<&str> = world.outside.shown.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(shown, ["words 3", "words 5", "words 7"], "dies at {dies}");
    }
}

#[test]
fn a_removed_agent_leaves_no_pauses() {
    let mut world = setup();
    ask(&mut world, "1", "one");
    refuse(&mut world, 1, 2, limited(60));
    refuse(&mut world, 1, 2, limited(60));
    world.configure(vec![Change::RemoveAgent(Folder::new("main").unwrap())]).unwrap();
    world.settle();
    let left = world.read(|db, txn| Ok((db.rate_limits.len(txn)?, db.fallback_limits.len(txn)?)));
    assert_eq!(left, (0, 0));
    world.assert_sound();
}

/// Names of models and efforts are those of one provider.
#[test]
fn what_was_chosen_for_a_conversation_is_for_the_first_provider() {
    let mut world = setup();
    ask(&mut world, "1", "one");
    answer(&mut world, 1, 2, 3);
    for choice in [SessionChoice::Model(Some("opus".into())), SessionChoice::Effort(Some("high".into()))] {
        world.configure(vec![Change::ChooseForSession(S, choice)]).unwrap();
    }
    world.settle();
    ask(&mut world, "2", "two");
    let settings = |world: &World| {
        let started = &world.outside.started[&S];
        (started.model.clone(), started.effort.clone())
    };
    assert_eq!((driver(&world, 1), settings(&world)), (0, (Some("opus".into()), Some("high".into()))));
    refuse(&mut world, 1, 4, limited(60));
    assert_eq!((driver(&world, 1), settings(&world)), (1, (None, None)));
    refuse(&mut world, 1, 4, limited(60));
    assert_eq!((driver(&world, 1), settings(&world)), (2, (Some("small".into()), None)));
}
