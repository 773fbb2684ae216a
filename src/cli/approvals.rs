//! `hearth approvals`: what somebody has to decide, and what was decided. Reads the store beside the daemon.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::{Done, Failure, configuration, decide, entity, out, rows, words};
use crate::config::Paths;
use crate::model::approval::{Approval, ApprovalState, Decider, Matters};
use crate::model::card::Matter;
use crate::model::id::{AgentId, ApprovalId, ChatId, SessionId};
use crate::model::time::Timestamp;
use crate::state::{self, Read, Reader, Tables};

/// Messages that wait for one approval and are shown.
const HELD_MAX: usize = 200;

#[derive(Debug, Subcommand)]
pub(super) enum ApprovalsCommand {
    /// List open approvals, oldest first
    List {
        /// Also those already decided, newest first
        #[arg(long)]
        all: bool,
        /// Show at most this many
        #[arg(long, value_name = "NUMBER", default_value_t = 50)]
        limit: usize,
    },
    /// Show one approval, its choices and the messages that wait for it
    Show {
        /// Its id, like ap3
        approval: ApprovalId,
    },
    /// Say yes
    Approve(ApproveArgs),
    /// Say no
    Reject {
        /// Its id, like ap3
        approval: ApprovalId,
    },
}

#[derive(Debug, Args)]
pub(super) struct ApproveArgs {
    /// Its id, like ap3
    approval: ApprovalId,
    /// For a new chat: the agent that will listen there; needed when there are several
    #[arg(long, value_name = "FOLDER", conflicts_with = "new")]
    agent: Option<String>,
    /// For a new chat: create an agent of this name, which will listen there
    #[arg(long, value_name = "NAME")]
    new: Option<String>,
}

/// One approval of `hearth approvals list --json`.
#[derive(Debug, Serialize)]
struct ApprovalJson {
    approval: String,
    /// `unsent`, `pending`, `naming`, `approved`, `rejected`, `expired` or `superseded`.
    state: &'static str,
    /// `sender`, `channel`, `packages`, `mcp_server` or `create_agent`.
    kind: &'static str,
    /// What is asked, in words.
    about: String,
    /// Chat it is about; null for requests of agents.
    chat: Option<String>,
    /// Person it is about; null if nobody is known.
    sender: Option<String>,
    /// Agents it is about.
    agents: Vec<String>,
    /// Who was asked last; null while nobody could be.
    approver: Option<String>,
    /// Messages that wait for it.
    held: usize,
    /// What more there is to know of the state: why nobody has seen it, who decided, why not.
    words: Option<String>,
    created: String,
    expires: String,
}

/// The answer of `hearth approvals show --json`.
#[derive(Debug, Serialize)]
struct ShownJson {
    #[serde(flatten)]
    approval: ApprovalJson,
    /// What can be chosen.
    options: Vec<OptionJson>,
    /// What waits, oldest first.
    messages: Vec<HeldJson>,
}

#[derive(Debug, Serialize)]
struct OptionJson {
    label: String,
    value: String,
}

#[derive(Debug, Serialize)]
struct HeldJson {
    platform_message: Option<String>,
    said: String,
    stored: String,
    text: String,
}

/// Lists, shows and decides approvals.
pub(super) fn approvals(paths: &Paths, command: &ApprovalsCommand, json: bool) -> Done {
    match command {
        ApprovalsCommand::List { all, limit } => {
            let found = Reader::open(paths.data())?.read(|db, txn| list(db, txn, (*all, *limit)))?;
            if json {
                return out::json(&serde_json::json!({ "approvals": found }));
            }
            print_list(&found, *all)
        }
        ApprovalsCommand::Show { approval } => {
            let shown = Reader::open(paths.data())?.read(|db, txn| show(db, txn, *approval))?;
            let shown = shown.ok_or_else(|| entity::missing("approval", &approval.to_string()))?;
            if json { out::json(&shown) } else { print(&shown) }
        }
        ApprovalsCommand::Approve(args) => {
            let value = match (&args.agent, &args.new) {
                (Some(folder), _) => format!("connect:{}", agent(paths, folder)?),
                (None, Some(name)) => format!("new_agent:{name}"),
                (None, None) => "approve".to_owned(),
            };
            decide::decide(paths, Matter::Approval(args.approval), &value, json)
        }
        ApprovalsCommand::Reject { approval } => decide::decide(paths, Matter::Approval(*approval), "reject", json),
    }
}

fn agent(paths: &Paths, folder: &str) -> Result<AgentId, Failure> {
    let known = configuration::read(paths)?;
    let found = known.agents.iter().find(|agent| agent.folder.as_str() == folder);
    found.map(|agent| agent.id).ok_or_else(|| entity::missing("agent", folder))
}

