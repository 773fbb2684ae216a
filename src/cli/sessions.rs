//! `hearth sessions`: conversations of agents and their incarnations. Reads the store beside the daemon.

mod prompt;

use clap::Subcommand;
use serde::Serialize;

use super::human_time;
use super::listed::{self, Column, Field, Listed};
use super::problems::RateLimitedAgent;
use super::{Done, Failure, change, configuration, entity, labels, lookup, print, problems, transcripts};
use crate::config::Paths;
use crate::model::configure::Change;
use crate::model::entity::{AgentSettings, ProviderKind, Verbosity};
use crate::model::id::SessionId;
use crate::model::incarnation::{Incarnation, StopReason};
use crate::model::session::{ChatSession, Route, Session, SessionChoice, SessionSettings, SessionStatus};
use crate::model::session_providers::StandIn;
use crate::model::workspace::WorkspaceKey;
use crate::state::{self, Read, Reader, SessionKey, Tables};

/// Maximum number of incarnations shown per session, newest first.
const INCARNATIONS_MAX: usize = 20;
/// Conversations of the same minute among which the most recent ones are looked for.
const TIES_MAX: usize = 1_000;

#[derive(Debug, Subcommand)]
pub(super) enum SessionsCommand {
    /// List the sessions, most recently active first
    List {
        /// Only of this agent
        agent: Option<String>,
        /// Show at most this many
        #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = listed::limit)]
        limit: usize,
    },
    /// Show the prompt that the agent would get now, from waiting messages and context
    Prompt {
        /// Its id, like se3
        session: SessionId,
    },
    /// Reset the provider's memory of the conversation; its records are kept
    Reset {
        /// Its id, like se3, or the folder of an agent for all of its sessions
        session: String,
    },
    /// Stop a session's agent now, and cancel its backoff; its messages are requeued
    Restart {
        /// Its id, like se3
        session: SessionId,
    },
    /// Change the provider, model, effort or verbosity of a session, from its next start on
    Set {
        /// Its id, like se3
        session: SessionId,
        /// `provider=echo`, `provider=command` or `provider=claude`; `provider=-` for its agent's own
        change: Option<String>,
        /// Its model; `default` for its agent's own
        #[arg(long)]
        model: Option<String>,
        /// Its reasoning effort; `default` for its agent's own
        #[arg(long)]
        effort: Option<String>,
        /// `verbose` also sends what the agent writes before it uses tools, `normal` does not; `default` for its agent's
        #[arg(long)]
        verbosity: Option<String>,
    },
    /// Show one session, its runs, and what the last one wrote to standard error
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
pub(super) struct SessionJson {
    session: String,
    agent: String,
    name: &'static str,
    /// Its scope: a chat, a thread of one, or everything that its agent receives.
    route: String,
    reply: Option<String>,
    status: &'static str,
    /// The live incarnation; null for none.
    live: Option<u32>,
    /// Smallest number that the agent may use for its next message.
    next_number: u64,
    provider: &'static str,
    /// Its model and effort; null for the provider's default.
    model: Option<String>,
    effort: Option<String>,
    /// How much of what the agent writes people get.
    verbosity: &'static str,
    /// Which of them were chosen for it; others are its agent's.
    chosen: SessionSettings,
    /// The fallback that drives it instead of that provider; null if none does.
    stand_in: Option<StandInJson>,
    /// Number of its current beginning, from 0. A reset begins a new one.
    epoch: u32,
    /// Number of messages that ever arrived.
    messages: u64,
    /// Number of consecutive failed starts.
    failed_starts: u32,
    created: String,
    active: String,
}

/// The answer of `hearth sessions show --json`.
#[derive(Debug, Serialize)]
pub(super) struct ShownJson {
    #[serde(flatten)]
    session: SessionJson,
    /// Messages that may go to the agent now, that it works on, and that wait as context.
    due: usize,
    claimed: usize,
    context: usize,
    /// Why its agent gets no work; null if it does.
    held_off: Option<RateLimitedAgent>,
    /// Newest first.
    incarnations: Vec<IncarnationJson>,
}

#[derive(Debug, Serialize)]
struct IncarnationJson {
    incarnation: u32,
    phase: String,
    /// The phase, and why it was asked to stop, for people.
    #[serde(skip)]
    words: [String; 2],
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
            change::edit(paths, Change::RestartSession(*session), json)
        }
        SessionsCommand::Set { session, change, model, effort, verbosity } => {
            drop(reader);
            let mut edits = Vec::new();
            if let Some(change) = change {
                edits.push(Change::SetSessionProvider(*session, provider(change)?));
            }
            let model = model.as_deref().map(|model| SessionChoice::named(SessionChoice::Model, model));
            let effort = effort.as_deref().map(|effort| SessionChoice::named(SessionChoice::Effort, effort));
            let verbosity = verbosity.as_deref().map(chosen_verbosity).transpose()?;
            let choices = model.into_iter().chain(effort).chain(verbosity);
            edits.extend(choices.map(|choice| Change::ChooseForSession(*session, choice)));
            if edits.is_empty() {
                let advice = "give provider=NAME, --model, --effort or --verbosity";
                return Err(Failure::Failed(format!("nothing to change: {advice}")));
            }
            change::edits(paths, edits, json)
        }
        SessionsCommand::List { agent, limit } => {
            let all = reader.read(|db, txn| list(db, txn, agent.as_deref(), *limit))?;
            if let (true, Some(agent)) = (all.is_empty(), agent) {
                entity::known_agent(&reader.read(configuration::collect)?, agent)?;
            }
            listed::list(&all, json, "no sessions")
        }
        SessionsCommand::Prompt { session } => prompt::prompt(paths, &reader, *session, json),
        SessionsCommand::Show { session } => {
            let shown = reader.read(|db, txn| show(db, txn, *session))?;
            let shown = shown.ok_or_else(|| entity::missing("session", &session.to_string()))?;
            if json { print::json(&shown) } else { print(&shown) }
        }
        SessionsCommand::Transcript { session } => transcripts::transcript(paths, &reader, *session, json),
        SessionsCommand::Memory { agent } => transcripts::memory(paths, agent, json),
        SessionsCommand::Du => transcripts::du(paths, &reader, json),
    }
}

