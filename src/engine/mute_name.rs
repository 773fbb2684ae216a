//! Threads that an operator mutes, or does not, by the name that an agent's programs have for them, in the session state
//! that they share. So a thread may be named that is in none of Hearth's chats, like one of a mailbox that they read.

use super::configure::{Made, report};
use super::group::Unmutable;
use super::{Cx, Result, agents, group};
use crate::model::effect::Effect;
use crate::model::entity::Folder;
use crate::model::group::FieldName;
use crate::model::report::Action;
use crate::state::Write;

/// Mutes a thread of this name.
pub(super) fn mute(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (folder, name, note): (&Folder, &str, Option<&str>),
    effects: &mut Vec<Effect>,
) -> Result<Made> {
    let Some((agent, _)) = agents::find(cx, txn, folder)? else { return Ok(Err(agents::missing(folder))) };
    let file = format!("session-state.json of {folder}");
    Ok(match group::mute(cx, txn, (agent, &FieldName::of(name), note), effects)? {
        Ok(action) => Ok(vec![report(entity(folder, name), action)]),
        Err(Unmutable::Foreign) => {
            Err(format!("`muted_threads` in {file} is no object, and is left as it is: mend the file"))
        }
        Err(Unmutable::Full) => Err(format!("{file} has as many fields as are read: remove mutes that are over")),
    })
}

/// Lets a thread of this name be heard again.
pub(super) fn unmute(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (folder, name): (&Folder, &str),
    effects: &mut Vec<Effect>,
) -> Result<Made> {
    let Some((agent, _)) = agents::find(cx, txn, folder)? else { return Ok(Err(agents::missing(folder))) };
    // One that is no text is shown as it stands in the file.
    for field in [FieldName::of(name), FieldName::escaped(name.to_owned())] {
        if group::unmute(cx, txn, (agent, &field), effects)? {
            return Ok(Ok(vec![report(entity(folder, name), Action::Removed)]));
        }
    }
    Ok(Err(format!("{name} is not muted for {folder}; `hearth mutes list` shows what is")))
}

/// An entry of the file, as reports call it.
pub(super) fn entity(folder: &Folder, name: &str) -> String {
    format!("mute {name} of {folder}")
}
