//! The directory of a store, before it is opened for work.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::env::{self, Access, begin_read};
use crate::error::{Error, Result};
use crate::files::{self, EntryKind};
use crate::{filesystem, lock, pages};

/// Warnings about the location of a data directory's store.
///
/// # Errors
///
/// [`Error::FileSystem`] on a file system that cannot hold a store.
pub fn look_at_place(data: &Path) -> Result<Vec<String>> {
    filesystem::check(&data.join("store"))
}

/// Whether a data directory has a store, sound or not.
///
/// # Errors
/// [`Error::Unopened`] if the system does not say.
pub fn exists(data: &Path) -> Result<bool> {
    is_there(&data.join("store"))
}

/// The installation that a store belongs to. A store of an older format has one too.
///
/// # Errors
/// [`Error::NoStore`] if there is none; those of opening it.
pub fn installation(data: &Path) -> Result<u64> {
    let dir = place(data)?;
    let env = env::open(&pages::trust(&dir, lock::last_writer(data))?, Access::ReadOnly, None)?;
    Ok(env::identity(&env, begin_read(&env)?)?.install)
}

/// Copies a store of this or an older format into another, empty data directory, while a daemon may be writing it.
/// Returns its format.
///
/// # Errors
/// [`Error::NoStore`] if there is none, [`Error::NewerFormat`] if it is too new; those of opening and copying it.
pub fn copy_into(data: &Path, other: &Path) -> Result<u32> {
    let dir = place(data)?;
    let env = env::open(&pages::trust(&dir, lock::last_writer(data))?, Access::ReadOnly, None)?;
    let format = env::identity(&env, begin_read(&env)?)?.format;
    let copy = other.join("store");
    DirBuilder::new().recursive(true).mode(0o700).create(&copy).map_err(Error::io(&copy))?;
    let mut file = files::create_copy(&copy).map_err(Error::io(&copy))?;
    env::copy_into(&env, &mut file)?;
    Ok(format)
}

/// Whether a directory contains a store file of any kind. A directory that cannot be read is an error, not a missing
/// store, so that no second store is created.
pub(crate) fn is_there(dir: &Path) -> Result<bool> {
    match files::look(&files::store_file(dir)) {
        Ok(found) => Ok(found != EntryKind::Nothing),
        Err(source) => Err(Error::Unopened { path: dir.to_owned(), source }),
    }
}

/// The directory of an existing store.
pub(super) fn place(data: &Path) -> Result<PathBuf> {
    let dir = data.join("store");
    if is_there(&dir)? { Ok(dir) } else { Err(Error::NoStore { path: data.to_owned() }) }
}
