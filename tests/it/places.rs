//! Slots are assigned in the order of waiting, whatever agents exist and however busy they are.

use std::collections::BTreeMap;

use hearth::model::Millis;
use hearth::model::id::{MessageId, SessionId};
use hearth::model::message::MessageState;
use proptest::prelude::*;

use crate::world::chance::cases;
use crate::world::outside::{claim, end};
use crate::world::{World, event_in};

/// Agents, each with a chat of its own in whose threads it has sessions.
const AGENTS: usize = 3;

fn configuration(all: u32, parallel: &[u32]) -> String {
    let mut toml = format!("max_containers = {all}\n");
    for (number, parallel) in parallel.iter().enumerate() {
        toml += &format!(
            "[[agents]]\nfolder = \"a{number}\"\nmax_parallel = {parallel}\n[[chats]]\nchannel = \"net\"\nplatform_id = \
             \"C{number}\"\ngroup = true\nunknown_senders = \"public\"\n[[chats.wirings]]\nagent = \"a{number}\"\nengage = \
             \"pattern\"\npattern = \".\"\nsession = \"per-thread\"\n"
        );
    }
    toml
}

#[derive(Debug, Clone)]
enum Step {
    /// Sends a message to a session of an agent.
    Said(usize, u8),
    /// The running session that has waited longest for service ends a turn.
    Turn,
    Passed,
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..AGENTS, 0..3_u8).prop_map(|(agent, thread)| Step::Said(agent, thread)),
        5 => Just(Step::Turn),
        1 => Just(Step::Passed),
    ]
}

/// Sessions that wait for a slot: the oldest message of each, and its agent.
fn waiting(world: &World) -> BTreeMap<SessionId, (MessageId, u64)> {
    let mut found = BTreeMap::new();
    for (id, message) in world.all_messages() {
        let waits = matches!(message.state, MessageState::Pending(_));
        if waits && world.session(message.session).live.is_none() {
            found.entry(message.session).or_insert((id, message.agent.number()));
        }
    }
    found
}

fn running_of(world: &World, agent: u64) -> usize {
    world.outside.running.keys().filter(|session| world.session(**session).agent.number() == agent).count()
}

/// The incarnation with the oldest message claims and ends it.
fn turn(world: &mut World) {
    let oldest = |session: &SessionId| {
        let inbox = world.outside.inbox.get(session)?;
        inbox
            .values()
            .find(|message| matches!(world.state_of(message.id), MessageState::Pending(_)))
            .map(|m| (m.id, m.seq))
    };
    let next = world.outside.running.iter().filter_map(|(session, number)| Some((oldest(session)?, *session, *number)));
    let Some(((_, seq), session, number)) = next.min() else { return };
    let turn = world.outside.write(session, vec![claim(seq, number), end(seq, number, vec![])]);
    world.put(turn);
    world.settle();
}

proptest! {
    #![proptest_config(cases(16))]

    /// A session that starts has waited longest of those whose agents had a free slot. No session waits while a slot is
    /// free. The number of turns before a waiting session runs is bounded by the number of messages, whatever arrives
    /// meanwhile.
    #[test]
    fn whoever_waits_longest_is_next(
        all in 1..4_u32,
        parallel in proptest::collection::vec(1..3_u32, AGENTS),
        steps in proptest::collection::vec(a_step(), 1..60),
    ) {
        let mut world = World::of(&configuration(all, &parallel));
        let agents: BTreeMap<u64, usize> = world.read(|db, txn| {
            let all = db.agents_by_folder.iter(txn)?.collect::<Result<Vec<_>, _>>()?;
            Ok(all.into_iter().enumerate().map(|(number, (_, id))| (id.number(), parallel[number] as usize)).collect())
        });
        let limits = |world: &World, agent: u64| running_of(world, agent) < agents[&agent];
        for (number, step) in steps.iter().enumerate() {
            let before = waiting(&world);
            let launched = world.outside.launched.len();
            match step {
                Step::Said(agent, thread) => {
                    let (chat, thread) = (format!("C{agent}"), format!("t{thread}"));
                    world.inject(&event_in(("net", &chat, Some(&thread)), (&number.to_string(), "x", ""), ""));
                    world.settle();
                }
                Step::Turn => turn(&mut world),
                Step::Passed => {
                    world.pass(Millis::seconds(1));
                    world.sweep();
                    world.settle();
                }
            }
            let after = waiting(&world);
            for (session, _) in &world.outside.launched[launched..] {
                let Some((started, _)) = before.get(session) else { continue };
                for (other, (waits, agent)) in &after {
                    let overtaken = waits < started && before.contains_key(other) && limits(&world, *agent);
                    prop_assert!(!overtaken, "{} overtook {}", session, other);
                }
            }
            let room = world.outside.running.len() < all as usize;
            for (session, (_, agent)) in &after {
                prop_assert!(!(room && limits(&world, *agent)), "{} waits, and there is room", session);
            }
        }
        let open = |world: &World| {
            world.all_messages().iter().filter(|(_, m)| !matches!(m.state, MessageState::Completed { .. })).count()
        };
        for extra in 0..2 * open(&world) {
            // An agent that never stops talking to itself starves no other agent.
            let last = world.all_messages().last().map(|(id, _)| *id);
            world.inject(&event_in(("net", "C0", Some("t0")), (&format!("more{extra}"), "x", ""), ""));
            world.settle();
            turn(&mut world);
            turn(&mut world);
            prop_assert!(last.is_some());
        }
        prop_assert_eq!(open(&world), 0);
        prop_assert!(world.all_messages().iter().all(|(_, message)| message.tries == 0));
    }
}
