//! A look at a session-state file: taken in, and, where the rows say something else by then, to be written.

use super::merge::{self, VERSION};
use super::render::render;
use crate::engine::{Cx, Result};
use crate::model::content::{BlobId, RawJson};
use crate::model::group::{
    FieldName, SeenId, StateContent, StateDocument, StateExport, StateField, StateFile, StatePart, StateRead,
    StateTrouble,
};
use crate::model::id::AgentId;
use crate::state::{ForeignKey, Read, Write};

/// Names of copies that are remembered; the copies stay in the folder.
const QUARANTINED_MAX: usize = 20;
/// The version of files that Hearth writes.
const VERSION_WRITTEN: &str = "1";

/// Takes in what was read, and says what is to be written, if anything.
pub(super) fn read(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, read: &StateRead) -> Result<Option<StateExport>> {
    let before = cx.db.state_files.get(txn, &agent)?;
    if before.is_none() && matches!(read.content, StateContent::Absent | StateContent::Same) {
        return Ok(None);
    }
    let mut file = before.unwrap_or_else(|| unseen(cx));
    let mut ids_differ = file.dirty;
    let ours = read.digest.is_some() && read.digest == file.writing;
    let mut trouble = None;
    match &read.content {
        StateContent::Same => settle_known(cx, txn, agent, ours)?,
        StateContent::Absent => {
            merge::take_in(cx, txn, (agent, &mut file), None)?;
            ids_differ = true;
        }
        StateContent::Unreadable(why, copy) => {
            if !copy.is_empty() && file.quarantined.last() != Some(copy) {
                file.quarantined.push(copy.clone());
                let many = file.quarantined.len().saturating_sub(QUARANTINED_MAX);
                file.quarantined.drain(..many);
            }
            merge::take_in(cx, txn, (agent, &mut file), None)?;
            ids_differ = true;
            trouble = Some(StateTrouble::Unreadable(why.clone()));
        }
        StateContent::Fields(theirs) => ids_differ = take_in(cx, txn, (agent, &mut file), theirs)?,
        StateContent::Refused(why) => {
            (file.digest, file.looked, file.trouble) = (read.digest.clone(), cx.now.wall, Some(why.clone()));
            put(cx, txn, agent, &file)?;
            return Ok(None);
        }
    }
    ids_differ |= trim(cx, txn, agent)?;
    let has_fields = cx.db.state_fields.first_in(txn, &agent)?.is_some();
    file.dirty = has_fields && (ids_differ || fields_differ(cx, txn, agent)?);
    (file.digest, file.looked, file.writing) = (read.digest.clone(), cx.now.wall, None);
    file.trouble = trouble.filter(|_| !file.dirty);
    let export = if file.dirty { Some(export(cx, txn, (agent, &mut file))?) } else { None };
    put(cx, txn, agent, &file)?;
    Ok(export)
}

/// Notes that the file has these bytes now.
pub(super) fn written(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, digest: &BlobId) -> Result<()> {
    let Some(mut file) = cx.db.state_files.get(txn, &agent)? else { return Ok(()) };
    if file.writing.as_ref() != Some(digest) {
        return Ok(());
    }
    settle_known(cx, txn, agent, true)?;
    (file.digest, file.writing, file.looked, file.trouble) = (Some(digest.clone()), None, cx.now.wall, None);
    // Somebody may have changed a field while the file was written.
    file.dirty = render(cx, txn, agent)?.digest != *digest;
    put(cx, txn, agent, &file)
}

/// Notes why the file is left alone for now.
pub(super) fn trouble(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, trouble: &StateTrouble) -> Result<()> {
    let mut file = cx.db.state_files.get(txn, &agent)?.unwrap_or_else(|| unseen(cx));
    if file.trouble.as_ref() == Some(trouble) {
        return Ok(());
    }
    file.trouble = Some(trouble.clone());
    put(cx, txn, agent, &file)
}

/// Forgets copies that are not there any more.
pub(super) fn forget_copies(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, gone: &[String]) -> Result<()> {
    let Some(mut file) = cx.db.state_files.get(txn, &agent)? else { return Ok(()) };
    let before = file.quarantined.len();
    file.quarantined.retain(|copy| !gone.contains(copy));
    if file.quarantined.len() == before { Ok(()) } else { put(cx, txn, agent, &file) }
}

/// Stores what is known of a file, and that it has to be written.
pub(super) fn put(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, file: &StateFile) -> Result<()> {
    if file.dirty {
        cx.db.state_files_dirty.put(txn, &agent, &())?;
    } else {
        cx.db.state_files_dirty.delete(txn, &agent)?;
    }
    cx.db.state_files.put(txn, &agent, file)
}

/// A file that nobody looked at yet.
pub(super) fn unseen(cx: &Cx<'_>) -> StateFile {
    StateFile {
        digest: None,
        writing: None,
        looked: cx.now.wall,
        dirty: false,
        trouble: None,
        quarantined: Vec::new(),
        last_position: 0,
    }
}

