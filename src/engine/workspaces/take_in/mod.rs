//! Imports sessions from files, each as a whole. Pieces of a file stay hidden until the last one has arrived.
//!
//! Importing the same file twice changes nothing. A changed file becomes a new revision of its session, unless the
//! session was changed here as well. Then both stay as they are.

use crate::Result;
use crate::model::id::{ChangeId, SessionId};
use crate::model::record::ImportedFile;
use crate::model::report::{Refusal, Reply};
use crate::model::session::{Lineage, Session, SessionLabel, WorkspaceSession};
use crate::model::session_command::Home;
use crate::model::take_in::{FileRefused, PartialImport, SessionHead, TakeIn, TookIn};
use crate::model::time::{Millis, Timestamp};
use crate::model::workspace::{WorkspaceEvent, WorkspaceFact, WorkspaceKey};
use crate::model::workspace_command::WorkspaceReply;
use crate::state::{Digest, ImportKey, RevisionKey, SessionKey};
use crate::tx::Tx;
use crate::workspaces::locate::Located;
use crate::workspaces::rows::{Halt, Outcome, StoredSession};
use crate::workspaces::{create, locate, rows};

#[cfg(test)]
mod tests;

/// Maximum number of states of one file that are examined.
const STATES_MAX: usize = 10_000;

/// Maximum number of sessions with the same id that are distinguished by numbers.
const SAME_MAX: u32 = 1_000;

/// Imports within this time are one event of the workspace.
const ONE_EVENT: Millis = Millis::minutes(1);

/// An import without a new piece for this long is discarded.
const GIVEN_UP: Millis = Millis::minutes(24 * 60);

/// Imports a piece of a file.
pub(crate) fn take_in(tx: &mut Tx<'_, '_>, piece: &TakeIn) -> Result<Reply> {
    match piece_in(tx, piece) {
        Ok(done) => Ok(Reply::Workspace(Box::new(WorkspaceReply::TookIn(done)))),
        Err(Halt::Refused(why)) => {
            let message = format!("{}: {why}", String::from_utf8_lossy(&piece.file.path));
            Ok(Reply::Refused(Refusal { code: why.kind(), message }))
        }
        Err(Halt::Failed(error)) => Err(error),
    }
}

fn piece_in(tx: &mut Tx<'_, '_>, piece: &TakeIn) -> Outcome<TookIn> {
    rows::check(&piece.records, tx.policy)?;
    let workspace = create::settle(tx, &Home::Seen(Box::new(piece.sight.clone())))?;
    let plan = plan(tx, workspace, piece)?;
    let revised = match plan {
        ImportStep::Is(done) => return Ok(done),
        ImportStep::New => None,
        ImportStep::Revise(found) => Some(*found),
    };
    let owner = Digest::of(&piece.head.source.path);
    let intake = tx.db.partial_imports.get(tx, &owner)?;
    let goes_on = |intake: &PartialImport| {
        let same = intake.digest == piece.file.digest && intake.workspace == workspace;
        let on = revised.as_ref().map(|found| (found.id, found.row.revision.saturating_add(1)));
        same && on.map_or(intake.revision == 0, |on| on == (intake.session, intake.revision))
    };
    let intake = match intake {
        Some(intake) if goes_on(&intake) => Some(intake),
        Some(intake) => {
            if !drop_piece(tx, &owner, &intake, tx.policy.rows_per_input / 2)? {
                return Ok(TookIn::More { upto: 0 });
            }
            None
        }
        None => None,
    };
    let upto = intake.as_ref().map_or(0, |intake| intake.records);
    if piece.after != upto {
        return Ok(TookIn::More { upto });
    }
    let mut staged = stage(tx, workspace, piece, intake, revised.as_ref())?;
    rows::add(tx, &mut staged, &piece.records)?;
    if piece.last {
        tx.db.partial_imports.delete(tx, &owner)?;
        return switch(tx, piece, staged, revised);
    }
    let intake = PartialImport {
        path: piece.head.source.path.clone(),
        digest: piece.file.digest,
        workspace,
        session: staged.id,
        revision: staged.row.revision,
        records: staged.row.records,
        messages: staged.row.messages,
        at: tx.now.wall,
    };
    tx.db.partial_imports.put(tx, &owner, &intake)?;
    Ok(TookIn::More { upto: staged.row.records })
}

