//! Sessions that are taken in from files.

use super::record::SessionRecord;
use super::session::{Compaction, SessionLabel, SessionSource};
use super::time::Timestamp;

/// What a file says of its session as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHead {
    /// The id it would have; another one if that is taken.
    pub label: SessionLabel,
    /// What it talks to.
    pub model: Option<String>,
    /// When it was begun.
    pub created: Timestamp,
    /// When it last changed.
    pub updated: Timestamp,
    /// What it was forked from: the parent's id, and the name of the branch.
    pub parent: Option<(String, Option<String>)>,
    /// What was left out of it.
    pub compaction: Option<Compaction>,
    /// Where it is from.
    pub source: SessionSource,
}

/// A session as a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSession {
    /// Version of the form that the file says it has; 1 is the one that is known.
    pub version: u32,
    /// What it says of the session as a whole.
    pub head: SessionHead,
    /// Its records, in order.
    pub records: Vec<SessionRecord>,
}
