//! `hearth service`: the daemon as a service of the system. No other part of the command line starts programs; this one
//! starts the system's programs for services and logs.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::{Done, Failure, print};
use crate::config::Paths;
use crate::contracts::answer::{Answer, answer};

mod file;
mod install;
mod launchd;
mod look;
mod loose_log;
mod plist;
mod systemd;
mod unit;

use file::Definition;

/// Time limit for a program that only reads state.
const TELLING: Duration = Duration::from_secs(10);
/// Time limit for a program that starts or stops the daemon. Longer than a start or stop can take.
const ACTING: Duration = Duration::from_secs(180);

#[derive(Debug, Args)]
pub(super) struct ServiceArgs {
    /// What manages services, instead of what this system has
    #[arg(long, value_enum, global = true, hide = true)]
    manager: Option<Manager>,
    #[command(subcommand)]
    command: ServiceCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum ServiceCommand {
    /// Start Hearth now and whenever you log in
    Install(install::InstallArgs),
    /// Show whether the service runs and answers
    Status,
    /// Show its log
    Logs(LogsArgs),
    /// Start the installed service
    Start,
    /// Stop it until the next login or `start`
    Stop,
    /// Stop and start it
    Restart,
    /// Stop and remove the service; the data is kept
    Uninstall,
}

#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// Keep printing new lines
    #[arg(short, long)]
    follow: bool,
    /// Show this many of the newest lines first
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 100)]
    lines: usize,
    /// Only lines since then, in journalctl's form: `1 hour ago`, `2026-05-01 08:00`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
}

/// What manages services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Manager {
    /// Linux
    Systemd,
    /// macOS
    Launchd,
}

impl Manager {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Systemd => "systemd",
            Self::Launchd => "launchd",
        }
    }

    const fn of_this_system() -> Self {
        if cfg!(target_os = "macos") { Self::Launchd } else { Self::Systemd }
    }
}

/// Installs, shows, starts, stops and removes the service.
pub(super) fn service(paths: &Paths, args: &ServiceArgs, json: bool) -> Done {
    perform(paths, args.manager.unwrap_or(Manager::of_this_system()), &args.command, json)
}

/// Performs a command with the service manager of this system.
pub(super) fn of_this_system(paths: &Paths, command: &ServiceCommand, json: bool) -> Done {
    perform(paths, Manager::of_this_system(), command, json)
}

/// Name of the service of this data directory; none if it is not installed.
pub(super) fn installed(paths: &Paths) -> Result<Option<String>, Failure> {
    let definition = Definition::of(paths, Manager::of_this_system())?;
    Ok(definition.file.exists().then_some(definition.name))
}

/// Whether an installed service does not say which installation it runs.
pub(super) fn names_no_installation(paths: &Paths) -> Result<bool, Failure> {
    Ok(Definition::of(paths, Manager::of_this_system())?.names_no_installation())
}

/// `hearth service install` without options and output. Returns what it did, for people.
pub(super) fn install_now(paths: &Paths) -> Result<String, Failure> {
    install::install_now(paths, Manager::of_this_system())
}

fn perform(paths: &Paths, manager: Manager, command: &ServiceCommand, json: bool) -> Done {
    let definition = || Definition::of(paths, manager);
    match command {
        ServiceCommand::Install(wanted) => install::install(paths, manager, wanted, json),
        ServiceCommand::Status => look::status(paths, &definition()?, json),
        ServiceCommand::Logs(wanted) => logs(paths, &definition()?, wanted, json),
        ServiceCommand::Start => change(paths, &definition()?, ServiceChange::Start),
        ServiceCommand::Stop => change(paths, &definition()?, ServiceChange::Stop),
        ServiceCommand::Restart => change(paths, &definition()?, ServiceChange::Restart),
        ServiceCommand::Uninstall => install::uninstall(paths, &definition()?, json),
    }
}

/// A change of a running service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServiceChange {
    Start,
    Stop,
    Restart,
}

fn change(paths: &Paths, definition: &Definition, wanted: ServiceChange) -> Done {
    need_installed(paths, definition)?;
    match (definition.manager, wanted) {
        (Manager::Systemd, ServiceChange::Start) => systemd::start(definition, false)?,
        (Manager::Systemd, ServiceChange::Stop) => systemd::pause(definition)?,
        (Manager::Systemd, ServiceChange::Restart) => systemd::start(definition, true)?,
        (Manager::Launchd, ServiceChange::Start | ServiceChange::Restart) => launchd::start(definition)?,
        (Manager::Launchd, ServiceChange::Stop) => launchd::pause(definition)?,
    }
    print::line(match wanted {
        ServiceChange::Start => "started",
        ServiceChange::Stop => "stopped; it starts again at the next login",
        ServiceChange::Restart => "restarted",
    })
}

/// Whether there is such a service: by its file, or because a package of the system brought it.
fn is_installed(definition: &Definition) -> bool {
    let is_known = || systemd::look(definition).is_ok_and(|system| system.known);
    definition.file.exists() || (definition.manager == Manager::Systemd && is_known())
}

