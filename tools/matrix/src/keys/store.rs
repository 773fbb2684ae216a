//! The keys of the crypto machine: its store, on top of the database. Everything that one answer of the server changes is
//! one transaction.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use matrix_sdk_common::cross_process_lock::CrossProcessLockGeneration;
use matrix_sdk_common::cross_process_lock::memory_store_helper::{Lease, try_take_leased_lock};
use matrix_sdk_crypto::olm::{
    InboundGroupSession, OlmMessageHash, OutboundGroupSession, PickledAccount, PickledCrossSigningIdentity,
    PickledInboundGroupSession, PickledOutboundGroupSession, PickledSession, PrivateCrossSigningIdentity,
    SenderDataType, StaticAccountData,
};
use matrix_sdk_crypto::store::CryptoStore;
use matrix_sdk_crypto::store::types::{
    BackupDecryptionKey, BackupKeys, Changes, DehydratedDeviceKey, PendingChanges, RoomKeyCounts, RoomKeyWithheldEntry,
    RoomPendingKeyBundleDetails, RoomSettings, StoredRoomKeyBundleData, TrackedUser,
};
use matrix_sdk_crypto::vodozemac::Curve25519PublicKey;
use matrix_sdk_crypto::{Account, CryptoStoreError, DeviceData, GossipRequest, SecretInfo, Session, UserIdentityData};
use ruma::events::secret::request::SecretName;
use ruma::{DeviceId, OwnedDeviceId, RoomId, TransactionId, UserId};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::changes::Pickled;
use super::table::{Batch, Kind, Result, Table, key};

/// Entries of which there is one.
pub(super) const NEXT_BATCH: &str = "next batch";
pub(super) const BACKUP_KEY: &str = "backup key";
pub(super) const BACKUP_VERSION: &str = "backup version";
pub(super) const DEHYDRATED_KEY: &str = "dehydrated key";

/// A key of messages of others, and the backup where it is.
#[derive(Serialize, Deserialize)]
pub(super) struct Inbound {
    pub(super) pickle: PickledInboundGroupSession,
    pub(super) backup: Option<String>,
}

pub(crate) struct KeyStore {
    pub(super) table: Table,
    /// The account that was loaded or saved last.
    own: Mutex<Option<StaticAccountData>>,
    leases: Mutex<HashMap<String, Lease>>,
}

impl std::fmt::Debug for KeyStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("KeyStore").finish_non_exhaustive()
    }
}

pub(super) fn inbound_key(room: &RoomId, session: &str) -> Vec<u8> {
    key(Kind::Inbound, &[room.as_str(), session])
}

pub(super) fn info_key(info: &SecretInfo) -> Vec<u8> {
    match info {
        SecretInfo::KeyRequest(info) => {
            key(Kind::RequestByInfo, &[&format!("{}{}{}", info.room_id(), info.algorithm(), info.session_id())])
        }
        SecretInfo::SecretRequest(name) => key(Kind::RequestByInfo, &[name.as_ref()]),
    }
}

fn opened(found: Inbound) -> Result<InboundGroupSession> {
    Ok(InboundGroupSession::from_pickle(found.pickle)?)
}

impl KeyStore {
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        Table::open(directory).map(Self::on)
    }

    pub(super) fn on(table: Table) -> Self {
        Self { table, own: Mutex::default(), leases: Mutex::default() }
    }

    /// As the cases of the crypto machine name it.
    #[cfg(test)]
    pub(super) fn get_static_account(&self) -> Option<StaticAccountData> {
        self.own().clone()
    }

    /// The database, for what is stored beside the keys.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    fn own(&self) -> MutexGuard<'_, Option<StaticAccountData>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn account(&self) -> Result<StaticAccountData> {
        self.own().clone().ok_or(CryptoStoreError::AccountUnset)
    }

    fn save_account(&self, account: Option<&Account>, batch: &mut Batch<'_>) -> Result<()> {
        let Some(account) = account else { return Ok(()) };
        batch.put(&key(Kind::Account, &[]), &account.pickle())
    }

    fn inbound(&self, prefix: &[u8]) -> Result<Vec<Inbound>> {
        self.table.all(prefix)
    }
}

#[async_trait]
impl CryptoStore for KeyStore {
    type Error = CryptoStoreError;

