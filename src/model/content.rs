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

/// A file as the store of files knows it: the SHA-256 of its bytes in 64 lower-case hex digits, which is also its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlobId(String);

impl BlobId {
    /// The id of a digest.
    #[must_use]
    pub fn of_digest(digest: &[u8; 32]) -> Self {
        Self(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Takes a digest as it is written.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        (text.len() == 64 && text.bytes().all(hex)).then(|| Self(text.to_owned()))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A file that came with a message. Its bytes lie in the store of files before the message is taken in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// A safe file name, different from those of the message's other attachments.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// What the platform says it is.
    pub mime: Option<String>,
    /// Where its bytes are; none when they could not be had, and then why.
    pub blob: Result<BlobId, String>,
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
