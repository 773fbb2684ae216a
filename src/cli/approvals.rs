//! `hearth approvals`: open and decided approvals. Reads the store beside the daemon.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::human_time;
use super::listed::{self, Column, Listed, or_empty};
use super::{Done, Failure, decide, entity, lookup, print};
use crate::config::Paths;
use crate::engine::approval_text;
use crate::model::approval::{Approval, ApprovalState, ApprovalSubject, Decider};
use crate::model::approval_text::{ApprovalText, destination_name};
use crate::model::card::PromptSubject;
use crate::model::entity::EnvValue;
use crate::model::host_grant::HostRequest;
use crate::model::id::{ApprovalId, ChatId, SessionId};
use crate::model::time::Timestamp;
use crate::model::tool::{ToolOutcome, ToolRequest, ToolValue};
use crate::model::visible::{block, exact, free};
use crate::state::{self, HeldKey, Read, Reader, Tables};

mod listeners;
mod many;
mod prompt;

use many::{Page, Which};
pub(super) use prompt::prompt;

/// Maximum number of waiting messages shown per approval.
const HELD_MAX: usize = 200;
/// Maximum characters shown of a waiting message.
const TEXT_MAX: usize = 2_000;

#[derive(Debug, Subcommand)]
pub(super) enum ApprovalsCommand {
    /// List open approvals, newest first
    List {
        /// Also those already decided
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        page: Page,
    },
    /// Show one approval, its choices and the messages that wait for it
    Show {
        /// Its id, like ap3
        approval: ApprovalId,
    },
    /// Say yes
    Approve(ApproveArgs),
    /// Say no, to one approval or to many
    Reject {
        #[command(flatten)]
        which: Which,
        /// For a tool call: the reason, which the agent reads
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(super) struct ApproveArgs {
    /// Its id, like ap3
    approval: ApprovalId,
    /// For a new chat: the agent to wire to it; required if there are several
    #[arg(long, value_name = "FOLDER", conflicts_with = "new")]
    agent: Option<String>,
    /// For a new chat: create an agent of this name, which will listen there
    #[arg(long, value_name = "NAME")]
    new: Option<String>,
    /// For a tool call: allow such calls until the session is reset
    #[arg(long, conflicts_with_all = ["agent", "new"])]
    session: bool,
    /// For a tool call: allow such calls from now on
    #[arg(long, conflicts_with_all = ["agent", "new", "session"])]
    always: bool,
}

/// One approval of `hearth approvals list --json`.
#[derive(Debug, Serialize)]
struct ApprovalJson {
    approval: String,
    /// `unsent`, `pending`, `naming`, `approved`, `rejected`, `expired` or `superseded`.
    state: &'static str,
    /// `sender`, `channel`, `packages`, `mcp_server` or `create_agent`.
    kind: &'static str,
    /// Everything that an approval puts into effect, as text.
    about: String,
    /// What an approval puts into effect, as data, for requests of agents; otherwise null.
    request: Option<serde_json::Value>,
    /// The beginning of `about`, for lists.
    #[serde(skip)]
    summary: String,
    /// Chat it is about; null for requests of agents.
    chat: Option<String>,
    /// Person it is about; null if unknown.
    sender: Option<String>,
    /// Agents it is about.
    agents: Vec<String>,
    /// The approver who was asked last; null if no approver could be asked yet.
    approver: Option<String>,
    /// Messages that wait for it.
    held: usize,
    /// Details of the state: why the request was not delivered, who decided, why it failed.
    words: Option<String>,
    created: String,
    expires: String,
}

/// The answer of `hearth approvals show --json`.
#[derive(Debug, Serialize)]
pub(super) struct ShownJson {
    #[serde(flatten)]
    approval: ApprovalJson,
    options: Vec<OptionJson>,
    /// Waiting messages, oldest first.
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
    /// Names of its files.
    files: Vec<String>,
}

/// Lists, shows and decides approvals.
pub(super) fn approvals(paths: &Paths, command: &ApprovalsCommand, json: bool) -> Done {
    match command {
        ApprovalsCommand::List { all, page } => {
            let (found, number) = Reader::open(paths.data())?.read(|db, txn| list(db, txn, *all, *page))?;
            if json {
                return print::json_ascii(
                    &serde_json::json!({ "approvals": found, "page": page.page, "total": number }),
                );
            }
            print_list(&found, *all)?;
            page.rest(number).map_or(Ok(()), |rest| print::line(&rest))
        }
        ApprovalsCommand::Show { approval } => {
            let shown = Reader::open(paths.data())?.read(|db, txn| show(db, txn, *approval))?;
            let shown = shown.ok_or_else(|| entity::missing("approval", &approval.to_string()))?;
            if json { print::json_ascii(&shown) } else { print(&shown) }
        }
        ApprovalsCommand::Approve(args) => {
            let value = match (&args.agent, &args.new) {
                (Some(folder), _) => format!("connect:{}", listeners::agent(paths, folder)?),
                (None, Some(name)) => format!("new_agent:{name}"),
                (None, None) if args.always => "always".to_owned(),
                (None, None) if args.session => "session".to_owned(),
                (None, None) => "approve".to_owned(),
            };
            let value = seen(paths, args.approval, value, json)?;
            decide::decide(paths, PromptSubject::Approval(args.approval), &value, json)
        }
        ApprovalsCommand::Reject { which, reason } => many::reject(paths, which, reason.as_deref(), json),
    }
}

/// Shows the approval before it is decided, if it is still open. Returns the value of the choice about exactly what was
/// shown: a question about hosts may grow meanwhile.
fn seen(paths: &Paths, id: ApprovalId, value: String, json: bool) -> Result<String, Failure> {
    let found = Reader::open(paths.data())?.read(|db, txn| {
        let Some(approval) = db.approvals.get(txn, &id)?.filter(|approval| approval.state.is_open()) else {
            return Ok(None);
        };
        let agents = listeners::offered(db, txn, &approval)?;
        text(db, txn, &approval.about).map(|text| Some((text, approval.options, agents)))
    })?;
    let Some((text, options, agents)) = found else { return Ok(value) };
    if !json {
        text.lines.iter().try_for_each(|line| print::line(line))?;
    }
    if value == "approve"
        && let Some(agents) = agents.filter(|agents| agents.len() != 1)
    {
        return Err(listeners::unnamed(id, &agents));
    }
    let counted = |of: &str| {
        let count = of.strip_prefix(value.as_str()).and_then(|rest| rest.strip_prefix(':'));
        count.is_some_and(|count| count.parse::<usize>().is_ok())
    };
    Ok(options.into_iter().map(|option| option.value).find(|of| counted(of)).unwrap_or(value))
}

/// An approval that is open, for the view of everything.
pub(super) struct OpenApproval {
    pub(super) id: ApprovalId,
    pub(super) text: ApprovalText,
    pub(super) expires: Timestamp,
}

/// The open ones, the oldest first.
pub(super) fn open(db: &Tables, txn: &Read<'_>, limit: usize) -> Result<Vec<OpenApproval>, state::Error> {
    let mut found = Vec::new();
    for id in open_ids(db, txn, limit)? {
        let approval = db.approvals.require(txn, &id)?;
        found.push(OpenApproval { id, text: text(db, txn, &approval.about)?, expires: approval.expires });
    }
    Ok(found)
}

/// Ids of the open ones, the oldest first.
pub(super) fn open_ids(db: &Tables, txn: &Read<'_>, limit: usize) -> Result<Vec<ApprovalId>, state::Error> {
    db.approvals_open.iter(txn)?.take(limit).map(|row| row.map(|(id, ())| id)).collect()
}

fn list(db: &Tables, txn: &Read<'_>, all: bool, page: Page) -> Result<(Vec<ApprovalJson>, usize), state::Error> {
    let ids = if all {
        db.approvals.iter(txn)?.map(|row| row.map(|(id, _)| id)).collect::<Result<_, _>>()?
    } else {
        open_ids(db, txn, usize::MAX)?
    };
    let (ids, number) = page.of(ids);
    let found =
        ids.into_iter().map(|id| shape(db, txn, id, &db.approvals.require(txn, &id)?)).collect::<Result<_, _>>()?;
    Ok((found, number))
}

/// One approval with its choices and the messages that wait for it.
pub(super) fn show(db: &Tables, txn: &Read<'_>, id: ApprovalId) -> Result<Option<ShownJson>, state::Error> {
    let Some(approval) = db.approvals.get(txn, &id)? else { return Ok(None) };
    let mut messages = Vec::new();
    for (HeldKey { body, .. }, held) in db.held_messages.collect_prefix(txn, &id, HELD_MAX)? {
        let Some(body) = db.bodies.get(txn, &body)? else { continue };
        messages.push(HeldJson {
            platform_message: body.platform_message.as_ref().map(ToString::to_string),
            said: body.said.to_string(),
            stored: held.stored.to_string(),
            files: body.attachments.into_iter().map(|file| file.name).collect(),
            text: body.content.text,
        });
    }
    let option = |option: &crate::model::card::CardOption| OptionJson {
        label: option.label.clone(),
        value: option.value.clone(),
    };
    let open = approval.state.is_open();
    let options = approval.options.iter().filter(|_| open).map(option).collect();
    Ok(Some(ShownJson { approval: shape(db, txn, id, &approval)?, options, messages }))
}

fn shape(db: &Tables, txn: &Read<'_>, id: ApprovalId, approval: &Approval) -> Result<ApprovalJson, state::Error> {
    let text = text(db, txn, &approval.about)?;
    let (chat, sender, agents) = concerned(db, txn, &approval.about)?;
    Ok(ApprovalJson {
        approval: id.to_string(),
        state: approval.state.as_str(),
        kind: kind(&approval.about),
        about: text.body(),
        request: request(&approval.about),
        summary: text.summary(),
        chat,
        sender,
        agents,
        approver: approval.approver.as_ref().map(ToString::to_string),
        held: db.held_messages.collect_prefix(txn, &id, HELD_MAX)?.len(),
        words: state_words(&approval.state),
        created: approval.created.to_string(),
        expires: approval.expires.to_string(),
    })
}

type Concerned = (Option<String>, Option<String>, Vec<String>);

fn concerned(db: &Tables, txn: &Read<'_>, about: &ApprovalSubject) -> Result<Concerned, state::Error> {
    Ok(match about {
        ApprovalSubject::Sender { chat, sender, agents, .. } => {
            let folders = agents.iter().map(|agent| lookup::folder(db, txn, *agent)).collect::<Result<_, _>>()?;
            (Some(place(db, txn, *chat)?), Some(sender.to_string()), folders)
        }
        ApprovalSubject::Channel { chat, sender, .. } => {
            (Some(place(db, txn, *chat)?), sender.as_ref().map(ToString::to_string), Vec::new())
        }
        ApprovalSubject::Packages { session, .. }
        | ApprovalSubject::McpServer { session, .. }
        | ApprovalSubject::CreateAgent { session, .. } => (None, None, vec![agent_of(db, txn, *session)?]),
        ApprovalSubject::Host(request) => (None, None, vec![lookup::folder(db, txn, request.agent)?]),
        ApprovalSubject::Hosts(request) => (None, None, vec![lookup::folder(db, txn, request.agent)?]),
        ApprovalSubject::Tool(request) => (None, None, vec![agent_of(db, txn, request.session)?]),
        ApprovalSubject::Budget(request) => (None, None, vec![lookup::folder(db, txn, request.agent)?]),
    })
}

fn text(db: &Tables, txn: &Read<'_>, about: &ApprovalSubject) -> Result<ApprovalText, state::Error> {
    let asker = match about.session() {
        Some(session) => lookup::session(db, txn, session)?.map(|row| row.agent),
        None => None,
    };
    approval_text(db, txn, about, asker)
}

const fn kind(about: &ApprovalSubject) -> &'static str {
    match about {
        ApprovalSubject::Sender { .. } => "sender",
        ApprovalSubject::Channel { .. } => "channel",
        ApprovalSubject::Packages { .. } => "packages",
        ApprovalSubject::McpServer { .. } => "mcp_server",
        ApprovalSubject::CreateAgent { .. } => "create_agent",
        ApprovalSubject::Budget(_) => "budget",
        ApprovalSubject::Host(_) => "host",
        ApprovalSubject::Hosts(_) => "hosts",
        ApprovalSubject::Tool(_) => "tool",
    }
}

fn request(about: &ApprovalSubject) -> Option<serde_json::Value> {
    use serde_json::json;
    let variable = |(name, value): &(String, EnvValue)| match value {
        EnvValue::Plain(text) => json!({ "name": name, "kind": "text", "value": text }),
        EnvValue::Reference(text) => json!({ "name": name, "kind": "reference", "value": text }),
    };
    match about {
        ApprovalSubject::Sender { .. } | ApprovalSubject::Channel { .. } => None,
        ApprovalSubject::Packages { apt, npm, reason, .. } => Some(json!({ "apt": apt, "npm": npm, "reason": reason })),
        ApprovalSubject::McpServer { server, .. } => Some(json!({
            "name": server.name,
            "command": server.command,
            "args": server.args,
            "env": server.env.iter().map(variable).collect::<Vec<_>>(),
        })),
        ApprovalSubject::CreateAgent { name, instructions, .. } => {
            Some(json!({ "name": name, "folder": destination_name(name), "instructions": instructions }))
        }
        ApprovalSubject::Host(request) => Some(host(request)),
        ApprovalSubject::Hosts(request) => Some(json!({ "hosts": request.hosts.iter().map(host).collect::<Vec<_>>() })),
        ApprovalSubject::Tool(request) => Some(tool(request)),
        ApprovalSubject::Budget(request) => Some(json!({
            "budget": request.budget.name(),
            "more_micros": request.budget.money.map(|_| request.money.as_micros()),
            "more_tokens": request.budget.tokens.map(|_| request.tokens),
            "until": request.until.to_string(),
        })),
    }
}

fn host(request: &HostRequest) -> serde_json::Value {
    serde_json::json!({
        "host": request.to.host.to_string(),
        "port": request.to.port,
        "local": request.local,
    })
}

fn tool(request: &ToolRequest) -> serde_json::Value {
    let value = |value: &ToolValue| match value {
        ToolValue::Text(text) => serde_json::Value::from(text.as_str()),
        // It was JSON when it was stored.
        ToolValue::Json(text) => serde_json::from_str(text).unwrap_or_default(),
    };
    let input: serde_json::Map<String, serde_json::Value> =
        request.fields.iter().map(|field| (field.name.clone(), value(&field.value))).collect();
    serde_json::json!({
        "tool": request.tool,
        "folder": request.folder,
        "input": input,
        "digest": request.digest,
        "pattern": request.pattern,
        "message": request.message.map(|id| id.to_string()),
        "earlier": request.earlier.map(ToolOutcome::as_str),
        "outcome": request.used.as_ref().and_then(|used| used.outcome).map(ToolOutcome::as_str),
        "used": request.used.is_some(),
        "reason": request.reason,
    })
}

fn agent_of(db: &Tables, txn: &Read<'_>, session: SessionId) -> Result<String, state::Error> {
    match lookup::session(db, txn, session)? {
        Some(row) => lookup::folder(db, txn, row.agent),
        None => Ok(session.to_string()),
    }
}

fn place(db: &Tables, txn: &Read<'_>, chat: ChatId) -> Result<String, state::Error> {
    let row = db.chats.get(txn, &chat)?;
    Ok(row.map_or_else(|| chat.to_string(), |row| format!("{}/{}", row.channel, row.platform_id)))
}

/// Who decided, in words.
pub(super) fn decider(by: &Decider) -> String {
    match by {
        Decider::Person(user) => user.to_string(),
        Decider::Operator => "the operator".to_owned(),
    }
}

/// Details of a state.
pub(super) fn state_words(state: &ApprovalState) -> Option<String> {
    let by = decider;
    match state {
        ApprovalState::Unsent { failed: 0, why: None } => Some("its card is being sent".to_owned()),
        ApprovalState::Unsent { failed: 0, why: Some(why) } => Some(why.clone()),
        ApprovalState::Unsent { why, .. } => {
            let why = why.clone().unwrap_or_else(|| "no one accepted it".to_owned());
            Some(format!("its card was not delivered, retrying: {why}"))
        }
        ApprovalState::Pending => None,
        ApprovalState::Naming { by, until, .. } => {
            Some(format!("{by} was asked for a text, until {}", human_time::local(&until.to_string())))
        }
        ApprovalState::Approved { by: who, at } => {
            Some(format!("by {}, {}", by(who), human_time::local(&at.to_string())))
        }
        ApprovalState::Rejected { by: who, at } => {
            Some(format!("by {}, {}", by(who), human_time::local(&at.to_string())))
        }
        ApprovalState::Expired { at } => Some(format!("no decision until {}", human_time::local(&at.to_string()))),
        ApprovalState::Superseded { why, at } => Some(format!("{why}, {}", human_time::local(&at.to_string()))),
    }
}

impl Listed for ApprovalJson {
    const PLURAL: &'static str = "approvals";
    const COLUMNS: &'static [Column<Self>] = &[
        ("ID", |one| one.approval.clone()),
        ("STATE", |one| one.state.to_owned()),
        ("ABOUT", |one| one.summary.clone()),
        ("HELD", |one| one.held.to_string()),
        ("ASKED", |one| or_empty(one.approver.as_ref())),
        ("CREATED", |one| human_time::age(&one.created)),
        ("EXPIRES", |one| human_time::age(&one.expires)),
    ];
}

