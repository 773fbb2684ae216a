//! What the gate knows of the bound secrets of one incarnation.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::judge::{HostSecret, Injection};
use super::leak::KnownSecrets;
use super::refusal::Refusal;
use crate::gateway::Resolve;
use crate::model::bound_secret::{BoundSecret, SecretHost};
use crate::model::gateway::KeyValues;
use crate::model::host::HostName;
use crate::model::secrets::SHORTEST;

/// Whether a value may come from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    Known,
    /// No: the host refused the one in memory.
    Fresh,
}

/// Values of the bound secrets of an incarnation, by name. They are in memory only.
pub(super) struct Values {
    references: BTreeMap<String, String>,
    values: Arc<KeyValues>,
    resolve: Resolve,
    known: Arc<KnownSecrets>,
}

impl Values {
    pub(super) fn new<'s>(
        secrets: impl Iterator<Item = &'s BoundSecret>,
        resolve: Resolve,
        known: Arc<KnownSecrets>,
    ) -> Self {
        let references = secrets.map(|secret| (secret.name.clone(), secret.value.clone())).collect();
        Self { references, values: Arc::default(), resolve, known }
    }

    /// Reads all values that are not known yet. Blocks while `cmd:` references run.
    ///
    /// # Errors
    /// Why a value cannot be read, with the secret's name.
    pub(super) fn read_all(&self) -> Result<(), String> {
        for name in self.references.keys().filter(|name| self.values.get(name).is_none()) {
            self.read(name).map_err(|why| format!("the secret {name}: {why}"))?;
        }
        Ok(())
    }

    pub(super) fn known(&self) -> Arc<KeyValues> {
        Arc::clone(&self.values)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        let reference = self.references.get(name).ok_or("it does not exist")?;
        let value = (self.resolve)(reference)?.trim_ascii().to_vec();
        if value.len() < SHORTEST {
            return Err(format!(
                "its value is shorter than {SHORTEST} characters, so it could not be recognized in an answer"
            ));
        }
        self.known.add(name, &value);
        self.values.put(name, &value);
        Ok(value)
    }

    async fn value(self: Arc<Self>, name: &str, freshness: Freshness) -> Result<Vec<u8>, Refusal> {
        if let Some(value) = self.values.get(name).filter(|_| freshness == Freshness::Known) {
            return Ok(value);
        }
        let owned = name.to_owned();
        let read = tokio::task::spawn_blocking(move || self.read(&owned)).await;
        let read = read.unwrap_or_else(|_| Err("it was interrupted".to_owned()));
        read.map_err(|why| Refusal::NoValue { name: name.to_owned(), why })
    }
}

/// A host with bound secrets, for one incarnation.
pub struct OpenedHost {
    pub(super) name: HostName,
    port: u16,
    pub(super) secrets: Vec<HostSecret>,
    pub(super) known: Arc<KnownSecrets>,
    values: Arc<Values>,
}

impl OpenedHost {
    /// The host with its part of the secrets, each with its placeholder. None if no secret is bound to it.
    pub(super) fn of(host: &SecretHost, bound: &[(BoundSecret, String)], values: &Arc<Values>) -> Option<Self> {
        let mine = bound.iter().filter(|(secret, _)| secret.hosts.contains(host));
        let secrets: Vec<HostSecret> = mine
            .map(|(secret, placeholder)| HostSecret {
                name: secret.name.clone(),
                header: secret.header.clone(),
                requests: secret.requests.clone(),
                placeholder: placeholder.clone(),
            })
            .collect();
        let (known, values) = (Arc::clone(&values.known), Arc::clone(values));
        let own = Self { name: host.name.clone(), port: host.port, secrets, known, values };
        (!own.secrets.is_empty()).then_some(own)
    }

    /// What the header `Host` says.
    pub(super) fn authority(&self) -> String {
        SecretHost { name: self.name.clone(), port: self.port }.to_string()
    }

    pub(super) async fn value(&self, secret: &str, freshness: Freshness) -> Result<Vec<u8>, Refusal> {
        Arc::clone(&self.values).value(secret, freshness).await
    }

    /// Records that the host repeated a value in its answer, where it was overwritten.
    pub(super) fn echoed(&self, injections: &[Injection]) {
        let secrets: Vec<&str> = injections.iter().map(|injection| injection.secret.as_str()).collect();
        tracing::warn!(
            host = %self.name,
            ?secrets,
            "a host repeated the value of a secret in its answer; it was overwritten"
        );
    }
}
