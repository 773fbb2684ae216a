//! Installs and removes the service.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap::Args;
use serde::Serialize;

use super::file::{Definition, ExistingUnit};
use super::look::look;
use super::{Manager, launchd, systemd};
use crate::cli::{Done, Failure, daemon_status, local_owner, print};
use crate::config::Paths;
use crate::state;

#[derive(Debug, Default, Args)]
pub(in crate::cli) struct InstallArgs {
    /// Only print the service file
    #[arg(long)]
    dry_run: bool,
    /// Replace a service file that Hearth did not write
    #[arg(long)]
    replace: bool,
    /// Do not start it now, only at the next login
    #[arg(long)]
    no_start: bool,
    /// Allow it for root, although unconfined agents are then root
    #[arg(long)]
    as_root: bool,
}

/// The answer of `hearth service install --json`.
#[derive(Debug, Serialize)]
struct InstalledJson {
    name: String,
    file: String,
    /// `new`, `changed` or `unchanged`.
    written: &'static str,
    /// Whether it runs now.
    started: bool,
    warnings: Vec<String>,
}

/// The answer of `hearth service install --dry-run --json`.
#[derive(Debug, Serialize)]
struct RehearsedJson<'a> {
    name: &'a str,
    file: String,
    text: &'a str,
}

/// The answer of `hearth service uninstall --json`.
#[derive(Debug, Serialize)]
struct RemovedJson<'a> {
    name: &'a str,
    file: String,
    removed: bool,
    /// The data directory, which stays.
    data: String,
}

/// Writes the file and starts the service.
pub(super) fn install(paths: &Paths, manager: Manager, wanted: &InstallArgs, json: bool) -> Done {
    if wanted.dry_run {
        let definition = Definition::of(paths, manager)?;
        let file = definition.file.display().to_string();
        if json {
            return print::json(&RehearsedJson { name: &definition.name, file, text: &definition.text });
        }
        print::note(&format!("this would be {file}:"));
        return print::verbatim(definition.text.trim_end());
    }
    let done = put(paths, manager, wanted)?;
    if json {
        return print::json(&done);
    }
    print::line(&format!("{:9} {}", done.written, done.file))?;
    if done.started {
        print::line(&format!("{:9} {}", "runs", done.name))?;
    }
    super::warn(&done.warnings);
    if manager == Manager::Systemd && systemd::lingers() == Some(false) {
        print::note("it runs while you are logged in; for it to run always: `loginctl enable-linger`");
    }
    Ok(())
}

/// Installs the service without output. In a new directory it creates the store, whose id is in the service's file.
fn put(paths: &Paths, manager: Manager, wanted: &InstallArgs) -> Result<InstalledJson, Failure> {
    let before = Definition::of(paths, manager)?;
    if !state::exists(paths.data())? && before.file.exists() {
        return Err(Failure::Failed(format!(
            "there is no store in {}, but its service is installed: check that its disk is mounted, or restore a \
             backup with `hearth restore BACKUP`; to start over, run `hearth service uninstall` first",
            paths.data().display()
        )));
    }
    if rustix::process::geteuid().is_root() && !wanted.as_root {
        return Err(Failure::Failed(
            "a service runs with the permissions of its user, and you are root: run `hearth service install` as \
             that user, or with --as-root for root's own session"
                .to_owned(),
        ));
    }
    if manager == Manager::Systemd {
        systemd::reach()?;
    }
    if before.found()? == ExistingUnit::Foreign && !wanted.replace {
        return Err(Failure::Failed(format!(
            "{} was not made by Hearth: move it away, or replace it with --replace",
            before.file.display()
        )));
    }
    local_owner::make(paths)?;
    // An unreadable store has no id for the service file.
    state::installation(paths.data())?;
    let definition = Definition::of(paths, manager)?;
    let written = match definition.found()? {
        ExistingUnit::Same if definition.is_known() => "unchanged",
        ExistingUnit::Nothing => "new",
        ExistingUnit::Same | ExistingUnit::Ours | ExistingUnit::Foreign => "changed",
    };
    if written != "unchanged" {
        definition.write()?;
    }
    let mut warnings = warnings(&definition);
    let started = start(paths, &definition, wanted.no_start, written == "changed", &mut warnings)?;
    // What does not run yet begins with what the system knows now.
    if started != wanted.no_start {
        definition.know()?;
    }
    let file = definition.file.display().to_string();
    Ok(InstalledJson { name: definition.name, file, written, started, warnings })
}

