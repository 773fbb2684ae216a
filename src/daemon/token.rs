//! The socket's access token, in a file that agents cannot read.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::{Daemon, Error};
use crate::clock;
use crate::crash;

/// Length of a token in characters.
const LENGTH: usize = 64;

/// Creates a new token for each start, in a file that only its owner can read. On a full disk the previous token stays
/// in use, because the daemon has to start to free space.
pub(super) fn renew(path: &Path) -> Result<String, Error> {
    let bytes: [u8; LENGTH / 2] = clock::entropy().map_err(Error::Entropy)?;
    let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match write(path, &token) {
        Ok(()) => Ok(token),
        Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            last(path).ok_or_else(|| Error::Io { path: path.to_owned(), source: error })
        }
        Err(source) => Err(Error::Io { path: path.to_owned(), source }),
    }
}

impl Daemon {
    /// Recreates the daemon's runtime directory and its token file if they were removed.
    ///
    /// # Errors
    /// [`Error`] of the directory or the file.
    pub fn restore_token(&self) -> Result<(), Error> {
        let path = self.paths.token();
        if last(&path).is_some_and(|last| last == self.token) {
            return Ok(());
        }
        self.paths.create()?;
        write(&path, &self.token).map_err(|source| Error::Io { path, source })
    }
}

fn write(path: &Path, token: &str) -> std::io::Result<()> {
    let temporary = path.with_extension("new");
    crash::point("token-make");
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    crash::point("token-write");
    file.write_all(token.as_bytes())?;
    file.sync_all()?;
    crash::point("token-rename");
    std::fs::rename(&temporary, path)
}

/// The token of an earlier start, if it is complete.
fn last(path: &Path) -> Option<String> {
    let token = std::fs::read_to_string(path).ok()?;
    (token.len() == LENGTH && token.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_has_its_own_and_a_broken_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let first = renew(&path).unwrap();
        std::fs::write(path.with_extension("new"), "left by a crash").unwrap();
        let second = renew(&path).unwrap();
        assert_ne!(first, second);
        assert_eq!(last(&path).as_deref(), Some(second.as_str()));
        std::fs::write(&path, &second[1..]).unwrap();
        assert_eq!(last(&path), None);
    }
}
