//! The identity of an archive, and lists of what it omits.

use serde::{Deserialize, Serialize};

/// Version of the archive that this program writes.
pub(super) const VERSION: u32 = 1;

/// Number of omitted entries that are listed by name. Further ones are counted.
const LISTED_MAX: usize = 500;

/// Characters of a path that are shown.
const SHOWN_MAX: usize = 300;

/// The entry `backup.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Version of the archive format. The key identifies the file as an archive.
    pub hearth_archive: u32,
    /// Version of the Hearth that made it.
    pub hearth: String,
    /// Id of the installation, 16 hex digits.
    pub install: String,
    /// When it was made, ISO 8601 in UTC.
    pub made: String,
    /// The data directory that was backed up.
    pub data: String,
    /// Whether secrets are in it.
    pub with_secrets: bool,
}

impl Identity {
    /// The identity of a new archive.
    #[must_use]
    pub fn new(install: String, made: String, data: String, with_secrets: bool) -> Self {
        let hearth = env!("CARGO_PKG_VERSION").to_owned();
        Self { hearth_archive: VERSION, hearth, install, made, data, with_secrets }
    }
}

/// The entry `contents.json`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Contents {
    /// Number of entries before it.
    pub entries: u64,
    /// Bytes of the files in it.
    pub bytes: u64,
    /// SHA-256 of all headers and data before it.
    pub sha256: String,
    /// Secrets that were left out.
    pub secrets: Listed<String>,
    /// What else was left out, with the reasons.
    pub skipped: Listed<Skipped>,
}

/// An omitted entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Path in the data directory.
    pub path: String,
    /// The reason, for people.
    pub why: String,
}

/// A list of bounded length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed<T> {
    /// The first ones.
    pub names: Vec<T>,
    /// Number of further ones.
    pub more: u64,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { names: Vec::new(), more: 0 }
    }
}

impl<T> Listed<T> {
    /// Whether the list has nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.more == 0
    }

    /// Number of all.
    #[must_use]
    pub fn count(&self) -> u64 {
        (self.names.len() as u64).saturating_add(self.more)
    }

    pub(super) fn add(&mut self, one: T) {
        if self.names.len() < LISTED_MAX {
            self.names.push(one);
        } else {
            self.more = self.more.saturating_add(1);
        }
    }
}

impl Contents {
    pub(super) fn skip(&mut self, path: &[u8], why: impl Into<String>) {
        self.skipped.add(Skipped { path: shown(path), why: why.into() });
    }

    pub(super) fn leave_out(&mut self, path: &[u8]) {
        self.secrets.add(shown(path));
    }
}

/// A path for people: one line of bounded length.
pub(super) fn shown(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    let mut shown: String = text.chars().take(SHOWN_MAX).flat_map(shown_char).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

fn shown_char(char: char) -> impl Iterator<Item = char> {
    let escaped = char.is_control().then(|| char.escape_default());
    let plain = escaped.is_none().then_some(char);
    escaped.into_iter().flatten().chain(plain)
}
