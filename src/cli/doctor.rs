//! `hearth doctor`: checks for problems that could keep Hearth from working, each with a fix.

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use clap::Args;
use serde::Serialize;

mod backups;
mod channels;
mod containers;
mod handshakes;
mod lacking;
mod runtime;
mod trials;
mod upgrade;

use self::trials::Reach;
use super::check::give_way;
use super::configuration::{self, Configuration};
use super::human_size::decimal;
use super::prerequisites;
use super::print::{self, Tone};
use super::problems::{FailedStarts, FrozenAgent, RateLimitedAgent};
use super::progress::StageBar;
use super::report::Report;
use super::self_test::{SelfTest, self_test};
use super::{Done, Failure, daemon_status, hoard, human_time, labels};
use crate::channel::terminal;
use crate::clock;
use crate::config::Paths;
use crate::contracts::home;
use crate::daemon::{Sandbox, sandbox};
use crate::model::entity::AgentSettings;
use crate::socket::client::Error as SocketError;
use crate::socket::protocol::DaemonStatus;
use crate::state::{self, Admission, Reader, check};

/// Minimum of inotify watches and instances. Busy machines run out of fewer.
const WATCHES_MIN: u64 = 1_024;
const INSTANCES_MIN: u64 = 16;
/// A clock before this time is wrong: 2025-01-01, in milliseconds since 1970.
const CLOCK_MIN: i64 = 1_735_689_600_000;
/// How far the newest message may be in the future, in milliseconds.
const AHEAD_MAX: i64 = 60_000;

#[derive(Debug, Serialize)]
struct Check {
    /// Name of the check.
    check: &'static str,
    /// `ok`, `warn` or `fail`.
    result: CheckStatus,
    found: String,
    /// The fix; null if none is needed.
    mend: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckStatus {
    Ok,
    Warn,
    Fail,
}

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Also let a hostile agent in a scratch installation attack the runtime in use; fails if an attack succeeds
    #[arg(long)]
    self_test: bool,
    /// Run no `cmd:` reference and use no network: keys and tokens are not tried
    #[arg(long)]
    offline: bool,
    /// Say what this program would change in a store that an older one uses, after an upgrade of a copy; other checks are
    /// left out
    #[arg(long, conflicts_with_all = ["self_test", "offline"])]
    before_upgrade: bool,
    /// For the daemon: check at the lowest priority, and end with this process
    #[arg(long, hide = true, value_name = "PID")]
    child_of: Option<i32>,
}

/// The answer of `hearth doctor --json`.
#[derive(Debug, Serialize)]
struct DoctorReport {
    checks: Vec<Check>,
    /// Only with `--self-test`.
    #[serde(skip_serializing_if = "Option::is_none")]
    self_test: Option<SelfTest>,
}

/// Checks everything; fails if anything is broken.
pub(super) fn doctor(paths: &Paths, args: &DoctorArgs, json: bool) -> Done {
    if let Some(parent) = args.child_of {
        give_way(parent)?;
    }
    let daemon = daemon_status::ask(paths);
    if args.before_upgrade {
        return answer(DoctorReport { checks: upgrade::before_upgrade(paths, &daemon)?, self_test: None }, json);
    }
    let mut checks = vec![data(paths)];
    let usable = checks.iter().all(|check| check.result != CheckStatus::Fail);
    checks.extend(usable.then(|| disk(paths)));
    let writable = checks.iter().all(|check| check.result != CheckStatus::Fail);
    checks.extend([socket(paths, &daemon, writable), token(paths)]);
    checks.extend(inotify());
    checks.push(confinement(paths));
    let (found, contained) = containers::containers(paths);
    checks.extend(found);
    if usable {
        checks.extend(store(paths, args, contained, daemon.ok().flatten().as_ref()));
    } else {
        checks.push(clock_sanity(None));
    }
    let self_test = if args.self_test { Some(self_test(paths)?) } else { None };
    answer(DoctorReport { checks, self_test }, json)
}

