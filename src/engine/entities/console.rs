//! The console: its settings, and the sessions of people who signed in.

use crate::Result;
use crate::entities::change;
use crate::entities::change::ChangeResult;
use crate::model::address::UserId;
use crate::model::console::{ConsoleInput, ConsoleSession, ConsoleSettings, Login, ReplacedToken, TokenDigest};
use crate::model::id::ConsoleSessionId;
use crate::model::report::{Action, Reply};
use crate::rules::texts;
use crate::state::{Digest, PersonKey};
use crate::tx::Tx;

/// Switches the console on or off, or changes where it listens.
pub(crate) fn put(tx: &mut Tx<'_, '_>, settings: &ConsoleSettings) -> Result<ChangeResult> {
    let before = tx.db.console.get(tx, &())?;
    let action = match &before {
        Some(before) if before == settings => Action::Unchanged,
        Some(_) => Action::Updated,
        None => Action::Created,
    };
    if action != Action::Unchanged {
        tx.db.console.put(tx, &(), settings)?;
    }
    Ok(Ok(vec![change::report("console".to_owned(), action)]))
}

/// Begins, changes or ends a session.
pub(crate) fn session(tx: &mut Tx<'_, '_>, input: &ConsoleInput) -> Result<Reply> {
    match input {
        ConsoleInput::SignIn { user, token, browser, login } => {
            let browser = NewBrowser { name: browser, login: *login };
            sign_in(tx, user, *token, &browser)
        }
        ConsoleInput::Rotate { session, from, to } => rotate(tx, *session, *from, *to),
        ConsoleInput::Confirm(session) => confirm(tx, *session),
        ConsoleInput::SignOut(session) => {
            if !tx.db.console_sessions.delete(tx, session)? {
                return Ok(gone(*session));
            }
            Ok(Reply::Console(*session))
        }
    }
}

/// A session that has not ended.
pub(crate) fn signed_in(tx: &Tx<'_, '_>, session: ConsoleSessionId) -> Result<Option<ConsoleSession>> {
    Ok(tx.db.console_sessions.get(tx, &session)?.filter(|row| tx.now.wall < row.expires()))
}

fn gone(session: ConsoleSessionId) -> Reply {
    Reply::refused("unknown", texts::missing("console session", session))
}

/// A browser in which a person signs in.
struct NewBrowser<'a> {
    /// What it calls itself.
    name: &'a str,
    login: Login,
}

fn sign_in(tx: &mut Tx<'_, '_>, user: &UserId, token: TokenDigest, browser: &NewBrowser<'_>) -> Result<Reply> {
    if !may_sign_in(tx, user)? {
        let message = format!("{user} has no role and is a member of no agent, so the console has nothing to show");
        return Ok(Reply::refused("forbidden", message));
    }
    let key = Digest::known(token);
    if tx.db.console_tokens.contains(tx, &key)? || tx.db.console_replaced_tokens.contains(tx, &key)? {
        return Ok(Reply::refused("taken", "this token is that of another session".to_owned()));
    }
    make_room(tx)?;
    let login = browser.login;
    let browser: String = browser.name.chars().filter(|c| !c.is_control()).take(ConsoleSession::BROWSER_MAX).collect();
    let now = tx.now.wall;
    let row = ConsoleSession {
        user: user.clone(),
        token,
        replaced: None,
        seed: token,
        browser,
        signed_in: now,
        rotated: now,
        login,
    };
    let id = tx.db.allocate::<ConsoleSessionId>(tx)?;
    tx.db.console_sessions.put(tx, &id, &row)?;
    Ok(Reply::Console(id))
}

/// Whether a person has a role or is a member of an agent.
pub(crate) fn may_sign_in(tx: &Tx<'_, '_>, user: &UserId) -> Result<bool> {
    let person = PersonKey::of(user);
    let known = tx.db.users.get(tx, &person)?.is_some_and(|row| row.id == *user);
    if !known {
        return Ok(false);
    }
    if tx.db.roles.collect_prefix(tx, &person, 1)?.iter().any(|(_, grant)| grant.user == *user) {
        return Ok(true);
    }
    for row in tx.db.members.iter(tx)? {
        let (key, _) = row?;
        if key.person == person {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Ends sessions that are over, and the one that was used least recently if there are too many.
fn make_room(tx: &mut Tx<'_, '_>) -> Result<()> {
    let mut rows = tx.db.console_sessions.collect_range(tx, .., ConsoleSession::MAX.saturating_mul(2))?;
    rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.rotated));
    for (at, (id, row)) in rows.iter().enumerate() {
        if row.expires() <= tx.now.wall || at.saturating_add(1) >= ConsoleSession::MAX {
            tx.db.console_sessions.delete(tx, id)?;
        }
    }
    Ok(())
}

/// Replaces a token. The old one works until the new one was used, and for a moment afterwards.
fn rotate(tx: &mut Tx<'_, '_>, id: ConsoleSessionId, from: TokenDigest, to: TokenDigest) -> Result<Reply> {
    let Some(row) = tx.db.console_sessions.get(tx, &id)? else { return Ok(gone(id)) };
    if row.token != from || row.expires() <= tx.now.wall {
        return Ok(Reply::refused("stale", "another request replaced this token already".to_owned()));
    }
    let replaced = Some(ReplacedToken { token: from, until: None });
    let rotated = tx.now.wall;
    tx.db.console_sessions.put(tx, &id, &ConsoleSession { token: to, replaced, rotated, ..row })?;
    Ok(Reply::Console(id))
}

fn confirm(tx: &mut Tx<'_, '_>, id: ConsoleSessionId) -> Result<Reply> {
    let Some(mut row) = tx.db.console_sessions.get(tx, &id)? else { return Ok(gone(id)) };
    if let Some(ReplacedToken { until: until @ None, .. }) = &mut row.replaced {
        *until = Some(tx.now.wall.plus(ConsoleSession::OVERLAP));
        tx.db.console_sessions.put(tx, &id, &row)?;
    }
    Ok(Reply::Console(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Timestamp;

    #[test]
    fn a_session_ends_after_a_week_without_requests_or_a_month() {
        let at = Timestamp::from_millis;
        let row = |rotated| ConsoleSession {
            user: UserId::parse("telegram:1").unwrap(),
            token: [1; 32],
            replaced: None,
            seed: [1; 32],
            browser: String::new(),
            signed_in: at(0),
            rotated: at(rotated),
            login: Login::Link,
        };
        let day = 24 * 3_600_000;
        assert_eq!(row(0).expires(), at(7 * day));
        assert_eq!(row(5 * day).expires(), at(12 * day));
        assert_eq!(row(29 * day).expires(), at(30 * day));
    }
}
