//! Tries a credential by asking for the list of models, which costs nothing.
//!
//! The list is given without credit, too: that a key has none is known only where the server says so.

use std::time::Duration;

use reqwest::{Response, StatusCode, header};
use serde_json::Value;

use super::login::{Credential, Login, LoginError};
use crate::http;

/// Time limit of the whole trial.
const TRIAL: Duration = Duration::from_secs(10);
/// Size limit of the answer in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Stands in for the secret in texts of the server.
const HIDDEN: &str = "[key]";

/// What a trial without an objection showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    /// The server listed its models.
    Models(Vec<String>),
    /// The server was reached, but it does not list models for this credential, so only an answer can show whether it
    /// is right. With the reason.
    Unchecked(String),
}

/// Why a credential cannot be used now. The texts are for people and never contain the secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// Wrong form of secret or address.
    #[error(transparent)]
    Form(#[from] LoginError),
    /// The server does not know the secret.
    #[error("{server} rejects the {credential}{hint}")]
    Wrong {
        server: String,
        /// What was tried.
        credential: &'static str,
        /// What to change, if it is visible; empty, or beginning with a colon.
        hint: &'static str,
    },
    /// The account has no credit.
    #[error("{server} accepts the {credential}, but its account has no credit: {said}")]
    NoCredit {
        server: String,
        /// What was tried.
        credential: &'static str,
        /// Words of the server.
        said: String,
    },
    /// Too many requests: whether the secret is right is not known.
    #[error("{0} is rate-limiting requests; try again in a minute")]
    RateLimited(String),
    /// The server was not reached.
    #[error("{server} cannot be reached: {why}")]
    Unreached { server: String, why: String },
    /// The server is in trouble.
    #[error("{server} is in trouble: {said}")]
    Trouble {
        server: String,
        /// Words of the server.
        said: String,
    },
    /// Something else answers at this address.
    #[error("{server} is not a server for {servers}: {why}")]
    OtherServer {
        server: String,
        /// The kind of server that was expected.
        servers: &'static str,
        /// What it did.
        why: String,
    },
}

/// Asks the server for its models with this credential.
///
/// # Errors
/// [`Rejected`] with the reason, if the credential cannot be used.
pub async fn try_login(login: &Login) -> Result<Accepted, Rejected> {
    try_within(login, TRIAL).await
}

pub(super) async fn try_within(login: &Login, limit: Duration) -> Result<Accepted, Rejected> {
    let server = || login.server().to_owned();
    let unreached = |error| Rejected::Unreached { server: server(), why: clean(login, &http::unreached(error)) };
    let client = http::client(login.base.scheme() == "http").map_err(unreached)?;
    let request = client.get(login.models()).headers(login.headers()?).timeout(limit);
    let response = request.send().await.map_err(unreached)?;
    let (status, target) = (response.status(), target(&response));
    let Some(body) = http::body(response, ANSWER_BYTES_MAX).await.map_err(unreached)? else {
        let why = format!("its answer is longer than {ANSWER_BYTES_MAX} bytes");
        return Err(Rejected::OtherServer { server: server(), servers: login.credential.servers(), why });
    };
    if status.is_redirection() {
        let why = format!("it redirects to {}; give that address", clean(login, &target));
        return Err(Rejected::OtherServer { server: server(), servers: login.credential.servers(), why });
    }
    judge(login, status, serde_json::from_slice(&body).ok())
}

/// Decides by status and body. No JSON means that another kind of server, or a proxy, answered.
fn judge(login: &Login, status: StatusCode, body: Option<Value>) -> Result<Accepted, Rejected> {
    let (server, credential) = (login.server().to_owned(), login.credential.as_str());
    let servers = login.credential.servers();
    let said = body.as_ref().and_then(message).map(|text| clean(login, text));
    let words = said.clone().unwrap_or_else(|| status.to_string());
    let kind = body.as_ref().and_then(|body| body.get("error")?.get("type")?.as_str()).unwrap_or_default();
    if words.contains("credit balance") || matches!(kind, "billing_error" | "insufficient_quota") {
        return Err(Rejected::NoCredit { server, credential, said: words });
    }
    match status.as_u16() {
        200 => match body.as_ref().and_then(models) {
            Some(models) => Ok(Accepted::Models(models)),
            None => {
                Err(Rejected::OtherServer { server, servers, why: "its answer is not a list of models".to_owned() })
            }
        },
        402 => Err(Rejected::NoCredit { server, credential, said: words }),
        403 if kind == "permission_error" && !words.contains("revoked") => Ok(Accepted::Unchecked(words)),
        // A key of OpenAI that may be used, but not to list models.
        401 | 403 if words.contains("Missing scopes") => Ok(Accepted::Unchecked(words)),
        400 if words.contains("API key not valid") => Err(Rejected::Wrong { server, credential, hint: "" }),
        401 | 403 => Err(Rejected::Wrong { server, credential, hint: hint(login) }),
        404 | 405 | 501 => Ok(Accepted::Unchecked(format!("it has no list of models ({status})"))),
        407 => Err(Rejected::Unreached { server, why: format!("a proxy is in the way ({status})") }),
        429 => Err(Rejected::RateLimited(server)),
        500.. => Err(Rejected::Trouble { server, said: words }),
        _ => Err(Rejected::OtherServer { server, servers, why: words }),
    }
}

/// The error message of an answer, in the forms of Anthropic, OpenAI and Ollama.
fn message(body: &Value) -> Option<&str> {
    let error = body.get("error")?;
    error.as_str().or_else(|| error.get("message")?.as_str())
}

/// The ids of the models. None if the answer is no list.
fn models(body: &Value) -> Option<Vec<String>> {
    // Gemini's form.
    if let Some(Value::Array(list)) = body.get("models") {
        let names = list.iter().filter_map(|one| one.get("name")?.as_str());
        return Some(names.map(|name| name.trim_start_matches("models/").to_owned()).collect());
    }
    match body.get("data")? {
        Value::Array(list) => Some(list.iter().filter_map(|one| one.get("id")?.as_str()).map(str::to_owned).collect()),
        // Ollama without a model.
        Value::Null => Some(Vec::new()),
        _ => None,
    }
}

/// What is wrong with a rejected secret, if its form shows it.
fn hint(login: &Login) -> &'static str {
    let looks = Credential::looks_like(&login.secret);
    match (login.credential, looks) {
        _ if !login.is_anthropic() => "",
        (Credential::ApiKey, Credential::Subscription) => {
            ": it is a subscription token, which belongs in CLAUDE_CODE_OAUTH_TOKEN"
        }
        (Credential::Subscription, Credential::ApiKey) => {
            ": it is not a subscription token; `claude setup-token` prints one"
        }
        (Credential::ApiKey, _) if !login.secret.starts_with("sk-ant-") => ": API keys begin with sk-ant-",
        _ => "",
    }
}

/// The server that a redirect names.
fn target(response: &Response) -> String {
    let named = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
    let found = named.and_then(|named| response.url().join(named).ok());
    found.map_or_else(|| "another address".to_owned(), |url| url.origin().ascii_serialization())
}

fn clean(login: &Login, text: &str) -> String {
    http::clean(text, &login.secret, HIDDEN)
}
