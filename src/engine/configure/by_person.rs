//! Commands of people in the console. Each needs authority, which is checked in the transaction that carries it out.

use crate::Result;
use crate::approvals::approvers;
use crate::configure::{configure, task};
use crate::entities::console;
use crate::model::address::UserId;
use crate::model::configure::{Change, Configure, RoleSpec};
use crate::model::console::{ConsoleInput, ConsoleSession, Login};
use crate::model::console_command::ConsoleCommand;
use crate::model::entity::{Folder, Origin, Role};
use crate::model::id::{AgentId, ConsoleSessionId};
use crate::model::report::Reply;
use crate::model::task_command::TaskCommand;
use crate::rows::{agents, people};
use crate::rules::texts;
use crate::tx::Tx;

/// Whose authority a command needs.
enum Needed {
    /// That over an agent.
    Agent(AgentId),
    /// That over everything.
    Everything,
    Owner,
}

/// Carries out a command of the person of a session.
pub(crate) fn command(tx: &mut Tx<'_, '_>, session: ConsoleSessionId, command: &ConsoleCommand) -> Result<Reply> {
    let Some(signed_in) = console::signed_in(tx, session)? else {
        return Ok(Reply::refused("unknown", texts::missing("console session", session)));
    };
    match command {
        ConsoleCommand::SignOut(which) => sign_out(tx, &signed_in, *which),
        ConsoleCommand::Task(wanted) => match about_task(tx, wanted)? {
            Some(needed) if may(tx, &signed_in.user, &needed)? => task(tx, wanted.clone()),
            _ => Ok(forbidden()),
        },
        ConsoleCommand::Change(change) => {
            match about_change(tx, change)? {
                Some(needed) if may(tx, &signed_in.user, &needed)? => {}
                _ => return Ok(forbidden()),
            }
            if signed_in.login == Login::Chat && needs_link(change) {
                let message = "You signed in from a chat. To change roles, members, hosts or agents, sign in with a link from \
                               `hearth console`.";
                return Ok(Reply::refused("forbidden", message.to_owned()));
            }
            if takes_last_owner(tx, change)? {
                let message = "This is the only owner. Without one, no one can decide approvals or is told of \
                               problems: make someone else owner first.";
                return Ok(Reply::refused("invalid", message.to_owned()));
            }
            let wanted = Configure::new(vec![change.clone()], Origin::Runtime);
            configure(tx, Configure { by: Some(signed_in.user), ..wanted })
        }
    }
}

/// What exists and may not be done is not told from what does not exist.
fn forbidden() -> Reply {
    Reply::refused("forbidden", "This does not exist, or you may not do it.".to_owned())
}

fn may(tx: &Tx<'_, '_>, user: &UserId, needed: &Needed) -> Result<bool> {
    match needed {
        Needed::Agent(agent) => approvers::administers(tx, user, *agent),
        Needed::Everything => approvers::rules(tx, user),
        Needed::Owner => Ok(people::holders(tx, Role::Owner)?.contains(user)),
    }
}

/// None for commands that the console does not offer, and for tasks that do not exist.
fn about_task(tx: &Tx<'_, '_>, command: &TaskCommand) -> Result<Option<Needed>> {
    match command {
        TaskCommand::Pause(id) | TaskCommand::Resume(id) | TaskCommand::Cancel(id) | TaskCommand::Run(id) => {
            Ok(tx.db.tasks.get(tx, id)?.map(|task| Needed::Agent(task.agent)))
        }
        TaskCommand::Add(_) | TaskCommand::AddPaused(_) | TaskCommand::Set(..) => Ok(None),
    }
}

/// None for changes that the console does not offer, and for agents that do not exist.
fn about_change(tx: &Tx<'_, '_>, change: &Change) -> Result<Option<Needed>> {
    let of = |folder: &Folder| Ok(agents::find(tx, folder)?.map(|(id, _)| Needed::Agent(id)));
    match change {
        Change::AllowHost(folder, _) | Change::DenyHost(folder, _) | Change::RevokeHost(folder, _) => of(folder),
        Change::StopAgent(folder) | Change::FreezeAgent(folder) | Change::UnfreezeAgent(folder) => of(folder),
        Change::DenyChat(..) | Change::AllowChat(..) => Ok(Some(Needed::Everything)),
        Change::AddMember(..) | Change::RemoveMember(..) => Ok(Some(Needed::Everything)),
        Change::Grant(..) | Change::Revoke(..) => Ok(Some(Needed::Owner)),
        _ => Ok(None),
    }
}

/// Whether a session that was signed in from a chat may not make a change.
const fn needs_link(change: &Change) -> bool {
    matches!(
        change,
        Change::Grant(..)
            | Change::Revoke(..)
            | Change::AddMember(..)
            | Change::RemoveMember(..)
            | Change::FreezeAgent(_)
            | Change::UnfreezeAgent(_)
            | Change::AllowHost(..)
            | Change::DenyHost(..)
            | Change::RevokeHost(..)
    )
}

/// Whether a change takes the role of the only owner.
fn takes_last_owner(tx: &Tx<'_, '_>, change: &Change) -> Result<bool> {
    let Change::Revoke(user, RoleSpec::Owner) = change else { return Ok(false) };
    let owners = people::holders(tx, Role::Owner)?;
    Ok(owners.iter().all(|owner| owner == user))
}

fn sign_out(tx: &mut Tx<'_, '_>, by: &ConsoleSession, which: ConsoleSessionId) -> Result<Reply> {
    let known = tx.db.console_sessions.get(tx, &which)?;
    let own = known.is_some_and(|row| row.user == by.user);
    if !own && !approvers::rules(tx, &by.user)? {
        return Ok(forbidden());
    }
    console::session(tx, &ConsoleInput::SignOut(which))
}
