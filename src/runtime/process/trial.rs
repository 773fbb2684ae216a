//! A confined process that tries what it should not be able to do: how `hearth doctor --self-test` proves what the
//! runtime promises.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_runner::probe::{Asked, PROBE_VARIABLE};

pub use agent_runner::confine::{Support, support};
pub use agent_runner::probe::{Attempt, Outcome};

use super::{ProcessRuntime, Setup};
use crate::model::entity::EnvValue;
use crate::model::incarnation::Exit;
use crate::model::input::RuntimeEvent;
use crate::runtime::{Runtime, Spec};

/// How long all attempts together may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts an incarnation whose runner makes attempts instead of working, or has a child of it make them. The outcomes are
/// in the order of the attempts. Takes over the setup's directory of locks.
///
/// # Errors
/// Why there are no outcomes; for an incarnation that was not started the reason that people are told.
pub fn attempt(setup: Setup, mut spec: Spec, attempts: &[Attempt], by_child: bool) -> Result<Vec<Outcome>, String> {
    let words = setup.arguments.iter().map(|word| word.to_string_lossy().into_owned());
    let child = by_child.then(|| words.collect());
    let report = spec.session_dir.join("agent/probe.json");
    let asked = Asked { attempts: attempts.to_vec(), report: report.clone(), child };
    let asked = serde_json::to_string(&asked).map_err(|error| error.to_string())?;
    spec.settings.env.push((PROBE_VARIABLE.to_owned(), EnvValue::Plain(asked)));
    let (exit, stderr) = run(setup, spec)?;
    match exit {
        Exit::NotStarted(reason) => Err(reason),
        Exit::Code(0) => {
            let text = std::fs::read(&report).map_err(|error| format!("{}: {error}", report.display()))?;
            let outcomes: Vec<Outcome> = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
            let whole = outcomes.len() == attempts.len();
            if whole { Ok(outcomes) } else { Err("some attempts have no outcome".to_owned()) }
        }
        other => Err(format!("the confined process ended with {other:?}: {}", stderr.trim())),
    }
}

fn run(setup: Setup, spec: Spec) -> Result<(Exit, String), String> {
    let (ended, end) = channel();
    let ended = Mutex::new(ended);
    let events = move |event| {
        if let (RuntimeEvent::Gone { exit, stderr_tail, .. }, Ok(ended)) = (event, ended.lock()) {
            // After the time is up nobody waits for it.
            drop(ended.send((exit, stderr_tail)));
        }
    };
    let runtime = ProcessRuntime::start(setup, Arc::new(events)).map_err(|error| error.reason())?;
    runtime.ensure(spec);
    let outcome = end.recv_timeout(PATIENCE);
    runtime.shut_down();
    outcome.map_err(|_| "the confined process did not end in time".to_owned())
}
