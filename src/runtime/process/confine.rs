//! What a confined agent may touch: its own, the system's programs, and what its command names. The rules are made here
//! and enforced by the runner on itself before it does anything else.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use agent_runner::confine::Rules;

use super::{Setup, programs};
use crate::model::entity::{ProviderKind, Trust};
use crate::runtime::{Error, Spec};

/// What every program may need of the system. Not `/tmp`, `/var`, `/run`, `/home`: other people's things are there.
const SYSTEM: [&str; 17] = [
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr",
    "/etc",
    "/opt",
    "/nix/store",
    "/run/current-system",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/proc",
    "/sys/devices/system",
    "/sys/fs/cgroup",
];

/// The runner's own program, as the runner itself sees it.
const RUNNER: &str = "/proc/self/exe";

/// No terminals: who may use the user's terminal can type into it. No shared memory: others' is there, too.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// How one agent is confined.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Confined {
    rules: Rules,
    /// The search path without what it cannot read.
    pub(super) path: OsString,
    /// The session's temporary directory.
    pub(super) tmp: PathBuf,
}

impl Confined {
    /// The rules for an agent; its paths are absolute. Looks at where programs are, and at nothing an agent can change.
    pub(super) fn of(spec: &Spec, setup: &Setup) -> Self {
        let command = &spec.settings.command;
        let program = match (spec.settings.provider, command.first()) {
            (ProviderKind::Echo, _) => None,
            (_, Some(program)) => Some(program.as_str()),
            (_, None) => Some("claude"),
        };
        let mut named: Vec<PathBuf> = program
            .map(|program| programs::places(program, &spec.group_dir, &setup.path, &setup.guarded))
            .unwrap_or_default();
        named.extend(command.iter().skip(1).filter_map(|word| programs::named_file(word, &setup.guarded)));
        let system = SYSTEM.iter().filter_map(|path| programs::real(Path::new(path), &setup.guarded));
        let system = system.flat_map(|path| without_guarded(&path, &setup.guarded)).collect();
        let rules = rules(spec, system, named);
        let path = programs::reachable(&setup.path, &rules.read);
        // In a directory that the agent can change, so only the runner may make it, once it is confined.
        let tmp = spec.home_dir.join("tmp").join(spec.session.to_string());
        Self { rules, path, tmp }
    }

    /// For the runner.
    pub(super) fn rules_json(&self) -> Result<String, Error> {
        serde_json::to_string(&self.rules).map_err(|_| {
            let strange = self.rules.paths().find(|path| path.to_str().is_none());
            Error::Path { path: strange.map(Path::to_owned).unwrap_or_default() }
        })
    }
}

/// Everything else is out of reach: the store, tokens and locks, other sessions, groups and homes.
fn rules(spec: &Spec, system: Vec<PathBuf>, named: Vec<PathBuf>) -> Rules {
    let mut read = system;
    read.extend([RUNNER.into(), spec.session_dir.join("host")]);
    read.extend(named);
    let mut write = vec![spec.session_dir.join("agent"), spec.home_dir.clone()];
    match spec.settings.trust {
        Trust::Untrusted => read.push(spec.group_dir.clone()),
        Trust::Trusted | Trust::Main => write.push(spec.group_dir.clone()),
    }
    Rules { read, write, devices: DEVICES.map(PathBuf::from).to_vec() }
}

/// A directory as it is, or, if something guarded lies in it, everything else in it.
fn without_guarded(path: &Path, guarded: &[PathBuf]) -> Vec<PathBuf> {
    if !guarded.iter().any(|guarded| guarded.starts_with(path)) {
        return vec![path.to_owned()];
    }
    if guarded.iter().any(|guarded| guarded == path) {
        return Vec::new();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    // A link may lead to what is guarded.
    let real = entries.map(|entry| entry.path()).filter(|path| !path.is_symlink());
    real.flat_map(|path| without_guarded(&path, guarded)).collect()
}
