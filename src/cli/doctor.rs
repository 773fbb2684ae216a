//! `hearth doctor`: what could keep Hearth from working, one check after the other, each with its mend.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use clap::Args;
use serde::Serialize;

mod containers;
mod runtime;

use super::configuration::{self, Configuration};
use super::out::{self, Tone};
use super::self_test::{SelfTest, self_test};
use super::trouble::{FailedStarts, HeldOff};
use super::{Done, Failure, channels as networks, status, trouble, words};
use crate::channel::terminal;
use crate::clock;
use crate::config::{Paths, env};
use crate::contracts::home;
use crate::model::address::ChannelName;
use crate::model::channel::ChannelInstance;
use crate::model::configure::RoleSpec;
use crate::model::entity::{AgentSettings, ProviderKind};
use crate::socket::client::{Client, Error as SocketError};
use crate::state::{self, Admission, Reader, check};

/// Watches and instances of file events below which busy machines run out of them.
const WATCHES_MIN: u64 = 1_024;
const INSTANCES_MIN: u64 = 16;
/// Before this the clock cannot be right: 2025-01-01.
const CLOCK_MIN: i64 = 1_735_689_600_000;
/// How far the newest message may be in the future, in milliseconds.
const AHEAD_MAX: i64 = 60_000;

/// One check.
#[derive(Debug, Serialize)]
struct Check {
    /// What was looked at.
    check: &'static str,
    /// `ok`, `warn` or `fail`.
    result: Verdict,
    /// What was found.
    found: String,
    /// What to do; null if nothing has to be done.
    mend: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Also let a hostile agent in a scratch installation attack the runtime in use; fails if an attack succeeds
    #[arg(long)]
    self_test: bool,
}

/// The answer of `hearth doctor --json`.
#[derive(Debug, Serialize)]
struct Answer {
    checks: Vec<Check>,
    /// Only with `--self-test`.
    #[serde(skip_serializing_if = "Option::is_none")]
    self_test: Option<SelfTest>,
}

/// Checks everything; fails if anything is broken.
pub(super) fn doctor(paths: &Paths, args: &DoctorArgs, json: bool) -> Done {
    let mut checks = vec![data(paths), socket(paths), token(paths)];
    checks.extend(inotify());
    checks.push(confinement());
    let (found, contained) = containers::containers(paths);
    checks.extend(found);
    if checks.first().is_some_and(|check| check.result != Verdict::Fail) {
        checks.extend(store(paths, contained));
    } else {
        checks.push(clock_sanity(None));
    }
    let self_test = if args.self_test { Some(self_test(paths)?) } else { None };
    let answer = Answer { checks, self_test };
    if json {
        out::json(&answer)?
    } else {
        print(&answer)?
    }
    let failed = answer.checks.iter().filter(|check| check.result == Verdict::Fail).count();
    let broken = answer.self_test.as_ref().map_or(0, SelfTest::broken);
    match (failed, broken) {
        (0, 0) => Ok(()),
        (0, broken) => Err(Failure::Failed(attacks(broken))),
        (failed, 0) => Err(Failure::Failed(format!("{}; see above what to do", checks_failed(failed)))),
        (failed, broken) => {
            Err(Failure::Failed(format!("{}, see above what to do; and {}", checks_failed(failed), attacks(broken))))
        }
    }
}

fn checks_failed(count: usize) -> String {
    words::count(count, "check failed", "checks failed")
}

fn attacks(count: usize) -> String {
    format!("{}: let no stranger talk to agents here", words::count(count, "attack succeeds", "attacks succeed"))
}

fn confinement() -> Check {
    match agent_runner::confine::support() {
        Ok(_) => ok("confinement", "agents are confined unless they are `unconfined`"),
        Err(why) => bad(
            "confinement",
            Verdict::Warn,
            format!("agents cannot be confined here: {why}"),
            "use Linux 6.2 or later with Landlock; until then only `echo` runs unless an agent has `unconfined = true`",
        ),
    }
}

fn ok(check: &'static str, found: impl Into<String>) -> Check {
    Check { check, result: Verdict::Ok, found: found.into(), mend: None }
}

fn bad(check: &'static str, result: Verdict, found: impl Into<String>, mend: impl Into<String>) -> Check {
    Check { check, result, found: found.into(), mend: Some(mend.into()) }
}

