//! Workspaces and what happens in them: every input about them is one transaction.

use super::{Applied, Cx, Result};
use crate::model::report::Reply;
use crate::model::workspace::{WorkspaceInput, WorkspaceReply};
use crate::state::Write;

mod adopt;
mod folders;
mod locate;

pub use locate::{Located, Relations, ensure, locate, relations};
pub(super) use locate::{free_key, stored};

/// Carries out an input about workspaces.
pub(super) fn workspace(cx: &Cx<'_>, txn: &mut Write<'_>, input: &WorkspaceInput) -> Result<Applied> {
    let done = match input {
        WorkspaceInput::Adopt(sight, from) => adopt::adopt(cx, txn, sight, from)?,
        WorkspaceInput::Folders(folders) => return folders::folders(cx, txn, folders).map(Applied::done),
    };
    Ok(match done {
        Ok(reply) => Applied::new(Reply::Workspace(Box::new(reply)), Vec::new()),
        Err(refusal) => Applied::new(Reply::Refused(refusal), Vec::new()),
    })
}

/// What a command about a workspace answers, or why it did nothing.
type Outcome = std::result::Result<WorkspaceReply, crate::model::report::Refusal>;

/// Whether it is refused when there is no room.
pub(super) const fn is_new_work(input: &WorkspaceInput) -> bool {
    match input {
        WorkspaceInput::Adopt(..) | WorkspaceInput::Folders(_) => false,
    }
}
