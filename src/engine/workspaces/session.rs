//! Commands about workspace sessions. Each is one transaction.

use crate::Result;
use crate::model::policy::Policy;
use crate::model::report::Reply;
use crate::model::session_command::{SessionCommand, SessionDone, SessionOutcome, SessionRefusal};
use crate::tx::Tx;
use crate::workspaces::rows::{Halt, Outcome};
use crate::workspaces::{append, clear, compact, create, delete, fork, lease, purge, rename, rows, switch};

/// Carries out a command.
pub(crate) fn session(tx: &mut Tx<'_, '_>, command: &SessionCommand) -> Result<Reply> {
    match carry_out(tx, command.clone()) {
        Ok(done) => Ok(Reply::Session(Box::new(Ok(done)))),
        Err(Halt::Refused(refusal)) => Ok(Reply::Session(Box::new(Err(refusal)))),
        Err(Halt::Failed(error)) => Err(error),
    }
}

fn carry_out(tx: &mut Tx<'_, '_>, command: SessionCommand) -> Outcome<SessionDone> {
    let (found, what) = match command {
        SessionCommand::Create(new) => (create::create(tx, *new)?, SessionOutcome::Changed),
        SessionCommand::Append(id, records, guard) => append::append(tx, id, guard, &records)?,
        SessionCommand::Fork(wanted) => fork::fork(tx, *wanted)?,
        SessionCommand::Clear(id, guard) => clear::clear(tx, id, guard)?,
        SessionCommand::Compact(id, wanted, guard) => compact::compact(tx, id, guard, wanted)?,
        SessionCommand::Rename(id, title) => rename::rename(tx, id, title)?,
        SessionCommand::Switch(id) => switch::switch(tx, id)?,
        SessionCommand::Delete(id, guard) => delete::delete(tx, id, guard)?,
        SessionCommand::Restore(id) => delete::restore(tx, id)?,
        SessionCommand::Purge(id, guard) => purge::purge(tx, id, guard)?,
        SessionCommand::Take(id, holder, guard) => lease::take(tx, id, guard, holder)?,
        SessionCommand::Beat(id, epoch) => lease::beat(tx, id, epoch)?,
        SessionCommand::Release(id, epoch) => lease::release(tx, id, epoch)?,
    };
    Ok(SessionDone { workspace: found.workspace, id: found.id, row: found.row, what })
}

/// Why a command would be refused regardless of what is stored, so that no store has to be opened or created to find
/// out.
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

/// Whether a command is refused while the store is full. Commands that free space or manage leases are not.
pub(crate) const fn is_new_work(command: &SessionCommand) -> bool {
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