/// Prints a report; fails if anything is broken.
fn answer(report: DoctorReport, json: bool) -> Done {
    if json {
        print::json(&report)?
    } else {
        print(&report)?
    }
    let failed = report.checks.iter().filter(|check| check.result == CheckStatus::Fail).count();
    let broken = report.self_test.as_ref().map_or(0, SelfTest::broken);
    match (failed, broken) {
        (0, 0) => Ok(()),
        (0, broken) => Err(Failure::Failed(attacks(broken))),
        (failed, 0) => Err(Failure::Failed(format!("{}; see above for the fixes", checks_failed(failed)))),
        (failed, broken) => {
            Err(Failure::Failed(format!("{}, see above for the fixes; and {}", checks_failed(failed), attacks(broken))))
        }
    }
}

fn checks_failed(count: usize) -> String {
    labels::count(count, "check failed", "checks failed")
}

fn attacks(count: usize) -> String {
    format!("{}: do not let strangers talk to agents here", labels::count(count, "attack succeeds", "attacks succeed"))
}

fn confinement(paths: &Paths) -> Check {
    let name = "confinement";
    match sandbox(paths) {
        Sandbox::Jail(_) => ok(
            name,
            "agents that are not `unconfined` have their own view of files and processes (bubblewrap), and inside it Landlock, a \
             filter of system calls and resource limits",
        ),
        Sandbox::Limited { lacking } => bad(
            name,
            CheckStatus::Warn,
            format!(
                "agents are confined by Landlock, a filter of system calls and resource limits only, because {lacking}; their \
                 processes can outlive them, and they can change modes and times of your files"
            ),
            lacking.mend(),
        ),
        Sandbox::Missing { why, mend, root } => bad(
            name,
            CheckStatus::Warn,
            format!("agents cannot be confined here: {why}"),
            match root {
                true => mend,
                false => format!("{mend}; until then only `echo` runs unless an agent has `unconfined = true`"),
            },
        ),
    }
}

fn ok(check: &'static str, found: impl Into<String>) -> Check {
    Check { check, result: CheckStatus::Ok, found: found.into(), mend: None }
}

fn bad(check: &'static str, result: CheckStatus, found: impl Into<String>, mend: impl Into<String>) -> Check {
    Check { check, result, found: found.into(), mend: Some(mend.into()) }
}

fn data(paths: &Paths) -> Check {
    let name = "data directory";
    let shown = paths.data().display();
    if !paths.exists() {
        return bad(
            name,
            CheckStatus::Fail,
            format!("{shown} not found"),
            "create it with `hearth up`, or specify another with --data",
        );
    }
    match paths.check() {
        Ok(()) => ok(name, format!("only you can change {shown}")),
        Err(error) => bad(name, CheckStatus::Fail, error.to_string(), "follow the message"),
    }
}

/// Checks that the disk accepts a file.
fn disk(paths: &Paths) -> Check {
    let shown = paths.data().display();
    match tempfile::Builder::new().prefix(".doctor-").tempfile_in(paths.data()) {
        Ok(_) => ok("disk", format!("{shown} can be written")),
        Err(error) => bad(
            "disk",
            CheckStatus::Fail,
            format!("{shown} cannot be written: {error}"),
            "check the system's log (`dmesg`); mount the disk writable, or free some space",
        ),
    }
}

fn socket(paths: &Paths, daemon: &Result<Option<DaemonStatus>, SocketError>, writable: bool) -> Check {
    let name = "daemon";
    let stale = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    match daemon {
        Ok(Some(_)) => ok(name, format!("answers on {}", paths.socket().display())),
        Ok(None) if !writable => bad(name, CheckStatus::Warn, "no daemon is running", "fix the problems above first"),
        Ok(None) if paths.sockets().iter().any(|path| stale(path)) => bad(
            name,
            CheckStatus::Warn,
            "no daemon is running, and the socket file of the last one still exists",
            "start one with `hearth run`; it replaces the socket",
        ),
        Ok(None) => bad(name, CheckStatus::Warn, "no daemon is running", "start one with `hearth run` or `hearth up`"),
        Err(error) => bad(name, CheckStatus::Fail, error.to_string(), "follow the message"),
    }
}

