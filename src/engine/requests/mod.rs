//! Agents' requests to the host: questions to people and about themselves, changes of themselves, new agents. Also their messages to each
//! other.

use crate::Result;
use crate::lifecycle::replies;
use crate::lifecycle::replies::Asker;
use crate::model::address::Address;
use crate::model::approval::{Approval, ApprovalSubject, Decider};
use crate::model::content::RawJson;
use crate::model::id::{ApprovalId, MessageId, OutboundId, SessionId};
use crate::model::mailbox::Said;
use crate::model::request::Request;
use crate::requests::peers::Peer;
use crate::rows::{agents, notes, sessions};
use crate::rules::json;
use crate::rules::json::Field;
use crate::tx::Tx;

pub(crate) mod about;
pub(crate) mod built;
pub(crate) mod create;
pub(crate) mod edits;
pub(crate) mod host_floods;
pub(crate) mod hosts;
pub(crate) mod peers;
pub(crate) mod questions;
pub(crate) mod recall;
pub(crate) mod self_change;
pub(crate) mod tasks;
pub(crate) mod tool_calls;
pub(crate) mod variables;

/// The result of processing one output of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// Stored for sending.
    Stored(OutboundId),
    /// A request that is in progress. Its answer follows separately.
    Served,
    /// Given to another agent, or dropped with a notice.
    Carried(OutboundId),
    Known,
    /// Not allowed, or not allowed there. It is stored as refused.
    Refused(String),
}

/// Where a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResolvedRecipient {
    Chat(Address),
    /// To another agent.
    Peer(Peer),
}

/// Starts serving a request: shows a question, changes tasks, or asks for an approval. `to` is where a question would
/// be shown, and `message` is what the agent works on. Refused with a reason if that is impossible.
pub(crate) fn serve(
    tx: &mut Tx<'_, '_>,
    asker: &Asker,
    request: Request,
    message: Option<MessageId>,
    to: std::result::Result<ResolvedRecipient, String>,
) -> Result<std::result::Result<(), String>> {
    let session = asker.session;
    let about = match request {
        Request::Question(question) => {
            return match to {
                Ok(ResolvedRecipient::Chat(to)) => questions::ask(tx, asker, to, question),
                Ok(ResolvedRecipient::Peer(_)) => {
                    Ok(Err("a question is for people: another agent cannot be asked".to_owned()))
                }
                Err(why) => Ok(Err(format!("there is no chat to ask in: {why}"))),
            };
        }
        Request::Tasks(wanted) => return tasks::serve(tx, asker, wanted, to),
        Request::About(topic) => return about::serve(tx, asker, topic),
        Request::UseTool(call) => return tool_calls::ask(tx, asker, message, &call),
        Request::ToolCalls(calls) => return tool_calls::record(tx, session, message, &calls).map(Ok),
        Request::Recall(wanted) => return recall::serve(tx, asker, &wanted),
        Request::InstallPackages { packages, reason } => {
            ApprovalSubject::Packages { session, apt: packages.apt, npm: packages.npm, reason }
        }
        Request::AddMcpServer(server) => {
            if let Some((id, agent)) = self_change::agent_of(tx, session)?
                && let Some(why) = variables::problem(tx, id, &agent, &server)?
            {
                return Ok(Err(format!("add_mcp_server failed: {why}")));
            }
            ApprovalSubject::McpServer { session, server }
        }
        Request::CreateAgent { name, instructions } => {
            if let Err(why) = create::plan(tx, session, &name)? {
                return Ok(Err(why));
            }
            ApprovalSubject::CreateAgent { session, name, instructions }
        }
    };
    self_change::ask(tx, asker, about)
}

/// Tells an agent the result of one of its outputs, if the agent waits for the result or has to know it.
pub(crate) fn tell_outcome(tx: &mut Tx<'_, '_>, session: SessionId, said: &Said, accepted: &Accepted) -> Result<()> {
    let number = || json::object(&[("number", Field::Number(said.number))]);
    let outcome: std::result::Result<Option<RawJson>, &String> = match accepted {
        // The request's own handler answers it.
        Accepted::Known | Accepted::Served => Ok(None),
        Accepted::Stored(_) | Accepted::Carried(_) => Ok(Some(number())),
        Accepted::Refused(why) => Err(why),
    };
    let answer = match outcome {
        Ok(None) => return Ok(()),
        Ok(Some(number)) => Ok(number),
        Err(why) => Err(why.clone()),
    };
    if let Some(request) = said.request.clone() {
        let asker = Asker { session, incarnation: said.incarnation, number: said.number, request };
        if replies::answer(tx, &asker, answer.clone())? {
            return Ok(());
        }
    }
    let Err(why) = answer else { return Ok(()) };
    let removed = match sessions::load(tx, session)? {
        Some(row) => agents::is_removed(tx, row.agent)?,
        None => true,
    };
    let what = if said.request.is_some() { "Your request" } else { "Your message" };
    if removed {
        Ok(())
    } else {
        notes::tell_agent(tx, session, &format!("{what} #{} was refused: {why}", said.number))
    }
}

/// Carries out an approved request. If it is no longer possible, returns the reason, and the approval is superseded.
/// The caller updates row, card and index of the approval.
pub(crate) fn granted(
    tx: &mut Tx<'_, '_>,
    _id: ApprovalId,
    approval: &Approval,
    _by: &Decider,
) -> Result<std::result::Result<(), String>> {
    match &approval.about {
        ApprovalSubject::Packages { session, apt, npm, .. } => self_change::add_packages(tx, *session, apt, npm),
        ApprovalSubject::McpServer { session, server } => self_change::add_server(tx, *session, server),
        ApprovalSubject::CreateAgent { session, name, instructions } => {
            create::create(tx, *session, name, instructions.as_deref())
        }
        ApprovalSubject::Sender { .. }
        | ApprovalSubject::Channel { .. }
        | ApprovalSubject::Budget(_)
        | ApprovalSubject::Host(_)
        | ApprovalSubject::Hosts(_)
        | ApprovalSubject::Tool(_) => Ok(Err("no agent asked for this".to_owned())),
    }
}

/// Why an agent's request was not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denial<'a> {
    /// An approver rejected it.
    Rejected,
    /// It expired before a decision.
    Lapsed,
    /// It is not possible any more.
    Impossible(&'a str),
}

/// Tells an agent that its request was not granted, and why.
pub(crate) fn denied(tx: &mut Tx<'_, '_>, _id: ApprovalId, approval: &Approval, denial: Denial<'_>) -> Result<()> {
    self_change::denied(tx, &approval.about, denial)
}
