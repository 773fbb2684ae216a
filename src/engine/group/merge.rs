//! The merge of a session-state file with the rows, field by field.
//!
//! | field | who writes | when the file lacks it | else |
//! |---|---|---|---|
//! | `schema_version`, `session_id` | the program that registers sessions | it comes back | what the file says |
//! | `sessions.<name>` | that program, and the heartbeat | it was removed | what was changed in the file, else Hearth's |
//! | `muted_threads.<thread>` | agents, Hearth | it was removed | the same |
//! | `seen_email_ids` | skills; ids are only added | it comes back | all ids of both, within the window |
//! | `pending_response` | agents, skills, Hearth | it comes back | see `pending.rs` |
//! | anything else | unknown | it was removed | what was changed in the file, else Hearth's |
//!
//! A file in which somebody started afresh, because it could not be read, lacks everything but what registering a session
//! writes: nothing was removed on purpose then, and everything comes back.

use std::collections::HashMap;

use super::pending;
use crate::engine::{Cx, Result};
use crate::model::content::RawJson;
use crate::model::group::{StateDocument, StateField, StateFile, StatePart};
use crate::model::id::AgentId;
use crate::state::{ForeignKey, Write};

pub(super) const VERSION: &str = "schema_version";
pub(super) const SESSION_ID: &str = "session_id";
pub(super) const SESSIONS: &str = "sessions";
pub(super) const MUTED: &str = "muted_threads";
pub(super) const IDS: &str = "seen_email_ids";
pub(super) const PENDING: &str = "pending_response";

/// Fields that are never removed: at most they are empty.
const LASTING: [&str; 6] = [VERSION, SESSION_ID, SESSIONS, MUTED, IDS, PENDING];
/// All that somebody writes who starts afresh.
const AFRESH: [&str; 3] = [VERSION, SESSION_ID, SESSIONS];

/// Takes in what a file says; none is a file that is not there, or that says nothing.
pub(super) fn take_in(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, file): (AgentId, &mut StateFile),
    theirs: Option<&StateDocument>,
) -> Result<()> {
    let rows = cx.db.state_fields.collect_prefix(txn, &agent, usize::MAX)?;
    let afresh = theirs.is_none_or(|theirs| starts_afresh(theirs, &rows));
    let mut found = HashMap::new();
    let fields = theirs.map_or(&[][..], |theirs| &theirs.fields);
    for field in fields {
        found.insert((field.part, ForeignKey::of(&field.name)), field.value.clone());
    }
    for ((_, part, key), row) in rows {
        let their = found.get(&(part, key.clone())).cloned();
        let lost = their.is_none() && (afresh || part == StatePart::Top && LASTING.contains(&row.name.as_str()));
        let mut merged = StateField { known: vec![their.clone()], ..row.clone() };
        // What the slot shows is decided among all that waits.
        let slot = part == StatePart::Top && row.name.as_str() == PENDING;
        if slot {
            pending::take_in(cx, txn, (agent, file), (&row, theirs))?;
        } else if !lost && decide(&row.known, their.as_ref()) == Winner::Theirs {
            (merged.value, merged.changed) = (their, cx.now.wall);
        }
        put(cx, txn, (agent, part), &row, &merged)?;
    }
    for field in fields {
        let key = (agent, field.part, ForeignKey::of(&field.name));
        if cx.db.state_fields.contains(txn, &key)? {
            continue;
        }
        let value = Some(field.value.clone());
        let known = vec![value.clone()];
        let row = StateField { name: field.name.clone(), value, known, position: next(file), changed: cx.now.wall };
        cx.db.state_fields.put(txn, &key, &row)?;
        index(cx, txn, (agent, field.part), &row)?;
        if field.part == StatePart::Top && field.name.as_str() == PENDING {
            let before = StateField { known: vec![None], ..row };
            pending::take_in(cx, txn, (agent, file), (&before, theirs))?;
        }
    }
    pending::show(cx, txn, (agent, file))
}

/// Stores a merged row if it is another one now; one that neither side has any more goes.
pub(super) fn put(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, part): (AgentId, StatePart),
    before: &StateField,
    row: &StateField,
) -> Result<()> {
    let key = (agent, part, ForeignKey::of(&row.name));
    if row.value != before.value {
        index(cx, txn, (agent, part), row)?;
    }
    if row.value.is_none() && row.known.iter().all(Option::is_none) {
        return cx.db.state_fields.delete(txn, &key).map(drop);
    }
    if row == before { Ok(()) } else { cx.db.state_fields.put(txn, &key, row) }
}

/// Whether messages of a thread are kept from waking the agent is asked for every message, and answered by an index.
fn index(cx: &Cx<'_>, txn: &mut Write<'_>, (agent, part): (AgentId, StatePart), row: &StateField) -> Result<()> {
    if part != StatePart::Muted {
        return Ok(());
    }
    let key = (agent, ForeignKey::of(&row.name));
    if row.mutes() { cx.db.state_mutes.put(txn, &key, &()) } else { cx.db.state_mutes.delete(txn, &key).map(drop) }
}

/// The next position in a file.
pub(super) fn next(file: &mut StateFile) -> u64 {
    file.last_position = file.last_position.saturating_add(1);
    file.last_position
}

#[derive(Debug, PartialEq, Eq)]
enum Winner {
    Ours,
    Theirs,
}

/// Whose value counts: what the file may have without anybody else having written it leaves Hearth's as it is.
fn decide(known: &[Option<RawJson>], theirs: Option<&RawJson>) -> Winner {
    if known.iter().any(|known| known.as_ref() == theirs) { Winner::Ours } else { Winner::Theirs }
}

fn starts_afresh(theirs: &StateDocument, rows: &[((AgentId, StatePart, ForeignKey), StateField)]) -> bool {
    let mut top = theirs.fields.iter().filter(|field| field.part == StatePart::Top);
    let sessions = theirs.fields.iter().filter(|field| field.part == StatePart::Sessions).count();
    let bare = sessions <= 1 && top.all(|field| AFRESH.contains(&field.name.as_str()));
    let had_more = rows.iter().any(|((_, part, _), row)| {
        *part == StatePart::Top && !AFRESH.contains(&row.name.as_str()) && row.known.iter().any(Option::is_some)
    });
    bare && had_more
}

#[cfg(test)]
mod tests {
    use super::*;

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
