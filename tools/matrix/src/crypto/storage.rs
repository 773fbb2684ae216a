//! Secret storage: the bot's signing keys and the key of its backup, in the account data of its server, encrypted with the
//! recovery key, which the owner keeps.

use hearth_bridge::program::settings::part;
use matrix_sdk_crypto::secret_storage::{AesHmacSha2EncryptedData, SecretStorageKey};
use matrix_sdk_crypto::store::types::CrossSigningKeyExport;
use ruma::TransactionId;
use ruma::events::secret::request::SecretName;
use ruma::events::secret_storage::key::{
    SecretStorageEncryptionAlgorithm, SecretStorageKeyEventContent, SecretStorageV1AesHmacSha2Properties,
};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{Crypto, fault};
use crate::api::Trouble;
use crate::event::text;

const DEFAULT: &str = "m.secret_storage.default_key";
const ALGORITHM: &str = "m.secret_storage.v1.aes-hmac-sha2";
/// Names of the signing keys.
const SIGNING: [SecretName; 3] =
    [SecretName::CrossSigningMasterKey, SecretName::CrossSigningSelfSigningKey, SecretName::CrossSigningUserSigningKey];

/// The storage, opened with the recovery key.
pub(super) struct Storage<'c> {
    crypto: &'c Crypto,
    key: SecretStorageKey,
}

/// Why there is no storage.
pub(super) enum Closed {
    Trouble(Trouble),
    /// The server has one for another recovery key, or of a kind that is not known.
    Other(String),
}

impl From<Trouble> for Closed {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl Crypto {
    fn data(&self, name: &str) -> Result<Option<Value>, Trouble> {
        let path = format!("client/v3/user/{}/account_data/{}", part(self.machine.user_id().as_str()), part(name));
        match self.api.get(&path) {
            Err(trouble) if trouble.is_missing() => Ok(None),
            // What was removed is empty.
            other => other.map(|value| Some(value).filter(|value| value != &json!({}))),
        }
    }

    fn set_data(&self, name: &str, value: &Value) -> Result<(), Trouble> {
        let path = format!("client/v3/user/{}/account_data/{}", part(self.machine.user_id().as_str()), part(name));
        self.api.put(&path, value).map(drop)
    }

    /// Opens the storage, which is made if there is none. Nothing without a recovery key.
    pub(super) fn storage(&self) -> Result<Option<Storage<'_>>, Closed> {
        let Some(recovery) = &self.people.recovery else { return Ok(None) };
        let default = self.data(DEFAULT)?;
        let Some(id) = default.as_ref().and_then(|default| text(default, "/key")) else {
            let key = self.new_storage(recovery)?;
            return Ok(Some(Storage { crypto: self, key }));
        };
        let told = self.data(&format!("m.secret_storage.key.{id}"))?.unwrap_or(Value::Null);
        if text(&told, "/algorithm") != Some(ALGORITHM) {
            return Err(Closed::Other("it is of a kind that this bridge does not know".to_owned()));
        }
        let key = opened(recovery, id, &told).map_err(Closed::Other)?;
        Ok(Some(Storage { crypto: self, key }))
    }

    /// Makes a storage. It counts once it is the default one.
    fn new_storage(&self, recovery: &str) -> Result<SecretStorageKey, Closed> {
        let id = TransactionId::new().to_string();
        let key = opened(recovery, &id, &Value::Null).map_err(Closed::Other)?;
        // By this, clients recognise a wrong recovery key.
        let check = key.encrypt(vec![0; 32], &SecretName::from(""));
        let mut told = serde_json::to_value(&check).map_err(fault)?;
        if let Some(fields) = told.as_object_mut() {
            fields.remove("ciphertext");
            fields.insert("algorithm".to_owned(), json!(ALGORITHM));
        }
        self.set_data(&format!("m.secret_storage.key.{id}"), &told)?;
        self.set_data(DEFAULT, &json!({ "key": id }))?;
        Ok(key)
    }

    /// Takes the bot's signing keys out of the storage, if this device does not have them. Whether it has them then.
    pub(super) fn restore_identity(&self) -> Result<bool, Trouble> {
        let storage = match self.storage() {
            Ok(Some(storage)) => storage,
            Ok(None) => return Ok(false),
            Err(closed) => return self.closed(closed).map(|()| false),
        };
        let [master, own, people] = SIGNING.map(|name| storage.get(&name));
        let secret = |found: Option<Zeroizing<String>>| found.map(|secret| secret.to_string());
        let keys = CrossSigningKeyExport {
            master_key: secret(master?),
            self_signing_key: secret(own?),
            user_signing_key: secret(people?),
        };
        // They are compared with the public ones.
        self.look_up(self.machine.user_id().as_str())?;
        match self.run(self.machine.import_cross_signing_keys(keys)) {
            Ok(status) => Ok(status.is_complete()),
            Err(error) => {
                hearth_bridge::program::log(&format!("the signing keys in the secret storage do not fit: {error}"));
                Ok(false)
            }
        }
    }

