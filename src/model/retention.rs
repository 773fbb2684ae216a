//! Retention periods.

use serde::{Deserialize, Serialize};

use super::time::{Millis, Timestamp};

/// Retention period of one kind of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Keep {
    /// This many days.
    Days(u32),
    /// Rows are never removed.
    Forever,
}

/// Retention periods of everything that is not kept forever. A period that is not set has its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Retention {
    /// Content of finished messages and of the answers to them.
    pub bodies: Option<Keep>,
    /// Journal entries, for `why`.
    pub journal: Option<Keep>,
    /// Files that came with messages, and files that were sent.
    pub attachments: Option<Keep>,
    /// Records for deduplication; never kept for less time than bodies.
    pub dedup: Option<Keep>,
    /// How long drops are kept.
    pub drops: Option<Keep>,
}

impl Keep {
    /// Cutoff: older data is removed. None if it is kept forever.
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
    /// Default for bodies.
    pub const BODIES: Keep = Keep::Days(180);
    /// Default for everything else. Records for deduplication are never kept for less.
    pub const OTHERS: Keep = Keep::Days(30);

    /// Retention of bodies.
    #[must_use]
    pub fn bodies(&self) -> Keep {
        self.bodies.unwrap_or(Self::BODIES)
    }

    /// Retention of the journal.
    #[must_use]
    pub fn journal(&self) -> Keep {
        self.journal.unwrap_or(Self::OTHERS)
    }

    /// Retention of files.
    #[must_use]
    pub fn attachments(&self) -> Keep {
        self.attachments.unwrap_or(Self::OTHERS)
    }

    /// Retention of records for deduplication.
    #[must_use]
    pub fn dedup(&self) -> Keep {
        self.dedup.unwrap_or(Self::OTHERS)
    }

    /// Retention of dropped events.
    #[must_use]
    pub fn drops(&self) -> Keep {
        self.drops.unwrap_or(Self::OTHERS)
    }
}
