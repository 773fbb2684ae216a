//! What Hearth's side changes in a session-state file: rows at once, the file as soon as its lock is to be had.

use super::merge::{self, IDS, MUTED};
use super::render::{ARRAY, OBJECT};
use super::{pending, state};
use crate::engine::{Cx, Result};
use crate::model::content::RawJson;
use crate::model::effect::Effect;
use crate::model::group::{FieldName, StateChange, StateField, StateFile, StatePart};
use crate::model::id::AgentId;
use crate::state::{ForeignKey, Write};

/// A change, or why it cannot be.
type Changed = std::result::Result<(), String>;

/// Changes the session state of an agent group.
pub(super) fn change(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    agent: AgentId,
    change: &StateChange,
    effects: &mut Vec<Effect>,
) -> Result<Changed> {
    if let StateChange::Mute(thread, value) = change {
        return mute(cx, txn, (agent, thread, value.as_ref()), effects);
    }
    shared(cx, txn, agent, effects, |txn, file| match change {
        StateChange::Mute(..) => Ok(()),
        StateChange::See(ids) => {
            state::see(cx, txn, (agent, file), ids)?;
            // A long list comes in parts: there is never much more than what is kept.
            state::trim(cx, txn, agent)?;
            state::ensure_top(cx, txn, (agent, file), (IDS, ARRAY)).map(drop)
        }
        StateChange::Begin(begun) => {
            pending::begin(cx, txn, (agent, file), begun)?;
            pending::show(cx, txn, (agent, file))
        }
        StateChange::Clear(message) => {
            pending::clear(cx, txn, agent, message)?;
            pending::show(cx, txn, (agent, file))
        }
    })?;
    Ok(Ok(()))
}

/// Puts a thread into `muted_threads`, or takes it out. Refused where that field is of a shape of somebody else's.
pub(in crate::engine) fn mute(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, thread, value): (AgentId, &FieldName, Option<&RawJson>),
    effects: &mut Vec<Effect>,
) -> Result<Changed> {
    let top = (agent, StatePart::Top, ForeignKey::of(&FieldName::of(MUTED)));
    let there = cx.db.state_fields.get(txn, &top)?.and_then(|row| row.value);
    if there.is_some_and(|value| value.as_str() != OBJECT) {
        return Ok(Err("`muted_threads` of session-state.json is not an object, and is left as it is".to_owned()));
    }
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
        let row = StateField { value: value.cloned(), changed: cx.now.wall, ..before.clone() };
        merge::put(cx, txn, (agent, StatePart::Muted), &before, &row)
    })?;
    Ok(Ok(()))
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