    async fn load_account(&self) -> Result<Option<Account>> {
        let Some(pickle) = self.table.get::<PickledAccount>(&key(Kind::Account, &[]))? else { return Ok(None) };
        let account = Account::from_pickle(pickle)?;
        *self.own() = Some(account.static_data().clone());
        Ok(Some(account))
    }

    async fn load_identity(&self) -> Result<Option<PrivateCrossSigningIdentity>> {
        let pickle = self.table.get::<PickledCrossSigningIdentity>(&key(Kind::Identity, &[]))?;
        let identity = pickle.map(PrivateCrossSigningIdentity::from_pickle).transpose();
        identity.map_err(|_| CryptoStoreError::UnpicklingError)
    }

    async fn save_changes(&self, changes: Changes) -> Result<()> {
        let pickled = Pickled::of(changes).await;
        self.table.write(|batch| pickled.write(batch))
    }

    async fn save_pending_changes(&self, changes: PendingChanges) -> Result<()> {
        self.table.write(|batch| self.save_account(changes.account.as_ref(), batch))?;
        if let Some(account) = changes.account {
            *self.own() = Some(account.static_data().clone());
        }
        Ok(())
    }

    async fn save_inbound_group_sessions(
        &self,
        sessions: Vec<InboundGroupSession>,
        backed_up_to_version: Option<&str>,
    ) -> Result<()> {
        let mut pickled = Vec::new();
        for session in sessions {
            let place = inbound_key(session.room_id(), session.session_id());
            let backup = backed_up_to_version.map(str::to_owned);
            pickled.push((place, Inbound { pickle: session.pickle().await, backup }));
        }
        self.table.write(|batch| pickled.iter().try_for_each(|(place, inbound)| batch.put(place, inbound)))
    }

    async fn get_sessions(&self, sender_key: &str) -> Result<Option<Vec<Session>>> {
        let pickles: Vec<PickledSession> = self.table.all(&key(Kind::Session, &[sender_key]))?;
        if pickles.is_empty() {
            return Ok(None);
        }
        let own = self.get_own_device().await?.as_device_keys().clone();
        let open = |pickle| Session::from_pickle(own.clone(), pickle).map_err(CryptoStoreError::backend);
        pickles.into_iter().map(open).collect::<Result<_>>().map(Some)
    }

    async fn get_inbound_group_session(
        &self,
        room_id: &RoomId,
        session_id: &str,
    ) -> Result<Option<InboundGroupSession>> {
        self.table.get::<Inbound>(&inbound_key(room_id, session_id))?.map(opened).transpose()
    }

    async fn get_withheld_info(&self, room_id: &RoomId, session_id: &str) -> Result<Option<RoomKeyWithheldEntry>> {
        self.table.get(&key(Kind::Withheld, &[room_id.as_str(), session_id]))
    }

    async fn get_withheld_sessions_by_room_id(&self, room_id: &RoomId) -> Result<Vec<RoomKeyWithheldEntry>> {
        self.table.all(&key(Kind::Withheld, &[room_id.as_str()]))
    }

    async fn get_inbound_group_sessions(&self) -> Result<Vec<InboundGroupSession>> {
        self.inbound(&key(Kind::Inbound, &[]))?.into_iter().map(opened).collect()
    }

    async fn inbound_group_session_counts(&self, backup_version: Option<&str>) -> Result<RoomKeyCounts> {
        let all = self.inbound(&key(Kind::Inbound, &[]))?;
        let is_there = |inbound: &&Inbound| backup_version.is_some() && inbound.backup.as_deref() == backup_version;
        Ok(RoomKeyCounts { total: all.len(), backed_up: all.iter().filter(is_there).count() })
    }

    async fn get_inbound_group_sessions_by_room_id(&self, room_id: &RoomId) -> Result<Vec<InboundGroupSession>> {
        self.inbound(&key(Kind::Inbound, &[room_id.as_str()]))?.into_iter().map(opened).collect()
    }

