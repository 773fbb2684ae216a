//! Purges sessions: by command, or when their time in the trash is over. A purge is done in pieces. A session that is
//! being purged has the oldest possible time in the trash, so every sweep continues it.

use crate::Result;
use crate::model::effect::Effect;
use crate::model::id::SessionId;
use crate::model::input::Continuation;
use crate::model::session::{Base, Session};
use crate::model::session_command::{Guard, SessionOutcome};
use crate::model::time::Timestamp;
use crate::state::{BaseKey, RecordKey, RevisionBaseKey, RevisionKey, SessionKey};
use crate::tx::Tx;
use crate::workspaces::rows::{Outcome, StoredSession};
use crate::workspaces::{delete, rows, switch, view};

/// The time in the trash that marks a session as being purged.
pub(crate) const UNDER_WAY: Timestamp = Timestamp::from_millis(0);

/// Purges a session, in the trash or not, unless a process holds it.
pub(crate) fn purge(tx: &mut Tx<'_, '_>, id: SessionId, guard: Guard) -> Outcome<(StoredSession, SessionOutcome)> {
    let before = rows::any(tx, id)?;
    delete::protect(tx, &before, guard)?;
    switch::leave(tx, &before)?;
    tx.db.leases.delete(tx, &id)?;
    let mut found = before.clone();
    found.row.deleted = Some(UNDER_WAY);
    rows::save(tx, &before, &found)?;
    let more = piece(tx, id, tx.policy.rows_per_input / 4)?;
    if more {
        tx.effects.push(Effect::Continue(Continuation::PurgeSession(id)));
    }
    Ok((before, SessionOutcome::Purged { more }))
}

/// Continues to purge a session.
pub(crate) fn go_on(tx: &mut Tx<'_, '_>, id: SessionId) -> Result<()> {
    if piece(tx, id, tx.policy.rows_per_input / 4)? {
        tx.effects.push(Effect::Continue(Continuation::PurgeSession(id)));
    }
    Ok(())
}

/// Purges some sessions whose time in the trash is over. Returns how many it examined.
pub(crate) fn sweep(tx: &mut Tx<'_, '_>) -> Result<usize> {
    let end = tx.now.wall.minus(tx.policy.trash_lifetime);
    let mut done = 0;
    while done < SESSIONS_PER_SWEEP {
        let Some(id) = delete::due(tx, end)? else { break };
        done += 1;
        begin(tx, id)?;
        if piece(tx, id, tx.policy.retention_rows)? {
            break;
        }
    }
    Ok(done)
}

const SESSIONS_PER_SWEEP: usize = 10;

/// Marks a session as being purged. It cannot be restored any more.
fn begin(tx: &mut Tx<'_, '_>, id: SessionId) -> Result<()> {
    let workspace = tx.db.sessions_by_id.require(tx, &id)?;
    let Session::Workspace(row) = tx.db.sessions.require(tx, &SessionKey { workspace, session: id })? else {
        return Ok(());
    };
    if row.deleted == Some(UNDER_WAY) {
        return Ok(());
    }
    let before = StoredSession { workspace, id, row: *row };
    let mut found = before.clone();
    found.row.deleted = Some(UNDER_WAY);
    rows::save(tx, &before, &found)
}

/// Removes some rows of a session. Returns whether there are more.
fn piece(tx: &mut Tx<'_, '_>, id: SessionId, limit: usize) -> Result<bool> {
    let Some(workspace) = tx.db.sessions_by_id.get(tx, &id)? else { return Ok(false) };
    let Session::Workspace(row) = tx.db.sessions.require(tx, &SessionKey { workspace, session: id })? else {
        return Ok(false);
    };
    let found = StoredSession { workspace, id, row: *row };
    if let Some((BaseKey { child, .. }, ())) = tx.db.sessions_by_base.first_in(tx, &id)? {
        bequeath(tx, child, limit)?;
        return Ok(true);
    }
    if let Some((RevisionBaseKey { child, .. }, ())) = tx.db.revisions_by_base.first_in(tx, &id)? {
        bequeath_earlier(tx, child, limit)?;
        return Ok(true);
    }
    let records = tx.db.records.collect_prefix(tx, &id, limit)?;
    for (key, _) in &records {
        tx.db.records.delete(tx, key)?;
    }
    let left = limit.saturating_sub(records.len());
    let revisions = tx.db.revisions.collect_prefix(tx, &id, left)?;
    for (key, _) in &revisions {
        tx.db.revisions.delete(tx, key)?;
    }
    if left > revisions.len() {
        rows::remove(tx, &found)?;
        return Ok(false);
    }
    Ok(true)
}

/// Copies some of the records that a fork shares with a purged session into the fork, last ones first, so that the
/// fork's own records never have a gap.
fn bequeath(tx: &mut Tx<'_, '_>, child: SessionId, limit: usize) -> Result<()> {
    let workspace = tx.db.sessions_by_id.require(tx, &child)?;
    let Session::Workspace(row) = tx.db.sessions.require(tx, &SessionKey { workspace, session: child })? else {
        return Ok(());
    };
    let before = StoredSession { workspace, id: child, row: *row };
    let mut found = before.clone();
    if let Some(base) = found.row.base {
        let child = RevisionKey { session: child, revision: found.row.revision };
        found.row.base = pass_on(tx, child, base, limit)?;
    }
    rows::save(tx, &before, &found)
}

fn bequeath_earlier(tx: &mut Tx<'_, '_>, key: RevisionKey, limit: usize) -> Result<()> {
    let mut row = tx.db.revisions.require(tx, &key)?;
    let Some(base) = row.base else { return Ok(()) };
    row.base = pass_on(tx, key, base, limit)?;
    tx.db.revisions.put(tx, &key, &row)
}

/// Copies some of the records at the end of a revision's base into the revision. Returns its new base.
fn pass_on(tx: &mut Tx<'_, '_>, child: RevisionKey, base: Base, limit: usize) -> Result<Option<Base>> {
    let parent = view::revision(tx.db, tx, base.session, base.revision)?.and_then(|cut| cut.base);
    let begin = parent.map_or(0, |parent| parent.upto).min(base.upto);
    let many = u64::try_from(limit).unwrap_or(u64::MAX).min(base.upto - begin);
    let upto = base.upto - many;
    let of = RevisionKey { session: base.session, revision: base.revision };
    let range = RecordKey { of, number: upto.saturating_add(1) }..=RecordKey { of, number: base.upto };
    for (RecordKey { number, .. }, record) in tx.db.records.collect_range(tx, range, limit)? {
        tx.db.records.put(tx, &RecordKey { of: child, number }, &record)?;
    }
    Ok(match parent {
        _ if upto > begin => Some(Base { upto, ..base }),
        Some(parent) if begin > 0 => Some(Base { upto: begin, ..parent }),
        _ => None,
    })
}