fn data(paths: &Paths) -> Check {
    let name = "data directory";
    let shown = paths.data().display();
    if !paths.exists() {
        return bad(
            name,
            Verdict::Fail,
            format!("there is no {shown}"),
            "make it with `hearth up`, or name another with --data",
        );
    }
    match paths.check() {
        Ok(()) => ok(name, format!("{shown} is yours alone to change")),
        Err(error) => bad(name, Verdict::Fail, error.to_string(), "do what the message says"),
    }
}

fn socket(paths: &Paths) -> Check {
    let name = "daemon";
    let stale = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    match Client::connect(paths) {
        Ok(_) => ok(name, format!("answers on {}", paths.socket().display())),
        Err(SocketError::NotRunning { .. }) if paths.sockets().iter().any(|path| stale(path)) => bad(
            name,
            Verdict::Warn,
            "no daemon is running, and the last one left its socket behind",
            "start one with `hearth run`; it replaces the socket",
        ),
        Err(SocketError::NotRunning { .. }) => {
            bad(name, Verdict::Warn, "no daemon is running", "start one with `hearth run` or `hearth up`")
        }
        Err(error) => bad(name, Verdict::Fail, error.to_string(), "stop the daemon and start it again"),
    }
}

fn token(paths: &Paths) -> Check {
    let name = "token";
    let path = paths.token();
    let Ok(file) = std::fs::symlink_metadata(&path) else {
        return ok(name, "none yet: a daemon makes it when it starts");
    };
    let mode = file.permissions().mode() & 0o777;
    let ours = file.uid() == rustix::process::geteuid().as_raw();
    if file.is_file() && mode & 0o077 == 0 && ours {
        return ok(name, "only you can read it");
    }
    let found = format!("{} has mode {mode:04o}: others may be able to command the daemon", path.display());
    bad(name, Verdict::Fail, found, format!("run `chmod 600 {}` and start the daemon again", path.display()))
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
        bad("file events", Verdict::Warn, found, mend)
    })
}

/// Whether the clock can be right, seen by itself and by the newest message.
fn clock_sanity(newest: Option<i64>) -> Check {
    let now = clock::wall();
    let behind = newest.is_some_and(|newest| newest > now.millis().saturating_add(AHEAD_MAX));
    if now.millis() < CLOCK_MIN || behind {
        let found =
            if behind { format!("it is {now}, but there are messages from later") } else { format!("it is {now}") };
        return bad("clock", Verdict::Warn, found, "set the clock; schedules and retention follow it");
    }
    ok("clock", now.to_string())
}

fn store(paths: &Paths, contained: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    checks.push(match state::look_at_place(paths.data()) {
        Ok(warnings) if warnings.is_empty() => ok("file system", "a local disk"),
        Ok(warnings) => bad("file system", Verdict::Warn, warnings.join("; "), "put the data directory on a disk"),
        Err(error) => bad("file system", Verdict::Fail, error.to_string(), "put the data directory on a local disk"),
    });
    let reader = match Reader::open(paths.data()) {
        Ok(reader) => reader,
        Err(error) => {
            let mend = match &error {
                state::Error::NoStore { .. } => "`hearth up` makes one",
                _ => "do what the message says; the store that is there is left as it is",
            };
            checks.push(bad("store", Verdict::Fail, error.to_string(), mend));
            return checks;
        }
    };
    checks.push(sound(&reader));
    checks.push(room(paths, &reader));
    checks.extend(runtime::runtime(paths, &reader));
    let configuration = reader.read(configuration::collect);
    match configuration {
        Ok(configuration) => {
            checks.extend(entities(&configuration, contained));
            checks.extend(channels(paths, &configuration));
            match unconfigured(&reader, &configuration) {
                Ok(found) => checks.extend(found),
                Err(error) => checks.push(bad("channel", Verdict::Fail, error.to_string(), "`hearth check` says more")),
            }
            checks.extend(left_out(paths, &configuration));
        }
        Err(error) => checks.push(bad("entities", Verdict::Fail, error.to_string(), "`hearth check` says more")),
    }
    match reader.read(|db, txn| Ok::<_, state::Error>((trouble::held_off(db, txn)?, trouble::failed_starts(db, txn)?)))
    {
        Ok((held_off, failed)) => {
            checks.extend(held_off.iter().map(provider));
            checks.extend(failed.iter().map(start));
        }
        Err(error) => checks.push(bad("agents", Verdict::Fail, error.to_string(), "`hearth check` says more")),
    }
    match reader.read(trouble::state_files) {
        Ok(found) => {
            checks.extend(found.into_iter().map(|one| bad("session state", Verdict::Warn, one.found, one.mend)));
        }
        Err(error) => checks.push(bad("session state", Verdict::Fail, error.to_string(), "`hearth check` says more")),
    }
    let newest: Result<_, state::Error> = reader.read(|db, txn| db.messages.last(txn, ..));
    checks.push(clock_sanity(newest.ok().flatten().map(|(_, message)| message.stored.millis())));
    checks
}

