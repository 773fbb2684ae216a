//! The provider's own record of a conversation, which Hearth neither writes nor believes, and what things take up.

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

/// Longest `session.json` that is read.
const SESSION_MAX: u64 = 1 << 20;
/// Longest transcript that is read, in bytes.
pub const TRANSCRIPT_MAX: u64 = 256 << 20;
/// Projects that are looked through.
const PROJECTS_MAX: usize = 10_000;
/// Files and directories that are counted of one place, and how deep.
const COUNTED_MAX: usize = 1_000_000;
const DEPTH_MAX: usize = 64;

/// What there is of a conversation.
#[derive(Debug)]
pub enum Found {
    /// Its file, open.
    Transcript {
        /// The conversation's id.
        id: String,
        /// Lines of JSON.
        file: File,
        /// Its length.
        bytes: u64,
    },
    /// None, and why.
    None(String),
}

/// Finds the transcript of a session by what the session's runner noted of it.
///
/// # Errors
/// [`Error`] if the machine cannot read.
pub fn find_transcript(paths: &Paths, session: SessionId, folder: &Folder) -> Result<Found, Error> {
    let id = match conversation(paths, session)? {
        Ok(id) => id,
        Err(why) => return Ok(Found::None(why)),
    };
    let name = OsString::from(format!("{id}.jsonl"));
    let claude = find(&paths.homes(), folder)?.map(|home| home.dir(CLAUDE_DIR.as_ref())).transpose()?.flatten();
    let projects = claude.map(|claude| claude.dir("projects".as_ref())).transpose()?.flatten();
    let mut why = format!("the conversation {id} has no transcript in the agent's home");
    let Some(projects) = projects else { return Ok(Found::None(why)) };
    for project in projects.list(PROJECTS_MAX)? {
        let Some(project) = projects.dir(&project)? else { continue };
        match project.file(&name, TRANSCRIPT_MAX)? {
            Ok(file) => {
                let bytes = file.metadata().map_err(|e| Error::io("look at", project.path(), e))?.len();
                return Ok(Found::Transcript { id, file, bytes });
            }
            Err(Content::Refused(reason)) => why = format!("the transcript of conversation {id}: {reason}"),
            Err(Content::Absent | Content::Whole(_)) => {}
        }
    }
    Ok(Found::None(why))
}

/// The id of the conversation that the agent CLI would resume; else why there is none.
fn conversation(paths: &Paths, session: SessionId) -> Result<Result<String, String>, Error> {
    let none = |why: &str| Ok(Err(why.to_owned()));
    let mailbox = Dir::find(&paths.session(session))?.map(|dir| dir.dir("agent".as_ref())).transpose()?.flatten();
    let Some(mailbox) = mailbox else { return none("the session never ran") };
    let bytes = match mailbox.read("session.json".as_ref(), SESSION_MAX)? {
        Content::Whole(bytes) => bytes,
        Content::Absent => return none("no conversation was begun in the session, or it was reset"),
        Content::Refused(why) => return Ok(Err(format!("what its runner noted cannot be read: {why}"))),
    };
    let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    match value.pointer("/continuations/claude").and_then(Value::as_str) {
        None => none("it has no conversation of the provider `claude`; other providers keep no transcript here"),
        Some(id) if is_id(id) => Ok(Ok(id.to_owned())),
        Some(_) => none("what its runner noted is not the id of a conversation"),
    }
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= 100 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// Bytes of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// All of them.
    pub bytes: u64,
    /// Whether there were too many to count.
    pub cut: bool,
}

/// What the files of a directory of the data directory take up, with everything in it; links are not followed.
///
/// # Errors
/// [`Error`] if the machine cannot read.
pub fn usage(place: &Path) -> Result<Usage, Error> {
    let mut usage = Usage::default();
    let mut left = COUNTED_MAX;
    if let Some(dir) = Dir::find(place)? {
        count(&dir, &mut usage, (&mut left, DEPTH_MAX))?;
    }
    Ok(usage)
}

/// The same for a directory in it, which may not be there.
///
/// # Errors
/// [`Error`] if the machine cannot read.
pub fn usage_below(place: &Path, name: &str) -> Result<Usage, Error> {
    let mut usage = Usage::default();
    let mut left = COUNTED_MAX;
    if let Some(dir) = Dir::find(place)?.map(|dir| dir.dir(OsStr::new(name))).transpose()?.flatten() {
        count(&dir, &mut usage, (&mut left, DEPTH_MAX))?;
    }
    Ok(usage)
}

fn count(dir: &Dir, usage: &mut Usage, (left, depth): (&mut usize, usize)) -> Result<(), Error> {
    if depth == 0 {
        usage.cut = true;
        return Ok(());
    }
    for name in dir.list(*left)? {
        *left = left.saturating_sub(1);
        usage.cut |= *left == 0;
        match dir.kind(&name)? {
            Kind::File => usage.bytes = usage.bytes.saturating_add(dir.size(&name)?.unwrap_or(0)),
            Kind::Directory => {
                if let Some(next) = dir.dir(&name)? {
                    count(&next, usage, (left, depth - 1))?;
                }
            }
            Kind::Nothing | Kind::Link | Kind::Other => {}
        }
    }
    Ok(())
}
