//! The rows of a workspace session, kept together: whoever changes one goes through here.

use super::super::{Cx, Result};
use crate::model::id::{ChangeId, SessionId};
use crate::model::policy::Policy;
use crate::model::record::{RecordBody, SessionRecord};
use crate::model::session::{Revision, Session, SessionLabel, WorkspaceSession};
use crate::model::session_command::{Guard, SessionRefusal};
use crate::model::time::{Millis, Timestamp};
use crate::model::workspace::{Discriminator, Fingerprint, WorkspaceKey};
use crate::state::{self, Index, KeyPart, Text, Write};

/// Largest record, in bytes of what it says: the store takes a third more.
pub(super) const RECORD_BYTES_MAX: usize = 12 << 20;

/// A clock that is behind the last change by more than this is believed.
const BEHIND_MAX: Millis = Millis::minutes(24 * 60);

/// Why a transaction does not end well.
pub(super) enum Halt {
    /// What is wanted cannot be; nothing is to be changed.
    Refused(SessionRefusal),
    /// The store failed.
    Failed(state::Error),
}

impl From<SessionRefusal> for Halt {
    fn from(refusal: SessionRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl<E: Into<state::Error>> From<E> for Halt {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// What a transaction decided, or why it did not.
pub(super) type Outcome<T> = std::result::Result<T, Halt>;

/// A session of a workspace as it is in the store.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) workspace: WorkspaceKey,
    pub(super) id: SessionId,
    pub(super) row: WorkspaceSession,
}

/// A session by its id, in the trash or not.
pub(super) fn any(cx: &Cx<'_>, txn: &Write<'_>, id: SessionId) -> Outcome<Found> {
    let missing = || SessionRefusal::NotFound { session: id.to_string() };
    let workspace = cx.db.sessions_by_id.get(txn, &id)?.ok_or_else(missing)?;
    match cx.db.sessions.require(txn, &(workspace.0, workspace.1, id))? {
        Session::Workspace(row) => Ok(Found { workspace, id, row: *row }),
        Session::Chat(_) => Err(SessionRefusal::IsChat { session: id }.into()),
    }
}

/// A session by its id that is not in the trash.
pub(super) fn load(cx: &Cx<'_>, txn: &Write<'_>, id: SessionId) -> Outcome<Found> {
    let found = any(cx, txn, id)?;
    match found.row.deleted {
        None => Ok(found),
        Some(_) => Err(SessionRefusal::NotFound { session: found.row.label.to_string() }.into()),
    }
}

/// The same for a caller that changes it under conditions.
pub(super) fn guarded(cx: &Cx<'_>, txn: &Write<'_>, id: SessionId, guard: Guard) -> Outcome<Found> {
    let found = load(cx, txn, id)?;
    let lease = cx.db.leases.get(txn, &id)?;
    decide_guard(&found.row, lease.map(|lease| (lease.epoch, lease.pid)), guard)?;
    Ok(found)
}

/// Whether a change is allowed: `lease` is who holds the session, by epoch and process.
fn decide_guard(
    row: &WorkspaceSession,
    lease: Option<(u64, u32)>,
    guard: Guard,
) -> std::result::Result<(), SessionRefusal> {
    let session = || row.label.to_string();
    match (guard.epoch, lease) {
        (Some(given), Some((epoch, _))) if given == epoch => {}
        (Some(given), _) => {
            return Err(SessionRefusal::LeaseOver { session: session(), given, newest: row.lease_epoch });
        }
        (None, Some((epoch, pid))) if guard.dead != Some(epoch) => {
            return Err(SessionRefusal::Held { session: session(), pid, epoch });
        }
        (None, _) => {}
    }
    match guard.expected {
        Some(expected) if expected != row.records => {
            Err(SessionRefusal::Changed { session: session(), expected, found: row.records })
        }
        _ => Ok(()),
    }
}

/// Notes that a session changes now: it becomes the newest of its workspace. Times of a workspace do not go back, also
/// when the clock does for a while.
pub(super) fn touch(cx: &Cx<'_>, txn: &mut Write<'_>, found: &mut Found) -> Result<()> {
    let now = stamp(cx, txn, found.workspace)?;
    let order: ChangeId = cx.db.allocate(txn)?;
    (found.row.updated, found.row.committed, found.row.order) = (now, now, order.number());
    Ok(())
}

/// The time of a change in a workspace.
pub(super) fn stamp(cx: &Cx<'_>, txn: &Write<'_>, workspace: WorkspaceKey) -> Result<Timestamp> {
    let newest = cx.db.recency.collect_last(txn, &workspace, 1)?;
    Ok(decide_stamp(cx.now.wall, newest.first().map(|((_, _, (at, _), _), ())| *at)))
}

fn decide_stamp(now: Timestamp, newest: Option<Timestamp>) -> Timestamp {
    match newest {
        Some(newest) if newest >= now && newest.since(now) < BEHIND_MAX => newest.plus(Millis::new(1)),
        _ => now,
    }
}

/// Stores a session that is new.
pub(super) fn insert(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    workspace: WorkspaceKey,
    row: WorkspaceSession,
) -> Result<Found> {
    let id: SessionId = cx.db.allocate(txn)?;
    let found = Found { workspace, id, row };
    insert_as(cx, txn, &found)?;
    Ok(found)
}

/// The same under an id that was given out.
pub(super) fn insert_as(cx: &Cx<'_>, txn: &mut Write<'_>, found: &Found) -> Result<()> {
    let (id, workspace) = (found.id, found.workspace);
    cx.db.sessions_by_id.put(txn, &id, &workspace)?;
    index(cx, txn, None, Some(found))?;
    put(cx, txn, found)
}

/// Stores a session that was something else before.
pub(super) fn save(cx: &Cx<'_>, txn: &mut Write<'_>, before: &Found, after: &Found) -> Result<()> {
    index(cx, txn, Some(before), Some(after))?;
    put(cx, txn, after)
}

/// Removes a session whose records are gone.
pub(super) fn remove(cx: &Cx<'_>, txn: &mut Write<'_>, found: &Found) -> Result<()> {
    index(cx, txn, Some(found), None)?;
    cx.db.leases.delete(txn, &found.id)?;
    cx.db.sessions_by_id.delete(txn, &found.id)?;
    cx.db.sessions.delete(txn, &(found.workspace.0, found.workspace.1, found.id))?;
    Ok(())
}

fn put(cx: &Cx<'_>, txn: &mut Write<'_>, found: &Found) -> Result<()> {
    let row = Session::Workspace(Box::new(found.row.clone()));
    cx.db.sessions.put(txn, &(found.workspace.0, found.workspace.1, found.id), &row)
}

/// Brings the indexes from one state of a session to another; none is that it is not there.
fn index(cx: &Cx<'_>, txn: &mut Write<'_>, before: Option<&Found>, after: Option<&Found>) -> Result<()> {
    let db = cx.db;
    let Some(id) = after.or(before).map(|found| found.id) else { return Ok(()) };
    shift(txn, &db.recency, (before.and_then(recency), after.and_then(recency)), &())?;
    shift(txn, &db.spoken, (before.and_then(spoken), after.and_then(spoken)), &())?;
    shift(txn, &db.session_labels, (before.and_then(label), after.and_then(label)), &id)?;
    shift(txn, &db.trash, (before.and_then(trash), after.and_then(trash)), &())?;
    shift(txn, &db.sessions_by_base, (before.and_then(base), after.and_then(base)), &())
}

fn shift<K: KeyPart + PartialEq, V: KeyPart>(
    txn: &mut Write<'_>,
    index: &Index<K, V>,
    (old, new): (Option<K>, Option<K>),
    value: &V,
) -> Result<()> {
    if old == new {
        return Ok(());
    }
    if let Some(key) = old {
        index.delete(txn, &key)?;
    }
    match new {
        Some(key) => index.put(txn, &key, value),
        None => Ok(()),
    }
}

type Recency = (Fingerprint, Discriminator, (Timestamp, u64), SessionId);

fn recency(found: &Found) -> Option<Recency> {
    let place = (found.row.updated.min(found.row.committed), found.row.order);
    found.row.deleted.is_none().then_some((found.workspace.0, found.workspace.1, place, found.id))
}

fn spoken(found: &Found) -> Option<Recency> {
    recency(found).filter(|_| found.row.messages > 0)
}

type LabelKey = (Fingerprint, Discriminator, Text);

fn label(found: &Found) -> Option<LabelKey> {
    // A label is never longer than a key's text.
    label_key(found.workspace, &found.row.label).ok().filter(|_| found.row.deleted.is_none())
}

fn trash(found: &Found) -> Option<(Timestamp, SessionId)> {
    Some((found.row.deleted?, found.id))
}

fn base(found: &Found) -> Option<(SessionId, SessionId)> {
    Some((found.row.base?.session, found.id))
}

/// Under what a session is found by the id that people use.
pub(super) fn label_key(workspace: WorkspaceKey, label: &SessionLabel) -> Result<LabelKey> {
    Ok((workspace.0, workspace.1, Text::new(label.as_str())?))
}

/// The label of a new session: the one that is wanted, or one that nobody in the workspace has.
pub(super) fn choose_label(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    workspace: WorkspaceKey,
    wanted: Option<SessionLabel>,
) -> Outcome<SessionLabel> {
    if let Some(label) = wanted {
        return match cx.db.session_labels.contains(txn, &label_key(workspace, &label)?)? {
            true => Err(SessionRefusal::Exists { session: label.to_string() }.into()),
            false => Ok(label),
        };
    }
    loop {
        let number: ChangeId = cx.db.allocate(txn)?;
        let text = format!("session-{}-{}", cx.now.wall.millis(), number.number());
        // A clock before 1970 makes a sign, which is a character like any other.
        let label = SessionLabel::new(text)
            .map_err(|bad| state::Error::Exists { table: cx.db.session_labels.name(), key: bad.to_string() })?;
        if !cx.db.session_labels.contains(txn, &label_key(workspace, &label)?)? {
            return Ok(label);
        }
    }
}

/// Adds records at the end of a session's current revision. The caller saves the session.
pub(super) fn add(cx: &Cx<'_>, txn: &mut Write<'_>, found: &mut Found, records: &[SessionRecord]) -> Outcome<()> {
    check(records, cx.policy)?;
    for record in records {
        found.row.records = found.row.records.saturating_add(1);
        if matches!(record.body, RecordBody::Message { .. }) {
            found.row.messages = found.row.messages.saturating_add(1);
        }
        cx.db.records.put(txn, &(found.id, found.row.revision, found.row.records), record)?;
    }
    Ok(())
}

/// Whether records can be stored in one transaction.
pub(super) fn check(records: &[SessionRecord], policy: &Policy) -> std::result::Result<(), SessionRefusal> {
    let max = policy.rows_per_input;
    if records.len() > max {
        return Err(SessionRefusal::TooMany { given: number(records.len()), max: number(max) });
    }
    for (at, record) in (1_u64..).zip(records) {
        let bytes = size(record);
        if bytes > RECORD_BYTES_MAX {
            let max = number(RECORD_BYTES_MAX);
            return Err(SessionRefusal::TooLarge { number: at, bytes: number(bytes), max });
        }
    }
    Ok(())
}

fn size(record: &SessionRecord) -> usize {
    let extra = record.extra.as_ref().map_or(0, |extra| extra.as_str().len());
    extra.saturating_add(match &record.body {
        RecordBody::Message { blocks, usage, .. } => {
            blocks.as_str().len().saturating_add(usage.as_ref().map_or(0, |usage| usage.as_str().len()))
        }
        RecordBody::Prompt(text) => text.len(),
        RecordBody::Foreign(json) => json.as_str().len(),
    })
}

/// Begins a revision without records; the one before is kept.
pub(super) fn renew(cx: &Cx<'_>, txn: &mut Write<'_>, found: &mut Found) -> Result<()> {
    let row = &mut found.row;
    let earlier = Revision {
        base: row.base.take(),
        records: std::mem::take(&mut row.records),
        messages: std::mem::take(&mut row.messages),
        compaction: row.compaction.take(),
        ended: cx.now.wall,
    };
    if let Some(base) = earlier.base {
        cx.db.revisions_by_base.put(txn, &(base.session, found.id, row.revision), &())?;
    }
    cx.db.revisions.put(txn, &(found.id, row.revision), &earlier)?;
    row.revision = row.revision.saturating_add(1);
    // A file that is being taken in may have put records aside for the next revision; they are never seen as another one.
    while cx.db.records.first_in(txn, &(found.id, row.revision))?.is_some() {
        row.revision = row.revision.saturating_add(1);
    }
    Ok(())
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_much_is_stored_at_once_and_no_more() {
        let most = Policy::STANDARD.rows_per_input;
        let (given, max) = (number(most + 1), number(most));
        let (bytes, bytes_max) = (number(RECORD_BYTES_MAX + 1), number(RECORD_BYTES_MAX));
        for (count, size, expected) in [
            (most, 1, Ok(())),
            (most + 1, 1, Err(SessionRefusal::TooMany { given, max })),
            (2, RECORD_BYTES_MAX, Ok(())),
            (1, RECORD_BYTES_MAX + 1, Err(SessionRefusal::TooLarge { number: 1, bytes, max: bytes_max })),
        ] {
            let body = RecordBody::Prompt("x".repeat(size));
            let record = SessionRecord { at: Timestamp::from_millis(0), body, extra: None };
            assert_eq!(check(&vec![record; count], &Policy::STANDARD), expected, "{count} of {size}");
        }
        assert_eq!((number(0), number(7)), (0, 7));
    }

    fn row() -> WorkspaceSession {
        WorkspaceSession {
            records: 7,
            lease_epoch: 5,
            ..WorkspaceSession::new(SessionLabel::new("a").unwrap(), Timestamp::from_millis(0))
        }
    }

    #[test]
    fn a_change_needs_its_lease_and_what_it_expects() {
        let guard = |epoch, expected, dead| Guard { epoch, expected, dead };
        for (lease, given, kind) in [
            (None, guard(None, None, None), None),
            (None, guard(None, Some(7), None), None),
            (None, guard(None, Some(6), None), Some(true)),
            (None, guard(Some(5), None, None), Some(false)), // let go of
            (Some((5, 10)), guard(Some(5), Some(7), None), None),
            (Some((5, 10)), guard(Some(5), Some(8), None), Some(true)),
            (Some((5, 10)), guard(Some(4), None, Some(4)), Some(false)),
            (Some((5, 10)), guard(None, None, None), Some(true)),
            (Some((5, 10)), guard(None, None, Some(5)), None),
            (Some((5, 10)), guard(None, None, Some(4)), Some(true)), // another one than was looked at
        ] {
            let said = decide_guard(&row(), lease, given).err();
            assert_eq!(said.as_ref().and_then(SessionRefusal::retry_safe), kind, "{lease:?} {given:?} {said:?}");
            assert!(said.is_none_or(|said| said.kind() == "concurrent_modification"));
        }
    }

    #[test]
    fn times_of_a_workspace_do_not_go_back() {
        let at = Timestamp::from_millis;
        let day = 24 * 60 * 60 * 1_000;
        for (now, newest, expected) in [
            (100, None, 100),
            (100, Some(99), 100),
            (100, Some(100), 101),
            (100, Some(5_000), 5_001),
            (100, Some(100 + day), 100), // nonsense of a clock does not last for ever
        ] {
            assert_eq!(decide_stamp(at(now), newest.map(at)), at(expected), "{now} {newest:?}");
        }
    }
}
