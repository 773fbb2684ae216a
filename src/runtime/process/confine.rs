//! What a confined agent may access: its own directories, the system's programs, and what its command names. The rules
//! are made here. The runner enforces them on itself before it does anything else; a mount view contains nothing else.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use agent_runner::confine::{Bounds, Calls, Rules};

use super::jail::{Jail, Visible};
use super::sandbox::Sandbox;
use super::{Setup, programs};
use crate::model::entity::{Access, Network};
use crate::model::gateway::ModelAccess;
use crate::model::network::NETWORK_FILES;
use crate::runtime::{Error, MEMORY, PIDS, Spec};

/// System paths that any program may need. Not `/tmp`, `/var`, `/run` or `/home`, which contain other users' files.
pub(super) const SYSTEM: [&str; 17] = [
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

/// Of these, directories with sockets by which programs of this machine look names up. For an agent without a network
/// they would be a way out.
const RESOLVERS: [&str; 3] = ["/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager"];

/// In-memory directories of a mount view, private to it.
pub(super) const IN_MEMORY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Maximum size in bytes of a file that an agent writes.
pub(super) const FILE_BYTES: u64 = 4 << 30;

/// The runner's own program, as the runner itself sees it.
pub(super) const RUNNER: &str = "/proc/self/exe";

/// No terminals: a process that may open the user's terminal can type into it. No shared memory: it is shared with
/// other users.
pub(super) const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// How one agent is confined.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Confined {
    rules: Rules,
    /// The search path, without directories that the agent cannot read.
    pub(super) path: OsString,
    /// The session's temporary directory.
    pub(super) tmp: PathBuf,
    /// The mount view, if there is one.
    pub(super) view: Option<(Jail, Visible)>,
}

/// The system directories that contain no guarded path.
pub(super) fn system(guarded: &[PathBuf]) -> Vec<PathBuf> {
    let there = SYSTEM.iter().filter_map(|path| programs::real(Path::new(path), guarded));
    there.flat_map(|path| without_guarded(&path, guarded)).collect()
}

impl Confined {
    /// The rules for an agent with absolute paths. Looks only at programs, and at nothing an agent can change.
    pub(super) fn of(spec: &Spec, setup: &Setup) -> Self {
        let command = &spec.settings.command;
        let found = spec
            .settings
            .program(spec.provider)
            .and_then(|program| programs::find(program, &spec.group_dir, &setup.path));
        let mut named = found.as_deref().map(|found| programs::places(found, &setup.guarded)).unwrap_or_default();
        named.extend(command.iter().skip(1).filter_map(|word| programs::named_file(word, &setup.guarded)));
        let mut system = system(&setup.guarded);
        if spec.settings.network.is_closed() {
            system.retain(|path| !RESOLVERS.iter().any(|resolver| path.starts_with(resolver)));
        }
        let mut rules = rules(spec, system, named);
        rules.sockets.extend(spec.network_access.as_ref().map(|access| access.directory.clone()));
        rules.sockets.extend(spec.model_access.as_ref().and_then(ModelAccess::directory).map(Path::to_owned));
        let path = programs::reachable(&setup.path, &rules.read);
        let view = match setup.sandbox() {
            Sandbox::Jail(jail) => {
                let mut visible = Visible::of(&rules, &setup.guarded);
                if spec.network_access.is_some() {
                    NETWORK_FILES.iter().for_each(|(name, _)| visible.hide(&Path::new("/etc").join(name)));
                }
                let words = command.iter().skip(1).map(PathBuf::from).filter(|word| word.is_absolute());
                let all = found.into_iter().chain(words).chain(std::env::split_paths(&path));
                all.for_each(|path| visible.add_links(&path, &setup.guarded));
                // A rule for the whole directory would also cover the paths that lead to the agent's directories below
                // it.
                let free = |place: &&str| !rules.paths().any(|path| path.starts_with(place));
                let free: Vec<PathBuf> = IN_MEMORY.into_iter().filter(free).map(PathBuf::from).collect();
                rules.write.extend(free);
                rules.user = jail.user;
                Some((jail.clone(), visible))
            }
            Sandbox::Limited { .. } | Sandbox::Missing { .. } => None,
        };
        rules.calls = Some(Calls { view: view.is_some(), network: view.is_some() || reaches(spec.settings.network) });
        // Without a user namespace the kernel would count all other processes of that user as well.
        let counts = view.is_some();
        let limits = &spec.settings.limits;
        rules.bounds = Bounds {
            processes: counts.then(|| limits.pids.unwrap_or(PIDS).into()),
            memory: Some(limits.memory.unwrap_or(MEMORY)),
            file_size: Some(FILE_BYTES),
        };
        // The agent can change the parent directory, so only the confined runner may create it.
        let tmp = spec.home_dir.join("tmp").join(spec.session.to_string());
        Self { rules, path, tmp, view }
    }

