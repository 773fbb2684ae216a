//! Workspaces, the sessions that are theirs alone, and their records.

use super::Check;
use crate::model::record::RecordBody;
use crate::model::session::{Revision, Session, WorkspaceSession};
use crate::model::workspace::Workspace;
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
    check.each(&db.revisions, |check, key, row: Revision| {
        check.refers((&db.revisions, &key), (&db.sessions_by_id, &key.0))?;
        match row.base {
            Some(base) => check.refers((&db.revisions, &key), (&db.sessions_by_id, &base.session)),
            None => Ok(()),
        }
    })?;
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
        if found != own.records {
            check.report(&db.sessions, &key, format!("says {} records, the last one is {found}", own.records));
        }
        if own.messages > own.records {
            check.report(&db.sessions, &key, format!("says {} messages in {} records", own.messages, own.records));
        }
        if let Some(base) = own.base {
            check.refers((&db.sessions, &key), (&db.sessions_by_id, &base.session))?;
        }
        Ok(())
    })?;
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
    check.each(&db.records, |check, key, row| {
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

fn own(row: &Session) -> Option<&WorkspaceSession> {
    match row {
        Session::Workspace(own) => Some(own),
        Session::Chat(_) => None,
    }
}
