//! `[retention]`: how long things are kept.

use super::section::{Keys, Problems, Section, excerpt};
use crate::model::retention::{Keep, Retention};

pub(super) const KEYS: Keys =
    Keys { place: "[retention]", known: &["bodies", "journal", "attachments", "dedup", "drops"], later: &[] };

/// Maximum number of days: a hundred years. Longer periods are written as forever.
const DAYS_MAX: u32 = 36_500;

/// Minimum number of days for which seen messages are remembered, because platforms repeat messages.
const DEDUP_MIN: u32 = 30;

pub(super) fn read(problems: &mut Problems<'_>, top: &Section<'_>) -> Retention {
    let Some(section) = top.table(problems, "retention", &KEYS) else { return Retention::default() };
    let mut keep = |key, min| keep(problems, &section, key, min);
    Retention {
        bodies: keep("bodies", 1),
        journal: keep("journal", 1),
        attachments: keep("attachments", 1),
        dedup: keep("dedup", DEDUP_MIN),
        drops: keep("drops", 1),
    }
}

fn keep(problems: &mut Problems<'_>, section: &Section<'_>, key: &str, min: u32) -> Option<Keep> {
    let value = section.get(key)?;
    let (said, found) = match value.get_ref().as_str() {
        Some(text) => (format!("\"{}\"", excerpt(text)), parse(text)),
        None if value.get_ref().as_integer().is_some() => {
            let days = section.integer(problems, key)?;
            (days.to_string(), u32::try_from(days).ok().map(Keep::Days))
        }
        None => (value.get_ref().type_str().to_owned(), None),
    };
    match found {
        Some(Keep::Forever) => Some(Keep::Forever),
        Some(Keep::Days(days)) if (min..=DAYS_MAX).contains(&days) => Some(Keep::Days(days)),
        _ => {
            let wanted = format!("write days like \"{}d\", from {min} to {DAYS_MAX}, or \"forever\"", min.max(90));
            problems.add(value.span().start, format!("`retention.{key}` cannot be {said}; {wanted}"));
            None
        }
    }
}

fn parse(text: &str) -> Option<Keep> {
    if text == "forever" {
        return Some(Keep::Forever);
    }
    let days = text.strip_suffix('d')?;
    let plain = days.bytes().all(|byte| byte.is_ascii_digit());
    days.parse().ok().filter(|_| plain).map(Keep::Days)
}
