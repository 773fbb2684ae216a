//! `hearth sessions`: conversations of agents and the incarnations that led them. Reads the store beside the daemon.

mod prompt;

use std::collections::BTreeMap;

use clap::Subcommand;
use serde::Serialize;

use super::trouble::HeldOff;
use super::{Done, Failure, change, configuration, entity, out, rows, transcripts, trouble, words};
use crate::config::Paths;
use crate::model::entity::ProviderKind;
use crate::model::id::{AgentId, SessionId};
use crate::model::incarnation::Incarnation;
use crate::model::session::{ChatSession, Route, Session, SessionStatus};
use crate::socket::change::EditJson;
use crate::state::{self, Read, Reader, Tables};

/// Incarnations that are shown of a session, the newest ones.
const INCARNATIONS_MAX: usize = 20;

#[derive(Debug, Subcommand)]
pub(super) enum SessionsCommand {
    /// List the sessions, most recently active first
    List {
        /// Only of this agent
        agent: Option<String>,
        /// Show at most this many
        #[arg(long, value_name = "NUMBER", default_value_t = 50)]
        limit: usize,
    },
    /// Show the prompt that the agent would get now, from waiting messages and context
    Prompt {
        /// Its id, like se3
        session: SessionId,
    },
    /// Start the conversation over; its records are kept, the provider forgets it
    Reset {
        /// Its id, like se3, or the folder of an agent for all of its sessions
        session: String,
    },
    /// Stop a session's agent now, and end any wait after failed starts; its messages are tried again
    Restart {
        /// Its id, like se3
        session: SessionId,
    },
    /// Change the provider of a session, from its next start on
    Set {
        /// Its id, like se3
        session: SessionId,
        /// `provider=echo`, `provider=command` or `provider=claude`; `provider=-` for its agent's own
        change: String,
    },
    /// Show one session, its incarnations, and what the last one wrote to standard error
    Show {
        /// Its id, like se3
        session: SessionId,
    },
    /// Show the provider's own transcript of a session; `--json` prints its lines unchanged
    Transcript {
        /// Its id, like se3
        session: SessionId,
    },
    /// Show what an agent remembers: its notes and its provider's memory
    Memory {
        /// Its folder
        agent: String,
    },
    /// Show how much disk space agents and sessions use
    Du,
}

/// One session of `hearth sessions list --json`.
#[derive(Debug, Serialize)]
struct SessionJson {
    session: String,
    agent: String,
    name: &'static str,
    /// What it is for: a chat, a thread of one, or everything its agent hears.
    route: String,
    reply: Option<String>,
    status: &'static str,
    /// The incarnation that lives; null for none.
    live: Option<u32>,
    /// Smallest number that the agent may use for what it says next.
    next_number: u64,
    /// What drives it.
    provider: &'static str,
    /// Which beginning of it this is, from 0.
    epoch: u32,
    /// Messages that ever arrived.
    messages: u64,
    /// Starts in a row that failed.
    failed_starts: u32,
    created: String,
    active: String,
}

/// The answer of `hearth sessions show --json`.
#[derive(Debug, Serialize)]
struct ShownJson {
    #[serde(flatten)]
    session: SessionJson,
    /// Messages that may go to the agent now, that it works on, and that wait as context.
    due: usize,
    claimed: usize,
    context: usize,
    /// Why its agent gets no work; null while it does.
    held_off: Option<HeldOff>,
    /// Newest first.
    incarnations: Vec<IncarnationJson>,
}

#[derive(Debug, Serialize)]
struct IncarnationJson {
    incarnation: u32,
    phase: String,
    started: String,
    /// Why it was asked to stop; null if it was not.
    stopped_for: Option<&'static str>,
    /// Whether it ever worked on a message.
    claimed: bool,
    tool: Option<String>,
    /// The end of what it wrote to standard error.
    stderr: String,
}

