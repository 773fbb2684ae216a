//! Finds, opens and writes session files. A link in place of the file itself is never followed.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::VERSION;
use super::decode::{Damage, FILE_MAX, decode};
use super::judge::{ClaimedPath, Home, Unfit, judge};
use super::names::{self, Part};
use crate::contracts::Error;
use crate::contracts::dir::{Content, Dir, Kind};
use crate::model::take_in::FileSession;
use crate::model::time::Timestamp;
use crate::model::workspace::Fingerprint;

/// Maximum number of names checked in one directory.
const NAMES_MAX: usize = 100_000;

/// A file that could be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Where it is.
    pub path: PathBuf,
    /// The session's main file: the file itself, unless it is an older state.
    pub owner: PathBuf,
    /// Which of the session's files it is.
    pub part: Part,
}

/// The session files of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkspaceScan {
    /// Files, grouped by session, older states first.
    pub files: Vec<Candidate>,
    /// Partitions of other workspaces beside the workspace's own.
    pub others: Vec<PathBuf>,
}

/// A file after reading.
#[derive(Debug)]
pub struct SessionFile {
    /// Its path, with its directory in canonical form.
    pub path: PathBuf,
    /// The session's main file.
    pub owner: PathBuf,
    pub part: Part,
    pub bytes: Vec<u8>,
    /// The session in it, or why it may not be imported.
    pub session: Result<FileSession, Trouble>,
}

/// Why a file is not imported. None of these changes anything.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// There is no such file.
    #[error("there is no file {}", .0.display())]
    Missing(PathBuf),
    #[error("{} is a directory, not a session file; `hearth import claw` imports all sessions of a directory", .0.display())]
    Directory(PathBuf),
    #[error("{} is a link, and links are not followed; name the file itself", .0.display())]
    Link(PathBuf),
    /// It is not a regular file, too long, or not readable.
    #[error("{}: {why}", path.display())]
    Refused { path: PathBuf, why: String },
    /// It belongs to another workspace.
    #[error(transparent)]
    Unfit(Box<Unfit>),
    #[error("{} is damaged: {damage}", path.display())]
    Damaged { path: PathBuf, damage: Damage },
    /// It was written by a newer program.
    #[error(
        "{} is of format version {version}, this Hearth knows {VERSION}: it can only be viewed ({records} records); \
         use a newer Hearth", path.display()
    )]
    Newer {
        path: PathBuf,
        /// Its format version.
        version: u32,
        /// Number of its records.
        records: usize,
    },
    /// A system error.
    #[error(transparent)]
    Machine(#[from] Error),
}

impl Trouble {
    /// Error code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing(_) => "session_not_found",
            Self::Directory(_) => "session_path_is_directory",
            Self::Link(_) => "session_path_is_link",
            Self::Refused { .. } | Self::Machine(_) => "session_unreadable",
            Self::Unfit(unfit) => match **unfit {
                Unfit::Mismatch { .. } => "workspace_mismatch",
                Unfit::Unbound { .. } => "legacy_session_no_workspace_binding",
                Unfit::OtherPartition { .. } => "other_partition",
            },
            Self::Damaged { .. } => "session_corrupt",
            Self::Newer { .. } => "session_version_newer",
        }
    }

    /// Whether the file is broken, as opposed to belonging to another workspace.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Refused { .. } | Self::Machine(_))
    }
}

/// Finds the files of a workspace, in the workspace and in a data directory of claw. Missing directories have no files.
///
/// # Errors
/// [`Error`] if the file system cannot be read.
pub fn find(home: &Home, data: Option<&Path>) -> Result<WorkspaceScan, Error> {
    let own: Vec<_> = home.paths().map(|path| Fingerprint::of_path(path.as_os_str().as_bytes()).to_string()).collect();
    let mut found = WorkspaceScan::default();
    if let Some(flat) = sessions(&home.path.join(".claw"))? {
        for name in flat.list(NAMES_MAX)? {
            if flat.kind(&name)? == Kind::Directory && !own.iter().any(|own| **own == *name) {
                found.others.push(flat.path().join(name));
            }
        }
        for dir in own.iter().filter_map(|own| flat.dir(own.as_ref()).transpose()) {
            found.files.append(&mut files(&dir?)?);
        }
        found.files.append(&mut files(&flat)?);
    }
    if let Some(flat) = data.map(sessions).transpose()?.flatten() {
        for dir in own.iter().filter_map(|own| flat.dir(own.as_ref()).transpose()) {
            found.files.append(&mut files(&dir?)?);
        }
    }
    Ok(found)
}

fn sessions(place: &Path) -> Result<Option<Dir>, Error> {
    let Some(place) = Dir::find(place)? else { return Ok(None) };
    place.dir("sessions".as_ref())
}

/// The session files in a directory, grouped by session.
fn files(dir: &Dir) -> Result<Vec<Candidate>, Error> {
    let names = dir.list(NAMES_MAX)?;
    let mut files: Vec<_> =
        names.iter().filter_map(|name| candidate(dir.path(), name, |owner| has(&names, owner))).collect();
    files.sort_by(|a, b| (&a.owner, a.part).cmp(&(&b.owner, b.part)));
    Ok(files)
}

fn has(names: &[OsString], name: &OsStr) -> bool {
    names.binary_search_by(|known| known.as_os_str().cmp(name)).is_ok()
}

fn candidate(dir: &Path, name: &OsStr, exists: impl Fn(&OsStr) -> bool) -> Option<Candidate> {
    let (stem, part) = parse(name)?;
    let with = |ending: &[u8]| OsString::from_vec([stem.as_bytes(), ending].concat());
    let owner = match part {
        Part::Current => name.to_owned(),
        // The name of an older state does not always say which of two files it belongs to.
        Part::Older(_) if !exists(&with(b".jsonl")) && exists(&with(b".json")) => with(b".json"),
        Part::Older(_) => with(b".jsonl"),
    };
    Some(Candidate { path: dir.join(name), owner: dir.join(owner), part })
}

