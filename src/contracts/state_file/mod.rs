//! `session-state.json` in the folder of an agent group, which programs inside and outside read and edit.
//!
//! Whoever writes holds an exclusive `flock(2)` on the sibling `session-state.json.lock` from reading to writing; that file
//! is made on demand and never removed. The file is replaced as a whole: written beside it, synced, renamed, and the
//! directory synced. Agents own the folder: no link is followed, and what is no regular file is left alone.

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
/// Names in a folder among which what a writer that died left behind is looked for.
const NAMES_MAX: usize = 10_000;

/// The folder of an agent group.
#[derive(Debug)]
pub struct Place(Dir);

/// The lock; it is given up when this is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// What is under the file's name.
#[derive(Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing.
    Absent,
    /// These bytes.
    Bytes(Vec<u8>),
    /// Something that is not read: why.
    Refused(String),
}

impl Place {
    /// Opens the folder of an agent group if there is one.
    ///
    /// # Errors
    /// [`Error`] if the machine cannot.
    pub fn find(paths: &Paths, folder: &Folder) -> Result<Option<Self>, Error> {
        memory::find(&paths.groups(), folder).map(|dir| dir.map(Self))
    }

    /// What the file looks like without being read; none if there is none.
    ///
    /// # Errors
    /// [`Error`] if the machine cannot look.
    pub fn stamp(&self) -> Result<Option<Stamp>, Error> {
        self.0.stamp(NAME.as_ref())
    }

    /// Reads the file.
    ///
    /// # Errors
    /// [`Error`] if the machine cannot read.
    pub fn look(&self) -> Result<Look, Error> {
        Ok(match self.0.read(NAME.as_ref(), BYTES_MAX)? {
            Content::Whole(bytes) => Look::Bytes(bytes),
            Content::Absent => Look::Absent,
            Content::Refused(why) => Look::Refused(why),
        })
    }

    /// Takes the lock if nobody has it.
    ///
    /// # Errors
    /// [`Error`] if it can never be had: what has its name is no file, or the folder cannot be written.
    pub fn try_lock(&self) -> Result<Option<Lock>, Error> {
        Ok(self.0.try_lock(LOCK)?.map(|file| Lock { _file: file }))
    }

    /// Replaces the file; its permissions stay.
    ///
    /// # Errors
    /// [`Error`] if it could not be written; then it is as it was, or, if only the directory could not be synced, the new
    /// one. One that is too long to be read again is not written.
    pub fn write(&self, _lock: &Lock, text: &str) -> Result<(), Error> {
        if text.len() as u64 > BYTES_MAX {
            let reason = format!("it would have {} bytes, at most {BYTES_MAX} are read", text.len());
            return Err(Error::Unusable { path: self.0.path().join(NAME), reason });
        }
        let mode = self.0.stamp(NAME.as_ref())?.map_or(NEW_MODE, |stamp| stamp.permissions());
        self.0.write_with_mode(NAME, text.as_bytes(), mode)
    }

    /// Keeps a copy of a file that nobody can read, and says what it is called. The same bytes are kept once a day.
    ///
    /// # Errors
    /// [`Error`] if they could not be kept; then the file must not be replaced.
    pub fn quarantine(&self, _lock: &Lock, (bytes, digest): (&[u8], &str), now: Timestamp) -> Result<String, Error> {
        let day: String = now.to_string().chars().take_while(|c| *c != 'T').collect();
        let name = format!("{NAME}.corrupt-{day}-{}", digest.get(..8).unwrap_or(digest));
        self.0.write_new(&name, bytes)?;
        Ok(name)
    }

    /// Which of these copies are not there any more.
    ///
    /// # Errors
    /// [`Error`] if the machine cannot look.
    pub fn gone(&self, copies: &[String]) -> Result<Vec<String>, Error> {
        let mut gone = Vec::new();
        for copy in copies {
            if self.0.kind(copy.as_ref())? == Kind::Nothing {
                gone.push(copy.clone());
            }
        }
        Ok(gone)
    }

    /// Removes what a writer that died left behind. Only under the lock nobody else is writing.
    ///
    /// # Errors
    /// [`Error`] if the machine cannot.
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
