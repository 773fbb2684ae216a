//! Workspaces and what happens in them: every input about them is one transaction.

use super::{Applied, Cx, Result};
use crate::model::report::Reply;
use crate::model::workspace::{WorkspaceInput, WorkspaceReply};
use crate::state::Write;

mod adopt;
mod append;
mod clear;
mod compact;
mod create;
mod delete;
mod folders;
mod fork;
mod lease;
mod locate;
mod purge;
mod rename;
mod rows;
mod session;
mod switch;
mod take_in;
pub mod view;

pub use locate::{Located, Relations, ensure, locate, relations};
pub(super) use locate::{free_key, happened, stored};
pub(super) use purge::{go_on as go_on_purging, sweep as sweep_trash};
pub use session::refused_as_given;
pub(super) use take_in::sweep as sweep_intakes;

/// Carries out an input about workspaces.
pub(super) fn workspace(cx: &Cx<'_>, txn: &mut Write<'_>, input: &WorkspaceInput) -> Result<Applied> {
    let done = match input {
        WorkspaceInput::Adopt(sight, from) => adopt::adopt(cx, txn, sight, from)?,
        WorkspaceInput::Session(command) => return session::session(cx, txn, command),
        WorkspaceInput::TakeIn(piece) => return take_in::take_in(cx, txn, piece),
        WorkspaceInput::Refuse(refused) => take_in::refuse(cx, txn, refused).map(|()| Ok(WorkspaceReply::Noted))?,
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
        WorkspaceInput::TakeIn(_) => true,
        WorkspaceInput::Adopt(..) | WorkspaceInput::Folders(_) | WorkspaceInput::Refuse(_) => false,
        WorkspaceInput::Session(command) => session::is_new_work(command),
    }
}

#[cfg(test)]
mod tests;