    /// Puts the bot's signing keys into the storage, unless they are there.
    pub(super) fn store_identity(&self, storage: &Storage<'_>) -> Result<(), Trouble> {
        let Some(keys) = self.run(self.machine.export_cross_signing_keys()).map_err(fault)? else { return Ok(()) };
        let found = [&keys.master_key, &keys.self_signing_key, &keys.user_signing_key];
        SIGNING.iter().zip(found).try_for_each(|(name, secret)| match secret {
            Some(secret) => storage.keep(name, secret),
            None => Ok(()),
        })
    }

    /// Says why the storage is not used.
    pub(super) fn closed(&self, closed: Closed) -> Result<(), Trouble> {
        match closed {
            Closed::Trouble(trouble) if trouble.is_passing() => Err(trouble),
            Closed::Trouble(trouble) => {
                hearth_bridge::program::log(&format!("the secret storage cannot be used: {trouble}"));
                Ok(())
            }
            Closed::Other(why) => {
                hearth_bridge::program::log(&format!(
                    "the bot's account has a secret storage that the recovery key does not open, so nothing is stored there: {why}"
                ));
                Ok(())
            }
        }
    }
}

impl Storage<'_> {
    /// A secret. What another key has encrypted, or was changed, is none.
    pub(super) fn get(&self, name: &SecretName) -> Result<Option<Zeroizing<String>>, Trouble> {
        let Some(data) = self.crypto.data(name.as_str())? else { return Ok(None) };
        let found = data.get("encrypted").and_then(|encrypted| encrypted.get(self.key.key_id())).cloned();
        let found = found.and_then(|found| serde_json::from_value::<AesHmacSha2EncryptedData>(found).ok());
        let opened = found.and_then(|found| self.key.decrypt(&found, name).ok());
        Ok(opened.and_then(|bytes| String::from_utf8(bytes).ok()).map(Zeroizing::new))
    }

    /// Keeps a secret, unless it is there. What other keys have encrypted stays.
    pub(super) fn keep(&self, name: &SecretName, secret: &str) -> Result<(), Trouble> {
        if self.get(name)?.is_some_and(|found| found.as_str() == secret) {
            return Ok(());
        }
        let mut data = self.crypto.data(name.as_str())?.filter(Value::is_object).unwrap_or_else(|| json!({}));
        let sealed = serde_json::to_value(self.key.encrypt(secret.as_bytes().to_vec(), name)).map_err(fault)?;
        let mut encrypted = data.get("encrypted").filter(|all| all.is_object()).cloned().unwrap_or_else(|| json!({}));
        if let (Some(encrypted), Some(fields)) = (encrypted.as_object_mut(), data.as_object_mut()) {
            encrypted.insert(self.key.key_id().to_owned(), sealed);
            fields.insert("encrypted".to_owned(), json!(encrypted));
        }
        self.crypto.set_data(name.as_str(), &data)
    }
}

/// The recovery key as the key of a storage, or why it is not. A passphrase that the server names is ignored: it could cost
/// hours of work.
fn opened(recovery: &str, id: &str, told: &Value) -> Result<SecretStorageKey, String> {
    let field = |name: &str| told.get(name).cloned().map(serde_json::from_value).transpose().ok().flatten();
    let properties = SecretStorageV1AesHmacSha2Properties::new(field("iv"), field("mac"));
    let algorithm = SecretStorageEncryptionAlgorithm::V1AesHmacSha2(properties);
    SecretStorageKey::from_account_data(recovery, SecretStorageKeyEventContent::new(id.to_owned(), algorithm))
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recovery_key_opens_its_own_storage_only() {
        let [own, other] = [(); 2].map(|()| matrix_sdk_crypto::store::types::BackupDecryptionKey::new().to_base58());
        let key = opened(&own, "id", &Value::Null).unwrap();
        let mut told = serde_json::to_value(key.encrypt(vec![0; 32], &SecretName::from(""))).unwrap();
        told["passphrase"] = json!({ "algorithm": "m.pbkdf2", "salt": "x", "iterations": 4_000_000_000_u64 });
        assert!(opened(&own, "id", &told).is_ok() && opened(&other, "id", &told).is_err());
        assert!(opened("not a key", "id", &Value::Null).is_err());
    }
}
