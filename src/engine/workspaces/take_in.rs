//! Sessions are taken in from files, each as a whole: what comes in pieces lies aside until its last piece is there.
//!
//! The same file twice changes nothing. A file that changed becomes a new revision of its session, unless the session
//! changed here as well: then both stay as they are.

use super::super::{Applied, Cx, Result};
use super::locate::{self, Located};
use super::rows::{self, Found, Halt, Outcome};
use super::{create, happened};
use crate::model::id::{ChangeId, SessionId};
use crate::model::record::ImportedFile;
use crate::model::report::{Refusal, Reply};
use crate::model::session::{Lineage, Session, SessionLabel, WorkspaceSession};
use crate::model::session_command::Home;
use crate::model::take_in::{FileRefused, Intake, SessionHead, TakeIn, TookIn};
use crate::model::time::{Millis, Timestamp};
use crate::model::workspace::{WorkspaceEvent, WorkspaceFact, WorkspaceKey, WorkspaceReply};
use crate::state::{Digest, Write};

/// States of one file that are looked at.
const STATES_MAX: usize = 10_000;
/// Sessions of one id that are told apart by numbers.
const SAME_MAX: u32 = 1_000;
/// What is taken in within this time is one event of the workspace.
const ONE_EVENT: Millis = Millis::minutes(1);
/// What no piece came of for so long is given up.
const GIVEN_UP: Millis = Millis::minutes(24 * 60);

/// Takes a piece in.
pub(super) fn take_in(cx: &Cx<'_>, txn: &mut Write<'_>, piece: &TakeIn) -> Result<Applied> {
    match piece_in(cx, txn, piece) {
        Ok(done) => Ok(Applied::new(Reply::Workspace(Box::new(WorkspaceReply::TookIn(done))), Vec::new())),
        Err(Halt::Refused(why)) => {
            let message = format!("{}: {why}", String::from_utf8_lossy(&piece.file.path));
            Ok(Applied::new(Reply::Refused(Refusal { code: why.kind(), message }), Vec::new()))
        }
        Err(Halt::Failed(error)) => Err(error),
    }
}

