//! What agents want changed about themselves: packages in their image, servers of tools. Somebody has to approve it.

use super::replies::{self, Asker};
use super::{Denial, create};
use crate::engine::json::{self, Field};
use crate::engine::{Cx, Result, approvals, notice, renew, sessions};
use crate::model::approval::{Approval, Matters};
use crate::model::effect::Effect;
use crate::model::entity::{Agent, AgentSettings, McpServer, Packages};
use crate::model::id::{AgentId, ApprovalId, SessionId};
use crate::model::message::Reason;
use crate::model::request::Install;
use crate::state::Write;

/// Decisions that one session may wait for.
const OPEN_MAX: usize = 10;
/// Servers of one agent.
const SERVERS_MAX: usize = 32;
/// Packages of one agent, of each kind.
const PACKAGES_MAX: usize = 200;

/// Asks whoever may decide; the agent is told that they were asked.
pub(super) fn ask(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (asker, about): (&Asker, Matters),
    effects: &mut Vec<Effect>,
) -> Result<std::result::Result<(), String>> {
    let action = action(&about);
    let submitted = submitted(&about);
    let open = open_of(cx, txn, asker.session)?;
    let asked_before = open.iter().find(|(_, approval)| approval.about == about).map(|(id, _)| *id);
    let id = match asked_before {
        // A turn that is begun again asks again; one card is enough.
        Some(id) => id,
        None if open.len() >= OPEN_MAX => return Ok(Err(decide_unavailable(action, Reason::ApprovalsFull))),
        None => match approvals::ask(cx, txn, about, effects)? {
            Ok(id) => id,
            Err(reason) => return Ok(Err(decide_unavailable(action, reason))),
        },
    };
    let id = id.to_string();
    let fields = [("status", "submitted"), ("approval", &id), ("text", &submitted)];
    let answer = json::object(&fields.map(|(name, text)| (name, Field::Text(text))));
    // Who cannot read this hears of the decision by a message of its own.
    replies::answer(cx, txn, asker, Ok(answer), effects)?;
    Ok(Ok(()))
}

/// What a session asked for that nobody has decided yet.
fn open_of(cx: &Cx<'_>, txn: &Write<'_>, session: SessionId) -> Result<Vec<(ApprovalId, Approval)>> {
    let mut open = Vec::new();
    for ((_, id), ()) in cx.db.approvals_due.collect_range(txn, .., cx.policy.rows_per_input)? {
        let approval = cx.db.approvals.require(txn, &id)?;
        if session_of(&approval.about) == Some(session) {
            open.push((id, approval));
        }
    }
    Ok(open)
}

/// Puts packages to those that the agent's image has.
pub(super) fn add_packages(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    session: SessionId,
    (apt, npm): (&[String], &[String]),
    effects: &mut Vec<Effect>,
) -> Result<std::result::Result<(), String>> {
    let Some((id, mut agent)) = agent_of(cx, txn, session)? else {
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
            return Ok(Err(format!("an agent has at most {PACKAGES_MAX} packages of a kind")));
        }
    }
    let packages = Packages { apt: apt.to_vec(), npm: npm.to_vec() };
    let names = names(&packages);
    if cx.builds {
        // What lives goes on as it is until there is an image with them.
        agent.installs.push(Install { session, packages });
        cx.db.agents.put(txn, &id, &agent)?;
        return Ok(Ok(()));
    }
    change(cx, txn, (id, &agent), effects)?;
    let text = format!(
        "Packages added to config ({names}). They are installed when the agent's image is built the next time; an agent \
         that runs without an image gets none. Verify that the new packages are available (e.g. run them or check \
         versions) before you rely on them, and report the result to the user."
    );
    notice::wake_agent(cx, txn, session, &text, effects).map(|_| Ok(()))
}

