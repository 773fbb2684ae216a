//! `hearth status`: running agents, waiting messages and problems. Reads the store beside the daemon.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use super::budgets::BudgetJson;
use super::channels::ChannelJson;
use super::last_backup::BackupStatus;
use super::last_check::LastCheck;
use super::problems::{FailedStarts, FrozenAgent, RateLimitedAgent};
use super::report::Report;
use super::tasks::TaskCounts;
use super::warnings::{self, Around};
use super::watch::{self, DaemonView, View, parts};
use super::{Done, Failure, budgets, channels, daemon_status, hoard, lookup, print, tasks, transcripts};
use crate::clock;
use crate::config::{Machine, Paths};
use crate::console::Rank;
use crate::daemon::{proof, sandbox};
use crate::model::approval::ApprovalState;
use crate::model::delivery::{NOT_RUNNING, OutState};
use crate::model::id::{MessageId, SessionId};
use crate::socket::protocol::DaemonStatus;
use crate::state::{self, Admission, InboxKey, Read, Reader, Tables, Timed, Usage};

#[cfg(test)]
mod cost;
mod incarnations;
mod places;
mod text;

/// The answer of `hearth status --json`.
#[derive(Debug, Serialize)]
struct Status {
    data: String,
    /// Default time zone of agents, and its source.
    timezone: String,
    timezone_from: String,
    /// State that only a running daemon knows; null without one.
    daemon: Option<DaemonStatus>,
    /// Why a running daemon could not be asked; null if it was asked, or none runs.
    daemon_problem: Option<String>,
    agents: Vec<AgentStatus>,
    chats: u64,
    sessions: u64,
    /// Configured channels, by name.
    channels: Vec<ChannelJson>,
    places: places::Slots,
    incarnations: Vec<incarnations::IncarnationStatus>,
    messages: MessageCounts,
    outbound: OutboundCounts,
    dropped: u64,
    approvals: ApprovalCounts,
    /// The longest-waiting message; null if none waits.
    oldest_pending: Option<PendingStatus>,
    store: StoreStatus,
    /// The last check of the whole store by a daemon; null before the first one.
    check: Option<LastCheck>,
    /// Backups of everything; null if none was tried and none is scheduled.
    backup: Option<BackupStatus>,
    /// Agents whose provider limits requests or cannot be reached.
    held_off: Vec<RateLimitedAgent>,
    /// Agents that a person froze.
    frozen: Vec<FrozenAgent>,
    /// Sessions with waiting messages whose starts fail.
    failed_starts: Vec<FailedStarts>,
    /// Budgets in their present period.
    budgets: Vec<BudgetJson>,
    /// Scheduled tasks.
    tasks: TaskCounts,
    warnings: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
struct ApprovalCounts {
    open: u64,
    /// Open approvals whose card was not delivered.
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
    /// Free bytes on the disk.
    free_bytes: u64,
    /// Free inodes; null if the file system has no limit.
    free_inodes: Option<u64>,
    /// Unused bytes in the store's file.
    unused_bytes: u64,
    /// Highest number of reader slots used at once, of `readers_max`.
    readers: u32,
    readers_max: u32,
    /// Why new work is rejected; null if it is accepted.
    refuses: Option<String>,
}

#[derive(Debug, Serialize)]
struct AgentStatus {
    folder: String,
    provider: String,
    /// Pending and claimed messages that ask for a turn.
    waiting: u64,
    /// Whether it runs with the user's permissions.
    unconfined: bool,
    /// Its isolation in the process runtime: `confined`, `unconfined`, `needs unconfined`, `not needed`.
    confinement: &'static str,
}

#[derive(Debug, Serialize)]
struct MessageCounts {
    total: u64,
    due: u64,
    claimed: u64,
    scheduled: u64,
    backing_off: u64,
    /// Those that wait for room in a budget; they are `scheduled`, too.
    over_budget: u64,
    context: u64,
}

#[derive(Debug, Default, Serialize)]
struct OutboundCounts {
    total: u64,
    undelivered: u64,
    /// Number of waiting outgoing queues, by the reason of their first message.
    waiting_for: BTreeMap<String, u64>,
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// Show it live, with keys to act; with --json, print a line per change
    #[arg(short, long)]
    pub(super) watch: bool,
}

/// Shows the status once.
pub(super) fn status(paths: &Paths, json: bool) -> Done {
    let (daemon, problem) = match daemon_status::ask(paths) {
        Ok(daemon) => (daemon, None),
        Err(error) => (None, Some(error.to_string())),
    };
    let reader = Reader::open(paths.data())?;
    let sandbox = sandbox(paths);
    let usage = reader.usage(paths.data())?;
    let around = Around { paths, daemon: daemon.as_ref(), sandbox: &sandbox, usage: &usage };
    let (report, mut status, mut warnings, view) = reader.read(|db, txn| {
        let report = Report::read(db, txn)?;
        let status = collect(db, txn, sandbox.confines(), &report)?;
        let warnings = warnings::read(db, txn, &report, &around, &Rank::Everything)?;
        let view = if json { View::default() } else { watch::collect(db, txn, &report)? };
        Ok::<_, state::Error>((report, status, warnings, view))
    })?;
    status.data = paths.data().display().to_string();
    status.channels = report.channels.iter().map(|channel| channels::shape(channel, daemon.as_ref())).collect();
    (status.held_off, status.failed_starts) = (report.held_off, report.failed_starts);
    status.frozen = report.frozen;
    (status.timezone, status.timezone_from) = zone(&reader, daemon.as_ref(), &mut warnings)?;
    status.daemon = daemon;
    status.store = store(&reader, &usage);
    if let Admission::Refuse(why) = usage.admission() {
        warnings.extend(hoard::named(paths, &reader, &why).ok().flatten());
    }
    if status.daemon.is_none() && problem.is_none() {
        let writer = state::last_writer(paths.data());
        status.places.nobody_runs();
        let left = || incarnations::left(writer, status.incarnations.len(), status.messages.claimed);
        warnings.extend(proof::last_end(paths).or_else(left));
    }
    status.check = proof::last(paths).map(|last| LastCheck::of(&last));
    let plan = reader.read(|db, txn| db.settings.get(txn, &()))?.and_then(|settings| settings.backup);
    status.backup = BackupStatus::look(paths, plan.as_ref());
    let long = reader.read(|db, txn| transcripts::long(paths, db, txn))?;
    warnings.extend(long.into_iter().map(|(_, words)| words));
    if status.daemon.is_none() && problem.is_none() {
        warnings.push(parts::NO_DAEMON.to_owned());
    }
    status.warnings = warnings;
    status.daemon_problem.clone_from(&problem);
    if json {
        print::json(&status)?
    } else {
        print(&status, view)?
    }
    problem.map_or(Ok(()), |problem| Err(Failure::Failed(problem)))
}

/// Prints it for people.
fn print(status: &Status, view: View) -> Done {
    let daemon = status.daemon.as_ref().map(DaemonView::of);
    let warnings = status.warnings.iter().filter(|warning| *warning != parts::NO_DAEMON).cloned().collect();
    let view = View { daemon, trouble: status.daemon_problem.clone(), warnings, ..view };
    let screen = print::screen();
    let lines = text::lines(status, &view, screen.map(|(columns, _)| columns), clock::wall());
    let closing = text::closing(&view, lines.len(), screen.map(|(_, rows)| rows));
    lines.iter().chain(&closing).try_for_each(|line| print::pieces(line))
}

fn store(reader: &Reader, usage: &Usage) -> StoreStatus {
    let (readers, readers_max) = reader.readers();
    StoreStatus {
        used_bytes: usage.used,
        limit_bytes: usage.limit,
        free_bytes: usage.free,
        free_inodes: usage.inodes,
        unused_bytes: usage.unused,
        readers,
        readers_max,
        refuses: match usage.admission() {
            Admission::Open => None,
            Admission::Refuse(why) => Some(why.to_string()),
        },
    }
}

/// The oldest message that waits for a turn. Ids are assigned in order of arrival.
fn oldest_pending(db: &Tables, txn: &Read<'_>) -> Result<Option<PendingStatus>, state::Error> {
    let (mut oldest, mut from): (Option<MessageId>, _) = (None, InboxKey { session: SessionId::new(0), seq: 0 });
    // One seek per session, however many messages it has.
    while let Some((InboxKey { session, .. }, id)) = db.ready_messages.first(txn, from..)? {
        oldest = Some(oldest.map_or(id, |oldest| oldest.min(id)));
        from = InboxKey { session: SessionId::new(session.number().saturating_add(1)), seq: 0 };
    }
    for row in db.messages_in_backoff.iter(txn)? {
        let (Timed { id, .. }, ()) = row?;
        oldest = Some(oldest.map_or(id, |oldest| oldest.min(id)));
    }
    let Some(id) = oldest else { return Ok(None) };
    let message = db.messages.require(txn, &id)?;
    Ok(Some(PendingStatus {
        message: id.to_string(),
        agent: lookup::folder(db, txn, message.agent)?,
        session: message.session.to_string(),
        since: message.stored.to_string(),
    }))
}

/// `possible` says whether agents can be confined here.
fn collect(db: &Tables, txn: &Read<'_>, possible: bool, report: &Report) -> Result<Status, state::Error> {
    Ok(Status {
        data: String::new(),
        timezone: String::new(),
        timezone_from: String::new(),
        daemon: None,
        daemon_problem: None,
        agents: agents(db, txn, possible)?,
        chats: db.chats.len(txn)?,
        sessions: db.sessions.len(txn)?,
        channels: Vec::new(),
        places: places::look(db, txn)?,
        incarnations: incarnations::look(db, txn)?,
        messages: MessageCounts {
            total: db.messages.len(txn)?,
            due: report.messages.due,
            claimed: report.messages.claimed,
            scheduled: report.messages.scheduled,
            backing_off: report.messages.backing_off,
            over_budget: db.budget_waits.len(txn)?,
            context: db.context_messages.len(txn)?,
        },
        outbound: outbound(db, txn, report.messages.unsent)?,
        dropped: db.dropped_events.len(txn)?,
        approvals: approvals(db, txn)?,
        oldest_pending: oldest_pending(db, txn)?,
        store: StoreStatus::default(),
        check: None,
        backup: None,
        held_off: Vec::new(),
        frozen: Vec::new(),
        failed_starts: Vec::new(),
        budgets: budgets::all(db, txn)?,
        tasks: tasks::counts(db, txn)?,
        warnings: Vec::new(),
    })
}

/// The default time zone of agents, and a text about its source.
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

fn agents(db: &Tables, txn: &Read<'_>, possible: bool) -> Result<Vec<AgentStatus>, state::Error> {
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

/// The reason, for programs, of a queue whose first message is being sent.
const ATTEMPTING: &str = "an attempt under way";
/// The reason, for programs, of a queue whose first message was not tried yet.
const NEXT: &str = "its turn";

fn outbound(db: &Tables, txn: &Read<'_>, undelivered: u64) -> Result<OutboundCounts, state::Error> {
    let mut waiting_for = BTreeMap::new();
    for row in db.queue_heads.iter(txn)? {
        let (Timed { id, .. }, ()) = row?;
        let outbound = db.outbound.require(txn, &id)?;
        let why = match (outbound.state, outbound.to) {
            (OutState::Attempting { .. }, _) => ATTEMPTING.to_owned(),
            (OutState::Waiting { after: Some(why), .. }, Some(to)) if why == NOT_RUNNING => {
                format!("channel {} is not running", to.channel)
            }
            (OutState::Waiting { after, .. }, _) => after.unwrap_or_else(|| NEXT.to_owned()),
            _ => continue,
        };
        *waiting_for.entry(why).or_insert(0) += 1;
    }
    Ok(OutboundCounts { total: db.outbound.len(txn)?, undelivered, waiting_for })
}

fn approvals(db: &Tables, txn: &Read<'_>) -> Result<ApprovalCounts, state::Error> {
    let mut counts = ApprovalCounts { held: db.held_messages.len(txn)?, ..ApprovalCounts::default() };
    for row in db.approvals_due.iter(txn)? {
        let (Timed { id, .. }, ()) = row?;
        counts.open += 1;
        counts.unsent += u64::from(matches!(db.approvals.require(txn, &id)?.state, ApprovalState::Unsent { .. }));
    }
    Ok(counts)
}
