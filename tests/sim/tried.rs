//! Coverage of all runs of a command: an event whose effects are checked must have happened at least once.

use std::collections::BTreeMap;

use crate::days::attempt::Told;
use crate::days::plan::{Effects, Plan, Setting};

/// Events that must have happened at least once in this many steps. The rarest of them happen about six times in ten
/// thousand steps.
const TRIED: [&str; 18] = [
    "events compared",
    "mailboxes compared",
    "news of the runtime compared",
    "newer stores refused",
    "backups",
    "restores",
    "messages of borrowed names",
    "sent again by the same id",
    "shown again and marked",
    "refused for want of room",
    "inputs without room",
    "collected without room",
    "delivered without room",
    "decided without room",
    "hosts asked about",
    "floods of hosts",
    "connections",
    "segments made",
];
const STEPS: u64 = 40_000;

/// Runs together.
#[derive(Default)]
pub(crate) struct Tried {
    /// Steps of runs in which nothing was left out.
    steps: u64,
    happened: BTreeMap<&'static str, u64>,
}

impl Tried {
    pub(crate) fn add(&mut self, plan: &Plan, told: &Told) {
        if is_complete(plan) {
            self.steps += told.steps;
        }
        for (what, count) in &told.happened {
            *self.happened.entry(what).or_default() += count;
        }
    }

    /// Events that should have happened in this many steps and never did.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let never = |what: &&str| self.happened.get(what).copied().unwrap_or_default() == 0;
        if self.steps < STEPS { Vec::new() } else { TRIED.into_iter().filter(never).collect() }
    }
}

impl std::fmt::Display for Tried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<String> = self.happened.iter().map(|(what, count)| format!("{what} {count}")).collect();
        f.write_str(&words.join(", "))
    }
}

/// Whether every possible event can happen in this plan.
fn is_complete(plan: &Plan) -> bool {
    let plain = (plan.effects, plan.setting) == (Effects::Some, Setting::Full);
    plain && plan.without.is_empty() && plan.idle.is_empty() && plan.mix.is_empty()
}
