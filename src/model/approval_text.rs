//! Text of an approval: everything that takes effect on approval, character for character. Cards, commands and the live
//! view all show this text.
//!
//! Approvals with different effects never have the same text. Every line begins with Hearth's own words or with the
//! mark of [`block`], so no content can pose as another line.

use super::approval::ApprovalSubject;
use super::budget::BudgetRequest;
use super::entity::{EnvValue, McpServer, normalize_name};
use super::host::Host;
use super::host_grant::{HostRequest, HostsRequest};
use super::id::{AgentId, SessionId};
use super::spend::Money;
use super::tool::{ToolField, ToolOutcome, ToolRequest, ToolValue};
use super::visible::{block, exact, exact_pair, free};

/// Longest destination derived from a name: leaves room in a folder name for a number at the end.
const LOCAL_MAX: usize = 58;

/// Rendered text of an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalText {
    /// Heading of the card.
    pub title: &'static str,
    /// The first line says who asks for what; the others give the details.
    pub lines: Vec<String>,
}

impl ApprovalText {
    /// Everything below the heading.
    #[must_use]
    pub fn body(&self) -> String {
        self.lines.join("\n")
    }

    /// A one-line summary for lists. It says how many lines are missing.
    #[must_use]
    pub fn summary(&self) -> String {
        const MAX: usize = 160;
        let first = self.lines.first().map_or("", String::as_str);
        let mut chars = first.chars();
        let short: String = chars.by_ref().take(MAX).collect();
        let cut = if chars.next().is_some() { "…" } else { "" };
        match self.lines.len().saturating_sub(1) {
            0 => format!("{short}{cut}"),
            1 => format!("{short}{cut} [and 1 more line]"),
            more => format!("{short}{cut} [and {more} more lines]"),
        }
    }
}

/// Names for the ids in an approval's record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// The agents concerned, in the order of the record. For a request: the agent that asks.
    pub agents: Vec<AgentName>,
    /// The chat it is about.
    pub chat: Option<Place>,
}

/// An agent as cards name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentName {
    /// Its id.
    pub id: AgentId,
    /// Its folder, which no other agent has; none if the agent is not in the store any more.
    pub folder: Option<String>,
    /// Its display name.
    pub name: String,
}

/// A chat as cards name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Channel instance.
    pub channel: String,
    /// Chat, as its adapter names it.
    pub platform_id: String,
    /// Name for people.
    pub name: Option<String>,
    /// Whether more than one person may talk there.
    pub group: bool,
}

/// The name of the destination that an agent gets for an agent created at its request.
#[must_use]
pub fn destination_name(name: &str) -> String {
    let mut local = normalize_name(name);
    local.truncate(LOCAL_MAX);
    local.trim_end_matches('-').to_owned()
}

/// The effect of approving packages while no images are built.
pub const NO_IMAGE: &str = "Agents run as processes of this machine now, which have no image: if you approve this, nothing \
     is installed. The packages take effect only once agents run in containers.";

/// The text of an approval.
#[must_use]
pub fn render(about: &ApprovalSubject, names: &Names) -> ApprovalText {
    let (title, lines) = match about {
        ApprovalSubject::Sender { sender, name, .. } => {
            let who = person(&exact_pair(sender.channel().as_str(), ':', sender.handle().as_str()), name.as_deref());
            ("👤 New sender", sender_lines(&who, names))
        }
        ApprovalSubject::Channel { sender, name, .. } => {
            let id = sender.as_ref().map(|id| exact_pair(id.channel().as_str(), ':', id.handle().as_str()));
            let who = person(id.as_deref().unwrap_or("A person without an id"), name.as_deref());
            ("🔌 New channel — wire it?", channel_lines(&who, names))
        }
        ApprovalSubject::Packages { session, apt, npm, reason } => {
            let mut lines = vec![format!("{} asks for packages in its image, in session {session}.", asker(names))];
            lines.extend(apt.iter().map(|name| format!("apt: {}", exact(name))));
            lines.extend(npm.iter().map(|name| format!("npm: {}", exact(name))));
            lines.extend(reason.as_deref().map(|reason| format!("reason: {}", free(reason))));
            ("Install Packages Request", lines)
        }
        ApprovalSubject::McpServer { session, server } => ("Add MCP Request", server_lines(*session, server, names)),
        ApprovalSubject::CreateAgent { session, name, instructions } => {
            ("Create Agent Request", agent_lines(*session, name, instructions.as_deref(), names))
        }
        ApprovalSubject::Host(request) => ("🌐 New host", host_lines(request, names)),
        ApprovalSubject::Hosts(request) => ("🌐 New hosts", hosts_lines(request, names)),
        ApprovalSubject::Budget(request) => ("💰 Budget spent", budget_lines(request, names)),
        ApprovalSubject::Tool(request) => ("🔧 Tool call", tool_lines(request, names)),
    };
    ApprovalText { title, lines }
}

