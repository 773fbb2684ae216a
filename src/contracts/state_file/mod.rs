//! `session-state.json` in an agent group's folder, which programs inside and outside of Hearth read and edit.
//!
//! A writer holds an exclusive `flock(2)` on `session-state.json.lock` beside it, from reading to writing. The lock
//! file is created on demand and never removed. The file is replaced as a whole: written under a temporary name,
//! synced, renamed, and the directory synced. Agents own the folder, so no link is followed, and anything but a regular
//! file is left alone.

use std::fs::File;

use rustix::fs::Mode;

use super::dir::{Content, Dir, Kind, Stamp};
use super::error::Error;
use super::memory;
use crate::config::Paths;
use crate::model::entity::Folder;
use crate::model::time::Timestamp;

mod json;
mod parse;

pub use parse::{Parsed, parse};

/// Name of the file.
pub const NAME: &str = "session-state.json";
/// Name of its lock.
const LOCK: &str = "session-state.json.lock";
/// Longest file that is read or written.
pub const BYTES_MAX: u64 = 4 << 20;
/// Mode of a new file, whatever the umask is.
const NEW_MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::ROTH);
/// Maximum number of names searched for leftovers of dead writers.
const NAMES_MAX: usize = 10_000;

/// The folder of an agent group.
#[derive(Debug)]
pub struct GroupFolder(Dir);

/// The lock, released when this is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// What exists under the file's name.
#[derive(Debug, PartialEq, Eq)]
pub enum FileContent {
    Absent,
    Bytes(Vec<u8>),
    /// Something that cannot be read, with the reason.
    Refused(String),
}

impl GroupFolder {
    /// Opens an agent group's folder if it exists.
    ///
    /// # Errors
    /// [`Error`] if the file system cannot be read.
    pub fn find(paths: &Paths, folder: &Folder) -> Result<Option<Self>, Error> {
        memory::find(&paths.groups(), folder).map(|dir| dir.map(Self))
    }

    /// The file's stamp, without reading it; `None` if it does not exist.
    ///
    /// # Errors
    /// [`Error`] if the file system cannot be read.
    pub fn stamp(&self) -> Result<Option<Stamp>, Error> {
        self.0.stamp(NAME.as_ref())
    }

    /// Reads the file.
    ///
    /// # Errors
    /// [`Error`] if the file system cannot be read.
    pub fn look(&self) -> Result<FileContent, Error> {
        Ok(match self.0.read(NAME.as_ref(), BYTES_MAX)? {
            Content::Whole(bytes) => FileContent::Bytes(bytes),
            Content::Absent => FileContent::Absent,
            Content::Refused(why) => FileContent::Refused(why),
        })
    }

    /// Takes the lock unless it is held.
    ///
    /// # Errors
    /// [`Error`] if the lock can never be taken: its name is not a file, or the folder is not writable.
    pub fn try_lock(&self) -> Result<Option<Lock>, Error> {
        Ok(self.0.try_lock(LOCK)?.map(|file| Lock { _file: file }))
    }

    /// Replaces the file and keeps its permissions.
    ///
    /// # Errors
    /// [`Error`] if it could not be written. The old file remains, or the new one if only syncing the directory failed.
    /// A file that would be too long to read is not written.
    pub fn write(&self, _lock: &Lock, text: &str) -> Result<(), Error> {
        if text.len() as u64 > BYTES_MAX {
            let reason = format!("it would have {} bytes, at most {BYTES_MAX} are read", text.len());
            return Err(Error::Unusable { path: self.0.path().join(NAME), reason });
        }
        let mode = self.0.stamp(NAME.as_ref())?.map_or(NEW_MODE, |stamp| stamp.permissions());
        self.0.write_with_mode(NAME, text.as_bytes(), mode)
    }

    /// Keeps a copy of an unreadable file and returns its name. The same content is kept once per day.
    ///
    /// # Errors
    /// [`Error`] if it could not be kept. In that case the file must not be replaced.
    pub fn quarantine(&self, _lock: &Lock, bytes: &[u8], digest: &str, now: Timestamp) -> Result<String, Error> {
        let day: String = now.to_string().chars().take_while(|c| *c != 'T').collect();
        let name = format!("{NAME}.corrupt-{day}-{}", digest.get(..8).unwrap_or(digest));
        self.0.write_new(&name, bytes)?;
        Ok(name)
    }

    /// Which of these copies no longer exist.
    ///
    /// # Errors
    /// [`Error`] if the file system cannot be read.
    pub fn gone(&self, copies: &[String]) -> Result<Vec<String>, Error> {
        let mut gone = Vec::new();
        for copy in copies {
            if self.0.kind(copy.as_ref())? == Kind::Nothing {
                gone.push(copy.clone());
            }
        }
        Ok(gone)
    }

    /// Removes leftovers of dead writers. Requires the lock, so that there is no other writer.
    ///
    /// # Errors
    /// [`Error`] if that fails.
    pub fn tidy(&self, _lock: &Lock) -> Result<(), Error> {
        for name in self.0.list(NAMES_MAX)? {
            let text = name.to_string_lossy();
            if text.starts_with(".tmp-") && text.contains(&format!("-{NAME}")) {
                self.0.remove(&name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
