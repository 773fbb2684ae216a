//! The person at this terminal becomes the owner of a new installation.

use super::{Done, Failure, change as changes, log};
use crate::config::Paths;
use crate::config::file::write;
use crate::daemon::setup;
use crate::model::configure::Configure;
use crate::socket::change::ChangeRequest;
use crate::state::{Read, Reader, Tables};

/// Makes the local user owner if there are neither users nor agents, and says so.
///
/// This is a change of its own: `hearth apply --prune` removes only what a file added.
pub(super) fn make(paths: &Paths) -> Done {
    let Some(configure) = Reader::open(paths.data())?.read(change)? else { return Ok(()) };
    let toml = write::write(&configure.changes);
    changes::submit(paths, &ChangeRequest { toml, ..ChangeRequest::default() }, "the command")?;
    announce()
}

/// The change that makes the local user owner; none if there are users or agents.
pub(super) fn change(db: &Tables, txn: &Read<'_>) -> Result<Option<Configure>, Failure> {
    let uid = rustix::process::getuid().as_raw();
    setup::first_owner(db, txn, uid).map_err(|error| Failure::Failed(error.to_string()))
}

/// Says who the owner is.
pub(super) fn announce() -> Done {
    let uid = rustix::process::getuid().as_raw();
    log::note(&format!("you are the owner: {}", setup::user(uid)?));
    Ok(())
}
