//! Checks an archive.

use std::fs::File;
use std::io::Seek as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::error::Error;
use super::format::{Head, Kind, Reader, Summary};
use super::names::{CONTENTS, IDENTITY, STORE, judge};
use super::report::{Contents, Identity, VERSION};

/// Most bytes of `backup.json`.
const IDENTITY_MAX: u64 = 64 << 10;
/// Most bytes of `contents.json`.
const CONTENTS_MAX: u64 = 4 << 20;

/// An archive that was checked from its first to its last byte.
#[derive(Debug)]
pub struct Archive {
    file: File,
    path: PathBuf,
    pub identity: Identity,
    /// What is in it, and what is not.
    pub contents: Contents,
    /// Size of the file.
    pub bytes: u64,
}

/// The identity of an archive, without a check of the rest.
///
/// # Errors
///
/// [`Error`] if the file is not an archive that this program can read.
pub fn identity(path: &Path) -> Result<Identity, Error> {
    first(&mut Reader::new(open(path)?, path), path)
}

impl Archive {
    /// Checks a whole archive: every header, every path, and the digest.
    ///
    /// # Errors
    /// [`Error`], which names the entry that is the reason.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = open(path)?;
        let bytes = file.metadata().map_err(Error::io("look at", path))?.len();
        let mut reader = Reader::new(file.try_clone().map_err(Error::io("open", path))?, path);
        let identity = first(&mut reader, path)?;
        let mut of_store = 0;
        while let Some(head) = reader.next()? {
            if head.path == CONTENTS {
                let contents = last(&mut reader, &head, path)?;
                if of_store != STORE.len() {
                    return Err(Error::damaged(path, "it has no store"));
                }
                return Ok(Self { file, path: path.to_owned(), identity, contents, bytes });
            }
            judge(&head).map_err(|reason| Error::refused(path, &head.path, reason))?;
            of_store += usize::from(STORE.contains(&head.path.as_slice()));
        }
        Err(Error::damaged(path, "its end is missing"))
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Visits all entries except the first and the last one, and checks the digest again.
    pub(super) fn walk(&self, mut with: impl FnMut(&Head, &mut Reader) -> Result<(), Error>) -> Result<(), Error> {
        let mut file = self.file.try_clone().map_err(Error::io("open", &self.path))?;
        file.rewind().map_err(Error::io("read", &self.path))?;
        let mut reader = Reader::new(file, &self.path);
        first(&mut reader, &self.path)?;
        while let Some(head) = reader.next()? {
            if head.path == CONTENTS {
                return check(reader.before(), &self.contents, &self.path);
            }
            judge(&head).map_err(|reason| Error::refused(&self.path, &head.path, reason))?;
            with(&head, &mut reader)?;
        }
        Err(Error::damaged(&self.path, "its end is missing"))
    }
}

/// Opens a regular file for reading.
fn open(path: &Path) -> Result<File, Error> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(|e| Error::io("open", path)(e.into()))?);
    if file.metadata().map_err(Error::io("look at", path))?.is_file() {
        return Ok(file);
    }
    Err(Error::NotABackup { path: path.to_owned(), reason: "it is not a regular file".to_owned() })
}

fn first(reader: &mut Reader, path: &Path) -> Result<Identity, Error> {
    let not_one = |reason: &str| Error::NotABackup { path: path.to_owned(), reason: reason.to_owned() };
    let head = match reader.next() {
        Ok(Some(head)) if head.path == IDENTITY && head.kind == Kind::File => head,
        Ok(_) | Err(Error::Damaged { .. } | Error::Refused { .. }) => {
            return Err(not_one("it does not begin with backup.json, as `hearth backup --all` writes it"));
        }
        Err(error) => return Err(error),
    };
    let text = reader.whole(&head, IDENTITY_MAX)?;
    let value: serde_json::Value =
        serde_json::from_slice(&text).map_err(|_| not_one("its backup.json cannot be understood"))?;
    match value.get("hearth_archive").and_then(serde_json::Value::as_u64) {
        None => return Err(not_one("its backup.json does not belong to a backup")),
        Some(found) if found > u64::from(VERSION) => {
            return Err(Error::Newer { path: path.to_owned(), found, known: VERSION });
        }
        Some(_) => {}
    }
    serde_json::from_value(value).map_err(|_| not_one("its backup.json cannot be understood"))
}

/// Reads and checks `contents.json`, the last entry.
fn last(reader: &mut Reader, head: &Head, path: &Path) -> Result<Contents, Error> {
    let before = reader.before().clone();
    let text = reader.whole(head, CONTENTS_MAX)?;
    let contents: Contents = serde_json::from_slice(&text)
        .map_err(|error| Error::damaged(path, format!("its contents.json cannot be understood: {error}")))?;
    check(&before, &contents, path)?;
    match reader.next()? {
        None => Ok(contents),
        Some(more) => Err(Error::refused(path, &more.path, "comes after the end")),
    }
}

fn check(found: &Summary, said: &Contents, path: &Path) -> Result<(), Error> {
    let said = Summary { entries: said.entries, bytes: said.bytes, sha256: said.sha256.clone() };
    if *found == said { Ok(()) } else { Err(Error::damaged(path, "its checksum is wrong")) }
}
