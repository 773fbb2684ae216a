//! Answers of the gateway itself, in the form of the API that the agent's program expects.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

use super::opened::Leak;
use crate::model::gateway::{Api, Cap, OverCap};

/// Marks answers of the gateway itself.
const MARK: HeaderName = HeaderName::from_static("x-hearth-gateway");

/// Why a request gets no answer from a server. The texts are for the agent and its owner, and never have a key in them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// The request is not in the form that the gateway accepts.
    #[error("Hearth does not pass this request on: {0}")]
    Form(&'static str),
    /// The path stands for no server, or for one whose key the agent does not have.
    #[error("Hearth keeps no key for this address; the agent's `env` decides which servers it reaches")]
    NoServer,
    /// The server is known, but not this path.
    #[error(
        "Hearth passes on requests for answers, counts of tokens and lists of models of this API, and nothing else"
    )]
    Operation { api: Api },
    /// There is no placeholder.
    #[error("the request has no key; use the one in the environment, which stands for the real one")]
    NoPlaceholder,
    /// There is another key in its place.
    #[error("the key is not the one in the agent's environment, and no other passes")]
    WrongPlaceholder,
    /// There is a credential that the gateway does not know.
    #[error("`{0}` carries a credential, and none but the agent's own passes")]
    ForeignCredential(String),
    /// The body is no JSON object, or says something twice.
    #[error("the body is not the JSON object that this API expects: {0}")]
    Body(String),
    /// The body is too long.
    #[error("the request is longer than {0} MiB")]
    TooLong(usize),
    /// The body did not come in time.
    #[error("the body of the request did not come in time")]
    Late,
    /// The agent may not use this model.
    #[error("this agent may not use the model {asked}; it may use {}", allowed.join(", "))]
    Model {
        asked: String,
        /// The agent's models.
        allowed: Vec<String>,
    },
    /// Too many requests at once.
    #[error("this agent has {0} requests under way, which is the limit")]
    Busy(usize),
    /// Too many requests in a minute.
    #[error("this agent made {0} requests in a minute, which is the limit")]
    Often(usize),
    /// The message of the turn has used all that it may.
    #[error("Hearth ends this turn: its message has used all {} that it may", match .0.cap {
        Cap::Tokens => "tokens",
        Cap::Calls => "model calls",
        Cap::Minutes => "minutes",
    })]
    Capped(OverCap),
    /// A known value is in the request.
    #[error(
        "{} of this request has the value of {} in it, which must not go to a model; a new conversation is without it",
        .0.place, .0.name
    )]
    Leak(Leak),
    /// The key cannot be read.
    #[error("Hearth cannot read the key of this agent: {0}")]
    NoKey(String),
    /// The server was not reached. The runner knows these words.
    #[error("Hearth cannot reach the model's server: {0}")]
    Unreached(String),
    /// The server's answer cannot be passed on.
    #[error("Hearth does not pass on the answer of the model's server: {0}")]
    Server(String),
}

/// Words of the APIs for a kind of error.
struct Kind {
    status: u16,
    anthropic: &'static str,
    gemini: &'static str,
}

impl Refusal {
    /// The kind of the error. The agent CLI gives up at once on 4xx except 408, 409 and 429, and tries the rest again.
    fn kind(&self) -> Kind {
        let kind = |status, anthropic, gemini| Kind { status, anthropic, gemini };
        match self {
            Self::Form(_) | Self::Body(_) => kind(400, "invalid_request_error", "INVALID_ARGUMENT"),
            Self::NoPlaceholder | Self::WrongPlaceholder => kind(401, "authentication_error", "UNAUTHENTICATED"),
            // Programs try the rest of 4xx again, or take it for a wrong login.
            Self::Capped(_) => kind(402, "billing_error", "RESOURCE_EXHAUSTED"),
            Self::Operation { .. } | Self::ForeignCredential(_) | Self::Leak(_) => {
                kind(403, "permission_error", "PERMISSION_DENIED")
            }
            Self::NoServer | Self::Model { .. } => kind(404, "not_found_error", "NOT_FOUND"),
            Self::Late => kind(408, "timeout_error", "DEADLINE_EXCEEDED"),
            Self::TooLong(_) => kind(413, "request_too_large", "INVALID_ARGUMENT"),
            Self::Busy(_) | Self::Often(_) => kind(429, "rate_limit_error", "RESOURCE_EXHAUSTED"),
            Self::NoKey(_) => kind(500, "api_error", "INTERNAL"),
            Self::Unreached(_) | Self::Server(_) => kind(502, "api_error", "UNAVAILABLE"),
        }
    }

    /// The answer in the form of an API.
    pub(super) fn answer(&self, api: Api) -> Response<Body> {
        let kind = self.kind();
        let body = self.body(api, &kind).to_string();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(kind.status).unwrap_or(StatusCode::BAD_GATEWAY);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(MARK, HeaderValue::from_static("refused"));
        if kind.status == 429 {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }

    fn body(&self, api: Api, kind: &Kind) -> Value {
        let message = self.to_string();
        match api {
            Api::Anthropic => json!({"type": "error", "error": {"type": kind.anthropic, "message": message}}),
            Api::OpenAi => json!({"error": {"message": message, "type": kind.anthropic, "param": null, "code": null}}),
            Api::Gemini => json!({"error": {"code": kind.status, "message": message, "status": kind.gemini}}),
        }
    }
}
