//! Interprets signal-cli's result of sending a message, for each recipient.

use hearth_bridge::Sent;
use hearth_bridge::program::log;
use hearth_bridge::program::post::End;
use serde_json::Value;

use super::rpc::{Answer, Trouble};

/// Codes of errors, from signal-cli's source.
const USER: i64 = -1;
const UNTRUSTED_KEY: i64 = -4;
const RATE_LIMIT: i64 = -5;
const CAPTCHA: i64 = -6;
/// JSON-RPC: the request itself, its method or its parameters are wrong.
const REQUEST: std::ops::RangeInclusive<i64> = -32_602..=-32_600;

/// Longest pause in seconds: a longer one is a mistake.
const PAUSE_MAX: u64 = 86_400;
/// Seconds after which a person whose key changed is tried again.
const KEY: u64 = 300;
/// Seconds of a pause without a time.
const PAUSE: u64 = 60;
/// Names of people in a log line.
const NAMED: usize = 10;

/// Why a person did not get a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Failure {
    /// It may have arrived.
    Network,
    Unknown,
    Identity,
    RateLimit {
        after: u64,
        wants_captcha: bool,
    },
    PreKey,
    Unregistered,
}

impl Failure {
    fn read(result: &Value) -> Option<Self> {
        let after = result.get("retryAfterSeconds").and_then(Value::as_u64).unwrap_or(PAUSE);
        let wants_captcha = result.get("token").is_some_and(Value::is_string);
        match result.get("type").and_then(Value::as_str) {
            Some("SUCCESS") => None,
            Some("NETWORK_FAILURE") => Some(Self::Network),
            Some("IDENTITY_FAILURE") => Some(Self::Identity),
            Some("RATE_LIMIT_FAILURE") => Some(Self::RateLimit { after, wants_captcha }),
            Some("INVALID_PRE_KEY_FAILURE") => Some(Self::PreKey),
            Some("UNREGISTERED_FAILURE") => Some(Self::Unregistered),
            _ => Some(Self::Unknown),
        }
    }

    fn end(self, who: &str) -> End {
        match self {
            Self::Network => End::not(Sent::Uncertain, "Signal's server did not answer"),
            Self::Unknown => End::not(Sent::Uncertain, "signal-cli does not say in a known way whether it was sent"),
            Self::Identity => changed_key(who),
            Self::RateLimit { after, wants_captcha } => pause(after, wants_captcha),
            Self::PreKey => End::not(Sent::Retry, format!("the keys of {who} at Signal's server cannot be used")),
            Self::Unregistered => End::not(Sent::Rejected, format!("{who} has no account at Signal any more")),
        }
    }
}

/// The time of a message that was sent, which is its id; otherwise how it ended. In a group it counts as sent if one person
/// got it.
pub(super) fn judged(answer: Answer) -> Result<u64, End> {
    let value = match answer {
        Ok(value) => value,
        Err(trouble) => return Err(refused(trouble)),
    };
    let timestamp = value.get("timestamp").and_then(Value::as_u64);
    match (timestamp, failed(&value)) {
        (Some(timestamp), None) => Ok(timestamp),
        (_, Some(end)) => Err(end),
        (None, None) => Err(End::not(Sent::Uncertain, "signal-cli's answer has no id of the message")),
    }
}

/// How a message ended that reached no one. A message without results is a note to oneself, or for an empty group.
fn failed(value: &Value) -> Option<End> {
    let results = value.get("results").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let failures: Vec<(&Value, Failure)> =
        results.iter().filter_map(|result| Some((result, Failure::read(result)?))).collect();
    if failures.is_empty() {
        return None;
    }
    if failures.len() < results.len() {
        let all: Vec<String> =
            failures.iter().take(NAMED).map(|(result, failure)| format!("{} ({failure:?})", who(result))).collect();
        log(&format!("{} of a group did not get a message: {}", failures.len(), all.join(", ")));
        return None;
    }
    // What may have arrived counts most, then what can be mended.
    let (result, failure) = failures.iter().min_by_key(|(_, failure)| *failure)?;
    Some(failure.end(&who(result)))
}

fn who(result: &Value) -> String {
    let of = |place| result.pointer(place).and_then(Value::as_str);
    let who = of("/recipientAddress/number").or(of("/recipientAddress/uuid")).unwrap_or("the recipient");
    who.chars().filter(|char| !char.is_control()).take(60).collect()
}

/// How a message ended that signal-cli did not send, or not certainly.
pub(super) fn refused(trouble: Trouble) -> End {
    let (code, why, data) = match trouble {
        Trouble::Down(why) => return End::not(Sent::Retry, why),
        Trouble::Lost(why) => return End::not(Sent::Uncertain, why),
        Trouble::Refused { code, why, data } => (code, why, data),
    };
    // Newer versions make an error of results without a success.
    if let Some(end) = data.get("response").and_then(failed) {
        return end;
    }
    let why = format!("signal-cli says: {why}");
    match code {
        USER => End::not(Sent::Rejected, why),
        code if REQUEST.contains(&code) => End::not(Sent::Rejected, why),
        UNTRUSTED_KEY => changed_key("the recipient"),
        RATE_LIMIT => pause(PAUSE, false),
        CAPTCHA => pause(PAUSE, true),
        // A fault on the way, or within signal-cli.
        _ => End::not(Sent::Uncertain, why),
    }
}

