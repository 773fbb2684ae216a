//! Skips: work that an agent's skill left undone and reported in a file of the agent group's folder.

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
    /// Whose.
    pub agent: AgentId,
    /// The skill, `tessl__<name>`; also in the file's name.
    pub skill: String,
    /// The session in whose turn it appeared, if that can be said.
    pub session: Option<SessionId>,
    /// What the file says.
    pub report: SkipReport,
    /// When it was taken in.
    pub taken: Timestamp,
    /// The same in awake time: turns that began before then are those that it may belong to.
    pub noticed: Awake,
    /// Whether its file is still the one under its name.
    pub file: SkipFile,
    /// Technical skips of the same items in a row, this one among them; counted anew after people were asked.
    pub repeats: u32,
    /// Unguessable part of the card's buttons, if people are asked what is to be done.
    pub nonce: Option<u64>,
    /// What became of it.
    pub state: SkipState,
}

/// What a summary says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipReport {
    /// Digest of the file.
    pub digest: BlobId,
    /// Which step was skipped.
    pub step: SkipStep,
    /// Why, in one line.
    pub reason: String,
    /// What was skipped; none is everything.
    pub items: Vec<String>,
    /// Whether a retry would likely work, or it was meant.
    pub kind: SkipKind,
    /// When, as the skill says.
    pub occurred: Timestamp,
}

/// The step of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipStep {
    /// By name.
    Name(String),
    /// By number.
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
    /// Something was broken for the moment.
    Technical,
    /// It was meant to be skipped.
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

/// Where the file of a skip is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipFile {
    /// Under its name, when it was last looked for.
    There,
    /// Another one was written over it before people were told: the store has the only copy.
    Replaced,
    /// Still under its name, although nobody needs it any more: it has to go.
    Left,
    /// Gone.
    Gone,
}

/// What became of a skip.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipState {
    /// People were not told yet.
    Waiting,
    /// People are being told by this message.
    Sending(OutboundId, Timestamp),
    /// People were told by this message. If they were asked, nobody has answered.
    Surfaced(OutboundId, Timestamp),
    /// Its file was removed before Hearth told anybody: a skill inside did.
    Taken(Timestamp),
    /// It is tried again silently, as the operator wanted.
    Retried(Timestamp),
    /// Nobody could be told: why.
    Unsent(String, Timestamp),
    /// Somebody has seen it and said what is to be done.
    Acknowledged {
        /// Who.
        by: Decider,
        /// What.
        answer: SkipAnswer,
        /// When.
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

/// What is to be done about a skip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipAnswer {
    /// Nothing.
    Leave,
    /// It is to be done now.
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

    /// What such a word means.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Leave, Self::DoNow].into_iter().find(|answer| answer.as_str() == word)
    }
}

/// What a look at an agent group's folder found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipLook {
    /// The session whose turn has just ended, if that is why it was looked.
    pub after: Option<SessionId>,
    /// The summaries that are there, one for each skill.
    pub found: Vec<FoundSkip>,
    /// Whether everything there was seen: only then is a file that is not among them gone.
    pub complete: bool,
}

/// A summary under the name of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSkip {
    /// The skill.
    pub skill: String,
    /// What it says, or why nobody can say.
    pub content: Result<SkipReport, SkipTrouble>,
}

/// Why a summary is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipTrouble {
    /// Only the skill itself may bring it up to date.
    #[error("its schema_version is {0}, and only 1 is known")]
    Version(i64),
    /// It is not as a summary has to be: why.
    #[error("{0}")]
    Malformed(String),
    /// It cannot be read: why.
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
