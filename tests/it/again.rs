//! Failed turns that may be retried. A retry counts as a try, unless the provider limits requests.

use hearth::model::configure::Change;
use hearth::model::entity::Folder;
use hearth::model::id::{MessageId, SessionId};
use hearth::model::incarnation::{Exit, Phase, StopReason};
use hearth::model::mailbox::{Answer, CollectedRecord, Collection, Failure, Recipient, Record, RetryHint};
use hearth::model::message::{Due, MessageState};
use hearth::model::task::TaskHome;
use hearth::model::task_command::NewTask;
use hearth::model::{Effect, Input, Millis};

use crate::world::lifecycle::{answer, live, pass, per_thread, running, threads};
use crate::world::outside::{claim, end, mid_turn, said, try_again};
use crate::world::schedules;
use crate::world::{ONE, World, event};

const S: SessionId = SessionId::new(1);
const M: MessageId = MessageId::new(1);

/// An incarnation takes a message, and its turn fails.
fn fail(world: &mut World, (session, seq): (u64, u64), again: RetryHint) {
    let session = SessionId::new(session);
    let number = world.session(session).live.unwrap();
    let turn = world.outside.write(session, vec![claim(seq, number), try_again(seq, vec![], number, again)]);
    world.put(turn);
    world.settle();
    world.assert_sound();
}

fn sweep(world: &mut World, seconds: u64) {
    world.pass(Millis::seconds(seconds));
    world.sweep();
    world.settle();
}

fn due_in(world: &World, seconds: u64) -> MessageState {
    MessageState::Pending(Due::Retry(world.now().awake.plus(Millis::seconds(seconds))))
}

fn said_to_people(world: &World) -> Vec<String> {
    world.all_outbound().into_iter().map(|(_, outbound)| outbound.text).collect()
}

/// One transaction each, with a snapshot of the store.
#[test]
fn a_failed_turn_in_the_store() {
    for (again, name) in [(RetryHint::Later, "again_later"), (RetryHint::Wait(Some(Millis::minutes(5))), "again_wait")]
    {
        let mut world = running();
        world.begin_script();
        fail(&mut world, (1, 2), again);
        world.check(name);
    }
}

/// Five tries with the waits of a lost turn, then the message fails. The person is told once, and the owner is told
/// why.
#[test]
fn trouble_costs_tries() {
    let mut world = running();
    world.apply("[[chats]]\nchannel = \"terminal\"\nplatform_id = \"t\"");
    for (tries, wait) in [(1, 5_u64), (2, 10), (3, 20), (4, 40), (5, 80)] {
        fail(&mut world, (1, 2), RetryHint::Later);
        assert_eq!((world.state_of(M), world.message(M).tries), (due_in(&world, wait), tries));
        assert_eq!(world.incarnation(S, tries).stopped_for, Some(StopReason::TurnFailed));
        assert_eq!(world.session(S).live, None, "the next one takes the turn");
        sweep(&mut world, wait);
        assert_eq!(world.session(S).live, Some(tries + 1));
    }
    fail(&mut world, (1, 2), RetryHint::Later);
    let MessageState::Failed { error, .. } = world.state_of(M) else { panic!("{:?}", world.state_of(M)) };
    assert_eq!(error, "failed after 5 tries; the last one ended with: 529 overloaded");
    let said = said_to_people(&world);
    assert!(said.len() == 2 && said[0].contains("529 overloaded"), "{said:?}");
    assert_eq!(said[1], "The agent could not process your message; its owner has been told.");
    assert_eq!(world.outside.settled.last().unwrap().answers.len(), 1);
    assert_eq!(world.session(S).failed_starts, 0);
}

