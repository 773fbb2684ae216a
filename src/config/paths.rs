//! Paths: one data directory, and a socket that may have to be elsewhere.

use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use super::env;
use crate::model::entity::Folder;
use crate::model::id::SessionId;
use crate::model::workspace::Fingerprint;

mod contents;

pub use contents::Contents;

/// Longest path of a Unix socket on Linux (`sun_path` without its final NUL). macOS has 103, and a longer one fails
/// there with an error of the system.
const SOCKET_PATH_MAX: usize = 107;

/// All paths that Hearth uses. Derived once from `--data` and the environment. Nothing is created before
/// [`Paths::create`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    data: PathBuf,
    sockets: Vec<PathBuf>,
    private_tmp: PathBuf,
    config: Option<PathBuf>,
    home: Option<PathBuf>,
    instance: Option<String>,
    uid: u32,
}

/// Why a path cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadPlace {
    /// Neither `--data` nor the environment says where.
    #[error("there is no data directory: HOME is not set; specify one with --data DIR or HEARTH_DATA")]
    Nowhere,
    /// The directory belongs to another user.
    #[error(
        "{path} belongs to the user with id {owner}, not to {uid}: run Hearth as that user, or choose another directory with --data"
    )]
    Foreign {
        path: String,
        owner: u32,
        /// The current user.
        uid: u32,
    },
    /// Other users could change its content, or read what must be private.
    #[error("{path} is open to others (its mode is {mode:04o}): run `chmod {mend} {path}`")]
    Open {
        path: String,
        mode: u32,
        /// The change that closes it.
        mend: &'static str,
    },
    /// A directory of the system is open to others; it cannot be closed, because other programs need it as it is.
    #[error("{path} is open to others (its mode is {mode:04o}): choose a directory of Hearth's own with --data")]
    OpenSystem { path: String, mode: u32 },
    /// Not a directory: a file, a dangling link, a device.
    #[error("{path} is not a directory: move it away, or choose another directory with --data")]
    NotADirectory {
        /// What is there.
        path: String,
    },
    /// No path is short enough for a socket.
    #[error(
        "no usable place for the socket: {path} has {bytes} bytes, at most {max} are possible; use a shorter --data, or set XDG_RUNTIME_DIR",
        max = SOCKET_PATH_MAX
    )]
    SocketPath {
        /// The last place that was tried.
        path: String,
        bytes: usize,
    },
    /// The system reported an error.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        path: String,
        /// The system's error.
        source: io::Error,
    },
}

/// Inputs of the path rules, so that tests need not change the environment.
#[derive(Debug, Clone, Default)]
struct Sources {
    /// `--data`.
    flag: Option<PathBuf>,
    /// `HEARTH_DATA`.
    hearth_data: Option<PathBuf>,
    /// `XDG_DATA_HOME`; counts only if absolute.
    xdg_data: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`; counts only if absolute.
    xdg_config: Option<PathBuf>,
    /// `HOME`.
    home: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`, else where systemd puts it.
    runtime: Option<PathBuf>,
    /// Directory for the last resort, `/tmp`.
    tmp: PathBuf,
    /// Effective user.
    uid: u32,
}

impl Paths {
    /// Finds the places: `flag` is `--data`, then come `HEARTH_DATA`, `$XDG_DATA_HOME/hearth`, `~/.local/share/hearth`.
    ///
    /// # Errors
    /// [`BadPlace`] when there is nowhere to go, or no socket path is short enough.
    pub fn find(flag: Option<&Path>) -> Result<Self, BadPlace> {
        let uid = rustix::process::geteuid().as_raw();
        let runtime = env::path("XDG_RUNTIME_DIR").unwrap_or_else(|| format!("/run/user/{uid}").into());
        Self::decide(Sources {
            flag: flag.map(Path::to_owned),
            hearth_data: env::path("HEARTH_DATA"),
            xdg_data: env::path("XDG_DATA_HOME"),
            xdg_config: env::path("XDG_CONFIG_HOME"),
            home: env::path("HOME"),
            runtime: Some(runtime),
            tmp: "/tmp".into(),
            uid,
        })
    }

