//! Unix sockets that single incarnations of agents see, each in a directory of its own.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::model::incarnation::IncarnationId;

/// Longest path of a socket. The kernel's limit is 107 bytes.
const PATH_MAX: usize = 100;

/// Listens in a directory, which is created if it is missing and belongs to `owner` alone. A daemon that was restarted
/// finds the directory where a container still sees it.
///
/// # Errors
/// The directory or the socket cannot be made.
pub(crate) fn listen(directory: &Path, name: &str, owner: Option<u32>) -> io::Result<UnixListener> {
    create(directory)?;
    let path = directory.join(name);
    remove_file(&path)?;
    let listener = bind(directory, name)?;
    listener.set_nonblocking(true)?;
    for path in owner.iter().flat_map(|_| [path.as_path(), directory]) {
        chown(path, owner, owner)?;
    }
    Ok(listener)
}

/// Creates a directory for its owner alone, unless it exists.
///
/// # Errors
/// The system's error.
pub(crate) fn create(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Removes a file, if it exists.
///
/// # Errors
/// The system's error.
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes a directory with these files. What cannot be removed is harmless: nothing listens there any more.
pub(crate) fn remove(directory: &Path, files: &[&str]) {
    let removed = files.iter().try_for_each(|name| remove_file(&directory.join(name)));
    if let Err(error) = removed.and_then(|()| std::fs::remove_dir(directory))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %directory.display(), %error, "cannot remove the directory of an agent's socket");
    }
}

/// The incarnations of sessions that have directories, which are named `SESSION.INCARNATION`.
pub(crate) fn incarnations_in(directory: &Path) -> Vec<IncarnationId> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let incarnation = |name: &str| {
        let (session, number) = name.split_once('.')?;
        Some(IncarnationId::new(session.parse().ok()?, number.parse().ok()?))
    };
    entries.filter_map(|entry| incarnation(entry.file_name().to_str()?)).collect()
}

/// Binds a socket whose path may be longer than an address can be.
fn bind(directory: &Path, name: &str) -> io::Result<UnixListener> {
    let path = directory.join(name);
    if path.as_os_str().len() <= PATH_MAX {
        return UnixListener::bind(path);
    }
    let (_open, short) = short_path(directory)?;
    UnixListener::bind(short.join(name))
}

/// A short path of a directory, valid while it is open.
#[cfg(target_os = "linux")]
fn short_path(directory: &Path) -> io::Result<(std::os::fd::OwnedFd, std::path::PathBuf)> {
    use std::os::fd::AsRawFd as _;

    use rustix::fs::{CWD, Mode, OFlags, openat};
    let open = openat(CWD, directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let short = Path::new("/proc/self/fd").join(open.as_raw_fd().to_string());
    Ok((open, short))
}

#[cfg(not(target_os = "linux"))]
fn short_path(_: &Path) -> io::Result<((), std::path::PathBuf)> {
    Err(io::Error::new(io::ErrorKind::InvalidFilename, "the path of the data directory is too long for a socket"))
}
