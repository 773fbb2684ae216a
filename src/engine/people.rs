//! People with their roles and memberships, as an operator describes them.

use std::collections::BTreeSet;

use super::configure::{Made, missing, report};
use super::{Cx, Result, agents};
use crate::model::address::UserId;
use crate::model::configure::{RoleSpec, UserSpec};
use crate::model::entity::{Grant, Membership, Origin, Role, User};
use crate::model::id::AgentId;
use crate::model::report::Action;
use crate::state::{ForeignKey, Write};

/// Makes a person have exactly these roles and memberships.
pub(super) fn put(cx: &Cx<'_>, txn: &mut Write<'_>, spec: &UserSpec, origin: Origin) -> Result<Made> {
    let wanted = match resolve(cx, txn, spec)? {
        Ok(wanted) => wanted,
        Err(reason) => return Ok(Err(reason)),
    };
    let key = ForeignKey::user(&spec.id);
    let before = cx.db.users.get(txn, &key)?;
    let name = spec.name.clone().or_else(|| before.as_ref().and_then(|user| user.name.clone()));
    let row_changed = match &before {
        Some(user) if user.name == name => false,
        Some(user) => cx.db.users.put(txn, &key, &User { name, ..user.clone() }).map(|()| true)?,
        None => {
            let user = User { id: spec.id.clone(), name, origin, created: cx.now.wall };
            cx.db.users.put(txn, &key, &user).map(|()| true)?
        }
    };
    let rights_changed = grant(cx, txn, &spec.id, &wanted, origin)?;
    let action = match (before.is_some(), row_changed || rights_changed) {
        (false, _) => Action::Created,
        (true, true) => Action::Updated,
        (true, false) => Action::Unchanged,
    };
    Ok(Ok(vec![report(format!("user {}", spec.id), action)]))
}

/// Removes a person's row, roles and memberships.
pub(super) fn remove(cx: &Cx<'_>, txn: &mut Write<'_>, id: &UserId) -> Result<Made> {
    if !cx.db.users.delete(txn, &ForeignKey::user(id))? {
        return Ok(Err(missing("user", id)));
    }
    grant(cx, txn, id, &Rights::default(), Origin::Runtime)?;
    Ok(Ok(vec![report(format!("user {id}"), Action::Removed)]))
}

/// What a person may do.
#[derive(Default)]
struct Rights {
    roles: BTreeSet<Role>,
    member_of: BTreeSet<AgentId>,
}

fn resolve(cx: &Cx<'_>, txn: &Write<'_>, spec: &UserSpec) -> Result<std::result::Result<Rights, String>> {
    let mut wanted = Rights::default();
    for role in &spec.roles {
        wanted.roles.insert(match role {
            RoleSpec::Owner => Role::Owner,
            RoleSpec::Admin => Role::GlobalAdmin,
            RoleSpec::AdminOf(folder) => match agents::find(cx, txn, folder)? {
                Some((agent, _)) => Role::AdminOf(agent),
                None => return Ok(Err(format!("user {}: there is no agent {folder} to be admin of", spec.id))),
            },
        });
    }
    for folder in &spec.member_of {
        match agents::find(cx, txn, folder)? {
            Some((agent, _)) => wanted.member_of.insert(agent),
            None => return Ok(Err(format!("user {}: there is no agent {folder} to be a member of", spec.id))),
        };
    }
    Ok(Ok(wanted))
}

/// Adds what is wanted and missing, removes what is there and not wanted; tells whether anything changed.
fn grant(cx: &Cx<'_>, txn: &mut Write<'_>, user: &UserId, wanted: &Rights, origin: Origin) -> Result<bool> {
    let (channel, handle) = ForeignKey::user(user);
    let person = (channel.clone(), handle.clone());
    let held = cx.db.roles.collect_prefix(txn, &person, cx.policy.rows_per_input)?;
    let mut changed = false;
    for ((_, _, role), grant) in &held {
        if !wanted.roles.contains(role) {
            cx.db.roles.delete(txn, &(channel.clone(), handle.clone(), *role))?;
            cx.db.roles_by_grant.delete(txn, &(*role, grant.at, channel.clone(), handle.clone()))?;
            changed = true;
        }
    }
    for role in &wanted.roles {
        if held.iter().any(|((_, _, held), _)| held == role) {
            continue;
        }
        let grant = Grant { user: user.clone(), at: cx.now.wall, by: None, origin };
        cx.db.roles.put(txn, &(channel.clone(), handle.clone(), *role), &grant)?;
        cx.db.roles_by_grant.put(txn, &(*role, cx.now.wall, channel.clone(), handle.clone()), &())?;
        changed = true;
    }
    Ok(membership(cx, txn, user, wanted, origin)? || changed)
}

fn membership(cx: &Cx<'_>, txn: &mut Write<'_>, user: &UserId, wanted: &Rights, origin: Origin) -> Result<bool> {
    let (channel, handle) = ForeignKey::user(user);
    let mut changed = false;
    // One look-up per agent: agents are few, and an index by person would have to be kept for this alone.
    for (agent, _) in cx.db.agents.collect_range(txn, .., usize::MAX)? {
        let key = (agent, channel.clone(), handle.clone());
        match (cx.db.members.contains(txn, &key)?, wanted.member_of.contains(&agent)) {
            (true, false) => changed |= cx.db.members.delete(txn, &key)?,
            (false, true) => {
                let row = Membership { user: user.clone(), at: cx.now.wall, by: None, origin };
                cx.db.members.put(txn, &key, &row)?;
                changed = true;
            }
            _ => {}
        }
    }
    Ok(changed)
}
