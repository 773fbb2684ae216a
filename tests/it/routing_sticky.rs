//! Followed threads, and muted threads.

use hearth::model::address::{ChannelName, ForeignId};
use hearth::model::configure::Change;
use hearth::model::entity::Folder;
use hearth::model::message::{MessageState, Reason};
use hearth::model::policy::Policy;
use hearth::model::report::{Action, Decision, Outcome, RouteReport};
use hearth::model::{Address, Effect, Input, Millis};

use crate::world::routing::with_threads;
use crate::world::routing::{ALWAYS, KEEP, MENTION, MENTIONED, chat, decisions, drops, launches};
use crate::world::routing::{place, sticky_rows};
use crate::world::{World, event_in};

pub(crate) const STICKY: &str = "engage = \"mention-sticky\"";
const STICKY_KEEP: &str = "engage = \"mention-sticky\"\nignored = \"accumulate\"";

const YES: (Decision, Reason) = (Decision::Engaged, Reason::Sticky);
const NAMED: (Decision, Reason) = (Decision::Engaged, Reason::Mentioned);
const NO: (Decision, Reason) = (Decision::Ignored, Reason::NotMentioned);
const KEPT: (Decision, Reason) = (Decision::Accumulated, Reason::NotMentioned);

fn of(wiring: &str) -> World {
    World::of(&chat("public", &[("main", wiring)]))
}

/// Sends a message in a thread of chat `C`; every call is a new event.
fn say(world: &mut World, thread: Option<&str>, more: &str) -> RouteReport {
    let id = format!("n{}", world.read(|db, txn| db.seen_events.len(txn)));
    world.inject(&with_threads(Some(true), &event_in(("net", "C", thread), (&id, "x", ""), more)))
}

fn decided(world: &mut World, thread: Option<&str>, more: &str) -> (Decision, Reason) {
    let report = say(world, thread, more);
    (report.wirings[0].decision, report.wirings[0].why)
}

fn subscribed(world: &World) -> Vec<String> {
    let thread = |effect: &Effect| match effect {
        Effect::Subscribe(at) => Some(at.thread.as_ref().map_or_else(String::new, ToString::to_string)),
        _ => None,
    };
    world.effects.iter().filter_map(thread).collect()
}

pub(crate) fn main_agent() -> Folder {
    Folder::new("main").unwrap()
}

fn change(world: &mut World, change: Change) -> Action {
    world.configure(vec![change]).unwrap()[0].action
}

/// A thread's further messages are requested once per event, and only for threads of groups.
#[test]
fn subscriptions() {
    for (threads, group, thread, more, expected) in [
        (Some(true), true, Some("t"), MENTIONED, 1),
        (Some(true), false, Some("t"), MENTIONED, 0),
        (Some(true), true, None, MENTIONED, 0),
        (Some(true), true, Some("t"), "", 0),
        (Some(false), true, Some("t"), MENTIONED, 0),
        (None, true, Some("t"), MENTIONED, 0),
    ] {
        let toml = chat("public", &[("a", STICKY), ("b", STICKY_KEEP), ("c", ALWAYS)]);
        let mut world = World::of(&toml.replace("group = true", &format!("group = {group}")));
        world.inject(&with_threads(threads, &event_in(("net", "C", thread), ("1", "x", ""), more)));
        assert_eq!(subscribed(&world).len(), expected, "{threads:?} {group} {thread:?} {more:?}");
    }
    // Wirings by pattern or mention do not follow a thread, and a refused sender starts no following.
    for (policy, wirings) in
        [("public", [("a", ALWAYS), ("b", MENTION)]), ("strict", [("a", STICKY), ("b", STICKY_KEEP)])]
    {
        let mut world = World::of(&chat(policy, &wirings));
        say(&mut world, Some("t"), MENTIONED);
        assert_eq!((subscribed(&world).len(), sticky_rows(&world)), (0, 0), "{policy}");
    }
}

