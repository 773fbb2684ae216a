//! Options for opening a store.

use crate::model::Timestamp;

/// Options for opening a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// A random number, different for every opening. It becomes the id of a new installation and the first epoch of its
    /// outgoing ids.
    pub install: u64,
    /// Bytes the store may use unless its settings say otherwise.
    pub max_bytes: u64,
    /// Bytes that must stay free on its disk, in addition to the reserve.
    pub margin_bytes: u64,
    /// Size of the reserve.
    pub reserve_bytes: u64,
    /// Address space for the map; none for as much as the system grants, up to 1 TiB.
    pub map_bytes: Option<usize>,
    /// Time of opening: part of the name of a backup before a migration, and of the names of mailboxes and files that
    /// are moved aside.
    pub now: Option<Timestamp>,
    /// What to do if there is no store.
    pub missing: Missing,
}

/// What opening does if a data directory has no store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Creates one.
    Create,
    /// Creates one, after moving mailboxes and files of an earlier store aside. The new store would give the same
    /// numbers to other sessions, and would remove files that it does not know.
    CreateBeside,
    /// Fails with [`crate::Error::NoStore`] and creates nothing.
    Refuse,
}

impl Options {
    /// The daemon's options.
    #[must_use]
    pub const fn new(install: u64) -> Self {
        Self {
            install,
            max_bytes: 64 << 30,
            margin_bytes: 64 << 20,
            reserve_bytes: 16 << 20,
            map_bytes: None,
            now: None,
            missing: Missing::Create,
        }
    }
}
