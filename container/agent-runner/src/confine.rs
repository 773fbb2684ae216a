//! Confinement by Landlock: a process gives up, for itself and for all it will ever start, what it is not told to keep.
//!
//! The host says what is kept ([`Rules`]), this process does it, before it has threads and before it reads anything that
//! an agent could have written. It fails closed: rules that cannot be enforced are an error, and nothing runs.
//!
//! What Landlock does not do is as important. It leaves the network open, lets a process see whether a path exists and
//! change permissions and times of files of its own user, and, before its version 9, lets it connect to Unix sockets.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The rules, as a JSON object.
pub const CONFINE_VARIABLE: &str = "HEARTH_CONFINE";

/// What a confined process may touch. All paths are absolute; a directory stands for everything in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rules {
    /// May be read and executed. One that is not there is left out.
    pub read: Vec<PathBuf>,
    /// May be changed as well; device nodes cannot be made in them. Has to be there.
    pub write: Vec<PathBuf>,
    /// Devices that may be opened for reading and writing. One that is not there is left out.
    pub devices: Vec<PathBuf>,
}

impl Rules {
    /// All paths.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.read.iter().chain(&self.write).chain(&self.devices).map(PathBuf::as_path)
    }
}

/// What the kernel's Landlock can do beyond what is demanded of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Support {
    /// Keeps signals and abstract sockets inside (version 6, Linux 6.12).
    pub scopes: bool,
    /// Keeps from connecting to Unix sockets by their path (version 9, Linux 7.1).
    pub sockets: bool,
}

/// Why nothing can be confined here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// Landlock is a part of Linux.
    #[error("only Linux has Landlock, which confines agents")]
    System,
    /// No Landlock, or one that would let an agent empty files it may not write.
    #[error(
        "the kernel cannot confine agents: it needs Landlock of version 3 (Linux 6.2 or later), and `landlock` in the \
         list of security modules it was started with ({0})"
    )]
    Kernel(String),
}

/// Why a process could not confine itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be done here.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// A path that has to be there cannot be opened.
    #[error("{}: {reason}", path.display())]
    Path {
        /// Which.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The kernel does not take the rules.
    #[error("{0}")]
    Rules(String),
}

/// Asks the kernel. The process is not changed.
///
/// # Errors
/// [`Unsupported`], for people.
pub fn support() -> Result<Support, Unsupported> {
    system::support()
}

/// Confines this thread and everything it starts from now on, for ever.
///
/// # Errors
/// [`Error`]; then the process must not go on.
pub fn restrict(rules: &Rules) -> Result<(), Error> {
    system::restrict(rules)
}

#[cfg(target_os = "linux")]
mod system {
    use std::path::Path;

    use landlock::{
        ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, PathFdError, Ruleset,
        RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
    };

    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

    use super::{Error, Rules, Support, Unsupported};

    /// Versions 1 and 2 would not keep an agent from truncating any file of its user.
    const LEAST: ABI = ABI::V3;

    pub(super) fn support() -> Result<Support, Unsupported> {
        demanded().and_then(Ruleset::create).map_err(|error| Unsupported::Kernel(error.to_string()))?;
        let scopes = demanded().and_then(|rules| rules.scope(Scope::from_all(ABI::V6))).and_then(Ruleset::create);
        let sockets = demanded().and_then(|rules| rules.handle_access(AccessFs::ResolveUnix)).and_then(Ruleset::create);
        Ok(Support { scopes: scopes.is_ok(), sockets: sockets.is_ok() })
    }

    pub(super) fn restrict(rules: &Rules) -> Result<(), Error> {
        let refused = |error: RulesetError| Error::Rules(error.to_string());
        let unsupported = |error: RulesetError| Error::Unsupported(Unsupported::Kernel(error.to_string()));
        let mut set = wanted().map_err(unsupported)?;
        for (paths, access, needed) in
            [(&rules.read, read(), false), (&rules.write, write(), true), (&rules.devices, device(), false)]
        {
            for path in paths {
                set = add(set, path, access, needed)?;
            }
        }
        let status = set.restrict_self().map_err(refused)?;
        if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
            return Err(Error::Rules(format!("the kernel did not enforce the rules: {status:?}")));
        }
        drop_capabilities()
    }

    /// For an agent of root: some capabilities lead past Landlock. They do not come back with a new program, because
    /// `restrict_self` forbids new privileges.
    fn drop_capabilities() -> Result<(), Error> {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets).map_err(|error| Error::Rules(format!("capabilities cannot be dropped: {error}")))
    }

    fn demanded() -> Result<Ruleset, RulesetError> {
        Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(AccessFs::from_all(LEAST))
    }

    /// What is demanded, and what this kernel can do of the rest.
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

    /// Without device nodes: one would be a way around everything for an agent of root.
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
