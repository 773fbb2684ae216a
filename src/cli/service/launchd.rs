//! Commands and queries for launchd.

use super::file::Definition;
use super::look::System;
use super::{LogsArgs, TELLING, ask, have};
use crate::cli::{Done, Failure};

const PROGRAM: &str = "launchctl";

fn domain() -> String {
    format!("gui/{}", rustix::process::geteuid().as_raw())
}

fn target(definition: &Definition) -> String {
    format!("{}/{}", domain(), definition.name)
}

/// Loads the current file into launchd, which starts the service.
pub(super) fn start(definition: &Definition) -> Done {
    pause(definition)?;
    have(PROGRAM, &["enable", &target(definition)])?;
    have(PROGRAM, &["bootstrap", &domain(), &definition.file.display().to_string()]).map(drop)
}

/// Stops the service for good.
pub(super) fn stop(definition: &Definition) -> Done {
    pause(definition)?;
    have(PROGRAM, &["disable", &target(definition)]).map(drop)
}

/// Unloads the service. Ignores the exit status, because a service that is not loaded needs no unloading.
pub(super) fn pause(definition: &Definition) -> Done {
    ask(PROGRAM, &["bootout", &target(definition)], super::ACTING).map(drop)
}

/// Reads the service's state from launchd.
pub(super) fn look(definition: &Definition) -> Result<System, Failure> {
    let said = ask(PROGRAM, &["print", &target(definition)], TELLING)?;
    Ok(if said.ended.success() { read(&String::from_utf8_lossy(&said.out)) } else { System::unknown() })
}

fn read(said: &str) -> System {
    let get = |name: &str| {
        let line = said.lines().find_map(|line| line.trim().strip_prefix(name)?.trim().strip_prefix('='));
        line.map(|value| value.trim().to_owned())
    };
    let state = get("state").unwrap_or_else(|| "unknown".to_owned());
    let exit = get("last exit code").filter(|code| !matches!(code.as_str(), "0" | "(never exited)"));
    System {
        known: true,
        active: state == "running",
        coming: false,
        state,
        enabled: None,
        pid: get("pid").and_then(|pid| pid.parse().ok()),
        restarts: get("runs").and_then(|runs| runs.parse::<u64>().ok()).map(|runs| runs.saturating_sub(1)),
        result: exit.map(|code| format!("exit code {code}")),
        says: None,
    }
}

/// Arguments for `tail` to show the log.
pub(super) fn log_arguments(definition: &Definition, wanted: &LogsArgs, json: bool) -> Result<Vec<String>, Failure> {
    if wanted.since.is_some() || json {
        let what = "launchd logs to a plain file: `--since` and `--json` need systemd's journal; use -n";
        return Err(Failure::Failed(what.to_owned()));
    }
    let mut arguments = super::tail_arguments(wanted);
    arguments.extend(definition.log.as_ref().map(|log| log.display().to_string()));
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_launchd_says_is_read() {
        let said = "gui/501/hearth.daemon = {\n\tactive count = 1\n\tstate = running\n\n\tpid = 77\n\truns = 3\n\
                    \tlast exit code = 1\n}\n";
        let system = read(said);
        assert_eq!((system.active, system.pid, system.restarts), (true, Some(77), Some(2)));
        assert_eq!(system.result.as_deref(), Some("exit code 1"));
        let never = read("\tstate = not running\n\tlast exit code = (never exited)\n");
        assert_eq!((never.active, never.result), (false, None));
    }
}