fn changed_key(who: &str) -> End {
    let why = format!(
        "the safety number of {who} changed; compare it with theirs, then trust it with `signal-cli trust`. Nothing is sent \
         to them before"
    );
    End { after: Some(KEY), ..End::not(Sent::Retry, why) }
}

fn pause(after: u64, wants_captcha: bool) -> End {
    let why = if wants_captcha {
        "Signal wants a captcha before it sends more; see `signal-cli submitRateLimitChallenge`"
    } else {
        "Signal asks for a pause"
    };
    End { after: Some(after.min(PAUSE_MAX) + 1), ..End::not(Sent::Retry, why) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile::value;
    use proptest::prelude::*;
    use serde_json::json;

    fn of(types: &[&str]) -> Result<u64, (Sent, Option<u64>)> {
        let results: Vec<Value> = types
            .iter()
            .map(|kind| json!({ "type": kind, "recipientAddress": { "number": "+9" }, "retryAfterSeconds": 7, "token": "t" }))
            .collect();
        judged(Ok(json!({ "timestamp": 5, "results": results }))).map_err(|end| (end.result, end.after))
    }

    #[test]
    fn results_end_attempts() {
        assert_eq!((of(&[]), of(&["SUCCESS"]), of(&["IDENTITY_FAILURE", "SUCCESS"])), (Ok(5), Ok(5), Ok(5)));
        for (types, expected) in [
            (&["NETWORK_FAILURE"][..], (Sent::Uncertain, None)),
            (&["UNREGISTERED_FAILURE"], (Sent::Rejected, None)),
            (&["IDENTITY_FAILURE"], (Sent::Retry, Some(KEY))),
            (&["RATE_LIMIT_FAILURE"], (Sent::Retry, Some(8))),
            (&["INVALID_PRE_KEY_FAILURE"], (Sent::Retry, None)),
            (&["SOMETHING_NEW"], (Sent::Uncertain, None)),
            (&["UNREGISTERED_FAILURE", "NETWORK_FAILURE", "IDENTITY_FAILURE"], (Sent::Uncertain, None)),
            (&["UNREGISTERED_FAILURE", "IDENTITY_FAILURE"], (Sent::Retry, Some(KEY))),
        ] {
            assert_eq!(of(types), Err(expected), "{types:?}");
        }
        assert_eq!(judged(Ok(json!({}))).map_err(|end| end.result), Err(Sent::Uncertain));
    }

    proptest! {
        #[test]
        fn whatever_signal_cli_says_ends_an_attempt(
            answer in value(
                &["timestamp", "results", "type", "recipientAddress", "number", "uuid", "retryAfterSeconds", "token", "response"],
                &["SUCCESS", "NETWORK_FAILURE", "RATE_LIMIT_FAILURE", "IDENTITY_FAILURE"],
            ),
            code: i64,
        ) {
            let sent = judged(Ok(answer.clone()));
            prop_assert!(sent.is_err() || answer["timestamp"].is_u64(), "{:?}", answer);
            let end = refused(Trouble::Refused { code, why: String::new(), data: answer });
            prop_assert!(end.result != Sent::Delivered && end.why.is_some());
        }
    }

    #[test]
    fn errors_end_attempts() {
        let of = |code: i64, data: Value| {
            let end = refused(Trouble::Refused { code, why: "no".to_owned(), data });
            (end.result, end.after)
        };
        for (code, expected) in [
            (-1, (Sent::Rejected, None)),
            (-3, (Sent::Uncertain, None)),
            (-4, (Sent::Retry, Some(KEY))),
            (-5, (Sent::Retry, Some(PAUSE + 1))),
            (-6, (Sent::Retry, Some(PAUSE + 1))),
            (-32_601, (Sent::Rejected, None)),
            (-32_603, (Sent::Uncertain, None)),
            (17, (Sent::Uncertain, None)),
        ] {
            assert_eq!(of(code, Value::Null), expected, "{code}");
        }
        let data = json!({ "response": { "timestamp": 5, "results": [{ "type": "RATE_LIMIT_FAILURE", "retryAfterSeconds": u64::MAX }] } });
        assert_eq!(of(-5, data), (Sent::Retry, Some(PAUSE_MAX + 1)));
        assert_eq!(refused(Trouble::Down(String::new())).result, Sent::Retry);
        assert_eq!(refused(Trouble::Lost(String::new())).result, Sent::Uncertain);
    }
}