/// All messages of a turn are retried together, context is context again, and what the turn already sent is sent once.
#[test]
fn a_turn_stays_together() {
    let mut world = World::of(&ONE.replace("pattern = \".\"", "pattern = \"!\"\nignored = \"accumulate\""));
    for (id, text) in [("1", "context"), ("2", "!"), ("3", "!")] {
        world.inject(&event(id, text, ""));
    }
    world.settle();
    let mut last = try_again(6, vec![2, 4], 1, RetryHint::Later);
    let Record::End { answers, .. } = &mut last.record else { unreachable!() };
    answers.push(Answer::Read(Box::new(said(9, 1, Some(6), Recipient::Reply))));
    let turn = vec![claim(2, 1), claim(4, 1), claim(6, 1), mid_turn(said(7, 1, Some(6), Recipient::Reply)), last];
    let turn = world.outside.write(S, turn);
    world.put(turn);
    world.settle();
    let states: Vec<MessageState> = world.all_messages().into_iter().map(|(_, message)| message.state).collect();
    assert_eq!(states, [MessageState::Pending(Due::Now), due_in(&world, 5), due_in(&world, 5)]);
    let shown: Vec<&str> = world.outside.shown.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(shown, ["words 7"], "the answer of a turn that failed is put aside");
    sweep(&mut world, 5);
    let inbox: Vec<u64> = world.outside.inbox[&S].keys().copied().collect();
    assert_eq!((inbox, world.session(S).live), (vec![2, 4, 6], Some(2)));
    let turn = world.outside.write(S, vec![claim(4, 2), claim(6, 2), end(4, 2, vec![]), end(6, 2, vec![])]);
    world.put(turn);
    world.settle();
    assert_eq!(said_to_people(&world), ["words 7", "words 9"], "the second was never sent");
    assert_eq!(world.outside.shown.len(), 1);
}

/// Files of a failed turn that are found again change nothing, even while another run is live.
#[test]
fn files_of_a_failed_turn_found_twice() {
    for again in [RetryHint::Later, RetryHint::Wait(None)] {
        let mut world = running();
        let found = vec![claim(2, 1), try_again(2, vec![], 1, again)];
        let found = Input::Collected(Collection { session: S, found, closes: None });
        world.put(found.clone());
        let look_again = |world: &mut World| {
            let before = world.text();
            world.put(found.clone());
            assert_eq!(world.text(), before, "{again:?}");
        };
        look_again(&mut world);
        world.settle();
        look_again(&mut world);
        for _ in 0..3 {
            sweep(&mut world, 30);
            look_again(&mut world);
        }
        assert_eq!(world.session(S).live, Some(2));
        let turn = world.outside.write(S, vec![claim(2, 2)]);
        world.put(turn);
        look_again(&mut world);
        assert!(matches!(world.state_of(M), MessageState::Claimed { incarnation: 2, .. }));
    }
}

/// A message that two turns of one incarnation name was part of one failure.
#[test]
fn a_message_of_two_failed_turns_loses_one_try() {
    let mut world = running();
    for id in ["m2", "m3"] {
        world.inject(&event(id, "x", ""));
    }
    let found = vec![
        claim(2, 1),
        claim(4, 1),
        claim(6, 1),
        try_again(2, vec![4], 1, RetryHint::Later),
        try_again(6, vec![4], 1, RetryHint::Later),
    ];
    world.put(Input::Collected(Collection { session: S, found, closes: None }));
    let tries: Vec<u32> = (1..=3).map(|id| world.message(MessageId::new(id)).tries).collect();
    assert_eq!(tries, [1, 1, 1]);
}

/// Messages that fail in a turn of an agent that was removed meanwhile are not retried.
#[test]
fn what_fails_after_the_removal_of_its_agent_is_dropped() {
    for again in [RetryHint::Later, RetryHint::Wait(None)] {
        let mut world = running();
        let claims = world.outside.write(S, vec![claim(2, 1)]);
        world.put(claims);
        world.configure(vec![Change::RemoveAgent(Folder::new("main").unwrap())]).unwrap();
        world.put(Input::Collected(Collection {
            session: S,
            found: vec![try_again(2, vec![], 1, again)],
            closes: None,
        }));
        let state = world.state_of(M);
        assert!(matches!(state, MessageState::Dropped { .. }), "{state:?}");
    }
}

