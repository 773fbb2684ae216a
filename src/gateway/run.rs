//! What the gateway knows of one incarnation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::HeaderValue;
use reqwest::Url;

use super::judge::BoundKey;
use super::limits::{Limits, Most};
use super::opened::KnownSecrets;
use super::refusal::Refusal;
use super::turns::Turns;
use super::{Error, OpenedRun, Resolve};
use crate::clock;
use crate::model::agent::EnvValue;
use crate::model::gateway::{Api, KeyHeader, KeyValues, bound};
use crate::model::id::SessionId;
use crate::model::secrets::Secrets;

/// How containers call this machine.
const THIS_MACHINE: &str = "host.containers.internal";

/// An incarnation whose requests the gateway passes on.
pub(super) struct AgentRun {
    pub(super) session: SessionId,
    pub(super) incarnation: u32,
    pub(super) agent: String,
    pub(super) keys: Vec<BoundKey>,
    /// Where the values of keys and addresses come from.
    sources: Vec<(String, EnvValue)>,
    /// Values that are known already.
    values: Arc<KeyValues>,
    pub(super) models: Vec<String>,
    pub(super) limits: Arc<Limits>,
    pub(super) most: Most,
    pub(super) turns: Turns,
    number: AtomicU64,
    resolve: Resolve,
    known: Arc<KnownSecrets>,
}

/// What an incarnation shares with others.
pub(super) struct Shared {
    pub(super) limits: Arc<Limits>,
    pub(super) resolve: Resolve,
    /// Gets the values of keys.
    pub(super) known: Arc<KnownSecrets>,
}

impl AgentRun {
    /// An incarnation with these settings.
    ///
    /// # Errors
    /// [`Error::Address`] if the address of a server is no address.
    pub(super) fn new(opening: &OpenedRun<'_>, keys: Vec<BoundKey>, shared: Shared) -> Result<Self, Error> {
        let Shared { limits, resolve, known } = shared;
        let OpenedRun { session, incarnation, agent, settings, .. } = *opening;
        let mut sources: Vec<(String, EnvValue)> =
            bound(settings).into_iter().map(|(key, value)| (key.name.to_owned(), value.clone())).collect();
        for api in Api::ALL {
            let variable = api.base_variable();
            let Some((_, value)) = settings.env.iter().find(|(name, _)| name == variable) else { continue };
            if let EnvValue::Plain(text) = value {
                server(text).map_err(|why| Error::Address { variable, why })?;
            }
            sources.push((variable.to_owned(), value.clone()));
        }
        // Grows over restarts of the daemon, because it begins with the time.
        let first = u64::try_from(clock::wall().millis()).unwrap_or_default().saturating_mul(1_000);
        Ok(Self {
            session,
            incarnation,
            agent: agent.to_owned(),
            keys,
            sources,
            values: Arc::default(),
            models: settings.models.clone(),
            limits,
            most: Most::of(&settings.caps),
            turns: Turns::default(),
            number: AtomicU64::new(first),
            resolve,
            known,
        })
    }

    /// Values that the runtime resolves at the start, so that they are not resolved twice.
    pub(super) fn values(&self) -> Arc<KeyValues> {
        Arc::clone(&self.values)
    }

    /// Values that must not be in requests.
    pub(super) fn known(&self) -> Arc<Secrets> {
        self.known.now()
    }

    /// The number of the next call.
    pub(super) fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }

    /// The server of an API.
    pub(super) async fn server(&self, api: Api) -> Result<Url, Refusal> {
        let variable = api.base_variable();
        let text = match self.sources.iter().any(|(name, _)| name == variable) {
            true => String::from_utf8_lossy(&self.value(variable, Freshness::Known).await?).into_owned(),
            false => api.default_server().to_owned(),
        };
        server(&text).map_err(|why| Refusal::NoKey(format!("{variable} is not usable: {why}")))
    }

    /// The value of a key, with the header's other text.
    pub(super) async fn key(
        &self,
        header: KeyHeader,
        variable: &'static str,
        freshness: Freshness,
    ) -> Result<(Vec<u8>, HeaderValue), Refusal> {
        let value = self.value(variable, freshness).await?.trim_ascii().to_vec();
        self.known.add(variable, &value);
        let text = [header.prefix().as_bytes(), &value].concat();
        let wrong = |_| Refusal::NoKey(format!("the value of {variable} has characters that no key has"));
        let mut text = HeaderValue::from_bytes(&text).map_err(wrong)?;
        text.set_sensitive(true);
        Ok((value, text))
    }

    async fn value(&self, variable: &'static str, freshness: Freshness) -> Result<Vec<u8>, Refusal> {
        if let Some(known) = self.values.get(variable).filter(|_| freshness == Freshness::Known) {
            return Ok(known);
        }
        let source = self.sources.iter().find(|(name, _)| name == variable).map(|(_, value)| value.clone());
        let value = match source.ok_or(Refusal::NoServer)? {
            EnvValue::Plain(text) => text.into_bytes(),
            EnvValue::Reference(reference) => {
                let resolve = Arc::clone(&self.resolve);
                let resolved = tokio::task::spawn_blocking(move || resolve(&reference)).await;
                let resolved = resolved.unwrap_or_else(|_| Err("it was interrupted".to_owned()));
                resolved.map_err(|why| Refusal::NoKey(format!("{variable}: {why}")))?
            }
        };
        self.values.put(variable, &value);
        Ok(value)
    }
}

/// Whether a value may come from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    Known,
    /// No: the server refused the one in memory.
    Fresh,
}

/// Reads the address of a server. The name by which containers call this machine means the same here.
fn server(text: &str) -> Result<Url, String> {
    let mut url = Url::parse(text.trim()).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "https" | "http") {
        return Err("it begins with neither https:// nor http://".to_owned());
    }
    let plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    if !plain || url.fragment().is_some() {
        return Err("it has more parts than host, port and path".to_owned());
    }
    if url.host_str() == Some(THIS_MACHINE) {
        url.set_host(Some("127.0.0.1")).map_err(|error| error.to_string())?;
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_servers() {
        for (text, expected) in [
            ("https://api.anthropic.com", Some("https://api.anthropic.com/")),
            (" http://localhost:4000/x/ ", Some("http://localhost:4000/x/")),
            ("http://host.containers.internal:11434", Some("http://127.0.0.1:11434/")),
            ("localhost:4000", None),
            ("ftp://a", None),
            ("https://user:pass@a", None),
            ("https://a/?key=b", None),
            ("https://a/#b", None),
            ("", None),
        ] {
            assert_eq!(server(text).ok().as_ref().map(Url::as_str), expected, "{text}");
        }
    }
}
