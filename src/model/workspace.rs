//! Workspaces: directories that have sessions.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fnv::fnv_1a;
use super::id::{AgentId, SessionId};
use super::time::Timestamp;

/// 64-bit FNV-1a of the canonical workspace path, shown as 16 lower-case hex digits. It is a name, not a secret, and
/// may collide: the discriminator tells colliding workspaces apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fingerprint(u64);

/// Tells workspaces with equal fingerprints apart, numbered in order of arrival: different paths that collide, and
/// different directories that existed at the same path one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Discriminator(pub u16);

/// Key of a workspace. In records it is stored and shown like a tuple.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspaceKey {
    /// Hash of the path.
    pub fingerprint: Fingerprint,
    /// Number among the workspaces with this fingerprint.
    pub discriminator: Discriminator,
}

impl std::fmt::Debug for WorkspaceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (self.fingerprint, self.discriminator).fmt(f)
    }
}

impl From<(Fingerprint, Discriminator)> for WorkspaceKey {
    fn from((fingerprint, discriminator): (Fingerprint, Discriminator)) -> Self {
        Self { fingerprint, discriminator }
    }
}

impl Serialize for WorkspaceKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.fingerprint, self.discriminator).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for WorkspaceKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <(Fingerprint, Discriminator)>::deserialize(deserializer).map(Self::from)
    }
}

impl Fingerprint {
    /// Hashes a path as text. Bytes that are not UTF-8 count as U+FFFD, so the workspace also keeps the raw path.
    #[must_use]
    pub fn of_path(path: &[u8]) -> Self {
        Self(fnv_1a(String::from_utf8_lossy(path).as_bytes()))
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

/// Text form of a key: the fingerprint, followed by `~` and the discriminator for all but the first workspace of that
/// fingerprint.
#[must_use]
pub fn key_text(WorkspaceKey { fingerprint, discriminator: Discriminator(number) }: WorkspaceKey) -> String {
    if number == 0 { fingerprint.to_string() } else { format!("{fingerprint}~{number}") }
}

/// Parses the output of [`key_text`]. Does not accept abbreviations.
#[must_use]
pub fn parse_key(text: &str) -> Option<WorkspaceKey> {
    let (digits, number) = text.split_once('~').map_or((text, None), |(digits, number)| (digits, Some(number)));
    let plain = digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let number = number.map_or(Some(0), |number| number.parse().ok())?;
    let fingerprint = Fingerprint(u64::from_str_radix(digits, 16).ok()?);
    let key = WorkspaceKey { fingerprint, discriminator: Discriminator(number) };
    (plain && key_text(key) == text).then_some(key)
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Identity of a directory beyond its path, to notice that it was moved, copied or replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// Machine and mount namespace in which the following numbers are valid.
    pub place: String,
    /// Device of the directory.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Creation time in nanoseconds since 1970, if the file system records it.
    pub born: Option<i64>,
}

impl Witness {
    /// Whether both identify the same directory. Device numbers change when a machine restarts, so the inode and the
    /// creation time count for more. Without a creation time, everything must match.
    #[must_use]
    pub fn is_of_same(&self, other: &Self) -> bool {
        let (device, place) = (self.device == other.device, self.place == other.place);
        let near = if self.born.is_some() { device || place } else { device && place };
        self.inode == other.inode && self.born == other.born && near
    }
}

/// A workspace: a directory with sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Canonical path, raw bytes. For an agent group's folder: relative to the data directory, so that the data
    /// directory can be moved and restored.
    pub path: Vec<u8>,
    /// Its paths before it was adopted elsewhere, the newest last.
    pub former_paths: Vec<Vec<u8>>,
    /// Other paths that lead to the same directory and were adopted as such.
    pub aliases: Vec<Vec<u8>>,
    /// The agent whose folder it is.
    pub agent: Option<AgentId>,
    /// Identity of the directory when it became a workspace or was adopted.
    pub witness: Option<Witness>,
    /// Root of the repository that contains it, raw bytes, if there is one.
    pub project: Option<Vec<u8>>,
    /// Since when another directory is at its path. Its sessions are kept, and are not resumed unless it is adopted.
    pub replaced: Option<Timestamp>,
    /// The session chosen by `switch`, which is resumed when none is named.
    pub current: Option<SessionId>,
    /// When it was first seen.
    pub created: Timestamp,
}

/// An event in the history of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceEvent {
    /// Time of the event.
    pub at: Timestamp,
    /// What happened.
    pub what: WorkspaceFact,
}

