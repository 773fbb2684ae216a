//! The library's storage, which also knows what was received.
//!
//! The library stores the keys of chats by itself, also while a message that they read is not stored yet. If the bridge dies
//! right then, the message comes again, and its key is used up. The library takes it for one that it has passed on, and would
//! confirm it to WhatsApp, so that nothing had it any more. Here, the ids of messages that were passed on stay for a week (the
//! library removes them), and one that is unknown is not confirmed; its sender's app is asked for it again.

#![deny(
    clippy::missing_trait_methods,
    reason = "what is not passed on here would be another function than the library's"
)]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use hearth_bridge::program::log;
use hearth_bridge::program::state::seconds;
use whatsapp_rust::bytes::Bytes;
use whatsapp_rust::features::{RetryRequestOptions, RetryRequestOutcome};
use whatsapp_rust::store::SqliteStore;
use whatsapp_rust::store::error::{Result, StoreError};
use whatsapp_rust::store::traits::{
    AppStateSyncKey, AppSyncStore, DeviceListRecord, DeviceStore, LidPnMappingEntry, MessageSecret, MsgSecretEntry,
    MsgSecretStore, PendingInboundKey, PendingInboundRow, ProtocolStore, SignalStore, TcTokenEntry,
};
use whatsapp_rust::wacore::appstate::hash::HashState;
use whatsapp_rust::wacore::appstate::processor::AppStateMutationMAC;
use whatsapp_rust::wacore::stats::StorageResourceReport;
use whatsapp_rust::wacore::store::Device;
use whatsapp_rust::{NodeBuilder, async_trait};

use crate::session::Session;

/// What is stored instead of a message that was passed on.
const RECEIVED: &[u8] = &[];
/// Time for a request.
const WITHIN: Duration = Duration::from_secs(20);

/// A message whose key was used up, and which was never passed on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    chat: String,
    sender: String,
    id: String,
}

#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) sqlite: SqliteStore,
    pub(crate) missing: Sender<Missing>,
}

/// Functions that are the library's.
macro_rules! passed_on {
    ($trait:ident { $(fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty;)* } $($own:item)*) => {
        #[async_trait]
        impl $trait for Store {
            $(async fn $name(&self, $($arg: $type),*) -> $out {
                self.sqlite.$name($($arg),*).await
            })*
            $($own)*
        }
    };
}

passed_on!(SignalStore {
    fn put_identity(address: &str, key: [u8; 32]) -> Result<()>;
    fn put_identities_batch(identities: &[(Arc<str>, [u8; 32])]) -> Result<()>;
    fn load_identity(address: &str) -> Result<Option<[u8; 32]>>;
    fn delete_identity(address: &str) -> Result<()>;
    fn get_session(address: &str) -> Result<Option<Bytes>>;
    fn put_session(address: &str, session: &[u8]) -> Result<()>;
    fn put_sessions_batch(sessions: &[(Arc<str>, Bytes)]) -> Result<()>;
    fn delete_session(address: &str) -> Result<()>;
    fn has_session(address: &str) -> Result<bool>;
    fn has_signal_state_for_user(user: &str) -> Result<bool>;
    fn store_prekey(id: u32, record: &[u8], uploaded: bool) -> Result<()>;
    fn store_prekeys_batch(keys: &[(u32, Bytes)], uploaded: bool) -> Result<()>;
    fn load_prekey(id: u32) -> Result<Option<Bytes>>;
    fn load_prekeys_batch(ids: &[u32]) -> Result<Vec<(u32, Bytes)>>;
    fn mark_prekeys_uploaded(ids: &[u32]) -> Result<()>;
    fn remove_prekey(id: u32) -> Result<()>;
    fn get_max_prekey_id() -> Result<u32>;
    fn store_signed_prekey(id: u32, record: &[u8]) -> Result<()>;
    fn load_signed_prekey(id: u32) -> Result<Option<Vec<u8>>>;
    fn load_all_signed_prekeys() -> Result<Vec<(u32, Vec<u8>)>>;
    fn remove_signed_prekey(id: u32) -> Result<()>;
    fn put_sender_key(address: &str, record: &[u8]) -> Result<()>;
    fn put_sender_keys_batch(sender_keys: &[(Arc<str>, Bytes)]) -> Result<()>;
    fn get_sender_key(address: &str) -> Result<Option<Vec<u8>>>;
    fn delete_sender_key(address: &str) -> Result<()>;
});

