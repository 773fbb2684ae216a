//! Messages of a session that are queued together: which of them share a turn, what is set aside for it, and which of
//! them wait.

use super::*;
use crate::world::event;
use crate::world::routing::{KEEP, MENTIONED, chat};

/// A budget of so many tokens a day for a person.
fn of_person(who: &str, tokens: u64) -> String {
    format!("[[budgets]]\nscope = \"person:net:{who}\"\nper = \"day\"\ntokens = {tokens}\n")
}

fn begins(world: &mut World, message: MessageId) {
    let row = world.message(message);
    let run = world.session(row.session).live.unwrap();
    let written = world.outside.write(row.session, vec![claim(row.seq, run)]);
    world.put(written);
    world.settle();
    world.assert_sound();
}

fn is_given(world: &World, message: MessageId) -> bool {
    let row = world.message(message);
    world.outside.inbox[&row.session].contains_key(&row.seq)
}

/// Tokens that are set aside for each message of a session that was dispatched, in order.
fn aside(world: &World) -> Vec<u64> {
    reserved(world).iter().map(|row| row.tokens).collect()
}

/// A turn uses all that its sender may use. Of the messages that were queued meanwhile, only that person's wait.
#[test]
fn messages_wait_only_for_what_their_own_sender_used() {
    let budgets = [daily(1_100), of_person("ann", 1_000), of_person("bob", 40)].concat();
    let mut world = world(&format!("grace = 0\n{budgets}"), "on_limit = \"hold\"");
    let first = says(&mut world, "ann", "m1");
    begins(&mut world, first);
    let (second, third) = (says(&mut world, "ann", "m2"), says(&mut world, "bob", "m3"));
    // What a turn of one person may use does not count for the budget of another.
    assert_eq!((aside(&world), waits(&world, third)), (vec![250, 0, 10], false));
    works(&mut world, first, 1_000);
    assert_eq!((waits(&world, second), waits(&world, third)), (true, false));
    assert_eq!((is_given(&world, second), is_given(&world, third)), (false, true));
    assert_eq!(aside(&world), [10], "nothing is set aside for what waits");
    assert_eq!(count(&world, "Your message waits: "), 1, "{:?}", texts(&world));
}

/// A person has one message left that passes: of two that are judged at the same time, the second one waits.
#[test]
fn messages_that_pass_a_spent_budget_are_counted_when_they_are_judged_together() {
    let mut world = world(&format!("grace = 1\n{}", daily(1_000)), "on_limit = \"hold\"");
    let first = says(&mut world, "ann", "m1");
    begins(&mut world, first);
    let queued = [("ann", "m2"), ("ann", "m3"), ("bob", "m4")].map(|(who, id)| says(&mut world, who, id));
    works(&mut world, first, 1_000);
    assert_eq!(queued.map(|message| waits(&world, message)), [false, true, false]);
}

/// After each turn, what is set aside for the queued messages is what the last turns used: once for each person.
#[test]
fn what_is_set_aside_for_queued_messages_follows_the_last_turn() {
    let mut world = world(&format!("grace = 0\n{}", daily(40_000)), "on_limit = \"hold\"");
    for id in ["m1", "m2"] {
        let message = says(&mut world, "ann", id);
        works(&mut world, message, 100);
    }
    let third = says(&mut world, "ann", "m3");
    begins(&mut world, third);
    for (who, id) in [("bob", "m4"), ("bob", "m5"), ("ann", "m6")] {
        says(&mut world, who, id);
    }
    assert_eq!(aside(&world), [10_000, 10_000, 0, 0]);
    let since: Vec<Timestamp> = reserved(&world).iter().map(|row| row.at).collect();
    world.pass(Millis::seconds(10));
    works(&mut world, third, 100);
    assert_eq!(aside(&world), [100, 0, 100], "the third turn is the first one that counts");
    assert_eq!(reserved(&world).iter().map(|row| row.at).collect::<Vec<_>>(), since[1..], "they were dispatched then");
}

/// A mailbox holds 200 messages. Nothing is set aside for those behind them, until there is room in the mailbox.
#[test]
fn nothing_is_set_aside_for_messages_that_do_not_fit_into_the_mailbox() {
    let mut world = world(&format!("grace = 0\n{}", daily(40_000)), "on_limit = \"hold\"");
    let say = |world: &mut World, n: usize| {
        let json = event(&format!("m{n}"), "do it", "");
        let message = world.inject(&json).wirings[0].message.unwrap();
        world.settle();
        message
    };
    let all: Vec<MessageId> = (0..200).map(|n| say(&mut world, n)).collect();
    begins(&mut world, all[0]);
    let fits = say(&mut world, 200);
    assert_eq!((is_given(&world, fits), reserved(&world).len()), (true, 201), "one is being worked on");
    let late = say(&mut world, 201);
    assert_eq!((is_given(&world, late), reserved(&world).len()), (false, 201));
    works(&mut world, all[0], 10);
    let later = say(&mut world, 202);
    assert_eq!((is_given(&world, late), reserved(&world).len()), (false, 200), "those before are 200");
    works(&mut world, all[1], 10);
    assert_eq!((is_given(&world, late), is_given(&world, later), reserved(&world).len()), (true, false, 200));
}

