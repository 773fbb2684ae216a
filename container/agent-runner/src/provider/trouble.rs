//! What errors of a model's API mean: whether and when to try again. Pure.

use hearth_wire::Retry;

/// Kinds of errors, by how they are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Rate limit or overload.
    Limited,
    /// Temporary.
    Passing,
    /// Not logged in.
    Login,
    /// Permanent.
    Lasting,
}

const LOGIN: [&str; 9] = [
    "not logged in",
    "invalid api key",
    "please run /login",
    "invalid x-api-key",
    "authentication_error",
    "authentication_failed",
    "invalid bearer token",
    "oauth token",
    "failed to authenticate",
];
const LASTING: [&str; 4] = ["certificate", "credit balance", "prompt is too long", "model_not_found"];
const LIMITED: [&str; 7] =
    ["rate limit", "rate_limit", "overloaded", "usage limit", "limit reached", "hit your limit", "session limit"];
const PASSING: [&str; 16] = [
    "connection error",
    "connection refused",
    "unable to connect",
    "econnrefused",
    "econnreset",
    "enotfound",
    "eai_again",
    "etimedout",
    "timed out",
    "timeout",
    "fetch failed",
    "socket",
    "server_error",
    "internal server error",
    "network",
    "dns",
];

/// Classifies an error by its status, if there is one. The texts depend on the version.
pub(super) fn kind(status: Option<u64>, text: &str) -> Kind {
    let text = text.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    match status {
        Some(429 | 529) => Kind::Limited,
        Some(401 | 403) => Kind::Login,
        Some(408 | 409 | 500..=599) => Kind::Passing,
        Some(400..=499) => Kind::Lasting,
        _ if says(&LASTING) => Kind::Lasting,
        _ if says(&LOGIN) => Kind::Login,
        _ if says(&LIMITED) => Kind::Limited,
        _ if says(&PASSING) => Kind::Passing,
        _ => Kind::Lasting,
    }
}

/// Whether a text is too vague to classify.
pub(super) fn is_vague(text: &str) -> bool {
    kind(None, text) == Kind::Lasting && !LASTING.iter().any(|word| text.to_lowercase().contains(word))
}

/// Whether and when to try again. `after_ms` is known only for a limit.
pub(super) fn retry(kind: Kind, after_ms: Option<u64>) -> Option<Retry> {
    match kind {
        Kind::Limited => Some(Retry { rate_limited: true, after_ms }),
        Kind::Passing => Some(Retry { rate_limited: false, after_ms: None }),
        Kind::Login | Kind::Lasting => None,
    }
}
