//! What the ledger and budgets cost: messages and answers with them beside the same without, in pairs.

use hearth::engine::commit::Submission;

use crate::ground::asked::Asked;
use crate::ground::part::Part;
use crate::ground::{Ground, floor};
use crate::routing::{always, answers, budgets, configuration, in_flight, one_at_a_time, waiting};

/// Name of this part.
pub(crate) const NAME: &str = "ledger";

/// Pairs of one measurement.
const PAIRS: usize = 41;

/// A store and what happens in it.
pub(crate) struct Case {
    pub(crate) ground: Ground,
    pub(crate) groups: Vec<Vec<Submission>>,
}

pub(crate) fn all(asked: &Asked) {
    if !asked.wants(NAME) {
        return;
    }
    let columns = ["what is counted, beside the same without it".to_owned(), "times as long".to_owned()];
    let mut part = Part::new(NAME, &columns);
    let mut compare = |what: &str, with: &Case, without: &Case| {
        part.add(&[what.to_owned(), format!("{:.2}", ratio(with, without, asked.size(PAIRS, PAIRS, 1)))]);
    };
    let counted = configuration(1, always) + &budgets();
    let empty = |text: &str, groups| Case { ground: Ground::new(text, |_| {}), groups };
    let plain = configuration(1, always);
    compare("route, one at a time, four budgets", &empty(&counted, one_at_a_time()), &empty(&plain, one_at_a_time()));
    compare("route, 64 in flight, four budgets", &empty(&counted, in_flight()), &empty(&plain, in_flight()));
    let turns = |text: &str, used| Case { ground: waiting(text), groups: answers(used) };
    let without = turns(&plain, false);
    compare("ingest, a claim and an answer, its use", &turns(&plain, true), &without);
    compare("ingest, a claim and an answer, its use, four budgets", &turns(&counted, true), &without);
    part.keep(asked);
}

/// The middle of pairs. Each is measured in both orders, since the second of two finds the disk as the first left it.
pub(crate) fn ratio(with: &Case, without: &Case, pairs: usize) -> f64 {
    let time = |case: &Case| floor::run(&case.ground, &case.groups).as_secs_f64();
    let pair = |number: usize| {
        if number.is_multiple_of(2) {
            let first = time(with);
            first / time(without)
        } else {
            let first = time(without);
            time(with) / first
        }
    };
    let mut ratios: Vec<f64> = (0..pairs).map(pair).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}
