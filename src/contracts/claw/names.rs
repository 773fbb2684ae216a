//! Parses the names of session files.

use crate::model::time::Timestamp;

/// Which of a session's files it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// An older state, kept when the session was saved or cleared, with the time in milliseconds since 1970.
    Older(u64),
    /// The current state.
    Current,
}

/// The session's name without extensions, and which of its files this is. `None` for other kinds of files.
#[must_use]
pub(super) fn parse(name: &str) -> Option<(&str, Part)> {
    if let Some(name) = name.strip_suffix(".bak") {
        let (file, ms) = name.rsplit_once(".before-clear-")?;
        return Some((stem(file)?, Part::Older(number(ms)?)));
    }
    let stem = stem(name)?;
    let older = stem.rsplit_once(".rot-").and_then(|(session, ms)| Some((session, number(ms)?)));
    match older {
        Some((session, ms)) if !session.is_empty() && name.ends_with(".jsonl") => Some((session, Part::Older(ms))),
        _ => Some((stem, Part::Current)),
    }
}

/// The name without the extension of a session file.
fn stem(name: &str) -> Option<&str> {
    let stem = name.strip_suffix(".jsonl").or_else(|| name.strip_suffix(".json"))?;
    (!stem.is_empty()).then_some(stem)
}

fn number(digits: &str) -> Option<u64> {
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// The creation time in a session id of the form `session-<milliseconds>-<anything>`.
#[must_use]
pub(super) fn created(id: &str) -> Option<Timestamp> {
    let (ms, rest) = id.strip_prefix("session-")?.split_once('-')?;
    let ms = i64::try_from(number(ms)?).ok()?;
    (!rest.is_empty()).then_some(Timestamp::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whose_file_it_is() {
        for (name, part) in [
            ("a.jsonl", Some(("a", Part::Current))),
            ("a.json", Some(("a", Part::Current))),
            ("a.b.jsonl", Some(("a.b", Part::Current))),
            ("a.JSONL", None),
            (".jsonl", None),
            ("a", None),
            ("a.rot-17.jsonl", Some(("a", Part::Older(17)))),
            ("a.rot-17.json", Some(("a.rot-17", Part::Current))),
            ("a.rot-x.jsonl", Some(("a.rot-x", Part::Current))),
            (".rot-17.jsonl", Some((".rot-17", Part::Current))),
            ("a.jsonl.before-clear-18.bak", Some(("a", Part::Older(18)))),
            ("a.json.before-clear-18.bak", Some(("a", Part::Older(18)))),
            ("a.before-clear-18.bak", None),
            ("a.jsonl.before-clear-.bak", None),
            ("a.jsonl.tmp-18-0", None),
        ] {
            assert_eq!(parse(name), part, "{name}");
        }
    }

    #[test]
    fn an_id_tells_its_time_only_in_full_shape() {
        for (id, ms) in [
            ("session-1743724800123-0", Some(1_743_724_800_123)),
            ("session-1743724800123-0-x", Some(1_743_724_800_123)),
            ("session-1743724800123", None),
            ("session-1743724800123-", None),
            ("session-+1-0", None),
            ("session-99999999999999999999-0", None),
            ("other-1743724800123-0", None),
        ] {
            assert_eq!(created(id).map(Timestamp::millis), ms, "{id}");
        }
    }
}
