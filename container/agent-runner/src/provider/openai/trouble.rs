//! Errors of the model's server. Pure.

use serde_json::Value;

use crate::clock;
use crate::failure::Failure;
use crate::provider::trouble::{Kind, kind, retry};

/// Maximum length of what is passed on of an error.
const TEXT_CHARS: usize = 500;
/// Words of servers for a prompt that is too long.
const TOO_LONG: [&str; 4] = ["exceed_context_size", "context_length_exceeded", "context length", "context size"];

/// An error of the model's server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiError {
    status: Option<u64>,
    text: String,
    after_ms: Option<u64>,
    kind: Kind,
}

impl ApiError {
    /// An answer with an error status. `retry_after` is the header of that name: seconds, or a time.
    pub(super) fn of_status(status: u16, body: &str, retry_after: Option<&str>) -> Self {
        let body: Value = serde_json::from_str(body).unwrap_or_else(|_| body.into());
        let text = words(body.get("error").unwrap_or(&body));
        let after_ms = retry_after.and_then(|after| match after.trim().parse::<u64>() {
            Ok(seconds) => Some(seconds.saturating_mul(1_000)),
            Err(_) => clock::until_http_date(after),
        });
        let status = u64::from(status);
        let kind = kind(Some(status), &text);
        Self { status: Some(status), text, after_ms, kind }
    }

    /// An error within an answer.
    pub(super) fn in_answer(error: &Value) -> Self {
        let status = error.get("code").and_then(Value::as_u64).filter(|code| (400..600).contains(code));
        let text = words(error);
        Self { status, kind: kind(status, &text), text, after_ms: None }
    }

    /// No answer, or a part of one.
    pub(super) fn unreachable(text: impl Into<String>) -> Self {
        Self { status: None, text: text.into(), after_ms: None, kind: Kind::Unreachable }
    }

    pub(super) fn passing(text: impl Into<String>) -> Self {
        Self { status: None, text: text.into(), after_ms: None, kind: Kind::Passing }
    }

    pub(super) fn lasting(text: impl Into<String>) -> Self {
        Self { status: None, text: text.into(), after_ms: None, kind: Kind::Lasting }
    }

    /// Whether the prompt is longer than the model's context.
    pub(super) fn is_too_long(&self) -> bool {
        let text = self.text.to_lowercase();
        matches!(self.status, Some(400 | 413)) && TOO_LONG.iter().any(|words| text.contains(words))
    }

    pub(super) fn failure(&self) -> Failure {
        let said = self.status.map_or_else(|| self.text.clone(), |status| format!("{status} {}", self.text));
        let error = match self.kind {
            Kind::Login => format!(
                "the agent is not logged in to its model: set OPENAI_API_KEY in the agent's `env` (the server says: {said})"
            ),
            Kind::Limited | Kind::Unreachable | Kind::Passing | Kind::Lasting => {
                format!("the model's server: {said}")
            }
        };
        Failure { error, retry: retry(self.kind, self.after_ms) }
    }
}

/// The words of an error: its type and its message.
fn words(error: &Value) -> String {
    let field = |name| error.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let text = match (field("type"), field("message"), error.as_str()) {
        (Some(kind), Some(message), _) => format!("{message} ({kind})"),
        (None, Some(message), _) => message.to_owned(),
        (_, None, Some(text)) => text.to_owned(),
        (_, None, None) => error.to_string(),
    };
    text.chars().take(TEXT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use hearth_wire::Retry;

    use super::*;

    #[test]
    fn errors_by_class() {
        let limited = |after_ms| Some(Retry { rate_limited: true, unreachable: false, after_ms });
        for (status, body, after, expected) in [
            (401, r#"{"error":{"message":"bad key","type":"invalid_request_error"}}"#, None, None),
            (429, r#"{"error":{"message":"slow down"}}"#, Some("7"), limited(Some(7_000))),
            (429, "no JSON", Some("Wed, 21 Oct 2015 07:28:00 GMT"), limited(Some(0))),
            (429, "no JSON", Some("soon"), limited(None)),
            (503, "", None, Some(Retry::default())),
            (404, r#"{"error":"no such model"}"#, None, None),
        ] {
            assert_eq!(ApiError::of_status(status, body, after).failure().retry, expected, "{status} {body}");
        }
        let login = ApiError::of_status(401, "{}", None).failure().error;
        assert!(login.contains("not logged in") && login.contains("OPENAI_API_KEY"), "{login}");
        let down = ApiError::unreachable("connection refused").failure().retry;
        assert_eq!(down, Some(Retry { rate_limited: true, unreachable: true, after_ms: None }));
    }

    #[test]
    fn prompts_that_are_too_long() {
        let body = r#"{"error":{"code":400,"message":"request (9019 tokens) exceeds the available context size (4096 tokens)",
            "type":"exceed_context_size_error"}}"#;
        assert!(ApiError::of_status(400, body, None).is_too_long());
        assert!(!ApiError::of_status(500, body, None).is_too_long());
        assert!(!ApiError::of_status(400, "{}", None).is_too_long());
    }
}
