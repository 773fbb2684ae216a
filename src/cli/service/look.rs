//! State of the service: what the service manager reports, what Hearth reports, and where they disagree.

use serde::Serialize;

use super::file::{Definition, ExistingUnit};
use super::{Manager, launchd, systemd};
use crate::cli::{Done, Failure, daemon_status, print};
use crate::config::Paths;
use crate::socket::protocol::DaemonStatus;

/// State of the service in the service manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct System {
    /// Whether the service manager knows the service.
    pub(super) known: bool,
    /// Whether it runs.
    pub(super) active: bool,
    /// Whether it is starting, or waits for a restart.
    pub(super) coming: bool,
    /// State as the service manager names it.
    pub(super) state: String,
    /// Whether it starts with the user's login; null if unknown.
    pub(super) enabled: Option<bool>,
    pub(super) pid: Option<u32>,
    /// Number of restarts.
    pub(super) restarts: Option<u64>,
    /// Result of the last run, if it failed.
    pub(super) result: Option<String>,
    /// Status text that Hearth reported to the service manager.
    pub(super) says: Option<String>,
}

impl System {
    pub(super) fn unknown() -> Self {
        Self {
            known: false,
            active: false,
            coming: false,
            state: "not loaded".to_owned(),
            enabled: None,
            pid: None,
            restarts: None,
            result: None,
            says: None,
        }
    }
}

/// The answer of `hearth service status --json`.
#[derive(Debug, Serialize)]
struct StatusJson {
    manager: &'static str,
    name: String,
    file: String,
    /// Whether the file exists.
    installed: bool,
    system: System,
    /// Status of the running daemon; null without one.
    daemon: Option<DaemonStatus>,
    /// Problems; empty if the service runs and everything agrees.
    problems: Vec<String>,
}

/// Reads the state from the service manager.
pub(super) fn look(definition: &Definition) -> Result<System, Failure> {
    match definition.manager {
        Manager::Systemd => systemd::look(definition),
        Manager::Launchd => launchd::look(definition),
    }
}

/// Shows the service's state. Fails if there are problems.
pub(super) fn status(paths: &Paths, definition: &Definition, json: bool) -> Done {
    let found = definition.found()?;
    let system = look(definition)?;
    let (daemon, mut problems) = match daemon_status::ask(paths) {
        Ok(daemon) => (daemon, Vec::new()),
        Err(error) => (None, vec![error.to_string()]),
    };
    problems.extend(judge(found, &system, daemon.as_ref(), env!("CARGO_PKG_VERSION")));
    let shown = StatusJson {
        manager: definition.manager.as_str(),
        name: definition.name.clone(),
        file: definition.file.display().to_string(),
        installed: found != ExistingUnit::Nothing,
        system,
        daemon,
        problems,
    };
    if json {
        print::json(&shown)?
    } else {
        print(&shown)?
    }
    if shown.problems.is_empty() { Ok(()) } else { Err(Failure::Told) }
}

fn judge(found: ExistingUnit, system: &System, daemon: Option<&DaemonStatus>, version: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut tell = |what: String| problems.push(what);
    match found {
        ExistingUnit::Nothing if system.known => {
            tell("its file is gone, but the service manager still has it loaded: run `hearth service uninstall`".into())
        }
        ExistingUnit::Nothing => tell("it is not installed: run `hearth service install`".into()),
        ExistingUnit::Ours => tell(
            "its file differs from what this program would write (program, path, version or installation): run \
             `hearth service install`"
                .into(),
        ),
        ExistingUnit::Foreign => tell("its file was not created by Hearth, and is not changed".into()),
        ExistingUnit::Same if !system.known => {
            tell("the service manager has not loaded its file: run `hearth service install`".into())
        }
        ExistingUnit::Same => {}
    }
    if system.enabled == Some(false) {
        tell("Hearth does not start at login: run `hearth service install`".into());
    }
    let result = system.result.as_ref().map(|result| format!(" (it ended with {result})")).unwrap_or_default();
    match (daemon, system.pid.filter(|_| system.active)) {
        (Some(daemon), Some(pid)) if daemon.pid == pid => {
            if daemon.version != version {
                let running = &daemon.version;
                tell(format!(
                    "version {running} is running, but this program is {version}: restart the service to run this version"
                ));
            }
        }
        (Some(daemon), Some(pid)) => {
            tell(format!(
                "the service runs process {pid}, but the daemon of this data directory is process {}",
                daemon.pid
            ));
        }
        (Some(daemon), None) => tell(format!(
            "a daemon is running (process {}) that is not the service: stop it, and run `hearth service install`",
            daemon.pid
        )),
        (None, Some(pid)) => {
            tell(format!("process {pid} is running but does not answer: see `hearth service logs`"));
        }
        (None, None) if system.coming => {
            tell(format!("it is starting, or waiting to start{result}: see `hearth service logs`"));
        }
        (None, None) if found != ExistingUnit::Nothing => {
            tell(format!("it is not running{result}: run `hearth service install`, or see `hearth service logs`"));
        }
        (None, None) => {}
    }
    problems
}