/// Installs the service with default options. Returns what it did, for people.
pub(super) fn install_now(paths: &Paths, manager: Manager) -> Result<String, Failure> {
    let done = put(paths, manager, &InstallArgs::default())?;
    super::warn(&done.warnings);
    Ok(format!("{} {}", done.name, if done.started { "runs, and starts at every login" } else { "is installed" }))
}

/// Loads the file, and starts the service unless the user does not want that or another daemon runs. Returns whether it
/// runs.
fn start(
    paths: &Paths,
    definition: &Definition,
    not_now: bool,
    changed: bool,
    warnings: &mut Vec<String>,
) -> Result<bool, Failure> {
    if definition.manager == Manager::Systemd {
        systemd::know(definition)?;
    }
    let system = look(definition)?;
    if not_now {
        return Ok(system.active);
    }
    let daemon = daemon_status::ask(paths)?;
    let other = daemon.filter(|daemon| Some(daemon.pid) != system.pid);
    if let Some(other) = other {
        let pid = other.pid;
        warnings.push(format!(
            "a daemon that is not a service is already running (process {pid}): stop it (`kill {pid}`), and run \
             `hearth service install` again"
        ));
        return Ok(false);
    }
    match definition.manager {
        Manager::Systemd => systemd::start(definition, changed && system.active)?,
        Manager::Launchd if system.active && !changed => {}
        Manager::Launchd => launchd::start(definition)?,
    }
    Ok(true)
}

/// Warnings about things that work now but may fail later.
fn warnings(definition: &Definition) -> Vec<String> {
    let mut warnings = Vec::new();
    if is_build(&definition.program) {
        warnings.push(format!(
            "{} is in cargo's build directory, and the next build replaces it: copy it elsewhere, such as \
             ~/.local/bin/hearth, and run `hearth service install` from there",
            definition.program.display()
        ));
    }
    let environment = definition.environment.as_ref().and_then(|path| Some((path, std::fs::metadata(path).ok()?)));
    if let Some((path, found)) = environment
        && found.permissions().mode() & 0o077 != 0
    {
        warnings.push(format!("others can read {}: run `chmod 600 {}`", path.display(), path.display()));
    }
    warnings
}

fn is_build(program: &Path) -> bool {
    program.components().any(|part| part.as_os_str() == "target")
}

/// Stops the service and removes its file.
pub(super) fn uninstall(paths: &Paths, definition: &Definition, json: bool) -> Done {
    let file = definition.file.display().to_string();
    let found = definition.found()?;
    if found == ExistingUnit::Foreign {
        return Err(Failure::Failed(format!("{file} was not made by Hearth: remove it yourself")));
    }
    let system = look(definition)?;
    let there = found != ExistingUnit::Nothing;
    if there || system.known {
        match definition.manager {
            Manager::Systemd => systemd::stop(definition)?,
            Manager::Launchd => launchd::stop(definition)?,
        }
    }
    definition.know()?;
    if there {
        definition.remove()?;
    }
    if definition.manager == Manager::Systemd && (there || system.known) {
        systemd::forget(definition)?;
    }
    let data = paths.data().display().to_string();
    if json {
        return print::json(&RemovedJson { name: &definition.name, file, removed: there, data });
    }
    if there {
        print::line(&format!("removed   {file}"))?;
    } else {
        print::line(&format!("{} is not installed", definition.name))?;
    }
    print::note(&format!("the data is kept in {data}"));
    Ok(())
}