/// The provider in `provider=NAME`; none is the agent's own.
fn provider(change: &str) -> Result<Option<ProviderKind>, Failure> {
    let provider = change.strip_prefix("provider=").filter(|value| !value.is_empty()).ok_or_else(|| {
        Failure::Failed(format!(
            "`{change}` is not a setting; write `provider=` with echo, command, claude, or - for the agent's provider"
        ))
    })?;
    (provider != "-").then(|| provider_kind(provider)).transpose()
}

fn provider_kind(text: &str) -> Result<ProviderKind, Failure> {
    ProviderKind::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
        let all = ProviderKind::ALL.map(ProviderKind::as_str).join(", ");
        Failure::Failed(format!("`{text}` is not a provider; use one of {all}"))
    })
}

fn chosen_verbosity(text: &str) -> Result<SessionChoice, Failure> {
    let known = [Verbosity::Normal, Verbosity::Verbose].into_iter().find(|known| known.as_str() == text);
    if known.is_none() && text != "default" {
        return Err(Failure::Failed(format!("`{text}` is no verbosity; write normal, verbose or default")));
    }
    Ok(SessionChoice::Verbosity(known))
}

/// The sessions to reset: one, or all of an agent that are not archived.
fn reset(reader: &Reader, which: &str) -> Result<Vec<Change>, Failure> {
    if let Ok(session) = which.parse() {
        return Ok(vec![Change::ResetSession(session)]);
    }
    entity::known_agent(&reader.read(configuration::collect)?, which)?;
    let all = reader.read(|db, txn| list(db, txn, Some(which), usize::MAX))?;
    let active = all.into_iter().filter(|session| session.status == "active");
    active.map(|session| Ok(Change::ResetSession(session.session.parse()?))).collect()
}

/// At most `limit` sessions of all agents or of one, most recently active first, as they are listed.
pub(super) fn list(
    db: &Tables,
    txn: &Read<'_>,
    agent: Option<&str>,
    limit: usize,
) -> Result<Vec<SessionJson>, state::Error> {
    let found = newest_of(db, txn, agent, limit)?;
    found.into_iter().map(|(id, session)| shape(db, txn, id, &session)).collect()
}

