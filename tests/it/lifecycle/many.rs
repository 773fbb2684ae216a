//! More context, messages and claims than fit at once; repeated output, and a damaged row.

use hearth::model::configure::{Change, Configure};
use hearth::model::entity::{Folder, Origin};
use hearth::model::id::AgentId;
use hearth::state::{SessionKey, Tables, Write};

use super::*;
use crate::world::lifecycle::{live, per_thread, running, threads};

/// The newest context is exported, and older context is completed in the same transaction, or in several if there is
/// much of it.
#[test]
fn context_is_capped() {
    for (kept, written, rows) in [(3, 5, 1_000), (3, 3, 1_000), (0, 4, 1_000), (5, 60, 40)] {
        let policy = Policy { rows_per_input: rows, ..Policy::STANDARD };
        let mut world = World::with(policy, |_| {});
        let toml = ONE.replace("pattern = \".\"", "pattern = \"!\"\nignored = \"accumulate\"");
        world.apply(&toml.replace("folder = \"main\"", &format!("folder = \"main\"\nmax_prompt_messages = {kept}")));
        for n in 0..written {
            world.inject(&event(&n.to_string(), "context", ""));
        }
        world.inject(&event("t", "!", ""));
        let Some(Effect::Launch(launch)) = world.effects.iter().find(|effect| matches!(effect, Effect::Launch(_)))
        else {
            panic!("{:?}", world.effects)
        };
        let seqs: Vec<u64> = launch.export.messages.iter().map(|message| message.seq).collect();
        let expected: Vec<u64> = (written - kept.min(written)..=written).map(|n| n * 2 + 2).collect();
        assert_eq!(seqs, expected);
        assert!(launch.export.messages.iter().rev().skip(1).all(|message| !message.trigger));
        world.settle();
        let capped =
            |state: &MessageState| matches!(state, MessageState::Completed { how: Completion::ContextCapped, .. });
        let states: Vec<bool> = world.all_messages().iter().map(|(_, message)| capped(&message.state)).collect();
        let count = usize::try_from(written.saturating_sub(kept)).unwrap();
        assert_eq!(states.iter().filter(|capped| **capped).count(), count);
        assert!(states[..count].iter().all(|capped| *capped), "the oldest");
        assert_eq!(world.outside.settled.len(), count);
    }
}

/// Context that is capped while it is in a mailbox is removed from there.
#[test]
fn context_that_is_capped_leaves_the_mailbox() {
    let mut world = World::new();
    let toml = ONE.replace("pattern = \".\"", "pattern = \"!\"\nignored = \"accumulate\"");
    world.apply(&toml.replace("folder = \"main\"", "folder = \"main\"\nmax_prompt_messages = 2"));
    for text in ["a", "b", "!", "c", "d", "!"] {
        world.inject(&event(&format!("{text}{}", world.all_messages().len()), text, ""));
        world.settle();
    }
    let there: Vec<u64> = world.outside.inbox[&S].keys().copied().collect();
    assert_eq!(there, [6, 8, 10, 12]);
}

/// A mailbox is filled up to its limit, to the byte.
#[test]
fn a_mailbox_holds_so_many_bytes() {
    const MOST: usize = 8 << 20;
    const PARTS: usize = 17;
    let around = r#"{"text":"","senderId":"ann","senderName":"Ann"}"#.len();
    for (more, expected) in [(0, PARTS), (1, PARTS - 1)] {
        let mut world = World::of(ONE);
        for n in 0..=PARTS {
            let bytes = match n {
                PARTS => around,
                n if n + 1 == PARTS => MOST - n * (MOST / PARTS) + more,
                _ => MOST / PARTS,
            };
            world.inject(&event(&n.to_string(), &"x".repeat(bytes - around), ""));
            world.lose_effects();
        }
        let bodies = world.read(|db, txn| db.bodies.iter(txn)?.collect::<Result<Vec<_>, _>>());
        let bytes = bodies.iter().take(PARTS).map(|(_, body)| body.content.raw.as_str().len());
        assert_eq!(bytes.sum::<usize>(), MOST + more);
        world.sweep();
        world.settle();
        assert_eq!(world.outside.inbox[&S].len(), expected);
    }
}

