//! Commands for the files that trusted agents share: session state, memory, skip summaries. They take the place of the
//! scripts of an earlier system and keep what other programs rely on: paths, formats, locks, exit codes, diagnostics.
//! `docs/trusted.md` says what they do and where they differ.

mod continuation;
mod database;
mod files;
mod json;
mod needs;
mod places;
mod register;
mod state_file;
mod time;

use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;

use json::Json;

use crate::log;

/// The commands, for people.
pub(crate) const NAMES: &str = "`register-session`, `needs-bootstrap`";

/// Runs one of these commands; `None` if it is none of them.
pub(crate) fn main(command: &str, _arguments: &[String]) -> Option<ExitCode> {
    Some(match command {
        "register-session" => register::main(),
        "needs-bootstrap" => needs::main(),
        _ => return None,
    })
}

/// One line for people, as the program of this name would say it.
fn say(tool: &str, message: impl Display) {
    log::pass_on(format!("{tool}: {message}\n").as_bytes());
}

/// One line for programs. What was done is done, whoever reads of it.
fn answer(value: &Json) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{}", json::line(value)).and_then(|()| out.flush()).is_err() {
        // The exit code says it too.
    }
}

/// White space in the sense of these files: Unicode's, and the information separators.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}
