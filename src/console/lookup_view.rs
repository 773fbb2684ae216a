//! What people look up: what was said, and what agents remember.

use crate::model::time::Timestamp;

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundTexts {
    /// The best first.
    pub texts: Vec<FoundText>,
    /// Whether more match.
    pub cut: bool,
    /// Whether older messages are not indexed yet.
    pub incomplete: bool,
    /// Why the query cannot be read.
    pub problem: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundText {
    pub id: String,
    /// The page with the conversation, or with what happened to it.
    pub page: Option<String>,
    /// When it was said.
    pub at: Timestamp,
    /// Who said it.
    pub who: String,
    /// The agent and the chat.
    pub place: String,
    /// The part of the text that matches.
    pub excerpt: Vec<Excerpted>,
    /// Names of its files.
    pub files: Vec<String>,
}

/// A piece of an excerpt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpted {
    pub text: String,
    /// Whether it is what was searched.
    pub matches: bool,
}

/// A memory file of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRow {
    /// The agent's folder.
    pub agent: String,
    pub file: String,
    /// Its length, for people.
    pub size: String,
    /// When it was changed last.
    pub changed: Option<Timestamp>,
}

/// A change of a memory file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryChangeRow {
    /// When.
    pub at: Timestamp,
    /// The file.
    pub file: String,
    /// Number of the line that was added, from 1; none if only the time is known.
    pub line: Option<usize>,
    /// The line.
    pub text: String,
}

/// The lines of a memory file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLines {
    /// The lines, or why they are not shown.
    pub lines: Result<Vec<String>, String>,
}

/// A correction of a line of a memory file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryEdit {
    /// The agent's folder.
    pub agent: String,
    pub file: String,
    /// Number of the line, from 1.
    pub line: usize,
    /// What it was when the person saw it.
    pub was: String,
    /// What it becomes; none removes it.
    pub now: Option<String>,
}
