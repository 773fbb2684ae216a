//! Reads an agent's memory: its notes, and the memory files of its provider. The agent wrote all of it.

use std::ffi::OsStr;

use crate::config::Paths;
use crate::model::entity::Folder;

use super::dir::{Content, Dir};
use super::error::Error;
use super::home::{CLAUDE_DIR, LOCAL};

/// Maximum length of a displayed file in bytes.
const FILE_MAX: u64 = 1 << 20;
/// Maximum number of a provider's projects, and of files in one.
const ENTRIES_MAX: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Path relative to the agent's folder or home.
    pub file: String,
    /// Length in bytes.
    pub bytes: u64,
    /// The text, or why it is not shown.
    pub text: Result<String, String>,
}

/// Reads an agent's memory; empty if there are no files.
///
/// # Errors
/// [`Error`] if the file system cannot be read. Unusual files of the agent are not errors.
pub fn notes(paths: &Paths, folder: &Folder) -> Result<Vec<Note>, Error> {
    let mut notes = Vec::new();
    if let Some(group) = find(&paths.groups(), folder)? {
        notes.extend(note(&group, OsStr::new(LOCAL), "")?);
    }
    let Some(claude) = find(&paths.homes(), folder)?.map(|home| home.dir(CLAUDE_DIR.as_ref())).transpose()?.flatten()
    else {
        return Ok(notes);
    };
    notes.extend(note(&claude, OsStr::new("memory.json"), ".claude/")?);
    let Some(projects) = claude.dir("projects".as_ref())? else { return Ok(notes) };
    for project in projects.list(ENTRIES_MAX)? {
        let memory = projects.dir(&project)?.map(|project| project.dir("memory".as_ref())).transpose()?.flatten();
        let Some(memory) = memory else { continue };
        let place = format!(".claude/projects/{}/memory/", project.to_string_lossy());
        for name in memory.list(ENTRIES_MAX)? {
            notes.extend(note(&memory, &name, &place)?);
        }
    }
    Ok(notes)
}

fn note(dir: &Dir, name: &OsStr, place: &str) -> Result<Option<Note>, Error> {
    let text = match dir.read(name, FILE_MAX)? {
        Content::Absent => return Ok(None),
        Content::Whole(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Content::Refused(why) => Err(why),
    };
    let bytes = dir.size(name)?.unwrap_or(0);
    Ok(Some(Note { file: format!("{place}{}", name.to_string_lossy()), bytes, text }))
}

/// An agent's directory below one of Hearth's directories.
pub(super) fn find(place: &std::path::Path, folder: &Folder) -> Result<Option<Dir>, Error> {
    Dir::find(place)?.map(|dir| dir.dir(folder.as_str().as_ref())).transpose().map(Option::flatten)
}