/// A new connection of a channel was not told anything yet, and at the start of the daemon no channel is connected: the
/// requests are made when a channel with threads is reachable.
#[test]
fn followed_threads_are_requested_from_every_new_connection() {
    let mut world = of(STICKY);
    say(&mut world, Some("t"), MENTIONED);
    say(&mut world, None, MENTIONED);
    let connect = |world: &mut World, channel: &str| {
        world.effects.clear();
        world.put(Input::Reachable(ChannelName::new(channel).unwrap(), None));
        subscribed(world)
    };
    assert_eq!(connect(&mut world, "net"), Vec::<String>::new(), "nobody knows whether the channel has threads");
    let kind = hearth::model::channel::ChannelKind::Webhook;
    let channels = ["net", "other"].map(|name| {
        let name = ChannelName::new(name).unwrap();
        Change::PutChannel(hearth::model::configure::ChannelSpec::named(name, kind))
    });
    world.configure(channels.to_vec()).unwrap();
    world.restart();
    assert_eq!(subscribed(&world), Vec::<String>::new(), "nothing is connected");
    for (channel, expected) in [("net", &["t"][..]), ("other", &[]), ("net", &["t"])] {
        assert_eq!(connect(&mut world, channel), expected, "{channel}");
    }
    world.step_clock(25 * 60 * 60 * 1_000);
    assert_eq!(connect(&mut world, "net"), Vec::<String>::new());
    world.restart();
    assert_eq!(sticky_rows(&world), 0);
}

/// The existence of a session is no engagement, and an engagement expires.
#[test]
fn stickiness() {
    // No engagement yet.
    let mut world = of(STICKY);
    assert_eq!(decided(&mut world, Some("t"), ""), NO);
    assert_eq!(sticky_rows(&world), 0);
    // A mention, then further messages in the thread.
    assert_eq!(decided(&mut world, Some("t"), MENTIONED), NAMED);
    assert_eq!(decided(&mut world, Some("t"), ""), YES);
    // Not in another thread, and not outside of threads.
    assert_eq!(decided(&mut world, Some("u"), ""), NO);
    assert_eq!(decided(&mut world, None, ""), NO);
    assert_eq!(sticky_rows(&world), 1);
    // Where there are no threads, the whole chat is one.
    assert_eq!(decided(&mut world, None, MENTIONED), NAMED);
    assert_eq!(decided(&mut world, None, ""), YES);
    assert_eq!(decided(&mut world, Some("u"), ""), NO);
}

/// A direct message is never followed; there everything is addressed to the bot anyway.
#[test]
fn direct_messages_do_not_stick() {
    let toml = chat("public", &[("main", STICKY)]).replace("group = true", "group = false");
    let mut world = World::of(&toml);
    assert_eq!(decided(&mut world, Some("t"), MENTIONED), NAMED);
    assert_eq!((decided(&mut world, Some("t"), ""), sticky_rows(&world)), (NO, 0));
}

/// With the wiring that an approval creates, context that creates a session engages no agent; in NanoClaw it did.
#[test]
fn accumulating_never_makes_sticky() {
    let mut world = of(STICKY_KEEP);
    for _ in 0..3 {
        assert_eq!(decided(&mut world, Some("T1"), ""), KEPT);
    }
    assert_eq!((sticky_rows(&world), launches(&world)), (0, 0));
    assert!(world.all_messages().iter().all(|(_, message)| !message.trigger));
    assert_eq!(decided(&mut world, Some("T1"), MENTIONED), NAMED);
    assert_eq!(decided(&mut world, Some("T1"), ""), YES);
}

/// An agent with one session for everything still follows single threads; in NanoClaw it never did.
#[test]
fn agent_shared_sessions_stick_by_thread() {
    let mut world = of(&format!("{STICKY}\nsession = \"agent-shared\""));
    say(&mut world, Some("t"), MENTIONED);
    assert_eq!([decided(&mut world, Some("t"), ""), decided(&mut world, Some("u"), "")], [YES, NO]);
}

/// Following expires, and every engagement extends it; in NanoClaw it never ended.
#[test]
fn stickiness_lapses() {
    let lifetime = Policy::STANDARD.sticky_lifetime;
    let mut world = of(STICKY_KEEP);
    say(&mut world, Some("t"), MENTIONED);
    for _ in 0..3 {
        world.pass(Millis::new(lifetime.get() - 1));
        assert_eq!(decided(&mut world, Some("t"), ""), YES, "each engagement moves the end");
    }
    world.pass(lifetime);
    assert_eq!(decided(&mut world, Some("t"), ""), KEPT, "over, whether a sweep came or not");
    assert_eq!(sticky_rows(&world), 1);
    world.sweep();
    assert_eq!(sticky_rows(&world), 0);
    assert_eq!(decided(&mut world, Some("t"), ""), KEPT);
}

