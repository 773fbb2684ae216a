//! What agents use of models, in the numbers of their programs. Pure.

use std::collections::BTreeMap;

use hearth_wire::Usage;

/// Adds what was used of the same model.
pub(crate) fn add(sum: &mut Usage, more: &Usage) {
    combine(sum, more, u64::saturating_add);
    sum.cost_micros = match (sum.cost_micros, more.cost_micros) {
        (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
        // A sum without a part of it would be too low.
        (None, Some(_)) | (Some(_), None) | (None, None) => None,
    };
}

/// Whether nothing was used.
pub(crate) fn is_nothing(usage: &Usage) -> bool {
    *usage == Usage { model: usage.model.clone(), cost_micros: usage.cost_micros, ..Usage::default() }
        && usage.cost_micros.unwrap_or(0) == 0
}

/// Numbers that a program counts on from turn to turn, and from which each turn is a difference.
#[derive(Debug, Default)]
pub(crate) struct Running {
    last: BTreeMap<Option<String>, Usage>,
}

impl Running {
    /// What was used since the numbers before. A number that is smaller than before has begun anew.
    pub(crate) fn since_last(&mut self, now: Usage) -> Usage {
        let mut difference = now.clone();
        if let Some(last) = self.last.get(&now.model) {
            combine(&mut difference, last, |now, last| now.checked_sub(last).unwrap_or(now));
            if let (Some(now), Some(last)) = (now.cost_micros, last.cost_micros) {
                difference.cost_micros = Some(now.checked_sub(last).unwrap_or(now));
            }
        }
        self.last.insert(now.model.clone(), now);
        difference
    }
}

fn combine(one: &mut Usage, other: &Usage, how: impl Fn(u64, u64) -> u64) {
    one.input = how(one.input, other.input);
    one.output = how(one.output, other.output);
    one.cache_read = how(one.cache_read, other.cache_read);
    one.cache_write = how(one.cache_write, other.cache_write);
    one.reasoning = how(one.reasoning, other.reasoning);
}

/// Dollars as millionths. Nothing for what is no amount.
pub(crate) fn micros(dollars: f64) -> Option<u64> {
    let micros = (dollars * 1e6).round();
    // The host takes no larger amounts.
    (micros.is_finite() && (0.0..1e15).contains(&micros)).then_some(micros as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64, cost: Option<u64>) -> Usage {
        Usage { model: Some("m".to_owned()), input, output, cost_micros: cost, ..Usage::default() }
    }

    #[test]
    fn a_turn_is_the_difference_of_running_numbers() {
        let mut running = Running::default();
        assert_eq!(running.since_last(usage(10, 2, Some(5))), usage(10, 2, Some(5)));
        assert_eq!(running.since_last(usage(25, 2, Some(9))), usage(15, 0, Some(4)));
        assert_eq!(running.since_last(usage(3, 3, None)), usage(3, 1, None), "the program began anew");
        let other = Usage { model: None, ..usage(7, 7, None) };
        assert_eq!(running.since_last(other.clone()), other);
    }

    #[test]
    fn a_sum_has_a_cost_only_if_all_parts_have_one() {
        for (one, other, sum) in [(Some(1), Some(2), Some(3)), (Some(1), None, None), (None, Some(2), None)] {
            let mut total = usage(1, u64::MAX, one);
            add(&mut total, &usage(2, 3, other));
            assert_eq!(total, usage(3, u64::MAX, sum));
        }
    }

    #[test]
    fn only_amounts_are_amounts() {
        for (dollars, expected) in [
            (0.014198, Some(14_198)),
            (0.0, Some(0)),
            (-0.1, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
            (1e12, None),
        ] {
            assert_eq!(micros(dollars), expected, "{dollars}");
        }
    }
}
