//! What an agent can ask about itself, with its tool `hearth`. Only reads.
//!
//! The answer is about the agent and the chats of this session: it names no other agent, no person, and no chat but by
//! names that the agent has. What it could change, it changes by other requests.

use crate::lifecycle::mailbox_view;
use crate::lifecycle::replies::{self, Asker};
use crate::model::approval::ApprovalSubject;
use crate::model::effect::DestinationTarget;
use crate::model::entity::{Access, Agent, Chat, Engage, Ignored, Network, SenderScope, Trust, UnknownSenders, Wiring};
use crate::model::id::{AgentId, ChatId, SessionId};
use crate::model::message::{Body, Message};
use crate::model::recall::RecallReach;
use crate::model::request::AboutTopic;
use crate::model::session::ChatSession;
use crate::requests::{self_change, tasks};
use crate::rows::{chats, session_files, sessions};
use crate::rules::json;
use crate::rules::json::Field;
use crate::state::WiringKey;
use crate::tx::Tx;
use crate::{Result, readable};
use std::collections::BTreeSet;

/// Maximum number of lines about one topic.
const LINES_MAX: usize = 50;
/// Maximum characters of a name or pattern.
const NAME_CHARS: usize = 120;

/// The agent that asks.
struct Subject<'a> {
    id: AgentId,
    agent: &'a Agent,
    session: SessionId,
    row: &'a ChatSession,
}

/// Answers what an agent asks about itself: one topic, or all.
pub(crate) fn serve(
    tx: &mut Tx<'_, '_>,
    asker: &Asker,
    topic: Option<AboutTopic>,
) -> Result<std::result::Result<(), String>> {
    let (Some((id, agent)), Some(row)) =
        (self_change::agent_of(tx, asker.session)?, sessions::load(tx, asker.session)?)
    else {
        return Ok(Err("the agent was removed".to_owned()));
    };
    let subject = Subject { id, agent: &agent, session: asker.session, row: &row };
    let topics = topic.map_or_else(|| AboutTopic::ALL.to_vec(), |topic| vec![topic]);
    let mut parts = Vec::with_capacity(topics.len());
    for topic in topics {
        let mut lines = about(tx, &subject, topic)?;
        let more = lines.len().saturating_sub(LINES_MAX);
        lines.truncate(LINES_MAX);
        if more > 0 {
            lines.push(format!("({more} more are not shown)"));
        }
        parts.push(format!("# {}\n{}", title(topic), lines.join("\n")));
    }
    let text = parts.join("\n\n");
    replies::answer(tx, asker, Ok(json::object(&[("text", Field::Text(&text))])))?;
    Ok(Ok(()))
}

const fn title(topic: AboutTopic) -> &'static str {
    match topic {
        AboutTopic::Why => "Why you were asked",
        AboutTopic::People => "Who can talk to you here",
        AboutTopic::Destinations => "Where you can write",
        AboutTopic::Tasks => "Your scheduled tasks",
        AboutTopic::Limits => "What you may and may not do",
        AboutTopic::Requests => "Your requests that wait for a decision",
        AboutTopic::Files => "Files of earlier messages that you can read",
    }
}

fn about(tx: &Tx<'_, '_>, subject: &Subject<'_>, topic: AboutTopic) -> Result<Vec<String>> {
    match topic {
        AboutTopic::Why => why(tx, subject),
        AboutTopic::People => people(tx, subject),
        AboutTopic::Destinations => destinations(tx, subject),
        AboutTopic::Tasks => Ok(tasks::list(tx, subject.id, None)?.lines().map(str::to_owned).collect()),
        AboutTopic::Limits => Ok(limits(subject.agent)),
        AboutTopic::Requests => requests(tx, subject),
        AboutTopic::Files => files(tx, subject),
    }
}

/// One line for each message that the agent works on.
fn why(tx: &Tx<'_, '_>, subject: &Subject<'_>) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for (_, message) in claimed(tx, subject.session)? {
        let Some(body) = readable(tx.db.bodies.get(tx, &message.body))? else { continue };
        let reason = match (message.slot, &message.from, chat_of(tx, &body)?) {
            (Some(slot), ..) => format!("your task {} was due", slot.task),
            (None, Some(hop), _) => {
                format!("another agent wrote to you; it is message {} between agents since a person wrote", hop.count)
            }
            (None, None, Some((chat, row))) => {
                let rule = match wiring(tx, subject, chat)? {
                    Some(wiring) => engages(&wiring),
                    None => "you no longer listen there".to_owned(),
                };
                format!("it came from {}, where {rule}", chat_name(tx, subject, &row)?)
            }
            (None, None, None) => "Hearth wrote it".to_owned(),
        };
        let again = match message.tries {
            0 => String::new(),
            tries => format!("; {tries} earlier turns with it were lost or failed"),
        };
        let role = if message.trigger { "" } else { " (context only)" };
        lines.push(format!("- message {}{role}: {reason}{again}", message.seq));
    }
    if lines.is_empty() {
        lines.push("You work on no message.".to_owned());
    }
    Ok(lines)
}

