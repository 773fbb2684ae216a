//! Whose a token is, and what they may see.

use crate::clock;
use crate::console::{Rank, TokenAge, Visitor};
use crate::model::address::UserId;
use crate::model::console::{ConsoleSession, TokenDigest};
use crate::model::entity::Role;
use crate::model::id::AgentId;
use crate::state::{self, Digest, GrantKey, MemberKey, PersonKey, Read, Tables};

/// What a person may see; none if nothing.
///
/// # Errors
/// A damaged or unreadable store.
pub fn rank(db: &Tables, txn: &Read<'_>, user: &UserId) -> Result<Option<Rank>, state::Error> {
    let person = PersonKey::of(user);
    if db.users.get(txn, &person)?.is_none_or(|row| row.id != *user) {
        return Ok(None);
    }
    let (mut administers, mut talks_to) = (Vec::new(), Vec::new());
    for (GrantKey { role, .. }, grant) in db.roles.collect_prefix(txn, &person, usize::MAX)? {
        match role {
            _ if grant.user != *user => {}
            Role::Owner | Role::GlobalAdmin => return Ok(Some(Rank::Everything)),
            Role::AdminOf(agent) => administers.extend(folder(db, txn, agent)?),
        }
    }
    for row in db.members.iter(txn)? {
        let (MemberKey { agent, person: member }, _) = row?;
        if member == person {
            talks_to.extend(folder(db, txn, agent)?);
        }
    }
    Ok((!administers.is_empty() || !talks_to.is_empty()).then_some(Rank::Some { administers, talks_to }))
}

fn folder(db: &Tables, txn: &Read<'_>, agent: AgentId) -> Result<Option<String>, state::Error> {
    let row = db.agents.get(txn, &agent)?.filter(|row| row.archived.is_none());
    Ok(row.map(|row| row.folder.to_string()))
}

/// The visitor with a token.
pub(super) fn visitor(db: &Tables, txn: &Read<'_>, digest: TokenDigest) -> Result<Option<Visitor>, state::Error> {
    let now = clock::wall();
    let key = Digest::known(digest);
    let newest = db.console_tokens.get(txn, &key)?;
    let Some(session) = newest.map_or_else(|| db.console_replaced_tokens.get(txn, &key), |id| Ok(Some(id)))? else {
        return Ok(None);
    };
    let Some(row) = db.console_sessions.get(txn, &session)?.filter(|row| now < row.expires()) else { return Ok(None) };
    let until = row.replaced.as_ref().map(|replaced| replaced.until);
    let token = match (newest.is_some(), until) {
        (true, Some(None)) => TokenAge::Fresh,
        (true, _) if now >= row.rotated.plus(ConsoleSession::ROTATE) => TokenAge::Due,
        (true, _) => TokenAge::Current,
        (false, Some(Some(until))) if now >= until => return Ok(None),
        (false, _) => TokenAge::Replaced,
    };
    let Some(rank) = rank(db, txn, &row.user)? else { return Ok(None) };
    let name = db.users.get(txn, &PersonKey::of(&row.user))?.and_then(|user| user.name);
    Ok(Some(Visitor { session, name, rank, login: row.login, seed: row.seed, digest, token, user: row.user }))
}
