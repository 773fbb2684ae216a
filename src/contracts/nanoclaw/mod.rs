//! An installation of NanoClaw, read to be taken over. Nothing of it is changed: databases are copied before they are
//! opened, directories are looked at by descriptor and never through a link.
//!
//! Both versions come out as the same plain data, in the words of this host; what cannot be taken comes out with its
//! reason.

mod database;
mod error;
mod files;
mod found;
mod names;
pub mod plan;
mod sessions;
mod settings;
#[cfg(test)]
mod tests;
mod v1;
mod v2;

use std::path::Path;

pub use error::Error;
pub use files::{Copied, copy, offer, survey};
pub use found::{
    Found, FoundEvent, FoundSession, FoundTask, Item, Kind, Outcome, Tree, TreeKind, Version, Wishes, shown,
};
pub use settings::settings_of;

/// Reads the installation in a directory. Where both versions are, the newer one is the one that was in use.
///
/// # Errors
/// [`Error`] if there is none, or it cannot be read as a whole.
pub fn read(root: &Path, wishes: &Wishes<'_>) -> Result<Found, Error> {
    let (old, new) = (root.join("store/messages.db").exists(), root.join("data/v2.db").exists());
    match (new, old) {
        (true, _) => {
            let mut found = v2::read(root, wishes)?;
            if old {
                let why = "the database of version 1 lies beside that of version 2, which is the one that is read";
                found.leave(Kind::Other, "store/messages.db", why);
            }
            Ok(found)
        }
        (false, true) => v1::read(root, wishes),
        (false, false) => Err(Error::NotThere { path: root.to_owned() }),
    }
}