passed_on!(AppSyncStore {
    fn get_sync_key(key_id: &[u8]) -> Result<Option<AppStateSyncKey>>;
    fn set_sync_key(key_id: &[u8], key: AppStateSyncKey) -> Result<()>;
    fn get_version(name: &str) -> Result<HashState>;
    fn set_version(name: &str, state: HashState) -> Result<()>;
    fn put_mutation_macs(name: &str, version: u64, mutations: &[AppStateMutationMAC]) -> Result<()>;
    fn get_mutation_mac(name: &str, index_mac: &[u8]) -> Result<Option<Vec<u8>>>;
    fn get_mutation_macs(name: &str, index_macs: &[[u8; 32]]) -> Result<HashMap<[u8; 32], Vec<u8>>>;
    fn delete_mutation_macs(name: &str, index_macs: &[Vec<u8>]) -> Result<()>;
    fn clear_mutation_macs(name: &str) -> Result<()>;
    fn get_latest_sync_key_id() -> Result<Option<Vec<u8>>>;
});

passed_on!(MsgSecretStore {
    fn put_msg_secret(chat: &str, sender: &str, msg_id: &str, secret: &MessageSecret) -> Result<()>;
    fn put_msg_secrets(entries: Vec<MsgSecretEntry>) -> Result<usize>;
    fn get_msg_secret(chat: &str, sender: &str, msg_id: &str) -> Result<Option<Vec<u8>>>;
    fn get_msg_secret_with_ts(chat: &str, sender: &str, msg_id: &str) -> Result<Option<(Vec<u8>, i64)>>;
    fn delete_expired_msg_secrets(cutoff_timestamp: i64) -> Result<u32>;
});

passed_on!(DeviceStore {
    fn save(device: &Device) -> Result<()>;
    fn load() -> Result<Option<Device>>;
    fn exists() -> Result<bool>;
    fn create() -> Result<i32>;
    fn snapshot_db(name: &str, extra_content: Option<&[u8]>) -> Result<()>;
    fn resource_report() -> StorageResourceReport;
});

