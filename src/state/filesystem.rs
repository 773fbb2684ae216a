//! Checks the kind of file system: LMDB needs working POSIX locks and a coherent shared map.

use std::path::Path;

use super::error::{Error, Result};

/// Verdict on a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FilesystemSupport {
    Fine,
    /// It works, with a warning.
    Warn(String),
    /// It does not work; the kind of file system.
    Refuse(String),
}

/// Checks the file system of `dir` and returns warnings.
#[cfg(target_os = "linux")]
pub(super) fn check(dir: &Path) -> Result<Vec<String>> {
    let dir = std::fs::canonicalize(dir).map_err(Error::io(dir))?;
    let stat = rustix::fs::statfs(&dir).map_err(|errno| Error::io(&dir)(errno.into()))?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(); // without the mount table, the magic number alone decides
    let magic = u64::try_from(stat.f_type).unwrap_or_default() & u64::from(u32::MAX);
    match judge(magic, mount_kind(&mounts, &dir).as_deref()) {
        FilesystemSupport::Fine => Ok(Vec::new()),
        FilesystemSupport::Warn(kind) => Ok(vec![format!(
            "{} is on {kind}: what is stored there may not survive a restart of the machine or container",
            dir.display()
        )]),
        FilesystemSupport::Refuse(kind) => Err(Error::FileSystem { path: dir, kind }),
    }
}

/// On other systems, mounts are unknown.
#[cfg(not(target_os = "linux"))]
pub(super) fn check(_dir: &Path) -> Result<Vec<String>> {
    Ok(Vec::new())
}

/// Decides by the magic number of `statfs` and the name in the mount table: each reveals kinds that the other hides.
pub(super) fn judge(magic: u64, kind: Option<&str>) -> FilesystemSupport {
    let by_magic = match magic {
        0x6969 => Some("nfs"),
        0xff53_4d42 => Some("cifs"),
        0x517b => Some("smb"),
        0xfe53_4d42 => Some("smb2"),
        0x6573_5546 => Some("fuse"),
        0x0102_1997 => Some("9p"),
        0x794c_7630 => Some("overlay"),
        0x0102_1994 => Some("tmpfs"),
        _ => None,
    };
    let opinions = [kind, by_magic].into_iter().flatten().map(judge_name);
    opinions
        .max_by_key(|verdict| match verdict {
            FilesystemSupport::Fine => 0,
            FilesystemSupport::Warn(_) => 1,
            FilesystemSupport::Refuse(_) => 2,
        })
        .unwrap_or(FilesystemSupport::Fine)
}

fn judge_name(name: &str) -> FilesystemSupport {
    let family = name.split('.').next().unwrap_or(name); // `fuse.sshfs`
    match family {
        "nfs" | "nfs4" | "cifs" | "smb" | "smb2" | "smb3" | "smbfs" | "fuse" | "fuseblk" | "9p" | "virtiofs"
        | "afs" | "ceph" | "glusterfs" => FilesystemSupport::Refuse(name.to_owned()),
        "overlay" | "tmpfs" | "ramfs" => FilesystemSupport::Warn(name.to_owned()),
        _ => FilesystemSupport::Fine,
    }
}

/// Kind of the file system that is mounted where `path` is: the longest mount point above it, the last one of equals.
pub(super) fn mount_kind(mountinfo: &str, path: &Path) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (place, source) = line.split_once(" - ")?;
        Some((unescape(place.split(' ').nth(4)?), source.split(' ').next()?))
    });
    mounts
        .filter(|(point, _)| path.starts_with(point))
        .max_by_key(|(point, _)| Path::new(point).components().count())
        .map(|(_, kind)| kind.to_owned())
}

/// `\040` is a space, and so on.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.split_first_chunk::<3>().filter(|_| *first == b'\\');
        let code = escaped.and_then(|(digits, after)| {
            let digits = std::str::from_utf8(digits).ok()?;
            Some((u8::from_str_radix(digits, 8).ok()?, after))
        });
        let (byte, after) = code.unwrap_or((*first, after));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / /home/ada rw,nosuid - nfs4 server:/home rw
31 22 0:41 / /mnt/my\\040disk rw - fuse.sshfs ada@host rw
32 22 0:42 / /tmp rw - tmpfs tmpfs rw
33 30 254:1 / /home/ada rw - btrfs /dev/vdb rw
34 22 0:43 / /shared rw master:2 - virtiofs share rw
";

    fn kind(path: &str) -> Option<String> {
        mount_kind(MOUNTS, Path::new(path))
    }

    #[test]
    fn the_deepest_and_latest_mount_counts() {
        assert_eq!(kind("/var/lib").as_deref(), Some("ext4"));
        assert_eq!(kind("/home/ada/hearth").as_deref(), Some("btrfs"), "mounted over the network share");
        assert_eq!(kind("/mnt/my disk/store").as_deref(), Some("fuse.sshfs"));
        assert_eq!(kind("/tmpfoo").as_deref(), Some("ext4"), "whole names only");
        assert_eq!(mount_kind("nonsense", Path::new("/")), None);
    }

    #[test]
    fn locks_must_work() {
        let refused = |magic, kind| matches!(judge(magic, kind), FilesystemSupport::Refuse(_));
        assert!(refused(0x6969, None), "nfs by its number");
        assert!(refused(0xef53, Some("nfs4")), "nfs by its name");
        assert!(refused(0x6573_5546, Some("virtiofs")));
        assert!(refused(0x0102_1997, Some("ext4")), "either is enough");
        for name in ["cifs", "smb3", "fuse.sshfs", "fuseblk", "9p"] {
            assert!(refused(0, Some(name)), "{name}");
        }
        assert_eq!(judge(0xef53, Some("ext4")), FilesystemSupport::Fine);
        assert_eq!(judge(0x9123_683e, Some("btrfs")), FilesystemSupport::Fine);
        assert_eq!(judge(0x794c_7630, Some("overlay")), FilesystemSupport::Warn("overlay".to_owned()));
        assert_eq!(judge(0x0102_1994, None), FilesystemSupport::Warn("tmpfs".to_owned()));
    }
}