    /// What the agent may access.
    pub(super) const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The rules as JSON, for the runner.
    pub(super) fn rules_json(&self) -> Result<String, Error> {
        serde_json::to_string(&self.rules).map_err(|_| {
            let strange = self.rules.paths().find(|path| path.to_str().is_none());
            Error::Path { path: strange.map(Path::to_owned).unwrap_or_default() }
        })
    }
}

/// Whether the agent has any network access.
const fn reaches(network: Network) -> bool {
    !network.is_closed()
}

/// The rules. Everything else is inaccessible: the store, tokens and locks, other sessions, groups and homes.
fn rules(spec: &Spec, system: Vec<PathBuf>, named: Vec<PathBuf>) -> Rules {
    let mut read = system;
    read.extend([RUNNER.into(), spec.session_dir.join("host")]);
    read.extend(named);
    let mut write = vec![spec.session_dir.join("agent"), spec.home_dir.clone()];
    match spec.settings.access_to_folder() {
        Access::ReadOnly => read.push(spec.group_dir.clone()),
        Access::ReadWrite => write.push(spec.group_dir.clone()),
    }
    for mount in &spec.mounts {
        match mount.access {
            Access::ReadOnly => read.push(mount.source.clone()),
            Access::ReadWrite => write.push(mount.source.clone()),
        }
    }
    Rules { read, write, devices: DEVICES.map(PathBuf::from).to_vec(), ..Rules::default() }
}

