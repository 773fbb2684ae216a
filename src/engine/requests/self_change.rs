//! Agents' requests to change themselves: packages in their image, MCP servers. They need an approval.

use crate::lifecycle::replies::Asker;
use crate::lifecycle::{dispatch, replies, rollout};
use crate::model::agent::Install;
use crate::model::approval::{Approval, ApprovalSubject};
use crate::model::entity::{Agent, AgentSettings, McpServer, Packages};
use crate::model::id::{AgentId, ApprovalId, SessionId};
use crate::model::message::Reason;
use crate::requests::{Denial, create, variables};
use crate::rows::sessions;
use crate::rules::json;
use crate::rules::json::Field;
use crate::state::Owned;
use crate::tx::Tx;
use crate::{Result, approvals};

/// Maximum number of open approvals per session.
const OPEN_MAX: usize = 10;

/// Maximum number of servers per agent.
const SERVERS_MAX: usize = 32;

/// Maximum number of packages per agent and kind.
const PACKAGES_MAX: usize = 200;

/// The effect of approved packages while no images are built, for the agent.
const PROCESS_NOTE: &str = " Agents run as processes now, without an image: approved packages are noted, but not \
                            installed. Tell the user if you cannot do without them.";

/// Requests an approval and tells the agent that it was requested.
pub(crate) fn ask(
    tx: &mut Tx<'_, '_>,
    asker: &Asker,
    about: ApprovalSubject,
) -> Result<std::result::Result<(), String>> {
    let action = action(&about);
    let mut submitted = submitted(&about);
    if matches!(about, ApprovalSubject::Packages { .. }) && !tx.cx.builds {
        submitted.push_str(PROCESS_NOTE);
    }
    let open = open_of(tx, asker.session)?;
    let asked_before = open.iter().find(|(_, approval)| approval.about == about).map(|(id, _)| *id);
    let id = match asked_before {
        // A repeated turn asks again. One card is enough.
        Some(id) => id,
        None if open.len() >= OPEN_MAX => return Ok(Err(decide_unavailable(action, Reason::ApprovalsFull))),
        None => match approvals::ask::ask(tx, about)? {
            Ok(id) => id,
            Err(reason) => return Ok(Err(decide_unavailable(action, reason))),
        },
    };
    let id = id.to_string();
    let fields = [("status", "submitted"), ("approval", &id), ("text", &submitted)];
    let answer = json::object(&fields.map(|(name, text)| (name, Field::Text(text))));
    // An agent that cannot read this is told the decision in a message.
    replies::answer(tx, asker, Ok(answer))?;
    Ok(Ok(()))
}

/// The open approvals that a session requested.
pub(crate) fn open_of(tx: &Tx<'_, '_>, session: SessionId) -> Result<Vec<(ApprovalId, Approval)>> {
    let mut open = Vec::new();
    for (Owned { id, .. }, ()) in tx.db.approvals_by_session.collect_prefix(tx, &session, usize::MAX)? {
        open.push((id, tx.db.approvals.require(tx, &id)?));
    }
    Ok(open)
}

/// Adds packages to the agent's image.
pub(crate) fn add_packages(
    tx: &mut Tx<'_, '_>,
    session: SessionId,
    apt: &[String],
    npm: &[String],
) -> Result<std::result::Result<(), String>> {
    let Some((id, mut agent)) = agent_of(tx, session)? else {
        return Ok(Err("install_packages approved but agent group missing.".to_owned()));
    };
    let known = &mut agent.settings.packages;
    for (known, wanted) in [(&mut known.apt, apt), (&mut known.npm, npm)] {
        for name in wanted {
            if !known.contains(name) {
                known.push(name.clone());
            }
        }
        if known.len() > PACKAGES_MAX {
            return Ok(Err(format!("an agent can have at most {PACKAGES_MAX} packages of each kind")));
        }
    }
    let packages = Packages { apt: apt.to_vec(), npm: npm.to_vec() };
    let names = names(&packages);
    if tx.cx.builds {
        // Live incarnations continue until an image with the packages exists.
        agent.installs.push(Install { session, packages });
        tx.db.agents.put(tx, &id, &agent)?;
        return Ok(Ok(()));
    }
    change(tx, id, &agent)?;
    let text = format!(
        "Packages added to config ({names}). They are installed when the agent's image is built the next time; an agent \
         that runs without an image gets none. Verify that the new packages are available (e.g. run them or check \
         versions) before you rely on them, and report the result to the user."
    );
    dispatch::send_text(tx, session, &text).map(|_| Ok(()))
}