fn piece_in(cx: &Cx<'_>, txn: &mut Write<'_>, piece: &TakeIn) -> Outcome<TookIn> {
    rows::check(&piece.records, cx.policy)?;
    let workspace = create::settle(cx, txn, &Home::Seen(Box::new(piece.sight.clone())))?;
    let plan = plan(cx, txn, workspace, piece)?;
    let revised = match plan {
        Plan::Is(done) => return Ok(done),
        Plan::New => None,
        Plan::Revise(found) => Some(*found),
    };
    let owner = Digest::of(&piece.head.source.path);
    let intake = cx.db.intakes.get(txn, &owner)?;
    let goes_on = |intake: &Intake| {
        let same = intake.digest == piece.file.digest && intake.workspace == workspace;
        let on = revised.as_ref().map(|found| (found.id, found.row.revision.saturating_add(1)));
        same && on.map_or(intake.revision == 0, |on| on == (intake.session, intake.revision))
    };
    let intake = match intake {
        Some(intake) if goes_on(&intake) => Some(intake),
        Some(intake) => {
            if !drop_piece(cx, txn, (&owner, &intake), cx.policy.rows_per_input / 2)? {
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
    let mut staged = stage(cx, txn, (workspace, piece), (intake, revised.as_ref()))?;
    rows::add(cx, txn, &mut staged, &piece.records)?;
    if piece.last {
        cx.db.intakes.delete(txn, &owner)?;
        return switch(cx, txn, piece, (staged, revised));
    }
    let intake = Intake {
        path: piece.head.source.path.clone(),
        digest: piece.file.digest,
        workspace,
        session: staged.id,
        revision: staged.row.revision,
        records: staged.row.records,
        messages: staged.row.messages,
        at: cx.now.wall,
    };
    cx.db.intakes.put(txn, &owner, &intake)?;
    Ok(TookIn::More { upto: staged.row.records })
}

/// What is to be done with a file.
enum Plan {
    /// Nothing.
    Is(TookIn),
    /// It becomes a session.
    New,
    /// It becomes a new revision of this session.
    Revise(Box<Found>),
}

fn plan(cx: &Cx<'_>, txn: &Write<'_>, workspace: WorkspaceKey, piece: &TakeIn) -> Outcome<Plan> {
    let owner = Digest::of(&piece.head.source.path);
    let content = Digest::known(piece.file.digest);
    let states = cx.db.imported.collect_prefix(txn, &owner, STATES_MAX)?;
    let mut known: Option<Found> = None;
    let mut own = Vec::new();
    for ((_, digest), state) in states {
        let Ok(id) = state.outcome else { continue };
        let Some(found) = session(cx, txn, id)?.filter(|found| found.workspace == workspace) else { continue };
        own.push((id, digest, state.at, state.older));
        // A session that was removed and taken in again is the newer one.
        if known.as_ref().is_none_or(|known| known.id < id) {
            known = Some(found);
        }
    }
    let Some(found) = known else {
        return Ok(same_elsewhere(cx, txn, workspace, (&piece.head, content))?.map_or(Plan::New, Plan::Is));
    };
    let (session, label) = (found.id, found.row.label.clone());
    own.retain(|(id, ..)| *id == session);
    if own.iter().any(|(_, digest, ..)| *digest == content) {
        return Ok(Plan::Is(TookIn::Already { session, label }));
    }
    let states: Vec<_> = own.iter().map(|(_, _, at, older)| (*at, *older)).collect();
    if is_passed(piece.file.older, &states) {
        return Ok(Plan::Is(TookIn::Passed { session, label }));
    }
    let held = cx.db.leases.get(txn, &session)?.map(|lease| lease.pid);
    match in_the_way(&found.row, &states, held) {
        Some(why) => Ok(Plan::Is(TookIn::Conflict { session, label, why })),
        None => Ok(Plan::Revise(Box::new(found))),
    }
}

/// Whether an older state of a session is older than what was taken in: by when states were put aside or taken in.
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

/// The session that has the wanted id, if it was taken in from other files with the same content.
fn same_elsewhere(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    workspace: WorkspaceKey,
    (head, content): (&SessionHead, Digest),
) -> Result<Option<TookIn>> {
    let Some(id) = cx.db.session_labels.get(txn, &rows::label_key(workspace, &head.label)?)? else { return Ok(None) };
    let source = session(cx, txn, id)?.and_then(|found| found.row.source);
    let Some(source) = source else { return Ok(None) };
    let known = cx.db.imported.get(txn, &(Digest::of(&source.path), content))?;
    let same = known.is_some_and(|state| state.outcome == Ok(id));
    Ok(same.then(|| TookIn::Already { session: id, label: head.label.clone() }))
}

/// A session of a workspace, if it is still there.
fn session(cx: &Cx<'_>, txn: &Write<'_>, id: SessionId) -> Result<Option<Found>> {
    let Some(workspace) = cx.db.sessions_by_id.get(txn, &id)? else { return Ok(None) };
    let row = cx.db.sessions.get(txn, &(workspace.0, workspace.1, id))?.and_then(Session::workspace);
    Ok(row.map(|row| Found { workspace, id, row }))
}

/// Removes some of what was given up; how many files it looked at.
pub(in super::super) fn sweep(cx: &Cx<'_>, txn: &mut Write<'_>) -> Result<usize> {
    let end = cx.now.wall.minus(GIVEN_UP);
    let all = cx.db.intakes.collect_range(txn, .., cx.policy.rows_per_input)?;
    let Some((owner, mut intake)) = all.into_iter().find(|(_, intake)| intake.at < end) else { return Ok(0) };
    if !drop_piece(cx, txn, (&owner, &intake), cx.policy.rows_per_input / 4)? {
        // What is left of it is of no file: nothing goes on with it.
        intake.digest = [0; 32];
        cx.db.intakes.put(txn, &owner, &intake)?;
    }
    Ok(1)
}

/// Removes some of what came of a file that is another one by now, at most so many records; whether all of it is gone.
fn drop_piece(cx: &Cx<'_>, txn: &mut Write<'_>, (owner, intake): (&Digest, &Intake), limit: usize) -> Result<bool> {
    let records = cx.db.records.collect_prefix(txn, &(intake.session, intake.revision), limit)?;
    for (key, _) in &records {
        cx.db.records.delete(txn, key)?;
    }
    if records.len() < limit {
        cx.db.intakes.delete(txn, owner)?;
    }
    Ok(records.len() < limit)
}

/// Where the records of a piece lie: a session of which nobody knows, or a revision of one that nobody reads.
fn stage(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (workspace, piece): (WorkspaceKey, &TakeIn),
    (intake, revised): (Option<Intake>, Option<&Found>),
) -> Outcome<Found> {
    let head = &piece.head;
    let mut row = WorkspaceSession {
        model: head.model.clone(),
        created: head.created,
        updated: head.updated,
        revision: revised.map_or(0, |found| found.row.revision.saturating_add(1)),
        compaction: head.compaction.clone(),
        source: Some(head.source.clone()),
        ..WorkspaceSession::new(head.label.clone(), cx.now.wall)
    };
    if let Some(intake) = intake {
        (row.records, row.messages) = (intake.records, intake.messages);
        return Ok(Found { workspace, id: intake.session, row });
    }
    let id = revised.map_or_else(|| cx.db.allocate(txn), |found| Ok(found.id))?;
    Ok(Found { workspace, id, row })
}

/// Makes what was taken in be seen.
fn switch(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    piece: &TakeIn,
    (mut staged, revised): (Found, Option<Found>),
) -> Outcome<TookIn> {
    let workspace = staged.workspace;
    let now = rows::stamp(cx, txn, workspace)?;
    let order: ChangeId = cx.db.allocate(txn)?;
    (staged.row.committed, staged.row.order) = (now, order.number());
    staged.row.lineage = lineage(cx, txn, workspace, &piece.head)?;
    match revised {
        None => {
            staged.row.label = free_label(cx, txn, workspace, &piece.head.label)?;
            if staged.row.label != piece.head.label
                && let Some(source) = &mut staged.row.source
            {
                source.id.get_or_insert_with(|| piece.head.label.to_string());
            }
            rows::insert_as(cx, txn, &staged)?;
        }
        Some(before) => {
            let mut found = before.clone();
            rows::renew(cx, txn, &mut found)?;
            let old = found.row;
            staged.row = WorkspaceSession {
                label: old.label,
                title: old.title,
                lineage: staged.row.lineage.or(old.lineage),
                lease_epoch: old.lease_epoch,
                ..staged.row
            };
            rows::save(cx, txn, &before, &staged)?;
        }
    }
    let key = (Digest::of(&piece.head.source.path), Digest::known(piece.file.digest));
    let path = piece.file.path.clone();
    let state = ImportedFile { path, at: now, outcome: Ok(staged.id), older: piece.file.older };
    cx.db.imported.put(txn, &key, &state)?;
    note(cx, txn, workspace)?;
    Ok(TookIn::Whole { session: staged.id, label: staged.row.label, revision: staged.row.revision })
}

fn lineage(cx: &Cx<'_>, txn: &Write<'_>, workspace: WorkspaceKey, head: &SessionHead) -> Result<Option<Lineage>> {
    let Some((parent, branch)) = head.parent.clone() else { return Ok(None) };
    let session = match SessionLabel::new(parent.as_str()) {
        Ok(label) => cx.db.session_labels.get(txn, &rows::label_key(workspace, &label)?)?,
        Err(_) => None,
    };
    Ok(Some(Lineage { parent, session: session.map(|id| (workspace, id)), branch }))
}

/// The wanted id, with a number if another session has it.
fn free_label(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    workspace: WorkspaceKey,
    wanted: &SessionLabel,
) -> Outcome<SessionLabel> {
    let numbered = (2..SAME_MAX).map(|number| wanted.numbered(number));
    for label in std::iter::once(wanted.clone()).chain(numbered) {
        if !cx.db.session_labels.contains(txn, &rows::label_key(workspace, &label)?)? {
            return Ok(label);
        }
    }
    rows::choose_label(cx, txn, workspace, None)
}

/// Notes that a session was taken in; many at once are one event.
fn note(cx: &Cx<'_>, txn: &mut Write<'_>, workspace: WorkspaceKey) -> Result<()> {
    if let Some((key, event)) = cx.db.workspace_events.last_in(txn, &workspace)?
        && let WorkspaceFact::Imported { sessions } = event.what
        && cx.now.wall.since(event.at) < ONE_EVENT
    {
        let what = WorkspaceFact::Imported { sessions: sessions.saturating_add(1) };
        return cx.db.workspace_events.put(txn, &key, &WorkspaceEvent { at: event.at, what });
    }
    happened(cx, txn, workspace, WorkspaceFact::Imported { sessions: 1 })
}

/// Takes down that a file was not taken in. The same again changes nothing.
pub(super) fn refuse(cx: &Cx<'_>, txn: &mut Write<'_>, refused: &FileRefused) -> Result<()> {
    let key = (Digest::of(&refused.owner), Digest::known(refused.file.digest));
    let known = cx.db.imported.get(txn, &key)?;
    if known.is_some_and(|known| known.outcome.is_ok() || known.outcome.as_ref().err() == Some(&refused.why)) {
        return Ok(());
    }
    let (path, outcome) = (refused.file.path.clone(), Err(refused.why.clone()));
    let state = ImportedFile { path, at: cx.now.wall, outcome, older: refused.file.older };
    cx.db.imported.put(txn, &key, &state)?;
    if let (Some(root), Located::Known(workspace)) =
        (&refused.root, locate::locate(cx.db, txn, cx.groups_path, &refused.sight)?)
    {
        let file = String::from_utf8_lossy(&refused.file.path).into_owned();
        happened(cx, txn, workspace, WorkspaceFact::MismatchRefused { file, root: root.clone() })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