/// The start of following: the first engagement of an unbroken series, not one from before a pause.
#[test]
fn since_when_it_sticks() {
    let since = |world: &World| {
        let rows: Vec<_> = world.read(|db, txn| db.thread_follows.iter(txn)?.collect());
        rows[0].1.since
    };
    let lifetime = Policy::STANDARD.sticky_lifetime;
    let mut world = of(STICKY);
    say(&mut world, Some("t"), MENTIONED);
    let first = since(&world);
    assert_eq!(first, world.now().wall);
    for _ in 0..2 {
        world.pass(Millis::new(lifetime.get() - 1));
        say(&mut world, Some("t"), "");
        assert_eq!(since(&world), first);
    }
    world.pass(lifetime);
    say(&mut world, Some("t"), MENTIONED);
    assert_eq!(since(&world), world.now().wall, "over, and begun anew before a sweep came");
}

/// Sweeps remove expired rows in slices, and write nothing when nothing has expired.
#[test]
fn lapsed_rows_are_swept_in_slices() {
    let mut world = World::with(Policy { rows_per_input: 40, ..Policy::STANDARD }, |_| {});
    world.apply(&chat("public", &[("main", STICKY)]));
    for n in 0..25 {
        say(&mut world, Some(&format!("t{n}")), MENTIONED);
    }
    world.lose_effects();
    let before = world.text();
    world.sweep();
    assert_eq!((world.text() == before, sticky_rows(&world)), (true, 25));
    world.pass(Policy::STANDARD.sticky_lifetime);
    let left: Vec<u64> = (0..3)
        .map(|_| {
            world.sweep();
            sticky_rows(&world)
        })
        .collect();
    assert_eq!(left, [15, 5, 0]);
}

/// Following ends with the wiring, the chat and the agent, and does not come back with them.
#[test]
fn stickiness_ends_with_what_it_stands_on() {
    let net = || (ChannelName::new("net").unwrap(), ForeignId::new("chat", "C").unwrap());
    let toml = chat("public", &[("main", STICKY)]);
    for end in [
        Change::RemoveWiring(net().0, net().1, main_agent()),
        Change::RemoveChat(net().0, net().1),
        Change::RemoveAgent(main_agent()),
    ] {
        let mut world = World::of(&toml);
        say(&mut world, Some("t"), MENTIONED);
        say(&mut world, None, MENTIONED);
        change(&mut world, end.clone());
        assert_eq!(sticky_rows(&world), 0, "{end:?}");
        world.apply(&toml);
        assert_eq!([decided(&mut world, Some("t"), ""), decided(&mut world, None, "")], [NO, NO], "{end:?}");
    }
    // Changed, but still there: following continues.
    let mut world = World::of(&toml);
    say(&mut world, Some("t"), MENTIONED);
    world.apply(&chat("public", &[("main", &format!("{STICKY}\npriority = 5"))]));
    assert_eq!(decided(&mut world, Some("t"), ""), YES);
    // Another mode, and back: the earlier following is over.
    world.apply(&chat("public", &[("main", MENTION)]));
    assert_eq!((decided(&mut world, Some("t"), ""), sticky_rows(&world)), (NO, 0));
    world.apply(&toml);
    assert_eq!(decided(&mut world, Some("t"), ""), NO);
}

/// With a wrong clock: following that began later than now still counts.
#[test]
fn stickiness_survives_a_clock_that_is_set_back() {
    let mut world = of(STICKY);
    world.step_clock(-7 * 24 * 60 * 60 * 1_000);
    say(&mut world, Some("t"), MENTIONED);
    assert_eq!(decided(&mut world, Some("t"), ""), YES);
}

#[test]
fn stickiness_ends_by_command() {
    let mut world = of(STICKY);
    for thread in [Some("t"), Some("u"), None] {
        say(&mut world, thread, MENTIONED);
    }
    assert_eq!(change(&mut world, Change::EndSticky(main_agent(), place(Some("t")))), Action::Removed);
    assert_eq!([decided(&mut world, Some("t"), ""), decided(&mut world, Some("u"), "")], [NO, YES]);
    let again = world.configure(vec![Change::EndSticky(main_agent(), place(Some("t")))]).unwrap_err();
    assert!(again.message.contains("main is not following net/C (thread t)"), "{}", again.message);
    assert_eq!(change(&mut world, Change::EndSticky(main_agent(), place(None))), Action::Removed);
    assert_eq!([decided(&mut world, Some("u"), ""), decided(&mut world, None, "")], [NO, NO]);
    assert_eq!(sticky_rows(&world), 0);
}