fn sender_lines(who: &str, names: &Names) -> Vec<String> {
    let agents: Vec<String> = names.agents.iter().map(agent).collect();
    vec![
        format!("{who} asks to talk to {} in {}.", listed(&agents), place(names.chat.as_ref())),
        "Allowed, they become a member of each of these agents that you may decide about. What they wrote there and \
         write from now on goes to these agents."
            .to_owned(),
    ]
}

fn channel_lines(who: &str, names: &Names) -> Vec<String> {
    vec![
        format!("{who} addressed the bot in {}, where no agent listens.", place(names.chat.as_ref())),
        "The agent that you choose listens there from now on: to everything in a direct message; in a group to what \
         mentions it, and in a thread of a group to what follows. The person becomes a member of it. The newest message \
         that waits goes to it."
            .to_owned(),
    ]
}

fn server_lines(session: SessionId, server: &McpServer, names: &Names) -> Vec<String> {
    let first = format!("{} asks for the MCP server {} in session {session}.", asker(names), exact(&server.name));
    let mut lines = vec![first, format!("command: {}", exact(&server.command))];
    let arguments = (1_usize..).zip(&server.args);
    lines.extend(arguments.map(|(at, word)| format!("argument {at}: {}", exact(word))));
    lines.extend(server.env.iter().map(|(name, value)| match value {
        EnvValue::Plain(text) => format!("variable {} is the text {}", exact(name), exact(text)),
        EnvValue::Reference(text) => {
            format!("variable {} is a secret of Hearth, found at {}", exact(name), exact(text))
        }
    }));
    lines.push("It takes the place of a server of that name that the agent has.".to_owned());
    lines
}

fn host_lines(request: &HostRequest, names: &Names) -> Vec<String> {
    let HostRequest { session, to, local, .. } = request;
    let mut lines = vec![
        format!("{} wants to reach {} in session {session}.", asker(names), exact(&to.to_string())),
        format!("host: {}", exact(&to.host.to_string())),
    ];
    if let Host::Name(name) = &to.host
        && let Some(written) = name.in_unicode()
    {
        lines.push(format!("as it is written: {}", free(&written)));
    }
    lines.push(format!("port: {}", to.port));
    if *local {
        lines.push("It is in your local network.".to_owned());
    }
    lines.push(
        "Once allows exactly this host and port for an hour in this session. Always and never hold for all sessions of the \
         agent, until they are revoked. Hearth does not see what is sent there."
            .to_owned(),
    );
    lines
}

fn hosts_lines(request: &HostsRequest, names: &Names) -> Vec<String> {
    let mut lines = vec![format!("{} wants to reach {} hosts.", asker(names), request.hosts.len())];
    lines.extend((1_usize..).zip(&request.hosts).map(|(at, HostRequest { session, to, local, .. })| {
        let written = match &to.host {
            Host::Name(name) => name.in_unicode(),
            Host::Address(_) => None,
        };
        let written = written.map(|written| format!(", as it is written: {}", free(&written))).unwrap_or_default();
        let local = if *local { ", in your local network" } else { "" };
        format!("{at}. {} in session {session}{written}{local}", exact(&to.to_string()))
    }));
    lines.push(
        "Once allows exactly these hosts and ports for an hour, each in its session. Always and never hold for all \
         sessions of the agent, until they are revoked. `hearth net allow` and `hearth net deny` decide about single ones \
         of them. Hearth does not see what is sent there."
            .to_owned(),
    );
    lines
}

/// Fields that programs read.
const FOR_PROGRAMS: [&str; 10] =
    ["command", "cmd", "script", "file_path", "filePath", "path", "notebook_path", "url", "uri", "to"];

