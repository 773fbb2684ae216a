//! A directory of the host's own that stays open for as long as the daemon runs.
//!
//! A person may remove or replace it meanwhile. Nothing can be created in a removed directory, so every use first
//! compares the open directory with the one at its path.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::dir::Dir;
use super::error::Error;

/// Only the host's user may look into it.
const PRIVATE: u32 = 0o700;

#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
    open: Mutex<Arc<Dir>>,
}

impl Root {
    /// Opens the directory, and creates it if it does not exist.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let open = Mutex::new(Arc::new(create(path)?));
        Ok(Self { path: path.to_owned(), open })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory that is at the path now. It is created again if it was removed.
    pub(super) fn dir(&self) -> Result<Arc<Dir>, Error> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if !open.is_at(&self.path)? {
            *open = Arc::new(create(&self.path)?);
            tracing::warn!(path = %self.path.display(), "a directory was removed or replaced while Hearth runs");
        }
        Ok(Arc::clone(&open))
    }
}

fn create(path: &Path) -> Result<Dir, Error> {
    let created = DirBuilder::new().recursive(true).mode(PRIVATE).create(path);
    created.map_err(|e| Error::io("create", path, e))?;
    Dir::open_trusted(path)
}
