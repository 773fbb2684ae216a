//! The operator's allow-list of directories and files that agents may see, read anew for every check.
//!
//! The file is `mount-allowlist.json` in Hearth's configuration directory, outside of the data directory:
//! `{"allowedRoots": [{"path", "allowReadWrite", "description"?}], "blockedPatterns"?: […]}`. Paths that no list can
//! allow are rejected first (`never`). Other users' homes are not rejected as such: the list has to name them, and what
//! the user who runs Hearth cannot read stays unreadable.
//!
//! This is NanoClaw's allow-list: same file, same order of checks, same reasons. Intended differences: patterns match
//! whole components of a path in any case (see `blocks`), some paths are never shown, and nothing is cached.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::config::Paths;
use crate::model::entity::{Access, ExtraMount};
use crate::model::mount::{EXTRA, Mount, container_path};

/// Longest file that is read.
const FILE_MAX: u64 = 1 << 20;

/// Names that are always blocked. The first seventeen are NanoClaw's.
const BLOCKED: [&str; 25] = [
    ".ssh",
    ".gnupg",
    ".gpg",
    ".aws",
    ".azure",
    ".gcloud",
    ".kube",
    ".docker",
    "credentials",
    ".env",
    ".netrc",
    ".npmrc",
    ".pypirc",
    "id_rsa",
    "id_ed25519",
    "private_key",
    ".secret",
    ".secrets",
    ".envrc",
    ".git-credentials",
    ".pgpass",
    ".password-store",
    "id_dsa",
    "id_ecdsa",
    "gcloud",
];

/// System directories: they, their content and their parents are never shown. `/run` contains the sockets of container
/// engines and of the user's session.
const SYSTEM: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

/// Result of checking a declared mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountDecision {
    /// The agent sees it.
    Allowed(Allowed),
    /// The agent does not see it; the reason is for people.
    Refused(String),
}

/// A mount that the list allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// What to mount; links are resolved.
    pub mount: Mount,
    /// The root it lies under, and a note if it is read-only although it was declared otherwise.
    pub reason: String,
}

/// The content of an allow-list.
#[derive(Debug)]
struct List {
    roots: Vec<Root>,
    blocked: Vec<String>,
}

#[derive(Debug)]
struct Root {
    path: String,
    writable: bool,
    description: Option<String>,
}

/// Checks mounts against the current list, in their order.
#[must_use]
pub fn judge(paths: &Paths, mounts: &[ExtraMount]) -> Vec<MountDecision> {
    if mounts.is_empty() {
        return Vec::new();
    }
    let list = read(paths);
    let one = |mount: &ExtraMount| {
        list.as_ref()
            .map_err(Clone::clone)
            .and_then(|list| validate(paths, list, mount))
            .unwrap_or_else(MountDecision::Refused)
    };
    mounts.iter().map(one).collect()
}

/// Reads the file. The error is the reason why all mounts are rejected.
fn read(paths: &Paths) -> Result<List, String> {
    let Some(path) = paths.mount_allowlist() else {
        return Err("No mount allowlist configured: HOME is not set".to_owned());
    };
    let shown = path.display();
    let wrong = |what: String| format!("Mount allowlist at {shown} cannot be used: {what}");
    let found = match std::fs::metadata(&path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(format!("No mount allowlist configured at {shown}"));
        }
        Err(error) => return Err(wrong(error.to_string())),
    };
    if !found.is_file() || found.len() > FILE_MAX {
        return Err(wrong(format!("it must be a file of at most {FILE_MAX} bytes")));
    }
    if found.mode() & 0o022 != 0 {
        return Err(wrong(format!("others can change it; run `chmod go-w {shown}`")));
    }
    if path.starts_with(paths.data()) {
        return Err(wrong("it lies in the data directory, where agents work; set XDG_CONFIG_HOME".to_owned()));
    }
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
    parse(&text).map_err(wrong)
}

/// Checks a text as an allow-list and returns the number of its roots.
///
/// # Errors
/// What is wrong with it.
pub fn check(text: &str) -> Result<usize, String> {
    parse(text).map(|list| list.roots.len())
}

