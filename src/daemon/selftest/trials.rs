//! Attacks on the machine: for each attack, how to tell whether it succeeds.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Error;
use super::remains::python;
use super::scratch::Scratch;
use crate::model::entity::ProviderKind;
use crate::runtime::Spec;
use crate::runtime::process::isolation_check::{self, Attempt, Who};
use crate::runtime::process::{Sandbox, Setup};
use crate::runtime::single_run::Place;
use crate::socket::protocol::VERSION;

/// Name of the control, which an agent may do. If it fails, the failure of attacks proves nothing.
pub(super) const CONTROL: &str = "control";
/// Adds a key to the keyring of its process, by system call number, because no library wraps the call.
const KEYRING: &str = r#"
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 248, "aarch64": 217}[platform.machine()]
made = libc.syscall(number, b"user", b"hearth-self-test", b"x", 1, -2)
print("made" if made >= 0 else os.strerror(ctypes.get_errno()))
"#;
/// System calls newer than `chmod`, and one that passes its mode through a pointer.
const SETUID_LATER: &str = r#"
import ctypes, os, stat
libc = ctypes.CDLL(None, use_errno=True)
os.chdir(os.environ["HOME"])
open("later", "w").close()
libc.syscall(452, -100, b"later", 0o4755, 0)
libc.syscall(437, -100, b"behind", (ctypes.c_uint64 * 3)(0o101, 0o4755, 0), 24)
bits = [os.stat(name).st_mode for name in ("later", "behind") if os.path.exists(name)]
print("made" if any(mode & (stat.S_ISUID | stat.S_ISGID) for mode in bits) else "held")
"#;
/// Exceeds the limits of the hostile agent.
const CHILDREN: u32 = 150;
const BYTES: u64 = 512 << 20;

/// Expected result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Forbidden,
    /// It fails for any reason.
    Fails,
    Done,
    /// Connecting may succeed, but the client is rejected.
    TurnedAway,
    /// There is no network at all.
    Unreachable,
    /// A program reports it with this text.
    Says(&'static str),
}

/// An attack and how it is tried.
pub(super) struct Trial {
    pub(super) name: &'static str,
    pub(super) attempt: Attempt,
    pub(super) expected: Expected,
}

impl Trial {
    pub(super) const fn new(name: &'static str, attempt: Attempt, expected: Expected) -> Self {
        Self { name, attempt, expected }
    }

    /// Describes the attempt, without its secrets.
    pub(super) fn words(&self) -> String {
        match &self.attempt {
            Attempt::Environments(_) => "Environments".to_owned(),
            Attempt::Greet(socket, _) if socket.starts_with("/") => format!("Greet({})", socket.display()),
            Attempt::Greet(..) => "Greet(an abstract socket)".to_owned(),
            Attempt::Run(words) if words.iter().any(|word| word.contains('\n')) => "Run(a script)".to_owned(),
            other => format!("{other:?}"),
        }
    }
}

/// What this machine can do.
pub(super) struct Able {
    /// Whether agents see only the files and processes that they are given.
    pub(super) view: bool,
    /// Whether signals cannot leave the sandbox.
    pub(super) signals: bool,
    /// Whether abstract sockets are out of reach.
    pub(super) abstracts: bool,
    /// Whether a seccomp filter keeps containers from creating user namespaces.
    pub(super) namespaces: bool,
    /// Resources that can be limited.
    pub(super) limits: Vec<&'static str>,
    /// Whether Python is available, which can make every system call.
    pub(super) python: bool,
}

/// Paths as the hostile agent sees them.
struct Seen<'a> {
    scratch: &'a Scratch<'a>,
    place: &'a Place,
    spec: &'a Spec,
}