    async fn get_inbound_group_sessions_for_device_batch(
        &self,
        curve_key: Curve25519PublicKey,
        sender_data_type: SenderDataType,
        after_session_id: Option<String>,
        limit: usize,
    ) -> Result<Vec<InboundGroupSession>> {
        let mut found = self.inbound(&key(Kind::Inbound, &[]))?;
        found.retain(|inbound| {
            inbound.pickle.sender_key == curve_key && inbound.pickle.sender_data.to_type() == sender_data_type
        });
        let mut sessions = found.into_iter().map(opened).collect::<Result<Vec<_>>>()?;
        sessions.retain(|session| after_session_id.as_deref().is_none_or(|after| session.session_id() > after));
        sessions.sort_by(|one, other| one.session_id().cmp(other.session_id()));
        sessions.truncate(limit);
        Ok(sessions)
    }

    async fn inbound_group_sessions_for_backup(
        &self,
        backup_version: &str,
        limit: usize,
    ) -> Result<Vec<InboundGroupSession>> {
        let all = self.inbound(&key(Kind::Inbound, &[]))?;
        let missing = all.into_iter().filter(|inbound| inbound.backup.as_deref() != Some(backup_version));
        missing.take(limit).map(opened).collect()
    }

    async fn mark_inbound_group_sessions_as_backed_up(
        &self,
        backup_version: &str,
        room_and_session_ids: &[(&RoomId, &str)],
    ) -> Result<()> {
        self.table.write(|batch| {
            for (room, session) in room_and_session_ids {
                let place = inbound_key(room, session);
                if let Some(mut inbound) = batch.get::<Inbound>(&place)? {
                    inbound.pickle.backed_up = true;
                    inbound.backup = Some(backup_version.to_owned());
                    batch.put(&place, &inbound)?;
                }
            }
            Ok(())
        })
    }

    async fn reset_backup_state(&self) -> Result<()> {
        // Each key names the backup where it is.
        Ok(())
    }

    async fn load_backup_keys(&self) -> Result<BackupKeys> {
        let decryption_key = self.table.get::<BackupDecryptionKey>(&key(Kind::OwnKey, &[BACKUP_KEY]))?;
        let backup_version = self.table.get(&key(Kind::OwnKey, &[BACKUP_VERSION]))?;
        Ok(BackupKeys { decryption_key, backup_version })
    }

    async fn load_dehydrated_device_pickle_key(&self) -> Result<Option<DehydratedDeviceKey>> {
        self.table.get(&key(Kind::OwnKey, &[DEHYDRATED_KEY]))
    }

    async fn delete_dehydrated_device_pickle_key(&self) -> Result<()> {
        self.table.write(|batch| batch.delete(&key(Kind::OwnKey, &[DEHYDRATED_KEY])))
    }

    async fn get_outbound_group_session(&self, room_id: &RoomId) -> Result<Option<OutboundGroupSession>> {
        let pickle = self.table.get::<PickledOutboundGroupSession>(&key(Kind::Outbound, &[room_id.as_str()]))?;
        let Some(pickle) = pickle else { return Ok(None) };
        let own = self.account()?;
        Ok(Some(OutboundGroupSession::from_pickle(own.device_id, own.identity_keys, pickle)?))
    }

    async fn load_tracked_users(&self) -> Result<Vec<TrackedUser>> {
        self.table.all(&key(Kind::User, &[]))
    }

    async fn save_tracked_users(&self, users: &[(&UserId, bool)]) -> Result<()> {
        self.table.write(|batch| {
            users.iter().try_for_each(|(user, dirty)| {
                let tracked = TrackedUser { user_id: (*user).to_owned(), dirty: *dirty };
                batch.put(&key(Kind::User, &[user.as_str()]), &tracked)
            })
        })
    }

    async fn get_device(&self, user_id: &UserId, device_id: &DeviceId) -> Result<Option<DeviceData>> {
        self.table.get(&key(Kind::Device, &[user_id.as_str(), device_id.as_str()]))
    }

    async fn get_user_devices(&self, user_id: &UserId) -> Result<HashMap<OwnedDeviceId, DeviceData>> {
        let all: Vec<DeviceData> = self.table.all(&key(Kind::Device, &[user_id.as_str()]))?;
        Ok(all.into_iter().map(|device| (device.device_id().to_owned(), device)).collect())
    }

    async fn get_own_device(&self) -> Result<DeviceData> {
        let own = self.account()?;
        self.get_device(&own.user_id, &own.device_id).await?.ok_or(CryptoStoreError::AccountUnset)
    }

    async fn get_user_identity(&self, user_id: &UserId) -> Result<Option<UserIdentityData>> {
        self.table.get(&key(Kind::PublicIdentity, &[user_id.as_str()]))
    }

