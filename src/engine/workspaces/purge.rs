//! Sessions go for good: when somebody says so, or when they were in the trash for long enough. It is done in pieces; one
//! that is being removed lies in the trash since the beginning of time, so that every sweep goes on with it.

use super::super::{Cx, Result};
use super::rows::{self, Found, Outcome};
use super::{delete, switch};
use crate::model::effect::Effect;
use crate::model::id::SessionId;
use crate::model::input::Continuation;
use crate::model::session::{Base, Session};
use crate::model::session_command::{Guard, SessionOutcome};
use crate::model::time::Timestamp;
use crate::state::Write;

/// In the trash since then: is being removed.
pub(super) const UNDER_WAY: Timestamp = Timestamp::from_millis(0);

/// Removes a session, from the trash or not, unless somebody works on it.
pub(super) fn purge(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, guard): (SessionId, Guard),
    effects: &mut Vec<Effect>,
) -> Outcome<(Found, SessionOutcome)> {
    let before = rows::any(cx, txn, id)?;
    delete::protect(cx, txn, &before, guard)?;
    switch::leave(cx, txn, &before)?;
    cx.db.leases.delete(txn, &id)?;
    let mut found = before.clone();
    found.row.deleted = Some(UNDER_WAY);
    rows::save(cx, txn, &before, &found)?;
    let more = piece(cx, txn, id, cx.policy.rows_per_input / 4)?;
    if more {
        effects.push(Effect::Continue(Continuation::PurgeSession(id)));
    }
    Ok((before, SessionOutcome::Purged { more }))
}

/// Goes on removing a session.
pub(in super::super) fn go_on(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: SessionId,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    if piece(cx, txn, id, cx.policy.rows_per_input / 4)? {
        effects.push(Effect::Continue(Continuation::PurgeSession(id)));
    }
    Ok(())
}

/// Removes a little of what was in the trash for long enough; how many sessions it looked at.
pub(in super::super) fn sweep(cx: &Cx<'_>, txn: &mut Write<'_>) -> Result<usize> {
    let end = cx.now.wall.minus(cx.policy.trash_lifetime);
    let mut done = 0;
    while done < SESSIONS_PER_SWEEP {
        let Some(id) = delete::due(cx, txn, end)? else { break };
        done += 1;
        begin(cx, txn, id)?;
        if piece(cx, txn, id, cx.policy.retention_rows)? {
            break;
        }
    }
    Ok(done)
}

const SESSIONS_PER_SWEEP: usize = 10;

/// From now on it cannot be taken out of the trash any more.
fn begin(cx: &Cx<'_>, txn: &mut Write<'_>, id: SessionId) -> Result<()> {
    let workspace = cx.db.sessions_by_id.require(txn, &id)?;
    let Session::Workspace(row) = cx.db.sessions.require(txn, &(workspace.0, workspace.1, id))? else { return Ok(()) };
    if row.deleted == Some(UNDER_WAY) {
        return Ok(());
    }
    let before = Found { workspace, id, row: *row };
    let mut found = before.clone();
    found.row.deleted = Some(UNDER_WAY);
    rows::save(cx, txn, &before, &found)
}

/// Removes some rows of a session; whether there are more.
fn piece(cx: &Cx<'_>, txn: &mut Write<'_>, id: SessionId, limit: usize) -> Result<bool> {
    let Some(workspace) = cx.db.sessions_by_id.get(txn, &id)? else { return Ok(false) };
    let Session::Workspace(row) = cx.db.sessions.require(txn, &(workspace.0, workspace.1, id))? else {
        return Ok(false);
    };
    let found = Found { workspace, id, row: *row };
    if let Some(((_, child), ())) = cx.db.sessions_by_base.first_in(txn, &id)? {
        bequeath(cx, txn, child, limit)?;
        return Ok(true);
    }
    if let Some(((_, child, number), ())) = cx.db.revisions_by_base.first_in(txn, &id)? {
        bequeath_earlier(cx, txn, (child, number), limit)?;
        return Ok(true);
    }
    let records = cx.db.records.collect_prefix(txn, &id, limit)?;
    for (key, _) in &records {
        cx.db.records.delete(txn, key)?;
    }
    let left = limit.saturating_sub(records.len());
    let revisions = cx.db.revisions.collect_prefix(txn, &id, left)?;
    for (key, revision) in &revisions {
        if let Some(base) = revision.base {
            cx.db.revisions_by_base.delete(txn, &(base.session, id, key.1))?;
        }
        cx.db.revisions.delete(txn, key)?;
    }
    if left > revisions.len() {
        rows::remove(cx, txn, &found)?;
        return Ok(false);
    }
    Ok(true)
}

/// Gives a fork its own copies of what it shares with a session that goes: some records, the last ones first, so that what
/// it has of its own is always without a gap.
fn bequeath(cx: &Cx<'_>, txn: &mut Write<'_>, child: SessionId, limit: usize) -> Result<()> {
    let workspace = cx.db.sessions_by_id.require(txn, &child)?;
    let Session::Workspace(row) = cx.db.sessions.require(txn, &(workspace.0, workspace.1, child))? else {
        return Ok(());
    };
    let before = Found { workspace, id: child, row: *row };
    let mut found = before.clone();
    if let Some(base) = found.row.base {
        found.row.base = pass_on(cx, txn, (child, found.row.revision), base, limit)?;
    }
    rows::save(cx, txn, &before, &found)
}

fn bequeath_earlier(cx: &Cx<'_>, txn: &mut Write<'_>, key: (SessionId, u32), limit: usize) -> Result<()> {
    let mut row = cx.db.revisions.require(txn, &key)?;
    let Some(base) = row.base else { return Ok(()) };
    row.base = pass_on(cx, txn, key, base, limit)?;
    if row.base.map(|base| base.session) != Some(base.session) {
        cx.db.revisions_by_base.delete(txn, &(base.session, key.0, key.1))?;
        if let Some(base) = row.base {
            cx.db.revisions_by_base.put(txn, &(base.session, key.0, key.1), &())?;
        }
    }
    cx.db.revisions.put(txn, &key, &row)
}

/// Copies some of the records that a revision begins with into it; what it begins with then.
fn pass_on(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (child, revision): (SessionId, u32),
    base: Base,
    limit: usize,
) -> Result<Option<Base>> {
    let parent = super::view::revision(cx.db, txn, base.session, base.revision)?.and_then(|cut| cut.base);
    let begin = parent.map_or(0, |parent| parent.upto).min(base.upto);
    let many = u64::try_from(limit).unwrap_or(u64::MAX).min(base.upto - begin);
    let upto = base.upto - many;
    let range = (base.session, base.revision, upto.saturating_add(1))..=(base.session, base.revision, base.upto);
    for ((_, _, number), record) in cx.db.records.collect_range(txn, range, limit)? {
        cx.db.records.put(txn, &(child, revision, number), &record)?;
    }
    Ok(match parent {
        _ if upto > begin => Some(Base { upto, ..base }),
        Some(parent) if begin > 0 => Some(Base { upto: begin, ..parent }),
        _ => None,
    })
}
