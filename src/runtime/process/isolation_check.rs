//! Runs a hostile agent in the real runtime and lets it attempt what must be impossible. `hearth doctor --self-test`
//! uses it to prove the runtime's promises.

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_runner::probe::{PROBE_VARIABLE, ProbeArgs};

pub use agent_runner::confine::{Support, support};
pub use agent_runner::probe::{Attempt, Odd, Outcome, Who};

use super::{ProcessRuntime, Sandbox, Setup};
use crate::model::entity::EnvValue;
use crate::model::incarnation::Exit;
use crate::model::input::RuntimeEvent;
use crate::runtime::podman::{self, PodmanRuntime};
use crate::runtime::{Error, Events, Runtime, Spec};

/// Time for all attempts together, including the start of a container on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// Path of the report, relative to the session's directory.
const REPORT: &str = "agent/probe.json";

/// The runtime to test.
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

    /// Whether agents see only the files of the machine that they are given.
    #[must_use]
    pub const fn has_view(&self) -> bool {
        match self {
            Self::Process(setup) => matches!(setup.sandbox, Sandbox::Jail(_)),
            Self::Podman(_) => true,
        }
    }

    fn arguments(&self) -> Vec<String> {
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

/// Starts an incarnation whose runner, or a child of it, makes attempts instead of working. The outcomes have the order
/// of the attempts.
///
/// # Errors
///
/// Why there are no outcomes. If the incarnation did not start, this is the reason shown to people.
pub fn attempt(place: &Place, mut spec: Spec, attempts: &[Attempt], who: Who) -> Result<Vec<Outcome>, String> {
    let report = spec.session_dir.join(REPORT);
    // Remove the report of an earlier trial of the same session.
    drop(std::fs::remove_file(&report));
    let asked =
        ProbeArgs { attempts: attempts.to_vec(), report: place.seen(&spec, REPORT), arguments: place.arguments(), who };
    let asked = serde_json::to_string(&asked).map_err(|error| error.to_string())?;
    spec.settings.env.push((PROBE_VARIABLE.to_owned(), EnvValue::Plain(asked)));
    let (exit, stderr) = run(place, spec)?;
    match exit {
        Exit::NotStarted(reason) => Err(reason),
        Exit::Code(0) => {
            let text = std::fs::read(&report).map_err(|error| format!("{}: {error}", report.display()))?;
            let outcomes: Vec<Outcome> = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
            let whole = outcomes.len() == attempts.len();
            if whole { Ok(outcomes) } else { Err("some attempts have no outcome".to_owned()) }
        }
        other => Err(format!("the hostile agent ended with {other:?}: {}", stderr.trim())),
    }
}

fn run(place: &Place, spec: Spec) -> Result<(Exit, String), String> {
    let (ended, end) = channel();
    let ended = Mutex::new(ended);
    let events = move |event| {
        if let (RuntimeEvent::Gone { exit, stderr_tail, .. }, Ok(ended)) = (event, ended.lock()) {
            // After a timeout nothing receives this any more.
            drop(ended.send((exit, stderr_tail)));
        }
    };
    let runtime = place.start(Arc::new(events)).map_err(|error| error.reason())?;
    runtime.ensure(spec);
    let outcome = end.recv_timeout(PATIENCE);
    runtime.shut_down();
    outcome.map_err(|_| "the hostile agent did not end in time".to_owned())
}
