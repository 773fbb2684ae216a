//! What holds for one thread of a chat and one agent: muted, or listened to after an engagement.

use super::configure::Made;
use super::{Cx, Result};
use crate::model::address::Address;
use crate::model::entity::Folder;
use crate::state::Write;

/// Keeps a thread from waking an agent.
pub(super) fn mute(_cx: &Cx<'_>, _txn: &mut Write<'_>, _folder: &Folder, _address: &Address) -> Result<Made> {
    Ok(Err("threads cannot be muted yet".to_owned()))
}

/// Lets a thread wake an agent again.
pub(super) fn unmute(_cx: &Cx<'_>, _txn: &mut Write<'_>, _folder: &Folder, _address: &Address) -> Result<Made> {
    Ok(Err("threads cannot be muted yet".to_owned()))
}

/// Ends that an agent goes on listening in a thread.
pub(super) fn end_sticky(_cx: &Cx<'_>, _txn: &mut Write<'_>, _folder: &Folder, _address: &Address) -> Result<Made> {
    Ok(Err("threads do not stick yet".to_owned()))
}
