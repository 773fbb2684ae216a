//! Why a request to a host with bound secrets does not pass. The texts are for the agent and its owner, and never have a
//! secret in them.

use super::leak::{Leak, Place};

/// The header of refusals, and its value.
pub(super) const MARK: &str = "x-hearth-gate: refused";

/// Why a request does not pass, or has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::gateway) enum Refusal {
    /// The request can be read in two ways, or asks for what Hearth does not do.
    #[error("Hearth does not pass this request on: {0}")]
    Form(&'static str),
    /// Its head is too long.
    #[error("Hearth does not pass this request on: its headers are longer than 64 KiB")]
    LongHead,
    /// It did not come in time.
    #[error("the request did not come in time")]
    Late,
    /// The host's secrets do not allow it.
    #[error("the secrets that are bound to this host allow only: {}", .0.join(", "))]
    Request(Vec<String>),
    /// It begins a WebSocket, which no secret allows.
    #[error(
        "the secrets that are bound to this host allow no WebSocket here; `requests` can list it as `WEBSOCKET /path`"
    )]
    WebSocket,
    /// There is a credential besides that of a bound secret.
    #[error("`{0}` carries a credential, and only the secrets that are bound to this host pass")]
    Foreign(String),
    /// The header of a secret has another value.
    #[error("`{0}` does not have the placeholder from the agent's environment, and no other value passes")]
    Value(String),
    /// A known value is in the request.
    #[error(
        "{} of this request has the value of {} in it, which must not go there", .0.place, .0.name
    )]
    Leak(Leak),
    /// The secret cannot be read.
    #[error("Hearth cannot read the secret {name}: {why}")]
    NoValue { name: String, why: String },
    /// The host was not reached.
    #[error("Hearth cannot reach the host: {0}")]
    Unreached(String),
    /// The host's answer cannot be passed on.
    #[error("Hearth does not pass on the host's answer: {0}")]
    Server(&'static str),
}

impl Refusal {
    /// The status of the answer.
    pub(super) const fn status(&self) -> u16 {
        match self {
            Self::Form(_) => 400,
            Self::LongHead => 431,
            Self::Late => 408,
            Self::Request(_) | Self::WebSocket | Self::Foreign(_) | Self::Value(_) | Self::Leak(_) => 403,
            Self::NoValue { .. } | Self::Unreached(_) | Self::Server(_) => 502,
        }
    }

    /// The whole answer. Nothing follows it on its connection.
    pub(super) fn answer(&self) -> Vec<u8> {
        let (status, text) = (self.status(), format!("{self}\n"));
        let reason = axum::http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        let (reason, length) = (reason.unwrap_or_default(), text.len());
        format!(
            "HTTP/1.1 {status} {reason}\r\n{MARK}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{text}"
        )
        .into_bytes()
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address => f.write_str("the address"),
            Self::Header(name) => write!(f, "the header `{name}`"),
            Self::Body => f.write_str("the body"),
            Self::Message => f.write_str("a message"),
        }
    }
}
