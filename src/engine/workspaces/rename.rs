//! Names of sessions.

use crate::model::id::SessionId;
use crate::model::session_command::{NewSession, SessionOutcome, SessionRefusal};
use crate::tx::Tx;
use crate::workspaces::rows;
use crate::workspaces::rows::{Outcome, StoredSession};

/// Maximum length of a title or another given name, in characters.
const NAME_MAX: usize = 200;

/// Sets or removes the title of a session. This does not make it the newest one.
pub(crate) fn rename(
    tx: &mut Tx<'_, '_>,
    id: SessionId,
    title: Option<String>,
) -> Outcome<(StoredSession, SessionOutcome)> {
    check("title", title.as_deref())?;
    let before = rows::load(tx, id)?;
    if before.row.title == title {
        return Ok((before, SessionOutcome::Unchanged));
    }
    let mut found = before.clone();
    found.row.title = title;
    rows::save(tx, &before, &found)?;
    Ok((found, SessionOutcome::Changed))
}

/// Checks the names of a new session.
pub(crate) fn check_new(new: &NewSession) -> std::result::Result<(), SessionRefusal> {
    check("title", new.title.as_deref()).and_then(|()| check("model", new.model.as_deref()))
}

/// Checks a name.
pub(crate) fn check(what: &'static str, name: Option<&str>) -> std::result::Result<(), SessionRefusal> {
    let fine =
        |name: &str| !name.trim().is_empty() && name.chars().count() <= NAME_MAX && !name.chars().any(char::is_control);
    if name.is_none_or(fine) { Ok(()) } else { Err(SessionRefusal::BadName { what, max: NAME_MAX }) }
}

#[cfg(test)]
mod tests {
    use crate::workspaces::rename::*;

    #[test]
    fn titles_are_one_line_that_says_something() {
        let long = "x".repeat(NAME_MAX);
        for (title, fine) in [("Review", true), ("  ", false), ("", false), ("a\nb", false), (long.as_str(), true)] {
            assert_eq!(check("title", Some(title)).is_ok(), fine, "{title:?}");
        }
        assert!(check("title", Some(&format!("{long}x"))).is_err());
        assert!(check("title", None).is_ok());
    }
}
