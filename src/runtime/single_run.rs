//! Runs one incarnation to its end, apart from those of the daemon.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::podman::{self, PodmanRuntime};
use super::process::{ProcessRuntime, Sandbox, Setup};
use super::{Error, Events, Runtime, Spec};
use crate::model::entity::AgentSettings;
use crate::model::gateway::{GatewayAddress, ModelAccess, Reach, SOCKET};
use crate::model::incarnation::Exit;
use crate::model::input::RuntimeEvent;

/// A runtime with nothing else in it.
#[derive(Debug, Clone)]
pub enum Place {
    /// The process runtime. It uses the setup's lock directory.
    Process(Box<Setup>),
    /// The Podman runtime, for an installation without other containers.
    Podman(podman::Setup),
}

impl Place {
    /// A path below a session's directory, as its agent sees it.
    #[must_use]
    pub fn seen(&self, spec: &Spec, below: &str) -> PathBuf {
        match self {
            Self::Process(_) => spec.session_dir.join(below),
            Self::Podman(_) => PathBuf::from("/workspace/session").join(below),
        }
    }

    /// Where an agent reaches its gateway: the path of a socket, or `host:port`.
    #[must_use]
    pub fn gateway(&self, access: &ModelAccess) -> Option<String> {
        let directory = match (&access.address, self) {
            (GatewayAddress::None, _) => return None,
            (GatewayAddress::Port(port), _) => return Some(format!("127.0.0.1:{port}")),
            (GatewayAddress::Socket(_), Self::Podman(_)) => Path::new(podman::GATE),
            (GatewayAddress::Socket(directory), Self::Process(_)) => directory,
        };
        directory.join(SOCKET).to_str().map(str::to_owned)
    }

    /// Whether agents see only the files of the machine that they are given.
    #[must_use]
    pub fn has_view(&self) -> bool {
        match self {
            Self::Process(setup) => matches!(setup.sandbox(), Sandbox::Jail(_)),
            Self::Podman(_) => true,
        }
    }

    /// Arguments that make the started program the runner.
    pub(in crate::runtime) fn arguments(&self) -> Vec<String> {
        match self {
            Self::Process(setup) => setup.arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            Self::Podman(_) => Vec::new(),
        }
    }

    fn start(&self, events: Events) -> Result<Box<dyn Runtime>, Error> {
        Ok(match self {
            Self::Process(setup) => Box::new(ProcessRuntime::start(Setup::clone(setup), events)?),
            Self::Podman(setup) => Box::new(PodmanRuntime::start(setup.clone(), events)?),
        })
    }
}

/// A started runtime for one incarnation.
pub struct SingleRun {
    runtime: Box<dyn Runtime>,
    end: Receiver<(Exit, String)>,
}

impl SingleRun {
    /// Starts the runtime.
    ///
    /// # Errors
    /// Its reason.
    pub fn start(place: &Place) -> Result<Self, String> {
        let (ended, end) = channel();
        let ended = Mutex::new(ended);
        let events = move |event| {
            if let (RuntimeEvent::Gone { exit, stderr_tail, .. }, Ok(ended)) = (event, ended.lock()) {
                // After a timeout nothing receives this any more.
                drop(ended.send((exit, stderr_tail)));
            }
        };
        let runtime = place.start(Arc::new(events)).map_err(|error| error.reason())?;
        Ok(Self { runtime, end })
    }

    /// How the agent can reach the model gateway.
    #[must_use]
    pub fn reach(&self, settings: &AgentSettings) -> Reach {
        self.runtime.reach(settings, settings.provider)
    }

    /// Starts the incarnation and waits until it has ended. Returns how, and the end of its standard error.
    ///
    /// # Errors
    /// That it took longer than `patience`. It is ended then.
    pub fn run(self, spec: Spec, patience: Duration) -> Result<(Exit, String), String> {
        self.runtime.ensure(spec);
        let outcome = self.end.recv_timeout(patience);
        self.runtime.shut_down();
        outcome.map_err(|_| format!("it did not end within {} s", patience.as_secs()))
    }
}
