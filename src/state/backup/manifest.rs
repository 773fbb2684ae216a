//! The manifest of a backup.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Error, Result, files};
use crate::meta::Meta;
use crate::migrate;
use crate::model::Timestamp;

/// Its file in a backup.
pub(super) const MANIFEST: &str = "manifest.json";

/// Version of the manifest that this program writes.
const VERSION: u32 = 1;

/// Exceeds the size of any manifest.
const MAX_BYTES: u64 = 64 << 10;

/// The file `manifest.json` of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the manifest. The key identifies the file as one.
    pub hearth_backup: u32,
    /// Version of the Hearth that made it.
    pub hearth: String,
    /// Format of the store.
    pub format: u32,
    /// Id of the installation, 16 hex digits.
    pub install: String,
    /// When it was made, ISO 8601 in UTC.
    pub made: String,
    /// The data directory that was backed up.
    pub data: String,
    /// Rows of all tables.
    pub rows: u64,
    /// Size of the store's file.
    pub bytes: u64,
    /// SHA-256 of the store's file.
    pub sha256: String,
}

impl Manifest {
    pub(super) fn new(meta: &Meta, data: &Path, now: Timestamp, content: (u64, u64, String)) -> Self {
        let (rows, bytes, sha256) = content;
        Self {
            hearth_backup: VERSION,
            hearth: env!("CARGO_PKG_VERSION").to_owned(),
            format: meta.format,
            install: format!("{:016x}", meta.install),
            made: now.to_string(),
            data: data.display().to_string(),
            rows,
            bytes,
            sha256,
        }
    }

    pub(super) fn to_text(&self) -> Result<String> {
        let mut text = serde_json::to_string_pretty(self).map_err(Error::Manifest)?;
        text.push('\n');
        Ok(text)
    }

    /// Reads the manifest of a backup that this program can restore.
    ///
    /// # Errors
    /// [`Error::NotABackup`] and [`Error::Newer`].
    pub fn read(backup: &Path) -> Result<Self> {
        let not_one = |reason: String| Error::NotABackup { path: backup.to_owned(), reason };
        let bytes = files::read_short(&backup.join(MANIFEST), MAX_BYTES)
            .map_err(|error| not_one(format!("its {MANIFEST} cannot be read: {error}")))?;
        let value: serde_json::Value = serde_json::from_slice(&bytes)
            .map_err(|error| not_one(format!("its {MANIFEST} cannot be understood: {error}")))?;
        let newer = |what: String| Error::Newer { path: backup.to_owned(), what };
        match value.get("hearth_backup").and_then(serde_json::Value::as_u64) {
            None => return Err(not_one(format!("its {MANIFEST} does not belong to a backup"))),
            Some(version) if version > u64::from(VERSION) => {
                return Err(newer(format!(
                    "its manifest has version {version}, but this Hearth supports only version {VERSION}"
                )));
            }
            Some(_) => {}
        }
        let manifest: Self = serde_json::from_value(value)
            .map_err(|error| not_one(format!("its {MANIFEST} cannot be understood: {error}")))?;
        if manifest.format > migrate::FORMAT {
            let (found, known) = (manifest.format, migrate::FORMAT);
            return Err(newer(format!(
                "its store has format {found}, but this Hearth supports formats only up to {known}"
            )));
        }
        Ok(manifest)
    }
}