    fn decide(sources: Sources) -> Result<Self, BadPlace> {
        let Sources { flag, hearth_data, xdg_data, xdg_config, home, runtime, tmp, uid } = sources;
        let xdg = || xdg_data.as_ref().filter(|dir| dir.is_absolute()).map(|dir| dir.join("hearth"));
        let local = || home.as_ref().map(|home| home.join(".local/share/hearth"));
        let config =
            xdg_config.filter(|dir| dir.is_absolute()).or_else(|| home.as_ref().map(|home| home.join(".config")));
        let config = config.map(|dir| dir.join("hearth"));
        let usual = xdg().or_else(local);
        let data = flag.or(hearth_data).or_else(|| usual.clone()).ok_or(BadPlace::Nowhere)?;
        let data = canonical(&data)?;
        let is_usual = usual.is_some_and(|usual| canonical(&usual).is_ok_and(|usual| usual == data));
        let instance = (!is_usual).then(|| short_hash(&data));
        let private_tmp = tmp.join(format!("hearth-{uid}"));
        let sockets = sockets(&data, runtime.as_deref(), &private_tmp, uid)?;
        Ok(Self { data, sockets, private_tmp, config, home, instance, uid })
    }

    /// Places below one directory: the data in `data`, the home `home`, the configuration in `config`.
    #[cfg(test)]
    pub(crate) fn beneath(root: &Path) -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let (flag, home, config) = (root.join("data"), root.join("home"), root.join("config"));
        let (flag, home, xdg_config) = (Some(flag), Some(home), Some(config));
        Self::decide(Sources { flag, home, xdg_config, tmp: root.join("tmp"), uid, ..Sources::default() })
            .expect("a short path has places")
    }

    /// Makes the data directory and what lies in it, and the directory of the socket, private to this user.
    ///
    /// # Errors
    /// [`BadPlace`] when one of them cannot be created, belongs to another user, or can be changed by others.
    pub fn create(&self) -> Result<(), BadPlace> {
        private_directory(&self.data, true)?;
        self.check()?;
        for dir in [self.store(), self.sessions(), self.files(), self.groups(), self.homes(), self.run()] {
            private_directory(&dir, false)?;
            check_directory(&dir, self.uid)?;
        }
        if self.socket().starts_with(&self.private_tmp) {
            private_directory(&self.private_tmp, false)?;
            check_private(&self.private_tmp, self.uid)?;
        }
        Ok(())
    }

    /// Checks that only this user can change the data directory.
    ///
    /// # Errors
    /// [`BadPlace`] when it is not, or is not there.
    pub fn check(&self) -> Result<(), BadPlace> {
        check_directory(&self.data, self.uid)
    }

    /// Content of the data directory, or of the directory that is to become one. It says nothing about the store
    /// itself.
    ///
    /// # Errors
    /// [`BadPlace`] when it cannot be listed.
    pub fn contents(&self) -> Result<Contents, BadPlace> {
        contents::look(&self.data)
    }

    /// Whether there is a data directory.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.data.is_dir()
    }

    /// The data directory: absolute, links resolved as far as it exists.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Directory of the store.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.data.join("store")
    }

    /// Directory of the sessions' mailboxes.
    #[must_use]
    pub fn sessions(&self) -> PathBuf {
        self.data.join("sessions")
    }

    /// One session's mailbox.
    #[must_use]
    pub fn session(&self, id: SessionId) -> PathBuf {
        self.sessions().join(id.to_string())
    }

    /// Directory of the store of files.
    #[must_use]
    pub fn files(&self) -> PathBuf {
        self.data.join("files")
    }

    /// Directory of the agent groups' folders.
    #[must_use]
    pub fn groups(&self) -> PathBuf {
        self.data.join("groups")
    }

    /// An agent group's folder.
    #[must_use]
    pub fn group(&self, folder: &Folder) -> PathBuf {
        self.groups().join(folder.as_str())
    }

    /// Directory of the agents' homes.
    #[must_use]
    pub fn homes(&self) -> PathBuf {
        self.data.join("homes")
    }

    /// An agent's home.
    #[must_use]
    pub fn home(&self, folder: &Folder) -> PathBuf {
        self.homes().join(folder.as_str())
    }

    /// Directory that `main` and `trusted` agents share.
    #[must_use]
    pub fn trusted(&self) -> PathBuf {
        self.data.join("trusted")
    }

    /// Directory of the skills that agents can be given.
    #[must_use]
    pub fn skills(&self) -> PathBuf {
        self.data.join("skills")
    }

    /// Directory of the operator's own configuration, outside of the data directory; none without a home.
    #[must_use]
    pub fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The allow-list of mounts for agents; none without a home.
    #[must_use]
    pub fn mount_allowlist(&self) -> Option<PathBuf> {
        self.config.as_ref().map(|dir| dir.join("mount-allowlist.json"))
    }

    /// Directory of the configuration of all of the user's programs; none without a home.
    #[must_use]
    pub fn user_config(&self) -> Option<&Path> {
        self.config.as_deref().and_then(Path::parent)
    }

    /// The environment file of a daemon that is started as a service; private to the user. None without a home.
    #[must_use]
    pub fn service_environment(&self) -> Option<PathBuf> {
        let name = self.instance.as_ref().map_or_else(|| "hearth.env".to_owned(), |hash| format!("hearth-{hash}.env"));
        self.config.as_ref().map(|dir| dir.join(name))
    }

    /// A short hash that distinguishes this data directory from the user's other ones; none for the default one.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        self.instance.as_deref()
    }

    /// The home directory of the user who runs Hearth; `~` stands for it.
    #[must_use]
    pub fn user_home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The file with the result of the daemon's last check of the whole store.
    #[must_use]
    pub fn last_check(&self) -> PathBuf {
        self.data.join("last-check.json")
    }

    /// Files in which a daemon that could not go on leaves its reason, wherever it can: the disk may be what failed.
    pub fn ends(&self) -> impl Iterator<Item = PathBuf> {
        self.sockets.iter().map(|socket| socket.with_extension("end"))
    }

    /// Directory of what belongs to a running daemon.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.data.join("run")
    }

    /// The file with the token for the socket; its writer creates it with mode 0600.
    #[must_use]
    pub fn token(&self) -> PathBuf {
        self.run().join("token")
    }

    /// The seccomp profile for agents in containers; its writer creates it with mode 0600.
    #[must_use]
    pub fn seccomp(&self) -> PathBuf {
        self.run().join("seccomp.json")
    }

    /// Directory of the pipes that pass secrets to agents in containers; its writer creates it with mode 0700.
    #[must_use]
    pub fn secrets(&self) -> PathBuf {
        self.run().join("secrets")
    }

    /// Directory of the files with secrets that `hearth setup` asked for.
    #[must_use]
    pub fn kept_secrets(&self) -> PathBuf {
        self.data.join("secrets")
    }

    /// Creates the directory of kept secrets, private to this user.
    ///
    /// # Errors
    /// [`BadPlace`] when it cannot be created, or others could read or change it.
    pub fn create_kept_secrets(&self) -> Result<PathBuf, BadPlace> {
        private_directory(&self.data, true)?;
        self.check()?;
        let dir = self.kept_secrets();
        private_directory(&dir, false)?;
        check_private(&dir, self.uid)?;
        Ok(dir)
    }

    /// The file with the socket path of a running daemon, which may have been started with another runtime directory.
    #[must_use]
    pub fn socket_note(&self) -> PathBuf {
        self.run().join("socket")
    }

    /// The daemon's socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        self.sockets.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// Where a daemon may be listening, best guess first: one started with another runtime directory (by systemd, say)
    /// is found at one of the others.
    #[must_use]
    pub fn sockets(&self) -> &[PathBuf] {
        &self.sockets
    }
}

