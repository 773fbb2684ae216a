//! Detects once how agents that run as processes can be confined on this machine.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::jail::{self, Jail, View};
use super::spawn::{Gate, jail_probe};
use super::{confine, programs};
use crate::runtime::owner::AGENT;

/// How long bubblewrap may take to prove that it works, in steps of the pause. It usually takes 8 ms.
const PROBE_STEPS: u32 = 5_000;
const PROBE_PAUSE: Duration = Duration::from_millis(1);
/// Bytes read of its error message.
const WORDS: u64 = 4096;

/// How agents are confined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sandbox {
    /// Their own mount, process and IPC namespaces, made by bubblewrap; inside, Landlock, a seccomp filter and resource
    /// limits.
    Jail(Jail),
    /// Landlock, a stricter seccomp filter, and resource limits of each process.
    Limited {
        /// Why there is no mount view.
        lacking: Lacking,
    },
    /// Not at all.
    Missing {
        /// Why, for people.
        why: String,
        /// What to do about it.
        mend: String,
        /// Whether agents would be root. In that case not even a provider that does nothing on its own is started.
        root: bool,
    },
}

/// Why bubblewrap makes no mount view here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lacking {
    /// It is not installed.
    Program,
    /// It fails with this message.
    Fails(String),
}

impl Lacking {
    /// How to fix it.
    #[must_use]
    pub fn mend(&self) -> &'static str {
        match self {
            Self::Program => {
                "install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`) and restart the daemon"
            }
            Self::Fails(words) if words.contains("RTM_NEWADDR") || words.contains("uid map: Permission denied") => {
                "AppArmor denies user namespaces to bubblewrap, as on Ubuntu 24.04: `sudo apt install apparmor-profiles`, `sudo \
                 install -m 0644 /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/`, `sudo \
                 apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict`, then restart the daemon"
            }
            Self::Fails(words) if words.contains("namespace") => {
                "allow user namespaces (`sudo sysctl user.max_user_namespaces=28633`, on older Debian also \
                 `kernel.unprivileged_userns_clone=1`) and restart the daemon; inside of a container they may be forbidden"
            }
            Self::Fails(words) if words.contains("nknown option") => "install bubblewrap 0.8 or later",
            Self::Fails(_) => "run `bwrap --unshare-all --ro-bind / / true` to see why it fails",
        }
    }
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program => f.write_str("bubblewrap is not installed"),
            Self::Fails(words) => write!(f, "bubblewrap fails: {words}"),
        }
    }
}

impl Sandbox {
    /// Probes the options, the best first. Takes some milliseconds. `path` is the search path for programs.
    #[must_use]
    pub fn find(path: &OsStr, guarded: &[PathBuf]) -> Self {
        if let Err(why) = agent_runner::confine::support() {
            return Self::missing_for(why.to_string(), "use Linux 6.2 or later with Landlock");
        }
        let root = rustix::process::geteuid().is_root();
        match find_jail(path, guarded, root) {
            Ok(jail) => Self::Jail(jail),
            // Without a mount view, the other user could not reach its own directories.
            Err(lacking) if root => {
                let why = format!(
                    "root runs hearth, an agent of root becomes another user only with bubblewrap, and {lacking}; use Podman, run \
                     hearth as an ordinary user, or set `unconfined = true`"
                );
                Self::Missing { why, mend: lacking.mend().to_owned(), root }
            }
            Err(lacking) => Self::Limited { lacking },
        }
    }

    /// Agents cannot be confined.
    #[must_use]
    pub fn missing_for(why: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::Missing { why: why.into(), mend: mend.into(), root: false }
    }

    /// Whether agents are confined at all.
    #[must_use]
    pub const fn confines(&self) -> bool {
        !matches!(self, Self::Missing { .. })
    }

    /// Whether agents can have a network of their own.
    #[must_use]
    pub const fn has_networks(&self) -> bool {
        matches!(self, Self::Jail(_))
    }

