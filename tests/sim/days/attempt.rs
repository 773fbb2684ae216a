//! One run and its result.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Sim;
use super::plan::Plan;

/// A run that failed.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// The step in which it failed.
    pub(crate) step: u64,
    /// Which promise was broken.
    pub(crate) what: String,
    /// The code location of the failure, if recorded.
    pub(crate) place: Option<String>,
    /// The newest inputs before the failure.
    pub(crate) trail: String,
}

/// A run that succeeded.
pub(crate) struct Told {
    /// Number of steps.
    pub(crate) steps: u64,
    inputs: u64,
    days: i64,
    /// How often each kind of event happened.
    pub(crate) happened: BTreeMap<&'static str, u64>,
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let messages = self.happened.get("messages").copied().unwrap_or_default();
        write!(f, "{} steps, {} inputs, {messages} messages, {} days with the end", self.steps, self.inputs, self.days)
    }
}

thread_local! {
    /// Location of the newest panic, if it is recorded.
    pub(crate) static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a plan.
pub(crate) fn attempt(plan: &Plan) -> Result<Told, Failure> {
    let mut sim = Sim::new(plan.clone());
    match catch_unwind(AssertUnwindSafe(|| sim.run())) {
        Ok(()) => Ok(Told {
            steps: sim.step,
            inputs: sim.inputs,
            days: sim.days_passed(),
            happened: std::mem::take(&mut sim.happened),
        }),
        Err(panic) => {
            let (what, place) = (words(panic.as_ref()), PLACE.take());
            let failure = Failure { step: sim.step, what, place, trail: sim.trail() };
            sim.give_up();
            Err(failure)
        }
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}
