//! What went wrong in a turn: errors of the agent, and answers that are errors in disguise. Pure.

use serde_json::Value;

use super::rpc::Refusal;
use crate::failure::Failure;
use crate::provider::during;
use crate::provider::trouble::{Kind, kind, retry};

/// The protocol's code for an agent that is not logged in.
const AUTH_REQUIRED: i64 = -32000;
/// The code for something that does not exist, such as a session.
const NOT_FOUND: i64 = -32002;
/// How agents say with other codes that they do not know a session.
const UNKNOWN_SESSION: [&str; 5] =
    ["not found", "no rollout", "invalid session", "no previous sessions", "service failure"];

/// Why a turn failed, as the agent tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) text: String,
    pub(super) kind: Kind,
}

impl Complaint {
    /// What an error means.
    pub(super) fn of(refusal: &Refusal) -> Self {
        let Refusal { code, message, data } = refusal;
        let field = |name| data.get(name).and_then(Value::as_str);
        let detail = field("details").filter(|detail| !message.contains(detail));
        let text = detail.map_or_else(|| message.clone(), |detail| format!("{message}: {detail}"));
        let in_code = u64::try_from(*code).ok().filter(|code| (100..600).contains(code));
        let status = in_code.or_else(|| status_in(message)).or_else(|| detail.and_then(status_in));
        let kind = match (*code, field("errorKind")) {
            (AUTH_REQUIRED, _) => Kind::Login,
            (_, Some("rate_limit")) => Kind::Limited,
            _ => kind(status, &text),
        };
        Self { text, kind }
    }

    /// The failure that an agent puts into a good result, if it was told that it may.
    pub(super) fn in_result(result: &Value) -> Option<Self> {
        let failure = result.pointer("/_meta/jetbrains/air/sessionFailure")?;
        let field = |name| failure.get(name).and_then(Value::as_str);
        let text = field("title").unwrap_or("the agent failed and does not say why").to_owned();
        let kind = match field("category") {
            Some("limit") => Kind::Limited,
            Some("connection") => Kind::Unreachable,
            Some("service") => Kind::Passing,
            Some("access") => Kind::Login,
            _ => kind(status_in(&text), &text),
        };
        Some(Self { text, kind })
    }

    /// An answer that is an error: some agents write it like a message, and only their result differs from that of a
    /// turn that succeeded. `counted` says whether earlier turns of this process reported their tokens.
    pub(super) fn in_answer(agent: &str, text: &str, result: &Value, counted: bool) -> Option<Self> {
        let usage = result.get("usage");
        let is_error = match agent {
            "hermes-agent" => {
                text.starts_with("HTTP ") || text.starts_with("API call failed after ") || (counted && usage.is_none())
            }
            "Copilot" => text.starts_with("Error: "),
            "@agentclientprotocol/codex-acp" => usage.is_some_and(Value::is_null),
            _ => false,
        };
        let text = if text.is_empty() { "the model did not answer" } else { text };
        is_error.then(|| Self { text: text.to_owned(), kind: kind(status_in(text), text) })
    }

    pub(super) fn failure(&self, tool: Option<&str>) -> Failure {
        let during = during(tool);
        let error = match self.kind {
            Kind::Login => format!(
                "the agent is not logged in to its model: set the variables that it needs in the agent's `env` (it says: {})",
                self.text
            ),
            _ => self.text.clone(),
        };
        Failure { error: format!("{error}{during}"), retry: retry(self.kind, None) }
    }
}

/// Whether a part of an answer is a notice, which some agents write like a message.
pub(super) fn is_notice(agent: &str, text: &str) -> bool {
    agent == "Copilot" && text.starts_with("Info: ")
}

/// The failure of a turn whose agent has ended: a crash, unless its standard error says that it is not logged in.
pub(super) fn gone(how: &str, tool: Option<&str>) -> Failure {
    let kind = kind(None, how);
    if kind == Kind::Login && !how.contains("signal") {
        return Complaint { text: how.to_owned(), kind }.failure(tool);
    }
    Failure::passing(format!("the agent {how}{}", during(tool)))
}

/// Whether an agent does not know the session that it was asked to go on with. A lasting error that names the session
/// means the same, in whatever words.
pub(super) fn is_unknown_session(refusal: &Refusal, session: &str) -> bool {
    let Complaint { text, kind } = Complaint::of(refusal);
    let names_it = kind == Kind::Lasting && text.contains(session);
    let text = text.to_lowercase();
    refusal.code == NOT_FOUND || names_it || UNKNOWN_SESSION.iter().any(|words| text.contains(words))
}