/// Like [`names::parse`], for a name that may not be UTF-8.
fn parse(name: &OsStr) -> Option<(OsString, Part)> {
    if let Some(text) = name.to_str() {
        return names::parse(text).map(|(stem, part)| (stem.into(), part));
    }
    // Only the extensions have to be text: each byte becomes one character.
    let text: String = name.as_bytes().iter().copied().map(char::from).collect();
    let (stem, part) = names::parse(&text)?;
    let stem = stem.chars().filter_map(|c| u8::try_from(c).ok()).collect();
    Some((OsString::from_vec(stem), part))
}

/// Reads one file and checks whether a workspace may import it. The file is not changed.
///
/// # Errors
/// [`Trouble`] if it cannot be read at all.
pub fn read(path: &Path, home: &Home) -> Result<SessionFile, Trouble> {
    let name = path.file_name().ok_or_else(|| Trouble::Directory(path.to_owned()))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = match std::fs::canonicalize(parent) {
        Ok(parent) => parent,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(Trouble::Missing(path.to_owned())),
        Err(error) => return Err(Error::io("find", parent, error).into()),
    };
    let dir = Dir::open(&parent)?;
    match dir.kind(name)? {
        Kind::Nothing => return Err(Trouble::Missing(path.to_owned())),
        Kind::Directory => return Err(Trouble::Directory(path.to_owned())),
        Kind::Link => return Err(Trouble::Link(path.to_owned())),
        Kind::File | Kind::Other => {}
    }
    let (bytes, modified) = content(&dir, name, path)?;
    let path = parent.join(name);
    let known = candidate(&parent, name, |owner| matches!(dir.kind(owner), Ok(Kind::File)));
    let (owner, part) = known.map_or((path.clone(), Part::Current), |known| (known.owner, known.part));
    let stem = parse(name).map_or_else(|| name.to_owned(), |(stem, _)| stem);
    let damaged = |damage| Trouble::Damaged { path: path.clone(), damage };
    let session = decode(&bytes, &stem.to_string_lossy(), modified).map_err(damaged);
    let session = session.and_then(|session| fitting(session, &path, &owner, home));
    Ok(SessionFile { path, owner, part, bytes, session })
}

/// The session, if it may be imported.
fn fitting(mut session: FileSession, path: &Path, owner: &Path, home: &Home) -> Result<FileSession, Trouble> {
    let written = session.head.source.root.clone().map(|root| PathBuf::from(OsString::from_vec(root)));
    let root = written.as_ref().map(|root| std::fs::canonicalize(root).unwrap_or_else(|_| root.clone()));
    let place = ClaimedPath { file: path.to_owned(), written, root };
    judge(home, &place).map_err(|unfit| Trouble::Unfit(Box::new(unfit)))?;
    if session.version > VERSION {
        let (version, records) = (session.version, session.records.len());
        return Err(Trouble::Newer { path: path.to_owned(), version, records });
    }
    session.head.source.path = owner.as_os_str().as_bytes().to_vec();
    Ok(session)
}

/// The bytes of a file, and its modification time.
fn content(dir: &Dir, name: &OsStr, path: &Path) -> Result<(Vec<u8>, Timestamp), Trouble> {
    let refused = |why| Trouble::Refused { path: path.to_owned(), why };
    let file = match dir.file(name, FILE_MAX)? {
        Ok(file) => file,
        Err(Content::Refused(why)) => return Err(refused(why)),
        Err(_) => return Err(Trouble::Missing(path.to_owned())),
    };
    let fault = |error| Trouble::from(Error::io("read", path, error));
    let about = file.metadata().map_err(fault)?;
    let modified = about.mtime().saturating_mul(1_000).saturating_add(about.mtime_nsec() / 1_000_000);
    let mut bytes = Vec::new();
    file.take(FILE_MAX + 1).read_to_end(&mut bytes).map_err(fault)?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(refused(format!("it grew over {FILE_MAX} bytes while it was read")));
    }
    Ok((bytes, Timestamp::from_millis(modified)))
}

/// Whether writing may replace an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverwriteRule {
    /// Only if the name is free.
    New,
    /// A regular file is replaced; a link or a directory never is.
    Any,
}

/// Writes a file atomically: readers see the whole file or none.
///
/// # Errors
/// [`Error`] if the name is taken or the file cannot be written.
pub fn write(path: &Path, bytes: &[u8], target: OverwriteRule) -> Result<(), Error> {
    let unusable = |reason: &str| Error::Unusable { path: path.to_owned(), reason: reason.to_owned() };
    let name = path.file_name().ok_or_else(|| unusable("it is a directory"))?;
    let name = name.to_str().ok_or_else(|| unusable("its name is not text"))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = Dir::open(parent)?;
    match (dir.kind(name.as_ref())?, target) {
        (Kind::Nothing, _) | (Kind::File, OverwriteRule::Any) => {}
        (Kind::File, OverwriteRule::New) => return Err(taken(path)),
        (Kind::Link, _) => return Err(unusable("it is a link, and links are not followed")),
        (Kind::Directory, _) => return Err(unusable("it is a directory")),
        (Kind::Other, _) => return Err(unusable("it is not a regular file")),
    }
    match target {
        OverwriteRule::Any => dir.write(name, bytes),
        OverwriteRule::New => dir.write_new(name, bytes)?.then_some(()).ok_or_else(|| taken(path)),
    }
}

fn taken(path: &Path) -> Error {
    Error::Unusable { path: path.to_owned(), reason: "it already exists (--force replaces it)".to_owned() }
}
