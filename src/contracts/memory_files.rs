//! The files in which an agent remembers things: listed, read, and corrected a line at a time.
//!
//! The files are the only truth, and the agent may change them at any time. The tool `remember` and the commands of
//! `hearth-runner` hold an exclusive `flock(2)` on the file's name with `.lock` appended while they read and write, and so does
//! a correction here. Agent CLIs take no lock. So a file that changed between reading and writing is left alone.

use std::ffi::OsStr;

use super::dir::{Content, Dir, Kind, Stamp};
use super::error::Error;
use super::home::{CLAUDE_DIR, LOCAL};
use super::memory::find;
use crate::config::Paths;
use crate::model::entity::Folder;
use crate::model::time::Timestamp;

/// Longest file that is read or corrected.
pub const BYTES_MAX: u64 = 1 << 20;
/// Longest line that a correction writes, in bytes.
pub const LINE_MAX: usize = 16 << 10;
/// Most files of an agent, and most names in one directory that are looked at.
const FILES_MAX: usize = 1_000;
/// How deep directories are searched.
const DEPTH_MAX: usize = 3;
/// Files whose content is searched for changes, those that changed last.
const SEARCHED_MAX: usize = 100;
/// How often a lock is tried, and how long is waited between.
const TRIES: usize = 100;
const BETWEEN: std::time::Duration = std::time::Duration::from_millis(50);

/// Memory files of agent CLIs in an agent's home.
const HOME_FILES: [(&str, &str); 5] = [
    (CLAUDE_DIR, "CLAUDE.md"),
    (CLAUDE_DIR, "memory.json"),
    (".codex", "AGENTS.md"),
    (".gemini", "GEMINI.md"),
    (".qwen", "QWEN.md"),
];

#[cfg(test)]
mod tests;

/// Where a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shelf {
    /// The agent's folder.
    Folder,
    /// The agent's home, which its CLI writes.
    Home,
    /// The directory that all trusted agents share.
    Shared,
}

impl Shelf {
    /// What names of its files begin with.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Folder => "",
            Self::Home => "home/",
            Self::Shared => "trusted/",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFile {
    /// Its name for people, with the shelf.
    pub name: String,
    /// Where it is.
    pub shelf: Shelf,
    /// Length in bytes.
    pub bytes: u64,
    /// When it was changed last.
    pub changed: Option<Timestamp>,
    /// Its path on the shelf.
    path: Vec<String>,
}

/// A change that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryChange {
    pub at: Timestamp,
    pub file: String,
    /// Number of the line that was added, from 1; none if the file only says when it was changed last.
    pub line: Option<usize>,
    pub text: String,
}

/// A correction of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correction {
    /// Its number, from 1.
    pub line: usize,
    /// What it has to be, if the person has seen it.
    pub was: Option<String>,
    /// What it becomes; none removes it.
    pub now: Option<String>,
}

/// An agent whose memory is looked at.
#[derive(Debug, Clone, Copy)]
pub struct MemoryOf<'a> {
    pub paths: &'a Paths,
    /// The agent's folder.
    pub folder: &'a Folder,
    /// Whether what trusted agents share is part of it.
    pub shared: bool,
}

