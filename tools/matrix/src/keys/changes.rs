//! What changed in the crypto machine, as entries of the database.

use matrix_sdk_crypto::olm::{
    PickledCrossSigningIdentity, PickledInboundGroupSession, PickledOutboundGroupSession, PickledSession,
};
use matrix_sdk_crypto::store::types::Changes;

use super::store::{BACKUP_KEY, BACKUP_VERSION, DEHYDRATED_KEY, Inbound, NEXT_BATCH, inbound_key, info_key};
use super::table::{Batch, Kind, Result, key};

/// Changes whose keys are in the form in which they are stored.
pub(super) struct Pickled {
    changes: Changes,
    identity: Option<PickledCrossSigningIdentity>,
    sessions: Vec<(Vec<u8>, PickledSession)>,
    inbound: Vec<(Vec<u8>, PickledInboundGroupSession)>,
    outbound: Vec<(Vec<u8>, PickledOutboundGroupSession)>,
}

impl Pickled {
    pub(super) async fn of(changes: Changes) -> Self {
        let (mut sessions, mut inbound, mut outbound) = (Vec::new(), Vec::new(), Vec::new());
        for session in &changes.sessions {
            let pickle = session.pickle().await;
            sessions.push((key(Kind::Session, &[&pickle.sender_key.to_base64(), session.session_id()]), pickle));
        }
        for session in &changes.inbound_group_sessions {
            let place = inbound_key(session.room_id(), session.session_id());
            inbound.push((place, session.pickle().await));
        }
        for session in &changes.outbound_group_sessions {
            outbound.push((key(Kind::Outbound, &[session.room_id().as_str()]), session.pickle().await));
        }
        let identity = match &changes.private_identity {
            Some(identity) => Some(identity.pickle().await),
            None => None,
        };
        Self { changes, identity, sessions, inbound, outbound }
    }

    pub(super) fn write(mut self, batch: &mut Batch<'_>) -> Result<()> {
        if let Some(identity) = &self.identity {
            batch.put(&key(Kind::Identity, &[]), identity)?;
        }
        self.sessions.iter().try_for_each(|(place, session)| batch.put(place, session))?;
        for (place, pickle) in std::mem::take(&mut self.inbound) {
            let before: Option<Inbound> = batch.get(&place)?;
            let backup = before.and_then(|before| before.backup).filter(|_| pickle.backed_up);
            batch.put(&place, &Inbound { pickle, backup })?;
        }
        self.outbound.iter().try_for_each(|(place, session)| batch.put(place, session))?;
        self.people(batch)?;
        self.own_keys(batch)?;
        self.secrets(batch)?;
        self.rooms(batch)
    }

    /// Devices and identities.
    fn people(&self, batch: &mut Batch<'_>) -> Result<()> {
        let devices = &self.changes.devices;
        for device in devices.new.iter().chain(&devices.changed) {
            batch.put(&key(Kind::Device, &[device.user_id().as_str(), device.device_id().as_str()]), device)?;
        }
        for device in &devices.deleted {
            batch.delete(&key(Kind::Device, &[device.user_id().as_str(), device.device_id().as_str()]))?;
        }
        let identities = &self.changes.identities;
        for identity in identities.new.iter().chain(&identities.changed) {
            batch.put(&key(Kind::PublicIdentity, &[identity.user_id().as_str()]), identity)?;
        }
        Ok(())
    }

    fn own_keys(&self, batch: &mut Batch<'_>) -> Result<()> {
        let Changes { backup_decryption_key, backup_version, dehydrated_device_pickle_key, next_batch_token, .. } =
            &self.changes;
        if let Some(value) = backup_decryption_key {
            batch.put(&key(Kind::OwnKey, &[BACKUP_KEY]), value)?;
        }
        if let Some(value) = backup_version {
            batch.put(&key(Kind::OwnKey, &[BACKUP_VERSION]), value)?;
        }
        if let Some(value) = dehydrated_device_pickle_key {
            batch.put(&key(Kind::OwnKey, &[DEHYDRATED_KEY]), value)?;
        }
        if let Some(value) = next_batch_token {
            batch.put(&key(Kind::OwnKey, &[NEXT_BATCH]), value)?;
        }
        Ok(())
    }

    /// What was received, asked for and handed over between devices.
    fn secrets(&self, batch: &mut Batch<'_>) -> Result<()> {
        for hash in &self.changes.message_hashes {
            batch.put(&key(Kind::Hash, &[&hash.sender_key, &hash.hash]), &())?;
        }
        for request in &self.changes.key_requests {
            batch.put(&key(Kind::Request, &[request.request_id.as_str()]), request)?;
            batch.put(&info_key(&request.info), request.request_id.as_str())?;
        }
        for item in &self.changes.secrets {
            let place = key(Kind::Secret, &[item.secret_name.as_str()]);
            let mut secrets: Vec<String> = batch.get(&place)?.unwrap_or_default();
            secrets.push(item.secret.to_string());
            batch.put(&place, &secrets)?;
        }
        Ok(())
    }

    fn rooms(&self, batch: &mut Batch<'_>) -> Result<()> {
        for (room, sessions) in &self.changes.withheld_session_info {
            for (session, entry) in sessions {
                batch.put(&key(Kind::Withheld, &[room.as_str(), session]), entry)?;
            }
        }
        for (room, settings) in &self.changes.room_settings {
            batch.put(&key(Kind::Room, &[room.as_str()]), settings)?;
        }
        for bundle in &self.changes.received_room_key_bundles {
            let place = key(Kind::Bundle, &[bundle.bundle_data.room_id.as_str(), bundle.sender_user.as_str()]);
            batch.put(&place, bundle)?;
        }
        for room in &self.changes.room_key_backups_fully_downloaded {
            batch.put(&key(Kind::Downloaded, &[room.as_str()]), &())?;
        }
        for (room, details) in &self.changes.rooms_pending_key_bundle {
            let place = key(Kind::Pending, &[room.as_str()]);
            match details {
                Some(details) => batch.put(&place, details)?,
                None => batch.delete(&place)?,
            }
        }
        Ok(())
    }
}
