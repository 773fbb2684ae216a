//! The host's environment. Only this module reads it.

use std::ffi::OsString;
use std::path::PathBuf;

/// Search path of programs when the host has none.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The value that a reference `env:NAME` stands for; none if it is unset or no text.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one reader of the environment")]
pub fn env_lookup(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The search path that agents get: the host's own, because that is where the operator's programs are.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one reader of the environment")]
pub fn child_path() -> OsString {
    std::env::var_os("PATH").filter(|path| !path.is_empty()).unwrap_or_else(|| DEFAULT_PATH.into())
}

/// A variable that names a file or a directory. Unset and empty are the same, as in the XDG specification.
#[expect(clippy::disallowed_methods, reason = "the one reader of the environment")]
pub(super) fn path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The home directory of the user who runs this program.
#[must_use]
pub fn home() -> Option<PathBuf> {
    path("HOME").or_else(|| path("USERPROFILE"))
}

/// The working directory as the shell names it. The path may contain links.
#[must_use]
pub fn typed_in() -> Option<PathBuf> {
    path("PWD").filter(|path| path.is_absolute())
}

/// The socket for systemd's service notifications; none if there is none.
#[must_use]
pub fn notify_socket() -> Option<PathBuf> {
    path("NOTIFY_SOCKET")
}

/// Whether standard error goes to systemd's journal, which adds timestamps itself.
#[must_use]
pub fn in_journal() -> bool {
    let named = env_lookup("JOURNAL_STREAM");
    let is = rustix::fs::fstat(std::io::stderr()).ok().map(|found| format!("{}:{}", found.st_dev, found.st_ino));
    // A program that redirects standard error still passes the variable on.
    named.is_some() && named == is
}

/// Whether a text can name a variable in every shell.
#[must_use]
pub fn is_env_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    name.bytes().all(plain) && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_variables() {
        for name in ["A", "_", "a_1", "PATH"] {
            assert!(is_env_name(name), "{name}");
        }
        for name in ["", "1A", "A-B", "A B", "ä", "A=B", "A\0"] {
            assert!(!is_env_name(name), "{name:?}");
        }
    }

    #[test]
    fn an_unset_variable_is_none() {
        assert_eq!(env_lookup("HEARTH_TEST_NO_SUCH_VARIABLE"), None);
        assert!(!child_path().is_empty());
    }
}
