//! Prices of models. Pure.
//!
//! The table has the list prices of March 2026, as the providers publish them for requests without discounts. Prices in
//! the configuration have precedence. A model that is in neither has no price, because a wrong one is worse than none.

use crate::model::spend::{CostBasis, ModelUse, Money, Price, ReportedUse, Tokens};

/// A model and its price.
struct Listed {
    model: &'static str,
    price: Price,
}

/// Prices in millionths of a dollar per million tokens, from those in cents.
const fn listed(model: &'static str, cents: [u64; 4]) -> Listed {
    let [input, output, cache_read, cache_write] = cents;
    let price = Price {
        input: input * 10_000,
        output: output * 10_000,
        cache_read: cache_read * 10_000,
        cache_write: cache_write * 10_000,
    };
    Listed { model, price }
}

/// Cents per million tokens: read, written, read from the cache, written to the cache.
const LIST: &[Listed] = &[
    listed("claude-opus-4-6", [500, 2_500, 50, 625]),
    listed("claude-opus-4-5", [500, 2_500, 50, 625]),
    listed("claude-opus-4-1", [1_500, 7_500, 150, 1_875]),
    listed("claude-opus-4", [1_500, 7_500, 150, 1_875]),
    listed("claude-sonnet-4-6", [300, 1_500, 30, 375]),
    listed("claude-sonnet-4-5", [300, 1_500, 30, 375]),
    listed("claude-sonnet-4", [300, 1_500, 30, 375]),
    listed("claude-3-7-sonnet", [300, 1_500, 30, 375]),
    listed("claude-haiku-4-5", [100, 500, 10, 125]),
    listed("claude-3-5-haiku", [80, 400, 8, 100]),
    listed("claude-3-haiku", [25, 125, 3, 30]),
    listed("gpt-5", [125, 1_000, 13, 125]),
    listed("gpt-5-mini", [25, 200, 3, 25]),
    listed("gpt-5-nano", [5, 40, 1, 5]),
    listed("gpt-4.1", [200, 800, 50, 200]),
    listed("gpt-4.1-mini", [40, 160, 10, 40]),
    listed("gpt-4.1-nano", [10, 40, 3, 10]),
    listed("gpt-4o", [250, 1_000, 125, 250]),
    listed("gpt-4o-mini", [15, 60, 8, 15]),
    listed("o3", [200, 800, 50, 200]),
    listed("o4-mini", [110, 440, 28, 110]),
    listed("gemini-3-pro", [200, 1_200, 20, 200]),
    listed("gemini-3-flash", [50, 300, 5, 50]),
    listed("gemini-2.5-pro", [125, 1_000, 13, 125]),
    listed("gemini-2.5-flash", [30, 250, 3, 30]),
    listed("gemini-2.5-flash-lite", [10, 40, 1, 10]),
];

/// The use with its cost. `configured` is the price that the configuration has for the model. `is_near` is whether it runs
/// on this machine or in its network, where a model without a price costs nothing; it is asked only about such a model.
pub(crate) fn priced<E>(
    used: ReportedUse,
    configured: Option<Price>,
    is_near: impl FnOnce() -> Result<bool, E>,
) -> Result<ModelUse, E> {
    let ReportedUse { model, tokens, cost } = used;
    let listed = || model.as_deref().and_then(of_list);
    let (cost, basis) = match (configured, cost) {
        (Some(price), _) => (price.of(tokens), CostBasis::Priced),
        (None, Some(cost)) => (cost, CostBasis::Stated),
        (None, None) => match listed() {
            Some(price) => (price.of(tokens), CostBasis::Priced),
            None if is_near()? => (Money::ZERO, CostBasis::Priced),
            None => (at_most(tokens), CostBasis::Unknown),
        },
    };
    Ok(ModelUse { model, tokens, cost, basis })
}

/// Whether a model costs nothing.
pub(crate) fn is_free(model: Option<&str>, configured: Option<Price>, is_near: bool) -> bool {
    let price = configured.or_else(|| model.and_then(of_list));
    price.map_or(is_near, |price| price == Price::default())
}

/// The list's price of a model: names may have a provider in front (`anthropic/…`) and a date or `preview` behind.
fn of_list(model: &str) -> Option<Price> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_version = |rest: &str| {
        let version = rest.trim_start_matches(['-', '@', ':']);
        rest.len() > version.len()
            && (matches!(version, "latest" | "preview")
                || version.len() >= 8 && version.chars().all(|c| c.is_ascii_digit() || c == '-'))
    };
    let found = LIST
        .iter()
        .find(|listed| name.strip_prefix(listed.model).is_some_and(|rest| rest.is_empty() || is_version(rest)));
    found.map(|listed| listed.price)
}

/// What tokens cost with the highest price of the list.
fn at_most(tokens: Tokens) -> Money {
    LIST.iter().map(|listed| listed.price.of(tokens)).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_provider_or_a_date_are_found() {
        for (name, input) in [
            ("claude-sonnet-4-5", Some(3_000_000)),
            ("claude-sonnet-4-5-20250929", Some(3_000_000)),
            ("anthropic/claude-opus-4-5@20251101", Some(5_000_000)),
            ("claude-opus-4-20250514", Some(15_000_000)),
            ("gpt-5", Some(1_250_000)),
            ("gpt-5-2025-08-07", Some(1_250_000)),
            ("gpt-5-mini", Some(250_000)),
            ("gemini-3-pro-preview", Some(2_000_000)),
            ("gpt-5.6-luna", None),
            ("claude-opus-9", None),
            ("claude-sonnet-4-7", None),
            ("gpt-5-pro", None),
            ("qwen3:8b", None),
            ("", None),
        ] {
            assert_eq!(of_list(name).map(|price| price.input), input, "{name}");
        }
    }

    #[test]
    fn a_configured_price_wins_over_what_the_agent_states_and_the_list_comes_last() {
        let tokens = Tokens { input: 1_000_000, ..Tokens::default() };
        let of = |model: Option<&str>, cost| ReportedUse { model: model.map(Into::into), tokens, cost };
        let stated = Some(Money::micros(7));
        let free = Price { input: 0, output: 0, cache_read: 0, cache_write: 0 };
        let near = |is_near| move || Ok::<_, std::convert::Infallible>(is_near);
        let other = priced(of(Some("other"), None), None, near(true)).unwrap();
        assert_eq!((other.cost, other.basis), (Money::ZERO, CostBasis::Priced));
        let passed_on = priced(of(Some("gpt-5"), None), None, near(true)).unwrap();
        assert_eq!(passed_on.cost, Money::micros(1_250_000));
        assert!(is_free(None, None, true) && is_free(Some("gpt-5"), Some(free), false));
        assert!(!is_free(Some("gpt-5"), None, true) && !is_free(Some("other"), None, false));
        for (used, configured, cost, basis) in [
            (of(Some("gpt-5"), stated), Some(free), 0, CostBasis::Priced),
            (of(Some("gpt-5"), stated), None, 7, CostBasis::Stated),
            (of(Some("gpt-5"), None), None, 1_250_000, CostBasis::Priced),
            (of(Some("other"), None), None, 15_000_000, CostBasis::Unknown),
            (of(None, None), None, 15_000_000, CostBasis::Unknown),
        ] {
            let used = priced(used, configured, near(false)).unwrap();
            assert_eq!((used.cost, used.basis), (Money::micros(cost), basis), "{used:?}");
        }
    }
}
