//! The recovery key: `hearth-matrix recovery` makes it, and its file is the only place where it is.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use matrix_sdk_crypto::store::types::BackupDecryptionKey;
use zeroize::Zeroizing;

/// `hearth-matrix recovery`: writes a new key into a new file that only its owner can read.
///
/// # Errors
/// If the file exists or cannot be written.
pub fn recovery(path: &Path) -> io::Result<()> {
    let why = |error: io::Error| io::Error::other(format!("{} cannot be written: {error}", path.display()));
    // Both kinds of keys are 32 random bytes, and are written in the same way.
    let key = Zeroizing::new(format!("{}\n", BackupDecryptionKey::new().to_base58()));
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path).map_err(why)?;
    file.write_all(key.as_bytes()).and_then(|()| file.sync_all()).map_err(why)?;
    writeln!(
        io::stdout(),
        "The recovery key is in {0}. Keep a copy of it elsewhere, and add `secret = \"file:{0}\"` to the channel.",
        path.display()
    )
}

/// Checks what the channel gives as the recovery key.
pub(crate) fn checked(key: &str) -> Result<Zeroizing<String>, String> {
    match BackupDecryptionKey::from_base58(key) {
        Ok(_) => Ok(Zeroizing::new(key.to_owned())),
        // The error could name parts of it.
        Err(_) => Err("`secret` is no recovery key; make one with `hearth-matrix recovery FILE`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_written_once_and_for_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        recovery(&path).unwrap();
        let key = std::fs::read_to_string(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(checked(key.trim()).unwrap().as_str(), key.trim());
        assert!(recovery(&path).is_err() && std::fs::read_to_string(&path).unwrap() == key, "it is kept");
        assert!(checked("x").is_err() && checked(&key.trim()[1..]).is_err());
    }
}
