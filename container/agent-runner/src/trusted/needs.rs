//! `needs-bootstrap`: whether a session still has to read its memory. Exit code 0 means yes and 1 means no. Exactly one
//! case returns 1; every error returns 0.

use std::ffi::OsString;
use std::panic;
use std::path::Path;
use std::process::ExitCode;

use super::json::{Json, Text};
use super::places::Places;
use super::{answer, files, register, say};
use crate::env;

const TOOL: &str = "needs-bootstrap";

/// Result of checking for an earlier bootstrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    IdMissing,
    Missing,
    Unreadable,
    Empty,
    Match,
    Mismatch,
}

impl Reason {
    fn code(self) -> &'static str {
        match self {
            Self::IdMissing => "claude_session_id_missing",
            Self::Missing => "sentinel_missing",
            Self::Unreadable => "sentinel_unreadable",
            Self::Empty => "sentinel_empty",
            Self::Match => "sentinel_match",
            Self::Mismatch => "sentinel_mismatch",
        }
    }
}

/// Returns 1 if the sentinel contains this session's id, else 0.
pub(crate) fn main() -> ExitCode {
    match panic::catch_unwind(run) {
        Ok(Reason::Match) => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => {
            say(TOOL, "failed; assuming bootstrap needed");
            ExitCode::SUCCESS
        }
    }
}

fn run() -> Reason {
    let current = env::raw(register::ID).unwrap_or_default();
    let (reason, stored) = judge(&current, || Places::of_process(TOOL).sentinel());
    let needed = reason != Reason::Match;
    answer(&Json::object([
        ("needs_bootstrap", Json::Bool(needed)),
        ("current", Json::Text(Text::of_system(&current))),
        ("stored", stored.map_or(Json::Null, |stored| Json::text(&stored))),
        ("reason", Json::text(reason.code())),
    ]));
    reason
}

fn judge(current: &OsString, sentinel: impl FnOnce() -> std::path::PathBuf) -> (Reason, Option<String>) {
    if current.is_empty() {
        say(TOOL, format_args!("${} missing/empty; defaulting to bootstrap-needed", register::ID));
        return (Reason::IdMissing, None);
    }
    let text = match stored(&sentinel()) {
        Ok(Some(text)) => text,
        Ok(None) => return (Reason::Missing, None),
        Err(why) => {
            say(TOOL, format_args!("cannot read sentinel at {why}; assuming bootstrap needed"));
            return (Reason::Unreadable, None);
        }
    };
    let stored = super::stripped(&text);
    let reason = if stored.is_empty() {
        Reason::Empty
    } else if current.to_str() == Some(stored) {
        Reason::Match
    } else {
        Reason::Mismatch
    };
    (reason, Some(stored.to_owned()))
}

fn stored(path: &Path) -> Result<Option<String>, String> {
    let at = |why: String| format!("{}: {why}", path.display());
    let Some(bytes) = files::read(path).map_err(|error| at(files::system(&error, path)))? else { return Ok(None) };
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|error| at(format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to())))
}