/// A muted thread never wakes the agent: what would engage becomes context if the wiring keeps context, and is
/// otherwise recorded once.
#[test]
fn mutes() {
    const MUTED_KEPT: (Decision, Reason) = (Decision::Accumulated, Reason::Muted);
    const MUTED: (Decision, Reason) = (Decision::Ignored, Reason::Muted);
    let always_keep = format!("{ALWAYS}\nignored = \"accumulate\"");
    for (wiring, mentioned, plain) in [
        (ALWAYS, MUTED, MUTED),
        (always_keep.as_str(), MUTED_KEPT, MUTED_KEPT),
        (STICKY, MUTED, NO),
        (STICKY_KEEP, MUTED_KEPT, KEPT),
        (MENTION, MUTED, NO),
        (KEEP, MUTED_KEPT, KEPT),
    ] {
        let mut world = of(wiring);
        say(&mut world, Some("t"), MENTIONED);
        assert_eq!(change(&mut world, Change::Mute(main_agent(), place(Some("t")))), Action::Created);
        assert_eq!(sticky_rows(&world), 0, "{wiring}: muting ends stickiness");
        let waiting = world.all_messages();
        world.lose_effects();
        assert_eq!(decided(&mut world, Some("t"), MENTIONED), mentioned, "{wiring}");
        assert_eq!(decided(&mut world, Some("t"), ""), plain, "{wiring}");
        let recorded: Vec<Reason> = [(mentioned, Reason::Muted), (plain, plain.1)]
            .into_iter()
            .filter(|((decision, _), _)| *decision == Decision::Ignored)
            .map(|(_, why)| if why == Reason::Muted { why } else { Reason::NoAgentEngaged })
            .collect();
        assert_eq!((drops(&world), launches(&world), sticky_rows(&world)), (recorded, 0, 0), "{wiring}");
        // Messages that already waited are not affected, and other threads still wake the agent.
        assert_eq!(world.all_messages()[..waiting.len()], waiting[..], "{wiring}");
        assert_eq!(decided(&mut world, Some("u"), MENTIONED).0, Decision::Engaged, "{wiring}");
        assert_eq!(change(&mut world, Change::Unmute(main_agent(), place(Some("t")))), Action::Removed);
        assert_eq!(decided(&mut world, Some("t"), MENTIONED).0, Decision::Engaged, "{wiring}");
    }
}

/// A mute is for one agent; without a thread it is for the whole chat.
#[test]
fn whose_and_what_a_mute_is() {
    let mut world = World::of(&chat("public", &[("main", ALWAYS), ("other", ALWAYS)]));
    let thread = world.configure(vec![Change::Mute(main_agent(), place(Some("u")))]).unwrap();
    assert_eq!(thread[0].entity, "mute net/C (thread u) of main");
    change(&mut world, Change::Mute(main_agent(), place(None)));
    for thread in [None, Some("t")] {
        let report = say(&mut world, thread, MENTIONED);
        assert_eq!(report.outcome, Outcome::Routed, "the other one has it");
        let engaged = ("other".to_owned(), Decision::Engaged, Reason::PatternMatch);
        assert_eq!(decisions(&report), [("main".to_owned(), Decision::Ignored, Reason::Muted), engaged]);
    }
    assert_eq!(drops(&world), [Reason::Muted, Reason::Muted], "one record each, although another took it");
    assert_eq!(change(&mut world, Change::Mute(main_agent(), place(None))), Action::Unchanged);
    change(&mut world, Change::Unmute(main_agent(), place(None)));
    assert_eq!(say(&mut world, Some("t"), "").wirings[0].decision, Decision::Engaged);
}

/// Muting a whole chat ends following in all its threads, and unmuting does not restore it.
#[test]
fn muting_a_chat_ends_all_its_stickiness() {
    let mut world = of(STICKY);
    for thread in [Some("t"), Some("u"), None] {
        say(&mut world, thread, MENTIONED);
    }
    change(&mut world, Change::Mute(main_agent(), place(None)));
    assert_eq!(sticky_rows(&world), 0);
    change(&mut world, Change::Unmute(main_agent(), place(None)));
    assert_eq!(decided(&mut world, Some("t"), ""), NO);
}

/// Messages that wait when a thread is muted are answered.
#[test]
fn what_waits_already_is_left_alone() {
    let mut world = of(ALWAYS);
    let report = say(&mut world, Some("t"), "");
    world.lose_effects();
    change(&mut world, Change::Mute(main_agent(), place(Some("t"))));
    world.sweep();
    let id = report.wirings[0].message.unwrap();
    assert!(matches!(world.state_of(id), MessageState::Pending(_)) && world.message(id).trigger);
}

