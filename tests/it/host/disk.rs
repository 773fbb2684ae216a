//! Disks of data directories: small ones, full ones, and copies of a store.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Host, skipped};

/// A file that fills the disk of a data directory to its end.
pub(crate) struct Filler {
    place: PathBuf,
    file: std::fs::File,
}

impl Filler {
    pub(crate) fn fill(data: &Path) -> Self {
        let place = data.join("filler");
        let file = std::fs::File::create(&place).unwrap();
        let mut filler = Self { place, file };
        filler.take(&[1; 65_536]);
        filler
    }

    /// Fills the free space, in writes of this size.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        while self.file.write_all(bytes).is_ok() {}
    }

    pub(crate) fn make_room(self) {
        // Removing it is not enough: a program that another test is just starting has the file open until it runs.
        self.file.set_len(0).unwrap();
        std::fs::remove_file(&self.place).unwrap();
    }
}

/// A small file system in memory.
pub(crate) struct Disk(PathBuf);

impl Disk {
    pub(crate) fn mount(place: PathBuf) -> Option<Self> {
        Self::mount_with(place, "size=160m,mode=0700")
    }

    /// A file system with this number of files and directories.
    pub(crate) fn with_inodes(place: PathBuf, inodes: u32) -> Option<Self> {
        Self::mount_with(place, &format!("size=512m,mode=0700,nr_inodes={inodes}"))
    }

    fn mount_with(place: PathBuf, options: &str) -> Option<Self> {
        std::fs::create_dir_all(&place).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&place).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(place));
        }
        skipped("no file system can be mounted here, so none can be full");
        None
    }

    /// Makes it writable, `rw`, or read-only, `ro`. A process that another test is just starting may still have a file
    /// open.
    pub(crate) fn remount(&self, how: &str) {
        let option = format!("remount,{how}");
        let remounted = || Command::new("mount").args(["-o", &option]).arg(&self.0).output().unwrap();
        let mut done = remounted();
        for _ in 0..100 {
            if done.status.success() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
            done = remounted();
        }
        panic!("{done:?}");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

pub(crate) fn copy_store(from: &Host, to: &Host) {
    let store = to.data().join("store");
    std::fs::create_dir_all(&store).unwrap();
    for place in [to.data(), store.clone()] {
        std::fs::set_permissions(place, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    }
    std::fs::copy(from.data().join("store/data.mdb"), store.join("data.mdb")).unwrap();
}
