//! Scheduled backups of everything, run as the child process `hearth backup --all` at the lowest priority.
//!
//! A file has the last good backup and why a later try failed, for the schedule and for `status`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::stop::Stop;
use super::{Error, child, noted, worker};
use crate::clock;
use crate::config::{Paths, seams};
use crate::engine::commit::Engine;
use crate::model::backup_plan::BackupPlan;
use crate::model::time::{Millis, Timestamp};
use crate::state::backup::default_dir;

/// Interval at which the thread tests whether a backup is due.
const LOOK: Duration = Duration::from_secs(60);
/// Longest delay after a failure.
const RETRY_MAX: Millis = Millis::minutes(60);

/// State of the backups of everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LastBackup {
    /// The last good one.
    pub good: Option<GoodBackup>,
    /// The failure after it; none if there was none.
    pub failed: Option<FailedBackup>,
}

/// A complete and checked backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoodBackup {
    /// When it was finished, in milliseconds since 1970.
    pub at_ms: i64,
    pub path: String,
    pub bytes: u64,
    /// Number of entries that are not in it, secrets aside.
    pub skipped: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedBackup {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    pub why: String,
}

/// The state of the backups of everything.
#[must_use]
pub fn last(paths: &Paths) -> LastBackup {
    noted::read(&file(paths)).unwrap_or_default()
}

/// Records that a backup was made.
///
/// # Errors
///
/// Errors of the system.
pub fn note_good(paths: &Paths, good: GoodBackup) -> io::Result<()> {
    noted::write(&file(paths), &LastBackup { good: Some(good), failed: None })
}

/// Directory of scheduled backups.
#[must_use]
pub fn directory(paths: &Paths, plan: &BackupPlan) -> PathBuf {
    let below_home = |to: &str| Some(paths.user_home()?.join(to.strip_prefix("~/")?));
    match plan.to.as_deref() {
        None => default_dir(paths.data()),
        Some(to) => below_home(to).unwrap_or_else(|| PathBuf::from(to)),
    }
}

fn file(paths: &Paths) -> PathBuf {
    paths.data().join("last-backup.json")
}

/// Starts the thread that makes the backups until the daemon stops.
pub(super) fn start(paths: &Paths, engine: &Arc<Engine>, stop: &Arc<Stop>) -> Result<(), Error> {
    let (paths, engine, stop) = (paths.clone(), Arc::clone(engine), Arc::clone(stop));
    let every = seams::backup_every();
    let look = every.map_or(LOOK, |every| LOOK.min(every.duration()));
    let work = move || {
        while !stop.asked_within(look) {
            let plan = match engine.store().read(|db, txn| db.settings.get(txn, &())) {
                Ok(settings) => settings.and_then(|settings| settings.backup),
                Err(error) => {
                    tracing::warn!(%error, "cannot read when the next backup is due");
                    continue;
                }
            };
            let Some(plan) = plan.filter(|_| !stop.is_draining()) else { continue };
            let plan = BackupPlan { every: every.unwrap_or(plan.every), ..plan };
            let dir = directory(&paths, &plan);
            if !is_due(&last(&paths), plan.every, &dir, clock::wall()) {
                continue;
            }
            let Some(done) = back_up(&paths, &plan, &dir, &stop) else { return };
            note(&paths, done);
        }
    };
    worker::start("backups", work).map(drop)
}

/// Whether a backup into a directory is due. Backups that were made elsewhere do not count.
fn is_due(last: &LastBackup, every: Millis, dir: &Path, now: Timestamp) -> bool {
    let good = last.good.as_ref().filter(|good| Path::new(&good.path).parent() == Some(dir));
    let after_good = good.map(|good| (good.at_ms, every));
    let after_failure = last.failed.as_ref().map(|failed| (failed.at_ms, every.min(RETRY_MAX)));
    let waits = [after_good, after_failure].into_iter().flatten();
    waits.map(|(at, wait)| (Timestamp::from_millis(at), wait)).all(|(at, wait)| {
        // A time in the future was recorded while the clock was wrong.
        now >= at.plus(wait) || at > now
    })
}

/// Makes a backup; none if the daemon stopped meanwhile. The command itself saves that it is done.
fn back_up(paths: &Paths, plan: &BackupPlan, dir: &Path, stop: &Stop) -> Option<Result<(), String>> {
    let mut arguments = vec!["backup".to_owned(), "--all".to_owned(), format!("--keep={}", plan.keep)];
    arguments.extend(plan.with_secrets.then(|| "--with-secrets".to_owned()));
    arguments.extend(plan.to.is_some().then(|| dir.display().to_string()));
    match child::begin(paths, &arguments) {
        Ok(child) => child::watch(child, stop, "the backup"),
        Err(error) => Some(Err(format!("the backup could not be started: {error}"))),
    }
}

fn note(paths: &Paths, done: Result<(), String>) {
    let Err(said) = done else {
        tracing::info!("everything was backed up");
        return;
    };
    // The last line is the reason; warnings come before it.
    let why = said.lines().last().unwrap_or_default().trim_start_matches("hearth: ").to_owned();
    tracing::error!("the backup failed: {why}");
    let failed = Some(FailedBackup { at_ms: clock::wall().millis(), why });
    if let Err(error) = noted::write(&file(paths), &LastBackup { failed, ..last(paths) }) {
        tracing::warn!(%error, "cannot record the failure of the backup");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_due_in_time_and_a_failed_one_sooner() {
        let dir = Path::new("/b");
        let (day, hour) = (86_400_000, 3_600_000);
        let good = |at_ms, path: &str| Some(GoodBackup { at_ms, path: path.to_owned(), bytes: 1, skipped: 0 });
        let failed = |at_ms| Some(FailedBackup { at_ms, why: "full".to_owned() });
        for (good, failed, now, due) in [
            (None, None, 5, true),
            (good(0, "/b/x"), None, day - 1, false),
            (good(0, "/b/x"), None, day, true),
            (good(0, "/elsewhere/x"), None, 5, true),
            // The clock was set back.
            (good(9 * day, "/b/x"), None, day, true),
            (good(0, "/b/x"), failed(day), day + hour - 1, false),
            (good(0, "/b/x"), failed(day), day + hour, true),
            (None, failed(5), 6, false),
        ] {
            let last = LastBackup { good, failed };
            assert_eq!(is_due(&last, Millis::days(1), dir, Timestamp::from_millis(now)), due, "{last:?} {now}");
        }
    }
}
