//! The program inside an agent's container: claims messages, drives a provider, writes answers.
//!
//! ```text
//!   host/context.json ──> gate ─┐            ┌─> provider (echo | command | claude) ─┐
//!   host/in/*.json ─────> inbox ┼─> runner ──┤                                       ├─> report ─> agent/out, agent/ack
//!   inotify + poll ─────> watch ┘            └─> prompt (pure)                       ┘          └> agent/state, session
//!   beat thread ──> agent/heartbeat             life thread: pipe at its end ─> SIGKILL to the whole group
//! ```
//!
//! The contract is `container/wire/README.md`. What must hold here:
//! * nothing is prompted, answered or acknowledged before `host/context.json` was read again and still names this
//!   incarnation (`gate.rs` is the only way to a context);
//! * where it has to confine itself (`confine.rs`), it does so before it reads anything that an agent could have written
//!   and while it has one thread, so that nothing of the agent is ever outside;
//! * every file of `agent/` is written by `agent.rs`: temporary name, fsync, rename, fsync of the directory
//!   (no fsync for what only says how things are now, none of the directory for claims, which a prompt waits for);
//! * the process may be killed between any two of those steps: a turn ends with one ack, and without it comes back whole.

mod addendum;
mod agent;
mod beat;
mod child;
mod clock;
mod commands;
pub mod confine;
mod desk;
mod env;
mod gate;
mod host;
mod inbox;
mod life;
mod log;
mod memory;
mod numbers;
mod outgoing;
pub mod probe;
mod prompt;
mod provider;
mod report;
mod roots;
mod runner;
mod script;
mod secrets;
mod state;
mod stop;
mod strip;
mod tmp;
mod tools;
mod trusted;
mod watch;

use std::process::ExitCode;

pub use host::ReadError;
pub use prompt::command::{PromptError, prompt_of};
pub use provider::{addressed, ended, understood};
pub use roots::{
    CRASH_VARIABLE, INCARNATION_VARIABLE, LIFE_VARIABLE, LOCK_VARIABLE, ROOTS_VARIABLE, Roots, Start, StartError,
};
pub use script::last_value;
pub use stop::{Error, Stop};
pub use strip::strip_internal;
pub use tools::rehearse;
pub use trusted::rewritten;

/// Runs the runner as the environment of this process says and returns the process's exit code: 0 when another
/// incarnation took over or it was asked to stop, 1 when it could not go on, 2 when it was started wrongly.
///
/// The process should be started for this alone: it moves itself into its own process group if it is not in one, ends
/// the whole group when the life pipe does, and keeps threads.
#[must_use]
pub fn main_from_env() -> ExitCode {
    let start = match env::start() {
        Ok(start) => start,
        Err(error) => {
            log::note(&error);
            return ExitCode::from(2);
        }
    };
    if let Some(rules) = &start.confine
        && let Err(error) = confine::restrict(rules)
    {
        log::note(format_args!("not started, because it cannot be confined: {error}"));
        return ExitCode::from(2);
    }
    if let Some(asked) = env::probe() {
        return probe::main(&asked);
    }
    match run(&start) {
        Stop::Superseded { mine, named } => {
            log::note(format_args!("incarnation {mine} is over, incarnation {named} works now; stopping"));
            ExitCode::SUCCESS
        }
        Stop::Asked => {
            log::note("asked to stop; stopping");
            ExitCode::SUCCESS
        }
        Stop::Broken(error) => {
            log::note(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Runs what the arguments of this process ask for, without its own name: nothing is the runner, `prompt` prints a
/// prompt, the others are those of `docs/trusted.md`.
#[must_use]
pub fn main_from_arguments(arguments: &[String]) -> ExitCode {
    match arguments.split_first() {
        None => main_from_env(),
        Some((command, rest)) if command == "prompt" => prompt::command::main(rest),
        Some((command, rest)) => trusted::main(command, rest).unwrap_or_else(|| {
            log::note(format_args!(
                "there is no command {command:?}; there are `prompt`, {}, and without one Hearth starts this program",
                trusted::NAMES
            ));
            ExitCode::from(2)
        }),
    }
}

/// Runs until something ends it; never returns for lack of work.
#[must_use]
pub fn run(start: &Start) -> Stop {
    match runner::run(start) {
        Ok(never) => match never {},
        Err(stop) => stop,
    }
}