/// Packages as people read them.
pub(super) fn names(packages: &Packages) -> String {
    packages.apt.iter().chain(&packages.npm).map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Gives the agent a server of tools, in the place of one of the same name.
pub(super) fn add_server(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    session: SessionId,
    server: &McpServer,
    effects: &mut Vec<Effect>,
) -> Result<std::result::Result<(), String>> {
    let Some((id, mut agent)) = agent_of(cx, txn, session)? else {
        return Ok(Err("add_mcp_server approved but agent group missing.".to_owned()));
    };
    let AgentSettings { mcp_servers, .. } = &mut agent.settings;
    mcp_servers.retain(|known| known.name != server.name);
    mcp_servers.push(server.clone());
    mcp_servers.sort_by(|a, b| a.name.cmp(&b.name));
    if mcp_servers.len() > SERVERS_MAX {
        return Ok(Err(format!("an agent has at most {SERVERS_MAX} MCP servers")));
    }
    change(cx, txn, (id, &agent), effects)?;
    let text = format!(
        "MCP server \"{}\" added. Verify it's available (e.g. list your tools) and report the result to the user.",
        server.name
    );
    notice::wake_agent(cx, txn, session, &text, effects).map(|_| Ok(()))
}

/// Tells an agent that what it asked for was not done.
pub(super) fn denied(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    about: &Matters,
    denial: Denial<'_>,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let Some(session) = session_of(about) else { return Ok(()) };
    if agent_of(cx, txn, session)?.is_none() {
        return Ok(());
    }
    let action = action(about);
    let text = match denial {
        Denial::Rejected => format!("Your {action} request was rejected by admin."),
        Denial::Lapsed => format!("Your {action} request has lapsed: nobody answered in time."),
        Denial::Impossible(why) => match about {
            Matters::CreateAgent { .. } if why.starts_with(create::CANNOT) => why.to_owned(),
            _ => format!("Your {action} request was approved, but applying it failed: {why}"),
        },
    };
    notice::wake_agent(cx, txn, session, &text, effects).map(drop)
}

/// Stores an agent that was changed; incarnations that began before it end with their turns.
fn change(cx: &Cx<'_>, txn: &mut Write<'_>, (id, agent): (AgentId, &Agent), effects: &mut Vec<Effect>) -> Result<()> {
    cx.db.agents.put(txn, &id, agent)?;
    renew::agents(cx, txn, &std::collections::BTreeSet::from([id]), effects)
}

/// The agent of a session, unless it was removed.
pub(super) fn agent_of(cx: &Cx<'_>, txn: &Write<'_>, session: SessionId) -> Result<Option<(AgentId, Agent)>> {
    let Some(session) = sessions::load(cx, txn, session)? else { return Ok(None) };
    let agent = cx.db.agents.get(txn, &session.agent)?.filter(|agent| agent.archived.is_none());
    Ok(agent.map(|agent| (session.agent, agent)))
}

fn session_of(about: &Matters) -> Option<SessionId> {
    match about {
        Matters::Packages { session, .. }
        | Matters::McpServer { session, .. }
        | Matters::CreateAgent { session, .. } => Some(*session),
        Matters::Sender { .. } | Matters::Channel { .. } => None,
    }
}

/// The word by which agents know what they asked for.
fn action(about: &Matters) -> &'static str {
    match about {
        Matters::Packages { .. } => "install_packages",
        Matters::McpServer { .. } => "add_mcp_server",
        Matters::CreateAgent { .. } => "create_agent",
        Matters::Sender { .. } => "sender",
        Matters::Channel { .. } => "channel",
    }
}

fn submitted(about: &Matters) -> String {
    let what = match about {
        Matters::Packages { .. } => "Package install request submitted.".to_owned(),
        Matters::McpServer { .. } => "MCP server request submitted.".to_owned(),
        Matters::CreateAgent { name, .. } => format!("Request to create agent \"{name}\" submitted."),
        Matters::Sender { .. } | Matters::Channel { .. } => "Submitted.".to_owned(),
    };
    format!("{what} You will be notified when admin approves or rejects.")
}

fn decide_unavailable(action: &str, reason: Reason) -> String {
    match reason {
        Reason::ApprovalsFull => format!("{action} failed: too many requests wait for a decision."),
        _ => format!("{action} failed: no owner or admin who could approve it can be reached."),
    }
}