fn token(paths: &Paths) -> Check {
    let name = "token";
    let path = paths.token();
    let Ok(file) = std::fs::symlink_metadata(&path) else {
        return ok(name, "none yet: the daemon creates it when it starts");
    };
    let mode = file.permissions().mode() & 0o777;
    let ours = file.uid() == rustix::process::geteuid().as_raw();
    if file.is_file() && mode & 0o077 == 0 && ours {
        return ok(name, "only you can read it");
    }
    let found = format!("{} has mode {mode:04o}: others may be able to command the daemon", path.display());
    bad(name, CheckStatus::Fail, found, format!("run `chmod 600 {}` and start the daemon again", path.display()))
}

fn inotify() -> Option<Check> {
    let read = |name: &str| -> Option<u64> {
        std::fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?.trim().parse().ok()
    };
    let (watches, instances) = (read("max_user_watches")?, read("max_user_instances")?);
    let found = format!("{watches} watches and {instances} instances for you");
    Some(if watches >= WATCHES_MIN && instances >= INSTANCES_MIN {
        ok("file events", found)
    } else {
        let mend =
            "raise fs.inotify.max_user_watches and max_user_instances with sysctl; until then mailboxes are polled";
        bad("file events", CheckStatus::Warn, found, mend)
    })
}

/// Checks the clock for plausibility, also against the newest message.
fn clock_sanity(newest: Option<i64>) -> Check {
    let now = clock::wall();
    let behind = newest.is_some_and(|newest| newest > now.millis().saturating_add(AHEAD_MAX));
    if now.millis() < CLOCK_MIN || behind {
        let later = if behind { ", but there are messages from later" } else { "" };
        let found = format!("it is {}{later}", human_time::local(&now.to_string()));
        return bad("clock", CheckStatus::Warn, found, "set the clock; schedules and retention follow it");
    }
    ok("clock", human_time::local(&now.to_string()))
}

fn store(paths: &Paths, args: &DoctorArgs, contained: bool, daemon: Option<&DaemonStatus>) -> Vec<Check> {
    let mut checks = Vec::new();
    checks.push(match state::look_at_place(paths.data()) {
        Ok(warnings) if warnings.is_empty() => ok("file system", "a local disk"),
        Ok(warnings) => bad("file system", CheckStatus::Warn, warnings.join("; "), "put the data directory on a disk"),
        Err(error) => {
            bad("file system", CheckStatus::Fail, error.to_string(), "put the data directory on a local disk")
        }
    });
    let reader = match Reader::open_unless_held(paths.data(), &StageBar::new()) {
        Ok(reader) => reader,
        Err(error) => {
            let mend = match &error {
                state::Error::NoStore { .. } => "`hearth up` makes one",
                _ => "follow the message; the store was not changed",
            };
            checks.push(bad("store", CheckStatus::Fail, error.to_string(), mend));
            return checks;
        }
    };
    checks.push(sound(&reader));
    checks.push(room(paths, &reader));
    checks.extend(lacking::lacking(paths, &reader, daemon));
    checks.extend(backups::backups(paths, &reader));
    let reach = if args.offline { Reach::Offline } else { Reach::Online };
    checks.extend(trials::trials(&reader, daemon, reach));
    checks.extend(runtime::runtime(paths, &reader, daemon));
    let configuration = reader.read(configuration::collect);
    match configuration {
        Ok(configuration) => {
            checks.extend(entities(&configuration, contained));
            checks.extend(channels::channels(&configuration, daemon));
            match channels::unconfigured(&reader, &configuration) {
                Ok(found) => checks.extend(found),
                Err(error) => checks.push(bad("channel", CheckStatus::Fail, error.to_string(), "run `hearth check`")),
            }
            checks.extend(left_out(paths, &configuration));
            checks.extend(handshakes::handshakes(paths, &reader, &configuration, daemon, reach));
        }
        Err(error) => checks.push(bad("entities", CheckStatus::Fail, error.to_string(), "run `hearth check`")),
    }
    match reader.read(Report::read) {
        Ok(report) => {
            checks.extend(report.held_off.iter().map(provider));
            checks.extend(report.frozen.iter().map(frozen));
            checks.extend(report.failed_starts.iter().map(start));
            checks.extend(
                report.state_files.into_iter().map(|one| bad("session state", CheckStatus::Warn, one.found, one.mend)),
            );
        }
        Err(error) => checks.push(bad("agents", CheckStatus::Fail, error.to_string(), "run `hearth check`")),
    }
    let newest: Result<_, state::Error> = reader.read(|db, txn| db.messages.last(txn, ..));
    checks.push(clock_sanity(newest.ok().flatten().map(|(_, message)| message.stored.millis())));
    checks
}