fn print(shown: &StatusJson) -> Done {
    let StatusJson { manager, name, file, system, daemon, .. } = shown;
    print::line(&format!("service   {name} of {manager}"))?;
    print::line(&format!("file      {file}{}", if shown.installed { "" } else { " (not there)" }))?;
    let pid = system.pid.map(|pid| format!(", process {pid}")).unwrap_or_default();
    let restarts = system.restarts.filter(|restarts| *restarts > 0);
    let restarts = restarts.map(|restarts| format!(", restarted {restarts} times")).unwrap_or_default();
    let login = system.enabled.map_or("", |enabled| if enabled { ", starts with your login" } else { "" });
    print::line(&format!("system    {}{pid}{restarts}{login}", system.state))?;
    if let Some(says) = &system.says {
        print::line(&format!("          {says}"))?;
    }
    match daemon {
        Some(daemon) => {
            let stopping = if daemon.draining { ", stopping" } else { "" };
            print::line(&format!("hearth    running, process {}, version {}{stopping}", daemon.pid, daemon.version))?;
        }
        None => print::line("hearth    not running")?,
    }
    super::warn(&shown.problems);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon(pid: u32, version: &str) -> DaemonStatus {
        serde_json::from_value(serde_json::json!({
            "pid": pid, "version": version, "runtime": "process", "terminals": 0, "queued": 0,
        }))
        .unwrap()
    }

    #[test]
    fn disagreements_are_told() {
        let stopped = System { known: true, state: "inactive".into(), enabled: Some(true), ..System::unknown() };
        let running = System { active: true, pid: Some(7), ..stopped.clone() };
        let failing = System { coming: true, result: Some("exit-code".into()), ..stopped.clone() };
        let cases: [(ExistingUnit, &System, Option<DaemonStatus>, &[&str]); 11] = [
            (ExistingUnit::Same, &running, Some(daemon(7, "1")), &[]),
            (ExistingUnit::Same, &running, Some(daemon(7, "0")), &["version 0 is running"]),
            (ExistingUnit::Same, &running, Some(daemon(8, "1")), &["process 7, but the daemon"]),
            (ExistingUnit::Same, &running, None, &["does not answer"]),
            (ExistingUnit::Same, &stopped, Some(daemon(8, "1")), &["is not the service"]),
            (ExistingUnit::Same, &stopped, None, &["is not running:"]),
            (ExistingUnit::Same, &failing, None, &["exit-code"]),
            (ExistingUnit::Ours, &running, Some(daemon(7, "1")), &["differs from what this program would write"]),
            (ExistingUnit::Foreign, &running, Some(daemon(7, "1")), &["not created by Hearth"]),
            (ExistingUnit::Nothing, &System::unknown(), None, &["not installed"]),
            (ExistingUnit::Nothing, &running, Some(daemon(7, "1")), &["file is gone"]),
        ];
        for (found, system, daemon, expected) in cases {
            let told = judge(found, system, daemon.as_ref(), "1");
            assert_eq!(told.len(), expected.len(), "{found:?} {system:?}: {told:?}");
            assert!(told.iter().zip(expected).all(|(told, word)| told.contains(word)), "{told:?} {expected:?}");
        }
        let disabled = System { enabled: Some(false), ..running };
        assert!(judge(ExistingUnit::Same, &disabled, Some(&daemon(7, "1")), "1")[0].contains("at login"));
    }
}
