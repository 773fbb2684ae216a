//! Reports about the files of an agent group's folder.

use crate::model::group::GroupInput;
use crate::model::id::AgentId;
use crate::model::report::Reply;
use crate::rows::agents;
use crate::state_file::{own, state};
use crate::tx::Tx;
use crate::{Result, skips};

/// Handles a report about an agent group's files.
pub(crate) fn apply(tx: &mut Tx<'_, '_>, agent: AgentId, happened: &GroupInput) -> Result<Reply> {
    // Skips of a removed agent are still reported to people.
    if !matches!(happened, GroupInput::Skips(_) | GroupInput::SkipGone(_)) && agents::is_removed(tx, agent)? {
        return Ok(Reply::State(None));
    }
    match happened {
        GroupInput::Skips(look) => skips::looked(tx, agent, look),
        GroupInput::SkipGone(id) => skips::gone(tx, *id).map(|()| Reply::Done),
        GroupInput::StateRead(read) => {
            let export = state::read(tx, agent, read)?;
            Ok(Reply::State(export.map(Box::new)))
        }
        GroupInput::StateWritten(digest) => state::written(tx, agent, digest).map(|()| Reply::Done),
        GroupInput::StateTrouble(trouble) => state::trouble(tx, agent, trouble).map(|()| Reply::Done),
        GroupInput::CopiesGone(copies) => state::forget_copies(tx, agent, copies).map(|()| Reply::Done),
        GroupInput::StateSeen(ids) => {
            own::see(tx, agent, ids)?;
            Ok(Reply::Done)
        }
    }
}