fn provider(held_off: &RateLimitedAgent) -> Check {
    let agent = &held_off.agent;
    let mend = format!("Hearth retries automatically for up to a day; `hearth agents restart {agent}` retries now");
    bad("provider", CheckStatus::Warn, held_off.words(), mend)
}

fn frozen(frozen: &FrozenAgent) -> Check {
    let mend = format!("run `hearth agents unfreeze {}` if it may work again", frozen.agent);
    bad("freeze", CheckStatus::Warn, frozen.words(), mend)
}

fn start(failed: &FailedStarts) -> Check {
    let FailedStarts { session, agent, .. } = failed;
    let mend = format!(
        "fix the cause, `hearth sessions show {session}` shows its standard error; then run `hearth agents restart \
         {agent}`, or wait: Hearth retries automatically and no message is lost"
    );
    bad("start", CheckStatus::Warn, failed.words(), mend)
}

/// Reports declared resources that agents do not get.
fn left_out(paths: &Paths, configuration: &Configuration) -> Vec<Check> {
    let name = "mounts and skills";
    let mut checks = Vec::new();
    for agent in &configuration.agents {
        match home::left_out(paths, &agent.settings) {
            Ok(left_out) => checks.extend(left_out.into_iter().map(|what| {
                let found = format!("agent {} does not get {what}", agent.folder);
                let mend =
                    "correct the allow-list, the skills directory or the agent; `hearth agents show` has its mounts";
                bad(name, CheckStatus::Warn, found, mend)
            })),
            Err(error) => checks.push(bad(name, CheckStatus::Fail, error.to_string(), "make it readable")),
        }
    }
    if checks.is_empty() { vec![ok(name, "agents get everything that is configured")] } else { checks }
}

fn sound(reader: &Reader) -> Check {
    match check::check_in_parts(reader) {
        Ok(violations) if violations.is_empty() => ok("store", "can be opened, and is consistent"),
        Ok(violations) => {
            let found = format!("{} rows are inconsistent", violations.len());
            bad("store", CheckStatus::Fail, found, "`hearth check` lists them; keep a copy of the data directory")
        }
        Err(error) => bad("store", CheckStatus::Fail, error.to_string(), "keep a copy of the data directory"),
    }
}

/// Unused bytes in the store's file up to which no warning is given.
const MUCH_UNUSED: u64 = 16 << 20;

fn room(paths: &Paths, reader: &Reader) -> Check {
    match reader.usage(paths.data()) {
        Ok(usage) => match usage.admission() {
            Admission::Open if usage.unused > MUCH_UNUSED && usage.unused / 4 > usage.used => {
                let mend = "end programs that read the store for a long time, like `hearth-dump` in a pipe, because \
                 pages are not reused meanwhile; with the daemon stopped, `hearth compact` shrinks the file";
                let found = format!(
                    "{} of the store's file are unused, {} are in use",
                    decimal(usage.unused),
                    decimal(usage.used)
                );
                bad("room", CheckStatus::Warn, found, mend)
            }
            Admission::Open => {
                let inodes = usage.inodes.map(|left| format!(", and room for {left} more files")).unwrap_or_default();
                let (used, limit, free) = (decimal(usage.used), decimal(usage.limit), decimal(usage.free));
                ok("room", format!("{used} of {limit} used, {free} free on the disk{inodes}"))
            }
            Admission::Refuse(why) => {
                let most = hoard::named(paths, reader, &why).ok().flatten();
                let mend = "free some space; new work is refused".to_owned();
                let mend = most.map_or_else(|| mend.clone(), |most| format!("{mend}: {most}"));
                bad("room", CheckStatus::Fail, why.to_string(), &mend)
            }
        },
        Err(error) => bad("room", CheckStatus::Fail, error.to_string(), "check the disk"),
    }
}

