//! Appends to memory files, which have several concurrent writers, without duplicates.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use super::files::{self, Lock, LockError, lock_beside, system};
use super::{is_space, places};

/// A text to append.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) text: String,
    /// The key that identifies duplicates, see [`normal`].
    pub(crate) key: String,
}

/// Result of appending.
#[derive(Debug, Default)]
pub(crate) struct Appended {
    /// The appended texts, in order.
    pub(crate) kept: Vec<String>,
    /// Number of duplicates.
    pub(crate) dropped: usize,
    /// Whether the file is new.
    pub(crate) created: bool,
    /// The former content of the file, or the header of a new one. Its lines end in `\n`.
    pub(crate) before: String,
    /// Number of line ends in the file now; `\r\n` and `\r` count as one each.
    pub(crate) lines: usize,
}

/// Why nothing was appended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppendError {
    /// The lock cannot be taken.
    #[error("{}", with_class(.0))]
    Lock(#[from] LockError),
    /// The file cannot be read or written.
    #[error("IO failed for {path}: {}: {}", class(.source), system(.source, Path::new(path)))]
    Io { path: String, source: io::Error },
    /// The file is not UTF-8.
    #[error("IO failed for {path}: UnicodeDecodeError: not UTF-8 at byte {at}")]
    NotText {
        path: String,
        /// Offset of the first invalid byte.
        at: usize,
    },
}

/// Appends the texts that are not yet in the file, under its lock. A new file begins with `header`, which counts as
/// existing content. `known` returns the keys of a content. If everything is a duplicate, the file is not touched.
/// Otherwise every line of the file ends in `\n` afterwards, like in the scripts' output.
///
/// # Errors
/// If nothing was appended.
pub(crate) fn append(
    path: &Path,
    header: &str,
    pieces: Vec<Piece>,
    known: impl Fn(&str) -> HashSet<String>,
) -> Result<Appended, AppendError> {
    let shown = || path.display().to_string();
    let lock = lock_beside(path);
    if let Some(dir) = path.parent() {
        let failed = |source| LockError::Open { path: lock.clone(), source };
        std::fs::create_dir_all(dir).map_err(failed)?;
    }
    let _lock = Lock::take(&lock, places::lock_wait())?;
    files::sweep(path);
    let failed = |source| AppendError::Io { path: shown(), source };
    let bytes = files::read(path).map_err(failed)?;
    let absent = bytes.is_none();
    let not_text = |error: std::string::FromUtf8Error| AppendError::NotText {
        path: shown(),
        at: error.utf8_error().valid_up_to(),
    };
    let before = match bytes {
        Some(bytes) => one_line_end(&String::from_utf8(bytes).map_err(not_text)?),
        None => header.to_owned(),
    };
    let (kept, dropped) = sift(pieces, known(&before));
    if kept.is_empty() {
        let lines = if absent { 0 } else { before.matches('\n').count() };
        return Ok(Appended { kept, dropped, created: false, before, lines });
    }
    let text = [before.as_str(), to_blank_line(&before), &kept.join("\n"), "\n"].concat();
    files::write(path, text.as_bytes()).map_err(failed)?;
    Ok(Appended { kept, dropped, created: absent, lines: text.matches('\n').count(), before })
}

/// The new texts, and the number of duplicates. A text with an empty key is neither.
fn sift(pieces: Vec<Piece>, mut known: HashSet<String>) -> (Vec<String>, usize) {
    let mut kept = Vec::new();
    let mut dropped = 0;
    for piece in pieces.into_iter().filter(|piece| !piece.key.is_empty()) {
        if known.insert(piece.key) {
            kept.push(piece.text);
        } else {
            dropped += 1;
        }
    }
    (kept, dropped)
}

/// The text with runs of white space replaced by a single space, and trimmed. Duplicates have the same normal form.
pub(crate) fn normal(text: &str) -> String {
    let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

fn one_line_end(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// The line ends to append until the text ends in a blank line.
fn to_blank_line(text: &str) -> &'static str {
    match (text.ends_with("\n\n"), text.ends_with('\n')) {
        _ if text.is_empty() => "",
        (true, _) => "",
        (false, true) => "\n",
        (false, false) => "\n\n",
    }
}

/// A lock error, with the scripts' name of the system error.
fn with_class(error: &LockError) -> String {
    match error {
        LockError::Open { path, source } => {
            format!("cannot open lock file {}: {}: {}", path.display(), class(source), system(source, path))
        }
        LockError::Failed { path, source } => {
            format!("cannot acquire LOCK_EX on {}: {}: {}", path.display(), class(source), system(source, path))
        }
        busy @ LockError::Busy { .. } => busy.to_string(),
    }
}

/// The scripts' name of a system error.
pub(crate) fn class(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "FileNotFoundError",
        io::ErrorKind::PermissionDenied => "PermissionError",
        io::ErrorKind::IsADirectory => "IsADirectoryError",
        io::ErrorKind::NotADirectory => "NotADirectoryError",
        io::ErrorKind::AlreadyExists => "FileExistsError",
        _ => "OSError",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_does_not_make_a_difference() {
        for (text, same) in [
            ("a  b\t\tc", "a b c"),
            ("a\r\nb\rc\nd", "a b c d"),
            ("  a ", "a"),
            ("", ""),
            (" \n\t", ""),
            ("a\u{1f}\u{a0}\u{2028}b", "a b"),
        ] {
            assert_eq!(normal(text), same, "{text:?}");
        }
    }

    #[test]
    fn only_what_is_new_is_kept() {
        let pieces = |texts: &[&str]| -> Vec<Piece> {
            texts.iter().map(|text| Piece { text: (*text).to_owned(), key: normal(text) }).collect()
        };
        let known = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        for (existing, candidates, kept, dropped) in [
            (vec!["a", "b"], vec!["a", "c"], vec!["c"], 1),
            (vec![], vec!["x", " x ", "y"], vec!["x", "y"], 1),
            (vec!["a b"], vec!["a   b"], vec![], 1),
            (vec![], vec!["", " \t"], vec![], 0),
            (vec![], vec!["  odd  spacing"], vec!["  odd  spacing"], 0),
        ] {
            let (found, number) = sift(pieces(&candidates), known(&existing));
            assert_eq!((found, number), (kept.into_iter().map(str::to_owned).collect(), dropped), "{candidates:?}");
        }
    }
}
