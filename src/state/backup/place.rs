//! Chooses where backups are stored, and removes old ones.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::manifest::MANIFEST;
use super::{BackupPath, Error, Manifest, Result, default_dir, files};
use crate::crash;
use crate::model::Timestamp;

const PART: &str = ".part";
/// The archive in an unfinished backup of everything, and the snapshot beside it.
pub(super) const ARCHIVE: &str = "archive";
pub(super) const STORE: &str = "store";

/// The content of a backup, which determines the form of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A directory with the store.
    Store,
    /// An archive of everything.
    Whole,
}

impl Form {
    const ALL: [Self; 2] = [Self::Store, Self::Whole];

    const fn ending(self) -> &'static str {
        match self {
            Self::Store => ".hearth",
            Self::Whole => ".hearth.tar",
        }
    }
}

/// A time as part of a name: sorts like the time, `20261121T064504.123Z`.
pub(super) fn stamp(now: Timestamp) -> String {
    now.to_string().chars().filter(|c| !matches!(c, '-' | ':')).collect()
}

/// The directory of a backup and the backup's path. A missing directory is created if its parent exists; for
/// `BackupPath::At` only the default directory is.
pub(super) fn decide(place: &BackupPath, data: &Path, now: Timestamp, form: Form) -> Result<(PathBuf, PathBuf)> {
    match place {
        BackupPath::In(dir) => {
            if !dir.is_dir() {
                there(files::parent(dir))?;
                files::make_dir(dir)?;
            }
            if files::exists(&dir.join(MANIFEST)) {
                return Err(Error::IsABackup { path: dir.clone() });
            }
            Ok((dir.clone(), dir.join(stamp(now) + form.ending())))
        }
        BackupPath::At(path) => {
            let dir = files::parent(path);
            if dir == default_dir(data) && !dir.is_dir() {
                files::make_dir(dir)?;
            }
            there(dir)?;
            Ok((dir.to_owned(), path.clone()))
        }
    }
}

/// Checks that the parent directory exists. Parents are not created, so that a mistyped name or an unmounted disk is
/// noticed.
fn there(dir: &Path) -> Result<()> {
    if dir.is_dir() { Ok(()) } else { Err(Error::NoParent { path: dir.to_owned() }) }
}

/// The newest backup in a directory that is named by its time.
pub fn newest_in(dir: &Path) -> Option<PathBuf> {
    let backups = Form::ALL.into_iter().filter_map(|form| entries(dir, form).ok());
    backups.flatten().filter(|(name, _)| Form::ALL.iter().any(|form| is_ours(name, *form))).map(|(_, path)| path).max()
}

/// Parts of a data directory, and their `.old` versions, that agents can read or that are replaced as a whole.
const PARTS: [&str; 10] =
    ["bridges", "store", "sessions", "groups", "homes", "trusted", "skills", "run", "files", "secrets"];

/// Refuses places where a backup would not be safe.
pub(super) fn refuse_within(place: &BackupPath, data: &Path) -> Result<()> {
    let (BackupPath::In(path) | BackupPath::At(path)) = place;
    let Ok(data) = data.canonicalize() else { return Ok(()) };
    let absolute = std::path::absolute(path).map_err(Error::io(path))?;
    // A path that does not exist yet is created below its nearest existing parent.
    let Some((there, real)) = absolute.ancestors().find_map(|dir| Some((dir, dir.canonicalize().ok()?))) else {
        return Ok(());
    };
    let whole = real.join(absolute.strip_prefix(there).unwrap_or(Path::new("")));
    let part =
        whole.strip_prefix(&data).ok().and_then(|inside| inside.components().next()).map(|part| part.as_os_str());
    let name = part.and_then(|name| name.to_str()).unwrap_or_default();
    let of_part = |part: &&str| name.strip_prefix(*part).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    if PARTS.iter().any(of_part) {
        return Err(Error::Within { path: path.clone() });
    }
    Ok(())
}

/// Locks a directory of backups without waiting. Only one process at a time makes backups in it, so leftovers can be
/// recognized as such.
pub(super) fn turn(dir: &Path) -> Result<Option<files::DirLock>> {
    files::lock_dir(dir)
}

/// The temporary name of an unfinished backup.
pub(super) fn hidden(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    files::parent(path).join(format!(".{name}{PART}"))
}

/// Removes backups that were never finished, and those that were being removed. The caller holds the directory's lock,
/// or has none where directories cannot be locked.
pub(super) fn remove_leftovers(dir: &Path, lock: Option<&files::DirLock>) -> Result<()> {
    for (name, path) in entries(dir, Form::Store)? {
        let Some(inner) = name.strip_prefix('.').and_then(|name| name.strip_suffix(PART)) else { continue };
        // A name that a person chose says little about what has it.
        let ours = Form::ALL.iter().any(|form| is_ours(inner, *form)) || lock.is_some() && is_unfinished(&path);
        if ours {
            files::leave_room(&path)?;
        }
    }
    Ok(())
}