impl MemoryOf<'_> {
    /// All files, by name.
    ///
    /// # Errors
    /// [`Error`] if the file system cannot be read. Unusual files of the agent are not errors.
    pub fn files(&self) -> Result<Vec<MemoryFile>, Error> {
        let mut found = Vec::new();
        if let Some(dir) = self.shelf(Shelf::Folder)? {
            for name in [LOCAL, "MEMORY.md"] {
                add(&mut found, Shelf::Folder, &dir, &[name.to_owned()])?;
            }
            walk(&mut found, Shelf::Folder, &dir, &["memory".to_owned()])?;
        }
        if let Some(home) = self.shelf(Shelf::Home)? {
            for (place, name) in HOME_FILES {
                if let Some(dir) = home.dir(place.as_ref())? {
                    add(&mut found, Shelf::Home, &dir, &[place.to_owned(), name.to_owned()])?;
                }
            }
            projects(&mut found, &home)?;
        }
        if let Some(dir) = self.shelf(Shelf::Shared)? {
            for name in texts(&dir)? {
                add(&mut found, Shelf::Shared, &dir, &[name])?;
            }
            walk(&mut found, Shelf::Shared, &dir, &["memory".to_owned()])?;
        }
        found.sort_by(|one, other| (one.shelf, &one.name).cmp(&(other.shelf, &other.name)));
        Ok(found)
    }

    /// A file by its name; none if there is no such memory file.
    ///
    /// # Errors
    /// [`Error`] if the file system cannot be read.
    pub fn file(&self, name: &str) -> Result<Option<MemoryFile>, Error> {
        Ok(self.files()?.into_iter().find(|file| file.name == name))
    }

    /// The text of a file, or why it is not shown.
    ///
    /// # Errors
    /// [`Error`] if the file system cannot be read.
    pub fn read(&self, file: &MemoryFile) -> Result<Result<String, String>, Error> {
        let Some((dir, name)) = self.place(file)? else { return Ok(Err(GONE.to_owned())) };
        Ok(match dir.read(name.as_ref(), BYTES_MAX)? {
            Content::Absent => Err(GONE.to_owned()),
            Content::Whole(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Content::Refused(why) => Err(why),
        })
    }

    /// Corrects or removes a line, under the lock of the file's writers. Returns what the line was, or why nothing was done.
    ///
    /// # Errors
    /// [`Error`] if the file system cannot be read or written.
    pub fn correct(&self, file: &MemoryFile, how: &Correction) -> Result<Result<String, String>, Error> {
        if let Err(why) = how.now.as_deref().map_or(Ok(()), check) {
            return Ok(Err(why));
        }
        let Some((dir, name)) = self.place(file)? else { return Ok(Err(GONE.to_owned())) };
        let _lock = match file.shelf {
            Shelf::Home => None,
            Shelf::Folder | Shelf::Shared => match lock(&dir, &format!("{name}.lock"))? {
                Some(lock) => Some(lock),
                None => return Ok(Err("another program is writing it; try again".to_owned())),
            },
        };
        let stamp = dir.stamp(name.as_ref())?;
        let bytes = match dir.read(name.as_ref(), BYTES_MAX)? {
            Content::Absent => return Ok(Err(GONE.to_owned())),
            Content::Whole(bytes) => bytes,
            Content::Refused(why) => return Ok(Err(why)),
        };
        let Ok(text) = String::from_utf8(bytes) else {
            return Ok(Err("it is not text in UTF-8, so no line of it can be corrected".to_owned()));
        };
        let (was, corrected) = match corrected(&text, how) {
            Ok(done) => done,
            Err(why) => return Ok(Err(why)),
        };
        write(&dir, &name, &corrected, stamp).map(|done| done.map(|()| was))
    }

    /// What changed and when, as far as the files say it, the newest first. Logs and discoveries say when each line was
    /// added; of other files only the last change is known.
    ///
    /// # Errors
    /// [`Error`] if the file system cannot be read.
    pub fn changes(&self, since: Option<Timestamp>, most: usize) -> Result<Vec<MemoryChange>, Error> {
        let mut files = self.files()?;
        files.retain(|file| since.is_none_or(|since| file.changed.is_some_and(|changed| changed >= since)));
        files.sort_by_key(|file| std::cmp::Reverse(file.changed));
        let mut found = Vec::new();
        for file in files.iter().take(SEARCHED_MAX) {
            let text = match file.bytes > BYTES_MAX {
                true => Err(String::new()),
                false => self.read(file)?,
            };
            let dated = text.map(|text| dated(file, &text)).unwrap_or_default();
            if dated.is_empty() {
                let change = |at| MemoryChange { at, file: file.name.clone(), line: None, text: String::new() };
                found.extend(file.changed.map(change));
            }
            found.extend(dated);
        }
        found.retain(|change| since.is_none_or(|since| change.at >= since));
        found.sort_by(|one, other| (other.at, &other.file, other.line).cmp(&(one.at, &one.file, one.line)));
        found.truncate(most);
        Ok(found)
    }

    fn shelf(&self, shelf: Shelf) -> Result<Option<Dir>, Error> {
        match shelf {
            Shelf::Folder => find(&self.paths.groups(), self.folder),
            Shelf::Home => find(&self.paths.homes(), self.folder),
            Shelf::Shared if self.shared => Dir::find(&self.paths.trusted()),
            Shelf::Shared => Ok(None),
        }
    }

    /// The directory and the name of a file.
    fn place(&self, file: &MemoryFile) -> Result<Option<(Dir, String)>, Error> {
        let (Some(mut dir), Some((name, above))) = (self.shelf(file.shelf)?, file.path.split_last()) else {
            return Ok(None);
        };
        for part in above {
            let Some(below) = dir.dir(part.as_ref())? else { return Ok(None) };
            dir = below;
        }
        Ok(Some((dir, name.clone())))
    }
}

