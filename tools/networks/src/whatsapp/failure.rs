//! Errors of WhatsApp, in answers and in reports, and how each ends an attempt.

use std::fmt;
use std::time::Duration;

use hearth_bridge::Sent;
use hearth_bridge::program::post::End;
use serde_json::Value;

use super::report::text;

/// Longest explanation that is shown, in characters.
const WHY_MAX: usize = 300;
/// The token is not accepted.
const TOKEN: i64 = 190;
/// Also an invalid token, if the HTTP status agrees.
const NO_USER: i64 = 0;
/// A person did not write for a day.
const WINDOW: i64 = 131_047;
/// Too many messages: of an app, of an account, of a number, of a number that was reported as spam, to one person.
const PAUSES: [i64; 5] = [4, 80_007, 130_429, 131_048, TO_ONE];
const TO_ONE: i64 = 131_056;
const SPAM: i64 = 131_048;
/// Faults of WhatsApp. What was asked for may have happened.
const FAULTS: [i64; 6] = [1, 2, 131_000, 131_016, 133_004, 135_000];

/// Waits of which WhatsApp does not say how long they are. It lets one message to a person through every six seconds.
const PAUSE: Duration = Duration::from_secs(30);
const PAUSE_TO_ONE: Duration = Duration::from_secs(6);
const PAUSE_SPAM: Duration = Duration::from_secs(3_600);

/// What an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Token,
    Pause(Duration),
    /// It may have been carried out.
    Fault,
    Refusal,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) code: i64,
    /// WhatsApp's explanation.
    pub(super) why: String,
}

impl Failure {
    /// Reads an error, of a report or of an answer.
    pub(super) fn read(error: &Value) -> Self {
        let why = ["/error_data/details", "/message", "/title"].iter().find_map(|place| text(error, place));
        let why = why.unwrap_or_default().chars().filter(|char| !char.is_control()).take(WHY_MAX).collect();
        Self { code: error.get("code").and_then(Value::as_i64).unwrap_or(-1), why }
    }

    pub(super) fn kind(&self, status: Option<u16>) -> Kind {
        match self.code {
            TOKEN => Kind::Token,
            NO_USER if status == Some(401) => Kind::Token,
            TO_ONE => Kind::Pause(PAUSE_TO_ONE),
            SPAM => Kind::Pause(PAUSE_SPAM),
            code if PAUSES.contains(&code) || status == Some(429) => Kind::Pause(PAUSE),
            code if FAULTS.contains(&code) || status.is_some_and(|status| status >= 500) => Kind::Fault,
            _ if status == Some(401) => Kind::Token,
            _ => Kind::Refusal,
        }
    }

    /// How an attempt ends that WhatsApp accepted, and reported as failed afterwards.
    pub(super) fn end(&self) -> End {
        match self.kind(None) {
            Kind::Pause(pause) => paused(pause),
            // It says that the message was not delivered, so it can be sent again.
            Kind::Fault => End::not(Sent::Retry, self),
            Kind::Token | Kind::Refusal => End::not(Sent::Rejected, self),
        }
    }

    /// What people can do about it.
    const fn advice(&self) -> &'static str {
        match self.code {
            WINDOW => {
                "WhatsApp lets an account write freely only within 24 hours of a person's last message; they must write first"
            }
            131_026 => {
                "that person cannot get it: the number has no WhatsApp, blocked this account, or has an old version"
            }
            131_030 => "a test number writes only to numbers that are on its list in Meta's app dashboard",
            131_031 | 368 => "Meta restricted this account; see WhatsApp Manager",
            130_472 | 131_049 => "WhatsApp held it back, to spare that person messages of businesses",
            133_010 => "the number is not registered; register it with WhatsApp",
            10 | 200..=299 => "the token lacks the permission `whatsapp_business_messaging`",
            _ => "",
        }
    }
}

/// The end of an attempt during a pause: it is retried after it.
pub(super) fn paused(pause: Duration) -> End {
    End { after: Some(pause.as_secs() + 1), ..End::not(Sent::Retry, "WhatsApp asks for a pause") }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.advice(), self.why.as_str()) {
            ("", "") => write!(f, "WhatsApp refused it ({})", self.code),
            ("", why) => write!(f, "WhatsApp says: {why} ({})", self.code),
            (advice, _) => write!(f, "{advice} ({})", self.code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(code: i64) -> Failure {
        Failure { code, why: "no".to_owned() }
    }

    #[test]
    fn errors_end_attempts() {
        for (code, status, expected) in [
            (190, Some(400), Kind::Token),
            (0, Some(401), Kind::Token),
            (-1, Some(401), Kind::Token),
            (0, Some(400), Kind::Refusal),
            (131_056, Some(400), Kind::Pause(PAUSE_TO_ONE)),
            (-1, Some(429), Kind::Pause(PAUSE)),
            (131_000, Some(500), Kind::Fault),
            (-1, Some(502), Kind::Fault),
            (131_047, Some(400), Kind::Refusal),
            (100, Some(400), Kind::Refusal),
        ] {
            assert_eq!(of(code).kind(status), expected, "{code} {status:?}");
        }
        let end = |code| (of(code).end().result, of(code).end().after);
        assert_eq!((end(131_047), end(131_026)), ((Sent::Rejected, None), (Sent::Rejected, None)));
        assert_eq!((end(131_000), end(131_056)), ((Sent::Retry, None), (Sent::Retry, Some(7))));
        assert!(of(131_047).to_string().contains("they must write first"));
        assert_eq!(of(7).to_string(), "WhatsApp says: no (7)");
    }

    #[test]
    fn errors_are_read_wherever_they_say_why() {
        let details = json!({ "code": 131_047, "title": "t", "error_data": { "details": "more\nthan 24 hours" } });
        assert_eq!(Failure::read(&details), Failure { code: 131_047, why: "morethan 24 hours".to_owned() });
        assert_eq!(Failure::read(&json!({ "code": "x", "message": 7, "title": "t" })).why, "t");
        assert_eq!(Failure::read(&Value::Null), Failure { code: -1, why: String::new() });
    }
}
