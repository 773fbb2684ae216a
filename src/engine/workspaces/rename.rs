//! What a session is called.

use super::super::Cx;
use super::rows::{self, Found, Outcome};
use crate::model::id::SessionId;
use crate::model::session_command::{SessionOutcome, SessionRefusal};
use crate::state::Write;

/// Most characters of a title.
const TITLE_MAX: usize = 200;

/// Gives a session a title or takes it away. It does not become the newest by that.
pub(super) fn rename(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: SessionId,
    title: Option<String>,
) -> Outcome<(Found, SessionOutcome)> {
    check(title.as_deref())?;
    let before = rows::load(cx, txn, id)?;
    if before.row.title == title {
        return Ok((before, SessionOutcome::Unchanged));
    }
    let mut found = before.clone();
    found.row.title = title;
    rows::save(cx, txn, &before, &found)?;
    Ok((found, SessionOutcome::Changed))
}

/// Whether a title can be one.
pub(super) fn check(title: Option<&str>) -> std::result::Result<(), SessionRefusal> {
    let fine = |title: &str| {
        !title.trim().is_empty() && title.chars().count() <= TITLE_MAX && !title.chars().any(char::is_control)
    };
    if title.is_none_or(fine) { Ok(()) } else { Err(SessionRefusal::BadTitle { max: TITLE_MAX }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_line_that_says_something() {
        let long = "x".repeat(TITLE_MAX);
        for (title, fine) in [("Review", true), ("  ", false), ("", false), ("a\nb", false), (long.as_str(), true)] {
            assert_eq!(check(Some(title)).is_ok(), fine, "{title:?}");
        }
        assert!(check(Some(&format!("{long}x"))).is_err());
        assert!(check(None).is_ok());
    }
}
