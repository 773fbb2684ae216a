//! `[prices."model"]`: prices of models, in dollars for a million tokens.

use super::section::{Keys, Problems, Section, excerpt};
use crate::model::spend::{ModelPrice, Price};

const KEYS: Keys =
    Keys { place: "[prices.\"model\"]", known: &["input", "output", "cache_read", "cache_write"], later: &[] };

/// Highest price in dollars, far above that of any model.
const PRICE_MAX: f64 = 100_000.0;
/// Models with a price.
const MODELS_MAX: usize = 200;
/// Longest name of a model, in characters.
const NAME_MAX: usize = 100;

pub(super) fn read(problems: &mut Problems<'_>, top: &Section<'_>) -> Vec<ModelPrice> {
    let mut prices = Vec::new();
    for (name, section) in top.named_tables(problems, "prices", &KEYS) {
        if name.is_empty() || name.chars().count() > NAME_MAX || name.contains(char::is_control) {
            problems.add(
                section.at(),
                format!(
                    "\"{}\" cannot be the name of a model; write one of at most {NAME_MAX} characters",
                    excerpt(name)
                ),
            );
            continue;
        }
        let (input, output) = (price(problems, &section, "input"), price(problems, &section, "output"));
        let (read, write) = (price(problems, &section, "cache_read"), price(problems, &section, "cache_write"));
        let (Some(input), Some(output)) = (input, output) else {
            let found = format!("the price of \"{}\" is not complete; write `input` and `output`", excerpt(name));
            problems.add(section.at(), found);
            continue;
        };
        let price = Price { input, output, cache_read: read.unwrap_or(input), cache_write: write.unwrap_or(input) };
        prices.push(ModelPrice { model: name.to_owned(), price });
    }
    if prices.len() > MODELS_MAX {
        problems.add(top.at(), format!("{} models have prices; write at most {MODELS_MAX}", prices.len()));
    }
    prices.sort_by(|one, other| one.model.cmp(&other.model));
    prices
}

/// A price in millionths of a dollar.
fn price(problems: &mut Problems<'_>, section: &Section<'_>, key: &str) -> Option<u64> {
    let dollars = section.decimal(problems, key)?;
    if !(0.0..=PRICE_MAX).contains(&dollars) {
        problems.add(section.at(), format!("`{key}` cannot be {dollars}; write dollars from 0 to {PRICE_MAX}"));
        return None;
    }
    Some((dollars * 1e6).round() as u64)
}
