//! Checks a single request, its signature and its button, without a server. Pure.

use super::signature::{Key, check_time};
use super::wire::Pushed;
use crate::model::address::ChannelName;
use crate::model::input::Press;
use crate::model::time::Timestamp;

/// Whether the two headers prove that a body was signed with the secret, and recently.
///
/// # Errors
/// Why the signature is rejected.
pub fn check(secret: &str, timestamp: &str, signature: &str, body: &[u8], now: Timestamp) -> Result<(), String> {
    let key = Key::new(secret).ok_or("the secret is empty")?;
    check_time(timestamp, now).and_then(|()| key.check(timestamp, signature, body)).map_err(|bad| bad.to_string())
}

/// The two headers for a body that is sent now; `None` for an empty secret.
#[must_use]
pub fn sign(secret: &str, body: &[u8], now: Timestamp) -> Option<(String, String)> {
    Key::new(secret).map(|key| key.sign(now, body))
}

/// Reads the body of an action.
///
/// # Errors
/// What is wrong with it.
pub fn press(channel: &ChannelName, body: &[u8]) -> Result<Press, String> {
    Pushed::read(body).and_then(|pushed| pushed.press(channel))
}
