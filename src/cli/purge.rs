//! `hearth agents remove --purge`: removes an agent's directory after the transaction that archives the agent.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{Done, Failure, change, configuration, print};
use crate::clock;
use crate::config::Paths;
use crate::crash;
use crate::model::configure::Change;
use crate::model::entity::Folder;
use crate::model::report::{Action, ChangeReport};

/// Archives an agent and removes its directory, which must be a plain directory among those of agents. Also removes the
/// leftovers of an interrupted removal.
pub(super) fn agent(paths: &Paths, folder: &str, json: bool) -> Done {
    let name = Folder::new(folder)?;
    let directory = paths.group(&name);
    // Checked before anything changes, and again afterwards.
    looks_removable(&paths.groups(), &directory)?;
    let mut done = change::submit_edit(paths, Change::PurgeAgent(name.clone()))?;
    let removed = remove(paths, &name);
    if let Ok(true) = removed {
        let entity = format!("directory {}", directory.display());
        done.changes.push(ChangeReport { entity, action: Action::Removed, fields: Vec::new(), note: None });
    }
    change::print(&done, json)?;
    if !removed? {
        print::note(&format!("there was no directory {}", directory.display()));
    }
    Ok(())
}

/// Moves the directory out of the agents' reach in one step, then removes it. Returns whether anything was removed.
fn remove(paths: &Paths, folder: &Folder) -> Result<bool, Failure> {
    let (groups, directory) = (paths.groups(), paths.group(folder));
    if configuration::read(paths)?.agents.iter().any(|agent| agent.folder == *folder) {
        return Err(left(&directory, "an agent that uses it was created meanwhile"));
    }
    let mut aside = leftovers(&groups, folder);
    if looks_removable(&groups, &directory)? {
        let next = groups.join(format!("{}{:016x}", prefix(folder), clock::random()?));
        crash::point("purge-aside");
        std::fs::rename(&directory, &next).map_err(|error| left(&directory, &error.to_string()))?;
        aside.push(next);
    }
    for path in &aside {
        looks_removable(&groups, path)?;
        // The removal follows no links.
        crash::point("purge-remove");
        std::fs::remove_dir_all(path).map_err(|error| {
            Failure::Failed(format!(
                "the directory {} of {folder} could not be removed completely: {error}; remove the rest yourself",
                path.display()
            ))
        })?;
    }
    Ok(!aside.is_empty())
}

/// Name prefix for a directory being removed. No agent's folder begins with a dot.
fn prefix(folder: &Folder) -> String {
    format!(".removed-{folder}-")
}

fn leftovers(groups: &Path, folder: &Folder) -> Vec<PathBuf> {
    let of_folder = |name: &str| {
        name.strip_prefix(&prefix(folder))
            .is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    let entries = std::fs::read_dir(groups).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_str().is_some_and(of_folder)).map(|entry| entry.path()).collect()
}

/// Whether the directory exists. Fails if it is not a directory, or contains a mount of another file system.
fn looks_removable(groups: &Path, directory: &Path) -> Result<bool, Failure> {
    for path in [groups, directory] {
        match path.symlink_metadata() {
            Ok(file) if file.is_dir() => {}
            Ok(_) => return Err(left(path, "it is not a plain directory")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(left(path, &error.to_string())),
        }
    }
    match mounted(groups, directory) {
        Ok(None) => Ok(true),
        Ok(Some(at)) => Err(left(directory, &format!("another file system begins at {}: unmount it", at.display()))),
        Err(error) => Err(left(directory, &error.to_string())),
    }
}

fn left(path: &Path, why: &str) -> Failure {
    Failure::Failed(format!("{} was not removed: {why}", path.display()))
}

/// The first directory below that belongs to another file system. Does not follow links.
fn mounted(groups: &Path, directory: &Path) -> io::Result<Option<PathBuf>> {
    let device = groups.symlink_metadata()?.dev();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        if next.symlink_metadata()?.dev() != device {
            return Ok(Some(next));
        }
        let entries = std::fs::read_dir(&next);
        for entry in entries.map_err(|error| io::Error::other(format!("{}: {error}", next.display())))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(failure: Failure) -> String {
        match failure {
            Failure::Failed(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_plain_directories_are_removable() {
        let dir = tempfile::tempdir().unwrap();
        let groups = dir.path().join("groups");
        let at = |name: &str| groups.join(name);
        assert!(!looks_removable(&groups, &at("a")).unwrap(), "there are no directories of agents at all");
        std::fs::create_dir_all(at("a/deep")).unwrap();
        std::os::unix::fs::symlink("/", at("a/deep/link")).unwrap();
        assert!(looks_removable(&groups, &at("a")).unwrap());
        assert!(!looks_removable(&groups, &at("b")).unwrap());
        std::fs::write(at("file"), "x").unwrap();
        std::os::unix::fs::symlink(at("a"), at("link")).unwrap();
        for name in ["file", "link"] {
            let said = text(looks_removable(&groups, &at(name)).unwrap_err());
            assert!(said.ends_with("was not removed: it is not a plain directory"), "{said}");
        }
        let elsewhere = dir.path().join("elsewhere");
        std::os::unix::fs::symlink(&groups, &elsewhere).unwrap();
        assert!(looks_removable(&elsewhere, &elsewhere.join("a")).is_err());
    }

    #[test]
    fn what_an_interrupted_removal_left_is_found() {
        let dir = tempfile::tempdir().unwrap();
        for name in [".removed-a-0123456789abcdef", ".removed-a-b-0123456789abcdef", ".removed-a-x", "a"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let found = leftovers(dir.path(), &Folder::new("a").unwrap());
        assert_eq!(found, [dir.path().join(".removed-a-0123456789abcdef")]);
    }
}
