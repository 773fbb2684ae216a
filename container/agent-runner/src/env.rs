//! All access of this crate to environment variables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::OnceLock;

use hearth_zone::Zone;

/// JSON object of directories, see [`crate::Roots`].
pub const ROOTS_VARIABLE: &str = "HEARTH_ROOTS";
/// Number of the incarnation this process is.
pub const INCARNATION_VARIABLE: &str = "HEARTH_INCARNATION";
/// Descriptor of the life pipe, see `life.rs`.
pub const LIFE_VARIABLE: &str = "HEARTH_LIFE_FD";
/// Descriptor of the lock by which the host sees whether anything of this incarnation still lives.
pub const LOCK_VARIABLE: &str = "HEARTH_LOCK_FD";
/// Named pipe from which secrets are read before anything else, see `handed.rs`.
pub const SECRETS_VARIABLE: &str = "HEARTH_SECRETS";
/// Names of the variables that came through the pipe, with commas between them. The runner sets it for itself.
pub const SECRET_NAMES_VARIABLE: &str = "HEARTH_SECRET_NAMES";
/// JSON object with the socket of the model gateway and the addresses that lead to it, see `gateway.rs`.
pub const GATEWAY_VARIABLE: &str = "HEARTH_GATEWAY";
/// JSON object with the socket of the way out and the ports that rules name, see `way/mod.rs`.
pub const NETWORK_VARIABLE: &str = "HEARTH_NETWORK";

static ADDED: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// Adds variables to those of the system, for this process and every program that it starts. Only the first call counts.
pub(crate) fn add(variables: BTreeMap<String, String>) {
    ADDED.get_or_init(|| variables);
}

/// The variables that [`add`] added.
pub(crate) fn added() -> impl Iterator<Item = (&'static str, String)> {
    ADDED.get().into_iter().flatten().map(|(name, value)| (name.as_str(), value.clone()))
}

/// Whether children inherit a variable.
pub(crate) fn is_set(name: &str) -> bool {
    variable(name).is_some()
}

/// The process's time zone, if it is valid.
pub(crate) fn zone() -> Option<Zone> {
    variable("TZ").and_then(|name| Zone::parse(name.trim_start_matches(':')).ok())
}

/// All variables of this process.
pub(crate) fn all() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
}

/// A variable as text, as programs that the runner starts have it. Invalid Unicode becomes replacement characters, which the
/// parser then rejects.
#[expect(clippy::disallowed_methods, reason = "the runner's one reader of the environment")]
pub(crate) fn variable(name: &str) -> Option<String> {
    let added = added().find(|(variable, _)| *variable == name).map(|(_, value)| value);
    added.or_else(|| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
}

/// A variable as the system has it, Unicode or not.
#[expect(clippy::disallowed_methods, reason = "the runner's one reader of the environment")]
pub(crate) fn raw(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
