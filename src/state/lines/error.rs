//! Errors of export and import.

use crate::backup;
use crate::error as state;

/// Result of an export or import.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an export or an import failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum Error {
    /// The store.
    #[error(transparent)]
    State(#[from] state::Error),
    /// A copy of the store.
    #[error(transparent)]
    Copy(#[from] backup::Error),
    /// A row that cannot be encoded as JSON; a bug in its type.
    #[error("a row of table {table} cannot be written as JSON: {source}")]
    Json { table: &'static str, source: serde_json::Error },
    /// Writing the output of an export failed.
    #[error("the lines cannot be written: {0}")]
    Write(std::io::Error),
    /// Reading the input of an import failed.
    #[error("the lines cannot be read: {0}")]
    Read(std::io::Error),
    /// A line that cannot be imported.
    #[error("line {line}: {reason}; nothing was imported")]
    Line {
        /// Its number, counted from 1.
        line: u64,
        /// The problem of the line.
        reason: String,
    },
    /// The last line is missing.
    #[error("the export is cut off after line {lines}; nothing was imported: use the whole file")]
    CutOff {
        /// Lines there are.
        lines: u64,
    },
    /// The imported store is inconsistent.
    #[error("the export is inconsistent, so nothing was imported: {count} violations, the first: {first}")]
    Unsound {
        count: usize,
        /// One of them.
        first: String,
    },
}