/// What to do with a file.
enum ImportStep {
    /// Nothing; this is the reply.
    Is(TookIn),
    /// Create a session from it.
    New,
    /// Add it as a new revision of this session.
    Revise(Box<StoredSession>),
}

fn plan(tx: &Tx<'_, '_>, workspace: WorkspaceKey, piece: &TakeIn) -> Outcome<ImportStep> {
    let owner = Digest::of(&piece.head.source.path);
    let content = Digest::known(piece.file.digest);
    let states = tx.db.imported_files.collect_prefix(tx, &owner, STATES_MAX)?;
    let mut known: Option<StoredSession> = None;
    let mut own = Vec::new();
    for (ImportKey { content: digest, .. }, state) in states {
        let Ok(id) = state.outcome else { continue };
        let Some(found) = session(tx, id)?.filter(|found| found.workspace == workspace) else { continue };
        own.push((id, digest, state.at, state.older));
        // A session that was removed and imported again has a newer id.
        if known.as_ref().is_none_or(|known| known.id < id) {
            known = Some(found);
        }
    }
    let Some(found) = known else {
        return Ok(same_elsewhere(tx, workspace, &piece.head, content)?.map_or(ImportStep::New, ImportStep::Is));
    };
    let (session, label) = (found.id, found.row.label.clone());
    own.retain(|(id, ..)| *id == session);
    if own.iter().any(|(_, digest, ..)| *digest == content) {
        return Ok(ImportStep::Is(TookIn::Already { session, label }));
    }
    let states: Vec<_> = own.iter().map(|(_, _, at, older)| (*at, *older)).collect();
    if is_passed(piece.file.older, &states) {
        return Ok(ImportStep::Is(TookIn::Passed { session, label }));
    }
    let held = tx.db.leases.get(tx, &session)?.map(|lease| lease.pid);
    match in_the_way(&found.row, &states, held) {
        Some(why) => Ok(ImportStep::Is(TookIn::Conflict { session, label, why })),
        None => Ok(ImportStep::Revise(Box::new(found))),
    }
}

/// Whether this older state of a session is older than one that was already imported. Compared are the times at which
/// states were archived, or else imported.
fn is_passed(older: Option<u64>, states: &[(Timestamp, Option<u64>)]) -> bool {
    let since = |at: Timestamp| u64::try_from(at.millis()).unwrap_or(0);
    let Some(ms) = older else { return false };
    states.iter().any(|(at, older)| older.unwrap_or_else(|| since(*at)) >= ms)
}

/// Why a changed file cannot become a revision of its session.
fn in_the_way(row: &WorkspaceSession, states: &[(Timestamp, Option<u64>)], held: Option<u32>) -> Option<String> {
    if row.deleted.is_some() {
        return Some("it is in the trash: restore or purge it first".to_owned());
    }
    if let Some(pid) = held {
        return Some(format!("process {pid} works on it"));
    }
    let taken = states.iter().map(|(at, _)| *at).max();
    let changed = taken != Some(row.committed);
    changed.then(|| "the session changed here since, and the file changed too".to_owned())
}

/// The session with the requested id, if it was imported from other files with the same content.
fn same_elsewhere(
    tx: &Tx<'_, '_>,
    workspace: WorkspaceKey,
    head: &SessionHead,
    content: Digest,
) -> Result<Option<TookIn>> {
    let Some(id) = tx.db.session_labels.get(tx, &rows::label_key(workspace, &head.label)?)? else { return Ok(None) };
    let source = session(tx, id)?.and_then(|found| found.row.source);
    let Some(source) = source else { return Ok(None) };
    let known = tx.db.imported_files.get(tx, &ImportKey { path: Digest::of(&source.path), content })?;
    let same = known.is_some_and(|state| state.outcome == Ok(id));
    Ok(same.then(|| TookIn::Already { session: id, label: head.label.clone() }))
}

