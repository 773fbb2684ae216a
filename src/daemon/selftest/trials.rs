//! What a hostile agent tries of the machine: for each attack what shows whether it succeeds.

use std::path::{Path, PathBuf};

use super::Error;
use super::scratch::Scratch;
use crate::model::entity::ProviderKind;
use crate::runtime::Spec;
use crate::runtime::process::Setup;
use crate::runtime::process::trial::{self, Attempt, Place, Who};
use crate::socket::protocol::VERSION;

/// The name of what an agent may do: if it cannot, nothing is proved by what else it cannot do.
pub(super) const CONTROL: &str = "control";
/// Beyond the limits of the hostile agent.
const CHILDREN: u32 = 150;
const BYTES: u64 = 512 << 20;

/// What should come of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Forbidden,
    /// For whatever reason.
    Fails,
    Done,
    /// Connecting may be possible; getting further is not.
    TurnedAway,
    /// There is no network at all.
    Unreachable,
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

    /// The attempt, without what is secret in it.
    pub(super) fn words(&self) -> String {
        match &self.attempt {
            Attempt::Environments(_) => "Environments".to_owned(),
            Attempt::Greet(socket, _) if socket.starts_with("/") => format!("Greet({})", socket.display()),
            Attempt::Greet(..) => "Greet(an abstract socket)".to_owned(),
            other => format!("{other:?}"),
        }
    }
}

/// What this machine can do.
pub(super) struct Able {
    /// Signals are kept inside.
    pub(super) scopes: bool,
    /// Other programs' sockets are out of reach.
    pub(super) sockets: bool,
    /// A filter of system calls keeps user namespaces from containers.
    pub(super) namespaces: bool,
    /// What containers can be limited in.
    pub(super) limits: Vec<&'static str>,
}

/// Where things are as the hostile agent sees them.
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
    if seen.is_contained() {
        trials.extend(contained(able));
    }
    Ok(trials)
}

/// Where nothing confines, the promise is that nothing is started without the operator's word.
pub(super) fn unconfined(scratch: &Scratch<'_>) -> Result<Result<String, String>, Error> {
    let setup = Setup { confinement: Err("there is nothing that confines".to_owned()), ..scratch.setup()? };
    let mut spec = scratch.spec();
    spec.provider = ProviderKind::Command;
    spec.settings.provider = ProviderKind::Command;
    spec.settings.command = vec!["sh".to_owned()];
    Ok(match trial::attempt(&Place::Process(Box::new(setup)), spec, &[], Who::Itself) {
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
        trials.extend(reads("session-read", [paths.files(), paths.sessions(), other.session_dir.join("host/note")]));
        trials.extend(writes("session-change", [other.session_dir.join("agent/out/new.json")]));
        trials.extend(reads("agent-read", [group.join("note"), other.home_dir.join("note"), paths.homes()]));
        trials.extend(writes("agent-change", [group.join("new"), other.home_dir.join("new")]));
        trials.extend(writes(
            "host-half",
            [self.mine("host/note"), self.mine("host/in/new"), self.mine("host/reply/q.json")],
        ));
        trials.extend(writes("own-folder", [self.group().join("note"), self.group().join("new")]));
        let name = format!("hearth-self-test-{}", std::process::id());
        trials.extend(writes("programs", [Path::new("/usr/bin").join(&name), Path::new("/etc").join(&name)]));
        trials.extend(self.scratch.user_home().map(|home| forbidden("home", Attempt::Read(home))));
        trials.extend(reads("temporary", [paths.data().with_file_name("")]));
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
        // Where not even the host may look, nothing is proved.
        if self.scratch.wait(|| Ok(somebody_has(secret)))? {
            trials.push(Trial::new("other-environment", Attempt::Environments(secret.clone()), Expected::Fails));
        }
        let sockets =
            [self.scratch.socket.clone(), "/run/podman/podman.sock".into(), "/run/dbus/system_bus_socket".into()];
        let there = sockets.into_iter().filter(|socket| self.is_contained() || socket.exists());
        if able.sockets {
            trials.extend(there.map(|socket| forbidden("other-sockets", Attempt::Greet(socket, "hello".to_owned()))));
        }
        if able.scopes {
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
            // Without anything to read it does not wait for a password.
            fails("setuid", run(&["sh", "-c", "su -c true < /dev/null"])),
            fails("mount", run(&["mount", "-t", "tmpfs", "none", place])),
            forbidden("device", Attempt::Node(here.join("device"))),
        ];
        if able.namespaces {
            trials.push(forbidden("user-namespace", Attempt::Namespace));
        }
        if able.namespaces || !self.is_contained() {
            let words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", &mount];
            trials.push(fails("user-namespace", run(&words)));
        }
        if able.scopes {
            let pid = i32::try_from(std::process::id()).unwrap_or_default();
            trials.push(forbidden("signal", Attempt::Signal(pid)));
        }
        Ok(trials)
    }
}

/// What only a container holds.
fn contained(able: &Able) -> Vec<Trial> {
    // Addresses of the host's side of Podman's networks, and one that is nobody's: no packet of these leaves the machine.
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

/// Whether the environment of some process has a text: otherwise nothing is proved by not finding it.
fn somebody_has(text: &str) -> bool {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut environments = entries.filter_map(|entry| std::fs::read(entry.path().join("environ")).ok());
    environments.any(|found| found.windows(text.len()).any(|part| part == text.as_bytes()))
}
