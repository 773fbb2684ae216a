//! What agents say of tokens and costs. Each counts something else in the same fields, see [`Counting`]. Pure.

use hearth_presets::{Counting, Preset};
use hearth_wire::Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::usage::{self, Running, is_nothing, micros};

/// Numbers that an agent counts on in a session, over its processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SessionTotals {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cost_micros: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tokens: Option<Usage>,
}

/// The usage of one process and its session.
#[derive(Debug)]
pub(super) struct UsageMeter {
    counting: Counting,
    totals: SessionTotals,
    running: Running,
    /// The calls of this turn, for an agent that reports each.
    calls: Usage,
    /// What the session has cost so far, if this turn said so.
    cost: Option<u64>,
    /// Whether the first total may be that of earlier turns.
    is_old: bool,
}

impl UsageMeter {
    /// The meter of a session. `earlier` are the totals of its earlier processes; none if they are unknown.
    pub(super) fn new(agent: &str, earlier: Option<SessionTotals>) -> Self {
        let counting = Preset::of_agent(agent).map_or(Counting::Unknown, |preset| preset.about().counting);
        let is_old = earlier.as_ref().is_none_or(|totals| *totals == SessionTotals::default());
        let totals = earlier.unwrap_or_default();
        let mut running = Running::default();
        if let (Counting::Session, Some(tokens)) = (counting, totals.tokens.clone()) {
            running.since_last(tokens);
        }
        Self { counting, totals, running, calls: Usage::default(), cost: None, is_old }
    }

    /// The meter of a session that begins.
    pub(super) fn begun(agent: &str) -> Self {
        Self { is_old: false, ..Self::new(agent, None) }
    }

    /// The totals so far.
    pub(super) const fn totals(&self) -> &SessionTotals {
        &self.totals
    }

    /// A call of this turn, as some agents report it within a message.
    pub(super) fn call(&mut self, reported: &Value) {
        if self.counting == Counting::EachCall {
            usage::add(&mut self.calls, &tokens(reported));
        }
    }

    /// What the session has cost so far.
    pub(super) fn costs(&mut self, amount: f64, currency: &str) {
        if self.counting != Counting::Unknown && currency == "USD" {
            self.cost = micros(amount).or(self.cost);
        }
    }

    /// What the turn used that ends with this result. `model` is the one of the agent's configuration.
    pub(super) fn turn(&mut self, result: Option<&Value>, model: Option<&str>) -> Vec<Usage> {
        let reported = result.and_then(|result| result.get("usage")).filter(|usage| usage.is_object());
        let calls = std::mem::take(&mut self.calls);
        let mut used = match self.counting {
            Counting::Unknown => return Vec::new(),
            Counting::EachCall => vec![calls],
            Counting::Turn => result.and_then(by_model).unwrap_or_else(|| reported.map(tokens).into_iter().collect()),
            Counting::LastCall => reported.map(tokens).into_iter().collect(),
            Counting::Process => reported.map(|now| self.running.since_last(tokens(now))).into_iter().collect(),
            Counting::Session => reported.map(|now| self.of_session(tokens(now))).into_iter().flatten().collect(),
        };
        let cost = self.cost_of_turn();
        self.is_old = false;
        used.retain(|usage| !is_nothing(usage));
        for (at, usage) in used.iter_mut().enumerate() {
            usage.model = usage.model.take().or_else(|| model.map(str::to_owned));
            // The cost is that of all models together.
            usage.cost_micros = if at == 0 { cost } else { cost.map(|_| 0) };
        }
        used
    }

    /// The difference to the total before. A first total of a session with unknown earlier turns says nothing.
    fn of_session(&mut self, now: Usage) -> Option<Usage> {
        self.totals.tokens = Some(now.clone());
        let difference = self.running.since_last(now);
        (!self.is_old).then_some(difference)
    }