/// A workspace session, if it still exists.
fn session(tx: &Tx<'_, '_>, id: SessionId) -> Result<Option<StoredSession>> {
    let Some(workspace) = tx.db.sessions_by_id.get(tx, &id)? else { return Ok(None) };
    let row = tx.db.sessions.get(tx, &SessionKey { workspace, session: id })?.and_then(Session::workspace);
    Ok(row.map(|row| StoredSession { workspace, id, row }))
}

/// Removes some records of discarded imports. Returns how many files it examined.
pub(crate) fn sweep(tx: &mut Tx<'_, '_>) -> Result<usize> {
    let end = tx.now.wall.minus(GIVEN_UP);
    let all = tx.db.partial_imports.collect_range(tx, .., tx.policy.rows_per_input)?;
    let Some((owner, mut intake)) = all.into_iter().find(|(_, intake)| intake.at < end) else { return Ok(0) };
    if !drop_piece(tx, &owner, &intake, tx.policy.rows_per_input / 4)? {
        // These records belong to no file any more, so no import continues them.
        intake.digest = [0; 32];
        tx.db.partial_imports.put(tx, &owner, &intake)?;
    }
    Ok(1)
}

/// Removes records of an import whose file has changed, up to a limit. Returns whether all of them are removed.
fn drop_piece(tx: &mut Tx<'_, '_>, owner: &Digest, intake: &PartialImport, limit: usize) -> Result<bool> {
    let revision = RevisionKey { session: intake.session, revision: intake.revision };
    let records = tx.db.records.collect_prefix(tx, &revision, limit)?;
    for (key, _) in &records {
        tx.db.records.delete(tx, key)?;
    }
    if records.len() < limit {
        tx.db.partial_imports.delete(tx, owner)?;
    }
    Ok(records.len() < limit)
}

/// Where the records of a piece are stored: in a session that is not indexed yet, or in a revision that is not current.
fn stage(
    tx: &mut Tx<'_, '_>,
    workspace: WorkspaceKey,
    piece: &TakeIn,
    intake: Option<PartialImport>,
    revised: Option<&StoredSession>,
) -> Outcome<StoredSession> {
    let head = &piece.head;
    let mut row = WorkspaceSession {
        model: head.model.clone(),
        created: head.created,
        updated: head.updated,
        revision: revised.map_or(0, |found| found.row.revision.saturating_add(1)),
        compaction: head.compaction.clone(),
        source: Some(head.source.clone()),
        ..WorkspaceSession::new(head.label.clone(), tx.now.wall)
    };
    if let Some(intake) = intake {
        (row.records, row.messages) = (intake.records, intake.messages);
        return Ok(StoredSession { workspace, id: intake.session, row });
    }
    let id = revised.map_or_else(|| tx.db.allocate(tx), |found| Ok(found.id))?;
    Ok(StoredSession { workspace, id, row })
}