    async fn is_message_known(&self, message_hash: &OlmMessageHash) -> Result<bool> {
        self.table.has(&key(Kind::Hash, &[&message_hash.sender_key, &message_hash.hash]))
    }

    async fn get_outgoing_secret_requests(&self, request_id: &TransactionId) -> Result<Option<GossipRequest>> {
        self.table.get(&key(Kind::Request, &[request_id.as_str()]))
    }

    async fn get_secret_request_by_info(&self, secret_info: &SecretInfo) -> Result<Option<GossipRequest>> {
        match self.table.get::<String>(&info_key(secret_info))? {
            Some(id) => self.table.get(&key(Kind::Request, &[&id])),
            None => Ok(None),
        }
    }

    async fn get_unsent_secret_requests(&self) -> Result<Vec<GossipRequest>> {
        let mut all: Vec<GossipRequest> = self.table.all(&key(Kind::Request, &[]))?;
        all.retain(|request| !request.sent_out);
        Ok(all)
    }

    async fn delete_outgoing_secret_requests(&self, request_id: &TransactionId) -> Result<()> {
        let place = key(Kind::Request, &[request_id.as_str()]);
        self.table.write(|batch| {
            if let Some(request) = batch.get::<GossipRequest>(&place)? {
                batch.delete(&info_key(&request.info))?;
            }
            batch.delete(&place)
        })
    }

    async fn get_secrets_from_inbox(&self, secret_name: &SecretName) -> Result<Vec<Zeroizing<String>>> {
        let secrets: Option<Vec<String>> = self.table.get(&key(Kind::Secret, &[secret_name.as_str()]))?;
        Ok(secrets.unwrap_or_default().into_iter().map(Zeroizing::new).collect())
    }

    async fn delete_secrets_from_inbox(&self, secret_name: &SecretName) -> Result<()> {
        self.table.write(|batch| batch.delete(&key(Kind::Secret, &[secret_name.as_str()])))
    }

    async fn get_room_settings(&self, room_id: &RoomId) -> Result<Option<RoomSettings>> {
        self.table.get(&key(Kind::Room, &[room_id.as_str()]))
    }

    async fn get_received_room_key_bundle_data(
        &self,
        room_id: &RoomId,
        user_id: &UserId,
    ) -> Result<Option<StoredRoomKeyBundleData>> {
        self.table.get(&key(Kind::Bundle, &[room_id.as_str(), user_id.as_str()]))
    }

    async fn get_pending_key_bundle_details_for_room(
        &self,
        room_id: &RoomId,
    ) -> Result<Option<RoomPendingKeyBundleDetails>> {
        self.table.get(&key(Kind::Pending, &[room_id.as_str()]))
    }

    async fn get_all_rooms_pending_key_bundles(&self) -> Result<Vec<RoomPendingKeyBundleDetails>> {
        self.table.all(&key(Kind::Pending, &[]))
    }

    async fn has_downloaded_all_room_keys(&self, room_id: &RoomId) -> Result<bool> {
        self.table.has(&key(Kind::Downloaded, &[room_id.as_str()]))
    }

    async fn get_custom_value(&self, key_name: &str) -> Result<Option<Vec<u8>>> {
        self.table.get(&key(Kind::Custom, &[key_name]))
    }

    async fn set_custom_value(&self, key_name: &str, value: Vec<u8>) -> Result<()> {
        self.table.write(|batch| batch.put(&key(Kind::Custom, &[key_name]), &value))
    }

    async fn remove_custom_value(&self, key_name: &str) -> Result<()> {
        self.table.write(|batch| batch.delete(&key(Kind::Custom, &[key_name])))
    }

    async fn try_take_leased_lock(
        &self,
        lease_duration_ms: u32,
        key: &str,
        holder: &str,
    ) -> Result<Option<CrossProcessLockGeneration>> {
        // Only this process opens the database.
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(try_take_leased_lock(&mut leases, lease_duration_ms, key, holder))
    }

    async fn next_batch_token(&self) -> Result<Option<String>> {
        self.table.get(&key(Kind::OwnKey, &[NEXT_BATCH]))
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }

    async fn reopen(&self) -> Result<()> {
        Ok(())
    }

    async fn get_size(&self) -> Result<Option<usize>> {
        Ok(None)
    }
}