/// Whether a directory is private and has the files of an unfinished backup, and nothing else.
fn is_unfinished(path: &Path) -> bool {
    let private = std::fs::symlink_metadata(path).is_ok_and(|found| found.mode() & 0o7777 == 0o700);
    let copy = [files::store_file(path), files::store_file(&path.join(STORE))];
    let Ok(mut entries) = std::fs::read_dir(path) else { return false };
    let known = [files::store_file(path), path.join(MANIFEST), path.join(ARCHIVE), path.join(STORE)];
    private
        && copy.iter().any(|file| files::exists(file))
        && entries.all(|entry| entry.is_ok_and(|entry| known.contains(&entry.path())))
}

/// Removes the oldest backups of an installation beyond `keep`, never the one that was just made, and nothing else.
pub(super) fn thin_out(dir: &Path, made: &Path, install: &str, keep: usize) -> Result<Vec<PathBuf>> {
    let same = |path: &Path| Manifest::read(path).is_ok_and(|manifest| manifest.install == install);
    let old = older(dir, made, Form::Store, keep, &same)?;
    for path in &old {
        let gone = hidden(path);
        files::leave_room(&gone)?;
        crash::point("backup-thin");
        std::fs::rename(path, &gone).map_err(Error::io(path))?;
        files::leave_room(&gone)?;
    }
    if !old.is_empty() {
        files::sync_dir(dir)?;
    }
    Ok(old)
}

/// Like [`thin_out`], for archives; `same` says whether one is of this installation.
pub(super) fn thin_out_archives(
    dir: &Path,
    made: &Path,
    keep: usize,
    same: &dyn Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>> {
    let old = older(dir, made, Form::Whole, keep, same)?;
    for path in &old {
        crash::point("archive-thin");
        std::fs::remove_file(path).map_err(Error::io(path))?;
    }
    if !old.is_empty() {
        files::sync_dir(dir)?;
    }
    Ok(old)
}

/// Backups of a directory beyond `keep`, the newest of which was just made.
fn older(dir: &Path, made: &Path, form: Form, keep: usize, same: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let mut old: Vec<PathBuf> = entries(dir, form)?
        .into_iter()
        .filter(|(name, path)| is_ours(name, form) && path != made && same(path))
        .map(|(_, path)| path)
        .collect();
    old.sort_unstable();
    old.truncate(old.len().saturating_sub(keep.saturating_sub(1)));
    Ok(old)
}

/// Whether a name has the form that [`decide`] derives from a time.
fn is_ours(name: &str, form: Form) -> bool {
    const PATTERN: &[u8] = b"00000000T000000.000Z";
    let Some(stamp) = name.strip_suffix(form.ending()) else { return false };
    let fits = |(given, wanted): (u8, &u8)| if *wanted == b'0' { given.is_ascii_digit() } else { given == *wanted };
    stamp.len() == PATTERN.len() && stamp.bytes().zip(PATTERN).all(fits)
}

/// Directories in a directory, or files.
fn entries(dir: &Path, form: Form) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(Error::io(dir))? {
        let entry = entry.map_err(Error::io(dir))?;
        let fits = entry.file_type().is_ok_and(|kind| if form == Form::Store { kind.is_dir() } else { kind.is_file() });
        if let (Ok(name), true) = (entry.file_name().into_string(), fits) {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backups_keep_out_of_what_has_a_use() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        for name in ["store", "groups/a", "backups"] {
            std::fs::create_dir_all(data.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(data.join("groups"), dir.path().join("link")).unwrap();
        for (place, refused) in [
            (BackupPath::In(data.join("store")), true),
            (BackupPath::At(data.join("store/x")), true),
            (BackupPath::At(data.join("store.old-1/x/y")), true),
            (BackupPath::At(data.join("groups/a/x")), true),
            (BackupPath::At(dir.path().join("link/a/x")), true),
            (BackupPath::At(data.join("backups/../run/x")), true),
            (BackupPath::At(data.join("trusted/x")), true),
            (BackupPath::In(data.join("skills")), true),
            (BackupPath::In(data.join("backups")), false),
            (BackupPath::In(data.clone()), false),
            (BackupPath::At(data.join("mine/x")), false),
            (BackupPath::At(dir.path().join("store")), false),
        ] {
            assert_eq!(refuse_within(&place, &data).is_err(), refused, "{place:?}");
        }
    }

    #[test]
    fn names_are_made_of_times_and_known_again() {
        let name = stamp(Timestamp::from_millis(1_767_225_600_123));
        assert_eq!(name, "20260101T000000.123Z");
        assert!(is_ours(&format!("{name}.hearth"), Form::Store));
        assert!(is_ours(&format!("{name}.hearth.tar"), Form::Whole));
        assert!(!is_ours(&format!("{name}.hearth.tar"), Form::Store));
        for other in ["20260101T000000.123Z", "before.hearth", "x20260101T000000.123Z.hearth", "2026-01-01.hearth"] {
            assert!(!is_ours(other, Form::Store) && !is_ours(other, Form::Whole), "{other}");
        }
        assert_eq!(hidden(Path::new("/b/x.hearth")), Path::new("/b/.x.hearth.part"));
    }
}
