//! Signatures: both sides sign requests with their shared secret.
//!
//! `X-Hearth-Timestamp` is the time in seconds since 1970. `X-Hearth-Signature` is `v1=` and the HMAC-SHA256, in hex,
//! of `<timestamp>.<body>`. Timestamps that differ from the local time by more than [`WINDOW_SECONDS`] are rejected.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::model::time::Timestamp;

/// Header with the time.
pub(super) const TIMESTAMP: &str = "x-hearth-timestamp";
/// Header with the signature.
pub(super) const SIGNATURE: &str = "x-hearth-signature";
/// Maximum difference between timestamp and local time: clock skew plus transmission.
pub(super) const WINDOW_SECONDS: i64 = 300;

/// Prefix of signatures of this version.
const VERSION: &str = "v1=";

/// Why a signature is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadSignature {
    /// A header is missing or malformed.
    #[error("the header {0} is missing or malformed; see the protocol of webhook channels")]
    Header(&'static str),
    /// The timestamp is too far from the local time.
    #[error("the timestamp is {0} seconds from the time here, at most {WINDOW_SECONDS} are accepted; set the clock")]
    Time(i64),
    /// The signature does not match the secret, timestamp and body.
    #[error("the signature does not belong to this secret, timestamp and body")]
    Wrong,
}

/// The shared secret. It is never shown.
#[derive(Clone)]
pub(super) struct Key(Hmac<Sha256>);

impl Key {
    /// Takes a secret. Rejects an empty one, which would protect nothing.
    pub(super) fn new(secret: &str) -> Option<Self> {
        let key = Hmac::new_from_slice(secret.as_bytes()).ok()?;
        (!secret.is_empty()).then_some(Self(key))
    }

    /// The values of both headers for a body that is sent now.
    pub(super) fn sign(&self, now: Timestamp, body: &[u8]) -> (String, String) {
        let timestamp = seconds(now).to_string();
        let sum = self.over(&timestamp, body).finalize().into_bytes();
        let hex: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
        (timestamp, format!("{VERSION}{hex}"))
    }

    /// Whether a body was signed with this secret recently. Takes constant time for wrong signatures.
    pub(super) fn check(&self, timestamp: &str, signature: &str, body: &[u8]) -> Result<(), BadSignature> {
        self.over(timestamp, body).verify_slice(&claimed(signature)?).map_err(|_| BadSignature::Wrong)
    }

    fn over(&self, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut sum = self.0.clone();
        sum.update(timestamp.as_bytes());
        sum.update(b".");
        sum.update(body);
        sum
    }
}

/// The digest that a signature claims. Needs neither secret nor body.
pub(super) fn claimed(signature: &str) -> Result<Vec<u8>, BadSignature> {
    let claimed = unhex(signature.strip_prefix(VERSION).unwrap_or_default());
    claimed.ok_or(BadSignature::Header("X-Hearth-Signature"))
}

/// Checks that a timestamp is recent. Needs neither secret nor body.
pub(super) fn check_time(timestamp: &str, now: Timestamp) -> Result<(), BadSignature> {
    let malformed = BadSignature::Header("X-Hearth-Timestamp");
    // `parse` would also accept a leading sign.
    if timestamp.is_empty() || !timestamp.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(malformed);
    }
    let claimed: i64 = timestamp.parse().map_err(|_| malformed)?;
    let apart = seconds(now).saturating_sub(claimed);
    if apart.saturating_abs() > WINDOW_SECONDS { Err(BadSignature::Time(apart)) } else { Ok(()) }
}

fn seconds(time: Timestamp) -> i64 {
    time.millis().div_euclid(1_000)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_millis(1_776_686_400_999);

    /// Another implementation (openssl) says the same:
    /// `printf '1776686400.{"a":1}' | openssl dgst -sha256 -hmac 'a shared secret'`.
    #[test]
    fn signatures_are_those_of_everybody_else() {
        let key = Key::new("a shared secret").unwrap();
        let (timestamp, signature) = key.sign(NOON, br#"{"a":1}"#);
        assert_eq!(timestamp, "1776686400");
        assert_eq!(signature, "v1=a19f5b734ed87c4ff3f0d0475b564baaade564267248e0690c8f892b3eb13976");
        assert_eq!(key.check(&timestamp, &signature, br#"{"a":1}"#), Ok(()));
        assert_eq!(key.check(&timestamp, &signature.to_uppercase().replace("V1", "v1"), br#"{"a":1}"#), Ok(()));
        assert!(Key::new("").is_none());
    }

    #[test]
    fn every_difference_counts() {
        let key = Key::new("a shared secret").unwrap();
        let (timestamp, signature) = key.sign(NOON, b"body");
        let check = |key: &Key, timestamp: &str, signature: &str, body: &[u8]| key.check(timestamp, signature, body);
        assert_eq!(check(&key, &timestamp, &signature, b"bodx"), Err(BadSignature::Wrong));
        assert_eq!(check(&key, "1776686401", &signature, b"body"), Err(BadSignature::Wrong));
        assert_eq!(check(&Key::new("another").unwrap(), &timestamp, &signature, b"body"), Err(BadSignature::Wrong));
        assert_eq!(check(&key, &timestamp, "v1=ab", b"body"), Err(BadSignature::Wrong), "too short");
        let malformed = Err(BadSignature::Header("X-Hearth-Signature"));
        for signature in ["", "v1=", "v1=a", "v1=zz", "v2=00", &signature[3..], "v1=é9", "v1= 1"] {
            assert_eq!(check(&key, &timestamp, signature, b"body"), malformed, "{signature}");
        }
    }

    #[test]
    fn five_minutes_either_way() {
        for (timestamp, expected) in [
            ("1776686400", Ok(())),
            ("1776686100", Ok(())),
            ("1776686700", Ok(())),
            ("1776686099", Err(BadSignature::Time(301))),
            ("1776686701", Err(BadSignature::Time(-301))),
            ("99999999999999999999", Err(BadSignature::Header("X-Hearth-Timestamp"))),
            ("", Err(BadSignature::Header("X-Hearth-Timestamp"))),
            ("-1", Err(BadSignature::Header("X-Hearth-Timestamp"))),
            ("+1776686400", Err(BadSignature::Header("X-Hearth-Timestamp"))),
            ("1776686400.5", Err(BadSignature::Header("X-Hearth-Timestamp"))),
            ("9223372036854775807", Err(BadSignature::Time(1_776_686_400 - i64::MAX))),
        ] {
            assert_eq!(check_time(timestamp, NOON), expected, "{timestamp}");
        }
    }
}
