//! What errors of a model's API mean: whether and when to try again. Pure.

use hearth_wire::Retry;

/// Kinds of errors, by how they are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Rate limit or overload.
    Limited,
    /// The API cannot be reached.
    Unreachable,
    /// Temporary.
    Passing,
    /// Not logged in.
    Login,
    /// Permanent.
    Lasting,
}

const LOGIN: [&str; 10] = [
    "not logged in",
    "invalid api key",
    "please run /login",
    "invalid x-api-key",
    "authentication_error",
    "authentication_failed",
    "authentication failed",
    "invalid bearer token",
    "oauth token",
    "failed to authenticate",
];
const LASTING: [&str; 4] = ["certificate", "credit balance", "prompt is too long", "model_not_found"];
const LIMITED: [&str; 7] =
    ["rate limit", "rate_limit", "overloaded", "usage limit", "limit reached", "hit your limit", "session limit"];
/// Errors of the network below HTTP, by the names of the system, of Node and of the CLI.
const UNREACHABLE: [&str; 25] = [
    "connection error",
    "connection refused",
    "connection reset",
    "connection closed",
    "unable to connect",
    "no internet route",
    "network is unreachable",
    "network is down",
    "no route to host",
    "temporary failure in name resolution",
    "econnrefused",
    "econnreset",
    "econnaborted",
    "enotfound",
    "eai_again",
    "enetunreach",
    "enetdown",
    "ehostunreach",
    "ehostdown",
    "etimedout",
    "timed out",
    "fetch failed",
    "socket hang up",
    "socket disconnected",
    "dns",
];
const PASSING: [&str; 6] = ["timeout", "socket", "server_error", "internal server error", "network", "proxy"];
/// What the model gateway answers when the model's server is not reached, whatever the status is.
const BEHIND_GATEWAY: &str = "hearth cannot reach the model's server";
/// What CLIs put before errors of the API.
const OF_API: &str = "api error";

/// Classifies an error by its status, if there is one. The texts depend on the version. An error of the API that is not
/// known and has no status did not come from the model's service, and may pass.
pub(super) fn kind(status: Option<u64>, text: &str) -> Kind {
    let text = text.to_lowercase();
    if text.contains(BEHIND_GATEWAY) {
        return Kind::Unreachable;
    }
    match status.or_else(|| status_in(&text)) {
        Some(429 | 529) => Kind::Limited,
        Some(401 | 403) => Kind::Login,
        Some(408 | 409 | 500..=599) => Kind::Passing,
        Some(400..=499) => Kind::Lasting,
        _ => known(&text).unwrap_or(if text.contains(OF_API) { Kind::Passing } else { Kind::Lasting }),
    }
}

/// The kind of an error with known words, in lower case.
fn known(text: &str) -> Option<Kind> {
    let kinds: [(&[&str], Kind); 5] = [
        (&LASTING, Kind::Lasting),
        (&LOGIN, Kind::Login),
        (&LIMITED, Kind::Limited),
        (&UNREACHABLE, Kind::Unreachable),
        (&PASSING, Kind::Passing),
    ];
    kinds.into_iter().find(|(words, _)| words.iter().any(|word| text.contains(word))).map(|(_, kind)| kind)
}

/// Whether a text is too vague to classify.
pub(super) fn is_vague(text: &str) -> bool {
    let text = text.to_lowercase();
    status_in(&text).is_none() && known(&text).is_none()
}

/// The status in `api error: 404 …`.
fn status_in(text: &str) -> Option<u64> {
    let (_, after) = text.split_once(OF_API)?;
    let digits: String = after.trim_start_matches([':', ' ']).chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|status| (400..=599).contains(status))
}

/// Whether and when to try again. `after_ms` is known only for a limit.
pub(super) fn retry(kind: Kind, after_ms: Option<u64>) -> Option<Retry> {
    match kind {
        Kind::Limited => Some(Retry { rate_limited: true, after_ms, ..Retry::default() }),
        Kind::Unreachable => Some(Retry { rate_limited: true, unreachable: true, ..Retry::default() }),
        Kind::Passing => Some(Retry::default()),
        Kind::Login | Kind::Lasting => None,
    }
}
