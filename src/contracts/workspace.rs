//! Inspects directories with sessions: canonical path, identity (to distinguish directories that used the same path),
//! repository, and whether they are too broad to work in.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::model::workspace::Witness;
use crate::model::workspace_sight::WorkspaceSight;

/// Inode number of a machine's first mount namespace; others are counted up from it.
const FIRST_NAMESPACE: u64 = 0xf000_0001;

/// Inspects a directory without creating anything. A path that cannot be resolved is kept as given.
#[must_use]
pub fn look(path: &Path) -> WorkspaceSight {
    let canonical = canonical(path);
    WorkspaceSight {
        witness: witness(&canonical),
        project: project(&canonical).map(|top| top.as_os_str().as_bytes().to_vec()),
        path: canonical.into_os_string().into_encoded_bytes(),
        also_at: Vec::new(),
    }
}

/// The path that the fingerprint is computed from: resolved, or as given if it cannot be resolved.
#[must_use]
pub fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// A path that was stored as raw bytes.
#[must_use]
pub fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// The identity of a directory; `None` if it does not exist.
#[must_use]
pub fn witness(path: &Path) -> Option<Witness> {
    let found = path.metadata().ok().filter(Metadata::is_dir)?;
    Some(Witness { place: place(), device: found.dev(), inode: found.ino(), born: born(&found) })
}

/// Creation time in nanoseconds since 1970, if the file system has it.
fn born(found: &Metadata) -> Option<i64> {
    let nanoseconds = match found.created().ok()?.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).ok()?,
        Err(before) => i64::try_from(before.duration().as_nanos()).ok()?.checked_neg()?,
    };
    // Directories of an unpacked image may all have the creation time zero, which is meaningless.
    Some(nanoseconds).filter(|nanoseconds| *nanoseconds != 0)
}

/// Which of these paths lead to the same directory.
#[must_use]
pub fn also_at(sight: &WorkspaceSight, paths: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let Some(own) = &sight.witness else { return Vec::new() };
    let same = |path: &Vec<u8>| *path != sight.path && witness(path_of(path)).is_some_and(|found| found == *own);
    paths.into_iter().filter(same).collect()
}

/// Machine and mount namespace, within which device and inode numbers are meaningful.
fn place() -> String {
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let link = std::fs::read_link("/proc/self/ns/mnt").unwrap_or_default();
    decide_place(machine.trim(), link.to_str().unwrap_or_default())
}

fn decide_place(machine: &str, namespace: &str) -> String {
    let number = namespace.strip_prefix("mnt:[").and_then(|rest| rest.strip_suffix(']'));
    match number.and_then(|number| number.parse::<u64>().ok()) {
        // The number of the first namespace differs between kernels.
        Some(number) if number > FIRST_NAMESPACE => format!("{machine}/{number}"),
        _ => format!("{machine}/host"),
    }
}

/// The root of the repository: the nearest directory, from this one upwards, that has a `.git`.
fn project(canonical: &Path) -> Option<PathBuf> {
    let mut above = canonical.ancestors().filter(|dir| dir.is_absolute());
    above.find(|dir| dir.join(".git").symlink_metadata().is_ok()).map(Path::to_owned)
}

/// A directory in which working is probably a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broad {
    /// The root of the file system.
    Root,
    /// The home directory of the user.
    Home,
}

