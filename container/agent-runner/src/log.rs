//! The one place that talks to people: notes on stderr, of which the host keeps the end.

use std::fmt::Display;
use std::io::Write as _;

/// Writes one line. A closed stderr is no reason to stop working, so its errors are not looked at.
pub(crate) fn note(message: impl Display) {
    let line = format!("hearth-runner: {message}\n");
    if std::io::stderr().lock().write_all(line.as_bytes()).is_err() {
        // Nobody reads: there is nobody left to tell.
    }
}