/// An approval that is open, for the view of everything.
pub(super) struct Open {
    pub(super) id: ApprovalId,
    pub(super) about: String,
    pub(super) expires: Timestamp,
}

/// The open ones, the oldest first.
pub(super) fn open(db: &Tables, txn: &Read<'_>, limit: usize) -> Result<Vec<Open>, state::Error> {
    let mut found = Vec::new();
    for id in open_ids(db, txn, limit)? {
        let approval = db.approvals.require(txn, &id)?;
        found.push(Open { id, about: about(db, txn, &approval.about)?.1, expires: approval.expires });
    }
    Ok(found)
}

fn open_ids(db: &Tables, txn: &Read<'_>, limit: usize) -> Result<Vec<ApprovalId>, state::Error> {
    let mut open = Vec::new();
    for row in db.approvals_due.iter(txn)? {
        open.push(row?.0.1);
    }
    open.sort_unstable();
    open.truncate(limit);
    Ok(open)
}

fn list(db: &Tables, txn: &Read<'_>, (all, limit): (bool, usize)) -> Result<Vec<ApprovalJson>, state::Error> {
    let mut found = Vec::new();
    if all {
        let newest = db.approvals.last(txn, ..)?.map_or(0, |(id, _)| id.number());
        for number in (1..=newest).rev().take(limit) {
            let id = ApprovalId::new(number);
            if let Some(approval) = db.approvals.get(txn, &id)? {
                found.push(shape(db, txn, (id, &approval))?);
            }
        }
        return Ok(found);
    }
    for id in open_ids(db, txn, limit)? {
        found.push(shape(db, txn, (id, &db.approvals.require(txn, &id)?))?);
    }
    Ok(found)
}

fn show(db: &Tables, txn: &Read<'_>, id: ApprovalId) -> Result<Option<ShownJson>, state::Error> {
    let Some(approval) = db.approvals.get(txn, &id)? else { return Ok(None) };
    let mut messages = Vec::new();
    for ((_, body), held) in db.held.collect_prefix(txn, &id, HELD_MAX)? {
        let Some(body) = db.bodies.get(txn, &body)? else { continue };
        messages.push(HeldJson {
            platform_message: body.platform_message.as_ref().map(ToString::to_string),
            said: body.said.to_string(),
            stored: held.stored.to_string(),
            text: words::excerpt(&body.content.text),
        });
    }
    let option = |option: &crate::model::card::CardOption| OptionJson {
        label: option.label.clone(),
        value: option.value.clone(),
    };
    let open = approval.state.is_open();
    let options = approval.options.iter().filter(|_| open).map(option).collect();
    Ok(Some(ShownJson { approval: shape(db, txn, (id, &approval))?, options, messages }))
}

fn shape(db: &Tables, txn: &Read<'_>, (id, approval): (ApprovalId, &Approval)) -> Result<ApprovalJson, state::Error> {
    let (kind, about) = about(db, txn, &approval.about)?;
    let (chat, sender, agents) = concerned(db, txn, &approval.about)?;
    Ok(ApprovalJson {
        approval: id.to_string(),
        state: approval.state.as_str(),
        kind,
        about,
        chat,
        sender,
        agents,
        approver: approval.approver.as_ref().map(ToString::to_string),
        held: db.held.collect_prefix(txn, &id, HELD_MAX)?.len(),
        words: state_words(&approval.state),
        created: approval.created.to_string(),
        expires: approval.expires.to_string(),
    })
}

type Concerned = (Option<String>, Option<String>, Vec<String>);

fn concerned(db: &Tables, txn: &Read<'_>, about: &Matters) -> Result<Concerned, state::Error> {
    Ok(match about {
        Matters::Sender { chat, sender, agents, .. } => {
            let folders = agents.iter().map(|agent| rows::folder(db, txn, *agent)).collect::<Result<_, _>>()?;
            (Some(place(db, txn, *chat)?), Some(sender.to_string()), folders)
        }
        Matters::Channel { chat, sender, .. } => {
            (Some(place(db, txn, *chat)?), sender.as_ref().map(ToString::to_string), Vec::new())
        }
        Matters::Packages { session, .. }
        | Matters::McpServer { session, .. }
        | Matters::CreateAgent { session, .. } => (None, None, vec![agent_of(db, txn, *session)?]),
    })
}

