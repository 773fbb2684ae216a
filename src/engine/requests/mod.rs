//! What agents ask of the host: questions to people, changes of themselves, new agents; and what they say to each other.

use super::{Cx, Result, notice, remove, sessions};
use crate::model::approval::{Approval, Decider, Matters};
use crate::model::content::RawJson;
use crate::model::effect::Effect;
use crate::model::id::{ApprovalId, SessionId};
use crate::model::mailbox::Said;
use crate::model::request::Request;
use crate::state::Write;

pub(super) mod acts;
mod built;
mod create;
mod own;
pub(super) mod peers;
mod questions;
pub(super) mod replies;
mod tasks;

use super::json::{self, Field};
use super::outbox::{Accepted, Place};
pub(super) use built::built;
pub(super) use questions::{card_settled, decide, expire, pressed};
use replies::Asker;

/// Serves a request: asked of people, or of whoever may decide. `to` is where a question would be shown. Refused with the
/// reason if it cannot be.
pub(super) fn serve(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (asker, request): (&Asker, Request),
    to: std::result::Result<Place, String>,
    effects: &mut Vec<Effect>,
) -> Result<std::result::Result<(), String>> {
    let session = asker.session;
    let about = match request {
        Request::Question(question) => {
            return match to {
                Ok(Place::Chat(to)) => questions::ask(cx, txn, (asker, to), question, effects),
                Ok(Place::Peer(_)) => Ok(Err("a question is for people: another agent cannot be asked".to_owned())),
                Err(why) => Ok(Err(format!("there is no chat to ask in: {why}"))),
            };
        }
        Request::Tasks(wanted) => return tasks::serve(cx, txn, (asker, wanted), to, effects),
        Request::InstallPackages { packages, reason } => {
            Matters::Packages { session, apt: packages.apt, npm: packages.npm, reason }
        }
        Request::AddMcpServer(server) => Matters::McpServer { session, server },
        Request::CreateAgent { name, instructions } => {
            if let Err(why) = create::plan(cx, txn, session, &name)? {
                return Ok(Err(why));
            }
            Matters::CreateAgent { session, name, instructions }
        }
    };
    own::ask(cx, txn, (asker, about), effects)
}

/// Tells an agent what became of something it said, if it waits for that, or has to know.
pub(super) fn tell_outcome(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (session, said): (SessionId, &Said),
    accepted: &Accepted,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let number = || json::object(&[("number", Field::Number(said.number))]);
    let outcome: std::result::Result<Option<RawJson>, &String> = match accepted {
        // A request is answered by whoever serves it.
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
        if replies::answer(cx, txn, &asker, answer.clone(), effects)? {
            return Ok(());
        }
    }
    let Err(why) = answer else { return Ok(()) };
    let removed = match sessions::load(cx, txn, session)? {
        Some(row) => remove::is_removed(cx, txn, row.agent)?,
        None => true,
    };
    let what = if said.request.is_some() { "Your request" } else { "Your message" };
    if removed {
        Ok(())
    } else {
        notice::tell_agent(cx, txn, session, &format!("{what} #{} was refused: {why}", said.number))
    }
}

/// Carries out what an agent asked for and somebody approved. Why it cannot be done any more, if it cannot: the approval
/// is superseded then. Row, card and index of the approval are the caller's.
pub(super) fn granted(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (_id, approval): (ApprovalId, &Approval),
    _by: &Decider,
    effects: &mut Vec<Effect>,
) -> Result<std::result::Result<(), String>> {
    match &approval.about {
        Matters::Packages { session, apt, npm, .. } => own::add_packages(cx, txn, *session, (apt, npm), effects),
        Matters::McpServer { session, server } => own::add_server(cx, txn, *session, server, effects),
        Matters::CreateAgent { session, name, instructions } => {
            create::create(cx, txn, *session, (name, instructions.as_deref()), effects)
        }
        Matters::Sender { .. } | Matters::Channel { .. } => Ok(Err("no agent asked for this".to_owned())),
    }
}

/// Why an agent does not get what it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denial<'a> {
    /// Somebody said no.
    Rejected,
    /// Nobody answered in time.
    Lapsed,
    /// It could not be done any more.
    Impossible(&'a str),
}

/// Tells an agent that it does not get what it asked for, and why.
pub(super) fn denied(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (_id, approval): (ApprovalId, &Approval),
    denial: Denial<'_>,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    own::denied(cx, txn, &approval.about, denial, effects)
}
