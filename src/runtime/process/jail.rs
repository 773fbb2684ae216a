//! The mount view of an agent: the options of bubblewrap. `options` is pure; `Visible` inspects this machine.
//!
//! The agent's directories have the same paths as outside, so that no path has to be translated. Nothing else of the
//! machine is visible: no homes, no `/run`, and of `/etc` only what programs need.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use agent_runner::confine::Rules;

use super::programs;
use super::spawn::{GROUP_FD, LOCK_FD, PASSWD_FD, STATUS_FD};
use crate::model::bound_secret::BUNDLE;
use crate::model::network::{NETWORK_FILES, NetworkAccess};

/// In-memory directories that vanish with the view.
const IN_MEMORY: [&str; 4] = ["/tmp", "/dev/shm", "/var/tmp", "/run"];
/// Size of each of them in bytes.
const MEMORY_BYTES: u64 = 256 << 20;

/// Entries of `/etc` that are shown if they exist. No `shadow`, no keys, no service configuration; `passwd` and `group`
/// are generated.
const ETC: [&str; 42] = [
    "alternatives",
    "bash.bashrc",
    "bash_completion.d",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "fonts",
    "gai.conf",
    "gitattributes",
    "gitconfig",
    "gnutls",
    "host.conf",
    "hosts",
    "inputrc",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "magic",
    "mime.types",
    "nix",
    "npmrc",
    "nsswitch.conf",
    "openssl",
    "os-release",
    "perl",
    "pip.conf",
    "pki",
    "profile",
    "protocols",
    "python3",
    "resolv.conf",
    "services",
    "ssl",
    "static",
    "terminfo",
    "timezone",
];

/// Bubblewrap's path, and the user that agents run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jail {
    pub program: PathBuf,
    /// User and group of agents if the daemon runs as root.
    pub user: Option<u32>,
}

/// The parts of this machine's system that a view shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Visible {
    /// Links to create: path and target.
    links: Vec<(PathBuf, PathBuf)>,
    /// Parts of `/etc` to show.
    etc: Vec<PathBuf>,
}

impl Visible {
    /// Collects the system's links, and those on the paths that the rules name.
    pub(super) fn of(rules: &Rules, guarded: &[PathBuf]) -> Self {
        let mut visible = Self::default();
        for path in super::confine::SYSTEM {
            visible.add_links(Path::new(path), guarded);
        }
        for name in ETC {
            let path = Path::new("/etc").join(name);
            match programs::real(&path, guarded) {
                // The target is visible as well. The view stays correct if the link or its target is replaced.
                Some(real) if path.is_symlink() && is_below(&real, &rules.read) && !real.starts_with("/etc") => {
                    visible.add_links(&path, guarded);
                }
                Some(real) if real.exists() => visible.etc.push(path),
                _ => {}
            }
        }
        visible
    }

    /// Leaves out a path of the system, and the link that is there.
    pub(super) fn hide(&mut self, path: &Path) {
        self.etc.retain(|shown| shown != path);
        self.links.retain(|(at, _)| at != path);
    }

    /// Adds the links on the way to a path.
    pub(super) fn add_links(&mut self, path: &Path, guarded: &[PathBuf]) {
        for link in programs::links(path, guarded) {
            if !self.links.contains(&link) {
                self.links.push(link);
            }
        }
    }
}

fn is_below(path: &Path, directories: &[PathBuf]) -> bool {
    directories.iter().any(|directory| path.starts_with(directory))
}

/// A mount view.
pub(super) struct View<'a> {
    pub(super) rules: &'a Rules,
    pub(super) visible: &'a Visible,
    /// Working directory.
    pub(super) directory: &'a Path,
    /// Whether it has its own, empty network.
    pub(super) own_network: bool,
    /// The way out of that network, if there is one.
    pub(super) way_out: Option<&'a NetworkAccess>,
    /// Whether root creates it and the runner inside switches to another user.
    pub(super) becomes_user: bool,
    pub(super) variables: &'a [(OsString, OsString)],
}