/// A directory or, if it contains a guarded path, its other entries.
fn without_guarded(path: &Path, guarded: &[PathBuf]) -> Vec<PathBuf> {
    if !guarded.iter().any(|guarded| guarded.starts_with(path)) {
        return vec![path.to_owned()];
    }
    if guarded.iter().any(|guarded| guarded == path) {
        return Vec::new();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    // A link may lead to a guarded path.
    let real = entries.map(|entry| entry.path()).filter(|path| !path.is_symlink());
    real.flat_map(|path| without_guarded(&path, guarded)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::entity::{AgentSettings, ProviderKind, Trust};
    use crate::model::id::SessionId;
    use crate::model::incarnation::SpecDigest;
    use crate::model::mount::Mount;
    use crate::model::session::SessionName;
    use crate::runtime::process::tests::{settings, setup};

    fn spec(trust: Trust, provider: ProviderKind, command: &[&str]) -> Spec {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        Spec {
            session: SessionId::new(4),
            incarnation: 1,
            session_dir: "/data/sessions/se4".into(),
            group_dir: "/data/groups/main".into(),
            home_dir: "/data/homes/main".into(),
            settings: AgentSettings { trust, provider, command, ..settings() },
            provider,
            session_name: SessionName::Default,
            timezone: "UTC".to_owned(),
            digest: SpecDigest::new(0),
            image: None,
            mounts: Vec::new(),
            secrets: crate::runtime::Known::default(),
            model_access: None,
            network_access: None,
        }
    }

    fn has(paths: &[PathBuf], path: &str) -> bool {
        paths.iter().any(|known| known == Path::new(path))
    }

    #[test]
    fn an_agent_changes_its_own_and_reads_what_the_host_says() {
        for (trust, writable) in [(Trust::Main, true), (Trust::Trusted, true), (Trust::Untrusted, false)] {
            let rules = rules(&spec(trust, ProviderKind::Echo, &[]), vec!["/usr".into()], vec!["/opt/agent".into()]);
            assert_eq!(has(&rules.write, "/data/groups/main"), writable, "{trust:?}");
            assert_eq!(has(&rules.read, "/data/groups/main"), !writable, "{trust:?}");
            for path in ["/data/sessions/se4/agent", "/data/homes/main"] {
                assert!(has(&rules.write, path), "{path}");
            }
            for path in ["/usr", "/opt/agent", "/proc/self/exe", "/data/sessions/se4/host"] {
                assert!(has(&rules.read, path) && !has(&rules.write, path), "{path}");
            }
            let outside = ["/", "/data", "/data/sessions", "/data/sessions/se4", "/data/groups", "/data/run"];
            assert!(rules.paths().all(|path| !outside.iter().any(|outside| path == Path::new(outside))), "{rules:?}");
            assert!(rules.devices.iter().all(|device| !device.ends_with("tty") && !device.ends_with("ptmx")));
        }
    }

    #[test]
    fn folder_access_decides_about_the_folder_and_nothing_else() {
        for (trust, access) in [(Trust::Untrusted, Access::ReadWrite), (Trust::Main, Access::ReadOnly)] {
            let plain = spec(trust, ProviderKind::Echo, &[]);
            let settings = AgentSettings { folder_access: Some(access), ..plain.settings.clone() };
            let mut expected = rules(&plain, Vec::new(), Vec::new());
            let found = rules(&Spec { settings, ..plain }, Vec::new(), Vec::new());
            let (from, to) = match access {
                Access::ReadWrite => (&mut expected.read, &mut expected.write),
                Access::ReadOnly => (&mut expected.write, &mut expected.read),
            };
            from.retain(|path| path != Path::new("/data/groups/main"));
            to.push("/data/groups/main".into());
            assert_eq!(format!("{found:?}"), format!("{expected:?}"));
        }
    }

    #[test]
    fn mounts_are_where_they_are_on_this_machine() {
        let mount = |source: &str, access| Mount { source: source.into(), target: "/workspace/extra/x".into(), access };
        let mounts = vec![mount("/srv/docs", Access::ReadOnly), mount("/srv/app", Access::ReadWrite)];
        let rules = rules(&Spec { mounts, ..spec(Trust::Main, ProviderKind::Echo, &[]) }, Vec::new(), Vec::new());
        assert!(has(&rules.read, "/srv/docs") && !has(&rules.write, "/srv/docs"), "{rules:?}");
        assert!(has(&rules.write, "/srv/app"), "{rules:?}");
    }

    #[test]
    fn temporary_files_are_at_home_and_the_search_path_is_what_can_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let mut setup = setup(directory.path(), "sh", "");
        setup.path = "/usr/bin:/data/groups/main/bin:/home/nobody/bin:bin:/bin".into();
        setup.guarded = vec!["/data".into()];
        let confined = Confined::of(&spec(Trust::Main, ProviderKind::Echo, &[]), &setup);
        assert_eq!(confined.tmp, Path::new("/data/homes/main/tmp/se4"));
        assert_eq!(confined.path, "/usr/bin:/bin");
        assert!(confined.rules_json().unwrap().starts_with(r#"{"read":["/"#));
    }

    #[test]
    fn what_is_guarded_is_cut_out_of_the_system() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["opt/hearth/store", "opt/hearth-tools", "opt/other"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("opt/hearth"), root.join("opt/link")).unwrap();
        let guarded = [root.join("opt/hearth"), root.join("home")];
        let mut left = without_guarded(&root.join("opt"), &guarded);
        left.sort();
        assert_eq!(left, [root.join("opt/hearth-tools"), root.join("opt/other")]);
        assert_eq!(without_guarded(&root.join("usr"), &guarded), [root.join("usr")]);
    }
}
