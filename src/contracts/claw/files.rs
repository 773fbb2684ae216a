//! Looking for files of sessions, opening and writing them. Links are never followed at a file's own name.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::VERSION;
use super::decode::{Damage, FILE_MAX, decode};
use super::judge::{Home, Place, Unfit, judge};
use super::names::{self, Part};
use crate::contracts::Error;
use crate::contracts::dir::{Content, Dir, Kind};
use crate::model::take_in::FileSession;
use crate::model::time::Timestamp;
use crate::model::workspace::Fingerprint;

/// Names that are looked at in one directory.
const NAMES_MAX: usize = 100_000;

/// A file that could be taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Where it is.
    pub path: PathBuf,
    /// The file of the session it belongs to: itself, if it is no older state.
    pub owner: PathBuf,
    /// Which of the session's files it is.
    pub part: Part,
}

/// What was found of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// Files, those of one session together, the older states first.
    pub files: Vec<Candidate>,
    /// Partitions of other workspaces beside the workspace's own.
    pub others: Vec<PathBuf>,
}

/// A file that was read.
#[derive(Debug)]
pub struct SessionFile {
    /// Where it is, its directory in canonical form.
    pub path: PathBuf,
    /// The file of the session it belongs to.
    pub owner: PathBuf,
    /// Which of the session's files it is.
    pub part: Part,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What is in it, or why it may not be taken in.
    pub session: Result<FileSession, Trouble>,
}

/// Why a file is not taken in. None of them changes anything.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// There is no such file.
    #[error("there is no file {}", .0.display())]
    Missing(PathBuf),
    /// It is a directory.
    #[error("{} is a directory, not a file of a session; `hearth import claw` takes all sessions of one", .0.display())]
    Directory(PathBuf),
    /// It is a link.
    #[error("{} is a link, and links are not followed; name the file itself", .0.display())]
    Link(PathBuf),
    /// It is no regular file, too long, or closed.
    #[error("{}: {why}", path.display())]
    Refused {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// It belongs elsewhere.
    #[error(transparent)]
    Unfit(Box<Unfit>),
    /// Something in it cannot be read.
    #[error("{} is damaged: {damage}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Where and how.
        damage: Damage,
    },
    /// A newer program wrote it.
    #[error(
        "{} is of format version {version}, this Hearth knows {VERSION}: it can only be viewed ({records} records); \
         use a newer Hearth", path.display()
    )]
    Newer {
        /// Which.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// How many records it has.
        records: usize,
    },
    /// A fault of the machine.
    #[error(transparent)]
    Machine(#[from] Error),
}

impl Trouble {
    /// A word for programs.
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

    /// Whether something is broken, rather than somebody else's.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Refused { .. } | Self::Machine(_))
    }
}

/// Looks for the files of a workspace, in it and in a data directory of claw. What is not there has no files.
///
/// # Errors
/// [`Error`] if the machine cannot read.
pub fn find(home: &Home, data: Option<&Path>) -> Result<Found, Error> {
    let own: Vec<_> = home.paths().map(|path| Fingerprint::of_path(path.as_os_str().as_bytes()).to_string()).collect();
    let mut found = Found::default();
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

/// Files of sessions in a directory, those of one session together.
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
        // An older state does not always say which of two files it is of.
        Part::Older(_) if !exists(&with(b".jsonl")) && exists(&with(b".json")) => with(b".json"),
        Part::Older(_) => with(b".jsonl"),
    };
    Some(Candidate { path: dir.join(name), owner: dir.join(owner), part })
}

/// As [`names::parse`] for a name that need not be text.
fn parse(name: &OsStr) -> Option<(OsString, Part)> {
    if let Some(text) = name.to_str() {
        return names::parse(text).map(|(stem, part)| (stem.into(), part));
    }
    // Only its endings have to be text: one character stands for each byte.
    let text: String = name.as_bytes().iter().copied().map(char::from).collect();
    let (stem, part) = names::parse(&text)?;
    let stem = stem.chars().filter_map(|c| u8::try_from(c).ok()).collect();
    Some((OsString::from_vec(stem), part))
}

/// Reads one file and says whether it may be taken in by a workspace. The file is not changed.
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
    let session = session.and_then(|session| fitting(session, (&path, &owner), home));
    Ok(SessionFile { path, owner, part, bytes, session })
}

/// What was read, if it may be taken in.
fn fitting(mut session: FileSession, (path, owner): (&Path, &Path), home: &Home) -> Result<FileSession, Trouble> {
    let written = session.head.source.root.clone().map(|root| PathBuf::from(OsString::from_vec(root)));
    let root = written.as_ref().map(|root| std::fs::canonicalize(root).unwrap_or_else(|_| root.clone()));
    let place = Place { file: path.to_owned(), written, root };
    judge(home, &place).map_err(|unfit| Trouble::Unfit(Box::new(unfit)))?;
    if session.version > VERSION {
        let (version, records) = (session.version, session.records.len());
        return Err(Trouble::Newer { path: path.to_owned(), version, records });
    }
    session.head.source.path = owner.as_os_str().as_bytes().to_vec();
    Ok(session)
}

/// The bytes of a file, and when it was written last.
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

/// Whether something may be replaced by a file that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Only where nothing has the name.
    New,
    /// Also a file that is there; never a link or a directory.
    Any,
}

/// Writes a file so that nobody ever sees half of it.
///
/// # Errors
/// [`Error`] if something is in the way or the machine cannot write.
pub fn write(path: &Path, bytes: &[u8], target: Target) -> Result<(), Error> {
    let unusable = |reason: &str| Error::Unusable { path: path.to_owned(), reason: reason.to_owned() };
    let name = path.file_name().ok_or_else(|| unusable("it is a directory"))?;
    let name = name.to_str().ok_or_else(|| unusable("its name is not text"))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = Dir::open(parent)?;
    match (dir.kind(name.as_ref())?, target) {
        (Kind::Nothing, _) | (Kind::File, Target::Any) => {}
        (Kind::File, Target::New) => return Err(taken(path)),
        (Kind::Link, _) => return Err(unusable("it is a link, and links are not followed")),
        (Kind::Directory, _) => return Err(unusable("it is a directory")),
        (Kind::Other, _) => return Err(unusable("it is not a regular file")),
    }
    match target {
        Target::Any => dir.write(name, bytes),
        Target::New => dir.write_new(name, bytes)?.then_some(()).ok_or_else(|| taken(path)),
    }
}

fn taken(path: &Path) -> Error {
    Error::Unusable { path: path.to_owned(), reason: "it is there already (--force replaces it)".to_owned() }
}