passed_on!(ProtocolStore {
    fn get_sender_key_devices(group_jid: &str) -> Result<Vec<(String, bool)>>;
    fn set_sender_key_status(group_jid: &str, entries: &[(&str, bool)]) -> Result<()>;
    fn clear_sender_key_devices(group_jid: &str) -> Result<()>;
    fn delete_sender_key_device_rows(device_jids: &[&str]) -> Result<()>;
    fn clear_all_sender_key_devices() -> Result<()>;
    fn get_lid_mapping(lid: &str) -> Result<Option<LidPnMappingEntry>>;
    fn get_pn_mapping(phone: &str) -> Result<Option<LidPnMappingEntry>>;
    fn put_lid_mapping(entry: &LidPnMappingEntry) -> Result<()>;
    fn put_lid_mappings(entries: &[LidPnMappingEntry]) -> Result<()>;
    fn get_all_lid_mappings() -> Result<Vec<LidPnMappingEntry>>;
    fn save_base_key(address: &str, message_id: &str, base_key: &[u8]) -> Result<()>;
    fn has_same_base_key(address: &str, message_id: &str, current_base_key: &[u8]) -> Result<bool>;
    fn delete_base_key(address: &str, message_id: &str) -> Result<()>;
    fn update_device_list(record: DeviceListRecord) -> Result<()>;
    fn update_device_lists(records: Vec<DeviceListRecord>) -> Result<()>;
    fn get_devices(user: &str) -> Result<Option<DeviceListRecord>>;
    fn delete_devices(user: &str) -> Result<()>;
    fn get_group_metadata(group_jid: &str) -> Result<Option<Vec<u8>>>;
    fn put_group_metadata(group_jid: &str, blob: &[u8]) -> Result<()>;
    fn delete_group_metadata(group_jid: &str) -> Result<()>;
    fn get_tc_token(jid: &str) -> Result<Option<TcTokenEntry>>;
    fn put_tc_token(jid: &str, entry: &TcTokenEntry) -> Result<()>;
    fn delete_tc_token(jid: &str) -> Result<()>;
    fn get_all_tc_token_jids() -> Result<Vec<String>>;
    fn delete_expired_tc_tokens(token_cutoff: i64, sender_cutoff: i64) -> Result<u32>;
    fn touch_tc_token_sender_timestamp(jid: &str, sender_timestamp: i64) -> Result<()>;
    fn store_received_tc_token(jid: &str, token: &[u8], token_timestamp: i64) -> Result<()>;
    fn store_sent_message(chat_jid: &str, message_id: &str, payload: &[u8]) -> Result<()>;
    fn take_sent_message(chat_jid: &str, message_id: &str) -> Result<Option<Vec<u8>>>;
    fn delete_expired_sent_messages(cutoff_timestamp: i64) -> Result<u32>;
    fn store_pending_inbound(chat: &str, sender: &str, id: &str, message: &[u8]) -> Result<()>;
    fn delete_pending_inbound(chat: &str, sender: &str, id: &str) -> Result<()>;
    fn delete_expired_pending_inbound(cutoff_timestamp: i64) -> Result<u32>;
    fn store_pending_inbound_batch(rows: &[PendingInboundRow<'_>]) -> Result<()>;
}
    /// The library asks this of a message whose key was used up: if there is none, it confirms the message; if this fails, it
    /// does not.
    async fn get_pending_inbound(&self, chat: &str, sender: &str, id: &str) -> Result<Option<Vec<u8>>> {
        let found = self.sqlite.get_pending_inbound(chat, sender, id).await?;
        if found.is_none() {
            let missing = Missing { chat: chat.to_owned(), sender: sender.to_owned(), id: id.to_owned() };
            // Without a session, the program ends.
            drop(self.missing.send(missing));
            return Err(StoreError::Validation("the message was never stored".to_owned()));
        }
        Ok(found.filter(|message| message != RECEIVED))
    }

    /// The library is done with these messages: they were passed on.
    async fn delete_pending_inbound_batch(&self, keys: &[PendingInboundKey<'_>]) -> Result<()> {
        let row = |&PendingInboundKey { chat, sender, id }| PendingInboundRow { chat, sender, id, message: RECEIVED };
        self.sqlite.store_pending_inbound_batch(&keys.iter().map(row).collect::<Vec<_>>()).await
    }
);

/// Asks for messages again. WhatsApp keeps what is not confirmed, and sends it with each new connection.
pub(crate) fn ask_again(session: &Session, store: &Store, all: &Receiver<Missing>) {
    while let Ok(missing) = all.recv() {
        let Missing { chat, sender, id } = &missing;
        let node = NodeBuilder::new("message").attr("id", id.as_str()).attr("t", seconds().to_string());
        let is_of_several = ["@g.us", "@broadcast"].iter().any(|server| chat.ends_with(server));
        let node = if is_of_several {
            node.attr("from", chat.as_str()).attr("participant", sender.as_str())
        } else {
            // Only what the account itself wrote has a recipient.
            node.attr("from", sender.as_str()).attr("recipient", chat.as_str())
        };
        let node = node.build();
        let node = node.as_node_ref();
        let asking = session.client.request_message_retry(&node, RetryRequestOptions::new());
        match session.wait(WITHIN, asking) {
            Some(Ok(RetryRequestOutcome::Sent { .. })) => {
                log(&format!("message {id} came again, and was never stored; its sender's app is asked for it"));
            }
            Some(Ok(_)) => {
                log(&format!("message {id} was asked for several times, and never came: it is lost"));
                let received = session.wait(WITHIN, store.sqlite.store_pending_inbound(chat, sender, id, RECEIVED));
                if !matches!(received, Some(Ok(()))) {
                    log(&format!("it cannot be stored that message {id} is lost, so that it is asked for once more"));
                }
            }
            Some(Err(error)) => log(&format!("message {id} cannot be asked for: {error}; WhatsApp has it still")),
            None => log(&format!("message {id} was not asked for in time; WhatsApp has it still")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_was_passed_on_is_known_and_what_was_never_stored_is_not() {
        crate::session::runtime().unwrap().block_on(known());
    }

    async fn known() {
        let root = tempfile::tempdir().unwrap();
        let sqlite = SqliteStore::new(root.path().join("device.db").to_str().unwrap()).await.unwrap();
        let (missing, all) = channel();
        let store = Store { sqlite, missing };
        let (chat, sender) = ("15550000002@s.whatsapp.net", "15550000002:0@s.whatsapp.net");
        assert!(store.get_pending_inbound(chat, sender, "a").await.is_err(), "it must not be confirmed");
        let unknown = Missing { chat: chat.to_owned(), sender: sender.to_owned(), id: "a".to_owned() };
        assert_eq!(all.try_recv().ok(), Some(unknown));
        store.store_pending_inbound_batch(&[PendingInboundRow { chat, sender, id: "a", message: b"x" }]).await.unwrap();
        assert_eq!(store.get_pending_inbound(chat, sender, "a").await.unwrap().as_deref(), Some(&b"x"[..]));
        store.delete_pending_inbound_batch(&[PendingInboundKey { chat, sender, id: "a" }]).await.unwrap();
        assert_eq!(store.get_pending_inbound(chat, sender, "a").await.unwrap(), None, "it may be confirmed");
        assert!(all.try_recv().is_err());
    }
}
