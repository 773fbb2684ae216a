//! The person at this terminal becomes the owner of a new installation.

use super::{Done, Failure, change as changes, log};
use crate::config::Paths;
use crate::daemon::opening::Opening;
use crate::daemon::setup;
use crate::model::configure::Change;
use crate::socket::change::ChangeRequest;
use crate::state::{self, Reader};

/// Makes the local user owner if there are neither users nor agents, and says so. Creates the store in a new directory.
pub(super) fn make(paths: &Paths) -> Done {
    let lacks = match Reader::open(paths.data()) {
        Ok(reader) => reader.read(setup::lacks_first_owner)?,
        Err(state::Error::NoStore { .. }) => true,
        Err(error) => return Err(error.into()),
    };
    if !lacks {
        return Ok(());
    }
    let change = ChangeRequest { edits: vec![grant()?], ..ChangeRequest::default() };
    changes::submit_by(paths, &change, "the command", Opening::OrNew)?;
    announce()
}

/// The change that makes the local user owner.
pub(super) fn grant() -> Result<Change, Failure> {
    Ok(setup::grant_owner(rustix::process::getuid().as_raw())?)
}

/// Says who the owner is.
pub(super) fn announce() -> Done {
    let uid = rustix::process::getuid().as_raw();
    log::note(&format!("you are the owner: {}", setup::user(uid)?));
    Ok(())
}
