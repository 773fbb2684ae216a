//! The only reader of environment variables in this crate.

use std::ffi::OsString;

use hearth_zone::Zone;

use crate::roots::{Roots, Start, StartError};

/// What the variables of this process ask for.
pub(crate) fn start() -> Result<Start, StartError> {
    Start::from_variables(&variable)
}

/// What a self-test wants to have tried instead of a session's work.
pub(crate) fn probe() -> Option<String> {
    variable(crate::probe::PROBE_VARIABLE)
}

/// Whether children inherit a variable.
pub(crate) fn is_set(name: &str) -> bool {
    variable(name).is_some()
}

/// The directories that this process was told, for what does not run a session.
pub(crate) fn roots() -> Result<Roots, StartError> {
    Roots::from_variables(&variable)
}

/// The zone of this process, if it is one.
pub(crate) fn zone() -> Option<Zone> {
    variable("TZ").and_then(|name| Zone::parse(name.trim_start_matches(':')).ok())
}

/// All variables of this process.
pub(crate) fn all() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
}

/// A variable as text; one that is not Unicode shows its replacement characters and fails where it is parsed.
#[expect(clippy::disallowed_methods, reason = "the runner's one reader of the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// A variable as the system has it, Unicode or not.
#[expect(clippy::disallowed_methods, reason = "the runner's one reader of the environment")]
pub(crate) fn raw(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