fn provider(held_off: &HeldOff) -> Check {
    let agent = &held_off.agent;
    let mend = format!(
        "it is tried again by itself, and its messages wait for up to a day; `hearth agents restart {agent}` tries at once"
    );
    bad("provider", Verdict::Warn, held_off.words(), mend)
}

fn start(failed: &FailedStarts) -> Check {
    let FailedStarts { session, agent, .. } = failed;
    let mend = format!(
        "fix what it says, `hearth sessions show {session}` has what was written to standard error; then `hearth agents \
         restart {agent}`, or wait: it is tried again by itself and no message is lost"
    );
    bad("start", Verdict::Warn, failed.words(), mend)
}

/// What agents do without although it was declared.
fn left_out(paths: &Paths, configuration: &Configuration) -> Vec<Check> {
    let name = "mounts and skills";
    let mut checks = Vec::new();
    for agent in &configuration.agents {
        match home::left_out(paths, &agent.settings) {
            Ok(left_out) => checks.extend(left_out.into_iter().map(|what| {
                let found = format!("agent {} does without {what}", agent.folder);
                let mend =
                    "correct the allow-list, the skills directory or the agent; `hearth agents show` has its mounts";
                bad(name, Verdict::Warn, found, mend)
            })),
            Err(error) => checks.push(bad(name, Verdict::Fail, error.to_string(), "make it readable")),
        }
    }
    if checks.is_empty() { vec![ok(name, "agents get all that are configured")] } else { checks }
}

fn sound(reader: &Reader) -> Check {
    match check::check_in_parts(reader) {
        Ok(violations) if violations.is_empty() => ok("store", "opens, and is consistent"),
        Ok(violations) => {
            let found = format!("{} rows do not agree with others", violations.len());
            bad("store", Verdict::Fail, found, "`hearth check` lists them; keep a copy of the data directory")
        }
        Err(error) => bad("store", Verdict::Fail, error.to_string(), "keep a copy of the data directory"),
    }
}

/// Bytes of free pages that are nothing to speak of.
const MUCH_UNUSED: u64 = 16 << 20;

fn room(paths: &Paths, reader: &Reader) -> Check {
    match reader.usage(paths.data()) {
        Ok(usage) => match usage.admission() {
            Admission::Open if usage.unused > MUCH_UNUSED && usage.unused / 4 > usage.used => {
                let mend = "end programs that read the store for long, like `hearth-dump` in a pipe: while one reads, no page is \
                            reused; with the daemon stopped, `hearth compact` shrinks the file";
                let found = format!("{} bytes of the store's file are unused, {} are in use", usage.unused, usage.used);
                bad("room", Verdict::Warn, found, mend)
            }
            Admission::Open => {
                ok("room", format!("{} of {} bytes used, {} free on the disk", usage.used, usage.limit, usage.free))
            }
            Admission::Refuse(why) => bad("room", Verdict::Fail, why.to_string(), "make room; no new work is taken in"),
        },
        Err(error) => bad("room", Verdict::Fail, error.to_string(), "look at the disk"),
    }
}

/// Agents that run in containers find their programs in their images.
fn entities(known: &Configuration, contained: bool) -> Vec<Check> {
    let mut checks: Vec<Check> =
        known.agents.iter().filter(|_| !contained).filter_map(|a| program(a.folder.as_str(), &a.settings)).collect();
    let owner = known.users.iter().any(|user| user.spec.roles.contains(&RoleSpec::Owner));
    checks.push(if owner {
        ok("owner", "there is one")
    } else {
        let mend = "`hearth roles grant CHANNEL:ID owner`, or `hearth up` on this machine";
        bad("owner", Verdict::Warn, "there is no owner: nobody is told when something goes wrong", mend)
    });
    let wired = |folder: &str| {
        known.chats.iter().any(|chat| chat.spec.wirings.iter().any(|wiring| wiring.agent.as_str() == folder))
    };
    let deaf: Vec<&str> = known.agents.iter().map(|a| a.folder.as_str()).filter(|folder| !wired(folder)).collect();
    checks.push(several(
        "agents",
        &deaf,
        ("listens in no chat", "listen in no chat"),
        "`hearth wirings add CHAT AGENT`, or talk to it here with `hearth chat --agent AGENT`",
    ));
    // What people hear alone at the terminal is no chat that an agent could listen in.
    let silent = known.chats.iter().filter(|chat| {
        chat.spec.wirings.is_empty() && chat.denied.is_none() && chat.spec.channel.as_str() != terminal::NAME
    });
    let silent: Vec<String> = silent.map(super::chats::label).collect();
    let silent: Vec<&str> = silent.iter().map(String::as_str).collect();
    checks.push(several(
        "chats",
        &silent,
        ("has no agent", "have no agent"),
        "`hearth wirings add CHAT AGENT`, or `hearth chats deny CHAT`",
    ));
    checks
}