/// The run has a message of an owner, which passes. A message that waits does not come with it, and what is set aside
/// for the owner's stays when the other one may go on.
#[test]
fn a_run_is_not_given_a_message_that_waits() {
    let mut world = world(&format!("grace = 0\n{}", daily(40_000)), "");
    let first = says(&mut world, "ann", "m1");
    works(&mut world, first, 40_000);
    let (owners, other) = (says(&mut world, "boss", "m2"), says(&mut world, "ann", "m3"));
    assert_eq!((is_given(&world, owners), is_given(&world, other)), (true, false));
    assert_eq!((waits(&world, other), aside(&world)), (true, vec![10_000]));
    world.put(Input::Decide(PromptSubject::Approval(ApprovalId::new(1)), "approve".into()));
    world.settle();
    world.assert_sound();
    assert_eq!((is_given(&world, other), aside(&world)), (true, vec![10_000, 10_000]));
}

/// While no run is free, messages of two people queue. Each is counted for the person who sent it.
#[test]
fn a_queued_message_is_counted_for_its_own_sender() {
    let of_agent = "on_limit = \"hold\"\nmax_parallel = 1";
    let mut world = world(&format!("grace = 0\n{}", of_person("ann", 100)), of_agent);
    world.apply(PER_THREAD);
    let before = writes_in(&mut world, "a", "ann", "m1");
    works(&mut world, before, 100);
    let under_way = writes_in(&mut world, "b", "bob", "m2");
    begins(&mut world, under_way);
    let queued = ["bob", "ann"].map(|who| writes_in(&mut world, "c", who, who));
    assert_eq!(queued.map(|message| waits(&world, message)), [false, true]);
}

#[test]
fn nothing_is_set_aside_for_a_message_that_no_budget_counts() {
    let mut world = world(&format!("grace = 0\n{}", of_person("bob", 100)), "");
    let message = says(&mut world, "ann", "m1");
    assert!(reserved(&world).is_empty());
    begins(&mut world, message);
    assert!(reserved(&world).is_empty());
    says(&mut world, "bob", "m2");
    assert_eq!(aside(&world), [25]);
}

/// A run begins context together with the message that it accompanies.
#[test]
fn nothing_is_set_aside_for_context() {
    let mut world = World::of(&format!("grace = 0\n{}{}", daily(1_000), chat("public", &[("main", KEEP)])));
    let [context, message] = [("m1", ""), ("m2", MENTIONED)]
        .map(|(id, more)| world.inject(&event(id, "do it", more)).wirings[0].message.unwrap());
    world.settle();
    begins(&mut world, context);
    begins(&mut world, message);
    assert_eq!(aside(&world), [250]);
}

/// Meanwhile turns use more than before: a message that joins a turn needs no more room than is set aside for that turn,
/// and one with a turn of its own waits.
#[test]
fn a_message_that_shares_a_turn_needs_no_room_of_its_own() {
    // The same amount: the model costs $1.25 for a million tokens.
    for limit in ["tokens = 20000", "usd = 0.025"] {
        let budget = format!("grace = 0\n[[budgets]]\nscope = \"agent:main\"\nper = \"day\"\n{limit}\n");
        let mut world = world(&budget, "on_limit = \"hold\"");
        world.apply(PER_THREAD);
        for n in 0..3 {
            let message = writes_in(&mut world, "a", "ann", &format!("a{n}"));
            works(&mut world, message, 100);
        }
        writes_in(&mut world, "b", "ann", "b1");
        for n in 0..3 {
            let message = writes_in(&mut world, "c", "ann", &format!("c{n}"));
            works(&mut world, message, 5_000);
        }
        let (joins, own) = (writes_in(&mut world, "b", "ann", "b2"), writes_in(&mut world, "d", "ann", "d1"));
        assert_eq!((waits(&world, joins), waits(&world, own)), (false, true), "{limit}");
    }
}

/// Someone else's message would join a turn that may use all that is left meanwhile.
#[test]
fn a_message_joins_a_turn_only_while_that_turn_has_room() {
    let budgets = [daily(1_000), of_person("bob", 40)].concat();
    let mut world = world(&format!("grace = 0\n{budgets}"), "on_limit = \"hold\"");
    world.apply(PER_THREAD);
    writes_in(&mut world, "a", "ann", "m1");
    for (id, tokens, joins) in [("m2", 700, true), ("m3", 150, false)] {
        let elsewhere = writes_in(&mut world, "b", "boss", id);
        works(&mut world, elsewhere, tokens);
        let message = writes_in(&mut world, "a", "bob", &format!("after {id}"));
        assert_eq!(!waits(&world, message), joins, "{id}");
    }
}

/// A budget in another unit is added while a message is queued. It counts what is used already, and what a message that
/// joins the turn is expected to use.
#[test]
fn a_message_that_shares_a_turn_needs_room_in_a_budget_that_was_added() {
    let of = |limit: &str| format!("[[budgets]]\nscope = \"agent:main\"\nper = \"day\"\n{limit}\n");
    for (limit, used, both) in
        [("usd = 1", 900, "usd = 1\ntokens = 1000"), ("tokens = 100000", 40_000, "tokens = 100000\nusd = 0.06")]
    {
        let mut world = world(&format!("grace = 0\n{}", of(limit)), "on_limit = \"hold\"");
        let first = says(&mut world, "ann", "m1");
        works(&mut world, first, used);
        let second = says(&mut world, "ann", "m2");
        let joins = says(&mut world, "ann", "m3");
        assert_eq!((waits(&world, second), waits(&world, joins)), (false, false), "{limit}");
        world.apply(&format!("timezone = \"UTC\"\ngrace = 0\n{}", of(both)));
        let later = says(&mut world, "ann", "m4");
        assert!(waits(&world, later), "{both}: {:?}", reserved(&world));
    }
}
