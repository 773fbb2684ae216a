//! The cases that the crypto machine has for its stores.
#![allow(unexpected_cfgs, reason = "features of the crypto machine, which its cases ask for")]

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use tempfile::TempDir;

use super::{KeyStore, Table};

/// A database for each name, because some cases open theirs twice.
static DATABASES: LazyLock<Mutex<HashMap<String, (TempDir, Table)>>> = LazyLock::new(Mutex::default);

async fn get_store(name: &str, _passphrase: Option<&str>, clear_data: bool) -> KeyStore {
    let mut databases = DATABASES.lock().unwrap();
    if clear_data {
        databases.remove(name);
    }
    let (_, table) = databases.entry(name.to_owned()).or_insert_with(|| {
        let directory = tempfile::tempdir().unwrap();
        let table = Table::open(directory.path()).unwrap();
        (directory, table)
    });
    KeyStore::on(table.clone())
}

matrix_sdk_crypto::cryptostore_integration_tests!();
matrix_sdk_crypto::cryptostore_integration_tests_time!();
