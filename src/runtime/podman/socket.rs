//! Where Podman listens.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::Unusable;
use crate::runtime::process::Lookup;

/// Where the service of the whole machine listens.
const ROOTFUL: &str = "/run/podman/podman.sock";

/// The socket: the one that `CONTAINER_HOST` names, the user's own, or the machine's.
///
/// # Errors
/// [`Unusable::Host`] if the variable names no Unix socket, [`Unusable::NoSocket`] if there is none.
pub(super) fn find(lookup: &Lookup) -> Result<PathBuf, Unusable> {
    if let Some(host) = lookup("CONTAINER_HOST").filter(|host| !host.is_empty()) {
        let path = host.as_bytes().strip_prefix(b"unix://").filter(|path| path.first() == Some(&b'/'));
        return path
            .map(|path| PathBuf::from(OsStr::from_bytes(path)))
            .ok_or_else(|| Unusable::Host { value: host.to_string_lossy().into_owned() });
    }
    let own = lookup("XDG_RUNTIME_DIR").filter(|directory| !directory.is_empty());
    let own = own.map(|directory| PathBuf::from(directory).join("podman/podman.sock"));
    let places: Vec<PathBuf> = own.into_iter().chain([PathBuf::from(ROOTFUL)]).collect();
    places.iter().find(|place| place.exists()).cloned().ok_or(Unusable::NoSocket { places })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn with(host: Option<&'static str>, runtime: Option<PathBuf>) -> Result<PathBuf, Unusable> {
        let lookup: Lookup = Arc::new(move |name| match name {
            "CONTAINER_HOST" => host.map(Into::into),
            "XDG_RUNTIME_DIR" => runtime.clone().map(Into::into),
            _ => None,
        });
        find(&lookup)
    }

    #[test]
    fn the_variable_wins_and_must_name_a_unix_socket() {
        assert_eq!(with(Some("unix:///a/b.sock"), None).unwrap(), PathBuf::from("/a/b.sock"));
        for host in ["tcp://127.0.0.1:8080", "ssh://root@host/run/podman.sock", "/a/b.sock", "unix://b.sock", "unix://"]
        {
            let error = with(Some(host), None).unwrap_err();
            assert!(matches!(&error, Unusable::Host { value } if value == host), "{host}");
            assert!(error.to_string().contains("unix:///"), "{error}");
        }
    }

    #[test]
    fn the_users_own_comes_before_the_machines() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("podman")).unwrap();
        let own = directory.path().join("podman/podman.sock");
        let error = with(Some(""), Some(directory.path().into())).err();
        assert!(error.is_none_or(|error| error.to_string().contains("podman.sock")));
        std::fs::write(&own, "").unwrap();
        assert_eq!(with(None, Some(directory.path().into())).unwrap(), own);
    }
}
