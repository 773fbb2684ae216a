//! Handles looks at a session-state file: merges it, and exports it if the rows differ.

use crate::Result;
use crate::model::content::{BlobId, RawJson};
use crate::model::group::{
    FieldName, SeenId, StateContent, StateDocument, StateExport, StateField, StateFile, StatePart, StateRead,
    StateTrouble,
};
use crate::model::id::AgentId;
use crate::state::{ForeignKey, SeenIdKey, StateFieldKey};
use crate::state_file::merge::VERSION;
use crate::state_file::{merge, render};
use crate::tx::Tx;

/// Maximum number of names of copies that are remembered. The copies stay in the folder.
const QUARANTINED_MAX: usize = 20;

/// The version of files that Hearth writes.
const VERSION_WRITTEN: &str = "1";

/// Merges what was read. Returns what to write, if anything.
pub(crate) fn read(tx: &mut Tx<'_, '_>, agent: AgentId, read: &StateRead) -> Result<Option<StateExport>> {
    let before = tx.db.state_files.get(tx, &agent)?;
    if before.is_none() && matches!(read.content, StateContent::Absent | StateContent::Same) {
        return Ok(None);
    }
    let mut file = before.unwrap_or_else(|| unseen(tx));
    let mut ids_differ = file.dirty;
    let ours = read.digest.is_some() && read.digest == file.writing;
    let mut trouble = None;
    match &read.content {
        StateContent::Same => settle_known(tx, agent, ours)?,
        StateContent::Absent => {
            merge::take_in(tx, agent, &mut file, None)?;
            ids_differ = true;
        }
        StateContent::Unreadable(why, copy) => {
            if !copy.is_empty() && file.quarantined.last() != Some(copy) {
                file.quarantined.push(copy.clone());
                let many = file.quarantined.len().saturating_sub(QUARANTINED_MAX);
                file.quarantined.drain(..many);
            }
            merge::take_in(tx, agent, &mut file, None)?;
            ids_differ = true;
            trouble = Some(StateTrouble::Unreadable(why.clone()));
        }
        StateContent::Fields(theirs) => ids_differ = take_in(tx, agent, &mut file, theirs)?,
        StateContent::Refused(why) => {
            (file.digest, file.looked, file.trouble) = (read.digest.clone(), tx.now.wall, Some(why.clone()));
            put(tx, agent, &file)?;
            return Ok(None);
        }
    }
    ids_differ |= trim(tx, agent)?;
    let has_fields = tx.db.state_fields.first_in(tx, &agent)?.is_some();
    file.dirty = has_fields && (ids_differ || fields_differ(tx, agent)?);
    (file.digest, file.looked, file.writing) = (read.digest.clone(), tx.now.wall, None);
    file.trouble = trouble.filter(|_| !file.dirty);
    let export = if file.dirty { Some(export(tx, agent, &mut file)?) } else { None };
    put(tx, agent, &file)?;
    Ok(export)
}

/// Records that the file has this content now.
pub(crate) fn written(tx: &mut Tx<'_, '_>, agent: AgentId, digest: &BlobId) -> Result<()> {
    let Some(mut file) = tx.db.state_files.get(tx, &agent)? else { return Ok(()) };
    if file.writing.as_ref() != Some(digest) {
        return Ok(());
    }
    settle_known(tx, agent, true)?;
    (file.digest, file.writing, file.looked, file.trouble) = (Some(digest.clone()), None, tx.now.wall, None);
    // A field may have changed while the file was written.
    file.dirty = render::render(tx, agent)?.digest != *digest;
    put(tx, agent, &file)
}

/// Records why the file is left alone for now.
pub(crate) fn trouble(tx: &mut Tx<'_, '_>, agent: AgentId, trouble: &StateTrouble) -> Result<()> {
    let mut file = tx.db.state_files.get(tx, &agent)?.unwrap_or_else(|| unseen(tx));
    if file.trouble.as_ref() == Some(trouble) {
        return Ok(());
    }
    file.trouble = Some(trouble.clone());
    put(tx, agent, &file)
}

/// Forgets copies that do not exist any more.
pub(crate) fn forget_copies(tx: &mut Tx<'_, '_>, agent: AgentId, gone: &[String]) -> Result<()> {
    let Some(mut file) = tx.db.state_files.get(tx, &agent)? else { return Ok(()) };
    let before = file.quarantined.len();
    file.quarantined.retain(|copy| !gone.contains(copy));
    if file.quarantined.len() == before { Ok(()) } else { put(tx, agent, &file) }
}

/// Stores the row about a file.
pub(crate) fn put(tx: &mut Tx<'_, '_>, agent: AgentId, file: &StateFile) -> Result<()> {
    tx.db.state_files.put(tx, &agent, file)
}

/// The row of a file that was never examined.
pub(crate) fn unseen(tx: &Tx<'_, '_>) -> StateFile {
    StateFile {
        digest: None,
        writing: None,
        looked: tx.now.wall,
        dirty: false,
        trouble: None,
        quarantined: Vec::new(),
        last_position: 0,
    }
}

