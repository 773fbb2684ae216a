//! `hearth check`: checks the consistency of the store, even while a daemon runs.

use clap::Args;

use super::progress::StageBar;
use super::{Done, Failure, print};
use crate::config::Paths;
use crate::state::{Reader, check};

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// For the daemon: check at the lowest priority, and end with this process
    #[arg(long, hide = true, value_name = "PID")]
    child_of: Option<i32>,
}

/// Checks all tables and indexes. Fails on any inconsistency.
pub(super) fn check(paths: &Paths, args: &CheckArgs, json: bool) -> Done {
    if let Some(parent) = args.child_of {
        give_way(parent)?;
    }
    let reader = Reader::open_proved(paths.data(), &StageBar::new())?;
    let violations = check::check_in_parts(&reader)?;
    if json {
        let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
        print::json(&serde_json::json!({ "violations": list }))?;
    } else if violations.is_empty() {
        print::line("the store is sound")?;
    } else {
        for violation in &violations {
            print::line(&violation.to_string())?;
        }
    }
    if violations.is_empty() { Ok(()) } else { Err(Failure::Failed(format!("{} violations", violations.len()))) }
}

/// Sets the lowest CPU and disk priority, and makes the process end with the waiting daemon.
pub(super) fn give_way(parent: i32) -> Done {
    use rustix::process::{Pid, Signal, getppid, nice};
    // If this fails, the check only runs at a higher priority.
    nice(19).ok();
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(std::io::Error::from)?;
    if getppid() == Pid::from_raw(parent) { Ok(()) } else { Err(Failure::Failed("the daemon is gone".to_owned())) }
}