fn print_list(found: &[ApprovalJson], all: bool) -> Done {
    if found.is_empty() {
        return print::line(if all { "no approvals" } else { "no open approvals" });
    }
    listed::table(found)?;
    print::note("`hearth approvals show ID` shows everything that an approval puts into effect");
    Ok(())
}

fn print(shown: &ShownJson) -> Done {
    print_fields(shown)?;
    shown.messages.iter().try_for_each(print_held)
}

/// Prints an approval without the messages that wait for it.
pub(super) fn print_fields(shown: &ShownJson) -> Done {
    let one = &shown.approval;
    let state = one.words.as_ref().map_or_else(|| one.state.to_owned(), |words| format!("{} ({words})", one.state));
    let asked = one.approver.clone().unwrap_or_else(|| "no one yet".to_owned());
    let choice = |(at, option): (usize, &OptionJson)| format!("{}. {}", at + 1, option.label);
    let choices: Vec<String> = shown.options.iter().enumerate().map(choice).collect();
    listed::print(&[
        ("approval", Some(one.approval.clone())),
        ("about", Some(one.about.clone())),
        ("state", Some(state)),
        ("asked", Some(asked)),
        ("created", Some(human_time::local_with_age(&one.created))),
        ("expires", Some(human_time::local_with_age(&one.expires))),
        ("choices", Some(choices.join("\n"))),
    ])
}

fn print_held(held: &HeldJson) -> Done {
    let message = held.platform_message.as_deref().map(|id| format!(" {}", exact(id))).unwrap_or_default();
    print::line(&format!("\nmessage{message} of {}", human_time::local(&held.said)))?;
    let shown: String = held.text.chars().take(TEXT_MAX).collect();
    block(&shown).try_for_each(|line| print::line(&line))?;
    let more = held.text.chars().count().saturating_sub(TEXT_MAX);
    if more > 0 {
        print::line(&format!("[and {more} more characters, which --json shows]"))?;
    }
    held.files.iter().try_for_each(|name| print::line(&format!("[file] {}", free(name))))
}
