//! `hearth check`: proves that the store agrees with itself, also beside a running daemon.

use super::{Done, Failure, out};
use crate::config::Paths;
use crate::state::{Reader, check};

/// Checks every table and every index; fails if anything does not agree.
pub(super) fn check(paths: &Paths, json: bool) -> Done {
    let reader = Reader::open_proved(paths.data())?;
    let violations = check::check_in_parts(&reader)?;
    if json {
        let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
        out::json(&serde_json::json!({ "violations": list }))?;
    } else if violations.is_empty() {
        out::line("the store is sound")?;
    } else {
        for violation in &violations {
            out::line(&violation.to_string())?;
        }
    }
    if violations.is_empty() { Ok(()) } else { Err(Failure::Failed(format!("{} violations", violations.len()))) }
}
