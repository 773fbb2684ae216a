//! Errors of a turn of the CLI: whether and when to retry, and what the operator should do. Pure.

use super::lines::Complaint;
use crate::failure::Failure;
use crate::provider::during;
use crate::provider::trouble::{Kind, is_vague, kind, retry};

/// What was learned about the API during a turn.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Signs {
    /// The status of the last answer that led to a retry.
    pub(super) retried: Option<u64>,
    /// The quota is exhausted until this time, in milliseconds since 1970.
    pub(super) exhausted_until: Option<u64>,
}

/// The failure of a turn with this error. `tool` is the running tool, `now` is in milliseconds since 1970.
pub(super) fn failure(complaint: &Complaint, signs: &Signs, tool: Option<&str>, now: u64) -> Failure {
    let Complaint { text, status } = complaint;
    let during = tool.map(|tool| format!(" (while the tool {tool} ran)")).unwrap_or_default();
    let kind = kind(status.or(signs.retried.filter(|_| is_vague(text))), text);
    let (error, retry) = match kind {
        Kind::Limited => {
            let until = signs.exhausted_until.or_else(|| reset_in(text));
            let after_ms = until.map(|until| until.saturating_sub(now)).filter(|after| *after > 0);
            (text.clone(), retry(kind, after_ms))
        }
        Kind::Login => {
            let advice = "the agent is not logged in to its model: set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN in \
                          the agent's `env` to a valid credential";
            (format!("{advice} (the agent CLI says: {text})"), None)
        }
        Kind::Unreachable | Kind::Passing | Kind::Lasting => (text.clone(), retry(kind, None)),
    };
    Failure { error: format!("{error}{during}"), retry }
}

/// The failure of a turn whose CLI has ended: a crash, unless its standard error says that it is not logged in.
pub(super) fn gone(how: &str, tool: Option<&str>) -> Failure {
    let killed = how.contains("signal");
    if kind(None, how) == Kind::Login && !killed {
        return failure(&Complaint { text: how.to_owned(), status: None }, &Signs::default(), tool, 0);
    }
    let during = during(tool);
    Failure::passing(format!("the agent CLI {how}{during}"))
}

/// The failure of a turn whose CLI answers no request.
pub(super) fn wedged() -> Failure {
    Failure::passing("the agent CLI was silent and did not answer for a minute, so it was ended".to_owned())
}

/// The time in `…limit reached|1700000000`, in milliseconds since 1970.
fn reset_in(text: &str) -> Option<u64> {
    let (_, after) = text.rsplit_once('|')?;
    let digits: String = after.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<u64>().ok()?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use hearth_wire::Retry;

    use super::*;

    const LIMITED: Option<Retry> = Some(Retry { rate_limited: true, unreachable: false, after_ms: None });
    const UNREACHABLE: Option<Retry> = Some(Retry { rate_limited: true, unreachable: true, after_ms: None });
    const PASSING: Option<Retry> = Some(Retry { rate_limited: false, unreachable: false, after_ms: None });

    #[test]
    fn errors_by_class() {
        for (text, status, expected) in [
            ("API Error: 429 x", Some(429), LIMITED),
            ("API Error: Overloaded", Some(529), LIMITED),
            ("API Error: 529 overloaded_error", None, LIMITED),
            (
                "Claude AI usage limit reached|1700000060",
                None,
                LIMITED.map(|retry| Retry { after_ms: Some(60_000), ..retry }),
            ),
            ("Claude AI usage limit reached|1600000000", None, LIMITED),
            ("You've hit your limit · resets 3pm", None, LIMITED),
            ("API Error: 500 x", Some(500), PASSING),
            ("API Error: 503 x", Some(503), PASSING),
            ("API Error: Connection error.", None, UNREACHABLE),
            ("API Error: Unable to connect to API (ECONNREFUSED)", None, UNREACHABLE),
            ("API Error: Unable to connect to API (ENETUNREACH)", None, UNREACHABLE),
            ("No internet route to api.example (ENETUNREACH)", None, UNREACHABLE),
            ("connect EHOSTUNREACH 192.0.2.1:443", None, UNREACHABLE),
            ("getaddrinfo ENOTFOUND api.example", None, UNREACHABLE),
            ("getaddrinfo EAI_AGAIN api.example", None, UNREACHABLE),
            ("connect ETIMEDOUT 192.0.2.1:443", None, UNREACHABLE),
            ("Request timed out", None, UNREACHABLE),
            ("read ECONNRESET", None, UNREACHABLE),
            (
                "API Error: 502 {\"error\":{\"message\":\"Hearth cannot reach the model's server: nothing listens there\"}}",
                Some(502),
                UNREACHABLE,
            ),
            ("Client network socket disconnected before secure TLS connection was established", None, UNREACHABLE),
            ("TypeError: fetch failed", None, UNREACHABLE),
            ("Proxy response (502) !== 200 when HTTP Tunneling", None, PASSING),
            ("API Error: something that no version said before", None, PASSING),
            ("API Error: 418 without a field for it", None, None),
            ("API Error: 500 without a field for it", None, PASSING),
            ("API Error: Unable to connect to API: SSL certificate verification failed", None, None),
            ("API Error: 400 overloaded with words", Some(400), None),
            ("API Error: 404 model: x", Some(404), None),
            ("Credit balance is too low", None, None),
            ("error_max_turns", None, None),
        ] {
            let complaint = Complaint { text: text.to_owned(), status };
            let failure = failure(&complaint, &Signs::default(), None, 1_700_000_000_000);
            assert_eq!((failure.error.as_str(), failure.retry), (text, expected), "{text}");
        }
    }

    #[test]
    fn who_is_not_logged_in_is_told_what_to_set() {
        for (text, status) in [
            ("Not logged in · Please run /login", None),
            ("Invalid API key · Fix external API key", None),
            ("API Error: 401 x", Some(401)),
            ("API Error: 403 x", Some(403)),
        ] {
            let complaint = Complaint { text: text.to_owned(), status };
            let failure = failure(&complaint, &Signs::default(), None, 0);
            assert!(failure.error.contains("ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN"), "{}", failure.error);
            assert!(failure.error.contains(text) && failure.retry.is_none(), "{}", failure.error);
        }
    }

    #[test]
    fn signs_and_tools_are_told() {
        let complaint = Complaint { text: "Sorry".to_owned(), status: None };
        let signs = Signs { retried: Some(529), exhausted_until: Some(5_000) };
        let told = failure(&complaint, &signs, Some("Bash"), 2_000);
        assert_eq!(told.error, "Sorry (while the tool Bash ran)");
        assert_eq!(told.retry, Some(Retry { rate_limited: true, unreachable: false, after_ms: Some(3_000) }));
    }

    #[test]
    fn a_cli_that_is_gone() {
        for how in [
            "ended with exit status: 1; its last words: Invalid MCP configuration",
            "ended with exit status: 1",
            "ended with signal: 9 (SIGKILL)",
            "ended with signal: 9 (SIGKILL); its last words: Not logged in",
            "closed its output",
        ] {
            let failure = gone(how, Some("Bash"));
            assert_eq!(failure.retry, PASSING, "{how}");
            assert_eq!(failure.error, format!("the agent CLI {how} while the tool Bash ran"));
        }
        let verdict = gone("ended with exit status: 1; its last words: Not logged in", None);
        assert!(verdict.error.contains("set ") && verdict.retry.is_none(), "{}", verdict.error);
    }
}
