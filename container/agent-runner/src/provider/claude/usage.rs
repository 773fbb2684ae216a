//! What the CLI says of tokens and costs in the result of a turn.
//!
//! Versions from 2.1.318 on state the usage of each model since the last result. Older ones count `modelUsage` on from
//! turn to turn. `usage` is of this result in all versions, without a model and without calls beside the turn.

use hearth_wire::Usage;
use serde_json::{Map, Value};

use crate::usage::{Running, is_nothing, micros};

/// The usage of one process.
#[derive(Debug, Default)]
pub(super) struct UsageMeter {
    running: Running,
}

/// What a result line says of usage.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct StatedUsage {
    since_last: Option<Vec<Usage>>,
    so_far: Vec<Usage>,
    this_result: Option<Usage>,
}

pub(super) fn stated(line: &Value) -> StatedUsage {
    let by_model = |field: &str| line.get(field).and_then(Value::as_object).map(models);
    StatedUsage {
        since_last: by_model("model_usage_since_last_result"),
        so_far: by_model("modelUsage").unwrap_or_default(),
        this_result: line.get("usage").filter(|usage| usage.is_object()).map(of_result),
    }
}

impl UsageMeter {
    /// What was used since the result before.
    pub(super) fn since_last(&mut self, stated: StatedUsage) -> Vec<Usage> {
        let differences: Vec<Usage> = stated.so_far.into_iter().map(|usage| self.running.since_last(usage)).collect();
        let mut used = stated.since_last.unwrap_or(differences);
        if used.is_empty() {
            used.extend(stated.this_result);
        }
        used.retain(|usage| !is_nothing(usage));
        used
    }
}

fn models(models: &Map<String, Value>) -> Vec<Usage> {
    let number = |of: &Value, field: &str| of.get(field).and_then(Value::as_u64).unwrap_or(0);
    let usage = |(name, of): (&String, &Value)| Usage {
        model: Some(name.clone()),
        input: number(of, "inputTokens"),
        output: number(of, "outputTokens"),
        cache_read: number(of, "cacheReadInputTokens"),
        cache_write: number(of, "cacheCreationInputTokens"),
        reasoning: 0,
        cost_micros: of.get("costUSD").and_then(Value::as_f64).and_then(micros),
    };
    models.iter().map(usage).collect()
}

fn of_result(usage: &Value) -> Usage {
    let number = |path: &str| usage.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    Usage {
        model: None,
        input: number("/input_tokens"),
        output: number("/output_tokens"),
        cache_read: number("/cache_read_input_tokens"),
        cache_write: number("/cache_creation_input_tokens"),
        reasoning: number("/output_tokens_details/thinking_tokens"),
        cost_micros: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn usage(model: &str, input: u64, output: u64, cost_micros: Option<u64>) -> Usage {
        Usage { model: Some(model.to_owned()), input, output, cost_micros, ..Usage::default() }
    }

    #[test]
    fn newer_versions_say_what_was_used_since_the_last_result() {
        let mut meter = UsageMeter::default();
        let line = json!({
            "modelUsage": {"big": {"inputTokens": 900, "outputTokens": 90, "costUSD": 0.9}},
            "model_usage_since_last_result": {"big": {"inputTokens": 9, "outputTokens": 1, "costUSD": 0.01},
                "small": {"inputTokens": 0, "outputTokens": 0, "costUSD": 0}},
            "usage": {"input_tokens": 9, "output_tokens": 1},
        });
        assert_eq!(meter.since_last(stated(&line)), [usage("big", 9, 1, Some(10_000))]);
    }

    #[test]
    fn older_versions_count_on() {
        let mut meter = UsageMeter::default();
        let so_far =
            |input: u64| json!({"modelUsage": {"big": {"inputTokens": input, "outputTokens": 1, "costUSD": 0.5}}});
        assert_eq!(meter.since_last(stated(&so_far(10))), [usage("big", 10, 1, Some(500_000))]);
        assert_eq!(meter.since_last(stated(&so_far(25))), [usage("big", 15, 0, Some(0))]);
    }

    #[test]
    fn what_is_missing_or_no_number_counts_nothing() {
        let of_result = json!({"usage": {"input_tokens": 3, "output_tokens": -1, "cache_read_input_tokens": "x",
            "output_tokens_details": {"thinking_tokens": 2}}});
        let expected = Usage { input: 3, reasoning: 2, ..Usage::default() };
        assert_eq!(UsageMeter::default().since_last(stated(&of_result)), [expected]);
        for nothing in [json!({}), json!({"usage": 7, "modelUsage": []}), json!({"usage": {}})] {
            assert_eq!(UsageMeter::default().since_last(stated(&nothing)), [], "{nothing}");
        }
    }
}
