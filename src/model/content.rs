//! What is said: the fields the engine reads, and the platform's payload as it came.

use serde::{Deserialize, Serialize};

use super::address::ForeignId;

/// Validated JSON text, kept as received. Whoever makes one has parsed it once and bounded its size.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RawJson(String);

/// The payload of an inbound message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// `text` of the payload; empty when it has none.
    pub text: String,
    /// The adapter's id of the sender: the only source of an identity.
    pub sender: Option<ForeignId>,
    /// How the sender is called; shown, never trusted.
    pub sender_name: Option<String>,
    /// The whole payload: an object.
    pub raw: RawJson,
}

impl RawJson {
    /// Wraps a text that its maker has parsed as JSON.
    #[must_use]
    pub fn trusted(text: String) -> Self {
        Self(text)
    }

    /// The JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
