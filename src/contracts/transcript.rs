//! Finds the transcript of a conversation, which the agent CLI or the runner keeps in the agent's home and Hearth does
//! not trust, and measures disk usage.

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

/// The runner's directory in an agent's home.
const RUNNER_DIR: &str = ".hearth";
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
    let Conversation { id, keeper } = match conversation(paths, session)? {
        Ok(conversation) => conversation,
        Err(why) => return Ok(TranscriptFile::None(why)),
    };
    let name = OsString::from(format!("{id}.jsonl"));
    let mut why = format!("the conversation {id} has no transcript in the agent's home");
    for dir in directories(paths, folder, keeper)? {
        match dir.file(&name, TRANSCRIPT_MAX)? {
            Ok(file) => {
                let bytes = file.metadata().map_err(|e| Error::io("look at", dir.path(), e))?.len();
                return Ok(TranscriptFile::Transcript { id, file, bytes });
            }
            Err(Content::Refused(reason)) => why = format!("the transcript of conversation {id}: {reason}"),
            Err(Content::Absent | Content::Whole(_)) => {}
        }
    }
    Ok(TranscriptFile::None(why))
}

/// What keeps a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeper {
    /// The agent CLI.
    Claude,
    /// The runner, for an agent with the Agent Client Protocol.
    Runner,
}

/// A conversation of a session.
#[derive(Debug)]
struct Conversation {
    id: String,
    keeper: Keeper,
}

/// The directories that may have the transcript.
fn directories(paths: &Paths, folder: &Folder, keeper: Keeper) -> Result<Vec<Dir>, Error> {
    let (first, second) = match keeper {
        Keeper::Claude => (CLAUDE_DIR, "projects"),
        Keeper::Runner => (RUNNER_DIR, "transcripts"),
    };
    let dir = find(&paths.homes(), folder)?.map(|home| home.dir(first.as_ref())).transpose()?.flatten();
    let Some(dir) = dir.map(|dir| dir.dir(second.as_ref())).transpose()?.flatten() else { return Ok(Vec::new()) };
    if keeper == Keeper::Runner {
        return Ok(vec![dir]);
    }
    dir.list(PROJECTS_MAX)?.iter().filter_map(|project| dir.dir(project).transpose()).collect()
}

/// The conversation that the agent would go on with, or why there is none.
fn conversation(paths: &Paths, session: SessionId) -> Result<Result<Conversation, String>, Error> {
    let none = |why: &str| Ok(Err(why.to_owned()));
    let mailbox = Dir::find(&paths.session(session))?.map(|dir| dir.dir("agent".as_ref())).transpose()?.flatten();
    let Some(mailbox) = mailbox else { return none("the session never ran") };
    let bytes = match mailbox.read("session.json".as_ref(), SESSION_MAX)? {
        Content::Whole(bytes) => bytes,
        Content::Absent => return none("no conversation was begun in the session, or it was reset"),
        Content::Refused(why) => return Ok(Err(format!("the runner's record cannot be read: {why}"))),
    };
    let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let known = |provider: &str| value.pointer(&format!("/continuations/{provider}")).and_then(Value::as_str);
    let (id, keeper) = match (known("claude"), known("acp")) {
        (Some(id), _) => (id.to_owned(), Keeper::Claude),
        (None, Some(text)) => {
            let known: Value = serde_json::from_str(text).unwrap_or_default();
            (known.get("session").and_then(Value::as_str).unwrap_or_default().to_owned(), Keeper::Runner)
        }
        (None, None) => return none("it has no conversation, or its provider keeps no transcript here"),
    };
    if is_id(&id) {
        return Ok(Ok(Conversation { id, keeper }));
    }
    none("the runner's record is not the id of a conversation")
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

/// The usage of a subdirectory, which may be missing.
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