fn about(db: &Tables, txn: &Read<'_>, about: &Matters) -> Result<(&'static str, String), state::Error> {
    let named =
        |name: &Option<String>| name.as_ref().map_or_else(String::new, |name| format!(" ({})", words::excerpt(name)));
    Ok(match about {
        Matters::Sender { chat, sender, name, agents } => {
            let folders: Vec<String> =
                agents.iter().map(|agent| rows::folder(db, txn, *agent)).collect::<Result<_, _>>()?;
            let place = place(db, txn, *chat)?;
            ("sender", format!("{sender}{} wants to talk to {} in {place}", named(name), folders.join(", ")))
        }
        Matters::Channel { chat, sender, name } => {
            let who = sender.as_ref().map_or_else(|| "somebody".to_owned(), ToString::to_string);
            (
                "channel",
                format!("{who}{} addressed the bot in {}, where nobody listens", named(name), place(db, txn, *chat)?),
            )
        }
        Matters::Packages { session, apt, npm, .. } => {
            let all: Vec<&str> = apt.iter().chain(npm).map(String::as_str).collect();
            (
                "packages",
                format!("{} wants packages: {}", agent_of(db, txn, *session)?, words::excerpt(&all.join(", "))),
            )
        }
        Matters::McpServer { session, server } => {
            let command = std::iter::once(&server.command).chain(&server.args).map(String::as_str);
            let command = words::excerpt(&command.collect::<Vec<_>>().join(" "));
            ("mcp_server", format!("{} wants an MCP server: {}", agent_of(db, txn, *session)?, command))
        }
        Matters::CreateAgent { session, name, .. } => {
            ("create_agent", format!("{} wants a new agent: {}", agent_of(db, txn, *session)?, words::excerpt(name)))
        }
    })
}

fn agent_of(db: &Tables, txn: &Read<'_>, session: SessionId) -> Result<String, state::Error> {
    match rows::session(db, txn, session)? {
        Some(row) => rows::folder(db, txn, row.agent),
        None => Ok(session.to_string()),
    }
}

fn place(db: &Tables, txn: &Read<'_>, chat: ChatId) -> Result<String, state::Error> {
    let row = db.chats.get(txn, &chat)?;
    Ok(row.map_or_else(|| chat.to_string(), |row| format!("{}/{}", row.channel, row.platform_id)))
}

/// What there is to know of a state beyond its word.
pub(super) fn state_words(state: &ApprovalState) -> Option<String> {
    let by = |by: &Decider| match by {
        Decider::Person(user) => user.to_string(),
        Decider::Operator => "the operator".to_owned(),
    };
    match state {
        ApprovalState::Unsent { failed: 0, .. } => Some("its card is on its way".to_owned()),
        ApprovalState::Unsent { why, .. } => {
            let why = why.clone().unwrap_or_else(|| "nobody took it".to_owned());
            Some(format!("nobody has seen its card, it is tried again: {why}"))
        }
        ApprovalState::Pending => None,
        ApprovalState::Naming { by, until, .. } => Some(format!("{by} owes the name of a new agent until {until}")),
        ApprovalState::Approved { by: who, at } => Some(format!("by {} at {at}", by(who))),
        ApprovalState::Rejected { by: who, at } => Some(format!("by {} at {at}", by(who))),
        ApprovalState::Expired { at } => Some(format!("nobody decided until {at}")),
        ApprovalState::Superseded { why, at } => Some(format!("{why}, at {at}")),
    }
}

fn print_list(found: &[ApprovalJson], all: bool) -> Done {
    if found.is_empty() {
        return out::line(if all { "no approvals" } else { "nothing waits for a decision" });
    }
    let row = |one: &ApprovalJson| {
        let asked = one.approver.clone().unwrap_or_default();
        let cells = [&one.approval, one.state, &one.about, &one.held.to_string(), &asked, &one.expires];
        cells.map(str::to_owned).to_vec()
    };
    out::table(&["ID", "STATE", "ABOUT", "WAITING", "ASKED", "EXPIRES"], found.iter().map(row).collect())
}

fn print(shown: &ShownJson) -> Done {
    let one = &shown.approval;
    let state = one.words.as_ref().map_or_else(|| one.state.to_owned(), |words| format!("{} ({words})", one.state));
    let asked = one.approver.clone().unwrap_or_else(|| "nobody yet".to_owned());
    for (name, value) in [
        ("approval", &one.approval),
        ("about", &one.about),
        ("state", &state),
        ("asked", &asked),
        ("created", &one.created),
        ("expires", &one.expires),
    ] {
        out::line(&format!("{name:20} {value}"))?;
    }
    for (at, option) in shown.options.iter().enumerate() {
        let name = if at == 0 { "choices" } else { "" };
        out::line(&format!("{name:20} {}. {} ({})", at + 1, option.label, option.value))?;
    }
    if shown.messages.is_empty() {
        return Ok(());
    }
    out::line("")?;
    let row =
        |held: &HeldJson| vec![held.said.clone(), held.platform_message.clone().unwrap_or_default(), held.text.clone()];
    out::table(&["SAID", "MESSAGE", "TEXT"], shown.messages.iter().map(row).collect())
}
