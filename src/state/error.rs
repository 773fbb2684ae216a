//! Errors of the store: what failed, where, and what to do.

use std::path::PathBuf;

use heed::MdbError;

use super::text_key::BadText;

/// Result of everything that touches the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum Error {
    /// LMDB failed. After a failed commit the state on disk is unknown: the daemon stops, and the next start recovers.
    #[error("the store failed while {doing}: {source}; check the disk that holds `store/` of the data directory")]
    Lmdb {
        /// The operation that failed.
        doing: &'static str,
        /// LMDB's error.
        source: heed::Error,
    },
    /// The store exists and cannot be opened.
    #[error("the store in {path} cannot be opened: {source}; {}", advice(source))]
    Unopened {
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The store's file is not safe for LMDB to read.
    #[error(
        "the store's file {path} is damaged: {reason}; nothing was changed: restore a backup with `hearth restore BACKUP \
         --replace`, which keeps this one aside"
    )]
    Broken {
        path: PathBuf,
        /// The damage that was found.
        reason: String,
    },
    /// LMDB found corrupt pages.
    #[error(
        "the store is damaged, found while {doing}: {source}; stop the daemon, `hearth check` shows details, and `hearth restore BACKUP --replace` restores a backup"
    )]
    Torn {
        /// The operation that failed.
        doing: &'static str,
        /// LMDB's error.
        source: heed::Error,
    },
    /// The map or the disk is full. The transaction is rolled back; nothing else is affected.
    #[error("the store has no room left while {doing}: free disk space or raise store_max_bytes")]
    Full {
        /// The operation that failed.
        doing: &'static str,
    },
    /// A row that cannot be read.
    #[error(
        "the row {key} of table {table} is damaged: {reason}; stop the daemon, run `hearth-dump --check`, restore a backup"
    )]
    Damaged {
        table: &'static str,
        /// Key, in its text form.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// A row written by a newer Hearth.
    #[error(
        "the row {key} of table {table} has version {found}, this Hearth supports versions only up to {known}: install the newer Hearth"
    )]
    TooNew {
        table: &'static str,
        /// Key, in its text form.
        key: String,
        /// Version of the record.
        found: u16,
        /// Newest version that this program knows.
        known: u16,
    },
    /// A store written by a newer Hearth.
    #[error(
        "the store {path} has format {found}, this Hearth supports formats only up to {known}: install the newer Hearth or use another data directory"
    )]
    NewerFormat {
        path: PathBuf,
        found: u32,
        /// Newest format that this program knows.
        known: u32,
    },
    /// Another process holds the store.
    #[error("the data directory {path} is in use by {holder}: stop it, or talk to it through its socket")]
    Locked {
        /// The data directory.
        path: PathBuf,
        /// `process 123`, or what else is known of it.
        holder: String,
    },
    /// A file system on which LMDB's locks or its map do not work.
    #[error(
        "{path} is on {kind}, where the store's locks do not work: choose a data directory on a local disk (--data or HEARTH_DATA)"
    )]
    FileSystem {
        path: PathBuf,
        /// Kind of file system.
        kind: String,
    },
    /// There is no store to read.
    #[error(
        "there is no store in {path}: run `hearth up`, or name another data directory (--data or HEARTH_DATA); if there was a \
         store, see that its disk is mounted, or restore a backup with `hearth restore BACKUP`"
    )]
    NoStore {
        /// The data directory.
        path: PathBuf,
    },
    /// The store was created by an older Hearth and lacks a table.
    #[error(
        "the store {path} has format {found}, and this Hearth needs format {known}: restart the daemon with this Hearth \
         (`systemctl --user restart hearth`, or stop and start `hearth run`), which upgrades the store"
    )]
    OlderFormat {
        path: PathBuf,
        found: u32,
        /// The format that this program writes.
        known: u32,
    },
    /// A table that every store of this format has is missing.
    #[error(
        "the store is damaged: it has no table {table}; stop the daemon, and put a backup in place with `hearth restore \
         BACKUP --replace`, which keeps this store aside"
    )]
    NoTable { table: &'static str },
    /// A required row is missing.
    #[error("the row {key} of table {table} is missing, and other rows refer to it: the store is damaged")]
    Missing {
        table: &'static str,
        /// Key, in its text form.
        key: String,
    },
    /// A row that must be new already exists.
    #[error("table {table} already has a row {key}")]
    Exists {
        table: &'static str,
        /// Key, in its text form.
        key: String,
    },
    /// A record that is too large to be stored.
    #[error("a record for row {key} of table {table} has {bytes} bytes, at most {max} are accepted")]
    TooLarge {
        table: &'static str,
        /// Key, in its text form.
        key: String,
        bytes: usize,
        max: usize,
    },
    /// A record that cannot be encoded; a bug in its type.
    #[error("a record for row {key} of table {table} cannot be written: {reason}")]
    Unwritable {
        table: &'static str,
        /// Key, in its text form.
        key: String,
        reason: String,
    },
    /// A text that cannot be part of a key.
    #[error(transparent)]
    Text(#[from] BadText),
    /// The store needs a migration, and the backup before it failed.
    #[error(
        "the store has an older format, and the backup before its migration failed, so nothing was changed: {source}"
    )]
    NoBackup { source: Box<super::backup::Error> },
    /// A file beside the store.
    #[error("{path}: {source}")]
    Io {
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

impl Error {
    /// Classifies an error of LMDB: a full map or disk is a normal condition, anything else is a failure.
    pub(super) fn lmdb(doing: &'static str) -> impl FnOnce(heed::Error) -> Self {
        move |source| match &source {
            heed::Error::Mdb(MdbError::MapFull) => Self::Full { doing },
            heed::Error::Io(io) if out_of_space(io) => Self::Full { doing },
            heed::Error::Mdb(
                MdbError::Corrupted | MdbError::PageNotFound | MdbError::Invalid | MdbError::VersionMismatch,
            ) => Self::Torn { doing, source },
            _ => Self::Lmdb { doing, source },
        }
    }

    /// Converts an error of a file.
    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    /// A word for programs.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Full { .. } => "store_full",
            Self::Locked { .. } => "store_busy",
            Self::Damaged { .. }
            | Self::Missing { .. }
            | Self::Exists { .. }
            | Self::Broken { .. }
            | Self::NoTable { .. }
            | Self::Torn { .. } => "store_damaged",
            Self::TooNew { .. } | Self::NewerFormat { .. } => "store_too_new",
            Self::Lmdb { .. }
            | Self::Unopened { .. }
            | Self::FileSystem { .. }
            | Self::NoStore { .. }
            | Self::OlderFormat { .. }
            | Self::TooLarge { .. }
            | Self::Unwritable { .. }
            | Self::Text(_)
            | Self::NoBackup { .. }
            | Self::Io { .. } => "store_failed",
        }
    }

    /// Whether the store or disk was full: release the reserve, refuse new work, retry.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// Whether only one row is damaged. Everything that does not need that row can continue.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::TooNew { .. } | Self::Missing { .. } | Self::Exists { .. })
    }
}

/// Treats an unreadable row as missing.
pub(super) fn readable<T>(row: Result<Option<T>>) -> Result<Option<T>> {
    match row {
        Err(Error::Damaged { .. } | Error::TooNew { .. }) => Ok(None),
        row => row,
    }
}

/// Advice for a store that exists and cannot be opened.
fn advice(why: &std::io::Error) -> &'static str {
    match why.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "make the directory and the files in it readable and writable for the user who runs Hearth"
        }
        std::io::ErrorKind::OutOfMemory => {
            "this process may use too little address space: raise the limit (`ulimit -v`, or `LimitAS=` of a service)"
        }
        std::io::ErrorKind::ReadOnlyFilesystem => "its disk is mounted read-only: find out why, and mount it writable",
        _ => "check its disk and the files in it",
    }
}

/// Whether the disk or the quota is full.
pub(super) fn out_of_space(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}
