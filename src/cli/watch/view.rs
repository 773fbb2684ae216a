//! What there is to see, read anew each second: a few rows of indexes, however much the store holds.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cli::{Failure, approvals, channels, questions, rows, status, trouble, words};
use crate::config::Paths;
use crate::model::delivery::OutState;
use crate::model::id::SessionId;
use crate::socket::protocol::DaemonStatus;
use crate::state::{self, Admission, Read, Reader, Tables};

/// Most rows of anything that is shown.
const ROWS_MAX: usize = 200;
/// Most lanes that are looked at.
const LANES_MAX: usize = 1_000;

/// Everything on the screen; one line of `hearth status --watch --json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct View {
    /// The daemon; null while none runs.
    pub(super) daemon: Option<DaemonView>,
    /// Why the store or the daemon could not be asked; null if they could.
    pub(super) trouble: Option<String>,
    pub(super) messages: Messages,
    /// Sessions with an incarnation, and those whose messages wait for one.
    pub(super) sessions: Vec<SessionView>,
    /// Messages on their way out, by channel.
    pub(super) lanes: Vec<LaneView>,
    /// Approvals and questions, the oldest first.
    pub(super) asked: Vec<AskedView>,
    /// Tasks that come next, then those that rest.
    pub(super) tasks: Vec<TaskView>,
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct DaemonView {
    pub(super) pid: u32,
    pub(super) version: String,
    pub(super) runtime: String,
    pub(super) draining: bool,
    pub(super) queued: usize,
    pub(super) terminals: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Messages {
    pub(super) due: u64,
    pub(super) claimed: u64,
    pub(super) backing_off: u64,
    pub(super) scheduled: u64,
    pub(super) undelivered: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct SessionView {
    pub(super) session: String,
    pub(super) agent: String,
    /// The incarnation that lives; null for none.
    pub(super) incarnation: Option<u32>,
    /// `starting`, `running`, … or `waiting`.
    pub(super) phase: String,
    /// When the incarnation was started.
    pub(super) started: Option<String>,
    pub(super) tool: Option<String>,
    /// Messages that wait and that are worked on, 200 at most.
    pub(super) due: usize,
    pub(super) claimed: usize,
    /// Starts in a row that failed.
    pub(super) failed_starts: u32,
    /// Until when its agent's provider wants no work.
    pub(super) held_off: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct LaneView {
    pub(super) channel: String,
    /// Lanes whose first message is on its way, and those whose first message waits.
    pub(super) under_way: usize,
    pub(super) waiting: usize,
    /// Why one of them waits.
    pub(super) why: Option<String>,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Approval,
    Question,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct AskedView {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) about: String,
    /// Labels and values that can be chosen; none of an approval.
    pub(super) options: Vec<(String, String)>,
    pub(super) expires: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct TaskView {
    pub(super) task: String,
    pub(super) agent: String,
    pub(super) paused: bool,
    pub(super) running: bool,
    pub(super) next: Option<String>,
    pub(super) prompt: String,
}

/// Looks; what cannot be read is said in the view.
pub(super) fn look(paths: &Paths) -> View {
    let (daemon, told) = match status::ask(paths) {
        Ok(daemon) => (daemon, None),
        Err(error) => (None, Some(error.to_string())),
    };
    let mut view = read(paths, daemon.as_ref()).unwrap_or_else(|failure| View {
        trouble: Some(match failure {
            Failure::Failed(what) | Failure::Changed(what) | Failure::Store(_, what) => what,
            Failure::Told | Failure::Exit(_) => "the store cannot be read".to_owned(),
        }),
        ..View::default()
    });
    view.trouble = told.or(view.trouble);
    view.daemon = daemon.map(|daemon| DaemonView {
        pid: daemon.pid,
        version: daemon.version,
        runtime: daemon.runtime,
        draining: daemon.draining,
        queued: daemon.queued,
        terminals: daemon.terminals,
    });
    view
}

fn read(paths: &Paths, daemon: Option<&DaemonStatus>) -> Result<View, Failure> {
    let reader = Reader::open(paths.data())?;
    let mut view = reader.read(collect)?;
    if let Admission::Refuse(why) = reader.usage(paths.data())?.admission() {
        view.warnings.push(format!("no new work is taken in: {why}"));
    }
    if daemon.is_some() {
        let networks = reader.read(|db, txn| db.channels.iter(txn)?.collect::<Result<Vec<_>, state::Error>>())?;
        let down = networks.iter().filter_map(|(_, channel)| channels::trouble(channel, daemon));
        view.warnings.extend(down.map(|(what, _)| format!("channel {what}")));
    }
    Ok(view)
}

fn collect(db: &Tables, txn: &Read<'_>) -> Result<View, state::Error> {
    let held_off = trouble::held_off(db, txn)?;
    let mut warnings: Vec<String> = held_off.iter().map(trouble::HeldOff::words).collect();
    warnings.extend(trouble::failed_starts(db, txn)?.iter().map(trouble::FailedStarts::words));
    warnings.extend(trouble::state_files(db, txn)?.into_iter().map(|one| one.found));
    let held_off = held_off.into_iter().map(|one| (one.agent, one.again)).collect();
    Ok(View {
        daemon: None,
        trouble: None,
        messages: Messages {
            due: db.ready.len(txn)?,
            claimed: db.claims.len(txn)?,
            backing_off: db.retries.len(txn)?,
            scheduled: db.later.len(txn)?,
            undelivered: db.lanes.len(txn)?.saturating_add(db.outbound_later.len(txn)?),
        },
        sessions: sessions(db, txn, &held_off)?,
        lanes: lanes(db, txn)?,
        asked: asked(db, txn)?,
        tasks: tasks(db, txn)?,
        warnings,
    })
}

fn sessions(
    db: &Tables,
    txn: &Read<'_>,
    held_off: &BTreeMap<String, String>,
) -> Result<Vec<SessionView>, state::Error> {
    let mut ids: Vec<SessionId> = Vec::new();
    for (session, _) in db.live.collect_range(txn, .., ROWS_MAX)? {
        ids.push(session);
    }
    // One seek per session, however many messages it has.
    let mut from = (SessionId::new(0), 0);
    while let Some(((id, _), _)) = db.ready.first(txn, from..)?
        && ids.len() < ROWS_MAX
    {
        ids.push(id);
        from = (SessionId::new(id.number().saturating_add(1)), 0);
    }
    ids.sort_unstable();
    ids.dedup();
    let mut found = Vec::new();
    for id in ids {
        let Some(session) = rows::session(db, txn, id)? else { continue };
        let agent = rows::folder(db, txn, session.agent)?;
        let incarnation = match session.live {
            Some(number) => db.incarnations.get(txn, &(id, number))?,
            None => None,
        };
        found.push(SessionView {
            session: id.to_string(),
            incarnation: session.live,
            phase: incarnation.as_ref().map_or_else(|| "waiting".to_owned(), |one| words::phase(&one.phase)),
            started: incarnation.as_ref().map(|one| one.started.to_string()),
            tool: incarnation.and_then(|one| one.tool).map(|tool| words::excerpt(&tool.name)),
            due: db.ready.collect_prefix(txn, &id, ROWS_MAX)?.len(),
            claimed: db.claims.collect_prefix(txn, &id, ROWS_MAX)?.len(),
            failed_starts: session.failed_starts,
            held_off: held_off.get(&agent).cloned(),
            agent,
        });
    }
    Ok(found)
}

fn lanes(db: &Tables, txn: &Read<'_>) -> Result<Vec<LaneView>, state::Error> {
    let mut found: BTreeMap<String, LaneView> = BTreeMap::new();
    for ((_, id), ()) in db.lane_heads.collect_range(txn, .., LANES_MAX)? {
        let row = db.outbound.require(txn, &id)?;
        let channel = row.to.map_or_else(String::new, |to| to.channel.to_string());
        let lane =
            found.entry(channel.clone()).or_insert_with(|| LaneView { channel, under_way: 0, waiting: 0, why: None });
        match row.state {
            OutState::Attempting { .. } => lane.under_way += 1,
            OutState::Waiting { after, .. } => {
                lane.waiting += 1;
                lane.why = lane.why.take().or(after.map(|why| words::excerpt(&why)));
            }
            _ => {}
        }
    }
    Ok(found.into_values().collect())
}

fn asked(db: &Tables, txn: &Read<'_>) -> Result<Vec<AskedView>, state::Error> {
    let open = approvals::open(db, txn, ROWS_MAX)?.into_iter().map(|one| AskedView {
        id: one.id.to_string(),
        kind: Kind::Approval,
        about: words::excerpt(&one.about),
        options: Vec::new(),
        expires: one.expires.to_string(),
    });
    let questions = questions::open(db, txn, ROWS_MAX)?.into_iter().map(|(id, row)| AskedView {
        id: id.to_string(),
        kind: Kind::Question,
        about: words::excerpt(&format!("{}: {}", row.title, row.body)),
        options: row.options.into_iter().map(|option| (words::excerpt(&option.label), option.value)).collect(),
        expires: row.expires.to_string(),
    });
    Ok(open.chain(questions).collect())
}

fn tasks(db: &Tables, txn: &Read<'_>) -> Result<Vec<TaskView>, state::Error> {
    let mut ids = Vec::new();
    for ((_, id), ()) in db.tasks_due.collect_range(txn, .., ROWS_MAX)? {
        ids.push(id);
    }
    let open = db.tasks_by_agent.collect_range(txn, .., ROWS_MAX)?;
    let others: Vec<_> = open.into_iter().map(|((_, id), ())| id).filter(|id| !ids.contains(id)).collect();
    let mut found = Vec::new();
    for id in ids.into_iter().chain(others) {
        let task = db.tasks.require(txn, &id)?;
        found.push(TaskView {
            task: id.to_string(),
            agent: rows::folder(db, txn, task.agent)?,
            paused: task.state == crate::model::task::TaskState::Paused,
            running: task.running.is_some(),
            next: task.next.map(|next| next.to_string()),
            prompt: words::excerpt(&task.prompt),
        });
    }
    Ok(found)
}
