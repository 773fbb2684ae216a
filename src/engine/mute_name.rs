//! Threads that an operator mutes, or does not, by the name that an agent's programs have for them, in the session state
//! that they share. So a thread may be named that is in none of Hearth's chats, like one of a mailbox that they read.

use super::configure::{Made, report};
use super::{Cx, Result, agents, group};
use crate::model::effect::Effect;
use crate::model::entity::Folder;
use crate::model::group::FieldName;
use crate::model::report::Action;
use crate::state::Write;

/// Mutes a thread of this name. What is noted with it stays, if nothing is said of that.
pub(super) fn mute(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (folder, name, note): (&Folder, &FieldName, Option<&str>),
    effects: &mut Vec<Effect>,
) -> Result<Made> {
    let Some((agent, _)) = agents::find(cx, txn, folder)? else { return Ok(Err(agents::missing(folder))) };
    let muted = group::is_muted(cx, txn, agent, name)?;
    if muted && note.is_none() {
        return Ok(Ok(vec![report(entity(folder, name), Action::Unchanged)]));
    }
    let action = if muted { Action::Updated } else { Action::Created };
    Ok(if group::mute(cx, txn, (agent, name, note), effects)? {
        Ok(vec![report(entity(folder, name), action)])
    } else {
        Err(format!(
            "`muted_threads` in session-state.json of {folder} is no object, and is left as it is: mend the file"
        ))
    })
}

/// Lets a thread of this name be heard again.
pub(super) fn unmute(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (folder, name): (&Folder, &FieldName),
    effects: &mut Vec<Effect>,
) -> Result<Made> {
    let Some((agent, _)) = agents::find(cx, txn, folder)? else { return Ok(Err(agents::missing(folder))) };
    Ok(if group::unmute(cx, txn, (agent, name), effects)? {
        Ok(vec![report(entity(folder, name), Action::Removed)])
    } else {
        Err(format!("{} is not muted for {folder}; `hearth mutes list` shows what is", name.as_str()))
    })
}

fn entity(folder: &Folder, name: &FieldName) -> String {
    format!("mute {} of {folder}", name.as_str())
}