/// Rejects commands for a service that is not installed, and says how the daemon runs instead.
fn need_installed(paths: &Paths, definition: &Definition) -> Done {
    if is_installed(definition) {
        return Ok(());
    }
    let how = match crate::state::holder(paths.data()) {
        Some(pid) => {
            format!("process {pid} runs Hearth outside of a service: stop it with Ctrl-C in its terminal")
        }
        None => "run `hearth service install`, or `hearth run` in a terminal".to_owned(),
    };
    Err(Failure::Failed(format!("no service is installed for {}: {how}", paths.data().display())))
}

/// Runs the log viewer in the foreground.
#[expect(clippy::disallowed_methods, reason = "waited for without a time limit, because a person reads")]
fn logs(paths: &Paths, definition: &Definition, wanted: &LogsArgs, json: bool) -> Done {
    let is_installed = is_installed(definition);
    let loose = if is_installed { None } else { loose_log::find(paths) };
    let (program, arguments) = match (loose, definition.manager) {
        (None, _) if !is_installed => return Err(no_log(paths, definition)),
        (Some(loose), _) => ("tail", loose_log::arguments(loose, wanted, json)?),
        (None, Manager::Systemd) => ("journalctl", systemd::log_arguments(definition, wanted, json)),
        (None, Manager::Launchd) => ("tail", launchd::log_arguments(definition, wanted, json)?),
    };
    let ended = Command::new(program).args(&arguments).stdin(Stdio::null()).status();
    let ended = ended.map_err(|error| cannot_run(program, &error))?;
    match ended.code() {
        Some(0) => Ok(()),
        // The program printed the reason itself.
        Some(_) => Err(Failure::Told),
        // The user ended it with a signal. This is a success.
        None => Ok(()),
    }
}

/// Why there is no log, and how to get one.
fn no_log(paths: &Paths, definition: &Definition) -> Failure {
    let removed = match definition.manager {
        Manager::Systemd => format!("`journalctl --user-unit={}`", definition.name),
        Manager::Launchd => "`~/Library/Logs`".to_owned(),
    };
    Failure::Failed(format!(
        "there is no log: Hearth is not running for {}, and no service is installed. `hearth service install` starts it \
         and keeps a log, `hearth run` logs to its terminal, and `hearth run 2>>hearth.log` to a file. If a service was \
         removed, {removed} has its log",
        paths.data().display()
    ))
}

fn tail_arguments(wanted: &LogsArgs) -> Vec<String> {
    let mut arguments = vec!["-n".to_owned(), wanted.lines.to_string()];
    arguments.extend(wanted.follow.then(|| "-F".to_owned()));
    arguments
}

/// Runs a system program and waits for its exit.
#[expect(clippy::disallowed_methods, reason = "its end is waited for, but not for long")]
fn ask<S: AsRef<OsStr>>(program: &str, arguments: &[S], patience: Duration) -> Result<Answer, Failure> {
    crate::crash::point("service-told");
    let child = Command::new(program)
        .args(arguments)
        // The output is captured, so a pager would hang.
        .env("SYSTEMD_PAGER", "")
        .env("SYSTEMD_COLORS", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_run(program, &error))?;
    let silent =
        || Failure::Failed(format!("`{}` did not end within {} s", shown(program, arguments), patience.as_secs()));
    answer(child, patience).ok_or_else(silent)
}

/// Runs a program that has to succeed. Returns its output.
fn have<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Result<String, Failure> {
    let said = ask(program, arguments, ACTING)?;
    if said.ended.success() {
        return Ok(String::from_utf8_lossy(&said.out).into_owned());
    }
    let command = shown(program, arguments);
    Err(Failure::Failed(format!("`{command}` failed ({}): {}", said.ended, complaint(&said))))
}

fn shown<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> String {
    let words = arguments.iter().map(|argument| argument.as_ref().to_string_lossy().into_owned());
    std::iter::once(program.to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Error output of a failed program, in one line.
fn complaint(said: &Answer) -> String {
    let text = if said.err.trim_ascii().is_empty() { &said.out } else { &said.err };
    let text = String::from_utf8_lossy(text);
    let text = text.trim().replace('\n', "; ");
    if text.is_empty() { "no reason given".to_owned() } else { text }
}

fn cannot_run(program: &str, error: &std::io::Error) -> Failure {
    Failure::Failed(match error.kind() {
        ErrorKind::NotFound => format!(
            "`{program}` not found: `hearth service` needs systemd (Linux) or launchd (macOS); without them, let \
             your init system run `hearth run`"
        ),
        _ => format!("cannot run `{program}`: {error}"),
    })
}

/// Path of this program for the service definition.
fn program() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe()?;
    if program.exists() {
        return Ok(program);
    }
    let shown = program.display();
    Err(Failure::Failed(format!("{shown} no longer exists: run `hearth service` from the installed program")))
}

/// Prints warnings about things that work now but may fail later.
fn warn(warnings: &[String]) {
    warnings.iter().for_each(|warning| print::warning(warning));
}