/// Makes an imported session or revision visible.
fn switch(
    tx: &mut Tx<'_, '_>,
    piece: &TakeIn,
    mut staged: StoredSession,
    revised: Option<StoredSession>,
) -> Outcome<TookIn> {
    let workspace = staged.workspace;
    let now = rows::stamp(tx, workspace)?;
    let order: ChangeId = tx.db.allocate(tx)?;
    (staged.row.committed, staged.row.order) = (now, order.number());
    staged.row.lineage = lineage(tx, workspace, &piece.head)?;
    match revised {
        None => {
            staged.row.label = free_label(tx, workspace, &piece.head.label)?;
            if staged.row.label != piece.head.label
                && let Some(source) = &mut staged.row.source
            {
                source.id.get_or_insert_with(|| piece.head.label.to_string());
            }
            rows::insert_as(tx, &staged)?;
        }
        Some(before) => {
            let mut found = before.clone();
            rows::renew(tx, &mut found)?;
            let old = found.row;
            staged.row = WorkspaceSession {
                label: old.label,
                title: old.title,
                lineage: staged.row.lineage.or(old.lineage),
                lease_epoch: old.lease_epoch,
                ..staged.row
            };
            rows::save(tx, &before, &staged)?;
        }
    }
    let key = ImportKey { path: Digest::of(&piece.head.source.path), content: Digest::known(piece.file.digest) };
    let path = piece.file.path.clone();
    let state = ImportedFile { path, at: now, outcome: Ok(staged.id), older: piece.file.older };
    tx.db.imported_files.put(tx, &key, &state)?;
    note(tx, workspace)?;
    Ok(TookIn::Whole { session: staged.id, label: staged.row.label, revision: staged.row.revision })
}

fn lineage(tx: &Tx<'_, '_>, workspace: WorkspaceKey, head: &SessionHead) -> Result<Option<Lineage>> {
    let Some((parent, branch)) = head.parent.clone() else { return Ok(None) };
    let session = match SessionLabel::new(parent.as_str()) {
        Ok(label) => tx.db.session_labels.get(tx, &rows::label_key(workspace, &label)?)?,
        Err(_) => None,
    };
    Ok(Some(Lineage { parent, session: session.map(|id| (workspace, id)), branch }))
}

/// The requested id, with a number if another session has it.
fn free_label(tx: &mut Tx<'_, '_>, workspace: WorkspaceKey, wanted: &SessionLabel) -> Outcome<SessionLabel> {
    let numbered = (2..SAME_MAX).map(|number| wanted.numbered(number));
    for label in std::iter::once(wanted.clone()).chain(numbered) {
        if !tx.db.session_labels.contains(tx, &rows::label_key(workspace, &label)?)? {
            return Ok(label);
        }
    }
    rows::choose_label(tx, workspace, None)
}

/// Records the import of a session. Many in a short time are one event.
fn note(tx: &mut Tx<'_, '_>, workspace: WorkspaceKey) -> Result<()> {
    if let Some((key, event)) = tx.db.workspace_events.last_in(tx, &workspace)?
        && let WorkspaceFact::Imported { sessions } = event.what
        && tx.now.wall.since(event.at) < ONE_EVENT
    {
        let what = WorkspaceFact::Imported { sessions: sessions.saturating_add(1) };
        return tx.db.workspace_events.put(tx, &key, &WorkspaceEvent { at: event.at, what });
    }
    locate::happened(tx, workspace, WorkspaceFact::Imported { sessions: 1 })
}

/// Records that a file was not imported. Repeating it changes nothing.
pub(crate) fn refuse(tx: &mut Tx<'_, '_>, refused: &FileRefused) -> Result<()> {
    let key = ImportKey { path: Digest::of(&refused.owner), content: Digest::known(refused.file.digest) };
    let known = tx.db.imported_files.get(tx, &key)?;
    if known.is_some_and(|known| known.outcome.is_ok() || known.outcome.as_ref().err() == Some(&refused.why)) {
        return Ok(());
    }
    let (path, outcome) = (refused.file.path.clone(), Err(refused.why.clone()));
    let state = ImportedFile { path, at: tx.now.wall, outcome, older: refused.file.older };
    tx.db.imported_files.put(tx, &key, &state)?;
    if let (Some(root), Located::Known(workspace)) =
        (&refused.root, locate::locate(tx.db, tx, tx.cx.groups_path, &refused.sight)?)
    {
        let file = String::from_utf8_lossy(&refused.file.path).into_owned();
        locate::happened(tx, workspace, WorkspaceFact::MismatchRefused { file, root: root.clone() })?;
    }
    Ok(())
}
