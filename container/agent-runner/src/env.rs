//! All access of this crate to environment variables.

use std::ffi::OsString;

use hearth_zone::Zone;

use crate::roots::{Roots, Start, StartError};

/// The start parameters in this process's variables.
pub(crate) fn start() -> Result<Start, StartError> {
    Start::from_variables(&variable)
}

/// The attempts of a self-test, which replace a session's work.
pub(crate) fn probe() -> Option<String> {
    variable(crate::probe::PROBE_VARIABLE)
}

/// Whether children inherit a variable.
pub(crate) fn is_set(name: &str) -> bool {
    variable(name).is_some()
}

/// The configured directories, for commands that do not run a session.
pub(crate) fn roots() -> Result<Roots, StartError> {
    Roots::from_variables(&variable)
}

/// The process's time zone, if it is valid.
pub(crate) fn zone() -> Option<Zone> {
    variable("TZ").and_then(|name| Zone::parse(name.trim_start_matches(':')).ok())
}

/// All variables of this process.
pub(crate) fn all() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
}

/// A variable as text. Invalid Unicode becomes replacement characters, which the parser then rejects.
#[expect(clippy::disallowed_methods, reason = "the runner's one reader of the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// A variable as the system has it, Unicode or not.
#[expect(clippy::disallowed_methods, reason = "the runner's one reader of the environment")]
pub(crate) fn raw(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