/// All trials; those of the same attack follow each other.
pub(super) fn all(scratch: &Scratch<'_>, place: &Place, spec: &Spec, able: &Able) -> Result<Vec<Trial>, Error> {
    let seen = Seen { scratch, place, spec };
    let mut trials = seen.controls();
    trials.extend(seen.files());
    trials.extend(seen.links());
    trials.extend(seen.secrets(able)?);
    trials.extend(seen.rights(able)?);
    trials.extend(seen.modes(able));
    trials.extend(seen.others(able));
    if seen.is_contained() {
        trials.extend(contained(able));
    }
    Ok(trials)
}

/// On a machine that cannot confine agents, the promise is that nothing starts without the operator's permission.
pub(super) fn unconfined(scratch: &Scratch<'_>) -> Result<Result<String, String>, Error> {
    let sandbox = Sandbox::missing_for("there is nothing that confines", "");
    let setup = Setup { sandbox: Arc::new(sandbox.into()), ..scratch.setup()? };
    let mut spec = scratch.spec();
    spec.provider = ProviderKind::Command;
    spec.settings.provider = ProviderKind::Command;
    spec.settings.command = vec!["sh".to_owned()];
    Ok(match isolation_check::attempt(&Place::Process(Box::new(setup)), spec, &[], Who::Itself) {
        Err(reason) if reason.contains("needs `unconfined = true`") => Ok("it was not started".to_owned()),
        Ok(_) => Err("it was started".to_owned()),
        Err(reason) => Err(reason),
    })
}

fn forbidden(name: &'static str, attempt: Attempt) -> Trial {
    Trial::new(name, attempt, Expected::Forbidden)
}

fn reads<const N: usize>(name: &'static str, paths: [PathBuf; N]) -> impl Iterator<Item = Trial> {
    paths.into_iter().map(move |path| forbidden(name, Attempt::Read(path)))
}

fn writes<const N: usize>(name: &'static str, paths: [PathBuf; N]) -> impl Iterator<Item = Trial> {
    paths.into_iter().map(move |path| forbidden(name, Attempt::Write(path)))
}