/// Each channel that is configured. What the daemon says of it is left out where none can be asked, which is told already.
fn channels(paths: &Paths, known: &Configuration) -> Vec<Check> {
    let daemon = status::ask(paths).ok().flatten();
    let look = |channel: &ChannelInstance| match networks::trouble(channel, daemon.as_ref()) {
        Some((found, mend)) => bad("channel", Verdict::Warn, found, mend),
        None if daemon.is_none() => ok("channel", format!("{} is connected when a daemon runs", channel.name)),
        None => ok("channel", format!("{} is up", channel.name)),
    };
    known.channels.iter().map(look).collect()
}

/// What waits for channels that nobody configured goes nowhere.
fn unconfigured(reader: &Reader, known: &Configuration) -> Result<Vec<Check>, state::Error> {
    let mut waiting: BTreeMap<ChannelName, u64> = BTreeMap::new();
    let there = |name: &ChannelName| {
        name.as_str() == terminal::NAME || known.channels.iter().any(|channel| channel.name == *name)
    };
    reader.read(|db, txn| {
        for row in db.lanes.iter(txn)? {
            let ((.., id), ()) = row?;
            let to = db.outbound.require(txn, &id)?.to;
            if let Some(to) = to.filter(|to| !there(&to.channel)) {
                *waiting.entry(to.channel).or_insert(0) += 1;
            }
        }
        Ok::<_, state::Error>(())
    })?;
    let check = |(channel, count): (ChannelName, u64)| {
        let messages = words::count(count, "message waits", "messages wait");
        let found = format!("{messages} for the channel {channel}, which is not configured");
        let mend = format!("add [channels.{channel}] to hearth.toml and apply it; what waits for a week is given up");
        bad("channel", Verdict::Warn, found, mend)
    };
    Ok(waiting.into_iter().map(check).collect())
}

fn several(check: &'static str, names: &[&str], (one, many): (&str, &str), mend: &str) -> Check {
    const SHOWN: usize = 5;
    if names.is_empty() {
        return ok(check, "every one is wired");
    }
    let shown: Vec<&str> = names.iter().copied().take(SHOWN).collect();
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    let what = if names.len() == 1 { one } else { many };
    bad(check, Verdict::Warn, format!("{}{more} {what}", shown.join(", ")), mend)
}

/// Whether the program of an agent's provider can be found where agents look for it.
fn program(folder: &str, settings: &AgentSettings) -> Option<Check> {
    let name = match settings.provider {
        ProviderKind::Echo => return None,
        ProviderKind::Command => settings.command.first()?.as_str(),
        ProviderKind::Claude => settings.command.first().map_or("claude", String::as_str),
    };
    let usable = |path: &Path| {
        path.is_file() && std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o111 != 0)
    };
    let path = env::child_path();
    let found = match name.contains('/') {
        true => usable(Path::new(name)),
        false => std::env::split_paths(&path).any(|dir| usable(&dir.join(name))),
    };
    Some(if found {
        ok("program", format!("{name} of agent {folder} is there"))
    } else {
        let mend = format!("install {name}, or name another program with `hearth agents set {folder} --command …`");
        bad("program", Verdict::Fail, format!("{name} of agent {folder} is not on the PATH"), mend)
    })
}

fn print(answer: &Answer) -> Done {
    for check in &answer.checks {
        let (tone, word) = match check.result {
            Verdict::Ok => (Tone::Good, "ok"),
            Verdict::Warn => (Tone::Warning, "warn"),
            Verdict::Fail => (Tone::Bad, "FAIL"),
        };
        out::toned(tone, &format!("{word:5}"), &format!(" {:17} {}", check.check, check.found))?;
        if let Some(mend) = &check.mend {
            out::line(&format!("{:23} -> {mend}", ""))?;
        }
    }
    answer.self_test.as_ref().map_or(Ok(()), SelfTest::print)
}