/// One session reports a rate limit, and the whole agent waits. Then one session is tried, and after its success the
/// others follow.
#[test]
fn an_agent_is_held_off_as_a_whole() {
    let mut world = World::of(&per_thread("max_parallel = 3"));
    threads(&mut world, &["a", "b"]);
    world.settle();
    fail(&mut world, (1, 2), RetryHint::Wait(Some(Millis::seconds(20))));
    assert_eq!(world.state_of(M), due_in(&world, 20));
    assert_eq!(world.state_of(MessageId::new(2)), due_in(&world, 20), "what nobody took waits as well");
    assert!(world.outside.inbox[&SessionId::new(2)].is_empty(), "and is not there to be taken");
    threads(&mut world, &["c"]);
    world.settle();
    sweep(&mut world, 19);
    assert_eq!(live(&world), [2], "nobody is started");
    assert!(world.all_messages().iter().all(|(_, message)| message.tries == 0));
    assert!(said_to_people(&world).is_empty(), "nobody has waited for long");
    let gone = world.outside.end(SessionId::new(2), 1, Exit::Code(0));
    world.put(gone);
    world.settle();
    sweep(&mut world, 1);
    assert_eq!(live(&world), [1], "one is tried");
    sweep(&mut world, 10);
    assert_eq!(live(&world), [1]);
    answer(&mut world, 1, 2);
    sweep(&mut world, 1);
    assert_eq!(live(&world), [1, 2, 3], "it works again");
    assert_eq!(world.read(|db, txn| db.rate_limits.len(txn)), 0);
}

/// During a rate limit, a second one can only lengthen it, and does not count as another one in a row.
#[test]
fn a_second_word_while_an_agent_is_held_off() {
    let mut world = World::of(&per_thread("max_parallel = 3"));
    threads(&mut world, &["a", "b", "c"]);
    world.settle();
    let noted = |world: &World| {
        let (_, row) = world.read(|db, txn| db.rate_limits.first(txn, ..)).unwrap();
        (row.until.since(world.now().awake).get() / 1_000, row.since.millis(), row.waits)
    };
    for session in [2, 3] {
        let session = SessionId::new(session);
        let claims = world.outside.write(session, vec![claim(2, 1)]);
        world.put(claims);
    }
    let since = world.now().wall.millis();
    fail(&mut world, (1, 2), RetryHint::Wait(Some(Millis::seconds(60))));
    assert_eq!(noted(&world), (60, since, 1));
    world.pass(Millis::seconds(10));
    fail(&mut world, (2, 2), RetryHint::Wait(Some(Millis::seconds(7))));
    assert_eq!(noted(&world), (50, since, 1));
    fail(&mut world, (3, 2), RetryHint::Wait(Some(Millis::seconds(90))));
    assert_eq!(noted(&world), (90, since, 1));
}

/// A message that fails for good does not delay the other messages of its turn.
#[test]
fn the_backoff_is_that_of_what_is_tried_again() {
    let mut world = running();
    for wait in [5, 10, 20, 40, 80] {
        fail(&mut world, (1, 2), RetryHint::Later);
        sweep(&mut world, wait);
    }
    world.inject(&event("2", "y", ""));
    world.settle();
    let turn = vec![claim(2, 6), claim(4, 6), try_again(2, vec![4], 6, RetryHint::Later)];
    let turn = world.outside.write(S, turn);
    world.put(turn);
    world.settle();
    assert!(matches!(world.state_of(M), MessageState::Failed { .. }));
    assert_eq!(world.state_of(MessageId::new(2)), due_in(&world, 5));
}

/// If the provider names no time, the waits double. The person is told once, after a minute, and it costs no try.
#[test]
fn people_are_told_once_of_a_wait() {
    let mut world = running();
    for (count, wait) in [(0, 30_u64), (1, 60), (1, 120), (1, 240), (1, 480), (1, 900), (1, 900)] {
        fail(&mut world, (1, 2), RetryHint::Wait(None));
        assert_eq!((world.state_of(M), world.message(M).tries), (due_in(&world, wait), 0));
        assert_eq!(said_to_people(&world).len(), count, "{wait}");
        sweep(&mut world, wait);
    }
    let said = said_to_people(&world);
    assert!(
        said[0].contains("overloaded or limits its use") && said[0].ends_with("at about 12:02 at the earliest."),
        "{said:?}"
    );
    // The author of a message that arrives meanwhile is also told once about their own message.
    fail(&mut world, (1, 2), RetryHint::Wait(Some(Millis::minutes(60))));
    world.inject(&event("2", "are you there?", ""));
    world.settle();
    pass(&mut world, 300);
    assert_eq!(said_to_people(&world).len(), 2);
    assert_eq!(world.session(S).live, None);
    // When the provider works again, both are answered.
    sweep(&mut world, 3_300);
    answer(&mut world, 1, 2);
    answer(&mut world, 1, 4);
    assert!(world.all_messages().iter().all(|(_, m)| matches!(m.state, MessageState::Completed { .. })));
}

