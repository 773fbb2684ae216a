//! Fills the tables that are new in format 2.

use super::readable_rows;
use crate::derived::refused_for_backlog;
use crate::error::readable;
use crate::held_bytes::{count_held, file_bytes};
use crate::indexed;
use crate::keys::{HeldKey, PersonKey, SessionKey};
use crate::list_keys::Owned;
use crate::model::Turn;
use crate::model::approval::{QuestionState, Waitlist};
use crate::model::session::Session;
use crate::schema::Tables;
use crate::{Result, Write};

/// Fills the index tables that are new in format 2, and moves the rows of `lanes` to their new keys. Skips records that
/// cannot be read; `check` reports them.
///
/// # Errors
/// Those of reading and writing rows.
pub(super) fn fill(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    indexed::rebuild(&db.outbound, txn)?;
    indexed::rebuild(&db.approvals, txn)?;
    let approvals = readable_rows(db.approvals.iter(txn)?)?;
    for (_, approval) in approvals {
        let waits = approval.state.is_open() && approval.turn() == Turn::Later;
        if let Some(user) = approval.approver.as_ref().filter(|_| waits) {
            let key = PersonKey::of(user);
            let waits = db.waitlists.get(txn, &key)?.map_or(0, |list| list.waits).saturating_add(1);
            db.waitlists.put(txn, &key, &Waitlist { user: user.clone(), waits, digest: None })?;
        }
    }
    let held = readable_rows(db.held_messages.iter(txn)?)?;
    for (HeldKey { approval: id, body }, _) in held {
        let row = readable(db.bodies.get(txn, &body))?;
        let bytes = row.as_ref().map_or(0, file_bytes);
        db.held_messages_by_body.put(txn, &Owned { owner: body, id }, &bytes)?;
        if let Some(row) = row {
            count_held(db, txn, &row, |held| held.saturating_add(bytes))?;
        }
    }
    let dropped = readable_rows(db.dropped_events.iter(txn)?)?;
    for (id, drop) in dropped {
        if let Some(key) = refused_for_backlog(&drop) {
            db.dropped_for_backlog.put(txn, &key, &id)?;
        }
    }
    let questions = readable_rows(db.questions.iter(txn)?)?;
    for (id, question) in questions {
        let session = db.sessions_by_id.get(txn, &question.session)?;
        let Some(workspace) = session.filter(|_| question.state == QuestionState::Open) else {
            continue;
        };
        let session = readable(db.sessions.get(txn, &SessionKey { workspace, session: question.session }))?;
        if let Some(agent) = session.as_ref().and_then(Session::as_chat).map(|session| session.agent) {
            db.questions_by_agent.put(txn, &Owned { owner: agent, id }, &())?;
        }
    }
    Ok(())
}