/// At most `limit` sessions of all agents or of one, most recently active first.
pub(super) fn newest_of(
    db: &Tables,
    txn: &Read<'_>,
    agent: Option<&str>,
    limit: usize,
) -> Result<Vec<(SessionId, ChatSession)>, state::Error> {
    let mut found = Vec::new();
    for row in db.workspaces_by_agent.iter(txn)? {
        let (id, workspace) = row?;
        if let Some(folder) = agent
            && lookup::folder(db, txn, id)? != folder
        {
            continue;
        }
        found.extend(newest(db, txn, workspace, limit)?);
    }
    found.sort_by_key(|(id, session)| (std::cmp::Reverse(session.active), *id));
    found.truncate(limit);
    Ok(found)
}

/// The `limit` most recently active conversations in a workspace, and up to [`TIES_MAX`] others of the same minute: the
/// index knows minutes. The workspace may also have sessions that are no conversations.
fn newest(
    db: &Tables,
    txn: &Read<'_>,
    workspace: WorkspaceKey,
    limit: usize,
) -> Result<Vec<(SessionId, ChatSession)>, state::Error> {
    let mut taken = limit.saturating_add(1);
    loop {
        let last = db.sessions_by_update.collect_last(txn, &workspace, taken)?;
        let (mut found, mut minute) = (Vec::new(), None);
        for (key, ()) in &last {
            if found.len() >= limit && minute != Some(key.recency) {
                return Ok(found);
            }
            minute = Some(key.recency);
            if let Session::Chat(session) = db.sessions.require(txn, &SessionKey { workspace, session: key.session })? {
                found.push((key.session, session));
            }
        }
        if last.len() < taken || found.len() >= limit.saturating_add(TIES_MAX) {
            return Ok(found);
        }
        taken = taken.saturating_mul(2);
    }
}

fn shape(db: &Tables, txn: &Read<'_>, id: SessionId, session: &ChatSession) -> Result<SessionJson, state::Error> {
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
    let settings = db.agents.get(txn, &session.agent)?.map(|agent| agent.settings);
    let chosen = db.session_settings.get(txn, &id)?.unwrap_or_default();
    let own = settings.unwrap_or_else(|| AgentSettings::named(String::new()));
    let stand_in = db.session_providers.get(txn, &id)?.and_then(|providers| providers.stand_in);
    Ok(SessionJson {
        session: id.to_string(),
        agent: lookup::folder(db, txn, session.agent)?,
        name: session.name.as_str(),
        route,
        reply: session.reply.as_ref().map(lookup::place),
        status: match session.status {
            SessionStatus::Active => "active",
            SessionStatus::Archived => "archived",
        },
        live: session.live,
        next_number: session.next_agent_number(),
        provider: session.provider.unwrap_or(own.provider).as_str(),
        model: chosen.model.clone().or(own.model),
        effort: chosen.effort.clone().or(own.effort),
        verbosity: chosen.verbosity.unwrap_or(own.verbosity).as_str(),
        chosen,
        stand_in: stand_in.map(|StandIn { fallback, since, why }| StandInJson {
            provider: fallback.provider.as_str(),
            model: fallback.model,
            since: since.to_string(),
            why,
        }),
        epoch: session.epoch,
        messages: session.messages,
        failed_starts: session.failed_starts,
        created: session.created.to_string(),
        active: session.active.to_string(),
    })
}

/// One session with its runs.
pub(super) fn show(db: &Tables, txn: &Read<'_>, id: SessionId) -> Result<Option<ShownJson>, state::Error> {
    let Some(session) = lookup::session(db, txn, id)? else { return Ok(None) };
    let rows = db.incarnations.collect_last(txn, &id, INCARNATIONS_MAX)?;
    let shape = shape(db, txn, id, &session)?;
    Ok(Some(ShownJson {
        held_off: problems::waiting_agents(db, txn)?.into_iter().find(|one| one.agent == shape.agent),
        session: shape,
        due: db.ready_messages.prefix(txn, &id)?.count(),
        claimed: db.claimed_messages.prefix(txn, &id)?.count(),
        context: db.context_messages.prefix(txn, &id)?.count(),
        incarnations: rows.into_iter().map(|(id, row)| incarnation(id.number, row)).collect(),
    }))
}