    /// The cost of a turn: the difference to the total before. Agents without prices say 0.
    fn cost_of_turn(&mut self) -> Option<u64> {
        let now = self.cost.take()?;
        let last = self.totals.cost_micros.replace(now);
        let difference = match last {
            Some(last) => now.checked_sub(last).unwrap_or(now),
            None if self.is_old => return None,
            None => now,
        };
        (difference > 0).then_some(difference)
    }
}

/// The usage of each model, with calls beside the turn.
fn by_model(result: &Value) -> Option<Vec<Usage>> {
    let models = result.pointer("/_meta/quota/model_usage")?.as_array().filter(|models| !models.is_empty())?;
    let one = |of: &Value| {
        let counted = of.get("token_count").map(tokens).unwrap_or_default();
        Usage { model: of.get("model").and_then(Value::as_str).map(str::to_owned), ..counted }
    };
    Some(models.iter().map(one).collect())
}

/// Tokens in any of the forms that agents use.
fn tokens(of: &Value) -> Usage {
    let number = |names: &[&str]| names.iter().find_map(|name| of.get(*name)?.as_u64());
    let count = |names: &[&str]| number(names).unwrap_or(0);
    let (input, output) = (count(&["inputTokens", "input_tokens"]), count(&["outputTokens", "output_tokens"]));
    let cache_read = count(&["cachedReadTokens", "cachedInputTokens", "cached_input_tokens"]);
    let cache_write = count(&["cachedWriteTokens", "cacheWriteInputTokens", "cache_write_input_tokens"]);
    let reasoning = count(&["thoughtTokens", "reasoningOutputTokens", "reasoning_output_tokens"]);
    // The total shows whether the cache and the reasoning are parts of the other numbers, as in OpenAI's API.
    let total = number(&["totalTokens", "total_tokens"]);
    let beyond = total.and_then(|total| total.checked_sub(input)?.checked_sub(output)).unwrap_or(0);
    let cached = cache_read.saturating_add(cache_write);
    let is_apart = |part: u64, other: u64| part > 0 && (beyond == part || beyond == part.saturating_add(other));
    let input = if is_apart(cached, reasoning) { input } else { input.saturating_sub(cached) };
    let output = if is_apart(reasoning, cached) { output.saturating_add(reasoning) } else { output };
    Usage { model: None, input, output, cache_read, cache_write, reasoning, cost_micros: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CODEX: &str = "@agentclientprotocol/codex-acp";

    fn used(meter: &mut UsageMeter, result: &Value) -> Vec<(u64, u64, Option<u64>)> {
        let used = meter.turn(Some(result), Some("m"));
        used.into_iter().map(|usage| (usage.input, usage.output, usage.cost_micros)).collect()
    }

    fn counted(input: u64, output: u64) -> Value {
        json!({"usage": {"inputTokens": input, "outputTokens": output, "totalTokens": input + output}})
    }

    #[test]
    fn the_total_shows_what_the_numbers_contain() {
        let read = |value: Value| {
            let Usage { input, output, cache_read, cache_write, reasoning, .. } = tokens(&value);
            (input, output, cache_read, cache_write, reasoning)
        };
        let apart = json!({"inputTokens": 10, "outputTokens": 5, "cachedReadTokens": 3, "cachedWriteTokens": 1,
            "thoughtTokens": 2, "totalTokens": 21});
        assert_eq!(read(apart), (10, 7, 3, 1, 2));
        let within = json!({"inputTokens": 10, "cachedInputTokens": 3, "outputTokens": 5, "reasoningOutputTokens": 2,
            "totalTokens": 15});
        assert_eq!(read(within), (7, 5, 3, 0, 2));
        let cache_apart =
            json!({"inputTokens": 10, "outputTokens": 5, "cachedReadTokens": 4, "thoughtTokens": 2, "totalTokens": 19});
        assert_eq!(read(cache_apart), (10, 5, 4, 0, 2));
        assert_eq!(read(json!({"input_tokens": 4, "output_tokens": 2})), (4, 2, 0, 0, 0));
        for nonsense in
            [json!(null), json!([1]), json!({"inputTokens": -4, "outputTokens": "x", "totalTokens": u64::MAX})]
        {
            assert_eq!(read(nonsense), (0, 0, 0, 0, 0));
        }
    }

    #[test]
    fn each_agent_counts_something_else() {
        let mut codex = UsageMeter::begun(CODEX);
        assert_eq!(used(&mut codex, &counted(9, 2)), [(9, 2, None)]);
        assert_eq!(used(&mut codex, &counted(7, 1)), [(7, 1, None)], "of the turn");
        assert_eq!(used(&mut codex, &json!({"usage": null})), []);
        let by_model = json!({"usage": {"inputTokens": 1}, "_meta": {"quota": {"model_usage": [
            {"model": "a", "token_count": {"inputTokens": 5, "outputTokens": 1}},
            {"model": "b", "token_count": {"inputTokens": 2, "outputTokens": 1}}]}}});
        let both = codex.turn(Some(&by_model), Some("m"));
        let models: Vec<_> = both.iter().map(|usage| (usage.model.as_deref(), usage.input)).collect();
        assert_eq!(models, [(Some("a"), 5), (Some("b"), 2)], "with calls beside the turn");

        let mut copilot = UsageMeter::begun("Copilot");
        assert_eq!(used(&mut copilot, &counted(10, 1)), [(10, 1, None)]);
        assert_eq!(used(&mut copilot, &counted(25, 3)), [(15, 2, None)], "of the process");

        let mut qwen = UsageMeter::begun("qwen-code");
        qwen.call(&counted(3, 1)["usage"]);
        qwen.call(&counted(4, 1)["usage"]);
        assert_eq!(used(&mut qwen, &json!({})), [(7, 2, None)], "of each call");
        assert_eq!(used(&mut qwen, &json!({})), []);

        let mut unknown = UsageMeter::begun("my-agent");
        unknown.costs(1.0, "USD");
        assert_eq!(used(&mut unknown, &counted(9, 2)), [], "its numbers could count anything");
    }

    #[test]
    fn totals_go_on_over_processes() {
        let mut hermes = UsageMeter::begun("hermes-agent");
        assert_eq!(used(&mut hermes, &counted(10, 1)), [(10, 1, None)]);
        let kept: SessionTotals = serde_json::from_value(serde_json::to_value(hermes.totals()).unwrap()).unwrap();
        let mut next = UsageMeter::new("hermes-agent", Some(kept));
        assert_eq!(used(&mut next, &counted(30, 4)), [(20, 3, None)]);
        assert_eq!(used(&mut next, &counted(5, 1)), [(5, 1, None)], "it began anew");
        let mut unknown = UsageMeter::new("hermes-agent", None);
        assert_eq!(used(&mut unknown, &counted(30, 4)), [], "of earlier turns");
        assert_eq!(used(&mut unknown, &counted(31, 5)), [(1, 1, None)]);
    }

    #[test]
    fn the_cost_is_that_of_the_turn() {
        let mut opencode = UsageMeter::begun("OpenCode");
        opencode.costs(0.0404, "USD");
        assert_eq!(used(&mut opencode, &counted(9, 1)), [(9, 1, Some(40_400))]);
        let mut next = UsageMeter::new("OpenCode", Some(opencode.totals().clone()));
        next.costs(0.05, "USD");
        assert_eq!(used(&mut next, &counted(9, 1)), [(9, 1, Some(9_600))], "over a restart");
        assert_eq!(used(&mut next, &counted(9, 1)), [(9, 1, None)], "nothing was said");
        for (amount, currency) in [(f64::NAN, "USD"), (-1.0, "USD"), (9.0, "EUR"), (0.05, "USD")] {
            next.costs(amount, currency);
            assert_eq!(used(&mut next, &counted(9, 1)), [(9, 1, None)], "{amount} {currency}");
        }
        let mut old = UsageMeter::new("OpenCode", None);
        old.costs(5.0, "USD");
        assert_eq!(used(&mut old, &counted(9, 1)), [(9, 1, None)], "of earlier turns");
    }
}