/// The status of the model's API at the beginning of a text, perhaps after the word `HTTP`.
fn status_in(text: &str) -> Option<u64> {
    let text = text.trim_start().trim_start_matches("HTTP").trim_start();
    let digits = text.split(|letter: char| !letter.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|status| digits.len() == 3 && (400..600).contains(status))
}

#[cfg(test)]
mod tests {
    use hearth_wire::Retry;
    use serde_json::json;

    use super::*;

    const LIMITED: Option<Retry> = Some(Retry { rate_limited: true, unreachable: false, after_ms: None });
    const UNREACHABLE: Option<Retry> = Some(Retry { rate_limited: true, unreachable: true, after_ms: None });
    const PASSING: Option<Retry> = Some(Retry { rate_limited: false, unreachable: false, after_ms: None });

    fn refusal(code: i64, message: &str, data: Value) -> Refusal {
        Refusal { code, message: message.to_owned(), data }
    }

    #[test]
    fn errors_by_class() {
        for (code, message, data, expected) in [
            (401, "no key", json!(null), None),
            (-32000, "Authentication required", json!(null), None),
            (429, "slow down", json!(null), LIMITED),
            (-32603, "Internal error", json!({"errorKind": "rate_limit"}), LIMITED),
            (-32603, "Internal error", json!({"details": "401 wrong key"}), None),
            (-32603, "503 try later", json!(null), PASSING),
            (-32603, "Internal error", json!({"details": "429 too many"}), LIMITED),
            (-32603, "404 no such model", json!(null), None),
        ] {
            let found = Complaint::of(&refusal(code, message, data.clone())).failure(None);
            assert_eq!(found.retry, expected, "{code} {message} {data}: {found:?}");
        }
        let told = Complaint::of(&refusal(-32603, "Internal error", json!({"details": "401 wrong key"}))).failure(None);
        assert!(told.error.contains("`env`") && told.error.contains("wrong key"), "{}", told.error);
    }

    #[test]
    fn failures_in_good_results() {
        let result = |category: &str| {
            json!({"stopReason": "end_turn", "_meta": {"jetbrains": {"air": {
            "sessionFailure": {"category": category, "title": "it failed"}}}}})
        };
        for (category, expected) in
            [("limit", LIMITED), ("service", PASSING), ("connection", UNREACHABLE), ("access", None)]
        {
            let complaint = Complaint::in_result(&result(category)).unwrap();
            assert_eq!(complaint.failure(None).retry, expected, "{category}");
        }
        assert_eq!(Complaint::in_result(&json!({"stopReason": "end_turn"})), None);
    }

    #[test]
    fn answers_that_are_errors() {
        let found = |agent: &str, text: &str, result: Value| {
            Complaint::in_answer(agent, text, &result, true).map(|complaint| complaint.kind)
        };
        let counted = json!({"usage": {"inputTokens": 1}});
        assert_eq!(found("hermes-agent", "HTTP 401: no", counted.clone()), Some(Kind::Login));
        assert_eq!(found("hermes-agent", "x", json!({})), Some(Kind::Lasting));
        assert_eq!(
            found("hermes-agent", "API call failed after 3 retries: Connection error.", counted.clone()),
            Some(Kind::Unreachable)
        );
        assert_eq!(found("Copilot", "Error: Authentication failed", counted.clone()), Some(Kind::Login));
        assert!(is_notice("Copilot", "Info: Response was interrupted. Retrying..."));
        assert!(!is_notice("OpenCode", "Info: is a word"));
        let codex = "@agentclientprotocol/codex-acp";
        assert_eq!(found(codex, "stream: 503", json!({"usage": null})), Some(Kind::Lasting));
        assert_eq!(found("my-agent", "hello", json!({"usage": null})), None, "others may never count");
        assert_eq!(found("OpenCode", "Error: is a word", counted), None);
        assert_eq!(found("gemini-cli", "hello", json!({})), None);
    }

    #[test]
    fn unknown_sessions() {
        let is_unknown = |refusal: &Refusal| is_unknown_session(refusal, "01a2-b");
        assert!(is_unknown(&refusal(-32002, "Resource", json!(null))));
        assert!(is_unknown(&refusal(-32603, "no rollout found for x", json!(null))));
        for details in [
            "no rollout found for thread id x",
            "No previous sessions found for this project.",
            "thread not loaded: 01a2-b",
        ] {
            assert!(is_unknown(&refusal(-32603, "Internal error", json!({ "details": details }))), "{details}");
        }
        assert!(!is_unknown(&refusal(-32603, "429", json!(null))));
        assert!(
            !is_unknown(&refusal(-32603, "503 overloaded, cannot resume 01a2-b", json!(null))),
            "it is tried again"
        );
    }
}
