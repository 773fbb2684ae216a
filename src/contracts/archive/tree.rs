//! Copies a directory that its owner may change at any time into an archive.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;

use super::error::Error;
use super::format::{self, Copied, Head, Writer};
use super::names::{DEPTH_MAX, MODE, PATH_MAX, is_secret, join, stays_inside};
use super::report::Contents;
use crate::contracts::dir::{Content, Dir, Kind, kind};

/// Most entries of one tree.
const ENTRIES_MAX: usize = 1_000_000;
/// Most bytes of one tree, however much room there is.
const BYTES_MAX: u64 = 64 << 30;
/// Directories that are kept open at once; one further up is opened again.
const OPEN_MAX: usize = 16;

/// The rules for copying a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    Folder,
    /// An agent's home, without temporary files; without credentials, unless they were asked for.
    Home {
        /// Whether credentials are copied.
        with_secrets: bool,
    },
}

pub(super) struct Trees<'a> {
    pub(super) writer: &'a mut Writer,
    pub(super) contents: &'a mut Contents,
}

/// The copy of one tree.
struct Tree<'a> {
    writer: &'a mut Writer,
    contents: &'a mut Contents,
    rules: Rules,
    /// Path of its root in the archive.
    at: Vec<u8>,
    root: Dir,
    bytes_left: u64,
    entries_left: usize,
    /// Files with several hard links, by device and number: how many there are, and those in the tree.
    linked: BTreeMap<(u64, u64), (u64, Vec<PathBuf>)>,
}

/// A directory whose entries are being copied.
struct Frame {
    /// Below the root of the tree.
    path: PathBuf,
    names: std::vec::IntoIter<OsString>,
    open: Option<Dir>,
}

impl Trees<'_> {
    /// Copies a directory of `parent`. `at` is its path in the archive.
    pub(super) fn copy(&mut self, parent: &Dir, name: &OsStr, at: &str, rules: Rules) -> Result<(), Error> {
        let Some(stat) = parent.stat(name)? else { return Ok(()) };
        let root = match kind(&stat) {
            Kind::Directory => parent.dir(name)?,
            _ => None,
        };
        let Some(root) = root else {
            self.contents.skip(at.as_bytes(), "it is not a directory that can be opened");
            return Ok(());
        };
        self.copy_root(root, &stat, at, rules)
    }

    /// Copies an open directory.
    pub(super) fn copy_root(&mut self, root: Dir, stat: &Stat, at: &str, rules: Rules) -> Result<(), Error> {
        // Half of the space, so that files written by one agent do not displace those of others.
        let bytes_left = BYTES_MAX.min(self.writer.room()? / 2);
        let (writer, contents) = (&mut *self.writer, &mut *self.contents);
        let (at, linked, entries_left) = (at.as_bytes().to_vec(), BTreeMap::new(), ENTRIES_MAX);
        Tree { writer, contents, rules, at, root, bytes_left, entries_left, linked }.copy(stat)
    }

    /// Copies one file of a directory that belongs to the operator, if it exists.
    pub(super) fn copy_file(&mut self, parent: &Dir, name: &OsStr, at: &[u8]) -> Result<(), Error> {
        match parent.any_file(name)? {
            Ok((file, stat)) => note(self.contents, at, put_file(self.writer, at, file, &stat)?),
            Err(Content::Refused(why)) => self.contents.skip(at, why),
            Err(_) => {}
        }
        Ok(())
    }
}

