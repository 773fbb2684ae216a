//! Copies agents' directories into Hearth's. Only missing files are created, nothing is ever replaced, and no link is
//! followed on either side.

use std::ffi::OsStr;
use std::path::Path;

use super::found::{ConfigFile, Item, Kind, Outcome, Tree, TreeKind};
use super::v2::CONFIG_FILE;
use crate::config::Paths;
use crate::contracts::dir::{Content, Dir, Kind as Thing};
use crate::contracts::error::Error;
use crate::contracts::home::CLAUDE_DIR;
use crate::model::entity::Folder;

/// Longest file that is copied, in bytes.
const FILE_MAX: u64 = 256 << 20;
/// Limits of entries in one directory, and of nesting.
const ENTRIES_MAX: usize = 100_000;
const DEPTH_MAX: usize = 32;

/// Names at the top of a group's directory that are not copied, because NanoClaw regenerates them or they are useless
/// here.
const NOT_WANTED: [&str; 8] = [
    CONFIG_FILE,
    "logs",
    ".git",
    ".DS_Store",
    "node_modules",
    ".claude-shared.md",
    ".claude-fragments",
    "conversations.lock",
];
/// The agent's instructions, composed by both hosts.
const COMPOSED: &str = "CLAUDE.md";
/// First bytes of the file that NanoClaw composes.
const COMPOSED_HEAD: &[u8] = b"<!-- Composed at spawn";
const LOCAL: &str = "CLAUDE.local.md";

/// Name of the directory of a provider's conversations, in NanoClaw's containers and in Hearth's.
const THERE: &str = "-workspace-agent";
const HERE: &str = "-workspace-group";

/// Result of copying a tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Copied {
    /// Files that were or would be created.
    pub taken: u64,
    /// Files that already exist.
    pub unchanged: u64,
    /// What was skipped, with reasons.
    pub left: Vec<(String, String)>,
}

impl Copied {
    /// The result as report items. `name` is the tree's name.
    #[must_use]
    pub fn items(self, name: &str) -> Vec<Item> {
        let some = |count: u64, outcome| (count > 0).then(|| Item::new(Kind::File, name, outcome).of(count));
        let mut items: Vec<Item> = [some(self.taken, Outcome::Taken), some(self.unchanged, Outcome::Unchanged)]
            .into_iter()
            .flatten()
            .collect();
        items.extend(self.left.into_iter().map(|(path, why)| Item::left_out(Kind::File, path, why)));
        items
    }
}

