//! The one place that talks to people: notes on stderr, of which the host keeps the end.

use std::fmt::Display;
use std::io::Write as _;

use crate::secrets;

/// Writes one line.
pub(crate) fn note(message: impl Display) {
    let line = format!("hearth-runner: {message}\n");
    pass_on(secrets::redacted(&line).as_bytes());
}

/// Writes what a provider wrote to its stderr. A closed stderr is no reason to stop working, so errors are not looked at.
pub(crate) fn pass_on(bytes: &[u8]) {
    if std::io::stderr().lock().write_all(bytes).is_err() {
        // Nobody reads: there is nobody left to tell.
    }
}
