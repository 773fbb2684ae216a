//! End-to-end encryption: the crypto machine with its keys, and what it wants of the server. Threads call it, and its
//! tasks run on one thread of its own.

mod backup;
mod files;
mod opening;
mod people;
mod recovery;
mod requests;
mod sealing;
mod storage;
mod verification;
mod verifying;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hearth_bridge::program::log;
use matrix_sdk_common::deserialized_responses::ProcessedToDeviceEvent;
use matrix_sdk_crypto::store::CryptoStore as _;
use matrix_sdk_crypto::types::requests::{AnyIncomingResponse, AnyOutgoingRequest, OutgoingRequest};
use matrix_sdk_crypto::{DecryptionSettings, EncryptionSyncChanges, OlmMachine, TrustRequirement};
use ruma::api::client::keys::{claim_keys, get_keys, upload_keys, upload_signatures};
use ruma::api::client::sync::sync_events::DeviceLists;
use ruma::api::client::to_device::send_event_to_device;
use ruma::{OwnedDeviceId, OwnedUserId, TransactionId, UserId};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use zeroize::Zeroizing;

use crate::api::{Api, Trouble};
use crate::keys::{KeyStore, Table};

pub(crate) use backup::Kept;
use backup::LookedFor;
pub(crate) use files::{open_file, seal_file};
pub(crate) use opening::Opening;
pub(crate) use recovery::checked;
pub use recovery::recovery;
pub(crate) use verification::{KIND as VERIFICATION, REQUEST, Stranger, Way};
pub(crate) use verifying::{News, Verifier, Verifying, WAITING as NEWS};

/// Requests of the machine may lead to more of them, so often at once.
const ROUNDS: usize = 5;

/// Encryption as one device of the bot.
#[derive(Clone)]
pub(crate) struct Crypto {
    machine: OlmMachine,
    api: Api,
    runtime: Arc<Runtime>,
    table: Table,
    /// Requests of the machine are sent by one thread at a time.
    turn: Arc<Mutex<()>>,
    /// What the server said last of this device's keys.
    counts: Arc<Mutex<[Option<Value>; 2]>>,
    people: Arc<People>,
    /// Keys that were looked for in the backup.
    looked_for: Arc<Mutex<LookedFor>>,
}

/// What the owner says of people and keys.
#[derive(Clone, Default)]
pub(crate) struct People {
    /// Keys that the owner has agreed to, by the ids of their people.
    pub(crate) agreed: BTreeMap<String, String>,
    /// Who may verify the bot.
    pub(crate) verifies: Vec<String>,
    /// What protects the keys at the server.
    pub(crate) recovery: Option<Zeroizing<String>>,
}

/// The device that encrypts.
pub(crate) struct Device<'d> {
    pub(crate) user: &'d str,
    pub(crate) id: &'d str,
}

/// A fault of the machine or of its database, which may pass.
fn fault(error: impl std::fmt::Display) -> Trouble {
    Trouble::Lost(format!("encryption failed here: {error}"))
}

