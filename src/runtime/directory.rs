//! Creates the directories that agents need.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::Error;

/// Makes a directory that only the user can look into, unless it is there.
pub(in crate::runtime) fn make(path: &Path) -> Result<(), Error> {
    crate::crash::point("agent-dir");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| Error::Directory { path: path.to_owned(), source })
}