impl Tree<'_> {
    fn copy(mut self, stat: &Stat) -> Result<(), Error> {
        self.writer.put(&head(&self.at, format::Kind::Directory, stat), &mut std::io::empty())?;
        let names = self.list(&self.root.reopened()?, Path::new(""))?;
        let mut frames = vec![Frame { path: PathBuf::new(), names, open: None }];
        while let Some(frame) = frames.last_mut() {
            let Some(name) = frame.names.next() else {
                frames.pop();
                continue;
            };
            let open = match frame.open.take() {
                Some(open) => Some(open),
                None => self.open(&frame.path)?,
            };
            let Some(open) = open else {
                self.skip(&frame.path, "it was removed while it was copied");
                frames.pop();
                continue;
            };
            let path = frame.path.join(&name);
            let next = self.entry(&open, &path, &name)?;
            frame.open = Some(open);
            if let Some(next) = next {
                let names = self.list(&next, &path)?;
                frames.push(Frame { path, names, open: Some(next) });
                let outer = frames.len().checked_sub(OPEN_MAX).and_then(|at| frames.get_mut(at));
                outer.into_iter().for_each(|outer| outer.open = None);
            }
        }
        self.linked_files()
    }

    /// Opens a directory of the tree, one name at a time.
    fn open(&self, path: &Path) -> Result<Option<Dir>, Error> {
        let mut dir = self.root.reopened()?;
        for name in path {
            match dir.dir(name)? {
                Some(next) => dir = next,
                None => return Ok(None),
            }
        }
        Ok(Some(dir))
    }

    fn list(&mut self, dir: &Dir, path: &Path) -> Result<std::vec::IntoIter<OsString>, Error> {
        let names = dir.list(self.entries_left.saturating_add(1))?;
        if names.len() > self.entries_left {
            self.skip(path, "it has more entries than Hearth copies from one directory");
            return Ok(Vec::new().into_iter());
        }
        self.entries_left = self.entries_left.saturating_sub(names.len());
        Ok(names.into_iter())
    }

    /// Copies an entry. Returns a directory whose entries come next.
    fn entry(&mut self, dir: &Dir, path: &Path, name: &OsStr) -> Result<Option<Dir>, Error> {
        let Some(stat) = dir.stat(name)? else { return Ok(None) };
        let full = self.full(path);
        if full.len() > PATH_MAX || full.split(|byte| *byte == b'/').count() > DEPTH_MAX {
            self.contents.skip(&full, "it lies too deep");
            return Ok(None);
        }
        if self.is_left_out(path, name, &full) {
            return Ok(None);
        }
        match kind(&stat) {
            Kind::Directory => match dir.dir(name)? {
                Some(next) => {
                    self.writer.put(&head(&full, format::Kind::Directory, &stat), &mut std::io::empty())?;
                    return Ok(Some(next));
                }
                None => self.contents.skip(&full, "it cannot be opened"),
            },
            Kind::File => self.file(dir, path, name)?,
            Kind::Link => self.link(dir, path, name, &stat)?,
            Kind::Other => self.contents.skip(&full, "it is a FIFO, a socket or a device"),
            Kind::Nothing => {}
        }
        Ok(None)
    }

    /// Whether a rule excludes an entry. Excluded credentials are listed; files that an agent does not need are not.
    fn is_left_out(&mut self, path: &Path, name: &OsStr, full: &[u8]) -> bool {
        let Rules::Home { with_secrets } = self.rules else { return false };
        if path == Path::new("tmp") {
            return true;
        }
        let secret = !with_secrets && is_secret(name);
        if secret {
            self.contents.leave_out(full);
        }
        secret
    }

    fn file(&mut self, dir: &Dir, path: &Path, name: &OsStr) -> Result<(), Error> {
        match dir.any_file(name)? {
            Ok((_, stat)) if stat.st_nlink > 1 => {
                #[expect(clippy::useless_conversion, reason = "types differ by machine")]
                let names = u64::from(stat.st_nlink);
                self.linked.entry(number(&stat)).or_insert_with(|| (names, Vec::new())).1.push(path.to_owned());
            }
            Ok((file, stat)) => self.put(path, file, &stat)?,
            Err(Content::Refused(why)) => self.skip(path, why),
            Err(_) => {}
        }
        Ok(())
    }

    /// Copies files with several hard links if all of their names are in the tree. Another owner of a name elsewhere
    /// may not want the file exposed here.
    fn linked_files(&mut self) -> Result<(), Error> {
        for (number, (names, paths)) in std::mem::take(&mut self.linked) {
            for path in &paths {
                if paths.len() as u64 != names {
                    self.skip(path, format!("it has {names} names (hard links), not all of them in this directory"));
                    continue;
                }
                let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
                let Some(dir) = self.open(parent)? else { continue };
                match dir.any_file(name)? {
                    Ok((file, stat)) if self::number(&stat) == number => {
                        self.put(path, file, &stat)?;
                    }
                    _ => self.skip(path, "it changed while it was copied"),
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, path: &Path, file: File, stat: &Stat) -> Result<(), Error> {
        let (full, size) = (self.full(path), size(stat));
        if size > self.bytes_left {
            let left = self.bytes_left;
            self.contents
                .skip(&full, format!("it has {size} bytes, and only {left} more are copied from this directory"));
            return Ok(());
        }
        self.bytes_left = self.bytes_left.saturating_sub(size);
        let copied = put_file(self.writer, &full, file, stat)?;
        note(self.contents, &full, copied);
        Ok(())
    }

    fn link(&mut self, dir: &Dir, path: &Path, name: &OsStr, stat: &Stat) -> Result<(), Error> {
        // Links to skills are created whenever an agent starts.
        if matches!(self.rules, Rules::Home { .. }) && path.parent() == Some(Path::new(".claude/skills")) {
            return Ok(());
        }
        let Some(target) = dir.link(name)? else { return Ok(()) };
        let target = target.as_os_str().as_bytes();
        let depth = path.components().count().saturating_sub(1);
        if stays_inside(depth, target) {
            let head = Head { target: target.to_vec(), size: 0, ..head(&self.full(path), format::Kind::Link, stat) };
            self.writer.put(&head, &mut std::io::empty())?;
        } else {
            self.skip(path, "it is a link that leads out of its directory");
        }
        Ok(())
    }

    fn skip(&mut self, path: &Path, why: impl Into<String>) {
        let full = self.full(path);
        self.contents.skip(&full, why);
    }

    fn full(&self, path: &Path) -> Vec<u8> {
        if path.as_os_str().is_empty() { self.at.clone() } else { join(&self.at, path.as_os_str()) }
    }
}

fn put_file(writer: &mut Writer, at: &[u8], mut file: File, stat: &Stat) -> Result<Copied, Error> {
    writer.put(&head(at, format::Kind::File, stat), &mut file)
}

fn note(contents: &mut Contents, at: &[u8], copied: Copied) {
    if let Copied::Partly(why) = copied {
        contents.skip(at, format!("only a part of it was copied: {why}"));
    }
}

/// The header of an existing entry.
fn head(path: &[u8], kind: format::Kind, stat: &Stat) -> Head {
    let modified = u64::try_from(stat.st_mtime).unwrap_or(0);
    let size = if kind == format::Kind::File { size(stat) } else { 0 };
    Head { path: path.to_vec(), kind, target: Vec::new(), mode: stat.st_mode & MODE, modified, size }
}

/// Device and number, which identify a file.
#[expect(clippy::useless_conversion, reason = "types differ by machine")]
fn number(stat: &Stat) -> (u64, u64) {
    (u64::try_from(stat.st_dev).unwrap_or(0), stat.st_ino)
}

fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(u64::MAX)
}