/// Agents that run in containers find their programs in their images.
fn entities(known: &Configuration, contained: bool) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    for agent in known.agents.iter().filter(|_| !contained) {
        let (folder, own) = (agent.folder.as_str(), &agent.settings);
        checks.extend(program(folder, own));
        checks.extend(own.fallback.iter().filter_map(|fallback| program(folder, &fallback.settings(own))));
    }
    let wired = |folder: &str| {
        known.chats.iter().any(|chat| chat.spec.wirings.iter().any(|wiring| wiring.agent.as_str() == folder))
    };
    let deaf: Vec<&str> = known.agents.iter().map(|a| a.folder.as_str()).filter(|folder| !wired(folder)).collect();
    checks.push(several(
        "agents",
        &deaf,
        "listens in no chat",
        "listen in no chat",
        "`hearth wirings add CHAT AGENT`, or talk to it here with `hearth chat --agent AGENT`",
    ));
    checks.extend(containers::loopback(known, contained));
    // A terminal chat without wirings only shows messages to people. No agent could listen there.
    let silent = known.chats.iter().filter(|chat| {
        chat.spec.wirings.is_empty() && chat.denied.is_none() && chat.spec.channel.as_str() != terminal::NAME
    });
    let silent: Vec<String> = silent.map(super::chats::label).collect();
    let silent: Vec<&str> = silent.iter().map(String::as_str).collect();
    checks.push(several(
        "chats",
        &silent,
        "has no agent",
        "have no agent",
        "`hearth wirings add CHAT AGENT`, or `hearth chats deny CHAT`",
    ));
    checks
}

fn several(check: &'static str, names: &[&str], one: &str, many: &str, mend: &str) -> Check {
    const SHOWN: usize = 5;
    if names.is_empty() {
        return ok(check, "all are wired");
    }
    let shown: Vec<&str> = names.iter().copied().take(SHOWN).collect();
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    let what = if names.len() == 1 { one } else { many };
    bad(check, CheckStatus::Warn, format!("{}{more} {what}", shown.join(", ")), mend)
}

/// Checks that the program of an agent's provider is on the agents' search path.
fn program(folder: &str, settings: &AgentSettings) -> Option<Check> {
    let name = settings.program(settings.provider)?;
    let found = match name.contains('/') {
        true => prerequisites::is_program(Path::new(name)),
        false => prerequisites::on_path(name),
    };
    Some(if found {
        ok("program", format!("{name} of agent {folder} found"))
    } else {
        let preset = settings.provider.preset().filter(|_| settings.command.is_empty());
        let how = preset.map(|preset| format!(" with `{}`", preset.about().package.install())).unwrap_or_default();
        let mend =
            format!("install {name}{how}, or name another program with `hearth agents set {folder} --command …`");
        bad("program", CheckStatus::Fail, format!("{name} of agent {folder} is not on the PATH"), mend)
    })
}

fn print(answer: &DoctorReport) -> Done {
    for check in &answer.checks {
        let (tone, word) = match check.result {
            CheckStatus::Ok => (Tone::Good, "ok"),
            CheckStatus::Warn => (Tone::Warning, "warn"),
            CheckStatus::Fail => (Tone::Bad, "FAIL"),
        };
        print::toned(tone, &format!("{word:5}"), &format!(" {:17} {}", check.check, check.found))?;
        if let Some(mend) = &check.mend {
            print::line(&format!("{:23} -> {mend}", ""))?;
        }
    }
    answer.self_test.as_ref().map_or(Ok(()), SelfTest::print)
}
