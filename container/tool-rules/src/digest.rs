//! Digests of tool calls.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The SHA-256 digest of a tool's name and its input, in hexadecimal digits. Fields in another order make no difference.
#[must_use]
pub fn digest(tool: &str, input: &Value) -> String {
    let mut hasher = Sha256::new();
    hasher.update(tool.as_bytes());
    hasher.update([0]);
    hasher.update(input.to_string().as_bytes());
    let digits = |byte: u8| [byte >> 4, byte & 15].into_iter().filter_map(|digit| char::from_digit(digit.into(), 16));
    hasher.finalize().into_iter().flat_map(digits).collect()
}