#[test]
fn mutes_of_what_is_not_there() {
    let mut world = World::of(&chat("public", &[("main", ALWAYS)]).replace("\"net\"", "\"terminal\""));
    let ghost = Folder::new("ghost").unwrap();
    let terminal = |thread: Option<&str>| Address { channel: ChannelName::new("terminal").unwrap(), ..place(thread) };
    for (change, words) in [
        (Change::Mute(ghost.clone(), place(None)), "agent ghost not found"),
        (Change::Unmute(ghost.clone(), place(None)), "agent ghost not found"),
        (Change::EndSticky(ghost, place(None)), "agent ghost not found"),
        (Change::Mute(main_agent(), place(None)), "chat net/C not found"),
        (Change::EndSticky(main_agent(), place(None)), "chat net/C not found"),
        (Change::Unmute(main_agent(), terminal(None)), "terminal/C is not muted for main"),
        (Change::Mute(main_agent(), terminal(Some("t"))), "chats of terminal have no threads"),
    ] {
        let before = world.text();
        let refusal = world.configure(vec![change]).unwrap_err();
        assert!(refusal.message.contains(words), "{}", refusal.message);
        assert_eq!(world.text(), before);
    }
}

/// Mutes are removed with the chat and with the agent, and stay when only the wiring is removed: they are an operator's
/// decision.
#[test]
fn mutes_end_with_chat_and_agent() {
    let toml = chat("public", &[("main", ALWAYS)]);
    let (channel, id) = (place(None).channel, place(None).platform_id);
    for (end, left) in [
        (Change::RemoveChat(channel.clone(), id.clone()), 0),
        (Change::RemoveAgent(main_agent()), 0),
        (Change::RemoveWiring(channel, id, main_agent()), 1),
    ] {
        let mut world = World::of(&toml);
        change(&mut world, Change::Mute(main_agent(), place(Some("t"))));
        change(&mut world, end.clone());
        assert_eq!(world.read(|db, txn| db.mutes.len(txn)), left, "{end:?}");
        world.apply(&toml);
        let expected = if left == 0 { Decision::Engaged } else { Decision::Ignored };
        assert_eq!(decided(&mut world, Some("t"), "").0, expected, "{end:?}");
    }
}

/// A repeated event is decided the same way: a mute suppresses it, following makes it a trigger, and becoming a trigger
/// starts following.
#[test]
fn duplicates_are_decided_anew() {
    let again = |world: &mut World, more: &str| {
        world.inject(&with_threads(Some(true), &event_in(("net", "C", Some("t")), ("1", "x", ""), more)))
    };
    let mut world = of(STICKY_KEEP);
    again(&mut world, "");
    change(&mut world, Change::Mute(main_agent(), place(Some("t"))));
    let before = world.text();
    assert_eq!(again(&mut world, MENTIONED).wirings[0].why, Reason::AlreadyStored);
    assert_eq!(world.text(), before);
    change(&mut world, Change::Unmute(main_agent(), place(Some("t"))));
    assert_eq!(again(&mut world, MENTIONED).wirings[0].why, Reason::RaisedToTrigger);
    assert_eq!((subscribed(&world), sticky_rows(&world)), (vec!["t".to_owned()], 1));
    let before = world.text();
    again(&mut world, MENTIONED);
    assert_eq!(world.text(), before, "nothing is raised or prolonged a second time");

    let mut world = of(STICKY_KEEP);
    again(&mut world, "");
    say(&mut world, Some("t"), MENTIONED);
    assert_eq!(again(&mut world, "").wirings[0].why, Reason::RaisedToTrigger);
}

/// A thread name that is too long for a key, and one that has the same beginning.
#[test]
fn long_thread_names_stick() {
    let mut world = of(STICKY);
    let (long, other) = ("x".repeat(1_024), format!("{}y", "x".repeat(1_023)));
    say(&mut world, Some(&long), MENTIONED);
    assert_eq!([decided(&mut world, Some(&long), ""), decided(&mut world, Some(&other), "")], [YES, NO]);
}

/// A refused message engages no agent.
#[test]
fn a_backlog_and_a_refusal_do_not_stick() {
    let mut world = World::with(Policy { backlog_max: 1, ..Policy::STANDARD }, |_| {});
    world.apply(&chat("public", &[("main", STICKY)]));
    say(&mut world, Some("a"), MENTIONED);
    assert_eq!(decided(&mut world, Some("b"), MENTIONED), (Decision::Refused, Reason::Backlog));
    assert_eq!((sticky_rows(&world), subscribed(&world)), (1, vec!["a".to_owned()]));
    let mut world = World::of(&chat("strict", &[("main", STICKY)]));
    assert_eq!(decided(&mut world, Some("a"), MENTIONED).0, Decision::Refused);
    assert_eq!(sticky_rows(&world), 0);
}
