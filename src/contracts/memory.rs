//! What an agent remembers: its own notes, and what its provider keeps for it. All of it was written by the agent.

use std::ffi::OsStr;

use crate::config::Paths;
use crate::model::entity::Folder;

use super::dir::{Content, Dir};
use super::error::Error;
use super::home::{CLAUDE_DIR, LOCAL};

/// Longest file that is shown, in bytes.
const FILE_MAX: u64 = 1 << 20;
/// Projects of a provider, and files of one, that are looked at.
const ENTRIES_MAX: usize = 1_000;

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Where it is, relative to the agent's folder or home.
    pub file: String,
    /// How long it is.
    pub bytes: u64,
    /// What it says, as far as it is text; else why it is not shown.
    pub text: Result<String, String>,
}

/// Reads an agent's memory; there is none if there are no files.
///
/// # Errors
/// [`Error`] if the machine cannot read; what the agent put there is never one.
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

/// An agent's directory in a directory of Hearth's.
pub(super) fn find(place: &std::path::Path, folder: &Folder) -> Result<Option<Dir>, Error> {
    Dir::find(place)?.map(|dir| dir.dir(folder.as_str().as_ref())).transpose().map(Option::flatten)
}
