//! Shrinks a failing run: as few steps, and as few kinds of events, as still break the same invariant.

use std::ops::Range;

use super::days::attempt::{Failure, attempt};
use super::days::plan::{KINDS, Plan};

/// Maximum number of runs.
const RUNS: usize = 300;

/// The shortest failing plan that was found, and its failure.
pub(super) fn shrink(plan: &Plan, failure: &Failure) -> (Plan, Failure) {
    let mut search = Search { best: plan.clone(), failure: failure.clone(), runs: 0 };
    // Steps after the failure cannot have caused it. Initially the failure is not in the final account.
    search.cut(failure.step);
    for (kind, ..) in KINDS {
        let mut next = search.best.clone();
        if next.mix.is_empty() {
            next.without.insert(kind);
        } else if next.mix.len() == 1 || next.mix.remove(&kind).is_none() {
            continue;
        }
        search.consider(next);
    }
    search.cut(search.failure.step);
    search.leave_out_steps();
    (search.best, search.failure)
}

struct Search {
    best: Plan,
    failure: Failure,
    runs: usize,
}

impl Search {
    /// Tries a plan, and keeps it if it fails in the same way.
    fn consider(&mut self, plan: Plan) -> bool {
        if self.runs >= RUNS {
            return false;
        }
        self.runs += 1;
        match attempt(&plan) {
            Err(failure) if failure.place == self.failure.place => {
                (self.best, self.failure) = (plan, failure);
                true
            }
            Ok(_) | Err(_) => false,
        }
    }

    fn cut(&mut self, steps: u64) {
        let plan = Plan { steps: Some(steps), ..self.best.clone() };
        self.consider(plan);
    }

    /// Halves, quarters, and so on.
    fn leave_out_steps(&mut self) {
        let all = self.best.steps.unwrap_or(self.failure.step);
        let mut length = all.div_ceil(2);
        while length > 0 && self.runs < RUNS {
            let mut from = 1;
            while from <= all {
                let part = from..(from + length).min(all + 1);
                if !covers(&self.best.idle, &part) {
                    let mut next = self.best.clone();
                    add(&mut next.idle, part.clone());
                    self.consider(next);
                }
                from += length;
            }
            length = if length == 1 { 0 } else { length / 2 };
        }
    }
}

fn covers(idle: &[Range<u64>], part: &Range<u64>) -> bool {
    idle.iter().any(|range| range.start <= part.start && part.end <= range.end)
}

/// Adds a range; adjacent ranges are merged.
fn add(idle: &mut Vec<Range<u64>>, part: Range<u64>) {
    idle.push(part);
    idle.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in idle.drain(..) {
        match joined.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => joined.push(range),
        }
    }
    *idle = joined;
}
