//! Serde as text, for fields of requests and answers whose types have a text form: ids, workspace keys, raw bytes.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes the text form.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Parses the text form.
///
/// # Errors
/// Those of the deserializer, and texts that cannot be parsed.
pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// For values that may be absent.
pub mod option {
    use super::{Deserialize, Deserializer, Display, FromStr, Serialize, Serializer};

    /// Writes the text form.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(ToString::to_string).serialize(serializer)
    }

    /// Parses the text form.
    ///
    /// # Errors
    /// Those of the deserializer, and texts that cannot be parsed.
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse()).transpose().map_err(serde::de::Error::custom)
    }
}

/// For keys of workspaces.
pub mod key {
    use super::{Deserialize, Deserializer, Serializer};
    use crate::model::workspace::{WorkspaceKey, key_text, parse_key};

    /// Writes the text form.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(key: &WorkspaceKey, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&key_text(*key))
    }

    /// Parses the text form.
    ///
    /// # Errors
    /// Those of the deserializer, and texts that cannot be parsed.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<WorkspaceKey, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bad = || serde::de::Error::custom(format!("`{text}` is not the key of a workspace"));
        parse_key(&text).ok_or_else(bad)
    }
}
