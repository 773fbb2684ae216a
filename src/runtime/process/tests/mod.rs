//! Tests with real processes: small scripts stand in for the runner.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::{Lookup, ProcessRuntime, Setup};
use crate::model::entity::{AgentSettings, EnvValue, ProviderKind, Trust};
use crate::model::id::SessionId;
use crate::model::incarnation::Exit;
use crate::model::input::RuntimeEvent;
use crate::model::session::SessionName;
use crate::runtime::recorder::{DEADLINE, RecordedEvents, wait_until};
use crate::runtime::{Runtime, Spec};

mod gone;
mod inherit;
mod start;

const fn se(number: u64) -> SessionId {
    SessionId::new(number)
}

/// Whether a process can still do anything. The system closes its descriptors when it ends, before it is reaped.
pub(super) fn lives(pid: i32) -> bool {
    std::fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|links| links.count() > 0)
}

/// A runtime whose runners are scripts, and a directory for its files.
struct World {
    directory: TempDir,
    heard: RecordedEvents,
    runtime: ProcessRuntime,
}

impl World {
    /// `$1` of the script is the directory.
    fn sh(script: &str) -> Self {
        Self::with("sh", script, |_| {})
    }

    /// `sys.argv[1]` of the script is the directory.
    fn python(script: &str) -> Self {
        Self::with("python3", script, |_| {})
    }

    fn with(program: &str, script: &str, change: impl FnOnce(&mut Setup)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let heard = RecordedEvents::default();
        let mut setup = setup(directory.path(), program, script);
        change(&mut setup);
        let runtime = ProcessRuntime::start(setup, heard.listener()).unwrap();
        Self { directory, heard, runtime }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn spec(&self, session: u64, incarnation: u32) -> Spec {
        Spec {
            session: SessionId::new(session),
            incarnation,
            session_dir: self.path("session"),
            group_dir: self.path("groups/main"),
            home_dir: self.path("home"),
            settings: settings(),
            provider: settings().provider,
            session_name: SessionName::Maintenance,
            timezone: "UTC".to_owned(),
            digest: crate::model::incarnation::SpecDigest::new(0),
            image: None,
            mounts: Vec::new(),
            secrets: crate::runtime::Known::default(),
            model_access: None,
            network_access: None,
        }
    }

    fn ensure(&self, session: u64, incarnation: u32) {
        self.runtime.ensure(self.spec(session, incarnation));
    }

    fn kill(&self, session: u64, incarnation: u32) {
        self.runtime.kill(SessionId::new(session), incarnation);
    }

    fn inquire(&self, session: u64, incarnation: u32) {
        self.runtime.inquire(SessionId::new(session), incarnation);
    }

    /// Waits until a script has written a complete line into a file.
    fn line(&self, name: &str) -> String {
        let read = || std::fs::read_to_string(self.path(name)).unwrap_or_default();
        wait_until(name, || read().ends_with('\n'));
        read().trim().to_owned()
    }

    fn pid(&self, name: &str) -> i32 {
        self.line(name).parse().unwrap()
    }

    fn lock(&self, session: u64) -> PathBuf {
        self.path(&format!("run/locks/se{session}.lock"))
    }
}

pub(super) fn setup(directory: &Path, program: &str, script: &str) -> Setup {
    let lookup: Lookup = Arc::new(|name| (name == "TOKEN").then(|| "token-of-the-daemon".into()));
    let path = "/usr/local/bin:/usr/bin:/bin".into();
    let mut setup = Setup::new(program.into(), path, directory.join("run/locks"), lookup);
    setup.arguments = ["-c", script].map(Into::into).to_vec();
    if program == "sh" {
        setup.arguments.push("sh".into());
    }
    setup.arguments.push(directory.into());
    setup.grace = Duration::from_millis(200);
    // Scripts cannot confine themselves.
    setup.sandbox = Arc::new(super::Sandbox::missing_for("nothing confines here", "").into());
    setup
}

pub(super) fn settings() -> AgentSettings {
    AgentSettings { trust: Trust::Main, ..AgentSettings::named("Main".to_owned()) }
}

fn reference(name: &str, text: &str) -> (String, EnvValue) {
    (name.to_owned(), EnvValue::Reference(text.to_owned()))
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
