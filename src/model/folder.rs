//! The folder of an agent group, which names it.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::short::Short;

/// Folder of an agent group: its identity for people, and the name of its directory.
///
/// Letters, digits, `_` and `-`, the first one a letter or digit, at most 64; `global` is reserved in any case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Folder(Short);

/// A text that cannot be a folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` cannot be an agent's folder: use 1 to 64 letters, digits, `_` or `-`, beginning with a letter or digit (`global` is reserved)"
)]
pub struct BadFolder {
    text: String,
}

impl Folder {
    /// Checks a folder name.
    ///
    /// # Errors
    /// [`BadFolder`] for every name that is not plainly one directory.
    pub fn new(text: impl Into<Short>) -> Result<Self, BadFolder> {
        let text = text.into();
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let valid = first && text.len() <= 64 && text.bytes().all(plain) && !text.eq_ignore_ascii_case("global");
        if valid { Ok(Self(text)) } else { Err(BadFolder { text: text.into() }) }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Folder {
    /// Validates a name that comes as text. A record's name is trusted.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let is_text = deserializer.is_human_readable();
        let text = Short::deserialize(deserializer)?;
        if is_text { Self::new(text).map_err(D::Error::custom) } else { Ok(Self(text)) }
    }
}

impl std::fmt::Display for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_single_plain_directories() {
        for text in ["main", "family-chat", "Team_42", "0", &"a".repeat(64)] {
            assert!(Folder::new(text).is_ok(), "{text}");
        }
        for text in [
            "../../etc",
            "/tmp",
            "global",
            "",
            "GLOBAL",
            " main",
            "main ",
            "-x",
            "_x",
            &"a".repeat(65),
            "a.b",
            "a b",
            "ä",
            "a\0",
        ] {
            assert!(Folder::new(text).is_err(), "{text:?}");
        }
    }
}