/// While a mailbox has space, arriving messages are exported at once.
#[test]
fn a_mailbox_is_filled_to_its_end() {
    let mut world = running();
    for n in 0..220 {
        world.inject(&event(&format!("more {n}"), "x", ""));
        world.settle();
    }
    assert_eq!(world.outside.inbox[&S].len(), 200);
}

/// More messages than a mailbox holds at once follow turn by turn.
#[test]
fn many_messages_follow_each_other() {
    let mut world = World::of(ONE);
    for n in 0..250 {
        world.inject(&event(&n.to_string(), "x", ""));
        world.lose_effects();
    }
    world.sweep();
    world.settle();
    world.restart();
    world.settle();
    let number = world.session(S).live.unwrap_or_else(|| panic!("nothing runs"));
    assert_eq!(world.outside.inbox[&S].len(), 200);
    for seq in (2..=500).step_by(2) {
        assert!(world.outside.inbox[&S].contains_key(&seq), "{seq}");
        let turn = world.outside.write(S, vec![claim(seq, number), end(seq, number, vec![])]);
        world.put(turn);
        world.settle();
    }
    assert!(world.outside.inbox[&S].is_empty());
}

/// A claim of everything at once is given back in pieces, and only then the next one starts.
#[test]
fn many_claims_are_reset_in_pieces() {
    let policy = Policy { rows_per_input: 40, ..Policy::STANDARD };
    let mut world = World::with(policy, |_| {});
    world.apply(ONE);
    for n in 0..35 {
        world.inject(&event(&n.to_string(), "x", ""));
    }
    world.settle();
    let claims = world.outside.write(S, (1..=35).map(|n| claim(2 * n, 1)).collect());
    world.put(claims);
    world.settle();
    let gone = world.outside.end(S, 1, Exit::Signal(9));
    world.put(gone);
    let mut pieces = 0;
    while world.session(S).live == Some(1) {
        let effect = world.effects.pop_front().unwrap();
        pieces += u32::from(matches!(effect, Effect::CollectRest(..)));
        for input in world.outside.perform(effect) {
            world.put(input);
        }
        world.assert_sound();
    }
    assert_eq!(pieces, 4);
    assert!(world.all_messages().iter().all(|(_, message)| message.tries == 1));
}

/// Reports of the runtime about incarnations that do not exist, and repeated reports about the one that does.
#[test]
fn the_runtime_may_repeat_itself() {
    let mut world = running();
    let before = world.text();
    for event in [
        RuntimeEvent::Running(S, 1),
        RuntimeEvent::Running(S, 9),
        RuntimeEvent::Running(SessionId::new(9), 1),
        RuntimeEvent::Gone { session: S, incarnation: 2, exit: Exit::Unknown, stderr_tail: String::new() },
        RuntimeEvent::Gone {
            session: SessionId::new(9),
            incarnation: 1,
            exit: Exit::Unknown,
            stderr_tail: String::new(),
        },
    ] {
        world.put(Input::Runtime(event));
        assert_eq!(world.text(), before);
    }
    world.put(Input::Sweep(vec![progress(S, 2), progress(SessionId::new(9), 1)]));
    assert_eq!(world.text(), before);
    world.put(gone(S, 1, Exit::Code(3)));
    let collecting = world.text();
    world.put(gone(S, 1, Exit::Unknown));
    assert_eq!(world.text(), collecting, "how it ended is known already");
}

