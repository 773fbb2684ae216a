//! What a doctor leaves behind when it is killed.

use super::*;
use crate::runtime::podman::build::{Engine, Watch};

struct Deaf;

impl Watch for Deaf {
    fn said(&self, _: &str) {}

    fn expired(&self) -> bool {
        false
    }
}

#[test]
fn trials_of_the_dead_are_cleared_away_and_nothing_else() {
    let Some(world) = World::new("sleep 1000") else { return };
    world.runtime.ensure(world.spec(ONE, 1));
    world.heard.running(ONE, 1);
    let made = |label: &str| podman(&["create", "--label", label, &image(), "true"]);
    let (trial, other) = (made("hearth.trial=doctor"), made("hearth.trial=other"));
    let there = |id: &str| podman(&["ps", "--all", "--quiet", "--no-trunc"]).lines().any(|line| line == id);
    let engine = Engine::at(socket().unwrap().trim_start_matches("unix://").as_ref()).unwrap();
    engine.clear_trials("10m", &Deaf).unwrap();
    assert!(there(&trial), "somebody may be looking at it");
    wait_until("it is old", || {
        engine.clear_trials("1s", &Deaf).unwrap();
        !there(&trial)
    });
    assert!(there(&other));
    podman(&["rm", &other]);
    world.runtime.kill(ONE, 1);
    world.heard.gone(ONE, 1);
}
