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
struct Case {
    ground: Ground,
    groups: Vec<Vec<Submission>>,
}

/// Everything here.
pub(crate) fn all(asked: &Asked) {
    if !asked.wants(NAME) {
        return;
    }
    let columns =
        ["with four budgets, and the use of each turn, beside without".to_owned(), "times as long".to_owned()];
    let mut part = Part::new(NAME, &columns);
    let mut compare = |what: &str, with: &Case, without: &Case| {
        part.add(&[what.to_owned(), format!("{:.2}", ratio(with, without, asked.size(PAIRS, PAIRS, 1)))]);
    };
    let counted = configuration(1, always) + &budgets();
    let empty = |text: &str, groups| Case { ground: Ground::new(text, |_| {}), groups };
    let plain = configuration(1, always);
    compare("route, one at a time", &empty(&counted, one_at_a_time()), &empty(&plain, one_at_a_time()));
    compare("route, 64 in flight", &empty(&counted, in_flight()), &empty(&plain, in_flight()));
    let with = Case { ground: waiting(&counted), groups: answers(true) };
    let without = Case { ground: waiting(&plain), groups: answers(false) };
    compare("ingest, a claim and an answer", &with, &without);
    part.keep(asked);
}

/// The middle of pairs. Each is measured in both orders, since the second of two finds the disk as the first left it.
fn ratio(with: &Case, without: &Case, pairs: usize) -> f64 {
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