/// The options of bubblewrap, one word each. They are passed in a file, because the variables hold secrets.
pub(super) fn options(view: &View<'_>) -> Vec<OsString> {
    let mut words = Words::default();
    words.add(["--unshare-pid", "--unshare-ipc", "--unshare-cgroup-try", "--new-session", "--die-with-parent"]);
    if view.own_network {
        words.add(["--unshare-net"]);
    }
    words.add(["--cap-drop", "ALL"]);
    if view.becomes_user {
        words.add(["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]);
    } else {
        words.add(["--unshare-user"]);
    }
    if view.way_out.is_some() {
        // The runner gives it up as soon as it listens.
        words.add(["--cap-add", "CAP_NET_BIND_SERVICE"]);
    }
    words.add(["--sync-fd", &LOCK_FD.to_string(), "--json-status-fd", &STATUS_FD.to_string()]);
    for step in steps(view) {
        words.0.extend(step.words);
    }
    for (fd, file) in [(PASSWD_FD, "/etc/passwd"), (GROUP_FD, "/etc/group")] {
        words.add(["--perms", "0644", "--ro-bind-data", &fd.to_string(), file]);
    }
    words.add(["--remount-ro", "/"]);
    // Without its capabilities root cannot enter directories of another user. The runner does so after it has switched
    // to that user.
    words.path(["--chdir"], if view.becomes_user { Path::new("/") } else { view.directory });
    for (name, value) in view.variables {
        words.add(["--setenv"]);
        words.0.extend([name.clone(), value.clone()]);
    }
    words.0
}

/// One mount or link.
struct Step<'a> {
    at: Cow<'a, Path>,
    words: Vec<OsString>,
}

/// The steps in the order in which they can be made: parents come first.
fn steps<'a>(view: &'a View<'_>) -> Vec<Step<'a>> {
    let size = MEMORY_BYTES.to_string();
    let in_memory = IN_MEMORY.map(|place| {
        let mut words = Words::default();
        words.add(["--perms", if place == "/run" { "0755" } else { "1777" }, "--size", &size, "--tmpfs", place]);
        Step { at: Path::new(place).into(), words: words.0 }
    });
    let proc = Step { at: Path::new("/proc").into(), words: ["--proc", "/proc"].map(OsString::from).to_vec() };
    let rules = view.rules;
    let shown = |path: &&PathBuf| !path.starts_with("/proc") && *path != Path::new("/etc");
    let read = rules
        .read
        .iter()
        .filter(shown)
        .chain(&view.visible.etc)
        .chain(&rules.sockets)
        .map(|path| bind("--ro-bind-try", path));
    let is_shown = |path: &&PathBuf| IN_MEMORY.iter().all(|place| path.as_path() != Path::new(place));
    let write: Vec<Step<'_>> = rules.write.iter().filter(is_shown).map(|path| bind("--bind", path)).collect();
    let replaced = view.way_out.into_iter().flat_map(|access| {
        NETWORK_FILES.iter().map(|(name, _)| {
            let (from, at) = (access.directory.join(name), Path::new("/etc").join(name));
            Step { words: vec!["--ro-bind".into(), from.into(), at.clone().into()], at: at.into() }
        })
    });
    let bundle = view.way_out.and_then(|access| access.secrets.as_ref()).and_then(|secrets| secrets.bundle.as_ref());
    let bundle = bundle.map(|bundle| {
        let from = bundle.as_os_str().to_owned();
        Step { words: vec!["--ro-bind".into(), from, BUNDLE.into()], at: Path::new(BUNDLE).into() }
    });
    let devices = rules.devices.iter().map(|path| bind("--dev-bind-try", path));
    let streams = [("/dev/fd", ""), ("/dev/stdin", "/0"), ("/dev/stdout", "/1"), ("/dev/stderr", "/2")];
    let streams =
        streams.into_iter().map(|(at, number)| link(Path::new(at), format!("/proc/self/fd{number}").as_ref()));
    let bound = || rules.read.iter().chain(&rules.write).chain(&rules.sockets).filter(is_shown);
    let is_inside = |at: &Path| bound().any(|path| at != path && at.starts_with(path) && path != Path::new("/etc"));
    // A link inside of a shown directory already exists; a link above one becomes a directory.
    let links = view.visible.links.iter().filter(|(at, _)| !is_inside(at) && !bound().any(|path| path.starts_with(at)));
    let links = links.map(|(at, to)| link(at, to.as_os_str()));
    let mut steps: Vec<Step<'_>> =
        streams.chain(links).chain(read).chain(replaced).chain(bundle).chain(devices).collect();
    steps.extend(write);
    steps.extend(in_memory);
    steps.push(proc);
    // Bubblewrap would create the parents for its own user alone, which may be root.
    let above = steps.iter().flat_map(|step| step.at.ancestors().skip(1));
    let above: BTreeSet<PathBuf> = above.map(Path::to_owned).collect();
    let above = above.into_iter().filter(|at| at.parent().is_some() && !is_inside(at));
    let mut all: Vec<Step<'_>> = above.map(directory).collect();
    all.append(&mut steps);
    all.sort_by_key(|step| step.at.components().count());
    all
}

fn directory(at: PathBuf) -> Step<'static> {
    let mut words = Words::default();
    words.path(["--perms", "0755", "--dir"], &at);
    Step { at: at.into(), words: words.0 }
}

fn bind<'a>(how: &str, path: &'a Path) -> Step<'a> {
    Step { at: path.into(), words: vec![how.into(), path.into(), path.into()] }
}

fn link<'a>(at: &'a Path, to: &OsStr) -> Step<'a> {
    Step { at: at.into(), words: vec!["--symlink".into(), to.to_owned(), at.into()] }
}

