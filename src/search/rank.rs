//! BM25, with a preference for new texts and for those of the searcher's own chat.

/// How much of the length of a text counts.
const LENGTH_SHARE: f64 = 0.75;
/// How soon repetitions of a word stop counting.
const SATURATION: f64 = 1.2;
/// How much more a text of this moment counts than a very old one.
const RECENT: f64 = 0.2;
/// After how many days half of that is left.
const RECENT_HALF_DAYS: f64 = 30.0;
/// How much more a text of the same chat counts.
const SAME_CHAT: f64 = 1.25;

/// Weight of a term that `with` of `all` texts contain.
#[must_use]
pub fn rarity(with: u64, all: u64) -> f64 {
    let (with, all) = (number(with), number(all.max(with)));
    ((all - with + 0.5) / (with + 0.5)).ln_1p()
}

/// Score of a term that a text of `length` words contains `count` times; `mean` is the mean length of all texts.
#[inline]
#[must_use]
pub fn term(rarity: f64, count: u64, length: u64, mean: f64) -> f64 {
    let count = number(count);
    let relative = if mean > 0.0 { number(length) / mean } else { 1.0 };
    rarity * count * (SATURATION + 1.0) / (count + SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * relative))
}

/// The factor of a text's age in seconds and its chat.
#[inline]
#[must_use]
pub fn weight(age: i64, same_chat: bool) -> f64 {
    let days = f64::from(i32::try_from(age.max(0) / 60).unwrap_or(i32::MAX)) / (24.0 * 60.0);
    let recent = RECENT.mul_add((-days / RECENT_HALF_DAYS).exp2(), 1.0);
    if same_chat { recent * SAME_CHAT } else { recent }
}

/// Exact up to 2^32, which is more than any index has.
fn number(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

/// A mean of `sum` over `count`.
#[must_use]
pub fn mean(sum: u64, count: u64) -> f64 {
    let whole = sum.checked_div(count).zip(sum.checked_rem(count));
    whole.map_or(0.0, |(whole, rest)| number(whole) + number(rest) / number(count))
}