/// Whether a directory is too broad to work in, whatever path leads to it.
#[must_use]
pub fn broad(dir: &Path, home: Option<&Path>) -> Option<Broad> {
    let dir = canonical(dir);
    let same = |other: &Path| {
        canonical(other) == dir || witness(&dir).is_some_and(|found| witness(other).as_ref() == Some(&found))
    };
    if dir.parent().is_none() && dir.is_absolute() || same(Path::new("/")) {
        return Some(Broad::Root);
    }
    home.filter(|home| same(home)).map(|_| Broad::Home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_directory_is_one_path() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let name = real.file_name().unwrap();
        for spelling in [real.clone(), real.join("."), real.join("..").join(name), real.join(""), link] {
            let sight = look(&spelling);
            assert_eq!(path_of(&sight.path), real, "{}", spelling.display());
            assert_eq!(sight, look(&real));
        }
        let gone = look(Path::new("does/not/exist/../x"));
        assert_eq!((gone.path.as_slice(), gone.witness), (b"does/not/exist/../x".as_slice(), None));
    }

    #[test]
    fn a_witness_tells_directories_apart() {
        let root = tempfile::tempdir().unwrap();
        let (a, b) = (root.path().join("a"), root.path().join("b"));
        std::fs::create_dir(&a).unwrap();
        let before = witness(&a).unwrap();
        std::fs::rename(&a, &b).unwrap();
        assert!(witness(&b).unwrap().is_of_same(&before), "it was only moved");
        assert_eq!(witness(&a), None);
        std::fs::create_dir(&a).unwrap();
        assert!(!witness(&a).unwrap().is_of_same(&before), "it is another one");
        std::fs::write(root.path().join("file"), "").unwrap();
        assert_eq!(witness(&root.path().join("file")), None);
        let sight = look(&b);
        let paths = [&a, &b, &root.path().join(".").join("b")].map(|path| path.as_os_str().as_bytes().to_vec());
        assert_eq!(also_at(&sight, paths.to_vec()).len(), 1, "its own path is not another one");
    }

    /// Witnesses are stored, so their format must not change.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_witness_is_what_the_kernel_says() {
        use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
        let root = tempfile::tempdir().unwrap();
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        for path in [root.path(), Path::new("/"), Path::new("/proc"), Path::new("/dev/shm")] {
            let Ok(said) = statx(CWD, path, AtFlags::empty(), wanted) else { continue };
            let seen = witness(path).unwrap();
            let born = said.stx_btime.tv_sec * 1_000_000_000 + i64::from(said.stx_btime.tv_nsec);
            let told = said.stx_mask & StatxFlags::BTIME.bits() != 0 && born != 0;
            let device = makedev(said.stx_dev_major, said.stx_dev_minor);
            assert_eq!((seen.device, seen.inode, seen.born), (device, said.stx_ino, told.then_some(born)), "{path:?}");
        }
    }

    #[test]
    fn the_nearest_repository_counts() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let deep = root.join("p/q/r");
        std::fs::create_dir_all(&deep).unwrap();
        assert!(project(&deep).is_none_or(|top| !top.starts_with(&root)));
        std::fs::create_dir(root.join("p/.git")).unwrap();
        assert_eq!(project(&deep), Some(root.join("p")));
        // A linked checkout and a submodule have a file there.
        std::fs::write(root.join("p/q/.git"), "gitdir: elsewhere").unwrap();
        assert_eq!(project(&deep), Some(root.join("p/q")));
        assert_eq!(project(Path::new("relative/path")), None);
    }

    #[test]
    fn places_are_machines_and_namespaces() {
        for (namespace, place) in [
            ("mnt:[4026531841]", "m/host"),
            ("mnt:[4026531832]", "m/host"),
            ("mnt:[4026532266]", "m/4026532266"),
            ("", "m/host"),
            ("mnt:[x]", "m/host"),
        ] {
            assert_eq!(decide_place("m", namespace), place, "{namespace}");
        }
    }

    #[test]
    fn home_and_root_are_broad_however_they_are_reached() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        std::fs::create_dir_all(home.join("project")).unwrap();
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&home, &link).unwrap();
        for (dir, given, expected) in [
            (home.as_path(), Some(home.as_path()), Some(Broad::Home)),
            (&link, Some(&home), Some(Broad::Home)),
            (&home, Some(&link), Some(Broad::Home)),
            (&home.join("project/.."), Some(&home), Some(Broad::Home)),
            (&home.join("project"), Some(&home), None),
            (&home, None, None),
            (Path::new("/"), None, Some(Broad::Root)),
            (Path::new("/.."), Some(&home), Some(Broad::Root)),
            (Path::new("/proc/self/root"), None, Some(Broad::Root)),
        ] {
            assert_eq!(broad(dir, given), expected, "{} {given:?}", dir.display());
        }
    }
}
