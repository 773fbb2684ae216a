//! Threads: capabilities of adapters, the session of each thread, the address of answers, and where typing is shown.

use hearth::model::channel::ChannelKind;
use hearth::model::configure::{Change, ChannelSpec};
use hearth::model::id::SessionId;
use hearth::model::report::RouteReport;
use hearth::model::{Address, ChannelName, Effect};

use crate::world::outside::{claim, end};
use crate::world::routing::with_threads;
use crate::world::routing::{ALWAYS, KEEP, MENTION, MENTIONED, chat, launches, session_of};
use crate::world::{ONE, World, event, event_in};

/// Threads of stored messages, in order: that of the source and that of the reply address.
fn threads_of(world: &World, report: &RouteReport) -> (Option<String>, Option<String>) {
    let message = world.message(report.wirings[0].message.unwrap());
    let body = world.read(|db, txn| db.bodies.require(txn, &message.body));
    let thread = |at: Option<Address>| at.and_then(|at| at.thread).map(|thread| thread.to_string());
    (thread(body.source), thread(message.reply))
}

/// (the adapter's report, group, the wiring's mode) -> sessions of two threads and of messages outside of any, and
/// whether threads are kept.
#[test]
fn sessions_follow_the_thread_policy() {
    for (threads, group, mode, sessions, kept) in [
        // Unknown to the adapter: the wiring's mode counts, and answers go to the thread.
        (None, true, "shared", [1, 1, 1, 1], true),
        (None, true, "per-thread", [1, 2, 1, 3], true),
        (None, false, "shared", [1, 1, 1, 1], true),
        // There are no threads: a claimed thread is dropped first.
        (Some(false), true, "shared", [1, 1, 1, 1], false),
        (Some(false), true, "per-thread", [1, 1, 1, 1], false),
        (Some(false), false, "agent-shared", [1, 1, 1, 1], false),
        // In groups with threads each thread has its own session, whatever the wiring says.
        (Some(true), true, "shared", [1, 2, 1, 3], true),
        (Some(true), true, "per-thread", [1, 2, 1, 3], true),
        // Except for an agent with one session for everything.
        (Some(true), true, "agent-shared", [1, 1, 1, 1], true),
        // In a direct message the wiring's mode counts; answers still go to the thread.
        (Some(true), false, "shared", [1, 1, 1, 1], true),
        (Some(true), false, "per-thread", [1, 2, 1, 3], true),
    ] {
        let case = format!("{threads:?} {group} {mode}");
        let toml = chat("public", &[("main", &format!("{ALWAYS}\nsession = \"{mode}\""))]);
        let mut world = World::of(&toml.replace("group = true", &format!("group = {group}")));
        let places = [Some("t1"), Some("t2"), Some("t1"), None];
        for (n, (thread, session)) in places.into_iter().zip(sessions).enumerate() {
            let json = event_in(("net", "C", thread), (&n.to_string(), "x", ""), "");
            let report = world.inject(&with_threads(threads, &json));
            assert_eq!(session_of(&report), SessionId::new(session), "{case} at {n}");
            let expected = thread.filter(|_| kept).map(str::to_owned);
            assert_eq!(threads_of(&world, &report), (expected.clone(), expected), "{case} at {n}");
        }
    }
}

/// If the adapter does not say, the channel's kind decides; an undescribed channel is unknown.
#[test]
fn the_kind_of_a_channel_knows_whether_it_has_threads() {
    let put = |world: &mut World, kind| {
        let name = ChannelName::new("net").unwrap();
        let spec = ChannelSpec::named(name, kind);
        world.configure(vec![Change::PutChannel(spec)]).unwrap();
    };
    for (kind, said, sessions) in [
        (None, None, [1, 1]),
        (Some(ChannelKind::Webhook), None, [1, 2]),
        (Some(ChannelKind::Telegram), None, [1, 2]),
        // The adapter's report about a chat takes precedence over the capabilities of its kind.
        (Some(ChannelKind::Telegram), Some(false), [1, 1]),
        (None, Some(true), [1, 2]),
    ] {
        let mut world = World::of(&chat("public", &[("main", ALWAYS)]));
        if let Some(kind) = kind {
            put(&mut world, kind);
        }
        for (thread, session) in [("t1", sessions[0]), ("t2", sessions[1])] {
            let json = event_in(("net", "C", Some(thread)), (thread, "x", ""), "");
            let report = world.inject(&with_threads(said, &json));
            assert_eq!(session_of(&report), SessionId::new(session), "{kind:?} {said:?} {thread}");
        }
    }
    // People at the terminal have no threads.
    let mut world = World::of(&ONE.replace("\"net\"", "\"terminal\""));
    let report = world.inject(&event_in(("terminal", "C", Some("t")), ("1", "x", ""), ""));
    assert_eq!(threads_of(&world, &report), (None, None));
}

/// Every agent that receives an event answers at the same address.
#[test]
fn a_fan_out_has_one_address() {
    let mut world = World::of(&chat("public", &[("a", ALWAYS), ("b", KEEP), ("c", ALWAYS)]));
    let report = world.inject(&event_in(("net", "C", Some("t")), ("1", "x", ""), ""));
    let replies: Vec<Option<Address>> =
        report.wirings.iter().map(|wiring| world.message(wiring.message.unwrap()).reply).collect();
    assert_eq!(replies.len(), 3);
    assert!(replies.iter().all(|reply| *reply == replies[0] && reply.as_ref().unwrap().thread.is_some()));
}

