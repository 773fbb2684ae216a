//! Tokens of browsers, links and forms. A token is 256 random bits; only digests of it are kept.

use sha2::{Digest as _, Sha256};

use crate::clock;
use crate::model::console::TokenDigest;

/// Characters of a token: hexadecimal digits.
pub(super) const LENGTH: usize = 64;

/// A new token.
///
/// # Errors
/// If the system provides no random numbers.
pub fn new_token() -> std::io::Result<String> {
    Ok(hex(&clock::entropy::<{ LENGTH / 2 }>()?))
}

/// The digest of a token.
#[must_use]
pub fn digest(token: &str) -> TokenDigest {
    digest_bytes(token.as_bytes())
}

/// The digest of anything.
pub(super) fn digest_bytes(bytes: &[u8]) -> TokenDigest {
    Sha256::digest(bytes).into()
}

/// Whether a text has the form of a token.
pub(super) fn is_token(text: &str) -> bool {
    text.len() == LENGTH && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The token of a session's forms. It stays the same while the browser's token is replaced.
pub(super) fn of_forms(seed: TokenDigest) -> String {
    let mut sum = Sha256::new();
    sum.update(b"hearth console form");
    sum.update(seed);
    hex(&sum.finalize())
}

/// Whether two texts are equal, in a time that depends on their lengths alone.
pub(super) fn same(one: &str, other: &str) -> bool {
    // Digests hide where the texts differ.
    digest(one) == digest(other)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
