//! How long things are kept.

use serde::{Deserialize, Serialize};

use super::time::{Millis, Timestamp};

/// How long one kind of thing is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Keep {
    /// So many days.
    Days(u32),
    /// For ever.
    Forever,
}

/// How long everything is kept that is not kept for ever; what nobody decided has its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Retention {
    /// What messages say, once they are over, and what was said in answer.
    pub bodies: Option<Keep>,
    /// What happened, for `why`.
    pub journal: Option<Keep>,
    /// Files that came with messages, and files that were sent.
    pub attachments: Option<Keep>,
    /// That a message was seen; never shorter than its body.
    pub dedup: Option<Keep>,
    /// Refused events.
    pub drops: Option<Keep>,
}

impl Keep {
    /// The time before which things have to go; none if they never do.
    #[must_use]
    pub fn until(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Days(days) => Some(now.minus(Millis::days(days))),
            Self::Forever => None,
        }
    }
}

impl std::fmt::Display for Keep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Days(days) => write!(f, "{days}d"),
            Self::Forever => f.write_str("forever"),
        }
    }
}

impl Retention {
    /// Days that bodies are kept unless decided otherwise.
    pub const BODIES: Keep = Keep::Days(180);
    /// Days that everything else is kept unless decided otherwise; that a message was seen is never kept for less.
    pub const OTHERS: Keep = Keep::Days(30);

    /// How long bodies are kept.
    #[must_use]
    pub fn bodies(&self) -> Keep {
        self.bodies.unwrap_or(Self::BODIES)
    }

    /// How long the journal is kept.
    #[must_use]
    pub fn journal(&self) -> Keep {
        self.journal.unwrap_or(Self::OTHERS)
    }

    /// How long files are kept.
    #[must_use]
    pub fn attachments(&self) -> Keep {
        self.attachments.unwrap_or(Self::OTHERS)
    }

    /// How long it is kept that a message was seen.
    #[must_use]
    pub fn dedup(&self) -> Keep {
        self.dedup.unwrap_or(Self::OTHERS)
    }

    /// How long refusals are kept.
    #[must_use]
    pub fn drops(&self) -> Keep {
        self.drops.unwrap_or(Self::OTHERS)
    }
}