fn parse(text: &str) -> Result<List, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let array = |key: &str| value.get(key).and_then(Value::as_array).ok_or_else(|| format!("{key} must be an array"));
    let root = |(at, root): (usize, &Value)| {
        let text = |key: &str| root.get(key).and_then(Value::as_str).map(str::to_owned);
        let path = text("path").ok_or_else(|| format!("allowedRoots[{at}].path must be a string"))?;
        let writable = match root.get("allowReadWrite") {
            None => false,
            Some(writable) => {
                writable.as_bool().ok_or_else(|| format!("allowedRoots[{at}].allowReadWrite must be true or false"))?
            }
        };
        Ok::<_, String>(Root { path, writable, description: text("description") })
    };
    let roots = array("allowedRoots")?.iter().enumerate().map(root).collect::<Result<_, _>>()?;
    let pattern = |(at, pattern): (usize, &Value)| {
        pattern.as_str().map(str::to_owned).ok_or_else(|| format!("blockedPatterns[{at}] must be a string"))
    };
    let patterns = if value.get("blockedPatterns").is_some() { array("blockedPatterns")?.as_slice() } else { &[] };
    let own = patterns.iter().enumerate().map(pattern).collect::<Result<Vec<_>, _>>()?;
    Ok(List { roots, blocked: BLOCKED.map(str::to_owned).into_iter().chain(own).collect() })
}

/// Checks one mount, in NanoClaw's order.
fn validate(paths: &Paths, list: &List, mount: &ExtraMount) -> Result<MountDecision, String> {
    let target = container_path(mount).map_err(|path| {
        format!("Invalid container path: \"{path}\" - must be relative, non-empty, and not contain \"..\"")
    })?;
    let expanded = expand(paths, &mount.host_path);
    let missing =
        |_| format!("Host path does not exist: \"{}\" (expanded: \"{}\")", mount.host_path, expanded.display());
    let real = expanded.canonicalize().map_err(missing)?;
    if let Some(why) = never(paths, &real) {
        return Err(format!("Path is never shown to agents, because {why}: \"{}\"", real.display()));
    }
    if let Some(pattern) = list.blocked.iter().find(|pattern| blocks(pattern, &real)) {
        return Err(format!("Path matches blocked pattern \"{pattern}\": \"{}\"", real.display()));
    }
    let Some(root) = list.roots.iter().find(|root| contains(&expand(paths, &root.path), &real)) else {
        let roots: Vec<String> =
            list.roots.iter().map(|root| expand(paths, &root.path).display().to_string()).collect();
        let roots = roots.join(", ");
        return Err(format!("Path \"{}\" is not under any allowed root. Allowed roots: {roots}", real.display()));
    };
    same_when_opened(&real)?;
    let writable = mount.access == Access::ReadWrite && root.writable;
    let mut reason = format!("Allowed under root \"{}\"", root.path);
    if let Some(description) = &root.description {
        reason.push_str(&format!(" ({description})"));
    }
    if mount.access == Access::ReadWrite && !writable {
        reason.push_str(", read-only because the root does not allow more");
    }
    let access = if writable { Access::ReadWrite } else { Access::ReadOnly };
    let target = Path::new(EXTRA).join(target);
    Ok(MountDecision::Allowed(Allowed { mount: Mount { source: real, target, access }, reason }))
}

/// Expands `~` and `~/…` to the home of the user who runs Hearth.
fn expand(paths: &Paths, path: &str) -> PathBuf {
    let home = || paths.user_home().map(Path::to_owned).unwrap_or_default();
    match path.strip_prefix('~') {
        Some("") => home(),
        Some(rest) if rest.starts_with('/') => home().join(rest.trim_start_matches('/')),
        _ => PathBuf::from(path),
    }
}

/// Whether a root contains a path. A missing root contains nothing.
fn contains(root: &Path, real: &Path) -> bool {
    root.is_absolute() && root.canonicalize().is_ok_and(|root| real.starts_with(root))
}

