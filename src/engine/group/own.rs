//! What Hearth's side changes in a session-state file: rows at once, the file as soon as its lock is to be had.

use super::merge::{self, IDS, MUTED};
use super::render::{self, ARRAY, OBJECT};
use super::state;
use crate::engine::{Cx, Result, readable};
use crate::model::content::RawJson;
use crate::model::effect::Effect;
use crate::model::group::{FieldName, StateField, StateFile, StatePart};
use crate::model::id::AgentId;
use crate::state::{ForeignKey, Write};

/// Notes ids that are in the file already.
pub(super) fn see(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, ids): (AgentId, &[String]),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    shared(cx, txn, agent, effects, |txn, file| {
        state::see(cx, txn, (agent, file), ids)?;
        // A long list comes in parts: there is never much more than what is kept.
        state::trim(cx, txn, agent)?;
        state::ensure_top(cx, txn, (agent, file), (IDS, ARRAY)).map(drop)
    })
}

/// Puts a thread into `muted_threads`, with a note. False where that field is of a shape of somebody else's: it is left as it
/// is.
pub(in crate::engine) fn mute(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, thread, note): (AgentId, &FieldName, Option<&str>),
    effects: &mut Vec<Effect>,
) -> Result<bool> {
    let top = (agent, StatePart::Top, ForeignKey::of(&FieldName::of(MUTED)));
    let there = cx.db.state_fields.get(txn, &top)?.and_then(|row| row.value);
    if there.is_some_and(|value| value.as_str() != OBJECT) {
        return Ok(false);
    }
    let value = note.map_or_else(|| render::YES.to_owned(), render::quoted);
    set(cx, txn, (agent, thread, Some(RawJson::trusted(value))), effects).map(|()| true)
}

/// Takes a thread out of `muted_threads`; false if it is not muted there.
pub(in crate::engine) fn unmute(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, thread): (AgentId, &FieldName),
    effects: &mut Vec<Effect>,
) -> Result<bool> {
    let muted = is_muted(cx, txn, agent, thread)?;
    if muted {
        set(cx, txn, (agent, thread, None), effects)?;
    }
    Ok(muted)
}

/// Whether a thread is in `muted_threads`, with a value that mutes.
pub(in crate::engine) fn is_muted(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId, thread: &FieldName) -> Result<bool> {
    let key = ForeignKey::of(thread);
    if !cx.db.state_mutes.contains(txn, &(agent, key.clone()))? {
        return Ok(false);
    }
    // A key may hold only a digest of the name.
    let field = readable(cx.db.state_fields.get(txn, &(agent, StatePart::Muted, key)))?;
    Ok(field.is_some_and(|field| field.name == *thread))
}

fn set(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, thread, value): (AgentId, &FieldName, Option<RawJson>),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    shared(cx, txn, agent, effects, |txn, file| {
        state::ensure_top(cx, txn, (agent, file), (MUTED, OBJECT))?;
        let key = (agent, StatePart::Muted, ForeignKey::of(thread));
        let before = cx.db.state_fields.get(txn, &key)?.unwrap_or_else(|| StateField {
            name: thread.clone(),
            value: None,
            known: vec![None],
            position: merge::next(file),
            changed: cx.now.wall,
        });
        let row = StateField { value, changed: cx.now.wall, ..before.clone() };
        merge::put(cx, txn, (agent, StatePart::Muted), &before, &row)
    })
}

/// Changes rows and asks for the file to be written.
pub(super) fn shared(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    agent: AgentId,
    effects: &mut Vec<Effect>,
    work: impl FnOnce(&mut Write<'_>, &mut StateFile) -> Result<()>,
) -> Result<()> {
    let mut file = cx.db.state_files.get(txn, &agent)?.unwrap_or_else(|| state::unseen(cx));
    work(txn, &mut file)?;
    file.dirty = true;
    state::put(cx, txn, agent, &file)?;
    effects.push(Effect::ShareState(agent));
    Ok(())
}
