//! Small files in the data directory with results for `status` and for the next daemon.

use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Largest file that is read, in bytes.
pub(super) const BYTES_MAX: u64 = 64 << 10;

/// Reads a result; none if the file is missing or invalid.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let regular = std::fs::symlink_metadata(path).is_ok_and(|file| file.is_file() && file.len() <= BYTES_MAX);
    let text = regular.then(|| std::fs::read_to_string(path).ok())??;
    serde_json::from_str(&text).ok()
}

/// Saves a result atomically.
pub(super) fn write<T: Serialize>(path: &Path, result: &T) -> io::Result<()> {
    let next = path.with_extension("new");
    let text = serde_json::to_string(result)?;
    match std::fs::remove_file(&next) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&next, path)
}
