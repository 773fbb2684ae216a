//! All log output of this crate: lines on standard error, of which the host keeps the last ones.

use std::fmt::Display;
use std::io::Write as _;

use crate::secrets;

/// Writes one line.
pub(crate) fn note(message: impl Display) {
    let line = format!("hearth-runner: {message}\n");
    pass_on(secrets::redacted(&line).as_bytes());
}

/// Passes on a provider's standard error. Errors are ignored: a closed standard error is no reason to stop working.
pub(crate) fn pass_on(bytes: &[u8]) {
    if std::io::stderr().lock().write_all(bytes).is_err() {
        // There is no reader, so the error cannot be reported.
    }
}
