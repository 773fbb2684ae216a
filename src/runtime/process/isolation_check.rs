//! Runs a hostile agent in the real runtime and lets it attempt what must be impossible. `hearth doctor --self-test`
//! uses it to prove the runtime's promises.

use std::time::Duration;

use agent_runner::probe::{PROBE_VARIABLE, ProbeArgs};

pub use agent_runner::confine::{Support, support};
pub use agent_runner::probe::{Attempt, Odd, Outcome, Who};

use crate::model::entity::EnvValue;
use crate::model::incarnation::Exit;
use crate::runtime::Spec;
use crate::runtime::single_run::{Place, SingleRun};

/// Time for all attempts together, including the start of a container on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// Path of the report, relative to the session's directory.
const REPORT: &str = "agent/probe.json";

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
    let (exit, stderr) = SingleRun::start(place)?.run(spec, PATIENCE)?;
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