fn claimed(tx: &Tx<'_, '_>, session: SessionId) -> Result<Vec<(u64, Message)>> {
    let mut found = Vec::new();
    for (key, id) in tx.db.claimed_messages.collect_prefix(tx, &session, LINES_MAX + 1)? {
        found.extend(readable(tx.db.messages.get(tx, &id))?.map(|message| (key.seq, message)));
    }
    Ok(found)
}

fn chat_of(tx: &Tx<'_, '_>, body: &Body) -> Result<Option<(ChatId, Chat)>> {
    match &body.source {
        Some(source) => chats::find(tx, &source.channel, &source.platform_id),
        None => Ok(None),
    }
}

fn wiring(tx: &Tx<'_, '_>, subject: &Subject<'_>, chat: ChatId) -> Result<Option<Wiring>> {
    tx.db.wirings.get(tx, &WiringKey { chat, agent: subject.id })
}

/// The agent's own name for a chat, else the chat's name.
fn chat_name(tx: &Tx<'_, '_>, subject: &Subject<'_>, chat: &Chat) -> Result<String> {
    let own = mailbox_view::destinations(tx.db, tx, subject.id)?.into_iter().find(|view| match &view.target {
        DestinationTarget::Chat(address) => {
            (&address.channel, &address.platform_id) == (&chat.channel, &chat.platform_id)
        }
        DestinationTarget::Agent(_) => false,
    });
    Ok(match (own, &chat.name) {
        (Some(view), _) => format!("`{}`", view.name),
        (None, Some(name)) => format!("\"{}\"", short(name)),
        (None, None) => "a chat without a name".to_owned(),
    })
}

fn engages(wiring: &Wiring) -> String {
    match &wiring.engage {
        Engage::Pattern(pattern) if pattern == "." => "every message wakes you".to_owned(),
        Engage::Pattern(pattern) => format!("a message wakes you if its text matches the pattern `{}`", short(pattern)),
        Engage::Mention => "a message wakes you if it mentions you".to_owned(),
        Engage::MentionSticky => {
            "a message wakes you if it mentions you, and then every message of the same thread".to_owned()
        }
    }
}

/// The rules of the chats that this session is about.
fn people(tx: &Tx<'_, '_>, subject: &Subject<'_>) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    if let Some(reply) = &subject.row.reply {
        found.extend(chats::find(tx, &reply.channel, &reply.platform_id)?);
    }
    for (_, message) in claimed(tx, subject.session)? {
        if let Some(body) = readable(tx.db.bodies.get(tx, &message.body))? {
            found.extend(chat_of(tx, &body)?);
        }
    }
    for (id, chat) in found {
        let Some(wiring) = wiring(tx, subject, id)?.filter(|_| seen.insert(id)) else { continue };
        let who = match (wiring.senders, chat.unknown_senders) {
            (SenderScope::Known, _) => "only people with a role, or who are members of yours, can wake you",
            (SenderScope::All, UnknownSenders::Public) => "everyone can wake you",
            (SenderScope::All, UnknownSenders::RequestApproval) => {
                "people with a role and members can wake you; for others, an approver is asked first"
            }
            (SenderScope::All, UnknownSenders::Strict) => {
                "people with a role and members can wake you; messages of others are dropped"
            }
        };
        let others = match wiring.ignored {
            Ignored::Drop => "you do not see other messages",
            Ignored::Accumulate => "other messages are context of your next turn",
        };
        let name = chat_name(tx, subject, &chat)?;
        lines.push(format!("- {name}: {who}; {}; {others}", engages(&wiring)));
    }
    if lines.is_empty() {
        lines.push("This conversation belongs to no chat in which you listen.".to_owned());
    }
    lines.push("Only a person with authority over the chat or over you can change this.".to_owned());
    Ok(lines)
}