/// Lists or shows sessions.
pub(super) fn sessions(paths: &Paths, command: &SessionsCommand, json: bool) -> Done {
    let reader = Reader::open(paths.data())?;
    match command {
        SessionsCommand::Reset { session } => {
            let edits = reset(&reader, session)?;
            drop(reader);
            change::edits(paths, edits, json)
        }
        SessionsCommand::Restart { session } => {
            drop(reader);
            change::edit(paths, EditJson::RestartSession { session: session.to_string() }, json)
        }
        SessionsCommand::Set { session, change } => {
            drop(reader);
            let provider = change.strip_prefix("provider=").map(str::to_owned).filter(|value| !value.is_empty());
            let provider = provider.ok_or_else(|| {
                Failure::Failed(format!(
                    "`{change}` sets nothing; a session has `provider=echo`, `command` or `claude`, and `provider=-`"
                ))
            })?;
            let provider = (provider != "-").then_some(provider);
            let edit = EditJson::SetSessionProvider { session: session.to_string(), provider };
            change::edit(paths, edit, json)
        }
        SessionsCommand::List { agent, limit } => {
            let mut all = reader.read(|db, txn| list(db, txn, agent.as_deref()))?;
            if let (true, Some(agent)) = (all.is_empty(), agent) {
                entity::known_agent(&reader.read(configuration::collect)?, agent)?;
            }
            all.truncate(*limit);
            if json {
                return out::json(&serde_json::json!({ "sessions": all }));
            }
            print_list(&all)
        }
        SessionsCommand::Prompt { session } => prompt::prompt(paths, &reader, *session, json),
        SessionsCommand::Show { session } => {
            let shown = reader.read(|db, txn| show(db, txn, *session))?;
            let shown = shown.ok_or_else(|| entity::missing("session", &session.to_string()))?;
            if json { out::json(&shown) } else { print(&shown) }
        }
        SessionsCommand::Transcript { session } => transcripts::transcript(paths, &reader, *session, json),
        SessionsCommand::Memory { agent } => transcripts::memory(paths, agent, json),
        SessionsCommand::Du => transcripts::du(paths, &reader, json),
    }
}

/// The sessions that are meant: one, or all of an agent that are not archived.
fn reset(reader: &Reader, which: &str) -> Result<Vec<EditJson>, Failure> {
    let edit = |session: String| EditJson::ResetSession { session };
    if which.parse::<SessionId>().is_ok() {
        return Ok(vec![edit(which.to_owned())]);
    }
    entity::known_agent(&reader.read(configuration::collect)?, which)?;
    let all = reader.read(|db, txn| list(db, txn, Some(which)))?;
    let active = all.into_iter().filter(|session| session.status == "active");
    Ok(active.map(|session| edit(session.session)).collect())
}

fn list(db: &Tables, txn: &Read<'_>, agent: Option<&str>) -> Result<Vec<SessionJson>, state::Error> {
    let mut all = Vec::new();
    let mut meant: BTreeMap<AgentId, bool> = BTreeMap::new();
    for row in db.sessions.iter(txn)? {
        let ((_, _, id), Session::Chat(session)) = row? else { continue };
        let wanted = match (agent, meant.get(&session.agent)) {
            (None, _) => true,
            (Some(_), Some(wanted)) => *wanted,
            (Some(folder), None) => {
                let wanted = rows::folder(db, txn, session.agent)? == folder;
                meant.insert(session.agent, wanted);
                wanted
            }
        };
        if wanted {
            all.push((session.active, shape(db, txn, (id, &session))?));
        }
    }
    all.sort_by_key(|(active, _)| std::cmp::Reverse(*active));
    Ok(all.into_iter().map(|(_, shape)| shape).collect())
}

fn shape(db: &Tables, txn: &Read<'_>, (id, session): (SessionId, &ChatSession)) -> Result<SessionJson, state::Error> {
    let chat = |id| {
        let chat = db.chats.get(txn, &id)?;
        Ok::<_, state::Error>(chat.map_or_else(|| id.to_string(), |c| format!("{}/{}", c.channel, c.platform_id)))
    };
    let route = match &session.route {
        Route::Shared(id) => chat(*id)?,
        Route::PerThread(id, Some(thread)) => format!("{} (thread {thread})", chat(*id)?),
        Route::PerThread(id, None) => format!("{} (outside of threads)", chat(*id)?),
        Route::AgentShared => "everything".to_owned(),
    };
    Ok(SessionJson {
        session: id.to_string(),
        agent: rows::folder(db, txn, session.agent)?,
        name: session.name.as_str(),
        route,
        reply: session.reply.as_ref().map(rows::place),
        status: match session.status {
            SessionStatus::Active => "active",
            SessionStatus::Archived => "archived",
        },
        live: session.live,
        next_number: session.next_agent_number(),
        provider: provider(db, txn, session)?.as_str(),
        epoch: session.epoch,
        messages: session.messages,
        failed_starts: session.failed_starts,
        created: session.created.to_string(),
        active: session.active.to_string(),
    })
}

