//! Merges a session-state file with the rows, field by field.
//!
//! | field | who writes | when the file lacks it | else |
//! |---|---|---|---|
//! | `schema_version`, `session_id` | the program that registers sessions | it comes back | what the file says |
//! | `sessions.<name>` | that program, heartbeat | it was removed | what was changed in the file, else Hearth's |
//! | `muted_threads.<thread>` | agents, Hearth | it was removed | the same |
//! | `seen_email_ids` | skills; ids are only added | it comes back | all ids of both, within the window |
//! | `pending_response` | agents, skills, Hearth | it comes back | see `pending.rs` |
//! | anything else | unknown | it was removed | what was changed in the file, else Hearth's |
//!
//! A file that was started afresh, because it could not be read, only has what registering a session writes. Nothing
//! was removed on purpose then, so everything comes back.

use crate::Result;
use crate::model::content::RawJson;
use crate::model::group::{StateDocument, StateField, StateFile, StatePart};
use crate::model::id::AgentId;
use crate::state::{ForeignKey, StateFieldKey};
use crate::state_file::pending;
use crate::tx::Tx;
use std::collections::HashMap;

pub(crate) const VERSION: &str = "schema_version";

pub(crate) const SESSION_ID: &str = "session_id";

pub(crate) const SESSIONS: &str = "sessions";

pub(crate) const MUTED: &str = "muted_threads";

pub(crate) const IDS: &str = "seen_email_ids";

pub(crate) const PENDING: &str = "pending_response";

/// Fields that are never removed, only emptied.
const LASTING: [&str; 6] = [VERSION, SESSION_ID, SESSIONS, MUTED, IDS, PENDING];

/// The only fields of a file that was started afresh.
const AFRESH: [&str; 3] = [VERSION, SESSION_ID, SESSIONS];

/// Merges a file into the rows. `None` stands for a missing or empty file.
pub(crate) fn take_in(
    tx: &mut Tx<'_, '_>,
    agent: AgentId,
    file: &mut StateFile,
    theirs: Option<&StateDocument>,
) -> Result<()> {
    let rows = tx.db.state_fields.collect_prefix(tx, &agent, usize::MAX)?;
    let afresh = theirs.is_none_or(|theirs| starts_afresh(theirs, &rows));
    let mut found = HashMap::new();
    let fields = theirs.map_or(&[][..], |theirs| &theirs.fields);
    for field in fields {
        found.insert((field.part, ForeignKey::of(&field.name)), field.value.clone());
    }
    for (StateFieldKey { part, name: key, .. }, row) in rows {
        let their = found.get(&(part, key.clone())).cloned();
        let lost = their.is_none() && (afresh || part == StatePart::Top && LASTING.contains(&row.name.as_str()));
        let mut merged = StateField { known: vec![their.clone()], ..row.clone() };
        // The value of this slot is chosen among all pending responses.
        let slot = part == StatePart::Top && row.name.as_str() == PENDING;
        if slot {
            pending::take_in(tx, agent, file, &row, theirs)?;
        } else if !lost && decide(&row.known, their.as_ref()) == Winner::Theirs {
            (merged.value, merged.changed) = (their, tx.now.wall);
        }
        put(tx, agent, part, &row, &merged)?;
    }
    for field in fields {
        let key = StateFieldKey { agent, part: field.part, name: ForeignKey::of(&field.name) };
        if tx.db.state_fields.contains(tx, &key)? {
            continue;
        }
        let value = Some(field.value.clone());
        let known = vec![value.clone()];
        let row = StateField { name: field.name.clone(), value, known, position: next(file), changed: tx.now.wall };
        tx.db.state_fields.put(tx, &key, &row)?;
        if field.part == StatePart::Top && field.name.as_str() == PENDING {
            let before = StateField { known: vec![None], ..row };
            pending::take_in(tx, agent, file, &before, theirs)?;
        }
    }
    pending::show(tx, agent, file)
}

/// Stores a merged row if it changed. A row that neither side has any more is removed.
pub(crate) fn put(
    tx: &mut Tx<'_, '_>,
    agent: AgentId,
    part: StatePart,
    before: &StateField,
    row: &StateField,
) -> Result<()> {
    let key = StateFieldKey { agent, part, name: ForeignKey::of(&row.name) };
    if row.value.is_none() && row.known.iter().all(Option::is_none) {
        return tx.db.state_fields.delete(tx, &key).map(drop);
    }
    if row == before { Ok(()) } else { tx.db.state_fields.put(tx, &key, row) }
}

/// The next position in a file.
pub(crate) fn next(file: &mut StateFile) -> u64 {
    file.last_position = file.last_position.saturating_add(1);
    file.last_position
}

#[derive(Debug, PartialEq, Eq)]
enum Winner {
    Ours,
    Theirs,
}

/// Whose value wins. If the file's value is one that Hearth knows of, Hearth's value stays.
fn decide(known: &[Option<RawJson>], theirs: Option<&RawJson>) -> Winner {
    if known.iter().any(|known| known.as_ref() == theirs) { Winner::Ours } else { Winner::Theirs }
}

fn starts_afresh(theirs: &StateDocument, rows: &[(StateFieldKey, StateField)]) -> bool {
    let mut top = theirs.fields.iter().filter(|field| field.part == StatePart::Top);
    let sessions = theirs.fields.iter().filter(|field| field.part == StatePart::Sessions).count();
    let bare = sessions <= 1 && top.all(|field| AFRESH.contains(&field.name.as_str()));
    let had_more = rows.iter().any(|(key, row)| {
        key.part == StatePart::Top && !AFRESH.contains(&row.name.as_str()) && row.known.iter().any(Option::is_some)
    });
    bare && had_more
}

#[cfg(test)]
mod tests {
    use crate::state_file::merge::*;

    #[test]
    fn whoever_changed_a_field_has_it() {
        let value = |text: &str| (!text.is_empty()).then(|| RawJson::trusted(text.to_owned()));
        for (known, theirs, winner) in [
            (vec!["1"], "1", Winner::Ours),
            (vec!["1"], "2", Winner::Theirs),
            (vec!["1"], "", Winner::Theirs),
            (vec![""], "", Winner::Ours),
            (vec![""], "1", Winner::Theirs),
            (vec!["1", "2"], "1", Winner::Ours),
            (vec!["1", "2"], "2", Winner::Ours),
            (vec!["1", "2"], "3", Winner::Theirs),
            (vec![], "1", Winner::Theirs),
        ] {
            let known: Vec<_> = known.into_iter().map(value).collect();
            assert_eq!(decide(&known, value(theirs).as_ref()), winner, "{known:?} {theirs}");
        }
    }
}
