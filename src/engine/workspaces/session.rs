//! Every command about a workspace session is one transaction.

use super::super::{Applied, Cx, Result};
use super::rows::{Halt, Outcome};
use super::{append, clear, compact, create, delete, fork, lease, purge, rename, rows, switch};
use crate::model::effect::Effect;
use crate::model::policy::Policy;
use crate::model::report::Reply;
use crate::model::session_command::{SessionCommand, SessionDone, SessionOutcome, SessionRefusal};
use crate::state::Write;

/// Carries out one command.
pub(super) fn session(cx: &Cx<'_>, txn: &mut Write<'_>, command: &SessionCommand) -> Result<Applied> {
    let mut effects = Vec::new();
    match carry_out(cx, txn, command.clone(), &mut effects) {
        Ok(done) => Ok(Applied::new(Reply::Session(Box::new(Ok(done))), effects)),
        Err(Halt::Refused(refusal)) => Ok(Applied::new(Reply::Session(Box::new(Err(refusal))), Vec::new())),
        Err(Halt::Failed(error)) => Err(error),
    }
}

fn carry_out(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    command: SessionCommand,
    effects: &mut Vec<Effect>,
) -> Outcome<SessionDone> {
    let (found, what) = match command {
        SessionCommand::Create(new) => (create::create(cx, txn, *new)?, SessionOutcome::Changed),
        SessionCommand::Append(id, records, guard) => append::append(cx, txn, (id, guard), &records)?,
        SessionCommand::Fork(wanted) => fork::fork(cx, txn, *wanted)?,
        SessionCommand::Clear(id, guard) => clear::clear(cx, txn, id, guard)?,
        SessionCommand::Compact(id, wanted, guard) => compact::compact(cx, txn, (id, guard), wanted)?,
        SessionCommand::Rename(id, title) => rename::rename(cx, txn, id, title)?,
        SessionCommand::Switch(id) => switch::switch(cx, txn, id)?,
        SessionCommand::Delete(id, guard) => delete::delete(cx, txn, id, guard)?,
        SessionCommand::Restore(id) => delete::restore(cx, txn, id)?,
        SessionCommand::Purge(id, guard) => purge::purge(cx, txn, (id, guard), effects)?,
        SessionCommand::Take(id, holder, guard) => lease::take(cx, txn, (id, guard), holder)?,
        SessionCommand::Beat(id, epoch) => lease::beat(cx, txn, id, epoch)?,
        SessionCommand::Release(id, epoch) => lease::release(cx, txn, id, epoch)?,
    };
    Ok(SessionDone { workspace: found.workspace, id: found.id, row: found.row, what })
}

/// Why a command would be refused whatever is in the store: nothing needs to be opened, or made, to hear that.
#[must_use]
pub fn refused_as_given(command: &SessionCommand, policy: &Policy) -> Option<SessionRefusal> {
    match command {
        SessionCommand::Create(new) => rename::check_new(new).and_then(|()| rows::check(&new.records, policy)).err(),
        SessionCommand::Append(_, records, _) => rows::check(records, policy).err(),
        SessionCommand::Fork(wanted) => fork::check(wanted).err(),
        SessionCommand::Rename(_, title) => rename::check("title", title.as_deref()).err(),
        _ => None,
    }
}

/// Whether it is refused when there is no room: what makes room, and what says who works, goes on.
pub(super) const fn is_new_work(command: &SessionCommand) -> bool {
    match command {
        SessionCommand::Create(_)
        | SessionCommand::Append(..)
        | SessionCommand::Fork(_)
        | SessionCommand::Compact(..)
        | SessionCommand::Rename(..) => true,
        SessionCommand::Clear(..)
        | SessionCommand::Switch(_)
        | SessionCommand::Delete(..)
        | SessionCommand::Restore(_)
        | SessionCommand::Purge(..)
        | SessionCommand::Take(..)
        | SessionCommand::Beat(..)
        | SessionCommand::Release(..) => false,
    }
}
