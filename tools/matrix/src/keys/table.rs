//! A database of keys: one table in an LMDB environment. Each entry is JSON under a short key, because ids of servers and
//! devices can be longer than LMDB's keys.

use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, RwTxn, WithoutTls};
use matrix_sdk_crypto::CryptoStoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

/// Address space for the file, which grows as it is needed.
const MAP_BYTES: usize = 1 << 30;

pub(crate) type Result<T> = std::result::Result<T, CryptoStoreError>;

/// What an entry is. The number is in the file.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum Kind {
    Account = 1,
    Identity = 2,
    OwnKey = 3,
    Session = 4,
    Inbound = 5,
    Outbound = 6,
    User = 7,
    Device = 8,
    PublicIdentity = 9,
    Hash = 10,
    Request = 11,
    RequestByInfo = 12,
    Secret = 13,
    Withheld = 14,
    Room = 15,
    Bundle = 16,
    Pending = 17,
    Downloaded = 18,
    Custom = 19,
    /// A message of a room that waits for its key.
    Parked = 20,
    /// Which event has a place in the sequence of a key.
    Index = 21,
    /// A room that is encrypted, whatever its server says later.
    Encrypted = 22,
    /// A device from which a person wrote.
    Known = 23,
}

/// The key of an entry, or the beginning of several.
pub(crate) fn key(kind: Kind, parts: &[&str]) -> Vec<u8> {
    let mut key = vec![kind as u8];
    for part in parts {
        key.extend_from_slice(&Sha256::digest(part.as_bytes()));
    }
    key
}

type Entries = Database<'static, Bytes, Bytes>;

#[derive(Debug, Clone)]
pub(crate) struct Table {
    env: Env<WithoutTls>,
    entries: Entries,
}

fn backend(error: heed::Error) -> CryptoStoreError {
    CryptoStoreError::backend(error)
}

impl Table {
    /// Opens the database in a directory, which is created.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(MAP_BYTES);
        #[expect(
            unsafe_code,
            reason = "LMDB maps the file. Sound because only one process of this bridge runs in its state directory, no other \
                      program opens the file, and no flag weakens LMDB's locks or syncs"
        )]
        let env = unsafe { options.open(directory) }.map_err(backend)?;
        let made: heed::Result<CommitOrAbort<Entries, ()>> = env
            .create_databases_and_commit(begin(&env)?, |opener, txn| {
                Ok(CommitOrAbort::Commit(opener.create_database::<Bytes, Bytes>(txn, None)?))
            });
        let entries = made.map_err(backend)?.commit().ok_or(CryptoStoreError::AccountUnset)?;
        Ok(Self { env, entries })
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>> {
        let txn = self.reading()?;
        let found = self.entries.get(&txn, key).map_err(backend)?;
        Ok(found.map(serde_json::from_slice).transpose()?)
    }

    /// All entries whose keys begin with these bytes.
    pub(crate) fn all<T: DeserializeOwned>(&self, prefix: &[u8]) -> Result<Vec<T>> {
        let txn = self.reading()?;
        let found = self.entries.prefix_iter(&txn, prefix).map_err(backend)?;
        found.map(|entry| Ok(serde_json::from_slice(entry.map_err(backend)?.1)?)).collect()
    }

    pub(crate) fn has(&self, key: &[u8]) -> Result<bool> {
        let txn = self.reading()?;
        Ok(self.entries.get(&txn, key).map_err(backend)?.is_some())
    }

    /// A number that grows with each change.
    pub(crate) fn changes(&self) -> usize {
        self.env.info().last_txn_id
    }

    /// Writes all or nothing. It is on disk afterwards.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Batch<'_>) -> Result<T>) -> Result<T> {
        let mut batch = Batch { txn: begin(&self.env)?, entries: self.entries };
        let done = change(&mut batch)?;
        batch.txn.commit().map_err(backend)?;
        Ok(done)
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where transactions that read begin")]
    fn reading(&self) -> Result<heed::RoTxn<'_, WithoutTls>> {
        self.env.read_txn().map_err(backend)
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place where transactions that write begin")]
fn begin(env: &Env<WithoutTls>) -> Result<RwTxn<'_>> {
    env.write_txn().map_err(backend)
}

/// Changes of one transaction.
pub(crate) struct Batch<'e> {
    txn: RwTxn<'e>,
    entries: Entries,
}

impl Batch<'_> {
    pub(crate) fn get<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>> {
        let found = self.entries.get(&self.txn, key).map_err(backend)?;
        Ok(found.map(serde_json::from_slice).transpose()?)
    }

    pub(crate) fn put<T: Serialize + ?Sized>(&mut self, key: &[u8], value: &T) -> Result<()> {
        let text = serde_json::to_vec(value)?;
        self.entries.put(&mut self.txn, key, &text).map_err(backend)
    }

    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.entries.delete(&mut self.txn, key).map(drop).map_err(backend)
    }
}
