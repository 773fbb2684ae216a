//! Checks workspaces, their own sessions, and the records of those.

use super::Check;
use crate::error::readable;
use crate::key::KeyPart;
use crate::model::record::RecordBody;
use crate::model::session::{Base, Revision, Session};
use crate::model::time::Timestamp;
use crate::model::workspace::Workspace;
use crate::table::{Codec, Rows};
use crate::{Digest, RecordKey, Result, RevisionKey, SessionKey};

/// Workspaces have their current session, and references to workspaces and their sessions have targets.
pub(super) fn references(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.workspace_events, |check, key, _| {
        check.refers(&db.workspace_events, &key, &db.workspaces, &key.workspace)
    })?;
    check.each(&db.workspaces, |check, key, row: Workspace| {
        let Some(current) = row.current else { return Ok(()) };
        check.refers(&db.workspaces, &key, &db.sessions, &SessionKey { workspace: key, session: current })
    })?;
    check.each(&db.revisions, |check, key, _| check.refers(&db.revisions, &key, &db.sessions_by_id, &key.session))?;
    check.each(&db.leases, |check, id, _| check.refers(&db.leases, &id, &db.sessions_by_id, &id))
}

/// A session counts its records, which are numbered without a gap from where its base ends.
pub(super) fn records(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.sessions, |check, key, row| {
        let Some(own) = row.as_workspace() else { return Ok(()) };
        let begin = own.base.map_or(0, |base| base.upto);
        let revision = RevisionKey { session: key.session, revision: own.revision };
        let last = readable(db.records.last_in(check.txn, &revision))?;
        let found = last.map_or(begin, |(key, _)| key.number);
        // While a session is being removed, its records are removed first.
        if found != own.records && own.deleted != Some(PURGED) {
            check.report(&db.sessions, &key, format!("says {} records, the last one is {found}", own.records));
        }
        if own.messages > own.records {
            check.report(&db.sessions, &key, format!("says {} messages in {} records", own.messages, own.records));
        }
        begins(check, &db.sessions, &key, own.base)
    })?;
    check.each(&db.revisions, |check, key, row: Revision| begins(check, &db.revisions, &key, row.base))?;
    let mut aside = Vec::new();
    check.each(&db.partial_imports, |check, key, intake| {
        if key != Digest::of(&intake.path) {
            check.report(&db.partial_imports, &key, "it is not of this path");
        }
        let revision = RevisionKey { session: intake.session, revision: intake.revision };
        let last = readable(db.records.last_in(check.txn, &revision))?;
        if last.map_or(0, |(key, _)| key.number) != intake.records {
            check.report(&db.partial_imports, &key, format!("says {} records, which are not there", intake.records));
        }
        aside.push(revision);
        Ok(())
    })?;
    let mut before: Option<RecordKey> = None;
    check.each(&db.records, |check, key, row| {
        if let Some(RecordKey { of, number }) = before.replace(key)
            && of == key.of
            && key.number != number + 1
        {
            check.report(&db.records, &key, format!("follows record {number}: some are missing"));
        }
        if !aside.contains(&key.of) {
            check.refers(&db.records, &key, &db.sessions_by_id, &key.of.session)?;
        }
        if key.number == 0 {
            check.report(&db.records, &key, "records are counted from 1");
        }
        if matches!(&row.body, RecordBody::Prompt(text) if text.is_empty()) {
            check.report(&db.records, &key, "nothing was typed");
        }
        Ok(())
    })
}

/// Deletion time of a session that is being purged.
const PURGED: Timestamp = Timestamp::from_millis(0);

/// A base exists, is long enough, and contributes at least one record of its own, so that reading finds every record.
fn begins<K: KeyPart, V, C: Codec<V>>(
    check: &mut Check<'_, '_>,
    table: &Rows<K, V, C>,
    key: &K,
    base: Option<Base>,
) -> Result<()> {
    let (db, Some(base)) = (*check.db, base) else { return Ok(()) };
    check.refers(table, key, &db.sessions_by_id, &base.session)?;
    let Some(workspace) = check.look_up(&db.sessions_by_id, &base.session)? else { return Ok(()) };
    let session = check.look_up(&db.sessions, &SessionKey { workspace, session: base.session })?;
    let now = session.as_ref().and_then(Session::as_workspace).filter(|own| own.revision == base.revision);
    let earlier = check.look_up(&db.revisions, &RevisionKey { session: base.session, revision: base.revision })?;
    let found = now.map(|own| (own.base, own.records)).or(earlier.map(|row| (row.base, row.records)));
    let what = match found {
        None => format!("begins with revision {} of {}, which is not there", base.revision, base.session),
        Some((_, records)) if base.upto > records => {
            format!("begins with {} records of {}, which has {records}", base.upto, base.session)
        }
        Some((before, _)) if base.upto <= before.map_or(0, |before| before.upto) => {
            format!("begins with {} records of {}, none of which are its own", base.upto, base.session)
        }
        Some(_) => return Ok(()),
    };
    check.report(table, key, what);
    Ok(())
}
