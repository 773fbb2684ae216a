//! People with their roles and memberships, as configured by an operator.

use crate::Result;
use crate::entities::change;
use crate::entities::change::ChangeResult;
use crate::model::address::UserId;
use crate::model::configure::{RoleSpec, UserSpec};
use crate::model::entity::{Grant, Membership, Origin, Role, User};
use crate::model::id::AgentId;
use crate::model::report::Action;
use crate::rows::agents;
use crate::rules::texts;
use crate::state::{GrantKey, MemberKey, PersonKey};
use crate::tx::Tx;
use std::collections::BTreeSet;

/// Gives a person exactly these roles and memberships.
pub(crate) fn put(tx: &mut Tx<'_, '_>, spec: &UserSpec, origin: Origin) -> Result<ChangeResult> {
    let wanted = match resolve(tx, spec)? {
        Ok(wanted) => wanted,
        Err(reason) => return Ok(Err(reason)),
    };
    let key = PersonKey::of(&spec.id);
    let before = tx.db.users.get(tx, &key)?;
    let name = spec.name.clone().or_else(|| before.as_ref().and_then(|user| user.name.clone()));
    let row_changed = match &before {
        Some(user) if user.name == name => false,
        Some(user) => tx.db.users.put(tx, &key, &User { name, ..user.clone() }).map(|()| true)?,
        None => {
            let user = User { id: spec.id.clone(), name, origin, created: tx.now.wall };
            tx.db.users.put(tx, &key, &user).map(|()| true)?
        }
    };
    let rights_changed = grant(tx, &spec.id, &wanted, origin)?;
    let action = match (before.is_some(), row_changed || rights_changed) {
        (false, _) => Action::Created,
        (true, true) => Action::Updated,
        (true, false) => Action::Unchanged,
    };
    Ok(Ok(vec![change::report(format!("user {}", spec.id), action)]))
}

/// Removes a person's row, roles and memberships.
pub(crate) fn remove(tx: &mut Tx<'_, '_>, id: &UserId) -> Result<ChangeResult> {
    if !tx.db.users.delete(tx, &PersonKey::of(id))? {
        return Ok(Err(texts::missing("user", id)));
    }
    grant(tx, id, &Rights::default(), Origin::Runtime)?;
    Ok(Ok(vec![change::report(format!("user {id}"), Action::Removed)]))
}

/// The roles and memberships of a person.
#[derive(Default)]
struct Rights {
    roles: BTreeSet<Role>,
    member_of: BTreeSet<AgentId>,
}

fn resolve(tx: &Tx<'_, '_>, spec: &UserSpec) -> Result<std::result::Result<Rights, String>> {
    let mut wanted = Rights::default();
    for role in &spec.roles {
        wanted.roles.insert(match role {
            RoleSpec::Owner => Role::Owner,
            RoleSpec::Admin => Role::GlobalAdmin,
            RoleSpec::AdminOf(folder) => match agents::find(tx, folder)? {
                Some((agent, _)) => Role::AdminOf(agent),
                None => {
                    return Ok(Err(format!("user {}: agent {folder} of the role `admin:{folder}` not found", spec.id)));
                }
            },
        });
    }
    for folder in &spec.member_of {
        match agents::find(tx, folder)? {
            Some((agent, _)) => wanted.member_of.insert(agent),
            None => return Ok(Err(format!("user {}: agent {folder} in `member_of` not found", spec.id))),
        };
    }
    Ok(Ok(wanted))
}

/// Adds missing roles and memberships and removes unwanted ones. Returns whether anything changed.
fn grant(tx: &mut Tx<'_, '_>, user: &UserId, wanted: &Rights, origin: Origin) -> Result<bool> {
    let person = PersonKey::of(user);
    let held = tx.db.roles.collect_prefix(tx, &person, tx.policy.rows_per_input)?;
    let mut changed = false;
    for (key, _) in &held {
        if !wanted.roles.contains(&key.role) {
            tx.db.roles.delete(tx, key)?;
            changed = true;
        }
    }
    for role in &wanted.roles {
        if held.iter().any(|(key, _)| key.role == *role) {
            continue;
        }
        let at = tx.now.wall;
        let grant = Grant { user: user.clone(), at, by: None, origin };
        tx.db.roles.put(tx, &GrantKey { person: person.clone(), role: *role }, &grant)?;
        changed = true;
    }
    Ok(membership(tx, user, wanted, origin)? || changed)
}

fn membership(tx: &mut Tx<'_, '_>, user: &UserId, wanted: &Rights, origin: Origin) -> Result<bool> {
    let person = PersonKey::of(user);
    let mut changed = false;
    // One look-up per agent: agents are few, and an index by person would serve only this.
    for (agent, _) in tx.db.agents.collect_range(tx, .., usize::MAX)? {
        let key = MemberKey { agent, person: person.clone() };
        match (tx.db.members.contains(tx, &key)?, wanted.member_of.contains(&agent)) {
            (true, false) => changed |= tx.db.members.delete(tx, &key)?,
            (false, true) => {
                let row = Membership { user: user.clone(), at: tx.now.wall, by: None, origin };
                tx.db.members.put(tx, &key, &row)?;
                changed = true;
            }
            _ => {}
        }
    }
    Ok(changed)
}
