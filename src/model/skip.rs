//! Skips: work that an agent's skill skipped and reported in a file of the agent group's folder.

use serde::{Deserialize, Serialize};

use super::approval::Decider;
use super::content::BlobId;
use super::id::{AgentId, OutboundId, SessionId};
use super::time::{Awake, Timestamp};

/// Longest name of a skill, in bytes.
pub const SKILL_MAX: usize = 128;

/// Whether a text is the name of a skill: `tessl__`, then words of lower-case letters and digits with `-` between them.
#[must_use]
pub fn is_skill(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let word = |word: &str| !word.is_empty() && word.bytes().all(plain);
    name.len() <= SKILL_MAX && name.strip_prefix("tessl__").is_some_and(|rest| rest.split('-').all(word))
}

/// A skip that a skill reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipSummary {
    /// The agent whose skill reported it.
    pub agent: AgentId,
    /// The skill, `tessl__<name>`; also in the file's name.
    pub skill: String,
    /// The session in whose turn it appeared, if known.
    pub session: Option<SessionId>,
    /// Content of the file.
    pub report: SkipReport,
    /// When it was imported.
    pub taken: Timestamp,
    /// Awake time of the import. It may belong to turns that began before then.
    pub noticed: Awake,
    /// State of its file.
    pub file: SkipFile,
    /// Consecutive technical skips of the same items, including this one. The count restarts after people were asked.
    pub repeats: u32,
    /// Unguessable part of the card's buttons, if people are asked what to do.
    pub nonce: Option<u64>,
    /// What people did about it.
    pub state: SkipState,
}

/// Content of a summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipReport {
    /// Digest of the file.
    pub digest: BlobId,
    /// Which step was skipped.
    pub step: SkipStep,
    /// Why, in one line.
    pub reason: String,
    /// The skipped items; empty means everything.
    pub items: Vec<String>,
    /// Whether it was a temporary failure or intended.
    pub kind: SkipKind,
    /// When it happened, as the skill reports it.
    pub occurred: Timestamp,
}

/// The step of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipStep {
    /// A step with a name.
    Name(String),
    /// A numbered step.
    Number(i64),
}

impl std::fmt::Display for SkipStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// Why something was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipKind {
    /// A temporary failure. A retry would likely work.
    Technical,
    /// Intended.
    Policy,
}

impl SkipKind {
    /// The word people and programs see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Technical => "technical",
            Self::Policy => "policy",
        }
    }
}

/// State of a skip's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipFile {
    /// Present at the last scan.
    There,
    /// Overwritten by another one before people were told. The store has the only copy.
    Replaced,
    /// Still under its name, but no longer needed: it has to be removed.
    Left,
    /// Removed.
    Gone,
}

/// State of a skip.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipState {
    /// People have not been told yet.
    Waiting,
    /// People are being told by this message.
    Sending(OutboundId, Timestamp),
    /// People were told by this message. If they were asked, the answer is outstanding.
    Surfaced(OutboundId, Timestamp),
    /// A skill inside removed the file before Hearth told people.
    Taken(Timestamp),
    /// Retried silently, as the operator configured.
    Retried(Timestamp),
    /// It was impossible to tell people; the reason.
    Unsent(String, Timestamp),
    /// A person has seen it and decided what to do.
    Acknowledged {
        /// The person or operator who decided.
        by: Decider,
        /// What the person decided.
        answer: SkipAnswer,
        /// Time of the decision.
        at: Timestamp,
    },
}

impl SkipState {
    /// The word people and programs see.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Sending(..) => "sending",
            Self::Surfaced(..) => "surfaced",
            Self::Taken(_) => "taken",
            Self::Retried(_) => "retried",
            Self::Unsent(..) => "unsent",
            Self::Acknowledged { .. } => "acknowledged",
        }
    }
}

/// Decision about a skip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipAnswer {
    /// Nothing.
    Leave,
    /// Do the skipped work now.
    DoNow,
}

impl SkipAnswer {
    /// The word people and programs use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Leave => "leave",
            Self::DoNow => "now",
        }
    }

    /// Parses such a word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Leave, Self::DoNow].into_iter().find(|answer| answer.as_str() == word)
    }
}

/// Result of a scan of an agent group's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipLook {
    /// The session whose turn has just ended, if that triggered the scan.
    pub after: Option<SessionId>,
    /// The summaries found, one for each skill.
    pub found: Vec<FoundSkip>,
    /// Whether the scan saw everything. Only then do missing files count as removed.
    pub complete: bool,
}

/// A summary under the name of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSkip {
    /// The skill that wrote the file.
    pub skill: String,
    /// Its content, or why it cannot be used.
    pub content: Result<SkipReport, SkipTrouble>,
}

/// Why a summary is not imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipTrouble {
    /// Unknown schema version. Only the skill itself may upgrade the file.
    #[error("its schema_version is {0}, but only 1 is supported")]
    Version(i64),
    /// Not a valid summary; the reason.
    #[error("{0}")]
    Malformed(String),
    /// Unreadable; the reason.
    #[error("{0}")]
    Unreadable(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skills_have_plain_names() {
        for (name, good) in [
            ("tessl__check-cfps", true),
            ("tessl__a", true),
            ("tessl__a1-b2-c3", true),
            ("tessl__", false),
            ("tessl__-a", false),
            ("tessl__a-", false),
            ("tessl__a--b", false),
            ("tessl__A", false),
            ("tessl__a_b", false),
            ("tessl__a/b", false),
            ("tessl__..", false),
            ("tessl__a.json", false),
            ("tessl__é", false),
            ("tessl_a", false),
            ("check-cfps", false),
            ("", false),
        ] {
            assert_eq!(is_skill(name), good, "{name}");
        }
        assert!(!is_skill(&format!("tessl__{}", "a".repeat(SKILL_MAX))));
    }
}
