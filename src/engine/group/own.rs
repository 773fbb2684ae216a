//! What Hearth's side changes in a session-state file: rows at once, the file as soon as its lock is to be had.

use super::merge::{self, IDS, MUTED};
use super::render::{self, ARRAY, OBJECT};
use super::state;
use crate::engine::{Cx, Result, readable};
use crate::model::content::RawJson;
use crate::model::effect::Effect;
use crate::model::group::{FieldName, STATE_FIELDS_MAX, StateField, StateFile, StatePart};
use crate::model::id::AgentId;
use crate::model::report::Action;
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

/// Why a thread cannot be put into `muted_threads`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Unmutable {
    /// The field is of a shape of somebody else's, and left as it is.
    Foreign,
    /// With one field more nobody at Hearth's side would read the file.
    Full,
}

/// Puts a thread into `muted_threads`, with a note. What is noted with one that is there stays, if nothing is said of that.
pub(in crate::engine) fn mute(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, thread, note): (AgentId, &FieldName, Option<&str>),
    effects: &mut Vec<Effect>,
) -> Result<std::result::Result<Action, Unmutable>> {
    let value = RawJson::trusted(note.map_or_else(|| render::YES.to_owned(), render::quoted));
    let before = muted(cx, txn, agent, thread)?;
    if before.as_ref().is_some_and(|before| note.is_none() || *before == value) {
        return Ok(Ok(Action::Unchanged));
    }
    let top = (agent, StatePart::Top, ForeignKey::of(&FieldName::of(MUTED)));
    let object = cx.db.state_fields.get(txn, &top)?.and_then(|row| row.value);
    if object.is_some_and(|value| value.as_str() != OBJECT) {
        return Ok(Err(Unmutable::Foreign));
    }
    let fields = state::fields(cx, txn, agent)?.into_iter().filter(|(_, field)| field.value.is_some()).count();
    // The last ones are for the fields that every file has.
    if before.is_none() && fields >= STATE_FIELDS_MAX - 10 {
        return Ok(Err(Unmutable::Full));
    }
    set(cx, txn, (agent, thread, Some(value)), effects)?;
    Ok(Ok(if before.is_some() { Action::Updated } else { Action::Created }))
}

/// Takes a thread out of `muted_threads`; false if it is not muted there.
pub(in crate::engine) fn unmute(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, thread): (AgentId, &FieldName),
    effects: &mut Vec<Effect>,
) -> Result<bool> {
    let muted = muted(cx, txn, agent, thread)?.is_some();
    if muted {
        set(cx, txn, (agent, thread, None), effects)?;
    }
    Ok(muted)
}

/// What is noted with a thread in `muted_threads`; none if it is not muted there.
pub(in crate::engine) fn muted(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    agent: AgentId,
    thread: &FieldName,
) -> Result<Option<RawJson>> {
    let key = ForeignKey::of(thread);
    if !cx.db.state_mutes.contains(txn, &(agent, key.clone()))? {
        return Ok(None);
    }
    // A key may hold only a digest of the name.
    let field = readable(cx.db.state_fields.get(txn, &(agent, StatePart::Muted, key)))?;
    Ok(field.filter(|field| field.name == *thread).and_then(|field| field.value))
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