const GONE: &str = "it does not exist any more";

/// Names of text files of a directory. Other names, such as those of locks and unfinished files, are no memory.
fn texts(dir: &Dir) -> Result<Vec<String>, Error> {
    let names = dir.list(FILES_MAX)?.into_iter().filter_map(|name| name.into_string().ok());
    let is_text = |name: &String| {
        let ends = [".md", ".txt", ".json", ".jsonl"].iter().any(|end| name.ends_with(end));
        ends && !name.starts_with('.') && !name.chars().any(char::is_control)
    };
    Ok(names.filter(is_text).collect())
}

/// Adds a file, unless nothing is there. `dir` has it, and `path` is where it is on the shelf.
fn add(found: &mut Vec<MemoryFile>, shelf: Shelf, dir: &Dir, path: &[String]) -> Result<(), Error> {
    let Some(name) = path.last().map(OsStr::new).filter(|_| found.len() < FILES_MAX) else { return Ok(()) };
    if dir.kind(name)? == Kind::Nothing {
        return Ok(());
    }
    found.push(MemoryFile {
        name: format!("{}{}", shelf.prefix(), path.join("/")),
        shelf,
        bytes: dir.size(name)?.unwrap_or(0),
        changed: dir.modified(name)?,
        path: path.to_vec(),
    });
    Ok(())
}

/// Adds the text files below a directory.
fn walk(found: &mut Vec<MemoryFile>, shelf: Shelf, above: &Dir, path: &[String]) -> Result<(), Error> {
    let Some(name) = path.last().filter(|_| path.len() <= DEPTH_MAX) else { return Ok(()) };
    let Some(dir) = above.dir(name.as_ref())? else { return Ok(()) };
    let below = |name: String| path.iter().cloned().chain([name]).collect::<Vec<String>>();
    for name in texts(&dir)? {
        add(found, shelf, &dir, &below(name))?;
    }
    for name in dir.reopened()?.list(FILES_MAX)?.into_iter().filter_map(|name| name.into_string().ok()) {
        let is_shown = !name.starts_with('.') && !name.chars().any(char::is_control);
        if is_shown && found.len() < FILES_MAX && dir.kind(name.as_ref())? == Kind::Directory {
            walk(found, shelf, &dir, &below(name))?;
        }
    }
    Ok(())
}

/// Adds what the agent CLI remembers by project.
fn projects(found: &mut Vec<MemoryFile>, home: &Dir) -> Result<(), Error> {
    let projects = home.dir(CLAUDE_DIR.as_ref())?.map(|claude| claude.dir("projects".as_ref())).transpose()?.flatten();
    let Some(projects) = projects else { return Ok(()) };
    for project in projects.list(FILES_MAX)?.into_iter().filter_map(|name| name.into_string().ok()) {
        let Some(dir) = projects.dir(project.as_ref())?.map(|dir| dir.dir("memory".as_ref())).transpose()?.flatten()
        else {
            continue;
        };
        for name in texts(&dir)? {
            let path = [CLAUDE_DIR, "projects", &project, "memory", &name].map(str::to_owned);
            add(found, Shelf::Home, &dir, &path)?;
        }
    }
    Ok(())
}