/// Sessions of different modes never receive each other's messages, whichever is newer; in NanoClaw they did.
#[test]
fn modes_do_not_swallow_each_other() {
    let wired = |mode: &str| chat("public", &[("main", &format!("{ALWAYS}\nsession = \"{mode}\""))]);
    let mut world = World::of(&wired("shared"));
    let mut n = 0;
    let mut say = |world: &mut World, thread: Option<&str>| {
        n += 1;
        let report = world.inject(&event_in(("net", "C", thread), (&n.to_string(), "x", ""), ""));
        let session = world.session(session_of(&report));
        assert_eq!(session.active, world.now().wall);
        session_of(&report).number()
    };
    assert_eq!([say(&mut world, None), say(&mut world, None)], [1, 1]);
    world.apply(&wired("per-thread"));
    let per_thread =
        [say(&mut world, Some("thread-1")), say(&mut world, Some("thread-2")), say(&mut world, Some("thread-1"))];
    assert_eq!(per_thread, [2, 3, 2]);
    world.apply(&wired("agent-shared"));
    assert_eq!([say(&mut world, None), say(&mut world, Some("thread-1"))], [4, 4], "not the newest one of any mode");
    world.apply(&wired("per-thread"));
    assert_eq!([say(&mut world, Some("thread-2")), say(&mut world, Some("thread-9"))], [3, 5]);
    world.apply(&wired("shared"));
    assert_eq!(say(&mut world, Some("thread-2")), 1);
    // The result of routing: the chat for shared sessions, the thread for one of its own.
    let reply = |world: &World, id| world.session(SessionId::new(id)).reply.unwrap().thread.map(|t| t.to_string());
    assert_eq!([reply(&world, 1), reply(&world, 2), reply(&world, 4)], [None, Some("thread-1".to_owned()), None]);
}

fn typing(world: &World) -> Vec<(u64, String)> {
    let shown = |effect: &Effect| match effect {
        Effect::Typing(session, at) => {
            let thread = at.thread.as_ref().map(|thread| format!("/{thread}")).unwrap_or_default();
            Some((session.number(), format!("{}/{}{thread}", at.channel, at.platform_id)))
        }
        _ => None,
    };
    world.effects.iter().filter_map(shown).collect()
}

/// Typing is shown where the answer will appear, and only if a message was exported to the agent.
#[test]
fn typing_is_shown_where_the_answer_comes() {
    let mut world = World::of(&chat("public", &[("main", KEEP), ("other", MENTION)]));
    world.inject(&event("1", "x", ""));
    assert_eq!(typing(&world), [], "context wakes nobody");
    world.inject(&event_in(("net", "C", Some("t")), ("2", "x", ""), MENTIONED));
    assert_eq!(typing(&world), [(1, "net/C/t".to_owned()), (2, "net/C/t".to_owned())]);
    world.lose_effects();
    // Not in the chat of the message if the answer is redirected; NanoClaw shows it there.
    world.inject(
        r#"{"channelType":"net","platformId":"C","message":{"id":"3","isMention":true,"content":{"text":"x"}},
        "replyTo":{"channelType":"cli","platformId":"local"}}"#,
    );
    assert_eq!(typing(&world), [(1, "cli/local".to_owned()), (2, "cli/local".to_owned())]);
    world.lose_effects();
    world.inject(&event("3", "x", MENTIONED));
    assert_eq!(typing(&world), [], "the same event again wakes nobody");
}

/// Typing is not shown while no message can be handed over: no slot is free, or the incarnation is ending.
#[test]
fn typing_is_not_shown_while_nothing_wakes() {
    let one_place = chat("public", &[("main", ALWAYS)])
        .replace("folder = \"main\"", "folder = \"main\"\nmax_parallel = 1")
        .replace(ALWAYS, &format!("{ALWAYS}\nsession = \"per-thread\""));
    let mut world = World::of(&one_place);
    world.inject(&event_in(("net", "C", Some("a")), ("1", "x", ""), ""));
    assert_eq!((typing(&world).len(), launches(&world)), (1, 1));
    world.settle();
    let busy = world.outside.write(SessionId::new(1), vec![claim(2, 1)]);
    world.put(busy);
    world.lose_effects();
    world.inject(&event_in(("net", "C", Some("b")), ("2", "x", ""), ""));
    assert_eq!((typing(&world), launches(&world)), (vec![], 0), "it waits for a place");
    let done = world.outside.write(SessionId::new(1), vec![end(2, 1, vec![])]);
    world.put(done);
    world.put(crate::world::outside::gone(SessionId::new(1), 1, hearth::model::incarnation::Exit::Code(0)));
    world.lose_effects();
    world.inject(&event_in(("net", "C", Some("a")), ("3", "x", ""), ""));
    assert_eq!(typing(&world), [], "the incarnation has not been collected to its end");
}

/// A repeated context message that becomes a trigger shows typing, too.
#[test]
fn a_raised_message_shows_typing() {
    let mut world = World::of(&chat("public", &[("main", KEEP)]));
    world.inject(&event("1", "x", ""));
    world.inject(&event("1", "x", MENTIONED));
    assert_eq!(typing(&world), [(1, "net/C".to_owned())]);
}

/// A value that is not a boolean is refused at the edge, and the message names the field.
#[test]
fn whether_there_are_threads_is_a_boolean() {
    for (value, found) in [("\"true\"", "a string"), ("1", "a number"), ("{}", "an object"), ("[]", "an array")] {
        let json = event("1", "x", "").replacen('{', &format!("{{\"supportsThreads\":{value},"), 1);
        let error = hearth::channel::event::parse(json.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, format!("supportsThreads is {found}; it must be true or false"));
    }
    let none = event("1", "x", "").replacen('{', "{\"supportsThreads\":null,", 1);
    assert_eq!(hearth::channel::event::parse(none.as_bytes()).unwrap().threads, None);
}