/// An hour without internet costs no try, and a person is told once.
#[test]
fn a_provider_that_cannot_be_reached_is_waited_for() {
    let mut world = running();
    for (count, wait) in [(0, 30_u64), (1, 60), (1, 120), (1, 240), (1, 480), (1, 900), (1, 900)] {
        fail(&mut world, (1, 2), RetryHint::Unreachable);
        assert_eq!((world.state_of(M), world.message(M).tries), (due_in(&world, wait), 0));
        assert_eq!(said_to_people(&world).len(), count, "{wait}");
        sweep(&mut world, wait);
    }
    let said = said_to_people(&world);
    assert!(said[0].starts_with("Your message waits: the agent's provider cannot be reached."), "{said:?}");
    fail(&mut world, (1, 2), RetryHint::Unreachable);
    world.pass(Millis::days(1));
    world.sweep();
    world.settle();
    fail(&mut world, (1, 2), RetryHint::Unreachable);
    let MessageState::Failed { error, .. } = world.state_of(M) else { panic!("{:?}", world.state_of(M)) };
    assert!(error.contains("could not be reached for"), "{error}");
}

/// After a day the message fails, whatever the provider says, even if it was never tried.
#[test]
fn a_wait_ends_after_a_day() {
    let mut world = running();
    world.inject(&event("2", "y", ""));
    world.settle();
    fail(&mut world, (1, 2), RetryHint::Wait(Some(Millis::minutes(7 * 24 * 60))));
    let day = Millis::minutes(24 * 60);
    world.pass(Millis::new(day.get() - 1));
    world.sweep();
    world.settle();
    assert!(matches!(world.state_of(M), MessageState::Pending(Due::Retry(_))));
    world.pass(Millis::new(1));
    world.sweep();
    world.settle();
    assert_eq!(world.session(S).live, Some(2), "a last try");
    fail(&mut world, (1, 2), RetryHint::Wait(None));
    for (_, message) in world.all_messages() {
        let MessageState::Failed { error, .. } = message.state else { panic!("{message:?}") };
        assert!(error.contains("529 overloaded"), "{error}");
    }
    let said = said_to_people(&world);
    let (waits, failed): (Vec<&String>, Vec<&String>) = said.iter().partition(|text| text.contains("waits"));
    assert_eq!((waits.len(), failed.len()), (1, 1), "once for a chat: {said:?}");
    assert!(
        failed[0].starts_with("The agent could not process 2 messages.") && failed[0].ends_with("\n- x\n- y"),
        "{failed:?}"
    );
}

/// A restarted daemon, changed settings and a restarted agent retry at once; a removed agent leaves nothing.
#[test]
fn what_ends_a_wait() {
    let folder = || Folder::new("main").unwrap();
    let restarts: [fn(&mut World); 4] = [
        |world| world.restart(),
        |world| drop(world.apply(&ONE.replace("\"main\"\n[[chats]]", "\"main\"\nmodel = \"other\"\n[[chats]]"))),
        |world| drop(world.configure(vec![Change::RestartAgent(Folder::new("main").unwrap(), None)]).unwrap()),
        |world| drop(world.apply(&format!("max_containers = 3\n{ONE}"))),
    ];
    for (number, (restart, at_once)) in restarts.into_iter().zip([true, true, true, false]).enumerate() {
        let mut world = running();
        fail(&mut world, (1, 2), RetryHint::Wait(Some(Millis::minutes(60))));
        restart(&mut world);
        world.settle();
        assert_eq!(world.session(S).live.is_some(), at_once, "{number}");
    }
    let mut world = running();
    fail(&mut world, (1, 2), RetryHint::Wait(None));
    world.configure(vec![Change::RemoveAgent(folder())]).unwrap();
    world.settle();
    sweep(&mut world, 30);
    assert!(matches!(world.state_of(M), MessageState::Dropped { .. }));
    assert_eq!(world.read(|db, txn| db.rate_limits.len(txn)), 0);
}