/// One damaged row stops only what needs it; everything else continues, and the sweep reports the damage.
#[test]
fn a_damaged_row_stops_nobody_else() {
    let mut world = World::of(&per_thread("max_parallel = 9"));
    threads(&mut world, &["a", "b", "c"]);
    world.settle();
    for session in 1..=3 {
        let session = SessionId::new(session);
        let claims = world.outside.write(session, vec![claim(2, 1)]);
        world.put(claims);
        world.put(gone(session, 1, Exit::Code(1)));
    }
    world.outside.running.clear();
    world.settle();
    let lost = world.message(MessageId::new(2));
    world.store().write(|db, txn| db.messages.rows().delete(txn, &MessageId::new(2)).map(drop)).unwrap();
    world.pass(Millis::seconds(5));
    let applied = world.try_put(Input::Sweep(vec![])).unwrap();
    assert!(applied.problems.iter().any(|problem| problem.contains("ms2")), "{:?}", applied.problems);
    world.settle();
    assert_eq!(live(&world), [1, 3]);
    // And a start.
    world.outside.running.clear();
    world.restart();
    world.settle();
    assert_eq!(live(&world), [1, 3]);
    world.store().write(|db, txn| db.messages.rows().put(txn, &MessageId::new(2), &lost)).unwrap();
    world.pass(Millis::seconds(5));
    world.sweep();
    world.settle();
    assert_eq!(live(&world), [1, 2, 3], "mended, it goes on where it was");
}

/// An agent with a damaged row affects no other agent at the start of a daemon and in its sweeps.
#[test]
fn a_damaged_agent_stops_nobody_else() {
    let agent = |folder: &str| {
        format!(
            "[[agents]]\nfolder = \"{folder}\"\nname = \"Unmistakable {folder}\"\n[[chats]]\nchannel = \"net\"\n\
             platform_id = \"{folder}\"\nunknown_senders = \"public\"\n[[chats.wirings]]\nagent = \"{folder}\"\n\
             engage = \"pattern\"\npattern = \".\"\n"
        )
    };
    let mut world = World::of(&["first", "second", "third"].map(agent).concat());
    for folder in ["first", "second", "third"] {
        world.inject(&event_in(("net", folder, None), (folder, "x", ""), ""));
    }
    world.settle();
    let ends = gone(SessionId::new(3), 1, Exit::Code(0));
    world.put(ends);
    world.settle();
    world.lose_effects();
    world.put_alone(Input::Configure(Configure::new(
        vec![Change::RemoveAgent(Folder::new("third").unwrap())],
        Origin::Runtime,
    )));
    world.damage(b"Unmistakable first");
    world.outside.running.clear();
    world.reopen(|_| {});
    let applied = world.try_put(Input::Start).unwrap();
    assert!(applied.problems.iter().any(|problem| problem.contains("agents")), "{:?}", applied.problems);
    let looked_for = |agent: u64| {
        let of = |effect: &&Effect| matches!(effect, Effect::LookForSkips(id, ..) if id.number() == agent);
        world.effects.iter().filter(of).count()
    };
    assert_eq!([1, 2, 3].map(looked_for), [0, 1, 0], "{:?}", world.effects);
    world.settle();
    let left = world.read(|db, txn| db.sessions_by_route.first_in(txn, &AgentId::new(3)));
    assert_eq!(left, None, "the removal of an agent that was under way goes on");
    assert!(world.session(SessionId::new(2)).live.is_some());
}

/// An operation on all live incarnations reaches all of them, except for a session that cannot be read.
#[test]
fn all_that_lives_of_an_agent_is_found() {
    let policy = Policy { rows_per_input: 16, max_containers: 60, ..Policy::STANDARD };
    let mut world = World::with(policy, |_| {});
    world.apply(&per_thread("max_parallel = 60"));
    let names: Vec<String> = (0..20).map(|number| format!("thread {number}")).collect();
    for name in &names {
        threads(&mut world, &[name]);
        world.settle();
    }
    assert_eq!(live(&world).len(), 20);
    let lost = SessionId::new(2);
    world.forsaken = true;
    let lose = |db: &Tables, txn: &mut Write<'_>| {
        let workspace = db.sessions_by_id.require(txn, &lost)?;
        db.sessions.delete(txn, &SessionKey { workspace, session: lost })
    };
    world.store().write(lose).unwrap();
    world.put(Input::Configure(Configure::new(
        vec![Change::RestartAgent(Folder::new("main").unwrap(), None)],
        Origin::Runtime,
    )));
    let stopped = world.effects.iter().filter_map(|effect| match effect {
        Effect::Stop(session, _) => Some(session.number()),
        _ => None,
    });
    assert_eq!(stopped.collect::<Vec<_>>(), (1..=20).filter(|session| *session != 2).collect::<Vec<_>>());
}
