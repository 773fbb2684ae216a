//! `hearth status`: what runs, what waits, what is wrong. Reads the store beside the daemon.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use super::channels::ChannelJson;
use super::tasks::TaskCounts;
use super::trouble::{FailedStarts, HeldOff};
use super::{Done, Failure, channels, out, rows, tasks, transcripts, trouble, watch, words};
use crate::config::{Machine, Paths};
use crate::model::approval::ApprovalState;
use crate::model::channel::ChannelInstance;
use crate::model::configure::RuntimeKind;
use crate::model::delivery::OutState;
use crate::model::entity::Hold;
use crate::model::id::MessageId;
use crate::socket::client::{Client, Error};
use crate::socket::protocol::{DaemonStatus, Request, Response};
use crate::state::{self, Admission, Read, Reader, Tables};

mod incarnations;
mod places;

/// The answer of `hearth status --json`.
#[derive(Debug, Serialize)]
struct Status {
    data: String,
    /// Zone of agents that have none of their own, and where it comes from.
    timezone: String,
    timezone_from: String,
    /// What only a running daemon knows; null without one.
    daemon: Option<DaemonStatus>,
    agents: Vec<AgentStatus>,
    chats: u64,
    sessions: u64,
    /// The configured ones, in the order of their names.
    channels: Vec<ChannelJson>,
    places: places::Places,
    incarnations: Vec<incarnations::IncarnationStatus>,
    messages: MessageCounts,
    outbound: OutboundCounts,
    dropped: u64,
    /// What somebody has to decide.
    approvals: ApprovalCounts,
    /// The message that has waited longest; null if none waits.
    oldest_pending: Option<PendingStatus>,
    store: StoreStatus,
    /// Agents whose provider limits them.
    held_off: Vec<HeldOff>,
    /// Sessions with waiting messages whose starts fail.
    failed_starts: Vec<FailedStarts>,
    /// What agents do by the clock.
    tasks: TaskCounts,
    warnings: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
struct ApprovalCounts {
    open: u64,
    /// Open ones whose card nobody has seen.
    unsent: u64,
    /// Messages that wait for decisions.
    held: u64,
}

#[derive(Debug, Serialize)]
struct PendingStatus {
    message: String,
    agent: String,
    session: String,
    since: String,
}

#[derive(Debug, Default, Serialize)]
struct StoreStatus {
    used_bytes: u64,
    limit_bytes: u64,
    /// Free on the disk.
    free_bytes: u64,
    /// In the store's file and not used.
    unused_bytes: u64,
    /// Slots that readers have used at once, of `readers_max`.
    readers: u32,
    readers_max: u32,
    /// Why no new work is taken in; null while it is.
    refuses: Option<String>,
}

#[derive(Debug, Serialize)]
struct AgentStatus {
    folder: String,
    provider: String,
    /// Pending and claimed messages that ask for a turn.
    waiting: u64,
    /// Whether it runs with the rights of the user.
    unconfined: bool,
    /// What holds it in the process runtime: `confined`, `unconfined`, `needs unconfined`, `not needed`.
    confinement: &'static str,
}

#[derive(Debug, Serialize)]
struct MessageCounts {
    total: u64,
    due: u64,
    claimed: u64,
    scheduled: u64,
    backing_off: u64,
    context: u64,
}

#[derive(Debug, Serialize)]
struct OutboundCounts {
    total: u64,
    undelivered: u64,
    /// First messages of lanes that wait, by why.
    waiting_for: BTreeMap<String, u64>,
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// Show it live, with keys to act; with --json, print a line per change
    #[arg(short, long)]
    watch: bool,
}

/// Shows the state of things, once or as it changes.
pub(super) fn run(paths: &Paths, args: &StatusArgs, json: bool) -> Done {
    if args.watch { watch::watch(paths, json) } else { status(paths, json) }
}

fn status(paths: &Paths, json: bool) -> Done {
    let mut warnings = Vec::new();
    let daemon = match ask(paths) {
        Ok(daemon) => daemon,
        Err(error) => {
            warnings.push(error.to_string());
            None
        }
    };
    let reader = Reader::open(paths.data())?;
    let mut status = reader.read(collect).map_err(|error: state::Error| Failure::from(error))?;
    status.data = paths.data().display().to_string();
    let networks: Vec<ChannelInstance> = reader.read(channels)?;
    status.channels = networks.iter().map(|channel| channels::shape(channel, daemon.as_ref())).collect();
    let troubles = networks.iter().filter_map(|channel| channels::trouble(channel, daemon.as_ref()));
    warnings.extend(troubles.map(|(what, _)| format!("channel {what}")));
    if let Some(daemon) = &daemon {
        let settings = reader.read(|db, txn| db.settings.get(txn, &()))?.unwrap_or_default();
        warnings.extend(runtime_change(daemon, settings.runtime));
        warnings.extend(trouble::no_containers(&settings, (&daemon.runtime, &daemon.runtime_why)));
        let again = |what: String, agent: &str| {
            format!("{what}; it is tried again, and `hearth image build {agent}` tries at once")
        };
        let failed = daemon.builds.iter().filter_map(|build| Some(again(trouble::failed_build(build)?, &build.agent)));
        warnings.extend(failed);
        if daemon.runtime == RuntimeKind::Process.as_str() {
            let closed = reader.read(trouble::networks)?;
            warnings.extend((!closed.is_empty()).then(|| trouble::open_network(&closed)));
        }
    }
    (status.timezone, status.timezone_from) = zone(&reader, daemon.as_ref(), &mut warnings)?;
    status.daemon = daemon;
    status.store = store(paths, &reader)?;
    warnings.extend(state::look_at_place(paths.data())?);
    warnings.extend(status.store.refuses.iter().map(|why| format!("no new work is taken in: {why}")));
    if status.daemon.is_none() {
        let writer = state::last_writer(paths.data());
        warnings.extend(incarnations::left(writer, status.incarnations.len(), status.messages.claimed));
    }
    warnings.append(&mut status.warnings);
    warnings.extend(transcripts::long(paths, &reader)?);
    if status.daemon.is_none() {
        warnings.push("no daemon is running: start one with `hearth run` or `hearth up`".to_owned());
    }
    status.warnings = warnings;
    if json { out::json(&status) } else { print(&status) }
}

fn store(paths: &Paths, reader: &Reader) -> Result<StoreStatus, Failure> {
    let usage = reader.usage(paths.data())?;
    let (readers, readers_max) = reader.readers();
    Ok(StoreStatus {
        used_bytes: usage.used,
        limit_bytes: usage.limit,
        free_bytes: usage.free,
        unused_bytes: usage.unused,
        readers,
        readers_max,
        refuses: match usage.admission() {
            Admission::Open => None,
            Admission::Refuse(why) => Some(why.to_string()),
        },
    })
}

/// The oldest of the messages that ask for a turn and wait for one. Ids are given out in the order of arrival.
fn oldest_pending(db: &Tables, txn: &Read<'_>) -> Result<Option<PendingStatus>, state::Error> {
    let mut oldest: Option<MessageId> = None;
    for row in db.ready.iter(txn)? {
        let (_, id) = row?;
        oldest = Some(oldest.map_or(id, |oldest| oldest.min(id)));
    }
    for row in db.retries.iter(txn)? {
        let ((_, id), ()) = row?;
        oldest = Some(oldest.map_or(id, |oldest| oldest.min(id)));
    }
    let Some(id) = oldest else { return Ok(None) };
    let message = db.messages.require(txn, &id)?;
    Ok(Some(PendingStatus {
        message: id.to_string(),
        agent: rows::folder(db, txn, message.agent)?,
        session: message.session.to_string(),
        since: message.stored.to_string(),
    }))
}

/// Asks a running daemon; none if none runs.
pub(super) fn ask(paths: &Paths) -> Result<Option<DaemonStatus>, Error> {
    match Client::connect(paths) {
        Ok(mut client) => match client.ask(&Request::Status)? {
            Response::Status(status) => Ok(Some(status)),
            other => Err(crate::socket::client::unexpected(other)),
        },
        Err(Error::NotRunning { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn collect(db: &Tables, txn: &Read<'_>) -> Result<Status, state::Error> {
    let agents = agents(db, txn)?;
    let mut warnings: Vec<String> = agents.iter().filter_map(confinement_warning).collect();
    warnings.append(&mut trouble::unconfined(db, txn, agent_runner::confine::support().is_ok())?);
    let (held_off, failed_starts) = (trouble::held_off(db, txn)?, trouble::failed_starts(db, txn)?);
    warnings.extend(trouble::state_files(db, txn)?.into_iter().map(|one| one.found));
    warnings.extend(held_off.iter().map(HeldOff::words));
    warnings.extend(failed_starts.iter().map(FailedStarts::words));
    let tasks = tasks::counts(db, txn, &mut warnings)?;
    Ok(Status {
        data: String::new(),
        timezone: String::new(),
        timezone_from: String::new(),
        daemon: None,
        agents,
        chats: db.chats.len(txn)?,
        sessions: db.sessions.len(txn)?,
        channels: Vec::new(),
        places: places::look(db, txn)?,
        incarnations: incarnations::look(db, txn)?,
        messages: MessageCounts {
            total: db.messages.len(txn)?,
            due: db.ready.len(txn)?,
            claimed: db.claims.len(txn)?,
            scheduled: db.later.len(txn)?,
            backing_off: db.retries.len(txn)?,
            context: db.context.len(txn)?,
        },
        outbound: outbound(db, txn)?,
        dropped: db.dropped.len(txn)?,
        approvals: approvals(db, txn)?,
        oldest_pending: oldest_pending(db, txn)?,
        store: StoreStatus::default(),
        held_off,
        failed_starts,
        tasks,
        warnings,
    })
}

fn channels(db: &Tables, txn: &Read<'_>) -> Result<Vec<ChannelInstance>, state::Error> {
    db.channels.iter(txn)?.map(|row| row.map(|(_, channel)| channel)).collect()
}

fn runtime_change(daemon: &DaemonStatus, wanted: Option<RuntimeKind>) -> Option<String> {
    let wanted = wanted.map(RuntimeKind::as_str);
    (wanted != daemon.runtime_setting.as_deref()).then(|| {
        format!("the setting `runtime` is {} now; that takes effect at the next start", wanted.unwrap_or("auto"))
    })
}

/// The zone that holds where an agent has none, and in words where it comes from.
fn zone(
    reader: &Reader,
    daemon: Option<&DaemonStatus>,
    warnings: &mut Vec<String>,
) -> Result<(String, String), Failure> {
    let common = reader.read(|db, txn| db.settings.get(txn, &()))?.and_then(|settings| settings.timezone);
    if common.is_none() && daemon.is_none() {
        warnings.extend(Machine::look().complaint());
    }
    let (zone, from) = super::zone::that_holds(daemon, None, common.as_deref());
    Ok((zone.to_string(), from))
}

fn confinement_warning(agent: &AgentStatus) -> Option<String> {
    let folder = &agent.folder;
    if agent.unconfined {
        return Some(format!("agent {folder} is unconfined: it has the rights of the user who runs Hearth"));
    }
    (agent.confinement == Hold::NeedsUnconfined.as_str()).then(|| {
        format!("agent {folder} is not started, because nothing confines agents here; `unconfined = true` lets it run")
    })
}

fn agents(db: &Tables, txn: &Read<'_>) -> Result<Vec<AgentStatus>, state::Error> {
    let possible = agent_runner::confine::support().is_ok();
    let mut agents = Vec::new();
    for row in db.agents.iter(txn)? {
        let (id, agent) = row?;
        if agent.archived.is_some() {
            continue;
        }
        let provider = agent.settings.provider.as_str();
        agents.push(AgentStatus {
            folder: agent.folder.to_string(),
            provider: provider.to_owned(),
            waiting: db.backlog.get(txn, &id)?.unwrap_or(0),
            unconfined: agent.settings.unconfined,
            confinement: agent.settings.hold(agent.settings.provider, possible).as_str(),
        });
    }
    Ok(agents)
}

/// Why a lane waits whose channel nobody configured, in the engine's words.
const NO_ADAPTER: &str = "no adapter";

fn outbound(db: &Tables, txn: &Read<'_>) -> Result<OutboundCounts, state::Error> {
    let mut waiting_for = BTreeMap::new();
    for row in db.lane_heads.iter(txn)? {
        let ((_, id), ()) = row?;
        let outbound = db.outbound.require(txn, &id)?;
        let why = match (outbound.state, outbound.to) {
            (OutState::Attempting { .. }, _) => "an attempt under way".to_owned(),
            (OutState::Waiting { after: Some(why), .. }, Some(to)) if why == NO_ADAPTER => {
                format!("{why} for the channel {}", to.channel)
            }
            (OutState::Waiting { after, .. }, _) => after.unwrap_or_else(|| "its turn".to_owned()),
            _ => continue,
        };
        *waiting_for.entry(why).or_insert(0) += 1;
    }
    Ok(OutboundCounts {
        total: db.outbound.len(txn)?,
        undelivered: db.lanes.len(txn)?.saturating_add(db.outbound_later.len(txn)?),
        waiting_for,
    })
}

fn approvals(db: &Tables, txn: &Read<'_>) -> Result<ApprovalCounts, state::Error> {
    let mut counts = ApprovalCounts { held: db.held.len(txn)?, ..ApprovalCounts::default() };
    for row in db.approvals_due.iter(txn)? {
        let ((_, id), ()) = row?;
        counts.open += 1;
        counts.unsent += u64::from(matches!(db.approvals.require(txn, &id)?.state, ApprovalState::Unsent { .. }));
    }
    Ok(counts)
}

/// Megabytes for people.
fn megabytes(bytes: u64) -> String {
    match bytes {
        bytes if bytes < 10_000_000 => format!("{} kB", bytes / 1_000),
        bytes => format!("{} MB", bytes / 1_000_000),
    }
}

fn print(status: &Status) -> Done {
    print_summary(status)?;
    print_tables(status)
}

fn print_summary(status: &Status) -> Done {
    out::line(&format!("data      {}", status.data))?;
    match &status.daemon {
        Some(daemon) => out::line(&format!(
            "daemon    {} (pid {}, version {}, {}, {} queued)",
            if daemon.draining { "stopping, when what is under way has ended" } else { "running" },
            daemon.pid,
            daemon.version,
            words::count(daemon.terminals, "terminal", "terminals"),
            words::count(daemon.queued, "input", "inputs")
        ))?,
        None => out::line("daemon    not running")?,
    }
    if let Some(daemon) = &status.daemon {
        out::line(&format!("runtime   {}, because {}", daemon.runtime, daemon.runtime_why))?;
        for build in daemon.builds.iter().filter(|build| build.state == "building") {
            out::line(&format!("building  {} for agent {}", build.image, build.agent))?;
        }
    }
    places::print(&status.places)?;
    out::line(&format!("timezone  {} ({})", status.timezone, status.timezone_from))?;
    for channel in &status.channels {
        out::line(&format!("channel   {} ({}) is {}", channel.channel, channel.kind, channel.state))?;
    }
    let MessageCounts { total, due, claimed, scheduled, backing_off, context } = status.messages;
    out::line(&format!(
        "messages  {total} in all: {due} due, {claimed} claimed, {backing_off} backing off, {scheduled} scheduled, {context} context"
    ))?;
    out::line(&format!("outbound  {} in all, {} undelivered", status.outbound.total, status.outbound.undelivered))?;
    for (why, count) in &status.outbound.waiting_for {
        let lanes = words::count(*count, "lane waits", "lanes wait");
        out::line(&format!("          {lanes}: {why}"))?;
    }
    out::line(&format!("refused   {}", status.dropped))?;
    let ApprovalCounts { open, unsent, held } = status.approvals;
    if open > 0 {
        let hint = "see `hearth approvals list`";
        let waiting = words::count(held, "message waits", "messages wait");
        out::line(&format!("approvals {open} open, {unsent} not shown to anybody yet, {waiting}: {hint}"))?;
    }
    tasks::print_counts(&status.tasks)?;
    if let Some(oldest) = &status.oldest_pending {
        let PendingStatus { message, agent, since, .. } = oldest;
        out::line(&format!("oldest    {message} has waited for {agent} since {since}"))?;
    }
    let StoreStatus { used_bytes, limit_bytes, free_bytes, unused_bytes, readers, readers_max, .. } = &status.store;
    out::line(&format!(
        "store     {} of {} used, {} of its file unused, {} free on the disk, {readers} of {readers_max} reader slots used",
        megabytes(*used_bytes),
        megabytes(*limit_bytes),
        megabytes(*unused_bytes),
        megabytes(*free_bytes)
    ))
}

fn print_tables(status: &Status) -> Done {
    if !status.agents.is_empty() {
        out::line("")?;
        let row = |agent: &AgentStatus| {
            let words = [&agent.folder, &agent.provider, agent.confinement, &agent.waiting.to_string()];
            words.map(str::to_owned).to_vec()
        };
        out::table(&["AGENT", "PROVIDER", "CONFINEMENT", "WAITING"], status.agents.iter().map(row).collect())?;
    }
    incarnations::print(&status.incarnations, status.daemon.is_some())?;
    let warn = |warning: &String| out::warning(warning);
    status.warnings.iter().for_each(warn);
    Ok(())
}
