//! What a session is called.

use super::super::Cx;
use super::rows::{self, Found, Outcome};
use crate::model::id::SessionId;
use crate::model::session_command::{NewSession, SessionOutcome, SessionRefusal};
use crate::state::Write;

/// Most characters of a title, or of another name that people give.
const NAME_MAX: usize = 200;

/// Gives a session a title or takes it away. It does not become the newest by that.
pub(super) fn rename(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: SessionId,
    title: Option<String>,
) -> Outcome<(Found, SessionOutcome)> {
    check("title", title.as_deref())?;
    let before = rows::load(cx, txn, id)?;
    if before.row.title == title {
        return Ok((before, SessionOutcome::Unchanged));
    }
    let mut found = before.clone();
    found.row.title = title;
    rows::save(cx, txn, &before, &found)?;
    Ok((found, SessionOutcome::Changed))
}

/// Whether the names of a new session can be such.
pub(super) fn check_new(new: &NewSession) -> std::result::Result<(), SessionRefusal> {
    check("title", new.title.as_deref()).and_then(|()| check("model", new.model.as_deref()))
}

/// Whether a name can be one.
pub(super) fn check(what: &'static str, name: Option<&str>) -> std::result::Result<(), SessionRefusal> {
    let fine =
        |name: &str| !name.trim().is_empty() && name.chars().count() <= NAME_MAX && !name.chars().any(char::is_control);
    if name.is_none_or(fine) { Ok(()) } else { Err(SessionRefusal::BadName { what, max: NAME_MAX }) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
