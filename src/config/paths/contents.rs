//! Contents of a directory that is about to become a data directory.

use std::io;
use std::path::Path;

use super::BadPlace;

/// Kind of content of a directory without a store. Names are sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// Nothing from an earlier store: a store can be created.
    Fresh,
    /// Parts of an installation whose store is gone.
    Remains(Vec<String>),
    /// Files of other programs.
    Foreign(Vec<String>),
}

/// Directories that Hearth creates before the store and fills after it. An interrupted first start leaves them empty.
const EMPTY_FIRST: [&str; 7] = ["store", "sessions", "files", "groups", "homes", "run", "trusted"];
/// Entries that exist only after there was a store.
const LATER: [&str; 6] = ["backups", "bridges", "history", "last-backup.json", "last-check.json", "restore.part"];
/// Names, with a suffix, of what `restore --replace` and `run --new` move aside.
const ASIDE: [&str; 3] = ["store.old-", "sessions.old-", "files.old-"];
/// Entries of a fresh data directory: what the operator or `hearth setup` may put there before the first start, the
/// lock, and a store that an interrupted first start did not finish.
const HARMLESS: [&str; 8] = [
    MOUNT_POINT,
    "hearth.toml",
    "hearth.toml.new",
    "hearth.toml.old",
    "secrets",
    "skills",
    "hearth.lock",
    "store.next",
];
/// What `mkfs` leaves at the root of a file system.
const MOUNT_POINT: &str = "lost+found";

/// Examines a directory; a missing one is fresh.
pub(super) fn look(data: &Path) -> Result<Contents, BadPlace> {
    let (mut remains, mut foreign) = (Vec::new(), Vec::new());
    for name in names(data)? {
        let is_remains = match name.as_str() {
            known if EMPTY_FIRST.contains(&known) => {
                let dir = data.join(known);
                !dir.is_dir() || names(&dir)?.iter().any(|name| name != MOUNT_POINT)
            }
            known if HARMLESS.contains(&known) => false,
            known if LATER.contains(&known) || ASIDE.iter().any(|prefix| known.starts_with(prefix)) => true,
            _ => {
                foreign.push(name);
                continue;
            }
        };
        if is_remains {
            remains.push(name);
        }
    }
    Ok(match (remains.is_empty(), foreign.is_empty()) {
        (false, _) => Contents::Remains(remains),
        (true, false) => Contents::Foreign(foreign),
        (true, true) => Contents::Fresh,
    })
}

fn names(dir: &Path) -> Result<Vec<String>, BadPlace> {
    let failed = |source| BadPlace::Io { what: "list", path: dir.display().to_string(), source };
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(BadPlace::NotADirectory { path: dir.display().to_string() });
        }
        Err(error) => return Err(failed(error)),
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<io::Result<Vec<String>>>().map_err(failed)?;
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(entries: &[&str]) -> Contents {
        let root = tempfile::tempdir().unwrap();
        for entry in entries {
            let path = root.path().join(entry);
            match entry.ends_with('/') {
                true => std::fs::create_dir_all(&path).unwrap(),
                false => {
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(&path, "x").unwrap();
                }
            }
        }
        look(root.path()).unwrap()
    }

    fn text(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_directory_of_a_first_start_is_fresh() {
        for entries in [
            &[][..],
            &["lost+found/"],
            &["hearth.toml", "skills/a/SKILL.md"],
            &["hearth.toml.new", "hearth.toml.old", "secrets/main.KEY"],
            &["store/", "sessions/", "files/", "groups/", "homes/", "run/", "hearth.lock", "store.next/data.mdb"],
            &["store/lost+found/"],
        ] {
            assert_eq!(with(entries), Contents::Fresh, "{entries:?}");
        }
        assert_eq!(look(Path::new("/nonexistent/hearth")).unwrap(), Contents::Fresh);
    }

    #[test]
    fn what_only_an_installation_leaves_is_recognised() {
        for (entry, name) in [
            ("sessions/1/host/context.json", "sessions"),
            ("groups/main/", "groups"),
            ("files/ab", "files"),
            ("homes/main/", "homes"),
            ("trusted/x", "trusted"),
            ("run/token", "run"),
            ("store/lock.mdb", "store"),
            ("backups/", "backups"),
            ("history", "history"),
            ("last-check.json", "last-check.json"),
            ("last-backup.json", "last-backup.json"),
            ("restore.part/groups/main/x", "restore.part"),
            ("store.old-20260101T000000.000Z/", "store.old-20260101T000000.000Z"),
            ("sessions.old-1/", "sessions.old-1"),
            ("files.old-1/", "files.old-1"),
        ] {
            assert_eq!(with(&[entry, "hearth.toml", "notes.txt"]), Contents::Remains(text(&[name])), "{entry}");
        }
    }

    #[test]
    fn files_of_other_programs_are_foreign() {
        assert_eq!(with(&["passwd", "hosts", "skills/x"]), Contents::Foreign(text(&["hosts", "passwd"])));
        assert_eq!(with(&[".bashrc"]), Contents::Foreign(text(&[".bashrc"])));
    }
}
