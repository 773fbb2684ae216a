//! Memory files grow at their end, by several writers at once, and never twice by the same thing.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use super::files::{self, Lock, LockError, lock_beside, system};
use super::{is_space, places};

/// Something to be added.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    /// What is written.
    pub(crate) text: String,
    /// What makes it the same as another, see [`normal`].
    pub(crate) key: String,
}

/// What became of it.
#[derive(Debug, Default)]
pub(crate) struct Appended {
    /// What was written, in order.
    pub(crate) kept: Vec<String>,
    /// How many were there already.
    pub(crate) dropped: usize,
    /// Whether the file is new.
    pub(crate) created: bool,
    /// What was in the file before, with its line ends made one.
    pub(crate) before: String,
    /// Line ends in the file now.
    pub(crate) lines: usize,
}

/// Why nothing was added.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppendError {
    /// The lock cannot be had.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The file cannot be read or written.
    #[error("IO failed for {path}: {}: {}", class(.source), system(.source, Path::new(path)))]
    Io {
        /// The file.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// It is not text.
    #[error("IO failed for {path}: UnicodeDecodeError: not UTF-8 at byte {at}")]
    NotText {
        /// The file.
        path: String,
        /// Where.
        at: usize,
    },
}

/// Adds what is not in the file yet, under the lock beside it. A file without content begins with `header`; `known` says
/// the keys of what is in a text. What is there is not changed, and where nothing is added the file is not touched.
///
/// # Errors
/// That nothing was added.
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
    let mut text = String::from_utf8(bytes.unwrap_or_default()).map_err(not_text)?;
    let before = one_line_end(&text);
    let (kept, dropped) = sift(pieces, known(&before));
    if !kept.is_empty() {
        if text.is_empty() {
            text.push_str(header);
        }
        text.push_str(to_blank_line(&one_line_end(&text)));
        text.push_str(&kept.join("\n"));
        text.push('\n');
        files::write(path, text.as_bytes()).map_err(failed)?;
    }
    let created = absent && !kept.is_empty();
    Ok(Appended { kept, dropped, created, before, lines: text.matches('\n').count() })
}

/// What is new, and how many are not. What has no key is neither.
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

/// The text with every run of white space as one space and none around it: what two of the same have in common.
pub(crate) fn normal(text: &str) -> String {
    let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

fn one_line_end(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// What is missing until an empty line ends the text.
fn to_blank_line(text: &str) -> &'static str {
    match (text.ends_with("\n\n"), text.ends_with('\n')) {
        (true, _) => "",
        (false, true) => "\n",
        (false, false) => "\n\n",
    }
}

/// What the programs before called such an error.
fn class(error: &io::Error) -> &'static str {
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
