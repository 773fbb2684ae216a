//! What lies in agent groups' folders as files of a contract: their session state.
//!
//! The fields are rows, the file is their export. Programs inside and outside go on editing the file, so each look at it
//! is a merge: what somebody else changed since Hearth last read or wrote it wins, what Hearth's side changed stays where
//! nobody else did. Whoever looks holds the file's lock; the engine never waits for it.

use super::{Applied, Cx, Result};
use crate::model::group::GroupInput;
use crate::model::id::AgentId;
use crate::model::report::Reply;
use crate::state::Write;

mod forget;
mod merge;
mod own;
mod pending;
mod render;
mod state;

pub(super) use forget::{forget_agent, is_left};
pub(super) use own::{Unmutable, mute, muted, unmute};
pub(super) use pending::due;

/// Carries out what happened to an agent group's files.
pub(super) fn apply(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, happened: &GroupInput) -> Result<Applied> {
    // What an agent left undone before it was removed is told all the same.
    if !matches!(happened, GroupInput::Skips(_) | GroupInput::SkipGone(_)) && super::remove::is_removed(cx, txn, agent)?
    {
        return Ok(Applied::new(Reply::State(None), Vec::new()));
    }
    match happened {
        GroupInput::Skips(look) => super::skips::looked(cx, txn, agent, look).map(Applied::done),
        GroupInput::SkipGone(id) => super::skips::gone(cx, txn, *id).map(|()| Applied::done(Vec::new())),
        GroupInput::StateRead(read) => {
            let export = state::read(cx, txn, agent, read)?;
            Ok(Applied::new(Reply::State(export.map(Box::new)), Vec::new()))
        }
        GroupInput::StateWritten(digest) => state::written(cx, txn, agent, digest).map(|()| Applied::done(Vec::new())),
        GroupInput::StateTrouble(trouble) => {
            state::trouble(cx, txn, agent, trouble).map(|()| Applied::done(Vec::new()))
        }
        GroupInput::CopiesGone(copies) => {
            state::forget_copies(cx, txn, agent, copies).map(|()| Applied::done(Vec::new()))
        }
        GroupInput::StateSeen(ids) => {
            let mut effects = Vec::new();
            own::see(cx, txn, (agent, ids), &mut effects)?;
            Ok(Applied::done(effects))
        }
    }
}
