//! People: their names and their standing with agents.

use crate::Result;
use crate::model::address::UserId;
use crate::model::console;
use crate::model::entity::Role;
use crate::model::id::AgentId;
use crate::model::input::InboundEvent;
use crate::model::message::{Body, Reason};
use crate::rows::destinations;
use crate::rules::access;
use crate::rules::access::AccessLevel;
use crate::state::{Basis, GrantKey, MemberKey, PersonKey, Read, RoleHolderKey, Tables};
use crate::tx::Tx;

/// Maximum number of holders of one role that are considered, far above any real number.
const HOLDERS_MAX: usize = 100;

/// Updates the display name of a known person. Unknown senders get no row.
pub(crate) fn refresh_name(tx: &mut Tx<'_, '_>, user: Option<&UserId>, name: Option<&str>) -> Result<()> {
    let (Some(user), Some(name)) = (user, name) else { return Ok(()) };
    let key = PersonKey::of(user);
    let Some(mut row) = tx.db.users.get(tx, &key)? else { return Ok(()) };
    if row.id != *user || row.name.as_deref() == Some(name) {
        return Ok(());
    }
    row.name = Some(name.to_owned());
    tx.db.users.put(tx, &key, &row)
}

/// The person who sent an event. Only the adapter's sender id establishes an identity. In the console, it is the whole
/// id of the person who signed in.
pub(crate) fn sender_of(event: &InboundEvent) -> Option<UserId> {
    let handle = event.content.sender.clone()?;
    if event.source.channel.as_str() == console::CHANNEL {
        return UserId::parse(handle.as_str()).ok();
    }
    Some(UserId::new(event.source.channel.clone(), handle))
}

/// A sender's standing with an agent. The first match counts.
pub(crate) fn standing(tx: &Tx<'_, '_>, sender: Option<&UserId>, agent: AgentId) -> Result<AccessLevel> {
    let Some(user) = sender else { return Ok(AccessLevel::Nobody) };
    let key = MemberKey { agent, person: PersonKey::of(user) };
    tx.once(Basis::Decisions, &key, || look_up(tx.db, tx, user, &key)).map(|standing| *standing)
}

/// Whether the sender of a chat message is unknown to an agent: without a role and without a membership.
pub(crate) fn is_stranger(db: &Tables, txn: &Read<'_>, body: &Body, agent: AgentId) -> Result<bool> {
    let Some(source) = body.source.as_ref().filter(|source| source.channel.as_str() != destinations::CHANNEL) else {
        return Ok(false);
    };
    let in_console = source.channel.as_str() == console::CHANNEL;
    let Some(user) = body.sender.as_ref().filter(|user| in_console || *user.channel() == source.channel) else {
        return Ok(access::decide_unknown(body.kind, AccessLevel::Nobody));
    };
    let key = MemberKey { agent, person: PersonKey::of(user) };
    Ok(access::decide_unknown(body.kind, look_up(db, txn, user, &key)?))
}

fn look_up(db: &Tables, txn: &Read<'_>, user: &UserId, key: &MemberKey) -> Result<AccessLevel> {
    for (role, reason) in [
        (Role::Owner, Reason::Owner),
        (Role::GlobalAdmin, Reason::GlobalAdmin),
        (Role::AdminOf(key.agent), Reason::AdminOfAgent),
    ] {
        if has_role(db, txn, user, role)? {
            return Ok(AccessLevel::Known(reason));
        }
    }
    Ok(if is_member(db, txn, user, key.agent)? { AccessLevel::Known(Reason::Member) } else { AccessLevel::Stranger })
}

/// Whether a person is a member of an agent.
pub(crate) fn is_member(db: &Tables, txn: &Read<'_>, user: &UserId, agent: AgentId) -> Result<bool> {
    let membership = db.members.get(txn, &MemberKey { agent, person: PersonKey::of(user) })?;
    Ok(membership.is_some_and(|membership| membership.user == *user))
}

/// Whether a person holds a role.
pub(crate) fn has_role(db: &Tables, txn: &Read<'_>, user: &UserId, role: Role) -> Result<bool> {
    let grant = db.roles.get(txn, &GrantKey { person: PersonKey::of(user), role })?;
    // The key may hold a digest of the id, so the full id in the row is compared.
    Ok(grant.is_some_and(|grant| grant.user == *user))
}

/// The holders of a role, in the order in which it was granted.
pub(crate) fn holders(tx: &Tx<'_, '_>, role: Role) -> Result<Vec<UserId>> {
    let mut users = Vec::new();
    for (RoleHolderKey { person, .. }, ()) in tx.db.roles_by_grant.collect_prefix(tx, &role, HOLDERS_MAX)? {
        users.extend(tx.db.roles.get(tx, &GrantKey { person, role })?.map(|grant| grant.user));
    }
    Ok(users)
}