/// Makes a path absolute and resolves links in the part of it that exists, so that one directory has one name.
///
/// # Errors
/// [`BadPlace::Io`] if that part cannot be looked at.
pub fn canonical(path: &Path) -> Result<PathBuf, BadPlace> {
    let failed = |source| BadPlace::Io { what: "resolve", path: path.display().to_string(), source };
    let absolute = std::path::absolute(path).map_err(failed)?;
    let mut missing = Vec::new();
    let mut existing = absolute.as_path();
    loop {
        match existing.canonicalize() {
            Ok(found) => return Ok(missing.into_iter().rev().fold(found, |path: PathBuf, name| path.join(name))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        match (existing.parent(), existing.components().next_back()) {
            (Some(parent), Some(name @ (Component::Normal(_) | Component::ParentDir))) => {
                missing.push(name.as_os_str());
                existing = parent;
            }
            _ => return Ok(absolute),
        }
    }
}

/// Eight digits that distinguish the data directories of one user.
fn short_hash(data: &Path) -> String {
    let hash = Fingerprint::of_path(data.as_os_str().as_bytes()).number();
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

/// Possible socket paths, best first; at least one. Never in a directory that others can use.
fn sockets(data: &Path, runtime: Option<&Path>, tmp: &Path, uid: u32) -> Result<Vec<PathBuf>, BadPlace> {
    let name = format!("hearth-{}.sock", short_hash(data));
    let ours = |dir: &&Path| dir.is_absolute() && check_private(dir, uid).is_ok();
    let refused = check_private(tmp, uid).err().filter(|error| !error.is_absence());
    let last = tmp.join(&name);
    let mut all = vec![data.join("run/hearth.sock")];
    all.splice(0..0, runtime.filter(ours).map(|dir| dir.join(&name)));
    if refused.is_none() {
        all.push(last.clone());
    }
    all.retain(|path| path.as_os_str().len() <= SOCKET_PATH_MAX);
    match (all.is_empty(), refused) {
        (false, _) => Ok(all),
        (true, Some(error)) => Err(error),
        (true, None) => Err(BadPlace::SocketPath { bytes: last.as_os_str().len(), path: last.display().to_string() }),
    }
}

/// Creates a directory with mode 0700; an existing one is left unchanged.
fn private_directory(path: &Path, parents: bool) -> Result<(), BadPlace> {
    let made = DirBuilder::new().recursive(parents).mode(0o700).create(path);
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(BadPlace::Io { what: "create", path: path.display().to_string(), source: error })
        }
        _ => Ok(()),
    }
}

/// Checks that a directory belongs to this user and that only they can change it. Links are followed: they are in a
/// directory that was checked before.
fn check_directory(path: &Path, uid: u32) -> Result<(), BadPlace> {
    let found = std::fs::metadata(path).map_err(|source| cannot_look(path, source))?;
    check_owner(path, &found, uid, 0o022, "go-w")
}

/// Checks that a path is a directory, not a link, that belongs to this user and that only they can enter. Needed for a
/// socket in a place where others can create files.
fn check_private(path: &Path, uid: u32) -> Result<(), BadPlace> {
    let found = std::fs::symlink_metadata(path).map_err(|source| cannot_look(path, source))?;
    check_owner(path, &found, uid, 0o077, "go-rwx")
}

fn check_owner(path: &Path, found: &Metadata, uid: u32, forbidden: u32, mend: &'static str) -> Result<(), BadPlace> {
    let shown = || path.display().to_string();
    let mode = found.mode() & 0o7777;
    if !found.is_dir() {
        Err(BadPlace::NotADirectory { path: shown() })
    } else if found.uid() != uid {
        Err(BadPlace::Foreign { path: shown(), owner: found.uid(), uid })
    } else if mode & forbidden != 0 && is_of_the_system(path, mode) {
        Err(BadPlace::OpenSystem { path: shown(), mode })
    } else if mode & forbidden != 0 {
        Err(BadPlace::Open { path: shown(), mode, mend })
    } else {
        Ok(())
    }
}

/// Whether a directory is shared by design (`/tmp`, `/var/mail`) or belongs to the system, so that its mode must stay.
fn is_of_the_system(path: &Path, mode: u32) -> bool {
    const SPECIAL_BITS: u32 = 0o7000;
    const TREES: [&str; 11] = ["bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "sbin", "sys", "usr"];
    let names: Vec<&str> = path.iter().filter_map(|name| name.to_str()).filter(|name| *name != "/").collect();
    let in_a_tree = names.first().is_some_and(|first| TREES.contains(first));
    let shallow = names.len() < 2 || (names.len() == 2 && matches!(names.first(), Some(&"var" | &"run")));
    mode & SPECIAL_BITS != 0 || in_a_tree || shallow
}

fn cannot_look(path: &Path, source: io::Error) -> BadPlace {
    BadPlace::Io { what: "look at", path: path.display().to_string(), source }
}

impl BadPlace {
    /// Whether the place is only not there yet.
    fn is_absence(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

#[cfg(test)]
mod tests;
