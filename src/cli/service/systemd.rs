//! Commands and queries for systemd's user manager.

use super::file::Definition;
use super::look::System;
use super::{LogsArgs, TELLING, ask, complaint, have};
use crate::cli::{Done, Failure};

const PROGRAM: &str = "systemctl";

/// Queried properties.
const ASKED: &str = "LoadState,ActiveState,SubState,UnitFileState,MainPID,NRestarts,Result,StatusText";

fn user<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["--user"], arguments].concat()
}

/// Checks that the user manager can be reached.
pub(super) fn reach() -> Done {
    let said = ask(PROGRAM, &user(&["show", "--property=Version"]), TELLING)?;
    if said.ended.success() {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "systemd's manager of your services does not answer: {}; log in as this user (not by `su` or `sudo`), or let it run \
         without a login with `sudo loginctl enable-linger $USER`, and try again",
        complaint(&said)
    )))
}

/// Loads the current file into the manager, and enables the service for the user's login.
pub(super) fn know(definition: &Definition) -> Done {
    have(PROGRAM, &user(&["daemon-reload"]))?;
    have(PROGRAM, &user(&["enable", &definition.name])).map(drop)
}

pub(super) fn start(definition: &Definition, anew: bool) -> Done {
    let verb = if anew { "restart" } else { "start" };
    let started = have(PROGRAM, &user(&[verb, &definition.name])).map(drop);
    started.map_err(|failure| match failure {
        Failure::Failed(what) => Failure::Failed(format!("{what}; see `hearth service logs`")),
        other => other,
    })
}

/// Stops the service until it is started again.
pub(super) fn pause(definition: &Definition) -> Done {
    have(PROGRAM, &user(&["stop", &definition.name])).map(drop)
}

/// Stops and disables the service.
pub(super) fn stop(definition: &Definition) -> Done {
    have(PROGRAM, &user(&["disable", "--now", &definition.name])).map(drop)
}

/// Makes the manager forget a removed file.
pub(super) fn forget(definition: &Definition) -> Done {
    have(PROGRAM, &user(&["daemon-reload"]))?;
    // For a service that never failed, this has no effect.
    ask(PROGRAM, &user(&["reset-failed", &definition.name]), TELLING).map(drop)
}

/// Reads the service's state from the manager.
pub(super) fn look(definition: &Definition) -> Result<System, Failure> {
    let property = format!("--property={ASKED}");
    let said = ask(PROGRAM, &user(&["show", &definition.name, &property]), TELLING)?;
    if !said.ended.success() {
        reach()?;
        return Err(Failure::Failed(format!(
            "cannot read the state of {} from systemd: {}",
            definition.name,
            complaint(&said)
        )));
    }
    Ok(read(&String::from_utf8_lossy(&said.out)))
}

fn read(said: &str) -> System {
    let get = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned)
    };
    let state = get("ActiveState").unwrap_or_else(|| "unknown".to_owned());
    System {
        known: get("LoadState").is_some_and(|state| state != "not-found"),
        active: matches!(state.as_str(), "active" | "reloading"),
        coming: state == "activating",
        state: match get("SubState") {
            Some(sub) if sub != state => format!("{state} ({sub})"),
            _ => state,
        },
        enabled: get("UnitFileState").map(|state| state == "enabled"),
        pid: get("MainPID").and_then(|pid| pid.parse().ok()).filter(|pid| *pid != 0),
        restarts: get("NRestarts").and_then(|restarts| restarts.parse().ok()),
        result: get("Result").filter(|result| result != "success"),
        says: get("StatusText"),
    }
}

/// Whether lingering is on: the manager keeps running after the user logs out. None if unknown.
pub(super) fn lingers() -> Option<bool> {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let said = ask("loginctl", &["show-user", &uid, "--property=Linger", "--value"], TELLING).ok()?;
    match String::from_utf8_lossy(&said.out).trim() {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// Arguments for `journalctl` to show the log.
pub(super) fn log_arguments(definition: &Definition, wanted: &LogsArgs, json: bool) -> Vec<String> {
    let mut arguments = vec![format!("--user-unit={}", definition.name), format!("--lines={}", wanted.lines)];
    arguments.extend(wanted.since.as_ref().map(|since| format!("--since={since}")));
    arguments.extend(wanted.follow.then(|| "--follow".to_owned()));
    arguments.extend(json.then(|| "--output=json".to_owned()));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_systemd_says_is_read() {
        let running = read(
            "LoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nMainPID=12\nNRestarts=3\nResult=success\n\
             StatusText=serving\n",
        );
        let expected = System {
            known: true,
            active: true,
            coming: false,
            state: "active (running)".into(),
            enabled: Some(true),
            pid: Some(12),
            restarts: Some(3),
            result: None,
            says: Some("serving".into()),
        };
        assert_eq!(running, expected);
        let gone = read("LoadState=not-found\nActiveState=inactive\nSubState=dead\nUnitFileState=\nMainPID=0\n");
        assert_eq!((gone.known, gone.active, gone.enabled, gone.pid), (false, false, None, None));
        let failing = read("LoadState=loaded\nActiveState=activating\nSubState=auto-restart\nResult=exit-code\n");
        assert_eq!((failing.coming, failing.result.as_deref()), (true, Some("exit-code")));
        assert_eq!(read("").state, "unknown");
    }
}
