//! `[backup]`: scheduled backups of everything.

use super::section::{Keys, Problems, Section, excerpt};
use crate::model::backup_plan::BackupPlan;
use crate::time::every::Every;

pub(super) const KEYS: Keys = Keys { place: "[backup]", known: &["every", "keep", "to", "with_secrets"], later: &[] };

/// Longest path.
const PATH_MAX: usize = 4_000;

pub(super) fn read(problems: &mut Problems<'_>, top: &Section<'_>) -> Option<BackupPlan> {
    let section = top.table(problems, "backup", &KEYS)?;
    let every = section.needed(problems, "every");
    let keep = section.number(problems, "keep", 1..=BackupPlan::KEEP_MAX.into());
    let to = section.text(problems, "to").and_then(|(at, text)| directory(problems, at, text));
    let with_secrets = section.flag(problems, "with_secrets").unwrap_or(false);
    let (at, text) = every?;
    let every = match Every::parse(text) {
        Ok(every) if every.length() >= BackupPlan::EVERY_MIN => every.length(),
        Ok(_) => {
            problems.add(at, format!("`backup.every` cannot be \"{}\"; write at least 10m", excerpt(text)));
            return None;
        }
        Err(error) => {
            problems.add(at, format!("`backup.every`: {error}"));
            return None;
        }
    };
    Some(BackupPlan { every, keep: keep.unwrap_or(BackupPlan::KEEP), to, with_secrets })
}

/// A directory whose meaning does not depend on where the daemon was started.
fn directory(problems: &mut Problems<'_>, at: usize, text: &str) -> Option<String> {
    let plain = text.len() <= PATH_MAX && !text.chars().any(char::is_control);
    if plain && (text.starts_with('/') || text.starts_with("~/")) {
        return Some(text.to_owned());
    }
    let text = excerpt(text);
    problems.add(at, format!("`backup.to` cannot be \"{text}\"; write an absolute path, or one that begins with ~/"));
    None
}
