//! Where the keys of encryption are kept: a database in the bridge's own directory.

mod changes;
mod store;
mod table;

pub(crate) use store::KeyStore;
pub(crate) use table::{Kind, Result, Table, key};

/// A fault of the database.
pub(crate) type Fault = matrix_sdk_crypto::CryptoStoreError;

#[cfg(test)]
mod tests;
