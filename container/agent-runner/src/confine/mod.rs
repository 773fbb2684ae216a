//! Confinement: a process permanently drops all access except what its rules allow, for itself and its children.
//!
//! The host makes the [`Rules`]. This process enforces them before it has threads and before it reads anything that an
//! agent could have written. It fails closed: if rules cannot be enforced, nothing runs.
//!
//! The order is: another user (`user`), resource limits (`bounds.rs`), Landlock, capabilities, and finally the seccomp
//! filter (`filter.rs`), which would forbid some of the earlier steps.
//!
//! Limits of Landlock: it does not restrict the network. A process can see whether a path exists, and change
//! permissions and times of its user's files. Before version 9 it can connect to Unix sockets. The seccomp filter
//! refuses Unix sockets where there is no mount view, and a mount view contains nothing else to see or to change.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
mod bounds;
#[cfg(target_os = "linux")]
mod filter;

/// Variable with the rules as a JSON object.
pub const CONFINE_VARIABLE: &str = "HEARTH_CONFINE";

/// What a confined process may access. All paths are absolute; a directory includes everything in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rules {
    /// May be read and executed. Missing paths are skipped.
    pub read: Vec<PathBuf>,
    /// May be changed as well, except for creating device nodes. Must exist.
    pub write: Vec<PathBuf>,
    /// Devices that may be opened for reading and writing. Missing ones are skipped.
    pub devices: Vec<PathBuf>,
    /// Directories with Unix sockets to which it may connect. Must exist.
    #[serde(default)]
    pub sockets: Vec<PathBuf>,
    /// The allowed system calls; `None` allows all.
    #[serde(default)]
    pub calls: Option<Calls>,
    /// Resource limits.
    #[serde(default)]
    pub bounds: Bounds,
    /// User and group that a root process switches to.
    #[serde(default)]
    pub user: Option<u32>,
}

/// Selects the seccomp filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Whether the process has its own mount, process and IPC namespaces. In them it can share Unix sockets and memory
    /// only with its own processes. Without them these calls are refused.
    pub view: bool,
    /// Whether internet sockets can be created.
    pub network: bool,
}

/// Resource limits of each process. Existing stricter limits are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Bounds {
    /// Processes and threads of the user, within its user namespace.
    pub processes: Option<u64>,
    /// Memory of one process in bytes.
    pub memory: Option<u64>,
    /// Size of one file in bytes.
    pub file_size: Option<u64>,
}

impl Rules {
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.read.iter().chain(&self.write).chain(&self.devices).chain(&self.sockets).map(PathBuf::as_path)
    }
}

/// Optional features of the kernel's Landlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Support {
    /// Blocks signals and abstract sockets to the outside (version 6, Linux 6.12).
    pub scopes: bool,
    /// Blocks connections to Unix sockets by path (version 9, Linux 7.1).
    pub sockets: bool,
}

/// Why this machine cannot confine processes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// Not Linux: only Linux has Landlock.
    #[error("only Linux has Landlock, which confines agents")]
    System,
    /// No Landlock, or a version that would let an agent truncate files it may not write.
    #[error(
        "the kernel cannot confine agents: it needs Landlock of version 3 (Linux 6.2 or later), and `landlock` in the \
         list of security modules it was started with ({0})"
    )]
    Kernel(String),
}

/// Why a process could not confine itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine cannot confine processes.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// A required path cannot be opened.
    #[error("{}: {reason}", path.display())]
    Path { path: PathBuf, reason: String },
    /// The kernel rejects the rules.
    #[error("{0}")]
    Rules(String),
}

/// Queries the kernel's support. The process is not changed.
///
/// # Errors
/// [`Unsupported`], worded for people.
pub fn support() -> Result<Support, Unsupported> {
    system::support()
}

/// Permanently confines this thread and everything it starts from now on.
///
/// # Errors
/// [`Error`]. In that case the process must not continue.
pub fn restrict(rules: &Rules) -> Result<(), Error> {
    system::restrict(rules)
}

#[cfg(target_os = "linux")]
mod system {
    use std::path::Path;

    use std::io;

    use landlock::{
        ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, PathFdError, Ruleset,
        RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
    };

    use rustix::process::{Gid, Uid};
    use rustix::thread::{
        CapabilitySet, CapabilitySets, set_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
    };

    use super::{Error, Rules, Support, Unsupported, bounds, filter};
    use crate::log;

    /// Versions 1 and 2 do not prevent an agent from truncating the user's files.
    const LEAST: ABI = ABI::V3;

    pub(super) fn support() -> Result<Support, Unsupported> {
        demanded().and_then(Ruleset::create).map_err(|error| Unsupported::Kernel(error.to_string()))?;
        let scopes = demanded().and_then(|rules| rules.scope(Scope::from_all(ABI::V6))).and_then(Ruleset::create);
        let sockets = demanded().and_then(|rules| rules.handle_access(AccessFs::ResolveUnix)).and_then(Ruleset::create);
        Ok(Support { scopes: scopes.is_ok(), sockets: sockets.is_ok() })
    }

