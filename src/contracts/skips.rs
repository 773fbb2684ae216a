//! Skip summaries: `.skip-summary-<skill>.json` in an agent group's folder, written by a skill that left work undone.
//!
//! Parsing is strict about what the contract defines; other fields are ignored. A file that is not a valid summary
//! stays where it is and is reported.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use sha2::{Digest as _, Sha256};

use super::dir::{Content, Dir, Kind};
use super::error::Error;
use super::home::CLAUDE_DIR;
use super::memory;
use crate::config::Paths;
use crate::model::content::BlobId;
use crate::model::entity::Folder;
use crate::model::skip::{FoundSkip, SkipTrouble, is_skill};
use crate::model::time::Timestamp;

mod parse;

pub use parse::parse;

/// Prefix and suffix of a summary's file name.
const BEGIN: &str = ".skip-summary-";
const END: &str = ".json";
/// Longest summary, in bytes.
pub const FILE_MAX: u64 = 256 << 10;
/// Maximum number of names checked in a folder.
const NAMES_MAX: usize = 100_000;
/// Maximum number of summaries read from one folder, each for another skill.
const FOUND_MAX: usize = 256;

/// The summary files in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SkipDirectory {
    /// The summaries, by skill name.
    pub skips: Vec<FoundSkip>,
    /// Names with the summaries' prefix that belong to no skill, or to an unfinished file.
    pub strange: Vec<Strange>,
    /// Whether there were too many names to check all of them.
    pub cut: bool,
}

/// A file name that is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strange {
    /// It contains no valid skill name.
    NoSkill(String),
    /// A temporary file that was left behind.
    Temporary(String),
}

/// The name of a skill's summary file.
#[must_use]
pub fn file_name(skill: &str) -> String {
    format!("{BEGIN}{skill}{END}")
}

/// Finds summaries in an agent group's folder. A missing folder has none.
///
/// # Errors
/// [`Error`] if the file system cannot be read. Unusual files of the agent are not errors.
pub fn find(paths: &Paths, folder: &Folder) -> Result<SkipDirectory, Error> {
    let mut found = SkipDirectory::default();
    let Some(group) = memory::find(&paths.groups(), folder)? else { return Ok(found) };
    let names = group.list(NAMES_MAX)?;
    found.cut = names.len() >= NAMES_MAX;
    for name in names {
        match decide_name(&name) {
            Name::Other => {}
            Name::Strange(strange) => found.strange.push(strange),
            Name::Skill(_) if found.skips.len() >= FOUND_MAX => found.cut = true,
            Name::Skill(skill) => {
                let content = match group.read(&name, FILE_MAX)? {
                    // It was removed while the others were read.
                    Content::Absent => continue,
                    Content::Refused(why) => Err(SkipTrouble::Unreadable(why)),
                    Content::Whole(bytes) => parse(&skill, &bytes, digest(&bytes)),
                };
                found.skips.push(FoundSkip { skill, content });
            }
        }
    }
    Ok(found)
}

/// Modification time of a file in an agent group's folder; `None` if it does not exist.
///
/// # Errors
/// [`Error`] if the machine cannot read.
pub fn modified(paths: &Paths, folder: &Folder, name: &str) -> Result<Option<Timestamp>, Error> {
    match memory::find(&paths.groups(), folder)? {
        Some(group) => group.modified(name.as_ref()),
        None => Ok(None),
    }
}

/// Whether an agent has a skill, in its home or from the installation.
///
/// # Errors
/// [`Error`] if the machine cannot read.
pub fn is_known(paths: &Paths, folder: &Folder, skill: &str) -> Result<bool, Error> {
    let home = memory::find(&paths.homes(), folder)?.map(|home| home.dir(CLAUDE_DIR.as_ref())).transpose()?.flatten();
    let own = home.map(|home| home.dir("skills".as_ref())).transpose()?.flatten();
    for place in [own, Dir::find(&paths.skills())?].into_iter().flatten() {
        if place.kind(skill.as_ref())? != Kind::Nothing {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes the summary of a skill if it still has this digest. If it was replaced meanwhile, the new one stays.
///
/// # Errors
/// [`Error`] if the machine cannot do it.
pub fn remove(paths: &Paths, folder: &Folder, skill: &str, wanted: &BlobId) -> Result<(), Error> {
    let Some(group) = memory::find(&paths.groups(), folder)? else { return Ok(()) };
    let name = file_name(skill);
    // First rename the file, so that whatever is written under its name from here on is a separate report.
    let aside = format!(".{name}.removed.tmp");
    if group.kind(aside.as_ref())? == Kind::File {
        end(&group, &name, &aside, wanted)?; // the process that moved it was killed
    }
    if !is_file(&group, &name, wanted)? {
        return Ok(());
    }
    if !group.rename_to_free(&name, &aside)? {
        group.remove(aside.as_ref())?;
        if !group.rename_to_free(&name, &aside)? {
            return Ok(());
        }
    }
    end(&group, &name, &aside, wanted)
}

/// Deletes the renamed file if it is the wanted one, else puts it back.
fn end(group: &Dir, name: &str, aside: &str, wanted: &BlobId) -> Result<(), Error> {
    if is_file(group, aside, wanted)? {
        return group.remove(aside.as_ref());
    }
    if !group.rename_to_free(aside, name)? {
        tracing::warn!(
            aside,
            "a skip summary was overwritten twice while it was being removed; it is kept under another name"
        );
    }
    Ok(())
}

fn is_file(group: &Dir, name: &str, wanted: &BlobId) -> Result<bool, Error> {
    if group.kind(name.as_ref())? != Kind::File {
        return Ok(false);
    }
    Ok(matches!(group.read(name.as_ref(), FILE_MAX)?, Content::Whole(bytes) if digest(&bytes) == *wanted))
}

fn digest(bytes: &[u8]) -> BlobId {
    BlobId::of_digest(&Sha256::digest(bytes).into())
}

/// Kind of a file name.
#[derive(Debug, PartialEq, Eq)]
enum Name {
    /// The summary of a skill.
    Skill(String),
    /// Similar to a summary's.
    Strange(Strange),
    /// Any other file.
    Other,
}

fn decide_name(name: &OsStr) -> Name {
    let bytes = name.as_bytes();
    let shown = || OsString::from(name).to_string_lossy().into_owned();
    // Programs that write through a temporary file put a dot before the name and a suffix after it.
    let unfinished = bytes.strip_prefix(b".").is_some_and(|rest| rest.starts_with(BEGIN.as_bytes()));
    let Some(rest) = bytes.strip_prefix(BEGIN.as_bytes()) else {
        return if unfinished { Name::Strange(Strange::Temporary(shown())) } else { Name::Other };
    };
    let skill = rest.strip_suffix(END.as_bytes()).and_then(|skill| std::str::from_utf8(skill).ok());
    match skill.filter(|skill| is_skill(skill)) {
        Some(skill) => Name::Skill(skill.to_owned()),
        None if bytes.ends_with(b".tmp") => Name::Strange(Strange::Temporary(shown())),
        None => Name::Strange(Strange::NoSkill(shown())),
    }
}

#[cfg(test)]
mod tests;
