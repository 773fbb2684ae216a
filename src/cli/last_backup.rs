//! The last backup of everything, for `status` and `doctor`.

use serde::Serialize;

use super::{human_size, human_time};
use crate::clock;
use crate::config::Paths;
use crate::daemon::backups::{self, FailedBackup, GoodBackup, LastBackup};
use crate::model::backup_plan::BackupPlan;
use crate::model::time::{Millis, Timestamp};

/// State of the backups of everything.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct BackupStatus {
    /// When the last good one was finished; null before the first one.
    at: Option<String>,
    /// Milliseconds since then.
    age_ms: Option<u64>,
    path: Option<String>,
    bytes: Option<u64>,
    /// Number of entries that are not in it, secrets aside.
    skipped: u64,
    /// Time between scheduled backups; null if none are scheduled.
    every_ms: Option<u64>,
    /// Why a later one failed, and when; null if none did.
    failed: Option<String>,
    failed_at: Option<String>,
}

impl BackupStatus {
    /// None if no backup was ever tried and none is scheduled.
    pub(super) fn look(paths: &Paths, plan: Option<&BackupPlan>) -> Option<Self> {
        Self::of(backups::last(paths), plan, clock::wall())
    }

    fn of(last: LastBackup, plan: Option<&BackupPlan>, now: Timestamp) -> Option<Self> {
        if plan.is_none() && last == LastBackup::default() {
            return None;
        }
        let LastBackup { good, failed } = last;
        let age = |at_ms: i64| u64::try_from(now.millis().saturating_sub(at_ms)).unwrap_or(0);
        let time = |at_ms: i64| Timestamp::from_millis(at_ms).to_string();
        let (failed_at, failed) = failed.map(|FailedBackup { at_ms, why }| (time(at_ms), why)).unzip();
        let every_ms = plan.map(|plan| plan.every.get());
        Some(match good {
            Some(GoodBackup { at_ms, path, bytes, skipped }) => Self {
                at: Some(time(at_ms)),
                age_ms: Some(age(at_ms)),
                path: Some(path),
                bytes: Some(bytes),
                skipped,
                every_ms,
                failed,
                failed_at,
            },
            None => Self { at: None, age_ms: None, path: None, bytes: None, skipped: 0, every_ms, failed, failed_at },
        })
    }

    /// What is wrong, and what to do.
    pub(super) fn problem(&self) -> Option<(String, &'static str)> {
        let mend = "run `hearth backup --all` to see whether it works now";
        if let (Some(why), Some(at)) = (&self.failed, &self.failed_at) {
            return Some((format!("the backup at {} failed: {why}", human_time::local(at)), mend));
        }
        let (age, every) = (self.age_ms?, self.every_ms?);
        (age > every.saturating_mul(2)).then(|| {
            let (age, every) = (Millis::new(age), Millis::new(every));
            (format!("the last good backup is {age} old, and `[backup]` asks for one every {every}"), mend)
        })
    }

    /// The state in one line.
    pub(super) fn line(&self) -> String {
        let (Some(age), Some(path)) = (self.age_ms, &self.path) else {
            return match self.every_ms {
                Some(every) => format!("none yet, one every {}", Millis::new(every)),
                None => "none yet".to_owned(),
            };
        };
        let size = human_size::decimal(self.bytes.unwrap_or(0));
        let skipped = match self.skipped {
            0 => String::new(),
            skipped => format!(", without {skipped} entries that its contents.json lists as skipped"),
        };
        format!("{} ago, {size}, {path}{skipped}", Millis::new(age))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_failed_backups_are_problems() {
        let hour = 3_600_000;
        let plan = BackupPlan { every: Millis::minutes(60), keep: 7, to: None, with_secrets: false };
        let good = Some(GoodBackup { at_ms: 0, path: "/b/x".to_owned(), bytes: 2_000_000, skipped: 0 });
        let failed = Some(FailedBackup { at_ms: hour, why: "no room".to_owned() });
        let look = |last: LastBackup, plan, now| BackupStatus::of(last, plan, Timestamp::from_millis(now));
        assert_eq!(look(LastBackup::default(), None, 5), None);
        let none = look(LastBackup::default(), Some(&plan), 5).unwrap();
        assert_eq!((none.line().as_str(), none.problem()), ("none yet, one every 60 min", None));
        let last = LastBackup { good, failed: None };
        let fresh = look(last.clone(), Some(&plan), 2 * hour).unwrap();
        assert_eq!((fresh.line().as_str(), fresh.problem()), ("2 h ago, 2000 kB, /b/x", None));
        let old = look(last.clone(), Some(&plan), 2 * hour + 1).unwrap();
        assert!(old.problem().unwrap().0.contains("every 60 min"), "{old:?}");
        assert_eq!(look(last.clone(), None, 900 * hour).unwrap().problem(), None);
        let broken = look(LastBackup { failed, ..last }, Some(&plan), hour).unwrap();
        assert!(broken.problem().unwrap().0.ends_with("failed: no room"), "{broken:?}");
    }
}
