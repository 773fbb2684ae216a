//! Temporary directories that a killed process does not leave behind for good.
//!
//! Each is locked while its process lives. Creating one removes those of the same user that no process has locked.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};

/// What a directory is used for, which is in its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Files of a bridge that is tested.
    Bridge,
    /// The mailbox of an agent that is asked what it is.
    Handshake,
    /// A copy of a foreign database.
    Import,
    /// A store for a dry run.
    Rehearsal,
    /// The installation that the self-test attacks.
    SelfTest,
    /// Audio for a program.
    Speech,
    /// Files of a trial container.
    Trial,
    /// A copy of the store that is upgraded.
    Upgrade,
}

impl Purpose {
    const ALL: [Self; 8] = [
        Self::Bridge,
        Self::Handshake,
        Self::Import,
        Self::Rehearsal,
        Self::SelfTest,
        Self::Speech,
        Self::Trial,
        Self::Upgrade,
    ];

    const fn prefix(self) -> &'static str {
        match self {
            Self::Bridge => "hearth-bridge-",
            Self::Handshake => "hearth-handshake-",
            Self::Import => "hearth-import-",
            Self::Rehearsal => "hearth-rehearsal-",
            Self::SelfTest => "hearth-self-test-",
            Self::Speech => "hearth-speech-",
            Self::Trial => "hearth-trial-",
            Self::Upgrade => "hearth-upgrade-",
        }
    }
}

/// A directory that only its owner can enter, in the directory for temporary files. Dropped, it disappears with its
/// content.
#[derive(Debug)]
pub struct TempDir {
    directory: tempfile::TempDir,
    /// Held until the directory is gone.
    _lock: Option<File>,
}

impl TempDir {
    /// Creates an empty directory, and removes those that killed processes left.
    ///
    /// # Errors
    /// If it cannot be created. What cannot be removed stays.
    pub fn create(purpose: Purpose) -> io::Result<Self> {
        Self::create_in(&std::env::temp_dir(), purpose)
    }

    fn create_in(place: &Path, purpose: Purpose) -> io::Result<Self> {
        let (mut builder, private) = (tempfile::Builder::new(), std::fs::Permissions::from_mode(0o700));
        let directory = builder.prefix(purpose.prefix()).permissions(private).tempdir_in(place)?;
        let lock = lock(directory.path());
        if let Some(own) = &lock {
            remove_left(place, own.metadata()?.uid());
        }
        Ok(Self { directory, _lock: lock })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// None if the directory is locked, is a link, or cannot be locked.
fn lock(directory: &Path) -> Option<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = File::from(rustix::fs::open(directory, flags, Mode::empty()).ok()?);
    flock(&directory, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(directory)
}

/// Removes unlocked directories of a user. An empty one may be about to be locked and stays.
fn remove_left(place: &Path, user: u32) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    for path in entries.flatten().filter(|entry| is_named(&entry.file_name())).map(|entry| entry.path()) {
        let Some(lock) = lock(&path) else { continue };
        let private = lock.metadata().is_ok_and(|found| found.uid() == user && found.mode().trailing_zeros() >= 6);
        if private && std::fs::read_dir(&path).is_ok_and(|mut inside| inside.next().is_some()) {
            // What cannot be removed now is tried again next time.
            drop(std::fs::remove_dir_all(&path));
        }
    }
}

fn is_named(name: &std::ffi::OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    Purpose::ALL.iter().any(|known| name.strip_prefix(known.prefix()).is_some_and(is_random))
}

/// Whether this is what [`tempfile`] appends.
fn is_random(rest: &str) -> bool {
    rest.len() == 6 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(place: &Path, name: &str) -> std::path::PathBuf {
        let path = place.join(name);
        std::fs::create_dir_all(path.join("data")).unwrap();
        std::fs::write(path.join("data/x"), "x").unwrap();
        private(&path);
        path
    }

    fn private(path: &Path) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn directories_of_killed_processes_are_removed_and_no_others() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        let live = TempDir::create_in(place, Purpose::SelfTest).unwrap();
        std::fs::write(live.path().join("x"), "x").unwrap();
        let stale = [left(place, "hearth-upgrade-aB3dE6"), left(place, "hearth-import-000000")];
        let empty = place.join("hearth-trial-abcdef");
        std::fs::create_dir(&empty).unwrap();
        private(&empty);
        let shared = left(place, "hearth-trial-Public");
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o755)).unwrap();
        let others = [left(place, "hearth-upgrade-notes"), left(place, "hearth-upgrade-"), left(place, "mine-aB3dE6")];
        let target = left(place, "target");
        std::os::unix::fs::symlink(&target, place.join("hearth-upgrade-linked")).unwrap();
        let second = TempDir::create_in(place, Purpose::Upgrade).unwrap();
        assert_eq!(std::fs::metadata(second.path()).unwrap().mode() & 0o7777, 0o700);
        assert!(stale.iter().all(|path| !path.exists()));
        assert!(live.path().join("x").exists() && second.path().exists() && empty.exists() && shared.exists());
        assert!(others.iter().all(|path| path.join("data/x").exists()) && target.join("data/x").exists());
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.exists() && live.path().exists());
    }

    #[test]
    fn directories_of_other_users_stay() {
        let place = tempfile::tempdir().unwrap();
        let other = left(place.path(), "hearth-upgrade-aB3dE6");
        let user = std::fs::metadata(&other).unwrap().uid();
        remove_left(place.path(), user + 1);
        assert!(other.exists());
        remove_left(place.path(), user);
        assert!(!other.exists());
    }
}