/// Kinds of workspace events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkspaceFact {
    /// It was first seen.
    Made,
    /// It was found at another path and adopted there. Records the previous path.
    Adopted {
        /// Where it was, raw bytes.
        from: Vec<u8>,
    },
    /// Another directory was found at its path.
    Replaced,
    /// Its directory was found at its path again.
    Returned,
    /// Another directory at the same path was adopted: a copy or a new one replaces the old one.
    Attached,
    /// Another path that leads to the same directory was adopted.
    Aliased {
        /// That path, raw bytes.
        path: Vec<u8>,
    },
    /// The folder of an agent is a different directory than before: the data directory was copied or restored.
    Restored,
    /// A file was refused because it belongs to another workspace.
    MismatchRefused {
        /// The file, for people.
        file: String,
        /// The workspace that it names, for people.
        root: String,
    },
    /// One of its sessions was continued in another workspace, as a fork.
    HandedOver {
        /// The session that was handed over.
        session: SessionId,
        /// The fork that continues it.
        fork: SessionId,
        /// The workspace of the fork.
        to: WorkspaceKey,
    },
    /// A session of another workspace was continued here, as a fork.
    TakenOver {
        /// The fork that was made.
        session: SessionId,
        /// What it was forked from.
        parent: SessionId,
        /// The workspace of the parent.
        from: WorkspaceKey,
    },
    /// Sessions were imported from files.
    Imported {
        /// Number of imported sessions.
        sessions: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_shown() {
        for (text, key) in [
            ("ca3ce1ce900126f8", Some((0xca3c_e1ce_9001_26f8, 0))),
            ("00000000000000ff~1", Some((0xff, 1))),
            ("00000000000000ff~65535", Some((0xff, 65_535))),
            ("00000000000000ff~0", None),
            ("00000000000000ff~01", None),
            ("00000000000000ff~+1", None),
            ("00000000000000ff~65536", None),
            ("00000000000000ff~", None),
            ("00000000000000FF", None),
            ("+0000000000000ff", None),
            ("ff", None),
            ("", None),
        ] {
            let key = key.map(|(number, disc)| (Fingerprint::from_number(number), Discriminator(disc)));
            let key = key.map(WorkspaceKey::from);
            assert_eq!(parse_key(text), key, "{text}");
            if let Some(key) = key {
                assert_eq!(key_text(key), text);
            }
        }
    }

    #[test]
    fn a_directory_is_known_by_number_and_birth() {
        let witness = |place: &str, device, inode, born| Witness { place: place.to_owned(), device, inode, born };
        let known = witness("m", 1, 2, Some(3));
        for (found, same) in [
            (witness("m", 1, 2, Some(3)), true),
            (witness("m", 9, 2, Some(3)), true),  // the machine started again
            (witness("x", 1, 2, Some(3)), true),  // seen from another mount namespace
            (witness("x", 9, 2, Some(3)), false), // another machine
            (witness("m", 1, 2, Some(4)), false), // made anew with the same number
            (witness("m", 1, 5, Some(3)), false),
            (witness("m", 1, 2, None), false),
        ] {
            assert_eq!((known.is_of_same(&found), found.is_of_same(&known)), (same, same), "{found:?}");
        }
        let unborn = witness("m", 1, 2, None);
        assert!(unborn.is_of_same(&unborn));
        assert!(!unborn.is_of_same(&witness("m", 9, 2, None)) && !unborn.is_of_same(&witness("x", 1, 2, None)));
    }

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