    pub(super) fn restrict(rules: &Rules) -> Result<(), Error> {
        let refused = |what: &str, error: io::Error| Error::Rules(format!("{what}: {error}"));
        bounds::yield_to_others();
        if let Some(user) = rules.user {
            become_user(user).map_err(|error| refused("cannot become another user", error))?;
        }
        let mut limits = rules.bounds.clone();
        if let (Some(user), Some(_)) = (rules.user, limits.processes)
            && let Err(error) = count_apart(user)
        {
            log::note(format_args!("nothing limits the number of processes: no user namespace can be made: {error}"));
            limits.processes = None;
        }
        bounds::apply(&limits).map_err(|error| refused("cannot set resource limits", error))?;
        restrict_files(rules)?;
        drop_capabilities()?;
        let filtered = rules.calls.map_or(Ok(()), filter::apply);
        filtered.map_err(|error| Error::Rules(format!("cannot filter system calls: {error}")))
    }

    /// Permanently switches from root to another user.
    fn become_user(user: u32) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
        set_thread_groups(&[])?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        if rustix::process::getuid() == uid { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }

    /// Makes the kernel count this agent's processes separately from others of the same user. The capabilities in the
    /// new namespace are dropped with all others.
    #[expect(deprecated, reason = "other flags than this one let threads lose what they share; there is one thread")]
    fn count_apart(user: u32) -> io::Result<()> {
        // After a change of user the process is not dumpable, and its files in `/proc` are not writable for itself.
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)?;
        rustix::thread::unshare(rustix::thread::UnshareFlags::NEWUSER)?;
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("{user} {user} 1"))
    }

    fn restrict_files(rules: &Rules) -> Result<(), Error> {
        let refused = |error: RulesetError| Error::Rules(error.to_string());
        let unsupported = |error: RulesetError| Error::Unsupported(Unsupported::Kernel(error.to_string()));
        let mut set = wanted().map_err(unsupported)?;
        for (paths, access, needed) in [
            (&rules.read, read(), false),
            (&rules.write, write(), true),
            (&rules.devices, device(), false),
            (&rules.sockets, read() | AccessFs::ResolveUnix, true),
        ] {
            for path in paths {
                set = add(set, path, access, needed)?;
            }
        }
        let status = set.restrict_self().map_err(refused)?;
        if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
            return Err(Error::Rules(format!("the kernel did not enforce the rules: {status:?}")));
        }
        Ok(())
    }

    /// For agents of a root daemon: some capabilities bypass Landlock. A new program does not regain them, because
    /// `restrict_self` forbids new privileges.
    fn drop_capabilities() -> Result<(), Error> {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets).map_err(|error| Error::Rules(format!("capabilities cannot be dropped: {error}")))
    }

    fn demanded() -> Result<Ruleset, RulesetError> {
        Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(AccessFs::from_all(LEAST))
    }

    /// The required features, plus the optional ones that this kernel supports.
    fn wanted() -> Result<RulesetCreated, RulesetError> {
        let rest = AccessFs::IoctlDev | AccessFs::ResolveUnix;
        let rules = demanded()?.set_compatibility(CompatLevel::BestEffort).handle_access(rest)?;
        Ok(rules.scope(Scope::from_all(ABI::V6))?.create()?.set_compatibility(CompatLevel::BestEffort))
    }

    fn add(
        set: RulesetCreated,
        path: &Path,
        access: BitFlags<AccessFs>,
        needed: bool,
    ) -> Result<RulesetCreated, Error> {
        let opened = match PathFd::new(path) {
            Ok(opened) => opened,
            Err(PathFdError::OpenCall { source, .. }) if !needed && source.kind() == std::io::ErrorKind::NotFound => {
                return Ok(set);
            }
            Err(error) => return Err(Error::Path { path: path.to_owned(), reason: error.to_string() }),
        };
        set.add_rule(PathBeneath::new(opened, access)).map_err(|error| Error::Rules(error.to_string()))
    }

    fn read() -> BitFlags<AccessFs> {
        AccessFs::from_read(LEAST)
    }

    /// Write access without creating device nodes, which would bypass everything for an agent of root.
    fn write() -> BitFlags<AccessFs> {
        let nodes = AccessFs::MakeChar | AccessFs::MakeBlock;
        (AccessFs::from_all(LEAST) & !nodes) | AccessFs::ResolveUnix
    }

    fn device() -> BitFlags<AccessFs> {
        AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Error, Rules, Support, Unsupported};

    pub(super) fn support() -> Result<Support, Unsupported> {
        Err(Unsupported::System)
    }

    pub(super) fn restrict(_: &Rules) -> Result<(), Error> {
        Err(Unsupported::System.into())
    }
}