/// Whether files are written.
#[derive(Clone, Copy)]
enum Doing<'a> {
    /// Copies into this directory.
    Copy(&'a Dir),
    /// Only counts what would be copied; `None` if the directory does not exist yet.
    Look(Option<&'a Dir>),
}

/// Predicts the result of [`copy`].
///
/// # Errors
/// [`Error`] if the machine cannot read.
pub fn survey(root: &Path, paths: &Paths, tree: &Tree) -> Result<Copied, Error> {
    let Some(from) = source(root, tree)? else { return Ok(Copied::default()) };
    let mut place = Dir::find(&base(paths, tree))?;
    for name in below(tree) {
        place = place.map(|dir| dir.dir(OsStr::new(&name))).transpose()?.flatten();
    }
    let mut walk = Walk { tree, copied: Copied::default() };
    walk.top(&from, Doing::Look(place.as_ref()))?;
    Ok(walk.copied)
}

/// Copies missing files.
///
/// # Errors
/// [`Error`] on a read or write error. Files that were copied until then are kept and not copied again.
pub fn copy(root: &Path, paths: &Paths, tree: &Tree) -> Result<Copied, Error> {
    let Some(from) = source(root, tree)? else { return Ok(Copied::default()) };
    let base = base(paths, tree);
    let mut place = match Dir::find(&base)? {
        Some(dir) => dir,
        None => {
            let name = base.file_name().and_then(OsStr::to_str).unwrap_or_default();
            Dir::open(paths.data())?.ensure_dir(name)?
        }
    };
    for name in below(tree) {
        place = place.ensure_dir(&name)?;
    }
    let mut walk = Walk { tree, copied: Copied::default() };
    walk.top(&from, Doing::Copy(&place))?;
    Ok(walk.copied)
}

/// Also makes a conversation available to an agent that runs outside of containers, whose provider looks for it under
/// the path of the agent's folder. Returns whether it was done.
///
/// # Errors
/// [`Error`] if the machine cannot read or write.
pub fn offer(paths: &Paths, folder: &Folder, conversation: &str) -> Result<bool, Error> {
    let mut projects = Dir::find(&paths.homes())?;
    for name in [folder.as_str(), CLAUDE_DIR, "projects"] {
        projects = projects.map(|dir| dir.dir(OsStr::new(name))).transpose()?.flatten();
    }
    let Some(projects) = projects else { return Ok(false) };
    let name = format!("{conversation}.jsonl");
    let Some(from) = projects.dir(HERE.as_ref())? else { return Ok(false) };
    let Content::Whole(bytes) = from.read(name.as_ref(), FILE_MAX)? else { return Ok(false) };
    let path = paths.group(folder).display().to_string();
    let there: String = path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    if matches!(projects.kind(there.as_ref())?, Thing::Nothing | Thing::Directory) {
        return projects.ensure_dir(&there)?.write_new(&name, &bytes);
    }
    Ok(false)
}

/// The directory of a tree; `None` if it does not exist.
fn source(root: &Path, tree: &Tree) -> Result<Option<Dir>, Error> {
    let mut dir = Dir::find(root)?;
    for name in &tree.from {
        dir = dir.map(|dir| dir.dir(OsStr::new(name))).transpose()?.flatten();
    }
    Ok(dir)
}

fn base(paths: &Paths, tree: &Tree) -> std::path::PathBuf {
    match tree.to {
        TreeKind::Group => paths.groups(),
        TreeKind::Projects => paths.homes(),
    }
}

fn below(tree: &Tree) -> Vec<String> {
    let folder = tree.agent.as_ref().map_or("global", Folder::as_str).to_owned();
    match tree.to {
        TreeKind::Group => vec![folder],
        TreeKind::Projects => vec![folder, CLAUDE_DIR.to_owned(), "projects".to_owned()],
    }
}

struct Walk<'a> {
    tree: &'a Tree,
    copied: Copied,
}