/// Packages as a list for people.
pub(crate) fn names(packages: &Packages) -> String {
    packages.apt.iter().chain(&packages.npm).map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Adds an MCP server to the agent, replacing one of the same name.
pub(crate) fn add_server(
    tx: &mut Tx<'_, '_>,
    session: SessionId,
    server: &McpServer,
) -> Result<std::result::Result<(), String>> {
    let Some((id, mut agent)) = agent_of(tx, session)? else {
        return Ok(Err("add_mcp_server approved but agent group missing.".to_owned()));
    };
    if let Some(why) = variables::problem(tx, id, &agent, server)? {
        return Ok(Err(why));
    }
    let AgentSettings { mcp_servers, .. } = &mut agent.settings;
    mcp_servers.retain(|known| known.name != server.name);
    mcp_servers.push(server.clone());
    mcp_servers.sort_by(|a, b| a.name.cmp(&b.name));
    if mcp_servers.len() > SERVERS_MAX {
        return Ok(Err(format!("an agent has at most {SERVERS_MAX} MCP servers")));
    }
    change(tx, id, &agent)?;
    let text = format!(
        "MCP server \"{}\" added. Verify it's available (e.g. list your tools) and report the result to the user.",
        server.name
    );
    dispatch::send_text(tx, session, &text).map(|_| Ok(()))
}

/// Tells an agent that its request was not carried out.
pub(crate) fn denied(tx: &mut Tx<'_, '_>, about: &ApprovalSubject, denial: Denial<'_>) -> Result<()> {
    let Some(session) = about.session() else { return Ok(()) };
    if agent_of(tx, session)?.is_none() {
        return Ok(());
    }
    let action = action(about);
    let text = match denial {
        Denial::Rejected => format!("Your {action} request was rejected by admin."),
        Denial::Lapsed => format!("Your {action} request has expired: no one answered in time."),
        Denial::Impossible(why) => match about {
            ApprovalSubject::CreateAgent { .. } if why.starts_with(create::CANNOT) => why.to_owned(),
            _ => format!("Your {action} request was approved, but applying it failed: {why}"),
        },
    };
    dispatch::send_text(tx, session, &text).map(drop)
}

/// Stores a changed agent. Older incarnations end with their turns.
fn change(tx: &mut Tx<'_, '_>, id: AgentId, agent: &Agent) -> Result<()> {
    tx.db.agents.put(tx, &id, agent)?;
    rollout::agents(tx, &std::collections::BTreeSet::from([id]))
}

/// The agent of a session, unless it was removed.
pub(crate) fn agent_of(tx: &Tx<'_, '_>, session: SessionId) -> Result<Option<(AgentId, Agent)>> {
    let Some(session) = sessions::load(tx, session)? else { return Ok(None) };
    let agent = tx.db.agents.get(tx, &session.agent)?.filter(|agent| agent.archived.is_none());
    Ok(agent.map(|agent| (session.agent, agent)))
}

/// The name of the request in the agents' tools.
fn action(about: &ApprovalSubject) -> &'static str {
    match about {
        ApprovalSubject::Packages { .. } => "install_packages",
        ApprovalSubject::McpServer { .. } => "add_mcp_server",
        ApprovalSubject::CreateAgent { .. } => "create_agent",
        ApprovalSubject::Sender { .. } => "sender",
        ApprovalSubject::Channel { .. } => "channel",
        ApprovalSubject::Budget(_) => "budget",
        ApprovalSubject::Host(_) | ApprovalSubject::Hosts(_) => "host",
        ApprovalSubject::Tool(_) => "tool",
    }
}

fn submitted(about: &ApprovalSubject) -> String {
    let what = match about {
        ApprovalSubject::Packages { .. } => "Package install request submitted.".to_owned(),
        ApprovalSubject::McpServer { .. } => "MCP server request submitted.".to_owned(),
        ApprovalSubject::CreateAgent { name, .. } => format!("Request to create agent \"{name}\" submitted."),
        ApprovalSubject::Sender { .. }
        | ApprovalSubject::Channel { .. }
        | ApprovalSubject::Budget(_)
        | ApprovalSubject::Host(_)
        | ApprovalSubject::Hosts(_)
        | ApprovalSubject::Tool(_) => "Submitted.".to_owned(),
    };
    format!("{what} You will be notified when admin approves or rejects.")
}

fn decide_unavailable(action: &str, reason: Reason) -> String {
    match reason {
        Reason::ApprovalsFull => format!("{action} failed: too many requests wait for a decision."),
        _ => format!("{action} failed: no owner or admin who could approve it can be reached."),
    }
}