/// Sees to it that the file has a field; one that it lacked is made.
pub(super) fn ensure_top(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, file): (AgentId, &mut StateFile),
    (name, value): (&str, &str),
) -> Result<StateField> {
    let key = |name: &FieldName| (agent, StatePart::Top, ForeignKey::of(name));
    let mut wanted = vec![(name, value)];
    if cx.db.state_fields.first_in(txn, &agent)?.is_none() {
        wanted.insert(0, (VERSION, VERSION_WRITTEN));
    }
    for (name, value) in wanted {
        let name = FieldName::of(name);
        let there = cx.db.state_fields.get(txn, &key(&name))?;
        if there.as_ref().is_some_and(|row| row.value.is_some()) {
            continue;
        }
        let known = there.map_or_else(|| vec![None], |row| row.known);
        let value = Some(RawJson::trusted(value.to_owned()));
        let position = merge::next(file);
        let row = StateField { name: name.clone(), value, known, position, changed: cx.now.wall };
        cx.db.state_fields.put(txn, &key(&name), &row)?;
    }
    cx.db.state_fields.require(txn, &key(&FieldName::of(name)))
}

/// Adds ids that are new; whether there were any.
pub(super) fn see(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, file): (AgentId, &mut StateFile),
    ids: &[String],
) -> Result<bool> {
    let mut any = false;
    for id in ids {
        let key = ForeignKey::of(id);
        if cx.db.seen_ids.contains(txn, &(agent, key.clone()))? {
            continue;
        }
        let seen = SeenId { id: id.clone(), position: merge::next(file), first: cx.now.wall };
        cx.db.seen_ids_by_position.put(txn, &(agent, seen.position), &key)?;
        cx.db.seen_ids.put(txn, &(agent, key), &seen)?;
        any = true;
    }
    Ok(any)
}

fn take_in(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, file): (AgentId, &mut StateFile),
    theirs: &StateDocument,
) -> Result<bool> {
    see(cx, txn, (agent, file), &theirs.new_ids)?;
    merge::take_in(cx, txn, (agent, file), Some(theirs))?;
    // All of theirs are in the store by now: more in the store are such that the file lacks. Their field is there: whoever
    // noted an id made it, and it is never removed.
    let ours = cx.db.seen_ids_by_position.collect_prefix(txn, &agent, usize::MAX)?.len();
    Ok(u64::try_from(ours).unwrap_or(u64::MAX) != theirs.ids)
}

/// Removes ids beyond the window, the oldest first; whether there were any. None is old by a clock that has just jumped
/// ahead.
pub(super) fn trim(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId) -> Result<bool> {
    let since = cx.now.wall.minus(cx.policy.seen_ids_kept);
    let ids = cx.db.seen_ids_by_position.collect_prefix(txn, &agent, usize::MAX)?;
    let many = ids.len().saturating_sub(cx.policy.seen_ids_max);
    let mut any = false;
    for (place, ((_, position), key)) in ids.into_iter().enumerate().take(cx.policy.rows_per_input / 2) {
        if place >= many && (!cx.steady || cx.db.seen_ids.require(txn, &(agent, key.clone()))?.first >= since) {
            break;
        }
        cx.db.seen_ids_by_position.delete(txn, &(agent, position))?;
        cx.db.seen_ids.delete(txn, &(agent, key))?;
        any = true;
    }
    Ok(any)
}

pub(super) fn fields(cx: &Cx<'_>, txn: &Read<'_>, agent: AgentId) -> Result<Vec<(StatePart, StateField)>> {
    let rows = cx.db.state_fields.collect_prefix(txn, &agent, usize::MAX)?;
    Ok(rows.into_iter().map(|((_, part, _), row)| (part, row)).collect())
}

fn fields_differ(cx: &Cx<'_>, txn: &Read<'_>, agent: AgentId) -> Result<bool> {
    Ok(fields(cx, txn, agent)?.iter().any(|(_, row)| row.known.iter().any(|known| *known != row.value)))
}

/// What is about to be written is one of the things that the file may have from now on.
fn export(cx: &Cx<'_>, txn: &mut Write<'_>, (agent, file): (AgentId, &mut StateFile)) -> Result<StateExport> {
    for (part, row) in fields(cx, txn, agent)? {
        let mut sent = row.clone();
        if !sent.known.contains(&row.value) {
            sent.known.push(row.value.clone());
        }
        merge::put(cx, txn, (agent, part), &row, &sent)?;
    }
    let export = render(cx, txn, agent)?;
    file.writing = Some(export.digest.clone());
    Ok(export)
}

/// It is known by now whether the file was written when that was last tried.
fn settle_known(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, written: bool) -> Result<()> {
    for (part, row) in fields(cx, txn, agent)? {
        let known = if written { row.known.last() } else { row.known.first() };
        let settled = StateField { known: vec![known.cloned().flatten()], ..row.clone() };
        merge::put(cx, txn, (agent, part), &row, &settled)?;
    }
    Ok(())
}
