//! Finds a provider's own transcript of a conversation, which Hearth neither writes nor trusts, and measures disk
//! usage.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::Path;

use serde_json::Value;

use crate::config::Paths;
use crate::model::entity::Folder;
use crate::model::id::SessionId;

use super::dir::{Content, Dir, Kind};
use super::error::Error;
use super::home::CLAUDE_DIR;
use super::memory::find;

/// Maximum length of `session.json` in bytes.
const SESSION_MAX: u64 = 1 << 20;
/// Maximum length of a transcript in bytes.
pub const TRANSCRIPT_MAX: u64 = 256 << 20;
/// Maximum number of projects searched.
const PROJECTS_MAX: usize = 10_000;
/// Limits of entries counted below one directory, and of nesting.
pub const COUNTED_MAX: usize = 1_000_000;
const DEPTH_MAX: usize = 64;

/// Result of the search.
#[derive(Debug)]
pub enum TranscriptFile {
    /// The open transcript.
    Transcript {
        /// The conversation's id.
        id: String,
        /// Lines of JSON.
        file: File,
        /// Its length in bytes.
        bytes: u64,
    },
    /// None, with the reason.
    None(String),
}

/// Finds the transcript of a session by the conversation id that the session's runner stored.
///
/// # Errors
/// [`Error`] if the file system cannot be read.
pub fn find_transcript(paths: &Paths, session: SessionId, folder: &Folder) -> Result<TranscriptFile, Error> {
    let id = match conversation(paths, session)? {
        Ok(id) => id,
        Err(why) => return Ok(TranscriptFile::None(why)),
    };
    let name = OsString::from(format!("{id}.jsonl"));
    let claude = find(&paths.homes(), folder)?.map(|home| home.dir(CLAUDE_DIR.as_ref())).transpose()?.flatten();
    let projects = claude.map(|claude| claude.dir("projects".as_ref())).transpose()?.flatten();
    let mut why = format!("the conversation {id} has no transcript in the agent's home");
    let Some(projects) = projects else { return Ok(TranscriptFile::None(why)) };
    for project in projects.list(PROJECTS_MAX)? {
        let Some(project) = projects.dir(&project)? else { continue };
        match project.file(&name, TRANSCRIPT_MAX)? {
            Ok(file) => {
                let bytes = file.metadata().map_err(|e| Error::io("look at", project.path(), e))?.len();
                return Ok(TranscriptFile::Transcript { id, file, bytes });
            }
            Err(Content::Refused(reason)) => why = format!("the transcript of conversation {id}: {reason}"),
            Err(Content::Absent | Content::Whole(_)) => {}
        }
    }
    Ok(TranscriptFile::None(why))
}

/// The id of the conversation that the agent CLI would resume, or why there is none.
fn conversation(paths: &Paths, session: SessionId) -> Result<Result<String, String>, Error> {
    let none = |why: &str| Ok(Err(why.to_owned()));
    let mailbox = Dir::find(&paths.session(session))?.map(|dir| dir.dir("agent".as_ref())).transpose()?.flatten();
    let Some(mailbox) = mailbox else { return none("the session never ran") };
    let bytes = match mailbox.read("session.json".as_ref(), SESSION_MAX)? {
        Content::Whole(bytes) => bytes,
        Content::Absent => return none("no conversation was begun in the session, or it was reset"),
        Content::Refused(why) => return Ok(Err(format!("the runner's record cannot be read: {why}"))),
    };
    let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    match value.pointer("/continuations/claude").and_then(Value::as_str) {
        None => none("it has no conversation of the provider `claude`; other providers keep no transcript here"),
        Some(id) if is_id(id) => Ok(Ok(id.to_owned())),
        Some(_) => none("the runner's record is not the id of a conversation"),
    }
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= 100 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// Disk usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of files, directories and links.
    pub files: u64,
    /// Whether there were too many to count.
    pub cut: bool,
}

/// The disk usage of a directory in the data directory, counting at most `max` entries. Links are not followed.
///
/// # Errors
/// [`Error`] if the file system cannot be read.
pub fn usage(place: &Path, max: usize) -> Result<Usage, Error> {
    let mut usage = Usage::default();
    let mut left = max;
    if let Some(dir) = Dir::find(place)? {
        count(&dir, &mut usage, &mut left, DEPTH_MAX)?;
    }
    Ok(usage)
}

/// The same for a subdirectory, which may be missing.
///
/// # Errors
/// [`Error`] if the file system cannot be read.
pub fn usage_below(place: &Path, name: &str, max: usize) -> Result<Usage, Error> {
    let mut usage = Usage::default();
    let mut left = max;
    if let Some(dir) = Dir::find(place)?.map(|dir| dir.dir(OsStr::new(name))).transpose()?.flatten() {
        count(&dir, &mut usage, &mut left, DEPTH_MAX)?;
    }
    Ok(usage)
}

fn count(dir: &Dir, usage: &mut Usage, left: &mut usize, depth: usize) -> Result<(), Error> {
    if depth == 0 {
        usage.cut = true;
        return Ok(());
    }
    for name in dir.list(*left)? {
        *left = left.saturating_sub(1);
        usage.cut |= *left == 0;
        usage.files = usage.files.saturating_add(1);
        match dir.kind(&name)? {
            Kind::File => usage.bytes = usage.bytes.saturating_add(dir.size(&name)?.unwrap_or(0)),
            Kind::Directory => {
                if let Some(next) = dir.dir(&name)? {
                    count(&next, usage, left, depth - 1)?;
                }
            }
            Kind::Nothing | Kind::Link | Kind::Other => {}
        }
    }
    Ok(())
}
