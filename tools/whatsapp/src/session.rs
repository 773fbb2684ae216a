//! Begins a session of the library.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::program::now;
use tokio::runtime::{Handle, Runtime};
use whatsapp_rust::Client;
use whatsapp_rust::bot::{Bot, BotBuilder, Provided};
use whatsapp_rust::store::{SqliteStore, SqliteStoreConfig, Synchronous};

use crate::device::Directory;
use crate::server::Server;
use crate::store::{Missing, Store};

/// A session before it begins.
pub(crate) type Builder = BotBuilder<Provided, Provided, Provided, Provided>;

/// How often the library may send a message again that a recipient could not read: so many at once, and so many a minute.
const AGAIN: (u32, u32) = (20, 20);

/// How often is looked for a connection.
const LOOK: Duration = Duration::from_millis(50);

/// A runtime for the library.
pub(crate) fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

/// Prepares a session with the keys in a directory, and says which messages are missing.
pub(crate) async fn prepare(
    directory: &Directory,
    server: Server,
    missing: Sender<Missing>,
) -> Result<(Builder, Store), String> {
    // A key that was used must never be used again, not even after a power cut.
    let config = SqliteStoreConfig { synchronous: Synchronous::Full, ..SqliteStoreConfig::default() };
    let store = SqliteStore::with_config(&directory.database().display().to_string(), config).await;
    let sqlite = store.map_err(|error| format!("the keys of the device cannot be opened: {error}"))?;
    let store = Store { sqlite, missing };
    let builder =
        Bot::builder().with_backend(store.clone()).with_resend_rate_limit(AGAIN.0, AGAIN.1).skip_history_sync();
    Ok((server.equip(builder), store))
}

/// The session for threads that block.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    pub(crate) runtime: Handle,
}

impl Session {
    /// Waits until WhatsApp is connected. False if it is not within this time.
    pub(crate) fn begins(&self, within: Duration) -> bool {
        let end = now() + within;
        while !self.client.is_logged_in() {
            if now() >= end {
                return false;
            }
            sleep(LOOK);
        }
        true
    }

    /// Waits for something; none if it takes too long.
    pub(crate) fn wait<T>(&self, within: Duration, work: impl Future<Output = T>) -> Option<T> {
        self.runtime.block_on(async { tokio::time::timeout(within, work).await.ok() })
    }
}
