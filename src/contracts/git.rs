//! Queries git about a directory, within limits of time and size. Its output is treated as untrusted text.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::answer::{ANSWER_MAX, answer};

/// Timeout.
const PATIENCE: Duration = Duration::from_secs(3);
/// Maximum number of file names returned.
const NAMED_MAX: usize = 5;

/// The files with uncommitted changes in a directory's repository: their number, as a lower bound, and some names.
/// `None` without a repository, without git, or after the timeout.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "its end is waited for, but not for long")]
pub fn changes(dir: &Path) -> Option<(u64, Vec<String>)> {
    let child = Command::new("git")
        .arg("-C")
        .arg(dir)
        // The repository's configuration must not choose programs to run.
        .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"])
        .args(["status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all"])
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let said = answer(child, PATIENCE)?;
    // If its output was cut off, git fails because of the closed pipe; the output is sufficient.
    (said.ended.success() || said.out.len() >= ANSWER_MAX).then(|| read(&said.out))
}

/// Parses entries of two letters, a space and a path, each terminated by NUL.
fn read(said: &[u8]) -> (u64, Vec<String>) {
    let entries = said.split(|byte| *byte == 0).filter_map(|entry| entry.get(3..)).filter(|path| !path.is_empty());
    let mut named = Vec::new();
    let mut count = 0_u64;
    for path in entries {
        count = count.saturating_add(1);
        if named.len() < NAMED_MAX {
            named.push(String::from_utf8_lossy(path).into_owned());
        }
    }
    (count, named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_and_some_are_named() {
        assert_eq!(read(b""), (0, vec![]));
        assert_eq!(read(b"?? a b\0 M c\xff\0"), (2, vec!["a b".to_owned(), "c\u{fffd}".to_owned()]));
        let many = "?? x\0".repeat(9);
        assert_eq!(read(many.as_bytes()).0, 9);
        assert_eq!(read(many.as_bytes()).1.len(), NAMED_MAX);
    }

    #[test]
    fn a_directory_without_a_repository_has_no_changes() {
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        assert_eq!(changes(dir.path()), None);
        assert_eq!(changes(&dir.path().join("gone")), None);
    }
}