fn provider(db: &Tables, txn: &Read<'_>, session: &ChatSession) -> Result<ProviderKind, state::Error> {
    match session.provider {
        Some(provider) => Ok(provider),
        None => Ok(db.agents.get(txn, &session.agent)?.map_or(ProviderKind::Echo, |agent| agent.settings.provider)),
    }
}

fn show(db: &Tables, txn: &Read<'_>, id: SessionId) -> Result<Option<ShownJson>, state::Error> {
    let Some(session) = rows::session(db, txn, id)? else { return Ok(None) };
    let rows = db.incarnations.collect_last(txn, &id, INCARNATIONS_MAX)?;
    let shape = shape(db, txn, (id, &session))?;
    Ok(Some(ShownJson {
        held_off: trouble::held_off(db, txn)?.into_iter().find(|one| one.agent == shape.agent),
        session: shape,
        due: db.ready.prefix(txn, &id)?.count(),
        claimed: db.claims.prefix(txn, &id)?.count(),
        context: db.context.prefix(txn, &id)?.count(),
        incarnations: rows.into_iter().map(|((_, number), row)| incarnation(number, row)).collect(),
    }))
}

fn incarnation(number: u32, row: Incarnation) -> IncarnationJson {
    IncarnationJson {
        incarnation: number,
        phase: words::phase(&row.phase),
        started: row.started.to_string(),
        stopped_for: row.stopped_for.map(crate::model::incarnation::StopReason::as_str),
        claimed: row.claimed,
        tool: row.tool.map(|tool| tool.name),
        stderr: row.stderr_tail,
    }
}

fn print_list(all: &[SessionJson]) -> Done {
    if all.is_empty() {
        return out::line("no sessions");
    }
    let row = |one: &SessionJson| {
        let live = one.live.map_or_else(String::new, |number| number.to_string());
        vec![one.session.clone(), one.agent.clone(), one.route.clone(), one.status.to_owned(), live, one.active.clone()]
    };
    out::table(&["SESSION", "AGENT", "FOR", "STATUS", "LIVE", "ACTIVE"], all.iter().map(row).collect())
}

fn print(shown: &ShownJson) -> Done {
    let SessionJson { session, agent, name, route, reply, status, live, next_number, created, active, .. } =
        &shown.session;
    let SessionJson { provider, epoch, messages, failed_starts, .. } = &shown.session;
    let live = live.map_or_else(|| "none".to_owned(), |number| format!("incarnation {number}"));
    for (key, value) in [
        ("session", session.clone()),
        ("agent", agent.clone()),
        ("name", (*name).to_owned()),
        ("for", route.clone()),
        ("answers to", reply.clone().unwrap_or_else(|| "nowhere by itself".to_owned())),
        ("status", (*status).to_owned()),
        ("live", live),
        ("next number", next_number.to_string()),
        ("created", created.clone()),
        ("active", active.clone()),
        ("driven by", (*provider).to_owned()),
        ("epoch", epoch.to_string()),
        (
            "messages",
            format!("{} due, {} claimed, {} context, {messages} ever", shown.due, shown.claimed, shown.context),
        ),
    ] {
        out::line(&format!("{key:12} {value}"))?;
    }
    if *failed_starts > 0 {
        out::line(&format!("{:12} {failed_starts} in a row", "failed starts"))?;
    }
    if let Some(held_off) = &shown.held_off {
        out::line(&format!("{:12} {}", "held off", held_off.words()))?;
    }
    if shown.incarnations.is_empty() {
        return Ok(());
    }
    out::line("")?;
    let row = |one: &IncarnationJson| {
        let stopped = one.stopped_for.unwrap_or_default().to_owned();
        vec![one.incarnation.to_string(), one.started.clone(), one.phase.clone(), stopped]
    };
    let rows = shown.incarnations.iter().map(row).collect();
    out::table(&["INCARNATION", "STARTED", "PHASE", "STOPPED FOR"], rows)?;
    let tail = shown.incarnations.iter().find(|one| !one.stderr.trim().is_empty());
    if let Some(one) = tail {
        out::line(&format!("\nstandard error of incarnation {}:", one.incarnation))?;
        let plain = |line: &str| line.chars().filter(|c| !c.is_control() || *c == '\t').collect::<String>();
        one.stderr.lines().try_for_each(|line| out::line(&format!("  {}", plain(line))))?;
    }
    Ok(())
}