/// An incarnation that works on another message when one of its turns fails ends after that message.
#[test]
fn a_turn_that_fails_beside_another() {
    let mut world = running();
    world.inject(&event("2", "y", ""));
    let turn = world.outside.write(S, vec![claim(2, 1), claim(4, 1), try_again(2, vec![], 1, RetryHint::Later)]);
    world.put(turn);
    world.settle();
    assert_eq!(world.incarnation(S, 1).phase, Phase::Running);
    sweep(&mut world, 5);
    assert!(world.outside.inbox[&S].keys().eq([&4]), "the failed one is for the next incarnation");
    let turn = world.outside.write(S, vec![end(4, 1, vec![])]);
    world.put(turn);
    world.settle();
    assert_eq!((world.incarnation(S, 1).stopped_for, world.session(S).live), (Some(StopReason::TurnFailed), Some(2)));
}

/// The end of a turn that is found after its incarnation is gone.
#[test]
fn a_failure_among_the_last_words() {
    let mut world = running();
    let gone = world.outside.end(S, 1, Exit::Code(0));
    world.put(gone);
    world.lose_effects();
    let found = vec![claim(2, 1), try_again(2, vec![], 1, RetryHint::Wait(None))];
    world.put(Input::Collected(Collection { session: S, found, closes: Some(1) }));
    world.settle();
    assert_eq!((world.state_of(M), world.message(M).tries), (due_in(&world, 30), 0));
    assert_eq!(world.session(S).live, None);
}

/// An error that would repeat fails the message at once, as before.
#[test]
fn what_would_fail_again_is_given_up() {
    let mut world = running();
    let failure = Some(Failure { error: "no such model".to_owned(), again: RetryHint::Never });
    let record = Record::End { seq: 2, also: vec![], incarnation: 1, failure, gated: None, answers: vec![] };
    world.put(Input::Collected(Collection {
        session: S,
        found: vec![CollectedRecord { record, files: vec![] }],
        closes: None,
    }));
    assert!(matches!(world.state_of(M), MessageState::Failed { .. }));
    assert!(!world.effects.contains(&Effect::Stop(S, 1)));
    assert_eq!(
        said_to_people(&world),
        ["The agent could not process your message. Its owner can find out why with `hearth why ms1`."]
    );
}

/// Messages that fail together are counted and reported once in their chat, scheduled tasks each by name. This holds
/// for a turn with a permanent error and for one that was lost too often.
#[test]
fn what_fails_together_is_told_once_but_every_task() {
    for lost in [false, true] {
        let mut world = running();
        world.inject(&event("2", "y", ""));
        for _ in 0..2 {
            let (home, reply) = (TaskHome::Session(S), world.message(M).reply);
            world.put(schedules::add(NewTask { home, reply, ..schedules::new(&world, 1, None) }));
        }
        pass(&mut world, 10);
        let seqs: Vec<u64> = world.all_messages().into_iter().map(|(_, message)| message.seq).collect();
        let [seq, also @ ..] = &seqs[..] else { panic!() };
        assert_eq!(also.len(), 3);
        if lost {
            for _ in 0..6 {
                let number = world.session(S).live.unwrap();
                let claims = world.outside.write(S, seqs.iter().map(|seq| claim(*seq, number)).collect());
                world.put(claims);
                let gone = world.outside.end(S, number, Exit::Signal(11));
                world.put(gone);
                world.settle();
                pass(&mut world, 100);
            }
        } else {
            let failure = Some(Failure { error: "no such model".to_owned(), again: RetryHint::Never });
            let also = also.to_vec();
            let record = Record::End { seq: *seq, also, incarnation: 1, failure, gated: None, answers: vec![] };
            let found = vec![CollectedRecord { record, files: vec![] }];
            world.put(Input::Collected(Collection { session: S, found, closes: None }));
        }
        assert!(world.all_messages().iter().all(|(_, message)| matches!(message.state, MessageState::Failed { .. })));
        let told = said_to_people(&world);
        let told: Vec<&str> = told.iter().map(|text| text.split('.').next().unwrap()).collect();
        let message = "The agent could not process 2 messages";
        let task = "The agent could not do the scheduled task";
        assert_eq!(told, [message, &format!("{task} ta1"), &format!("{task} ta2")], "lost {lost}");
        let shown = &said_to_people(&world)[0];
        assert!(shown.ends_with("\n- x\n- y"), "{shown}");
    }
}
