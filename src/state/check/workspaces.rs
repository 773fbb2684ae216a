//! Workspaces, the sessions that are theirs alone, and their records.

use super::Check;
use crate::model::record::RecordBody;
use crate::model::session::{Base, Revision, Session, WorkspaceSession};
use crate::model::time::Timestamp;
use crate::model::workspace::Workspace;
use crate::state::key::KeyPart;
use crate::state::table::{Codec, Rows};
use crate::state::{Digest, Result, Text};

/// Workspaces are found by path and witness.
pub(super) fn indexes(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.agree(
        &db.workspaces,
        &db.workspaces_by_path,
        |(fingerprint, discriminator), row| Some(((Digest::of(&row.path), *fingerprint, *discriminator), ())),
        |(_, fingerprint, discriminator), ()| (*fingerprint, *discriminator),
    )?;
    check.agree(
        &db.workspaces,
        &db.workspaces_by_witness,
        |(fingerprint, discriminator), row| {
            Some(((Digest::of_witness(row.witness.as_ref()?), *fingerprint, *discriminator), ()))
        },
        |(_, fingerprint, discriminator), ()| (*fingerprint, *discriminator),
    )?;
    check.each(&db.workspace_events, |check, key, _| {
        check.refers((&db.workspace_events, &key), (&db.workspaces, &(key.0, key.1)))
    })?;
    check.each(&db.workspaces, |check, key, row: Workspace| {
        let Some(current) = row.current else { return Ok(()) };
        check.refers((&db.workspaces, &key), (&db.sessions, &(key.0, key.1, current)))
    })
}

/// Sessions of workspaces are found by the id people use, or are in the trash; forks lead to what they share.
pub(super) fn sessions(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.agree_through(
        &db.sessions,
        &db.session_labels,
        |(fingerprint, discriminator, id), row| {
            let own = own(row).filter(|own| own.deleted.is_none())?;
            // A label is never longer than a key's text.
            Some(((*fingerprint, *discriminator, Text::new(own.label.as_str()).ok()?), *id))
        },
        |_, (fingerprint, discriminator, _), id| Ok(Some((*fingerprint, *discriminator, *id))),
    )?;
    check.agree_through(
        &db.sessions,
        &db.trash,
        |(_, _, id), row| Some(((own(row)?.deleted?, *id), ())),
        |check, (_, id), ()| Ok(check.look_up(&db.sessions_by_id, id)?.map(|(f, d)| (f, d, *id))),
    )?;
    check.agree_through(
        &db.sessions,
        &db.sessions_by_base,
        |(_, _, id), row| Some(((own(row)?.base?.session, *id), ())),
        |check, (_, id), ()| Ok(check.look_up(&db.sessions_by_id, id)?.map(|(f, d)| (f, d, *id))),
    )?;
    check.agree(
        &db.revisions,
        &db.revisions_by_base,
        |(id, number), row| Some(((row.base?.session, *id, *number), ())),
        |(_, id, number), ()| (*id, *number),
    )?;
    check.each(&db.revisions, |check, key, _| check.refers((&db.revisions, &key), (&db.sessions_by_id, &key.0)))?;
    check.each(&db.leases, |check, id, _| check.refers((&db.leases, &id), (&db.sessions_by_id, &id)))
}

/// A session counts its records, which are numbered without a gap from where its base ends.
pub(super) fn records(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.sessions, |check, key, row| {
        let Some(own) = own(&row) else { return Ok(()) };
        let begin = own.base.map_or(0, |base| base.upto);
        let last = super::readable(db.records.last_in(check.txn, &(key.2, own.revision)))?;
        let found = last.map_or(begin, |((_, _, number), _)| number);
        // Of one that is being removed, records go before it does.
        if found != own.records && own.deleted != Some(PURGED) {
            check.report(&db.sessions, &key, format!("says {} records, the last one is {found}", own.records));
        }
        if own.messages > own.records {
            check.report(&db.sessions, &key, format!("says {} messages in {} records", own.messages, own.records));
        }
        begins(check, (&db.sessions, &key), own.base)
    })?;
    check.each(&db.revisions, |check, key, row: Revision| begins(check, (&db.revisions, &key), row.base))?;
    let mut aside = Vec::new();
    check.each(&db.intakes, |check, key, intake| {
        if key != Digest::of(&intake.path) {
            check.report(&db.intakes, &key, "it is not of this path");
        }
        let last = super::readable(db.records.last_in(check.txn, &(intake.session, intake.revision)))?;
        if last.map_or(0, |((_, _, number), _)| number) != intake.records {
            check.report(&db.intakes, &key, format!("says {} records, which are not there", intake.records));
        }
        aside.push((intake.session, intake.revision));
        Ok(())
    })?;
    let mut before = None;
    check.each(&db.records, |check, key, row| {
        if let Some((session, revision, number)) = before.replace(key)
            && (session, revision) == (key.0, key.1)
            && key.2 != number + 1
        {
            check.report(&db.records, &key, format!("follows record {number}: some are missing"));
        }
        if !aside.contains(&(key.0, key.1)) {
            check.refers((&db.records, &key), (&db.sessions_by_id, &key.0))?;
        }
        if key.2 == 0 {
            check.report(&db.records, &key, "records are counted from 1");
        }
        if matches!(&row.body, RecordBody::Prompt(text) if text.is_empty()) {
            check.report(&db.records, &key, "nothing was typed");
        }
        Ok(())
    })
}

/// A session that is being removed lies in the trash since then.
const PURGED: Timestamp = Timestamp::from_millis(0);

/// What something begins with is there, and so long, and is not passed over: reading finds every record.
fn begins<K: KeyPart, V, C: Codec<V>>(
    check: &mut Check<'_, '_>,
    (table, key): (&Rows<K, V, C>, &K),
    base: Option<Base>,
) -> Result<()> {
    let (db, Some(base)) = (*check.db, base) else { return Ok(()) };
    check.refers((table, key), (&db.sessions_by_id, &base.session))?;
    let Some((fingerprint, discriminator)) = check.look_up(&db.sessions_by_id, &base.session)? else { return Ok(()) };
    let session = check.look_up(&db.sessions, &(fingerprint, discriminator, base.session))?;
    let now = session.as_ref().and_then(own).filter(|own| own.revision == base.revision);
    let earlier = check.look_up(&db.revisions, &(base.session, base.revision))?;
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

fn own(row: &Session) -> Option<&WorkspaceSession> {
    match row {
        Session::Workspace(own) => Some(own),
        Session::Chat(_) => None,
    }
}
