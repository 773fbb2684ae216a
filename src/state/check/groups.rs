//! Checks the tables about agent groups' session-state files.

use super::Check;
use crate::{ForeignKey, Result};

/// Fields are stored under their names and belong to a file.
pub(super) fn state_files(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.state_files, |check, agent, _| check.refers(&db.state_files, &agent, &db.agents, &agent))?;
    check.each(&db.state_fields, |check, key, field| {
        check.refers(&db.state_fields, &key, &db.state_files, &key.agent)?;
        if key.name != ForeignKey::of(&field.name) {
            check.report(&db.state_fields, &key, "the key is another field's");
        }
        Ok(())
    })
}