fn incarnation(number: u32, row: Incarnation) -> IncarnationJson {
    IncarnationJson {
        incarnation: number,
        phase: labels::phase(&row.phase),
        words: [labels::phase_in_words(&row.phase), row.stopped_for.map_or("", StopReason::explanation).to_owned()],
        started: row.started.to_string(),
        stopped_for: row.stopped_for.map(StopReason::as_str),
        claimed: row.claimed,
        tool: row.tool.map(|tool| tool.name),
        stderr: row.stderr_tail,
    }
}

/// A fallback that drives a session.
#[derive(Debug, Serialize)]
struct StandInJson {
    provider: &'static str,
    model: Option<String>,
    since: String,
    /// Why the provider before it takes no work.
    why: String,
}

impl StandInJson {
    fn words(&self) -> String {
        let model = self.model.as_ref().map_or_else(String::new, |model| format!(" with the model {model}"));
        format!("{}{model} since {}: {}", self.provider, human_time::local(&self.since), labels::cause(&self.why))
    }
}

fn setting(name: &str, is_chosen: bool) -> String {
    if is_chosen { format!("{name} (chosen for this session)") } else { name.to_owned() }
}

impl Listed for SessionJson {
    const PLURAL: &'static str = "sessions";
    const COLUMNS: &'static [Column<Self>] = &[
        ("SESSION", |one| one.session.clone()),
        ("AGENT", |one| one.agent.clone()),
        ("CHAT", |one| one.route.clone()),
        ("STATUS", |one| one.status.to_owned()),
        ("RUN", |one| one.live.map(|number| number.to_string()).unwrap_or_default()),
        ("LAST MESSAGE", |one| human_time::age(&one.active)),
    ];

    fn fields(&self) -> Vec<Field> {
        vec![
            ("session", Some(self.session.clone())),
            ("agent", Some(self.agent.clone())),
            ("name", Some(self.name.to_owned())),
            ("chat", Some(self.route.clone())),
            ("answers go to", Some(self.reply.clone().unwrap_or_else(|| "no chat".to_owned()))),
            ("status", Some(self.status.to_owned())),
            ("current run", Some(self.live.map_or_else(|| "none".to_owned(), |number| number.to_string()))),
            ("provider", Some(self.provider.to_owned())),
            ("fallback", self.stand_in.as_ref().map(StandInJson::words)),
            ("model", self.model.as_ref().map(|model| setting(model, self.chosen.model.is_some()))),
            ("effort", self.effort.as_ref().map(|effort| setting(effort, self.chosen.effort.is_some()))),
            ("verbosity", Some(setting(self.verbosity, self.chosen.verbosity.is_some()))),
            ("resets", Some(self.epoch.to_string())),
            ("next number", Some(self.next_number.to_string())),
            ("created", Some(human_time::local_with_age(&self.created))),
            ("last message", Some(human_time::local_with_age(&self.active))),
            ("failed starts", (self.failed_starts > 0).then(|| format!("{} in a row", self.failed_starts))),
        ]
    }
}

impl Listed for IncarnationJson {
    const PLURAL: &'static str = "runs";
    const COLUMNS: &'static [Column<Self>] = &[
        ("RUN", |one| one.incarnation.to_string()),
        ("STARTED", |one| human_time::local(&one.started)),
        ("PHASE", |one| one.words[0].clone()),
        ("STOP REASON", |one| one.words[1].clone()),
    ];
}

/// Prints one session.
pub(super) fn print(shown: &ShownJson) -> Done {
    let mut fields = shown.session.fields();
    let ShownJson { due, claimed, context, .. } = shown;
    let total = shown.session.messages;
    fields
        .push(("messages", Some(format!("{due} queued, {claimed} in progress, {context} context, {total} in total"))));
    fields.push(("waits because", shown.held_off.as_ref().map(|limit| limit.words())));
    listed::print(&fields)?;
    if shown.incarnations.is_empty() {
        return Ok(());
    }
    print::line("")?;
    listed::table(&shown.incarnations)?;
    let tail = shown.incarnations.iter().find(|one| !one.stderr.trim().is_empty());
    if let Some(one) = tail {
        print::line(&format!("\nstandard error of run {}:", one.incarnation))?;
        let plain = |line: &str| line.chars().filter(|c| !c.is_control() || *c == '\t').collect::<String>();
        one.stderr.lines().try_for_each(|line| print::line(&format!("  {}", plain(line))))?;
    }
    Ok(())
}
