//! What agents get instead of keys. A placeholder is derived from a key of the installation, so a restarted daemon knows
//! it without having stored it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::clock;
use crate::model::gateway::KeyVariable;
use crate::model::id::SessionId;

/// Length of the installation's key in bytes.
const KEY_BYTES: usize = 32;
/// Length of the unguessable part of a placeholder in bytes.
const BYTES: usize = 16;

/// The key from which placeholders are derived.
#[derive(Clone)]
pub(super) struct Seed(Hmac<Sha256>);

impl Seed {
    /// Reads the key, or creates it. Only this user can read the file.
    ///
    /// # Errors
    /// If the file cannot be read or created, or has another length.
    pub(super) fn of_installation(path: &Path) -> io::Result<Self> {
        let key = match read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(path)?,
            found => found?,
        };
        Hmac::new_from_slice(&key).map(Self).map_err(io::Error::other)
    }

    /// What an incarnation gets instead of the value of a variable.
    pub(super) fn placeholder(&self, session: SessionId, incarnation: u32, variable: &KeyVariable) -> String {
        format!("{}hearth-{}", variable.begins, self.digits(&format!("{session}.{incarnation}")))
    }

    /// What an incarnation gets instead of the value of a bound secret.
    pub(super) fn of_secret(&self, session: SessionId, incarnation: u32, secret: &str) -> String {
        format!("hearth-{secret}-{}", self.digits(&format!("{session}.{incarnation}.secret.{secret}")))
    }

    fn digits(&self, of: &str) -> String {
        let mut sum = self.0.clone();
        sum.update(of.as_bytes());
        let sum = sum.finalize().into_bytes();
        sum.iter().take(BYTES).map(|byte| format!("{byte:02x}")).collect()
    }
}

fn read(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let mut text = Vec::new();
    File::open(path)?.take(KEY_BYTES as u64 + 1).read_to_end(&mut text)?;
    let wrong =
        |_| io::Error::other(format!("it does not have {KEY_BYTES} bytes; remove it, and Hearth makes another one"));
    <[u8; KEY_BYTES]>::try_from(text).map_err(wrong)
}

/// Written under another name first, so that a crash leaves no short file.
fn create(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let key = clock::entropy::<KEY_BYTES>()?;
    let new = path.with_extension("new");
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(&key)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::model::gateway::KEY_VARIABLES;

    #[test]
    fn placeholders_outlive_the_daemon_and_differ_by_incarnation() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.key");
        let seed = Seed::of_installation(&path).unwrap();
        let of = |seed: &Seed, session, incarnation| {
            seed.placeholder(SessionId::new(session), incarnation, &KEY_VARIABLES[0])
        };
        let first = of(&seed, 4, 1);
        assert!(first.starts_with("sk-ant-api03-hearth-"), "{first}");
        assert_eq!(first.len(), "sk-ant-api03-hearth-".len() + 2 * BYTES);
        assert_eq!(of(&Seed::of_installation(&path).unwrap(), 4, 1), first);
        for other in [of(&seed, 4, 2), of(&seed, 41, 1), of(&seed, 5, 1)] {
            assert_ne!(other, first);
        }
        let secret = |session, incarnation, name: &str| seed.of_secret(SessionId::new(session), incarnation, name);
        let ours = secret(4, 1, "github");
        assert!(ours.starts_with("hearth-github-"), "{ours}");
        assert_eq!(secret(4, 1, "github"), ours);
        let digits = |text: &str| text.rsplit('-').next().unwrap().to_owned();
        for other in [secret(4, 2, "github"), secret(5, 1, "github"), secret(4, 1, "gitlab"), first.clone()] {
            assert_ne!(digits(&other), digits(&ours));
        }
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let elsewhere = Seed::of_installation(&directory.path().join("other.key")).unwrap();
        assert_ne!(of(&elsewhere, 4, 1), first);
    }

    #[test]
    fn a_damaged_key_is_no_key() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.key");
        for damaged in ["", "short", &"x".repeat(KEY_BYTES + 1)] {
            std::fs::write(&path, damaged).unwrap();
            assert!(Seed::of_installation(&path).is_err());
        }
    }
}
