//! Operator mutes by thread name, stored in an agent's session state, which its programs share. A name may belong to a
//! thread outside of Hearth's chats, for example in a mailbox that these programs read.

use crate::Result;
use crate::entities::change;
use crate::entities::change::ChangeResult;
use crate::model::entity::Folder;
use crate::model::group::FieldName;
use crate::model::report::Action;
use crate::rows::agents;
use crate::state_file::own;
use crate::state_file::own::Unmutable;
use crate::tx::Tx;

/// Mutes the thread with this name.
pub(crate) fn mute(tx: &mut Tx<'_, '_>, folder: &Folder, name: &str, note: Option<&str>) -> Result<ChangeResult> {
    let Some((agent, _)) = agents::find(tx, folder)? else { return Ok(Err(agents::missing(folder))) };
    let file = format!("session-state.json of {folder}");
    Ok(match own::mute(tx, agent, &FieldName::of(name), note)? {
        Ok(action) => Ok(vec![change::report(entity(folder, name), action)]),
        Err(Unmutable::Foreign) => {
            Err(format!("`muted_threads` in {file} is no object, and is left as it is: mend the file"))
        }
        Err(Unmutable::Full) => Err(format!("{file} has as many fields as are read: remove mutes that are over")),
    })
}

/// Unmutes the thread with this name.
pub(crate) fn unmute(tx: &mut Tx<'_, '_>, folder: &Folder, name: &str) -> Result<ChangeResult> {
    let Some((agent, _)) = agents::find(tx, folder)? else { return Ok(Err(agents::missing(folder))) };
    // A name that is not valid text is listed in its escaped form.
    for field in [FieldName::of(name), FieldName::escaped(name.to_owned())] {
        if own::unmute(tx, agent, &field)? {
            return Ok(Ok(vec![change::report(entity(folder, name), Action::Removed)]));
        }
    }
    Ok(Err(format!("{name} is not muted for {folder}; `hearth mutes list` shows what is")))
}

/// How reports name a mute.
pub(crate) fn entity(folder: &Folder, name: &str) -> String {
    format!("mute {name} of {folder}")
}