/// Ensures that the file has a field; creates it if it is missing.
pub(crate) fn ensure_top(
    tx: &mut Tx<'_, '_>,
    agent: AgentId,
    file: &mut StateFile,
    name: &str,
    value: &str,
) -> Result<StateField> {
    let key = |name: &FieldName| StateFieldKey { agent, part: StatePart::Top, name: ForeignKey::of(name) };
    let mut wanted = vec![(name, value)];
    if tx.db.state_fields.first_in(tx, &agent)?.is_none() {
        wanted.insert(0, (VERSION, VERSION_WRITTEN));
    }
    for (name, value) in wanted {
        let name = FieldName::of(name);
        let there = tx.db.state_fields.get(tx, &key(&name))?;
        if there.as_ref().is_some_and(|row| row.value.is_some()) {
            continue;
        }
        let known = there.map_or_else(|| vec![None], |row| row.known);
        let value = Some(RawJson::trusted(value.to_owned()));
        let position = merge::next(file);
        let row = StateField { name: name.clone(), value, known, position, changed: tx.now.wall };
        tx.db.state_fields.put(tx, &key(&name), &row)?;
    }
    tx.db.state_fields.require(tx, &key(&FieldName::of(name)))
}

/// Adds new ids. Returns whether there were any.
pub(crate) fn see(tx: &mut Tx<'_, '_>, agent: AgentId, file: &mut StateFile, ids: &[String]) -> Result<bool> {
    let mut any = false;
    for id in ids {
        let key = ForeignKey::of(id);
        if tx.db.seen_ids.contains(tx, &SeenIdKey { agent, id: key.clone() })? {
            continue;
        }
        let seen = SeenId { id: id.clone(), position: merge::next(file), first: tx.now.wall };
        tx.db.seen_ids.put(tx, &SeenIdKey { agent, id: key }, &seen)?;
        any = true;
    }
    Ok(any)
}

fn take_in(tx: &mut Tx<'_, '_>, agent: AgentId, file: &mut StateFile, theirs: &StateDocument) -> Result<bool> {
    see(tx, agent, file, &theirs.new_ids)?;
    merge::take_in(tx, agent, file, Some(theirs))?;
    // All ids of the file are in the store now, so any more in the store are missing in the file. Their field exists,
    // because recording an id creates it and it is never removed.
    let ours = tx.db.seen_ids_by_position.collect_prefix(tx, &agent, usize::MAX)?.len();
    Ok(u64::try_from(ours).unwrap_or(u64::MAX) != theirs.ids)
}

/// Removes ids outside of the window, oldest first. Returns whether there were any. While the clock has just jumped
/// ahead, no id counts as too old.
pub(crate) fn trim(tx: &mut Tx<'_, '_>, agent: AgentId) -> Result<bool> {
    let since = tx.now.wall.minus(tx.policy.seen_ids_kept);
    let ids = tx.db.seen_ids_by_position.collect_prefix(tx, &agent, usize::MAX)?;
    let many = ids.len().saturating_sub(tx.policy.seen_ids_max);
    let mut any = false;
    for (place, (_, key)) in ids.into_iter().enumerate().take(tx.policy.rows_per_input / 2) {
        if place >= many
            && (!tx.cx.steady || tx.db.seen_ids.require(tx, &SeenIdKey { agent, id: key.clone() })?.first >= since)
        {
            break;
        }
        tx.db.seen_ids.delete(tx, &SeenIdKey { agent, id: key })?;
        any = true;
    }
    Ok(any)
}

pub(crate) fn fields(tx: &Tx<'_, '_>, agent: AgentId) -> Result<Vec<(StatePart, StateField)>> {
    let rows = tx.db.state_fields.collect_prefix(tx, &agent, usize::MAX)?;
    Ok(rows.into_iter().map(|(key, row)| (key.part, row)).collect())
}

fn fields_differ(tx: &Tx<'_, '_>, agent: AgentId) -> Result<bool> {
    Ok(fields(tx, agent)?.iter().any(|(_, row)| row.known.iter().any(|known| *known != row.value)))
}

/// Prepares an export. Its values are added to those the file may have from now on.
fn export(tx: &mut Tx<'_, '_>, agent: AgentId, file: &mut StateFile) -> Result<StateExport> {
    for (part, row) in fields(tx, agent)? {
        let mut sent = row.clone();
        if !sent.known.contains(&row.value) {
            sent.known.push(row.value.clone());
        }
        merge::put(tx, agent, part, &row, &sent)?;
    }
    let export = render::render(tx, agent)?;
    file.writing = Some(export.digest.clone());
    Ok(export)
}

/// Records whether the last attempt to write the file succeeded.
fn settle_known(tx: &mut Tx<'_, '_>, agent: AgentId, written: bool) -> Result<()> {
    for (part, row) in fields(tx, agent)? {
        let known = if written { row.known.last() } else { row.known.first() };
        let settled = StateField { known: vec![known.cloned().flatten()], ..row.clone() };
        merge::put(tx, agent, part, &row, &settled)?;
    }
    Ok(())
}