impl Walk<'_> {
    /// Copies the top level, where some names are handled differently.
    fn top(&mut self, from: &Dir, to: Doing<'_>) -> Result<(), Error> {
        for name in from.list(ENTRIES_MAX)? {
            let path = self.tree.path().join(&name).display().to_string();
            let Some(text) = name.to_str() else {
                self.leave(path, "its name is not UTF-8");
                continue;
            };
            match self.tree.to {
                // The report mentions it with the agent.
                TreeKind::Group if text == CONFIG_FILE && self.tree.config == ConfigFile::Read => {}
                TreeKind::Group if NOT_WANTED.contains(&text) => {
                    self.leave(path, "Hearth creates its own, or needs none")
                }
                TreeKind::Group if text == COMPOSED && self.tree.agent.is_some() => {
                    self.instructions(from, to, path)?
                }
                TreeKind::Projects if text == THERE => self.entry(from, text, HERE, to, path, 0)?,
                TreeKind::Group | TreeKind::Projects => self.entry(from, text, text, to, path, 0)?,
            }
        }
        Ok(())
    }

    /// Hand-written instructions in `CLAUDE.md` become `CLAUDE.local.md`, unless that file already exists.
    fn instructions(&mut self, from: &Dir, to: Doing<'_>, path: String) -> Result<(), Error> {
        match from.read(COMPOSED.as_ref(), FILE_MAX)? {
            Content::Whole(bytes) if bytes.starts_with(COMPOSED_HEAD) => {
                self.leave(path, "it was composed of other files; Hearth composes its own");
                Ok(())
            }
            _ if from.kind(LOCAL.as_ref())? == Thing::File => {
                self.leave(path, "the agent's instructions are in CLAUDE.local.md beside it");
                Ok(())
            }
            _ => self.entry(from, COMPOSED, LOCAL, to, path, 0),
        }
    }

    fn entry(
        &mut self,
        from: &Dir,
        name: &str,
        new: &str,
        to: Doing<'_>,
        path: String,
        depth: usize,
    ) -> Result<(), Error> {
        match from.kind(name.as_ref())? {
            Thing::File => self.file(from, name, new, to, path),
            Thing::Directory if depth >= DEPTH_MAX => {
                self.leave(path, "it lies too deep");
                Ok(())
            }
            Thing::Directory => self.directory(from, name, new, to, path, depth),
            Thing::Link => {
                self.leave(path, "it is a link, and links are not followed");
                Ok(())
            }
            Thing::Other => {
                self.leave(path, "it is neither a file nor a directory");
                Ok(())
            }
            Thing::Nothing => Ok(()),
        }
    }

    fn file(&mut self, from: &Dir, name: &str, new: &str, to: Doing<'_>, path: String) -> Result<(), Error> {
        let place = match to {
            Doing::Copy(dir) | Doing::Look(Some(dir)) => dir.kind(new.as_ref())?,
            Doing::Look(None) => Thing::Nothing,
        };
        if place != Thing::Nothing {
            let same = match to {
                Doing::Copy(dir) | Doing::Look(Some(dir)) => {
                    dir.read(new.as_ref(), FILE_MAX)? == from.read(name.as_ref(), FILE_MAX)?
                }
                Doing::Look(None) => false,
            };
            if same {
                self.copied.unchanged += 1;
            } else {
                self.leave(path, "a different one already exists here and is kept");
            }
            return Ok(());
        }
        match (to, from.read(name.as_ref(), FILE_MAX)?) {
            (_, Content::Absent) => {}
            (_, Content::Refused(why)) => self.leave(path, &why),
            (Doing::Look(_), Content::Whole(_)) => self.copied.taken += 1,
            (Doing::Copy(dir), Content::Whole(bytes)) => {
                if dir.write_new(new, &bytes)? {
                    self.copied.taken += 1;
                } else {
                    self.copied.unchanged += 1;
                }
            }
        }
        Ok(())
    }

    fn directory(
        &mut self,
        from: &Dir,
        name: &str,
        new: &str,
        to: Doing<'_>,
        path: String,
        depth: usize,
    ) -> Result<(), Error> {
        let Some(from) = from.dir(name.as_ref())? else {
            self.leave(path, "it may not be read");
            return Ok(());
        };
        let made;
        let to = match to {
            Doing::Copy(dir) if !matches!(dir.kind(new.as_ref())?, Thing::Nothing | Thing::Directory) => {
                self.leave(path, "another kind of file already has its name");
                return Ok(());
            }
            Doing::Copy(dir) => {
                made = Some(dir.ensure_dir(new)?);
                made.as_ref().map_or(to, Doing::Copy)
            }
            Doing::Look(dir) => {
                made = dir.map(|dir| dir.dir(new.as_ref())).transpose()?.flatten();
                Doing::Look(made.as_ref())
            }
        };
        for name in from.list(ENTRIES_MAX)? {
            let path = format!("{path}/{}", name.to_string_lossy());
            match name.to_str() {
                Some(text) => self.entry(&from, text, text, to, path, depth + 1)?,
                None => self.leave(path, "its name is not UTF-8"),
            }
        }
        Ok(())
    }

    fn leave(&mut self, path: String, why: &str) {
        self.copied.left.push((path, why.to_owned()));
    }
}
