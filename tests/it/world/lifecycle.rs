//! Steps of tests about running agents.

use hearth::model::Millis;
use hearth::model::id::SessionId;

use super::outside::{claim, end};
use super::{ONE, World, event, event_in};

/// A world in which incarnation 1 of session 1 is running and has message 1.
pub(crate) fn running() -> World {
    let mut world = World::of(ONE);
    world.inject(&event("1", "x", ""));
    world.settle();
    world
}

/// Sweeps every ten seconds of awake time. All running agents send heartbeats, and all effects are performed.
pub(crate) fn pass(world: &mut World, seconds: u64) {
    for _ in 0..seconds / 10 {
        world.pass(Millis::seconds(10));
        world.sweep();
        world.settle();
        world.assert_sound();
    }
}

/// Threads of one agent with the given parallelism, each with the given number of messages.
pub(crate) fn threads(world: &mut World, names: &[&str]) {
    for name in names {
        let id = format!("{name}-{}", world.all_messages().len());
        world.inject(&event_in(("net", "C", Some(name)), (&id, "x", ""), ""));
    }
}

pub(crate) fn per_thread(more: &str) -> String {
    let toml = ONE.replace("pattern = \".\"", "pattern = \".\"\nsession = \"per-thread\"");
    toml.replace("folder = \"main\"", &format!("folder = \"main\"\n{more}"))
}

pub(crate) fn answer(world: &mut World, session: u64, seq: u64) {
    let session = SessionId::new(session);
    let number = world.session(session).live.unwrap();
    let turn = world.outside.write(session, vec![claim(seq, number), end(seq, number, vec![])]);
    world.put(turn);
    world.settle();
}

pub(crate) fn live(world: &World) -> Vec<u64> {
    world.outside.running.keys().map(|session| session.number()).collect()
}
