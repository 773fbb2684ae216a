//! Tries a token by asking who its bot is, which changes nothing.

use std::time::Duration;

use serde_json::json;

use super::api::{Api, Failure, Unusable};
use super::wire::User;

/// Time limit of the call.
const TRIAL: Duration = Duration::from_secs(10);

/// The bot of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bot {
    pub id: i64,
    /// The name in its address, `t.me/NAME`.
    pub username: String,
    /// The name that people see.
    pub name: String,
}

/// Why a token cannot be used now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentifyError {
    /// Wrong form of token or address.
    #[error(transparent)]
    Unusable(#[from] Unusable),
    /// The call failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// Asks the server who the bot of this token is; without an address, Telegram's own server.
///
/// # Errors
/// [`IdentifyError`] with the reason, if the token cannot be used.
pub async fn identify(base_url: Option<&str>, token: &str) -> Result<Bot, IdentifyError> {
    let me: User = Api::new(base_url, token)?.call_within(TRIAL, "getMe", &json!({})).await?;
    Ok(Bot { id: me.id, username: me.username.unwrap_or_default(), name: me.first_name })
}
