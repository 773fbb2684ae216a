//! Checks the last backup of everything.

use super::{Check, CheckStatus, bad, ok};
use crate::cli::last_backup::BackupStatus;
use crate::config::Paths;
use crate::state::Reader;

/// Warns of a failed or old backup. Reports nothing if backups were never requested.
pub(super) fn backups(paths: &Paths, reader: &Reader) -> Option<Check> {
    let name = "backup";
    let plan = match reader.read(|db, txn| db.settings.get(txn, &())) {
        Ok(settings) => settings.and_then(|settings| settings.backup),
        Err(error) => return Some(bad(name, CheckStatus::Fail, error.to_string(), "run `hearth check`")),
    };
    let status = BackupStatus::look(paths, plan.as_ref())?;
    Some(match status.problem() {
        Some((found, mend)) => bad(name, CheckStatus::Warn, found, mend),
        None => ok(name, status.line()),
    })
}
