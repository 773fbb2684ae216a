//! Becomes the program of a bridge: the last step before a program from outside runs.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use agent_runner::confine::{self, CONFINE_VARIABLE, Rules};

use crate::cli::{Done, Failure};
use crate::config::env::{env_lookup, home};

/// Confines this process as its environment says, ties it to the daemon, and executes the program. Returns only on
/// failure. The process has one thread, so that nothing escapes.
pub(super) fn enter(words: &[OsString]) -> Done {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::Failed("`hearth bridge enter` is for bridges: it needs a program".to_owned()));
    };
    if let Some(rules) = env_lookup(CONFINE_VARIABLE) {
        let rules: Rules = serde_json::from_str(&rules)?;
        confine::restrict(&rules).map_err(|error| Failure::Failed(format!("cannot be confined: {error}")))?;
    }
    // The parent process may have had no access to a directory of another user.
    if let Some(state) = home() {
        std::env::set_current_dir(&state)
            .map_err(|error| Failure::Failed(format!("{} cannot be entered: {error}", state.display())))?;
    }
    tie()?;
    let error = command(program).args(arguments).env_remove(CONFINE_VARIABLE).exec();
    Err(Failure::Failed(format!("{} cannot be started: {error}", program.display())))
}

/// Lets the kernel end the program together with the process that started it.
#[cfg(target_os = "linux")]
fn tie() -> Done {
    use rustix::process::{Signal, set_parent_process_death_signal};
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

#[cfg(not(target_os = "linux"))]
fn tie() -> Done {
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "no process is started: this one becomes the program")]
fn command(program: &OsString) -> Command {
    Command::new(program)
}
