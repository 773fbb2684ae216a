//! How the service is: what the system says, what Hearth says, and where they disagree.

use serde::Serialize;

use super::file::{Definition, Found};
use super::{Manager, launchd, systemd};
use crate::cli::{Done, Failure, out, status};
use crate::config::Paths;
use crate::socket::protocol::DaemonStatus;

/// What the system knows of the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct System {
    /// Whether it has heard of it.
    pub(super) known: bool,
    /// Whether it runs.
    pub(super) active: bool,
    /// Whether it is being started, or waits to be started again.
    pub(super) coming: bool,
    /// In the system's words.
    pub(super) state: String,
    /// Whether it starts with the user's login; null if nobody says.
    pub(super) enabled: Option<bool>,
    pub(super) pid: Option<u32>,
    /// How often it was started again.
    pub(super) restarts: Option<u64>,
    /// How it ended last, if not well.
    pub(super) result: Option<String>,
    /// What Hearth told the system of itself.
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
    /// Whether the file is there.
    installed: bool,
    system: System,
    /// What a running daemon says of itself; null without one.
    daemon: Option<DaemonStatus>,
    /// What is not as it should be; empty if it runs and all agree.
    problems: Vec<String>,
}

/// What the system knows.
pub(super) fn look(definition: &Definition) -> Result<System, Failure> {
    match definition.manager {
        Manager::Systemd => systemd::look(definition),
        Manager::Launchd => launchd::look(definition),
    }
}

/// Shows it; fails if something is wrong.
pub(super) fn status(paths: &Paths, definition: &Definition, json: bool) -> Done {
    let found = definition.found()?;
    let system = look(definition)?;
    let (daemon, mut problems) = match status::ask(paths) {
        Ok(daemon) => (daemon, Vec::new()),
        Err(error) => (None, vec![error.to_string()]),
    };
    problems.extend(judge((found, &system), daemon.as_ref(), env!("CARGO_PKG_VERSION")));
    let shown = StatusJson {
        manager: definition.manager.as_str(),
        name: definition.name.clone(),
        file: definition.file.display().to_string(),
        installed: found != Found::Nothing,
        system,
        daemon,
        problems,
    };
    if json {
        out::json(&shown)?
    } else {
        print(&shown)?
    }
    if shown.problems.is_empty() { Ok(()) } else { Err(Failure::Told) }
}

/// Everything that is not as it should be.
fn judge((found, system): (Found, &System), daemon: Option<&DaemonStatus>, version: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut tell = |what: String| problems.push(what);
    match found {
        Found::Nothing if system.known => tell("its file is gone, and the system still knows it: run `hearth service uninstall`".into()),
        Found::Nothing => tell("it is not installed: run `hearth service install`".into()),
        Found::Ours => tell(
            "its file is not what this program would write (another program, path or version): run `hearth service install`"
                .into(),
        ),
        Found::Foreign => tell("its file was not made by Hearth, and is left alone".into()),
        Found::Same if !system.known => tell("the system has not read its file: run `hearth service install`".into()),
        Found::Same => {}
    }
    if system.enabled == Some(false) {
        tell("it does not start when you log in: run `hearth service install`".into());
    }
    let result = system.result.as_ref().map(|result| format!(" (it ended with {result})")).unwrap_or_default();
    match (daemon, system.pid.filter(|_| system.active)) {
        (Some(daemon), Some(pid)) if daemon.pid == pid => {
            if daemon.version != version {
                let running = &daemon.version;
                tell(format!("version {running} runs, and this program is {version}: restart it to have that run"));
            }
        }
        (Some(daemon), Some(pid)) => {
            tell(format!(
                "the system runs process {pid}, and the daemon of this data directory is process {}",
                daemon.pid
            ));
        }
        (Some(daemon), None) => tell(format!(
            "a daemon runs (process {}) that the system did not start: stop it, and run `hearth service install`",
            daemon.pid
        )),
        (None, Some(pid)) => {
            tell(format!(
                "the system runs process {pid}, which does not answer: `hearth service logs` shows what it says"
            ));
        }
        (None, None) if system.coming => {
            tell(format!("it is being started, or waits to be{result}: `hearth service logs` shows what it says"));
        }
        (None, None) if found != Found::Nothing => {
            tell(format!("it does not run{result}: run `hearth service install`, or see `hearth service logs`"));
        }
        (None, None) => {}
    }
    problems
}

fn print(shown: &StatusJson) -> Done {
    let StatusJson { manager, name, file, system, daemon, .. } = shown;
    out::line(&format!("service   {name} of {manager}"))?;
    out::line(&format!("file      {file}{}", if shown.installed { "" } else { " (not there)" }))?;
    let pid = system.pid.map(|pid| format!(", process {pid}")).unwrap_or_default();
    let restarts = system.restarts.filter(|restarts| *restarts > 0);
    let restarts = restarts.map(|restarts| format!(", started again {restarts} times")).unwrap_or_default();
    let login = system.enabled.map_or("", |enabled| if enabled { ", starts with your login" } else { "" });
    out::line(&format!("system    {}{pid}{restarts}{login}", system.state))?;
    if let Some(says) = &system.says {
        out::line(&format!("          {says}"))?;
    }
    match daemon {
        Some(daemon) => {
            let stopping = if daemon.draining { ", stopping" } else { "" };
            out::line(&format!("hearth    running, process {}, version {}{stopping}", daemon.pid, daemon.version))?;
        }
        None => out::line("hearth    not running")?,
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
        let cases: [(Found, &System, Option<DaemonStatus>, &[&str]); 11] = [
            (Found::Same, &running, Some(daemon(7, "1")), &[]),
            (Found::Same, &running, Some(daemon(7, "0")), &["version 0 runs"]),
            (Found::Same, &running, Some(daemon(8, "1")), &["process 7, and the daemon"]),
            (Found::Same, &running, None, &["does not answer"]),
            (Found::Same, &stopped, Some(daemon(8, "1")), &["did not start"]),
            (Found::Same, &stopped, None, &["does not run:"]),
            (Found::Same, &failing, None, &["exit-code"]),
            (Found::Ours, &running, Some(daemon(7, "1")), &["not what this program would write"]),
            (Found::Foreign, &running, Some(daemon(7, "1")), &["not made by Hearth"]),
            (Found::Nothing, &System::unknown(), None, &["not installed"]),
            (Found::Nothing, &running, Some(daemon(7, "1")), &["file is gone"]),
        ];
        for (found, system, daemon, expected) in cases {
            let told = judge((found, system), daemon.as_ref(), "1");
            assert_eq!(told.len(), expected.len(), "{found:?} {system:?}: {told:?}");
            assert!(told.iter().zip(expected).all(|(told, word)| told.contains(word)), "{told:?} {expected:?}");
        }
        let disabled = System { enabled: Some(false), ..running };
        assert!(judge((Found::Same, &disabled), Some(&daemon(7, "1")), "1")[0].contains("log in"));
    }
}