fn destinations(tx: &Tx<'_, '_>, subject: &Subject<'_>) -> Result<Vec<String>> {
    let views = mailbox_view::destinations(tx.db, tx, subject.id)?;
    let mut lines: Vec<String> = views
        .into_iter()
        .map(|view| {
            let kind = match view.target {
                DestinationTarget::Chat(_) => "chat",
                DestinationTarget::Agent(_) => "agent",
            };
            let display = view.display.map(|name| format!(", {}", short(&name))).unwrap_or_default();
            format!("- `{}` ({kind}{display})", view.name)
        })
        .collect();
    if lines.is_empty() {
        lines.push("You have no destinations.".to_owned());
    }
    Ok(lines)
}

fn limits(agent: &Agent) -> Vec<String> {
    let settings = &agent.settings;
    let trust = match settings.trust {
        Trust::Main => "you are the operator's main agent",
        Trust::Trusted => "you are trusted: you share memory with other trusted agents",
        Trust::Untrusted => "you are not trusted: tools for trusted agents refuse",
    };
    let folder = match settings.access_to_folder() {
        Access::ReadWrite => "you can write to your folder",
        Access::ReadOnly => "your folder is read-only",
    };
    let network = match settings.network {
        Network::None => "you have no network",
        Network::Host => "you reach only services of this machine",
        Network::Open => "you have internet access",
        Network::Listed => "you reach only hosts that the operator listed",
        Network::Ask => {
            "you reach hosts that are listed or that a person allowed; the first connection to another one asks a person"
        }
        Network::Public => "you reach public hosts and those that are listed, none of the local network",
    };
    let recall = match settings.recall {
        RecallReach::Chat => "finds what was said in this chat",
        RecallReach::Agent => {
            "finds what was said in all your chats; other people there may not expect you to repeat it here"
        }
    };
    let list = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    vec![
        format!("- trust: {trust}"),
        format!("- folder: {folder}"),
        format!("- network: {network}"),
        format!("- recall: {recall}"),
        format!("- blocked tools: {}", list(settings.blocked_tools.iter().map(String::as_str).collect())),
        format!("- MCP servers: {}", list(settings.mcp_servers.iter().map(|server| server.name.as_str()).collect())),
        format!(
            "- packages: {}",
            list(settings.packages.apt.iter().chain(&settings.packages.npm).map(String::as_str).collect())
        ),
        "- you can ask for packages (install_packages), MCP servers (add_mcp_server) and agents (create_agent); a person \
         decides"
            .to_owned(),
        "- everything else here is set by the operator: ask the people you talk to".to_owned(),
    ]
}

fn requests(tx: &Tx<'_, '_>, subject: &Subject<'_>) -> Result<Vec<String>> {
    let open = self_change::open_of(tx, subject.session)?.into_iter();
    let mut lines: Vec<String> = open
        .map(|(id, approval)| {
            let what = match &approval.about {
                ApprovalSubject::Packages { apt, npm, .. } => {
                    format!("packages {}", apt.iter().chain(npm).map(String::as_str).collect::<Vec<_>>().join(", "))
                }
                ApprovalSubject::McpServer { server, .. } => format!("MCP server {}", server.name),
                ApprovalSubject::CreateAgent { name, .. } => format!("new agent {}", short(name)),
                ApprovalSubject::Sender { .. } | ApprovalSubject::Channel { .. } => "a person or a chat".to_owned(),
                ApprovalSubject::Budget(_) => "a budget".to_owned(),
                ApprovalSubject::Host(request) => format!("the host {}", request.to),
                ApprovalSubject::Hosts(request) => format!("{} hosts", request.hosts.len()),
                ApprovalSubject::Tool(request) => format!("use of the tool {}", short(&request.tool)),
            };
            format!("- {id}: {what}; expires at {}", approval.expires)
        })
        .collect();
    if lines.is_empty() {
        lines.push("None.".to_owned());
    }
    Ok(lines)
}

/// The newest files first.
fn files(tx: &Tx<'_, '_>, subject: &Subject<'_>) -> Result<Vec<String>> {
    let kept = session_files::of(tx.db, tx, subject.session, tx.policy.session_files_max)?;
    let mut lines: Vec<String> = kept
        .iter()
        .rev()
        .flat_map(|kept| kept.attachments.iter().map(move |file| (kept.seq, file)))
        .map(|(seq, file)| format!("- host/in/files/{seq:016}/{} ({} bytes)", file.name, file.size))
        .collect();
    if lines.is_empty() {
        lines.push("None.".to_owned());
    } else {
        lines.insert(0, "Paths begin in your session's directory, like the paths of new files.".to_owned());
    }
    Ok(lines)
}

/// A text of people or the operator, on one line and bounded.
fn short(text: &str) -> String {
    text.chars().take(NAME_CHARS).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
