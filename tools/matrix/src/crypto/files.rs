//! Encrypted files: each has a key of its own, which its message tells.

use std::fs::File;
use std::io;
use std::path::Path;

use matrix_sdk_crypto::{AttachmentDecryptor, AttachmentEncryptor, MediaEncryptionInfo};
use serde_json::Value;

/// Encrypts a file into a new one: what its message has to tell.
pub(crate) fn seal_file(from: &Path, to: &Path) -> io::Result<Value> {
    let mut file = File::open(from)?;
    let mut sealed = AttachmentEncryptor::new(&mut file);
    io::copy(&mut sealed, &mut File::create(to)?)?;
    serde_json::to_value(sealed.finish()).map_err(io::Error::other)
}

/// Decrypts a file into a new one by what its message tells. If it was changed, nothing is left.
pub(crate) fn open_file(from: &Path, to: &Path, told: &Value) -> io::Result<()> {
    let info: MediaEncryptionInfo = serde_json::from_value(told.clone()).map_err(io::Error::other)?;
    let mut file = File::open(from)?;
    let mut opened = AttachmentDecryptor::new(&mut file, info).map_err(io::Error::other)?;
    let copied = io::copy(&mut opened, &mut File::create_new(to)?);
    if copied.is_err() {
        drop(std::fs::remove_file(to));
    }
    copied.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_by_its_key_and_only_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let [plain, sealed, opened] = ["plain", "sealed", "opened"].map(|name| directory.path().join(name));
        std::fs::write(&plain, b"some words").unwrap();
        let told = seal_file(&plain, &sealed).unwrap();
        let mut bytes = std::fs::read(&sealed).unwrap();
        assert!(bytes.len() == 10 && bytes != b"some words");
        open_file(&sealed, &opened, &told).unwrap();
        assert_eq!(std::fs::read(&opened).unwrap(), b"some words");
        std::fs::remove_file(&opened).unwrap();
        bytes[3] ^= 1;
        std::fs::write(&sealed, &bytes).unwrap();
        assert!(open_file(&sealed, &opened, &told).is_err() && !opened.exists());
        assert!(open_file(&sealed, &opened, &serde_json::json!({"v": "v1", "key": 7})).is_err());
    }
}
