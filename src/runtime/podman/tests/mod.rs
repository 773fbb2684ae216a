//! Tests with real containers. `tests/podman.sh DIR -- cargo test …` provides a Podman; without it the tests print that
//! they are skipped.
#![allow(clippy::disallowed_methods, reason = "tests ask Podman's own command, wait and look at their environment")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tempfile::TempDir;

use super::{PodmanRuntime, Setup};
use crate::model::entity::{AgentSettings, EnvValue, Network, Trust};
use crate::model::id::SessionId;
use crate::model::incarnation::{Exit, SpecDigest};
use crate::model::input::RuntimeEvent;
use crate::model::session::SessionName;
use crate::runtime::process::Lookup;
use crate::runtime::recorder::{RecordedEvents, wait_until};
use crate::runtime::{Runtime, Spec};

mod adopt;
mod images;
mod inside;
mod left;
mod life;
mod secrets;
mod trouble;

/// The session of most tests.
const ONE: SessionId = SessionId::new(1);

/// The Podman service: shared by most tests, stopped only by a test that has it alone.
static SERVICE: RwLock<()> = RwLock::new(());

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The socket of the Podman to test with.
fn socket() -> Option<String> {
    // The variable is set only by the script that also builds the image these tests need.
    let socket = std::env::var("HEARTH_TEST_SERVICE").and_then(|_| std::env::var("HEARTH_TEST_PODMAN")).ok();
    if socket.is_none() {
        eprintln!("SKIPPED: no Podman; run tests/podman.sh DIR -- cargo test -p hearth --lib podman");
    }
    socket
}

fn image() -> String {
    std::env::var("HEARTH_TEST_IMAGE").unwrap()
}

/// The output of Podman's command.
fn podman(arguments: &[&str]) -> String {
    let output = Command::new("podman").arg("--remote").args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Stops or starts the service of Podman.
fn service(verb: &str) {
    assert!(
        Command::new(std::env::var("HEARTH_TEST_SERVICE").unwrap()).arg(verb).status().unwrap().success()
            || verb == "stop"
    );
}

/// An installation whose runner is a script in the agent's folder.
struct World {
    directory: TempDir,
    install: String,
    heard: RecordedEvents,
    runtime: PodmanRuntime,
    /// Released after everything else is gone.
    _service: (Option<RwLockReadGuard<'static, ()>>, Option<RwLockWriteGuard<'static, ()>>),
}

impl World {
    /// None without a Podman.
    fn new(script: &str) -> Option<Self> {
        socket()?;
        let beside = SERVICE.read().unwrap_or_else(PoisonError::into_inner);
        Some(Self::make(script, (Some(beside), None)))
    }

    /// Like `new`, but waits until no other test uses the service, for tests that stop it.
    fn alone(script: &str) -> Option<Self> {
        socket()?;
        let alone = SERVICE.write().unwrap_or_else(PoisonError::into_inner);
        Some(Self::make(script, (None, Some(alone))))
    }

    fn make(
        script: &str,
        service: (Option<RwLockReadGuard<'static, ()>>, Option<RwLockWriteGuard<'static, ()>>),
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let install = format!("t{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        for part in ["session/host", "session/agent", "groups/main", "home/main"] {
            std::fs::create_dir_all(directory.path().join(part)).unwrap();
        }
        std::fs::write(directory.path().join("groups/main/runner.sh"), script).unwrap();
        let heard = RecordedEvents::default();
        let runtime = start(&install, &heard, directory.path());
        Self { directory, install, heard, runtime, _service: service }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn spec(&self, session: SessionId, incarnation: u32) -> Spec {
        let settings =
            AgentSettings { trust: Trust::Main, network: Network::None, ..AgentSettings::named("Main".to_owned()) };
        Spec {
            session,
            incarnation,
            session_dir: self.path("session"),
            group_dir: self.path("groups/main"),
            home_dir: self.path("home/main"),
            provider: settings.provider,
            settings,
            session_name: SessionName::Maintenance,
            timezone: "Europe/Vienna".to_owned(),
            digest: SpecDigest::new(7),
            image: Some(image()),
            mounts: Vec::new(),
            secrets: crate::runtime::Known::default(),
            model_access: None,
            network_access: None,
        }
    }

    fn ensure(&self, session: SessionId, incarnation: u32) {
        self.runtime.ensure(self.spec(session, incarnation));
    }

    /// Runs the script to its end. Returns its exit code, and what it wrote to the file `out` of its folder.
    fn run(&self, change: impl FnOnce(&mut Spec)) -> (Exit, String) {
        let mut spec = self.spec(ONE, 1);
        change(&mut spec);
        self.runtime.ensure(spec);
        let (exit, tail) = self.heard.gone(ONE, 1);
        let out = std::fs::read_to_string(self.path("session/agent/out")).unwrap_or_default();
        (exit, format!("{out}{tail}"))
    }

    fn name(&self, session: SessionId) -> String {
        super::spec::name(&self.install, session)
    }

    /// Names of the installation's containers.
    fn containers(&self) -> Vec<String> {
        let filter = format!("label=hearth.install={}", self.install);
        podman(&["ps", "-a", "--filter", &filter, "--format", "{{.Names}}"]).lines().map(str::to_owned).collect()
    }

    /// The output of `podman inspect`.
    fn inspect(&self, session: SessionId, format: &str) -> String {
        podman(&["inspect", "--format", format, &self.name(session)])
    }

    /// Starts a container that does not belong to the runtime.
    fn foreign(&self, name: &str, install: &str, labels: &[(&str, &str)]) {
        let mut arguments: Vec<String> =
            ["run", "-d", "--network=none", "--entrypoint=sleep", "--name", name].map(str::to_owned).to_vec();
        for (label, value) in [("hearth.install", install)].iter().chain(labels) {
            arguments.extend(["--label".to_owned(), format!("{label}={value}")]);
        }
        arguments.extend([image(), "1000".to_owned()]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert_eq!(podman(&arguments).len(), 64, "{name}");
    }

    /// Waits until the script has written a line into a file of the session's.
    fn line(&self, name: &str) -> String {
        let read = || std::fs::read_to_string(self.path("session/agent").join(name)).unwrap_or_default();
        wait_until(name, || read().ends_with('\n'));
        read().trim().to_owned()
    }
}

/// Nothing of a test survives it, even if it fails.
impl Drop for World {
    fn drop(&mut self) {
        for name in self.containers() {
            podman(&["rm", "-f", "-t", "0", &name]);
        }
    }
}

fn lookup() -> Lookup {
    let socket = format!("unix://{}", socket().unwrap_or_default());
    Arc::new(move |name| match name {
        "CONTAINER_HOST" => Some(socket.clone().into()),
        "TOKEN" => Some("token-of-the-daemon".into()),
        "STORED" => Some("marked-secret-of-one-test-6b1d".into()),
        _ => None,
    })
}

fn start(install: &str, heard: &RecordedEvents, directory: &Path) -> PodmanRuntime {
    let (filter, secrets) = (directory.join("seccomp.json"), directory.join("secrets"));
    let setup = Setup { install: install.to_owned(), lookup: lookup(), filter, secrets };
    PodmanRuntime::start(setup, heard.listener()).unwrap()
}

fn reference(name: &str, text: &str) -> (String, EnvValue) {
    (name.to_owned(), EnvValue::Reference(text.to_owned()))
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
