//! Hearth's own changes to a session-state file: rows change at once, the file as soon as its lock is free.

use crate::model::content::RawJson;
use crate::model::effect::Effect;
use crate::model::group::{FieldName, STATE_FIELDS_MAX, StateField, StateFile, StatePart};
use crate::model::id::AgentId;
use crate::model::report::Action;
use crate::state::{ForeignKey, Read, StateFieldKey, StateMuteKey, Tables};
use crate::state_file::merge::{IDS, MUTED};
use crate::state_file::render::{ARRAY, OBJECT};
use crate::state_file::{merge, render, state};
use crate::tx::Tx;
use crate::{Result, readable};

/// Records ids that are already in the file.
pub(crate) fn see(tx: &mut Tx<'_, '_>, agent: AgentId, ids: &[String]) -> Result<()> {
    shared(tx, agent, |tx, file| {
        state::see(tx, agent, file, ids)?;
        // A long list arrives in parts, so there are never many more ids than are kept.
        state::trim(tx, agent)?;
        state::ensure_top(tx, agent, file, IDS, ARRAY).map(drop)
    })
}

/// Why a thread cannot be added to `muted_threads`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unmutable {
    /// Another program gave the field a different shape, which is left as it is.
    Foreign,
    /// One more field would exceed the number that Hearth's readers accept.
    Full,
}

/// Adds a thread to `muted_threads`, with a note. Without a new note, an existing entry keeps its note.
pub(crate) fn mute(
    tx: &mut Tx<'_, '_>,
    agent: AgentId,
    thread: &FieldName,
    note: Option<&str>,
) -> Result<std::result::Result<Action, Unmutable>> {
    let value = RawJson::trusted(note.map_or_else(|| render::YES.to_owned(), render::quoted));
    let before = muted(tx.db, tx, agent, thread)?;
    if before.as_ref().is_some_and(|before| note.is_none() || *before == value) {
        return Ok(Ok(Action::Unchanged));
    }
    let top = StateFieldKey { agent, part: StatePart::Top, name: ForeignKey::of(&FieldName::of(MUTED)) };
    let object = tx.db.state_fields.get(tx, &top)?.and_then(|row| row.value);
    if object.is_some_and(|value| value.as_str() != OBJECT) {
        return Ok(Err(Unmutable::Foreign));
    }
    let fields = state::fields(tx, agent)?.into_iter().filter(|(_, field)| field.value.is_some()).count();
    // The last fields are reserved for those that every file has.
    if before.is_none() && fields >= STATE_FIELDS_MAX - 10 {
        return Ok(Err(Unmutable::Full));
    }
    set(tx, agent, thread, Some(value))?;
    Ok(Ok(if before.is_some() { Action::Updated } else { Action::Created }))
}

/// Removes a thread from `muted_threads`. Returns false if it is not muted there.
pub(crate) fn unmute(tx: &mut Tx<'_, '_>, agent: AgentId, thread: &FieldName) -> Result<bool> {
    let muted = muted(tx.db, tx, agent, thread)?.is_some();
    if muted {
        set(tx, agent, thread, None)?;
    }
    Ok(muted)
}

/// The note of a thread in `muted_threads`; none if it is not muted there.
pub(crate) fn muted(db: &Tables, txn: &Read<'_>, agent: AgentId, thread: &FieldName) -> Result<Option<RawJson>> {
    let key = ForeignKey::of(thread);
    if !db.state_mutes.contains(txn, &StateMuteKey { agent, name: key.clone() })? {
        return Ok(None);
    }
    // A key may hold only a digest of the name.
    let field = readable(db.state_fields.get(txn, &StateFieldKey { agent, part: StatePart::Muted, name: key }))?;
    Ok(field.filter(|field| field.name == *thread).and_then(|field| field.value))
}

fn set(tx: &mut Tx<'_, '_>, agent: AgentId, thread: &FieldName, value: Option<RawJson>) -> Result<()> {
    shared(tx, agent, |tx, file| {
        state::ensure_top(tx, agent, file, MUTED, OBJECT)?;
        let key = StateFieldKey { agent, part: StatePart::Muted, name: ForeignKey::of(thread) };
        let before = tx.db.state_fields.get(tx, &key)?.unwrap_or_else(|| StateField {
            name: thread.clone(),
            value: None,
            known: vec![None],
            position: merge::next(file),
            changed: tx.now.wall,
        });
        let row = StateField { value, changed: tx.now.wall, ..before.clone() };
        merge::put(tx, agent, StatePart::Muted, &before, &row)
    })
}

/// Changes rows and requests that the file is written.
pub(crate) fn shared(
    tx: &mut Tx<'_, '_>,
    agent: AgentId,
    work: impl FnOnce(&mut Tx<'_, '_>, &mut StateFile) -> Result<()>,
) -> Result<()> {
    let mut file = tx.db.state_files.get(tx, &agent)?.unwrap_or_else(|| state::unseen(tx));
    work(tx, &mut file)?;
    file.dirty = true;
    state::put(tx, agent, &file)?;
    tx.effects.push(Effect::ShareState(agent));
    Ok(())
}