impl Seen<'_> {
    const fn is_contained(&self) -> bool {
        matches!(self.place, Place::Podman(_))
    }

    fn mine(&self, below: &str) -> PathBuf {
        self.place.seen(self.spec, below)
    }

    fn group(&self) -> PathBuf {
        if self.is_contained() { "/workspace/group".into() } else { self.spec.group_dir.clone() }
    }

    fn home(&self) -> PathBuf {
        if self.is_contained() { "/home/node/.claude".into() } else { self.spec.home_dir.clone() }
    }

    fn controls(&self) -> Vec<Trial> {
        let done = |attempt| Trial::new(CONTROL, attempt, Expected::Done);
        let mut controls = vec![
            done(Attempt::Write(self.mine("agent/own"))),
            done(Attempt::Write(self.home().join("own"))),
            done(Attempt::Read(self.mine("host/note"))),
            done(Attempt::Read(self.group().join("note"))),
        ];
        let system = ["/etc", "/bin", "/dev/urandom"].into_iter().filter(|path| Path::new(path).exists());
        controls.extend(system.map(|path| done(Attempt::Read(path.into()))));
        controls
    }

    fn files(&self) -> Vec<Trial> {
        let (paths, other) = (self.scratch.paths(), self.scratch.other_spec());
        let data_file = paths.store().join("data.mdb");
        let up = self.mine("agent/../../..");
        let (session, group) = (other.session.to_string(), &other.group_dir);
        let mut trials = Vec::new();
        trials.extend(reads("store-read", [paths.store(), data_file.clone()]));
        trials.extend(writes("store-change", [data_file, paths.data().join("new")]));
        trials.extend(reads(
            "session-read",
            [paths.files(), other.session_dir.join("host/note"), other.session_dir.clone()],
        ));
        trials.extend(writes("session-change", [other.session_dir.join("agent/out/new.json")]));
        trials.extend(reads("agent-read", [group.join("note"), other.home_dir.join("note"), other.home_dir.clone()]));
        trials.extend(writes("agent-change", [group.join("new"), other.home_dir.join("new")]));
        trials.extend(writes(
            "host-half",
            [self.mine("host/note"), self.mine("host/in/new"), self.mine("host/reply/q.json")],
        ));
        trials.extend(writes("own-folder", [self.group().join("note"), self.group().join("new")]));
        let name = format!("hearth-self-test-{}", std::process::id());
        trials.extend(writes("programs", [Path::new("/usr/bin").join(&name), Path::new("/etc").join(&name)]));
        trials.extend(self.scratch.user_home().map(|home| forbidden("home", Attempt::Read(home))));
        trials.extend(reads("temporary", [self.scratch.bait()]));
        trials.extend(reads(
            "dots",
            [
                up.join("sessions").join(&session).join("host/note"),
                self.group().join("../../run/token"),
                self.group().join("..").join(super::scratch::OTHER).join("note"),
            ],
        ));
        trials.extend(reads("terminal", ["/dev/tty".into()]));
        if !self.is_contained() {
            trials.extend(writes("terminal", ["/dev/ptmx".into()]));
        }
        trials.extend(reads("token", [paths.token(), paths.run()]));
        trials
    }

    fn links(&self) -> Vec<Trial> {
        let (token, other) = (self.scratch.paths().token(), self.scratch.other_spec());
        let link = self.mine("agent/link");
        let inside = |root: &Path, path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
        let daemon = PathBuf::from(format!("/proc/{}", std::process::id()));
        let mut trials = vec![
            forbidden("symbolic-link", Attempt::ReadByLink(link.clone(), token.clone())),
            forbidden("symbolic-link", Attempt::ReadByLink(link.clone(), self.scratch.paths().store())),
            forbidden("hard-link", Attempt::ReadByHardLink(link.clone(), token.clone())),
            forbidden("move", Attempt::Take(link, other.group_dir.join("note"))),
        ];
        trials.extend(reads(
            "processes",
            [
                inside(Path::new("/proc/self/root"), &token),
                inside(Path::new("/proc/1/root"), &token),
                inside(&daemon.join("root"), &token),
                daemon.join("cwd"),
                "/proc/self/fd/4".into(),
            ],
        ));
        trials.extend(reads("daemon-memory", [daemon.join("environ"), daemon.join("mem")]));
        trials
    }

    fn secrets(&self, able: &Able) -> Result<Vec<Trial>, Error> {
        let greeting = format!(r#"{{"do":"hello","v":{VERSION},"token":""}}"#);
        let socket = self.scratch.paths().socket().to_owned();
        let mut trials = vec![Trial::new("daemon-socket", Attempt::Greet(socket, greeting), Expected::TurnedAway)];
        let secret = &self.scratch.secret;
        // If not even the host may look, the attempt proves nothing.
        if self.scratch.wait(|| Ok(somebody_has(secret)))? {
            trials.push(Trial::new("other-environment", Attempt::Environments(secret.clone()), Expected::Fails));
        }
        let sockets =
            [self.scratch.socket.clone(), "/run/podman/podman.sock".into(), "/run/dbus/system_bus_socket".into()];
        let there = sockets.into_iter().filter(|socket| self.is_contained() || socket.exists());
        trials.extend(there.map(|socket| forbidden("other-sockets", Attempt::Greet(socket, "hello".to_owned()))));
        if able.abstracts {
            let address = format!("@{}", self.scratch.secret).into();
            trials.push(Trial::new("abstract-sockets", Attempt::Greet(address, "hello".to_owned()), Expected::Fails));
        }
        Ok(trials)
    }

    fn rights(&self, able: &Able) -> Result<Vec<Trial>, Error> {
        let run = |words: &[&str]| Attempt::Run(words.iter().map(|word| (*word).to_owned()).collect());
        let fails = |name, attempt| Trial::new(name, attempt, Expected::Fails);
        let here = self.mine("agent");
        let place = here.to_str().ok_or_else(|| Error::Trial("the scratch directory is not UTF-8".to_owned()))?;
        let mount = format!("mount -t tmpfs none {place}");
        let mut trials = vec![
            forbidden("setuid", Attempt::Rights),
            // With empty input, it does not wait for a password.
            fails("setuid", run(&["sh", "-c", "su -c true < /dev/null"])),
            fails("mount", run(&["mount", "-t", "tmpfs", "none", place])),
            forbidden("device", Attempt::Node(here.join("device"))),
        ];
        if able.namespaces || !self.is_contained() {
            trials.push(forbidden("user-namespace", Attempt::Namespace));
        }
        if able.namespaces || !self.is_contained() {
            let words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", &mount];
            trials.push(fails("user-namespace", run(&words)));
        }
        let pid = i32::try_from(std::process::id()).unwrap_or_default();
        if able.signals {
            trials.push(forbidden("signal", Attempt::Signal(pid)));
        }
        trials.push(forbidden("limits-of-others", Attempt::Limit(pid)));
        Ok(trials)
    }

    /// Landlock does not restrict chmod: an agent that sees a file of its own user can make it accessible to others.
    fn modes(&self, able: &Able) -> Vec<Trial> {
        let mut trials = Vec::new();
        if able.view {
            let (paths, other) = (self.scratch.paths(), self.scratch.other_spec());
            let files = [paths.token(), paths.store().join("data.mdb"), other.home_dir.join("note")];
            trials.extend(files.map(|file| forbidden("modes", Attempt::Mode(file, 0o666))));
            trials.extend(
                self.scratch.user_home().map(|home| forbidden("modes", Attempt::Mode(home.join(".ssh"), 0o777))),
            );
        }
        if !self.is_contained() {
            let own = self.mine("agent/own");
            trials.push(forbidden("setuid-made", Attempt::Mode(own.clone(), 0o4755)));
            trials.push(forbidden("setuid-made", Attempt::Mode(own.clone(), 0o2755)));
            trials.push(forbidden("setuid-made", Attempt::Create(own.with_file_name("other"), 0o4755)));
        }
        trials
    }

    /// Trials that need system calls without a safe wrapper.
    fn others(&self, able: &Able) -> Vec<Trial> {
        let mut trials = Vec::new();
        if !self.is_contained() {
            if able.python {
                trials.push(Trial::new("keyring", python(KEYRING, &[]), Expected::Says("Operation not permitted")));
                trials.push(Trial::new("setuid-made", python(SETUID_LATER, &[]), Expected::Says("held")));
            }
            if able.view {
                trials.extend(reads("passwords", ["/etc/shadow".into()]));
            }
            if able.limits.contains(&"pids") {
                trials.push(forbidden("fork-bomb", Attempt::Fork(CHILDREN)));
            }
        }
        trials
    }
}

/// Trials of protections that only a container provides.
fn contained(able: &Able) -> Vec<Trial> {
    // Host addresses of Podman's networks, and one reserved for documentation: their packets do not leave the machine.
    let addresses = ["10.88.0.1:9", "10.0.2.2:9", "192.0.2.1:9"];
    let unreachable =
        |address: &str| Trial::new("network-none", Attempt::Connect(address.to_owned()), Expected::Unreachable);
    let mut trials: Vec<Trial> = addresses.into_iter().map(unreachable).collect();
    trials.extend(reads("passwords", ["/etc/shadow".into()]));
    if able.limits.contains(&"pids") {
        trials.push(forbidden("fork-bomb", Attempt::Fork(CHILDREN)));
    }
    if able.limits.contains(&"memory") {
        trials.push(forbidden("memory", Attempt::Fill(BYTES)));
    }
    trials
}

/// Whether the environment of some process contains a text. Otherwise not finding the text would prove nothing.
fn somebody_has(text: &str) -> bool {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut environments = entries.filter_map(|entry| std::fs::read(entry.path().join("environ")).ok());
    environments.any(|found| found.windows(text.len()).any(|part| part == text.as_bytes()))
}
