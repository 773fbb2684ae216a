//! The program inside an agent's container: claims messages, drives a provider, writes answers.
//!
//! ```text
//!   host/context.json ──> gate ─┐            ┌─> provider (echo | command | claude | …) ──┐
//!   host/in/*.json ─────> inbox ┼─> runner ──┤                                       ├─> report ─> agent/out, agent/ack
//!   inotify + poll ─────> watch ┘            └─> prompt (pure)                       ┘          └> agent/state, session
//!   beat thread ──> agent/heartbeat             life thread: pipe at its end ─> SIGKILL to the whole group
//! ```
//!
//! The contract is `container/wire/README.md`. Invariants:
//! * before anything is prompted, answered or acknowledged, `host/context.json` is read again and must still name this
//!   incarnation (only `gate.rs` provides a context);
//! * if the runner has to confine itself (`confine.rs`), it does so before it reads anything that an agent could have
//!   written, and while it has one thread, so that nothing of the agent is ever outside;
//! * every file of `agent/` is written by `agent.rs`: temporary name, fsync, rename, fsync of the directory (no fsync
//!   for files that only describe the present, no directory fsync for claims, which a prompt waits for);
//! * the process may be killed between any two of those steps: a turn is finished by one ack, and without the ack all
//!   of it is repeated.

mod addendum;
mod agent;
mod beat;
mod checkup;
mod child;
mod clock;
mod commands;
pub mod confine;
mod env;
mod failure;
mod gate;
mod gateway;
mod handed;
pub mod handshake;
mod host;
mod ids;
mod images;
mod inbox;
mod life;
mod log;
mod memory;
mod numbers;
mod outgoing;
pub mod probe;
mod prompt;
mod provider;
mod read_error;
mod report;
mod roots;
mod runner;
mod runner_state;
mod script;
mod secrets;
mod state;
mod stop;
mod strip;
mod tmp;
mod tool_calls;
mod tools;
mod trusted;
mod turn;
mod usage;
mod watch;
mod way;

use std::process::ExitCode;

pub use child::END_MAX;
pub use env::{
    GATEWAY_VARIABLE, INCARNATION_VARIABLE, LIFE_VARIABLE, LOCK_VARIABLE, NETWORK_VARIABLE, ROOTS_VARIABLE,
    SECRET_NAMES_VARIABLE, SECRETS_VARIABLE,
};
pub use prompt::command::{PromptError, prompt_of};
pub use provider::{addressed, ended, understood};
pub use read_error::ReadError;
pub use roots::{Roots, Start, StartError};
pub use script::last_value;
pub use stop::{Error, Stop};
pub use strip::strip_internal;
pub use tools::rehearse;
pub use trusted::rewritten;

/// Runs the runner with the parameters in this process's environment. Returns the exit code: 0 if another incarnation
/// took over or the runner was asked to stop, 1 if it could not continue, 2 if it was started wrongly.
///
/// The process should exist only for this call: it moves into its own process group if needed, kills the whole group
/// when the life pipe ends, and keeps threads running.
#[must_use]
pub fn main_from_env() -> ExitCode {
    if let Some(pipe) = env::raw(SECRETS_VARIABLE) {
        log::note(format_args!("not started: {}", handed::restart_with(&pipe)));
        return ExitCode::from(2);
    }
    let start = match Start::from_env() {
        Ok(start) => start,
        Err(error) => {
            log::note(&error);
            return ExitCode::from(2);
        }
    };
    // Confinement takes the right to open low ports.
    let way_out = match env::variable(NETWORK_VARIABLE).map(|asked| way::open(&asked)).transpose() {
        Ok(way_out) => way_out,
        Err(error) => {
            log::note(format_args!("not started, because its network cannot be set up: {error}"));
            return ExitCode::from(2);
        }
    };
    if let Some(rules) = &start.confine
        && let Err(error) = confine::restrict(rules)
    {
        log::note(format_args!("not started, because it cannot be confined: {error}"));
        return ExitCode::from(2);
    }
    // The parent process may have had no access to a directory of another user.
    if start.confine.as_ref().is_some_and(|rules| rules.user.is_some())
        && let Err(error) = std::env::set_current_dir(&start.roots.group)
    {
        log::note(format_args!("not started, because {} cannot be entered: {error}", start.roots.group.display()));
        return ExitCode::from(2);
    }
    if let Some(forwarder) = way_out
        && let Err(error) = way::start(forwarder)
    {
        log::note(format_args!("not started, because its network cannot be reached: {error}"));
        return ExitCode::from(2);
    }
    match env::variable(GATEWAY_VARIABLE).map(|asked| gateway::start(&asked)).transpose() {
        Ok(addresses) => env::add(addresses.unwrap_or_default()),
        Err(error) => {
            log::note(format_args!("not started, because the model gateway cannot be reached: {error}"));
            return ExitCode::from(2);
        }
    }
    if let Some(asked) = env::variable(probe::PROBE_VARIABLE) {
        return probe::main(&asked);
    }
    if env::is_set(handshake::HANDSHAKE_VARIABLE) {
        return checkup::main(&start);
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

/// Whether [`main_from_arguments`] knows this command.
#[must_use]
pub fn has_command(word: &str) -> bool {
    ["--help", "-h", tools::relay::COMMAND, way::connect::COMMAND].contains(&word) || trusted::has(word)
}

/// Runs the command in this process's arguments (without the program's name). No command runs the runner, `prompt`
/// prints a prompt, and the others are described in `docs/trusted.md`.
#[must_use]
pub fn main_from_arguments(arguments: &[String]) -> ExitCode {
    match arguments.split_first() {
        None => main_from_env(),
        Some((command, _)) if command == "--help" || command == "-h" => trusted::help(),
        Some((command, rest)) if command == "prompt" => prompt::command::main(rest),
        Some((command, rest)) if command == tools::relay::COMMAND => tools::relay::main(rest),
        Some((command, rest)) if command == way::connect::COMMAND => way::connect::main(rest),
        Some((command, rest)) => trusted::main(command, rest).unwrap_or_else(|| {
            log::note(format_args!(
                "there is no command {command:?}; there are {}; `--help` says what they do",
                trusted::names()
            ));
            ExitCode::from(2)
        }),
    }
}

/// Runs until it is stopped or fails; never returns for lack of work.
#[must_use]
pub fn run(start: &Start) -> Stop {
    match runner::run(start) {
        Ok(never) => match never {},
        Err(stop) => stop,
    }
}
