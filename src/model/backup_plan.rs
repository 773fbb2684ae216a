//! Scheduled backups.

use serde::{Deserialize, Serialize};

use super::time::Millis;

/// When and where the daemon backs up everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupPlan {
    /// Time between two backups.
    pub every: Millis,
    /// Number of backups that are kept.
    pub keep: u32,
    /// Directory of the backups, absolute or below `~/`; none is `backups/` in the data directory.
    pub to: Option<String>,
    /// Whether secrets are included.
    pub with_secrets: bool,
}

impl BackupPlan {
    /// The shortest time between two backups.
    pub const EVERY_MIN: Millis = Millis::minutes(10);
    /// Most backups that are kept.
    pub const KEEP_MAX: u32 = 1_000;
    /// Number of backups that are kept unless configured.
    pub const KEEP: u32 = 7;
}