/// Whether a line may be written.
fn check(line: &str) -> Result<(), String> {
    if line.len() > LINE_MAX {
        return Err(format!("the line has {} bytes, at most {LINE_MAX} are written", line.len()));
    }
    if line.trim().is_empty() {
        return Err("the line is empty; remove it instead".to_owned());
    }
    match line.chars().any(|c| (c.is_control() && c != '\t') || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}')) {
        true => Err("a correction is one line without control characters".to_owned()),
        false => Ok(()),
    }
}

/// What a line was, and the text with its correction.
fn corrected(text: &str, how: &Correction) -> Result<(String, String), String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let at = how.line.checked_sub(1).filter(|at| *at < lines.len());
    let Some((at, line)) = at.and_then(|at| Some((at, *lines.get(at)?))) else {
        return Err(format!("it has {} lines, so there is no line {}", lines.len(), how.line));
    };
    let was = line.trim_end_matches(['\n', '\r']);
    if how.was.as_deref().is_some_and(|expected| expected != was) {
        return Err(format!("line {} is not that any more; look at the file again", how.line));
    }
    let ending = line.get(was.len()..).unwrap_or_default();
    let now = how.now.as_ref().map_or_else(String::new, |now| format!("{now}{ending}"));
    let part = |range: Option<&[&str]>| range.unwrap_or_default().concat();
    Ok((was.to_owned(), format!("{}{now}{}", part(lines.get(..at)), part(lines.get(at.saturating_add(1)..)))))
}

fn lock(dir: &Dir, name: &str) -> Result<Option<std::fs::File>, Error> {
    for _ in 0..TRIES {
        if let Some(lock) = dir.try_lock(name)? {
            return Ok(Some(lock));
        }
        std::thread::sleep(BETWEEN);
    }
    Ok(None)
}

/// Replaces a file that is still the one that was read, and keeps its permissions.
fn write(dir: &Dir, name: &str, text: &str, read: Option<Stamp>) -> Result<Result<(), String>, Error> {
    let now = dir.stamp(name.as_ref())?;
    match now {
        Some(now) if Some(&now) == read.as_ref() => {
            dir.write_with_mode(name, text.as_bytes(), now.permissions()).map(Ok)
        }
        _ => Ok(Err("it was changed at this moment; look at it again".to_owned())),
    }
}

/// Lines with a time: those of a log of a day, and the headings of discoveries.
fn dated(file: &MemoryFile, text: &str) -> Vec<MemoryChange> {
    let day = file.path.last().and_then(|name| name.strip_suffix(".md")).filter(|day| is_day(day));
    let mut found = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in (1_usize..).zip(&lines) {
        let stamp = match (day, line.strip_prefix("- "), line.strip_prefix("## ")) {
            (Some(day), Some(entry), _) => entry.split_once(" UTC").and_then(|(time, _)| instant(day, time)),
            (_, _, Some(heading)) => heading
                .trim_end()
                .strip_suffix(" UTC")
                .and_then(|stamp| stamp.split_once(' '))
                .and_then(|(day, time)| if is_day(day) { instant(day, time) } else { None }),
            _ => None,
        };
        let Some(at) = stamp else { continue };
        // A discovery is in the lines after its heading.
        let told = if line.starts_with("## ") { lines.get(number).copied().unwrap_or_default() } else { *line };
        found.push(MemoryChange { at, file: file.name.clone(), line: Some(number), text: told.to_owned() });
    }
    found
}

fn is_day(text: &str) -> bool {
    crate::model::time::Day::parse(text).is_some()
}

fn instant(day: &str, time: &str) -> Option<Timestamp> {
    Timestamp::parse(&format!("{day}T{time}:00Z"))
}
