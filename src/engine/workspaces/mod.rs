//! Workspaces and their sessions. Each input about them is one transaction.

use crate::Result;
use crate::model::report::Reply;
use crate::model::workspace_command::{WorkspaceInput, WorkspaceReply};
use crate::tx::Tx;

pub(crate) mod adopt;
pub(crate) mod append;
pub(crate) mod clear;
pub(crate) mod compact;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod folders;
pub(crate) mod fork;
pub(crate) mod lease;
pub(crate) mod locate;
pub(crate) mod purge;
pub(crate) mod rename;
pub(crate) mod rows;
pub(crate) mod session;
pub(crate) mod switch;
pub(crate) mod take_in;
#[cfg(test)]
mod tests;
pub mod view;

pub use locate::{Located, Relations, ensure, locate, relations};
pub use session::refused_as_given;

/// Applies an input about workspaces.
pub(crate) fn workspace(tx: &mut Tx<'_, '_>, input: &WorkspaceInput) -> Result<Reply> {
    let done = match input {
        WorkspaceInput::Adopt(sight, from) => adopt::adopt(tx, sight, from)?,
        WorkspaceInput::Session(command) => return session::session(tx, command),
        WorkspaceInput::TakeIn(piece) => return take_in::take_in(tx, piece),
        WorkspaceInput::Refuse(refused) => take_in::refuse(tx, refused).map(|()| Ok(WorkspaceReply::Noted))?,
        WorkspaceInput::Folders(folders) => return folders::folders(tx, folders),
    };
    Ok(match done {
        Ok(reply) => Reply::Workspace(Box::new(reply)),
        Err(refusal) => Reply::Refused(refusal),
    })
}

/// The reply to a workspace command, or why it was refused.
pub(crate) type Outcome = std::result::Result<WorkspaceReply, crate::model::report::Refusal>;

/// Whether an input is refused while the store is full.
pub(crate) const fn is_new_work(input: &WorkspaceInput) -> bool {
    match input {
        WorkspaceInput::TakeIn(_) => true,
        WorkspaceInput::Adopt(..) | WorkspaceInput::Folders(_) | WorkspaceInput::Refuse(_) => false,
        WorkspaceInput::Session(command) => session::is_new_work(command),
    }
}
