//! Skip summaries: `.skip-summary-<skill>.json` in an agent group's folder, written by a skill that left work undone.
//!
//! Reading is strict, as far as the contract says what a summary is; fields that it does not name are left alone. What
//! cannot be taken for a summary stays where it is and is reported, never guessed at.

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

/// How names of summaries begin and end.
const BEGIN: &str = ".skip-summary-";
const END: &str = ".json";
/// Longest summary, in bytes.
pub const FILE_MAX: u64 = 256 << 10;
/// Names of a folder that are looked at.
const NAMES_MAX: usize = 100_000;
/// Summaries of one folder that are read; each is of another skill.
const FOUND_MAX: usize = 256;

/// What lies in a folder under the names of summaries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The summaries, by the name of the skill.
    pub skips: Vec<FoundSkip>,
    /// Names that begin as those of summaries do and are of no skill, or of something that was never finished.
    pub strange: Vec<Strange>,
    /// Whether there were too many names to see all of them.
    pub cut: bool,
}

/// A name that nobody reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strange {
    /// It ends in no name of a skill.
    NoSkill(String),
    /// A file that was being written, and was left.
    Temporary(String),
}

/// The name of the file of a skill.
#[must_use]
pub fn file_name(skill: &str) -> String {
    format!("{BEGIN}{skill}{END}")
}

/// Looks for summaries in an agent group's folder. Without a folder there are none.
///
/// # Errors
/// [`Error`] if the machine cannot read; what the agent put there is never one.
pub fn find(paths: &Paths, folder: &Folder) -> Result<Found, Error> {
    let mut found = Found::default();
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
                    // It went while the others were read.
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

/// When a file of an agent group's folder was last changed; none if it is not there.
///
/// # Errors
/// [`Error`] if the machine cannot read.
pub fn modified(paths: &Paths, folder: &Folder, name: &str) -> Result<Option<Timestamp>, Error> {
    match memory::find(&paths.groups(), folder)? {
        Some(group) => group.modified(name.as_ref()),
        None => Ok(None),
    }
}

/// Whether an agent has a skill: in its home, or among those of the installation.
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

/// Removes the summary of a skill if it is still the file with this digest. One that was written over it meanwhile stays.
///
/// # Errors
/// [`Error`] if the machine cannot do it.
pub fn remove(paths: &Paths, folder: &Folder, (skill, wanted): (&str, &BlobId)) -> Result<(), Error> {
    let Some(group) = memory::find(&paths.groups(), folder)? else { return Ok(()) };
    let name = file_name(skill);
    // Whatever is written under the name from here on is another report: what is removed was taken away from there first.
    let aside = format!(".{name}.removed.tmp");
    if group.kind(aside.as_ref())? == Kind::File {
        end(&group, (&name, &aside), wanted)?; // whoever took it away was killed
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
    end(&group, (&name, &aside), wanted)
}

/// Removes what was taken away if it is what was wanted, else puts it back.
fn end(group: &Dir, (name, aside): (&str, &str), wanted: &BlobId) -> Result<(), Error> {
    if is_file(group, aside, wanted)? {
        return group.remove(aside.as_ref());
    }
    if !group.rename_to_free(aside, name)? {
        tracing::warn!(aside, "a skip summary was written over twice while it was removed; it is kept aside");
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

/// What a name is.
#[derive(Debug, PartialEq, Eq)]
enum Name {
    /// Of the summary of a skill.
    Skill(String),
    /// Meant for one.
    Strange(Strange),
    /// Of something else.
    Other,
}

fn decide_name(name: &OsStr) -> Name {
    let bytes = name.as_bytes();
    let shown = || OsString::from(name).to_string_lossy().into_owned();
    // Whoever writes through a temporary file puts a dot before the name, and something after it.
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
