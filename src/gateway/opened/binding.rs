//! Binds the secrets of one incarnation: its variables, and the hosts that it reaches with them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Opener;
use super::run::{OpenedHost, Values};
use crate::model::bound_secret::{AgentSecret, BoundSecret, SecretAccess, SecretHost, SecretUse, used};
use crate::model::host::{Endpoint, Host, HostRule};
use crate::model::id::SessionId;
use crate::model::network::PROXY;

/// The incarnation for which secrets are bound.
#[derive(Debug, Clone, Copy)]
pub struct Binding<'a> {
    pub session: SessionId,
    pub incarnation: u32,
    /// Its agent's variables.
    pub uses: &'a [AgentSecret],
    /// The secrets that they stand for.
    pub secrets: &'a [BoundSecret],
}

/// The bound secrets of one incarnation.
pub struct BoundRun {
    hosts: HashMap<SecretHost, Arc<OpenedHost>>,
    /// The hosts that are reached by base URL, by the names of their secrets.
    by_base_url: HashMap<String, SecretHost>,
}

impl Opener {
    /// What an incarnation gets and may use. Blocks while `cmd:` references run.
    ///
    /// # Errors
    /// Why a value cannot be read, with the secret's name; or that there is no such secret.
    pub fn bind(&self, binding: &Binding<'_>) -> Result<(BoundRun, SecretAccess), String> {
        let Binding { session, incarnation, uses, secrets } = *binding;
        let placeholder = |secret: &str| self.seed.of_secret(session, incarnation, secret);
        let (mut variables, mut by_base_url) = (Vec::new(), HashMap::new());
        for one in uses {
            let (variable, name) = (&one.variable, one.used().name());
            let secret = secrets.iter().find(|known| known.name == name);
            let secret =
                secret.ok_or_else(|| format!("there is no secret {name} for {variable}; add [secrets.{name}]"))?;
            let value = match one.used() {
                SecretUse::Placeholder(name) => placeholder(name),
                SecretUse::BaseUrl(name) => {
                    by_base_url.insert(name.to_owned(), only_host(secret, variable)?);
                    base_url(name)
                }
            };
            variables.push((variable.clone(), value));
        }
        let bound: Vec<(BoundSecret, String)> =
            used(uses, secrets).into_iter().map(|secret| (secret.clone(), placeholder(&secret.name))).collect();
        let values = Arc::new(Values::new(
            bound.iter().map(|(secret, _)| secret),
            Arc::clone(&self.resolve),
            Arc::clone(&self.known),
        ));
        values.read_all()?;
        let all: HashSet<&SecretHost> = bound.iter().flat_map(|(secret, _)| &secret.hosts).collect();
        let opened: Vec<&SecretHost> =
            all.iter().copied().filter(|host| !by_base_url.values().any(|known| known == *host)).collect();
        let bundle = if opened.is_empty() {
            None
        } else {
            let authority = &self.trust().map_err(|error| error.to_string())?.authority;
            let names = opened.iter().map(|host| host.name.to_string());
            authority.permit_also(names).map_err(|error| error.to_string())?;
            Some(authority.bundle())
        };
        let hosts = all.into_iter();
        let hosts = hosts.filter_map(|host| Some((host.clone(), Arc::new(OpenedHost::of(host, &bound, &values)?))));
        let access = SecretAccess { variables, bundle, values: values.known() };
        Ok((BoundRun { hosts: hosts.collect(), by_base_url }, access))
    }
}

/// The base URL of a secret's host, in the agent's network.
fn base_url(secret: &str) -> String {
    format!("{PROXY}/{secret}")
}

fn only_host(secret: &BoundSecret, variable: &str) -> Result<SecretHost, String> {
    match secret.hosts.as_slice() {
        [host] => Ok(host.clone()),
        _ => Err(format!(
            "{variable} is the base URL of the secret {}, which has several hosts; write a [secrets.NAME] for each host",
            secret.name
        )),
    }
}

impl BoundRun {
    /// Rules for the hosts.
    #[must_use]
    pub fn rules(&self) -> Vec<HostRule> {
        self.hosts.keys().map(|host| HostRule::exactly(endpoint(host))).collect()
    }

    /// The host, if a secret of the incarnation is bound to it.
    #[must_use]
    pub fn host(&self, host: &SecretHost) -> Option<&Arc<OpenedHost>> {
        self.hosts.get(host)
    }

    /// Whether a host of the incarnation is reached by base URL.
    #[must_use]
    pub fn has_base_urls(&self) -> bool {
        !self.by_base_url.is_empty()
    }

    /// The host that the incarnation reaches by the base URL of this secret.
    #[must_use]
    pub fn at_base_url(&self, secret: &str) -> Option<(Endpoint, &Arc<OpenedHost>)> {
        let host = self.by_base_url.get(secret)?;
        Some((endpoint(host), self.hosts.get(host)?))
    }

    /// The base URL by which the incarnation reaches a host, which is not opened then.
    #[must_use]
    pub fn base_url(&self, host: &SecretHost) -> Option<String> {
        // Two secrets of one host: the same one every time.
        let names = self.by_base_url.iter().filter(|(_, known)| *known == host).map(|(name, _)| name);
        names.min().map(|name| base_url(name))
    }
}

fn endpoint(host: &SecretHost) -> Endpoint {
    Endpoint { host: Host::Name(host.name.clone()), port: host.port }
}
