//! The only writer of workspace sessions: their rows and indexes change together.

use crate::Result;
use crate::model::id::{ChangeId, SessionId};
use crate::model::policy::Policy;
use crate::model::record::{RecordBody, SessionRecord};
use crate::model::session::{Revision, Session, SessionLabel, WorkspaceSession};
use crate::model::session_command::{Guard, SessionRefusal};
use crate::model::time::{Millis, Timestamp};
use crate::model::workspace::WorkspaceKey;
use crate::state;
use crate::state::{LabelKey, RecordKey, RevisionKey, SessionKey, Text};
use crate::tx::Tx;

/// Maximum size of a record in bytes of its content. The store needs a third more.
pub(crate) const RECORD_BYTES_MAX: usize = 12 << 20;

/// A clock that is behind the last change by more than this is trusted.
const BEHIND_MAX: Millis = Millis::minutes(24 * 60);

/// Why a transaction is undone.
pub(crate) enum Halt {
    /// The request was refused; nothing may change.
    Refused(SessionRefusal),
    /// The store failed.
    Failed(state::Error),
}

impl From<SessionRefusal> for Halt {
    fn from(refusal: SessionRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<state::Error> for Halt {
    fn from(error: state::Error) -> Self {
        Self::Failed(error)
    }
}

/// The result of a transaction, or why it has none.
pub(crate) type Outcome<T> = std::result::Result<T, Halt>;

/// A workspace session as stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredSession {
    pub(crate) workspace: WorkspaceKey,
    pub(crate) id: SessionId,
    pub(crate) row: WorkspaceSession,
}

/// A session by its id, in the trash or not.
pub(crate) fn any(tx: &Tx<'_, '_>, id: SessionId) -> Outcome<StoredSession> {
    let missing = || SessionRefusal::NotFound { session: id.to_string() };
    let workspace = tx.db.sessions_by_id.get(tx, &id)?.ok_or_else(missing)?;
    match tx.db.sessions.require(tx, &SessionKey { workspace, session: id })? {
        Session::Workspace(row) => Ok(StoredSession { workspace, id, row: *row }),
        Session::Chat(_) => Err(SessionRefusal::IsChat { session: id }.into()),
    }
}

/// A session by its id that is not in the trash.
pub(crate) fn load(tx: &Tx<'_, '_>, id: SessionId) -> Outcome<StoredSession> {
    let found = any(tx, id)?;
    match found.row.deleted {
        None => Ok(found),
        Some(_) => Err(SessionRefusal::NotFound { session: found.row.label.to_string() }.into()),
    }
}

/// Like [`load`], and also checks the caller's conditions for a change.
pub(crate) fn guarded(tx: &Tx<'_, '_>, id: SessionId, guard: Guard) -> Outcome<StoredSession> {
    let found = load(tx, id)?;
    let lease = tx.db.leases.get(tx, &id)?;
    decide_guard(&found.row, lease.map(|lease| (lease.epoch, lease.pid)), guard)?;
    Ok(found)
}

/// Whether a change is allowed. `lease` is the epoch and process of the session's holder.
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

/// Marks a session as changed now, which makes it the newest of its workspace. Times in a workspace do not go back,
/// even if the clock does for a while.
pub(crate) fn touch(tx: &mut Tx<'_, '_>, found: &mut StoredSession) -> Result<()> {
    let now = stamp(tx, found.workspace)?;
    let order: ChangeId = tx.db.allocate(tx)?;
    (found.row.updated, found.row.committed, found.row.order) = (now, now, order.number());
    Ok(())
}

/// The time of a change in a workspace.
pub(crate) fn stamp(tx: &Tx<'_, '_>, workspace: WorkspaceKey) -> Result<Timestamp> {
    let newest = tx.db.sessions_by_update.collect_last(tx, &workspace, 1)?;
    Ok(decide_stamp(tx.now.wall, newest.first().map(|(key, ())| key.recency.at)))
}

fn decide_stamp(now: Timestamp, newest: Option<Timestamp>) -> Timestamp {
    match newest {
        Some(newest) if newest >= now && newest.since(now) < BEHIND_MAX => newest.plus(Millis::new(1)),
        _ => now,
    }
}

/// Stores a new session.
pub(crate) fn insert(tx: &mut Tx<'_, '_>, workspace: WorkspaceKey, row: WorkspaceSession) -> Result<StoredSession> {
    let id: SessionId = tx.db.allocate(tx)?;
    let found = StoredSession { workspace, id, row };
    insert_as(tx, &found)?;
    Ok(found)
}

/// Like [`insert`], under an id that is already allocated.
pub(crate) fn insert_as(tx: &mut Tx<'_, '_>, found: &StoredSession) -> Result<()> {
    tx.db.sessions.append(tx, &key(found), &record(found))
}

/// Stores a changed session.
pub(crate) fn save(tx: &mut Tx<'_, '_>, before: &StoredSession, after: &StoredSession) -> Result<()> {
    tx.db.sessions.replace(tx, &key(after), &record(before), &record(after))
}

/// Removes a session whose records are already removed.
pub(crate) fn remove(tx: &mut Tx<'_, '_>, found: &StoredSession) -> Result<()> {
    tx.db.leases.delete(tx, &found.id)?;
    tx.db.sessions.delete(tx, &key(found)).map(drop)
}

const fn key(found: &StoredSession) -> SessionKey {
    SessionKey { workspace: found.workspace, session: found.id }
}

/// The key of a session's current revision.
const fn revision(found: &StoredSession) -> RevisionKey {
    RevisionKey { session: found.id, revision: found.row.revision }
}

fn record(found: &StoredSession) -> Session {
    Session::Workspace(Box::new(found.row.clone()))
}

/// The key under which a session is found by its label.
pub(crate) fn label_key(workspace: WorkspaceKey, label: &SessionLabel) -> Result<LabelKey> {
    Ok(LabelKey { workspace, label: Text::new(label.as_str())? })
}

/// The label of a new session: the requested one, or one that is unused in the workspace.
pub(crate) fn choose_label(
    tx: &mut Tx<'_, '_>,
    workspace: WorkspaceKey,
    wanted: Option<SessionLabel>,
) -> Outcome<SessionLabel> {
    if let Some(label) = wanted {
        return match tx.db.session_labels.contains(tx, &label_key(workspace, &label)?)? {
            true => Err(SessionRefusal::Exists { session: label.to_string() }.into()),
            false => Ok(label),
        };
    }
    loop {
        let number: ChangeId = tx.db.allocate(tx)?;
        let text = format!("session-{}-{}", tx.now.wall.millis(), number.number());
        // A clock before 1970 adds a minus sign, which is a valid character.
        let label = SessionLabel::new(text)
            .map_err(|bad| state::Error::Exists { table: tx.db.session_labels.name(), key: bad.to_string() })?;
        if !tx.db.session_labels.contains(tx, &label_key(workspace, &label)?)? {
            return Ok(label);
        }
    }
}

/// Appends records to a session's current revision. The caller saves the session.
pub(crate) fn add(tx: &mut Tx<'_, '_>, found: &mut StoredSession, records: &[SessionRecord]) -> Outcome<()> {
    check(records, tx.policy)?;
    for record in records {
        found.row.records = found.row.records.saturating_add(1);
        if matches!(record.body, RecordBody::Message { .. }) {
            found.row.messages = found.row.messages.saturating_add(1);
        }
        tx.db.records.put(tx, &RecordKey { of: revision(found), number: found.row.records }, record)?;
    }
    Ok(())
}

/// Whether these records can be stored in one transaction.
pub(crate) fn check(records: &[SessionRecord], policy: &Policy) -> std::result::Result<(), SessionRefusal> {
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

/// Starts an empty revision. The previous one is kept.
pub(crate) fn renew(tx: &mut Tx<'_, '_>, found: &mut StoredSession) -> Result<()> {
    let ended = revision(found);
    let row = &mut found.row;
    let earlier = Revision {
        base: row.base.take(),
        records: std::mem::take(&mut row.records),
        messages: std::mem::take(&mut row.messages),
        compaction: row.compaction.take(),
        ended: tx.now.wall,
    };
    tx.db.revisions.put(tx, &ended, &earlier)?;
    row.revision = row.revision.saturating_add(1);
    // An import in progress may have stored records under the next revision's number. Such a number is skipped, so that
    // these records never appear in another revision.
    while tx.db.records.first_in(tx, &revision(found))?.is_some() {
        found.row.revision = found.row.revision.saturating_add(1);
    }
    Ok(())
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use crate::workspaces::rows::*;

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
            (Some((5, 10)), guard(None, None, Some(4)), Some(true)), // a different record count than the caller expected
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
            (100, Some(100 + day), 100), // a nonsensical clock value does not persist
        ] {
            assert_eq!(decide_stamp(at(now), newest.map(at)), at(expected), "{now} {newest:?}");
        }
    }
}
