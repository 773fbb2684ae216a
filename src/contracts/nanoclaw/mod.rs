//! Reads an installation of NanoClaw for import. Nothing in it is changed: databases are copied before they are opened,
//! and directories are accessed by descriptor and never through a link. NanoClaw's agents could have written some of
//! it, so no imported text becomes a reference (`env:`, `file:`, `cmd:`) or part of one.
//!
//! Both versions are converted to the same plain data, with Hearth's types. Whatever cannot be imported is listed with
//! its reason.

mod database;
mod error;
mod files;
mod found;
mod names;
pub mod plan;
mod secrets;
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
    ConfigFile, FoundEvent, FoundSession, FoundTask, Inventory, Item, Kind, Outcome, Tree, TreeKind, Version, Wishes,
    shown,
};
pub use settings::settings_of;

use super::dir::{Dir, Kind as Thing};
use database::Database;

/// Where a version has its database.
#[derive(Clone, Copy)]
struct DatabasePath {
    dir: &'static str,
    file: &'static str,
}

const V1: DatabasePath = DatabasePath { dir: "store", file: "messages.db" };
const V2: DatabasePath = DatabasePath { dir: "data", file: "v2.db" };

/// Reads the installation in a directory. If both versions exist, the newer one is used.
///
/// # Errors
/// [`Error`] if there is none, or it cannot be read completely.
pub fn read(path: &Path, wishes: &Wishes<'_>) -> Result<Inventory, Error> {
    let none = || Error::NotThere { path: path.to_owned() };
    let root = Dir::find(path)?.ok_or_else(none)?;
    let Some(data) = holder(&root, V2)? else {
        let store = holder(&root, V1)?.ok_or_else(none)?;
        let mut found = v1::read(&root, &Database::open(&store, V1.file)?, wishes)?;
        secrets::list(&root, &mut found)?;
        return Ok(found);
    };
    let mut found = v2::read(&root, &Database::open(&data, V2.file)?, wishes)?;
    secrets::list(&root, &mut found)?;
    if matches!(holder(&root, V1), Ok(Some(_))) {
        let why = "the database of version 1 lies beside that of version 2, which is the one that is read";
        found.leave(Kind::Other, "store/messages.db", why);
    }
    Ok(found)
}

/// The directory of a database, if the database exists.
fn holder(root: &Dir, place: DatabasePath) -> Result<Option<Dir>, Error> {
    if root.kind(place.dir.as_ref())? == Thing::Link {
        let why = "it is a link, and links are not followed there; put the directory itself in its place";
        return Err(Error::Refused { path: root.path().join(place.dir), why: why.to_owned() });
    }
    let Some(dir) = root.dir(place.dir.as_ref())? else { return Ok(None) };
    Ok((dir.kind(place.file.as_ref())? != Thing::Nothing).then_some(dir))
}

/// A nested directory, by components.
fn below(root: &Dir, names: &[&str]) -> Result<Option<Dir>, Error> {
    let (first, rest) = match names {
        [] => return Ok(None),
        [first, rest @ ..] => (first, rest),
    };
    let mut dir = root.dir(first.as_ref())?;
    for name in rest {
        dir = dir.map(|dir| dir.dir(name.as_ref())).transpose()?.flatten();
    }
    Ok(dir)
}
