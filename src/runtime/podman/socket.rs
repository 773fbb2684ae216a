//! Finds Podman's socket, by the same rule for running agents and for building images.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use super::Unusable;
use crate::runtime::process::Lookup;

/// Socket of the system-wide service.
const ROOTFUL: &str = "/run/podman/podman.sock";

/// The socket: the first candidate that accepts a connection. The only candidate is the socket that `CONTAINER_HOST`
/// names. Without that variable, these are the user's own socket and the system-wide one. For root the system-wide one
/// comes first.
///
/// # Errors
/// [`Unusable::Host`] if the variable names no Unix socket, [`Unusable::NoSocket`] if no candidate accepts a
/// connection.
pub(super) fn find(lookup: &Lookup) -> Result<PathBuf, Unusable> {
    let candidates = match named(lookup)? {
        Some(path) => vec![path],
        None => usual(lookup, rustix::process::geteuid().as_raw()),
    };
    let mut tried = Vec::new();
    for path in candidates {
        match UnixStream::connect(&path) {
            Ok(_) => return Ok(path),
            Err(error) => tried.push(format!("{} ({error})", path.display())),
        }
    }
    Err(Unusable::NoSocket { tried: tried.join(" or ") })
}

fn named(lookup: &Lookup) -> Result<Option<PathBuf>, Unusable> {
    let Some(host) = lookup("CONTAINER_HOST").filter(|host| !host.is_empty()) else { return Ok(None) };
    let path = host.as_bytes().strip_prefix(b"unix://").filter(|path| path.first() == Some(&b'/'));
    let path = path.map(|path| PathBuf::from(OsStr::from_bytes(path)));
    path.map(Some).ok_or_else(|| Unusable::Host { value: host.to_string_lossy().into_owned() })
}

/// The default locations, in order of preference.
fn usual(lookup: &Lookup, uid: u32) -> Vec<PathBuf> {
    let runtime = lookup("XDG_RUNTIME_DIR").filter(|directory| !directory.is_empty()).map(PathBuf::from);
    let own = runtime.unwrap_or_else(|| PathBuf::from(format!("/run/user/{uid}"))).join("podman/podman.sock");
    let mut places = vec![own, PathBuf::from(ROOTFUL)];
    if uid == 0 {
        places.reverse();
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;

    fn lookup(host: Option<String>, runtime: Option<PathBuf>) -> Lookup {
        Arc::new(move |name| match name {
            "CONTAINER_HOST" => host.clone().map(Into::into),
            "XDG_RUNTIME_DIR" => runtime.clone().map(Into::into),
            _ => None,
        })
    }

    #[test]
    fn the_variable_wins_and_must_name_a_unix_socket() {
        let directory = tempfile::tempdir().unwrap();
        let (path, own) = (directory.path().join("named"), directory.path().join("podman/podman.sock"));
        std::fs::create_dir(directory.path().join("podman")).unwrap();
        let _both = [&path, &own].map(|path| UnixListener::bind(path).unwrap());
        let runtime = || Some(directory.path().to_owned());
        let named = format!("unix://{}", path.display());
        assert_eq!(find(&lookup(Some(named), runtime())).unwrap(), path);
        let error = find(&lookup(Some("unix:///a/b.sock".to_owned()), runtime())).unwrap_err().to_string();
        assert!(error.contains("at /a/b.sock (No such file") && !error.contains(ROOTFUL), "{error}");
        for host in ["tcp://127.0.0.1:8080", "ssh://root@host/run/podman.sock", "/a/b.sock", "unix://b.sock", "unix://"]
        {
            let error = find(&lookup(Some(host.to_owned()), None)).unwrap_err();
            assert!(matches!(&error, Unusable::Host { value } if value == host), "{host}");
            assert!(error.to_string().contains("unix:///"), "{error}");
        }
    }

    #[test]
    fn users_have_one_of_their_own_and_root_has_the_machines() {
        let (own, machine) = ("/x/podman/podman.sock", ROOTFUL);
        let there = || lookup(Some(String::new()), Some("/x".into()));
        assert_eq!(usual(&there(), 1000), [own, machine].map(PathBuf::from));
        assert_eq!(usual(&there(), 0), [machine, own].map(PathBuf::from));
        assert_eq!(usual(&lookup(None, None), 1000), ["/run/user/1000/podman/podman.sock", machine].map(PathBuf::from));
    }

    #[test]
    fn the_error_says_of_each_candidate_why_it_cannot_be_used() {
        if PathBuf::from(ROOTFUL).exists() {
            eprintln!("SKIPPED: this machine has a Podman of its own");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("podman/podman.sock");
        let there = || lookup(None, Some(directory.path().into()));
        let error = || find(&there()).unwrap_err().to_string();
        for path in [ROOTFUL, own.to_str().unwrap()] {
            assert!(error().contains(&format!("{path} (No such file")), "{}", error());
        }
        std::fs::create_dir(directory.path().join("podman")).unwrap();
        drop(UnixListener::bind(&own).unwrap());
        assert!(error().contains(&format!("{} (Connection refused", own.display())), "{}", error());
        std::fs::remove_file(&own).unwrap();
        let _listens = UnixListener::bind(&own).unwrap();
        assert_eq!(find(&there()).unwrap(), own);
    }
}
