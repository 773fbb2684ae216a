//! Secrets of setup: where they come from, and the files of mode 600 that keep them.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::cli::{Done, Failure};
use crate::config::Paths;
use crate::crash;

/// Longest secret in bytes.
const SECRET_MAX: u64 = 8 << 10;

/// Reads a secret from a file; `-` is standard input.
pub(super) fn read(file: &Path) -> Result<String, Failure> {
    let name = file.display();
    let mut text = String::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().take(SECRET_MAX + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(SECRET_MAX + 1).read_to_string(&mut text))
    };
    read.map_err(|error| Failure::Failed(format!("{name} cannot be read: {error}")))?;
    check(&text).map_err(|why| Failure::Failed(format!("{name} has no usable secret: {why}")))
}

/// The secret without surrounding white space.
///
/// # Errors
///
/// Why a text is not a secret. The reason does not repeat it.
pub(super) fn check(text: &str) -> Result<String, &'static str> {
    let secret = text.trim();
    match secret {
        "" => Err("it is empty"),
        long if u64::try_from(long.len()).is_ok_and(|bytes| bytes > SECRET_MAX) => Err("it is too long"),
        odd if !odd.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err("it has spaces or characters that no key or token has")
        }
        _ => Ok(secret.to_owned()),
    }
}

/// Stores a secret in its own file. Returns the reference for the configuration.
pub(super) fn keep(paths: &Paths, name: &str, secret: &str) -> Result<String, Failure> {
    let dir = paths.create_kept_secrets()?;
    let path = dir.join(name);
    write(&path, secret)?;
    Ok(format!("file:{}", path.display()))
}

/// Writes a private file: readers find the old text or the new one. The temporary file has a fixed name, so that the
/// next setup replaces a leftover.
pub(super) fn write(path: &Path, text: &str) -> Done {
    let put = || {
        let temporary = path.with_added_extension("new");
        crash::point("setup-write");
        match std::fs::remove_file(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        crash::point("setup-rename");
        std::fs::rename(&temporary, path)
    };
    put().map_err(|error| Failure::Failed(format!("{} cannot be written: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn secrets_are_private_files() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::find(Some(&dir.path().join("data"))).unwrap();
        for secret in ["sk-ant-1", "sk-ant-2"] {
            let reference = keep(&paths, "main.KEY", secret).unwrap();
            let path = Path::new(reference.strip_prefix("file:").unwrap());
            assert_eq!(std::fs::read_to_string(path).unwrap(), secret);
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
            assert_eq!(read(path).ok().unwrap(), secret);
        }
    }

    #[test]
    fn nonsense_is_no_secret() {
        assert_eq!(check(" sk-ant-1\n"), Ok("sk-ant-1".to_owned()));
        for text in ["", " \n", "two words", "a\u{1b}[A", "ключ", &"x".repeat(9_000)] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