fn tool_lines(request: &ToolRequest, names: &Names) -> Vec<String> {
    let ToolRequest { session, tool, folder, fields, digest, pattern, earlier, .. } = request;
    let mut lines = vec![format!("{} asks to use the tool {} in session {session}.", asker(names), exact(tool))];
    lines.extend(earlier.map(|outcome| {
        let what = match outcome {
            ToolOutcome::Ran => "It ran once after that",
            ToolOutcome::Failed => "It ran once after that, and failed",
            ToolOutcome::Denied | ToolOutcome::Unknown => "It may or may not have run after that",
        };
        format!("Careful: this call was allowed before, and then the agent was stopped or died. {what}.")
    }));
    lines.push(format!("working directory: {}", exact(folder)));
    for ToolField { name, value } in fields {
        match value {
            ToolValue::Json(json) => lines.push(format!("input {} is the value {}", exact(name), exact(json))),
            ToolValue::Text(text) if FOR_PROGRAMS.contains(&name.as_str()) && !text.contains('\n') => {
                lines.push(format!("input {} is the text {}", exact(name), exact(text)));
            }
            ToolValue::Text(text) => {
                lines.push(format!("input {} is this text:", exact(name)));
                lines.extend(block(text));
            }
        }
    }
    lines.push(format!("digest: {digest}"));
    lines.push(match pattern {
        Some(pattern) => format!(
            "Allowed once, this call may run one time. Allowed for the session or always, no one is asked about calls that \
             match {}.",
            exact(pattern)
        ),
        None => "Allowed, this call may run one time.".to_owned(),
    });
    lines
}

fn budget_lines(request: &BudgetRequest, names: &Names) -> Vec<String> {
    let BudgetRequest { budget, .. } = request;
    let (scope, per) = (exact(&budget.scope.to_string()), budget.per.as_str());
    vec![
        format!("The budget {scope} of this {per} is spent: {}.", amount(budget.money, budget.tokens)),
        format!("Messages for {} wait until the next {per} begins.", asker(names)),
        format!(
            "Allowed, {} are added for this {per}. Until tomorrow, the budget does not count. Dropped, the waiting messages \
             are not answered.",
            more(request)
        ),
    ]
}

/// What a person may add to a budget: `$0.50`, or `10000 tokens`.
#[must_use]
pub fn more(request: &BudgetRequest) -> String {
    let BudgetRequest { budget, money, tokens, .. } = request;
    amount(budget.money.map(|_| *money), budget.tokens.map(|_| *tokens))
}

fn amount(money: Option<Money>, tokens: Option<u64>) -> String {
    let money = money.map(|money| money.to_string());
    let tokens = tokens.map(|tokens| format!("{tokens} tokens"));
    money.into_iter().chain(tokens).collect::<Vec<_>>().join(" and ")
}

fn agent_lines(session: SessionId, name: &str, instructions: Option<&str>, names: &Names) -> Vec<String> {
    let (maker, local) = (asker(names), exact(&destination_name(name)));
    let mut lines = vec![
        format!("{maker} asks for a new agent named {} in session {session}.", free(name)),
        format!("folder: {local}, or the next free one with a number behind it"),
        format!(
            "It has the settings that {maker} has then, environment and network included. But it is untrusted and \
             confined, and has no mounts, packages and MCP servers. The two may write to each other, as {local} and \
             \"parent\"."
        ),
    ];
    match instructions {
        None => lines.push("instructions: none".to_owned()),
        Some(text) => {
            lines.push("instructions:".to_owned());
            lines.extend(block(text));
        }
    }
    lines
}

/// A person: always the id, and the display name if there is one.
fn person(id: &str, name: Option<&str>) -> String {
    name.map_or_else(|| id.to_owned(), |name| format!("{id}, named {},", free(name)))
}

/// An agent by its name and its folder.
#[must_use]
pub fn agent(agent: &AgentName) -> String {
    match &agent.folder {
        Some(folder) => format!("{} ({folder})", free(&agent.name)),
        None => format!("the removed agent {}", agent.id),
    }
}

fn asker(names: &Names) -> String {
    names.agents.first().map_or_else(|| "A removed agent".to_owned(), agent)
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "no agent".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn place(place: Option<&Place>) -> String {
    let Some(place) = place else { return "a chat that was removed".to_owned() };
    let kind = if place.group { "the group" } else { "the direct message" };
    let address = exact_pair(&place.channel, '/', &place.platform_id);
    place
        .name
        .as_deref()
        .map_or_else(|| format!("{kind} {address}"), |name| format!("{kind} {address}, named {}", free(name)))
}