#[derive(Default)]
struct Words(Vec<OsString>);

impl Words {
    fn add<const N: usize>(&mut self, words: [&str; N]) {
        self.0.extend(words.map(OsString::from));
    }

    fn path<const N: usize>(&mut self, words: [&str; N], path: &Path) {
        self.add(words);
        self.0.push(path.into());
    }
}

/// The content of `/etc/passwd` and `/etc/group`: the agent, the users `root` and `nobody`, and no other user of this
/// machine.
pub(super) fn accounts(user: u32, group: u32, home: &Path) -> (String, String) {
    let home = home.display().to_string().replace([':', '\n'], "_");
    let mut passwd = format!("agent:x:{user}:{group}:agent:{home}:/bin/sh\n");
    let mut groups = format!("agent:x:{group}:\n");
    for (name, id) in [("root", 0), ("nobody", 65_534)] {
        if user != id {
            passwd.push_str(&format!("{name}:x:{id}:{id}:{name}:/nonexistent:/usr/sbin/nologin\n"));
        }
        if group != id {
            groups.push_str(&format!("{name}:x:{id}:\n"));
        }
    }
    (passwd, groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        Rules {
            read: paths(&["/usr", "/etc", "/proc", "/proc/self/exe", "/data/sessions/se4/host", "/home/u/.local/bin"]),
            write: paths(&["/data/sessions/se4/agent", "/data/homes/main", "/data/groups/main", "/tmp", "/dev/shm"]),
            devices: paths(&["/dev/null", "/dev/urandom"]),
            sockets: paths(&["/data/run/gate/se4.1"]),
            ..Rules::default()
        }
    }

    fn words(own_network: bool, becomes_user: bool) -> Vec<String> {
        let visible = Visible {
            links: vec![
                ("/bin".into(), "usr/bin".into()),
                ("/etc/localtime".into(), "/usr/share/zoneinfo/UTC".into()),
                ("/usr/bin/inside".into(), "elsewhere".into()),
            ],
            etc: vec!["/etc/hosts".into(), "/etc/ssl".into()],
        };
        let rules = rules();
        let variables = [("KEY".into(), "value of it".into())];
        let directory = Path::new("/data/groups/main");
        let way_out = &NetworkAccess { directory: "/data/run/network/se4.1".into(), ports: Vec::new(), secrets: None };
        let way_out = own_network.then_some(way_out);
        let view = View {
            rules: &rules,
            visible: &visible,
            directory,
            own_network,
            way_out,
            becomes_user,
            variables: &variables,
        };
        options(&view).into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    /// One line per option.
    fn lines(words: &[String]) -> String {
        words.join(" ").replace(" --", "\n--")
    }

    #[test]
    fn the_whole_of_it() {
        insta::assert_snapshot!(lines(&words(false, false)));
    }

    #[test]
    fn a_network_of_its_own_and_root_change_these_lines_only() {
        let plain = lines(&words(false, false));
        let lacks = |one: &str, other: &str| -> Vec<String> {
            one.lines().filter(|line| !other.lines().any(|there| there == *line)).map(str::to_owned).collect()
        };
        let network = [
            "--unshare-net",
            "--cap-add CAP_NET_BIND_SERVICE",
            "--ro-bind /data/run/network/se4.1/hosts /etc/hosts",
            "--ro-bind /data/run/network/se4.1/nsswitch.conf /etc/nsswitch.conf",
            "--ro-bind /data/run/network/se4.1/resolv.conf /etc/resolv.conf",
        ];
        assert_eq!(lacks(&lines(&words(true, false)), &plain), network);
        let root = lines(&words(false, true));
        assert_eq!(lacks(&root, &plain), ["--cap-add CAP_SETUID", "--cap-add CAP_SETGID", "--chdir /"]);
        assert_eq!(lacks(&plain, &root), ["--unshare-user", "--chdir /data/groups/main"]);
    }

    #[test]
    fn what_contains_something_comes_first() {
        let words = lines(&words(false, false));
        let at = |line: &str| words.lines().position(|there| there.contains(line)).unwrap_or_else(|| panic!("{line}"));
        assert!(at("--tmpfs /tmp") < at("--bind /data/groups/main"));
        assert!(at("--proc /proc") < at("/etc/hosts"));
        assert!(!words.contains("/usr/bin/inside"), "it is there with /usr");
    }

    #[test]
    fn accounts_name_the_agent_and_nobody_else() {
        let (passwd, group) = accounts(1000, 1000, Path::new("/data/homes/a:b"));
        assert!(passwd.starts_with("agent:x:1000:1000:agent:/data/homes/a_b:/bin/sh\nroot:x:0:"), "{passwd}");
        assert_eq!(group.lines().count(), 3);
        assert_eq!(accounts(0, 0, Path::new("/h")).0.lines().count(), 2);
    }
}