/// Why a path is shown to no agent, whatever the list says.
fn never(paths: &Paths, real: &Path) -> Option<&'static str> {
    let meets = |place: &Path| {
        let place = place.canonicalize().unwrap_or_else(|_| place.to_owned());
        real.starts_with(&place) || place.starts_with(real)
    };
    if meets(paths.data()) {
        return Some("it contains Hearth's data, or is inside of it");
    }
    if paths.config().is_some_and(meets) {
        return Some("it contains the allow-list, or is inside of it");
    }
    if SYSTEM.iter().any(|place| meets(Path::new(place))) {
        return Some("it belongs to the system");
    }
    if real.to_str().is_none_or(|path| path.chars().any(char::is_control)) {
        return Some("its path is not plain text");
    }
    let kind = std::fs::symlink_metadata(real).map(|found| found.file_type());
    match kind {
        Ok(kind) if kind.is_socket() => Some("it is a socket through which an agent could control a program outside"),
        Ok(kind) if !kind.is_dir() && !kind.is_file() => Some("it is neither a directory nor a file"),
        Ok(_) => None,
        Err(_) => Some("it cannot be examined"),
    }
}

/// Whether a file or directory of this name is never mounted for agents, because it usually holds credentials.
pub(super) fn is_credential(name: &str) -> bool {
    BLOCKED.iter().any(|pattern| blocks(pattern, Path::new(name)))
}

/// Whether a pattern blocks a path. It does if a component of the path, in any case, equals the pattern; or begins with
/// it, followed by `.`, `_` or `~` (`.env.local`, `credentials.json`, `id_rsa_work`, `.netrc~`); or, if the pattern
/// begins with a dot, ends with it (`prod.env`). A pattern with slashes matches that many components in a row.
fn blocks(pattern: &str, real: &Path) -> bool {
    let wanted: Vec<String> = pattern.split('/').filter(|part| !part.is_empty()).map(str::to_lowercase).collect();
    let parts: Vec<String> = real
        .components()
        .filter_map(|part| match part {
            std::path::Component::Normal(part) => Some(part.to_string_lossy().to_lowercase()),
            _ => None,
        })
        .collect();
    let alike = |(wanted, part): (&String, &String)| {
        let goes_on =
            part.strip_prefix(wanted.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '_', '~']));
        goes_on || (wanted.starts_with('.') && part.ends_with(wanted.as_str()))
    };
    !wanted.is_empty() && parts.windows(wanted.len()).any(|parts| wanted.iter().zip(parts).all(alike))
}

/// Opens a resolved path without following any link, and checks that it is still the path that was checked.
#[cfg(target_os = "linux")]
fn same_when_opened(real: &Path) -> Result<(), String> {
    use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
    use std::os::fd::AsRawFd as _;
    let changed = || format!("Path changed while it was checked: \"{}\"", real.display());
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = rustix::fs::openat2(rustix::fs::CWD, real, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    let opened = match opened {
        Ok(opened) => opened,
        // Before Linux 5.6 only the last component can be checked for being a link.
        Err(rustix::io::Errno::NOSYS) => {
            rustix::fs::open(real, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(|_| changed())?
        }
        Err(_) => return Err(changed()),
    };
    let kind = rustix::fs::fstat(&opened).map(|stat| FileType::from_raw_mode(stat.st_mode));
    if !matches!(kind, Ok(FileType::Directory | FileType::RegularFile)) {
        return Err(changed());
    }
    let now = std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).map_err(|_| changed())?;
    if now.as_os_str().as_bytes() == real.as_os_str().as_bytes() { Ok(()) } else { Err(changed()) }
}

#[cfg(not(target_os = "linux"))]
fn same_when_opened(real: &Path) -> Result<(), String> {
    let again = real.canonicalize().map_err(|error| error.to_string())?;
    let same = again.as_os_str().as_bytes() == real.as_os_str().as_bytes();
    same.then_some(()).ok_or_else(|| format!("Path changed while it was checked: \"{}\"", real.display()))
}

#[cfg(test)]
mod tests;
