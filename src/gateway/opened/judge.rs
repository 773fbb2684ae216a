//! Decides about a request to a host with bound secrets. Pure.
//!
//! Only the placeholders of the secrets that are bound to the host pass. Any other credential would let an agent carry
//! data out to another account.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::head::Head;
use super::leak::{decoded, in_address, in_header};
use super::refusal::Refusal;
use crate::gateway::judge::{is_credential, is_same};
use crate::model::bound_secret::{HeaderForm, RequestPattern, SecretHeader, WEBSOCKET, is_plain_path, is_user};
use crate::model::secrets::Secrets;

/// Headers by which a request says that it is another one.
const OVERRIDES: [&str; 6] = [
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
    "x-original-method",
];
/// Parameters that carry credentials.
const CREDENTIAL_PARAMETERS: [&str; 12] = [
    "key",
    "api_key",
    "apikey",
    "api-key",
    "access_token",
    "oauth_token",
    "auth_token",
    "private_token",
    "job_token",
    "token",
    "client_secret",
    "password",
];
/// A parameter by which some servers take a request for one with another method.
const METHOD_PARAMETER: &str = "_method";

/// A secret as it is bound to one host for one incarnation.
#[derive(Debug, Clone)]
pub(in crate::gateway) struct HostSecret {
    pub(in crate::gateway) name: String,
    pub(in crate::gateway) header: SecretHeader,
    pub(in crate::gateway) requests: Vec<RequestPattern>,
    /// What the agent has instead of the value.
    pub(in crate::gateway) placeholder: String,
}

/// A header of a request that gets a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::gateway) struct Injection {
    /// The secret's name.
    pub(in crate::gateway) secret: String,
    header: String,
    form: HeaderForm,
}

impl Injection {
    /// The header with the value. None if no header can hold it.
    pub(in crate::gateway) fn header(&self, value: &[u8]) -> Option<(HeaderName, HeaderValue)> {
        let basic = |text: Vec<u8>| [b"Basic ", STANDARD.encode(text).as_bytes()].concat();
        let text = match &self.form {
            HeaderForm::Text(before, after) => [before.as_bytes(), value, after.as_bytes()].concat(),
            HeaderForm::Password(user) => basic([user.as_deref().unwrap_or_default().as_bytes(), b":", value].concat()),
            HeaderForm::User => basic([value, b":"].concat()),
        };
        let mut text = HeaderValue::from_bytes(&text).ok()?;
        text.set_sensitive(true);
        Some((HeaderName::from_bytes(self.header.as_bytes()).ok()?, text))
    }
}

/// Judges a request, except for its body. Returns the headers that get values. `known` are all values that must not be in
/// it.
pub(in crate::gateway) fn judge(
    head: &Head,
    secrets: &[HostSecret],
    known: &Secrets,
) -> Result<Vec<Injection>, Refusal> {
    let address = head.address();
    in_address(known, &address).map_or(Ok(()), |leak| Err(Refusal::Leak(leak)))?;
    for (name, value) in &head.headers {
        in_header(known, name.as_str(), value.as_bytes()).map_or(Ok(()), |leak| Err(Refusal::Leak(leak)))?;
    }
    if !is_plain_path(&head.path) {
        return Err(Refusal::Form("its path has parts that mean something else than they say"));
    }
    head.query.as_deref().map_or(Ok(()), check_query)?;
    if let Some(name) = OVERRIDES.into_iter().find(|name| head.headers.contains_key(*name)) {
        tracing::debug!(name, "a request says that it is another one");
        return Err(Refusal::Form("one of its headers says that it is another request"));
    }
    let allows = |secret: &&HostSecret| {
        let method = if head.is_websocket { WEBSOCKET } else { head.method.as_str() };
        let fits = |pattern: &RequestPattern| pattern.matches(method, &head.path);
        (secret.requests.is_empty() && !head.is_websocket) || secret.requests.iter().any(fits)
    };
    if head.is_websocket && !secrets.iter().any(|secret| allows(&secret)) {
        return Err(Refusal::WebSocket);
    }
    if !secrets.iter().any(|secret| allows(&secret)) {
        let allowed = secrets.iter().flat_map(|secret| &secret.requests).map(ToString::to_string);
        return Err(Refusal::Request(allowed.collect()));
    }
    let injections = credentials(&head.headers, secrets)?;
    let used = |secret: &&HostSecret| injections.iter().any(|injection| injection.secret == secret.name);
    match secrets.iter().filter(used).find(|secret| !allows(secret)) {
        Some(secret) => Err(Refusal::Request(secret.requests.iter().map(ToString::to_string).collect())),
        None => Ok(injections),
    }
}

/// The headers that get values. Every credential must be the placeholder of a secret, and each header occurs once.
fn credentials(headers: &HeaderMap, secrets: &[HostSecret]) -> Result<Vec<Injection>, Refusal> {
    let mut found: Vec<Injection> = Vec::new();
    for (name, value) in headers {
        let name = name.as_str();
        let carries = |secret: &&HostSecret| secret.header.name == name;
        if !secrets.iter().any(|secret| carries(&secret)) {
            match is_credential(name) {
                true => return Err(Refusal::Foreign(name.to_owned())),
                false => continue,
            }
        }
        if found.iter().any(|injection| injection.header == name) {
            return Err(Refusal::Form("a header with a secret occurs twice"));
        }
        let mut carried =
            secrets.iter().filter(carries).filter_map(|secret| Some((secret, form(secret, value.as_bytes())?)));
        let (secret, form) = carried.next().ok_or_else(|| Refusal::Value(name.to_owned()))?;
        found.push(Injection { secret: secret.name.clone(), header: name.to_owned(), form });
    }
    Ok(found)
}

/// The form of the value in a header, if the header has the placeholder in the form of the secret.
fn form(secret: &HostSecret, value: &[u8]) -> Option<HeaderForm> {
    let placeholder = secret.placeholder.as_bytes();
    let form = &secret.header.form;
    let basic = || STANDARD.decode(value.strip_prefix(b"Basic ")?).ok();
    let is_same = match form {
        HeaderForm::Text(before, after) => is_same(&[before.as_bytes(), placeholder, after.as_bytes()].concat(), value),
        HeaderForm::User => is_same(&[placeholder, b":"].concat(), &basic()?),
        HeaderForm::Password(Some(user)) => is_same(&[user.as_bytes(), b":", placeholder].concat(), &basic()?),
        HeaderForm::Password(None) => {
            let text = basic()?;
            let at = text.iter().position(|byte| *byte == b':')?;
            let user = std::str::from_utf8(text.get(..at)?).ok().filter(|user| is_user(user))?;
            let matches = is_same(placeholder, text.get(at.saturating_add(1)..)?);
            return matches.then(|| HeaderForm::Password(Some(user.to_owned())));
        }
    };
    is_same.then(|| form.clone())
}

fn check_query(query: &str) -> Result<(), Refusal> {
    for parameter in query.split(['&', ';']) {
        let name =
            String::from_utf8_lossy(&decoded(parameter.split('=').next().unwrap_or_default())).to_ascii_lowercase();
        if name == METHOD_PARAMETER || name.contains('%') {
            return Err(Refusal::Form("a parameter has a name that means something else than it says"));
        }
        if CREDENTIAL_PARAMETERS.contains(&name.as_str()) {
            return Err(Refusal::Foreign(name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
