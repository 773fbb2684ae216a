//! A directory as found on disk, and checked paths over the socket.

use serde::{Deserialize, Deserializer, Serialize};

use super::workspace::Witness;

/// A directory as found on disk, with what is needed to find its workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceSight {
    /// Canonical path, raw bytes; the path as given if it cannot be resolved.
    #[serde(deserialize_with = "path")]
    pub path: Vec<u8>,
    /// Its identity; none if it does not exist.
    pub witness: Option<Witness>,
    /// Root of the repository that contains it, raw bytes.
    #[serde(deserialize_with = "path_option")]
    pub project: Option<Vec<u8>>,
    /// Other workspace paths that lead to the same directory now.
    #[serde(deserialize_with = "paths")]
    pub also_at: Vec<Vec<u8>>,
}

/// Whether bytes can be a path.
#[must_use]
pub fn is_path(bytes: &[u8]) -> bool {
    !bytes.is_empty() && !bytes.contains(&0)
}

fn checked<E: serde::de::Error>(bytes: Vec<u8>) -> Result<Vec<u8>, E> {
    if is_path(&bytes) { Ok(bytes) } else { Err(E::custom("invalid path")) }
}

/// Parses the bytes of a path.
pub(super) fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    checked(Deserialize::deserialize(deserializer)?)
}

fn path_option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
    Option::deserialize(deserializer)?.map(checked).transpose()
}

fn paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<u8>>, D::Error> {
    Vec::<Vec<u8>>::deserialize(deserializer)?.into_iter().map(checked).collect()
}