    /// Why agents cannot have a network of their own and how to fix it, if they cannot.
    #[must_use]
    pub fn lacks_networks(&self) -> Option<(String, String)> {
        match self {
            Self::Jail(_) => None,
            Self::Limited { lacking } => Some((lacking.to_string(), lacking.mend().to_owned())),
            Self::Missing { why, mend, .. } => Some((why.clone(), mend.clone())),
        }
    }

    /// Why agents are not confined, if they are not.
    #[must_use]
    pub fn missing(&self) -> Option<&str> {
        if let Self::Missing { why, .. } = self { Some(why) } else { None }
    }

    /// Name for people and programs.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Jail(_) => "jail",
            Self::Limited { .. } => "limited",
            Self::Missing { .. } => "none",
        }
    }
}

fn find_jail(path: &OsStr, guarded: &[PathBuf], root: bool) -> Result<Jail, Lacking> {
    let system = ["/usr/bin", "/usr/local/bin", "/run/wrappers/bin"].map(PathBuf::from);
    let places = system.into_iter().chain(std::env::split_paths(path).filter(|place| place.is_absolute()));
    let mut found = places.map(|place| place.join("bwrap")).filter(|file| file.is_file());
    let program = found.find_map(|file| programs::real(&file, guarded)).ok_or(Lacking::Program)?;
    let jail = Jail { program, user: root.then_some(AGENT) };
    probe(&jail, guarded).map_err(Lacking::Fails)?;
    Ok(jail)
}

/// Runs `bwrap --version` inside of a view like that of agents.
fn probe(jail: &Jail, guarded: &[PathBuf]) -> Result<(), String> {
    let rules = agent_runner::confine::Rules { read: confine::system(guarded), ..Default::default() };
    let visible = jail::Visible::of(&rules, guarded);
    let view = View {
        rules: &rules,
        visible: &visible,
        directory: Path::new("/"),
        own_network: true,
        way_out: None,
        becomes_user: jail.user.is_some(),
        variables: &[],
    };
    let failed = |error: io::Error| error.to_string();
    let mut child = jail_probe(&jail.program, &jail::options(&view), &Gate::enter()).map_err(failed)?;
    let mut ended = None;
    for _ in 0..PROBE_STEPS {
        ended = child.try_wait().map_err(failed)?;
        if ended.is_some() {
            break;
        }
        std::thread::sleep(PROBE_PAUSE);
    }
    let Some(status) = ended else {
        child.kill().and_then(|()| child.wait()).map_err(failed)?;
        return Err("it does not end".to_owned());
    };
    if status.success() {
        return Ok(());
    }
    let mut words = String::new();
    if let Some(stderr) = child.stderr.take() {
        stderr.take(WORDS).read_to_string(&mut words).map_err(failed)?;
    }
    let said = words.trim().trim_start_matches("bwrap: ");
    Err(if said.is_empty() { format!("it ended with {status}") } else { said.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_failures_come_with_what_to_do() {
        for (words, expected) in [
            ("loopback: Failed RTM_NEWADDR: Operation not permitted", "apparmor-profiles"),
            ("setting up uid map: Permission denied", "apparmor_parser"),
            (
                "No permissions to create a new namespace, likely because the kernel does not allow",
                "user.max_user_namespaces",
            ),
            ("Creating new namespace failed: Operation not permitted", "inside of a container"),
            ("Unknown option --size", "0.8"),
            ("Can't mount proc on /newroot/proc: Operation not permitted", "bwrap --unshare-all"),
        ] {
            let lacking = Lacking::Fails(words.to_owned());
            assert!(lacking.mend().contains(expected), "{words}: {}", lacking.mend());
        }
        assert!(Lacking::Program.mend().contains("apt install bubblewrap"));
    }

    #[test]
    fn a_program_that_is_no_bubblewrap_makes_no_jail() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("bwrap");
        std::fs::write(&program, "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2; exit 1\n")
            .unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let jail = Jail { program, user: None };
        assert_eq!(probe(&jail, &[]), Err("setting up uid map: Permission denied".to_owned()));
    }
}