impl Crypto {
    /// Opens the keys of a device, or makes new ones; nothing if its keys are elsewhere.
    pub(crate) fn open(api: &Api, device: &Device<'_>, directory: &Path, people: People) -> io::Result<Option<Self>> {
        let user = OwnedUserId::try_from(device.user).map_err(io::Error::other)?;
        let id = OwnedDeviceId::from(device.id);
        // After a login on another device, the old keys stay what they are.
        let store = KeyStore::open(&directory.join("keys").join(hash(device))).map_err(io::Error::other)?;
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("keys").enable_all().build()?;
        let is_new = runtime.block_on(store.load_account()).map_err(io::Error::other)?.is_none();
        if is_new && is_known(api, device).map_err(io::Error::other)? {
            return Ok(None);
        }
        let table = store.table().clone();
        let machine = runtime.block_on(OlmMachine::with_store(&user, &id, store, None)).map_err(io::Error::other)?;
        let (runtime, people) = (Arc::new(runtime), Arc::new(people));
        let (turn, counts, looked_for) = Default::default();
        Ok(Some(Self { machine, api: api.clone(), runtime, table, turn, counts, people, looked_for }))
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn looked_for(&self) -> MutexGuard<'_, LookedFor> {
        self.looked_for.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database of the keys, for what has to be stored with them.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// Takes what an answer to `sync` says about keys, and stores it together with the place after it. An answer without news
    /// of them writes nothing. The strangers who ask for a verification.
    pub(crate) fn receive(&self, answer: &Value) -> Result<Vec<Stranger>, Trouble> {
        let has =
            |pointer: &str| answer.pointer(pointer).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
        let is_news = ["/to_device/events", "/device_lists/changed", "/device_lists/left"].into_iter().any(has);
        let counts = ["/device_one_time_keys_count", "/device_unused_fallback_key_types"]
            .map(|pointer| answer.pointer(pointer).cloned());
        let mut known = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_news && *known == counts {
            return Ok(Vec::new());
        }
        let strangers = self.store_news(answer)?;
        *known = counts;
        Ok(strangers)
    }

    fn store_news(&self, answer: &Value) -> Result<Vec<Stranger>, Trouble> {
        let field = |pointer: &str| answer.pointer(pointer).cloned();
        let lists = field("/device_lists").unwrap_or_else(|| json!({}));
        let mut events = field("/to_device/events").unwrap_or_else(|| json!([]));
        let mut strangers = self.strangers(&mut events);
        self.meet(&events)?;
        let counts = field("/device_one_time_keys_count").unwrap_or_else(|| json!({}));
        let unused = field("/device_unused_fallback_key_types").and_then(|unused| serde_json::from_value(unused).ok());
        let unused: Option<Vec<_>> = unused;
        let unread =
            |error: serde_json::Error| Trouble::Lost(format!("what it says about keys cannot be read: {error}"));
        let lists: DeviceLists = serde_json::from_value(lists).map_err(unread)?;
        let changes = EncryptionSyncChanges {
            to_device_events: serde_json::from_value(events).map_err(unread)?,
            changed_devices: &lists,
            one_time_keys_counts: &serde_json::from_value(counts).map_err(unread)?,
            unused_fallback_keys: unused.as_deref(),
            next_batch_token: answer.get("next_batch").and_then(Value::as_str).map(str::to_owned),
        };
        let (received, _) = self.run(self.machine.receive_sync_changes(changes, &settings())).map_err(fault)?;
        let lost =
            received.iter().filter(|event| matches!(event, ProcessedToDeviceEvent::UnableToDecrypt { .. })).count();
        if lost > 0 {
            // Those that came before are among them: a server repeats what was not confirmed.
            log(&format!(
                "{lost} encrypted messages to this device cannot be decrypted, or came before; they may have had keys"
            ));
        }
        // Those that were encrypted.
        let clear = received.iter().filter_map(|event| match event {
            ProcessedToDeviceEvent::Decrypted { raw, .. } => serde_json::from_str::<Value>(raw.json().get()).ok(),
            _ => None,
        });
        strangers.extend(clear.filter_map(|event| self.stranger(&event)));
        Ok(strangers)
    }

    /// Devices may have changed without being told.
    pub(crate) fn distrust_lists(&self) -> Result<(), Trouble> {
        self.run(self.machine.mark_all_tracked_users_as_dirty()).map_err(fault)
    }

    /// Whether a person has a device that can read encrypted messages.
    pub(crate) fn has_devices(&self, person: &str) -> Result<bool, Trouble> {
        let answer = self.api.post("client/v3/keys/query", &json!({ "device_keys": { person: [] } }))?;
        let devices = answer.get("device_keys").and_then(|users| users.get(person)).and_then(Value::as_object);
        Ok(devices.is_some_and(|devices| !devices.is_empty()))
    }

    /// Sends what the machine wants to send: keys of this device, and questions about others.
    pub(crate) fn upkeep(&self) -> Result<(), Trouble> {
        let _turn = self.turn();
        self.requests()
    }

    fn requests(&self) -> Result<(), Trouble> {
        for _ in 0..ROUNDS {
            let mut requests = self.run(self.machine.outgoing_requests()).map_err(fault)?;
            // Rooms may be encrypted: `verifying.rs` sends these.
            requests.retain(|request| !matches!(request.request(), AnyOutgoingRequest::RoomMessage(_)));
            if requests.is_empty() {
                return Ok(());
            }
            for request in &requests {
                match self.request(request) {
                    Err(trouble) if !trouble.is_passing() => {
                        // It is tried again after the next answer.
                        log(&format!("a request about keys of encryption: {trouble}"));
                        return Ok(());
                    }
                    other => other?,
                }
            }
        }
        Ok(())
    }

    fn request(&self, request: &OutgoingRequest) -> Result<(), Trouble> {
        let Some(answer) = requests::send(&self.api, request.request())? else { return Ok(()) };
        let id = request.request_id();
        match request.request() {
            AnyOutgoingRequest::KeysUpload(_) => self.sent(id, &requests::read::<upload_keys::v3::Response>(&answer)?),
            AnyOutgoingRequest::KeysQuery(_) => self.sent(id, &requests::read::<get_keys::v3::Response>(&answer)?),
            AnyOutgoingRequest::KeysClaim(_) => self.sent(id, &requests::read::<claim_keys::v3::Response>(&answer)?),
            AnyOutgoingRequest::ToDeviceRequest(_) => {
                self.sent(id, &requests::read::<send_event_to_device::v3::Response>(&answer)?)
            }
            AnyOutgoingRequest::SignatureUpload(_) => {
                self.sent(id, &requests::read::<upload_signatures::v3::Response>(&answer)?)
            }
            AnyOutgoingRequest::RoomMessage(_) => Ok(()),
        }
    }

    fn sent<'a>(&self, id: &TransactionId, answer: impl Into<AnyIncomingResponse<'a>>) -> Result<(), Trouble> {
        self.run(self.machine.mark_request_as_sent(id, answer)).map_err(fault)
    }
}

/// Messages of all devices are read; whose they are is looked at afterwards.
fn settings() -> DecryptionSettings {
    DecryptionSettings { sender_device_trust_requirement: TrustRequirement::Untrusted }
}

/// The name of a device's directory.
fn hash(device: &Device<'_>) -> String {
    let key = crate::keys::key(crate::keys::Kind::Account, &[device.user, device.id]);
    key.iter().skip(1).take(12).map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the server has keys of a device.
fn is_known(api: &Api, device: &Device<'_>) -> Result<bool, Trouble> {
    let answer = api.post("client/v3/keys/query", &json!({ "device_keys": { device.user: [device.id] } }))?;
    let devices = answer.get("device_keys").and_then(|users| users.get(device.user));
    Ok(devices.and_then(|devices| devices.get(device.id)).is_some())
}

/// A person's id in the form of the machine.
fn user(id: &str) -> Result<&UserId, Trouble> {
    <&UserId>::try_from(id).map_err(|error| Trouble::Lost(format!("{id} is no person: {error}")))
}
