//! Workspaces: the directories in which sessions live.

use serde::{Deserialize, Serialize};

use super::id::{AgentId, SessionId};
use super::time::Timestamp;

/// 64-bit FNV-1a of the canonical workspace path, shown as 16 lower-case hex digits. A name, not a secret, and not free
/// of collisions: the discriminator beside it tells colliding workspaces apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fingerprint(u64);

/// Tells workspaces with equal fingerprints apart, in the order of their arrival: different paths that collide, and
/// different directories that were at the same path one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Discriminator(pub u16);

/// Key of a workspace.
pub type WorkspaceKey = (Fingerprint, Discriminator);

impl Fingerprint {
    /// Hashes a path as text. Bytes that are no UTF-8 count as U+FFFD, which is why the workspace keeps the raw path.
    #[must_use]
    pub fn of_path(path: &[u8]) -> Self {
        let text = String::from_utf8_lossy(path);
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |state, byte| {
            (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(hash)
    }

    /// From the number in a key.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The number in a key.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What identifies a directory beyond its path, to notice that it was moved, copied or replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// Machine and mount namespace in which the numbers below mean something.
    pub place: String,
    /// Device of the directory.
    pub device: u64,
    /// Its number on the device.
    pub inode: u64,
    /// When it was made, in nanoseconds since 1970, if the file system tells.
    pub born: Option<i64>,
}

/// A directory with sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Canonical path, raw bytes. For an agent group's folder: relative to the data directory, so that the data directory
    /// can be moved and restored.
    pub path: Vec<u8>,
    /// Paths at which it was before it was adopted elsewhere, the newest last.
    pub former_paths: Vec<Vec<u8>>,
    /// The agent whose folder it is.
    pub agent: Option<AgentId>,
    /// What the directory looked like when it was made a workspace or adopted.
    pub witness: Option<Witness>,
    /// Top of the repository it lies in, raw bytes, if it lies in one.
    pub project: Option<Vec<u8>>,
    /// Since when another directory is at its path: its sessions are kept, and not resumed unless adopted.
    pub replaced: Option<Timestamp>,
    /// The session that is resumed when none is named and that `switch` chose.
    pub current: Option<SessionId>,
    /// When it was first seen.
    pub created: Timestamp,
}

/// What happened to a workspace as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceEvent {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: WorkspaceFact,
}

/// One kind of event of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkspaceFact {
    /// It was first seen.
    Made,
    /// It was found at another path and adopted there; the path before.
    Adopted {
        /// Where it was, raw bytes.
        from: Vec<u8>,
    },
    /// Another directory is at its path.
    Replaced,
    /// A file was refused because it belongs to another workspace.
    MismatchRefused {
        /// The file, for people.
        file: String,
        /// The workspace that it names, for people.
        root: String,
    },
    /// A session of it was continued in another workspace, as a fork.
    HandedOver {
        /// Which.
        session: SessionId,
        /// The fork.
        fork: SessionId,
        /// Where the fork is.
        to: WorkspaceKey,
    },
    /// A session of another workspace is continued here, as a fork.
    TakenOver {
        /// The fork.
        session: SessionId,
        /// What it was forked from.
        parent: SessionId,
        /// Where that is.
        from: WorkspaceKey,
    },
    /// Sessions were taken in from files.
    Imported {
        /// How many.
        sessions: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_match_the_published_vectors() {
        for (path, hex) in [
            ("/", "af63a24c860189fe"),
            ("/tmp", "7f7de39c4bcebddb"),
            ("/tmp/foo", "ca485d71dbcb0e34"),
            ("/tmp/foo/", "8404e3787a08f7e1"),
            ("/home/user/my project", "aa24f4ba6c08d84d"),
            ("/home/user/proj\u{e9}t", "c47a6001f627813f"),
            ("/home/user/proje\u{301}t", "999c8a53a9856321"),
            ("/tmp/🦞/claw", "08bddd0fde4c9421"),
            ("", "cbf29ce484222325"),
            ("foobar", "85944171f73967e8"),
            ("/tmp/Vnb7xSUH4Co", "ca380e5759713147"),
            ("/tmp/P3OSLN0KT3d", "ca380e5759713147"),
        ] {
            assert_eq!(Fingerprint::of_path(path.as_bytes()).to_string(), hex, "{path}");
        }
        assert_eq!(Fingerprint::of_path(b"/tmp/nonutf8-\xff").to_string(), "ca3ce1ce900126f8");
        assert_eq!(Fingerprint::of_path(b"/tmp/nonutf8-\xff\xfe").to_string(), "e6cfad7d10fda939");
    }
}
