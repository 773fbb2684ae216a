//! Tool calls that agents ask about.
//!
//! A decision belongs to a session, a message, and the digest of tool and input. An approval is good for one execution:
//! the commit that passes it on marks it as used, and the tool starts after that. So if anything dies, either the
//! approval is unused and the next run gets it without a question, or the tool may have run and a person is asked again,
//! with a notice.

use crate::approvals::send;
use crate::lifecycle::replies;
use crate::lifecycle::replies::Asker;
use crate::model::approval::{Approval, ApprovalState, ApprovalSubject};
use crate::model::content::RawJson;
use crate::model::id::{AgentId, ApprovalId, MessageId, SessionId, TaskId};
use crate::model::incarnation::{Incarnation, IncarnationId, Phase};
use crate::model::journal::{Event, JournalEntry};
use crate::model::message::MessageState;
use crate::model::tool::{
    NewToolCall, ToolAsker, ToolBasis, ToolCall, ToolOutcome, ToolRequest, ToolUsed, grants_text,
};
use crate::rows::{approvals, journal, messages, notes, sessions, tool_grants};
use crate::rules::json;
use crate::rules::json::Field;
use crate::state::Owned;
use crate::tx::Tx;
use crate::{Result, approvals as asking, readable};

/// Maximum number of open questions about tools per session.
const OPEN_MAX: usize = 16;
/// Requests of a session that are searched for an earlier decision.
const BACK_MAX: usize = 200;
/// Channel of people at this machine.
const TERMINAL: &str = "terminal";

/// A tool call, and who asks about it.
struct Question<'a> {
    asker: &'a Asker,
    agent: AgentId,
    message: Option<MessageId>,
    /// The task that the message belongs to.
    task: Option<TaskId>,
    call: &'a NewToolCall,
}

/// Answers with an earlier decision or a grant, or asks a person.
pub(crate) fn ask(
    tx: &mut Tx<'_, '_>,
    asker: &Asker,
    message: Option<MessageId>,
    call: &NewToolCall,
) -> Result<std::result::Result<(), String>> {
    let Some(row) = sessions::load(tx, asker.session)? else { return Ok(Err("the session is gone".to_owned())) };
    let task = match message {
        Some(message) => readable(tx.db.messages.get(tx, &message))?.and_then(|row| row.slot).map(|slot| slot.task),
        None => None,
    };
    let question = Question { asker, agent: row.agent, message, task, call };
    if let Some(pattern) = granted(tx, &question)? {
        let fields = [("verdict", Field::Text("allow")), ("granted", Field::Text(&pattern))];
        replies::answer(tx, asker, Ok(json::object(&fields)))?;
        return Ok(Ok(()));
    }
    let mut earlier = None;
    for (id, approval, request) in asked_before(tx, &question)? {
        if approval.state.is_open() {
            if waits(tx, &request)? {
                continue;
            }
            return adopt(tx, id, asker).map(Ok);
        }
        match (&approval.state, &request.used) {
            (ApprovalState::Approved { .. }, None)
            | (ApprovalState::Rejected { .. } | ApprovalState::Expired { .. }, _) => {
                adopt(tx, id, asker)?;
                return pass_on(tx, id).map(Ok);
            }
            (ApprovalState::Approved { .. }, Some(used)) => {
                let outcome = used.outcome.unwrap_or(ToolOutcome::Unknown);
                // In the same run, a call that is over is followed by another one on purpose.
                let is_over = used.incarnation == asker.incarnation && outcome != ToolOutcome::Unknown;
                earlier = Some(outcome).filter(|_| !is_over);
                break;
            }
            _ => {}
        }
    }
    new_question(tx, &question, earlier).map(Ok)
}

/// The pattern by which a person allowed the call in advance.
fn granted(tx: &Tx<'_, '_>, question: &Question<'_>) -> Result<Option<String>> {
    let Question { asker, agent, call, .. } = question;
    let mut patterns = tool_grants::of_session(tx.db, tx, *agent, asker.session)?;
    if let Some(task) = question.task {
        patterns.extend(tool_grants::of_task(tx, *agent, task)?);
    }
    let allows = |pattern: &String| grants_text(pattern, &call.tool, call.input.as_str(), &call.folder);
    Ok(patterns.into_iter().find(allows))
}

/// Approvals of the same call of the same message, newest first.
fn asked_before(tx: &Tx<'_, '_>, question: &Question<'_>) -> Result<Vec<(ApprovalId, Approval, ToolRequest)>> {
    let mut found = Vec::new();
    for (Owned { id, .. }, ()) in tx.db.tool_requests.collect_last(tx, &question.asker.session, BACK_MAX)? {
        let Some(approval) = readable(tx.db.approvals.get(tx, &id))? else { continue };
        let ApprovalSubject::Tool(request) = &approval.about else { continue };
        let is_same = request.message == question.message
            && request.digest == question.call.digest
            && request.folder == question.call.folder;
        if is_same {
            let request = request.as_ref().clone();
            found.push((id, approval, request));
        }
    }
    Ok(found)
}

/// Whether the run that asked is known to wait for the answer. A run of an earlier daemon may have died with it, until
/// the runtime reports it.
fn waits(tx: &Tx<'_, '_>, request: &ToolRequest) -> Result<bool> {
    let run = IncarnationId::new(request.session, request.asker.incarnation);
    let now = tx.now.awake.run();
    let works = |row: &Incarnation| matches!(row.phase, Phase::Starting | Phase::Running) && row.run() == now;
    if !readable(tx.db.incarnations.get(tx, &run))?.is_some_and(|row| works(&row)) {
        return Ok(false);
    }
    let Some(message) = request.message else { return Ok(true) };
    let message = readable(tx.db.messages.get(tx, &message))?;
    Ok(message.is_some_and(|row| match row.state {
        MessageState::Claimed { incarnation, .. } => incarnation == run.number,
        // Its claim may be collected later than the question.
        MessageState::Pending(_) => row.failed_in < run.number,
        _ => false,
    }))
}

/// Makes a later run the one that waits: people are not asked twice.
fn adopt(tx: &mut Tx<'_, '_>, id: ApprovalId, asker: &Asker) -> Result<()> {
    change(tx, id, |request| request.asker = waiting(asker))
}

fn waiting(asker: &Asker) -> ToolAsker {
    ToolAsker { incarnation: asker.incarnation, number: asker.number, request: asker.request.clone() }
}

fn change(tx: &mut Tx<'_, '_>, id: ApprovalId, change: impl FnOnce(&mut ToolRequest)) -> Result<()> {
    approvals::update(tx, id, |approval| {
        if let ApprovalSubject::Tool(request) = &mut approval.about {
            change(request);
        }
    })
    .map(drop)
}

/// Asks a person, or denies the call if no one can be asked.
fn new_question(tx: &mut Tx<'_, '_>, question: &Question<'_>, earlier: Option<ToolOutcome>) -> Result<()> {
    let Question { asker, agent, message, task, call } = *question;
    let open = tx.db.approvals_by_session.collect_prefix(tx, &asker.session, usize::MAX)?;
    if open.len() >= OPEN_MAX {
        return deny(tx, asker, None, "too many questions of this session are open");
    }
    let about = ApprovalSubject::Tool(Box::new(ToolRequest {
        session: asker.session,
        message,
        tool: call.tool.clone(),
        folder: call.folder.clone(),
        fields: call.fields.clone(),
        digest: call.digest.clone(),
        pattern: call.pattern.clone(),
        earlier,
        asker: waiting(asker),
        used: None,
        reason: None,
    }));
    // No one sits at a terminal for a scheduled task.
    let can_be_asked =
        send::reachable(tx, &about)?.iter().any(|(user, _)| task.is_none() || user.channel().as_str() != TERMINAL);
    if can_be_asked && asking::ask::ask(tx, about)?.is_ok() {
        return Ok(());
    }
    let folder = tx.db.agents.get(tx, &agent)?.map_or_else(String::new, |agent| agent.folder.to_string());
    if let Some(task) = task {
        let pattern = call.pattern.clone().unwrap_or_else(|| call.tool.clone());
        let pattern = crate::model::visible::exact(&pattern);
        let what = format!("The scheduled task {task} of {folder} may not use the tool {}.", call.tool);
        let more = format!(
            "Its rules ask about this call, and no one could be asked. To allow it in runs of this task: `hearth agents \
             rules add {folder} PATTERN --task {task}`, with a pattern such as {pattern}."
        );
        crate::delivery::notice::tell_owner_of_failure(tx, &what, &more)?;
    }
    deny(tx, asker, None, "no one who may decide about it can be asked")
}

fn deny(tx: &mut Tx<'_, '_>, asker: &Asker, id: Option<ApprovalId>, reason: &str) -> Result<()> {
    let answer = denial(id, reason);
    replies::answer(tx, asker, Ok(answer)).map(drop)
}

fn denial(id: Option<ApprovalId>, reason: &str) -> RawJson {
    let id = id.map(|id| id.to_string());
    let mut fields = vec![("verdict", Field::Text("deny")), ("reason", Field::Text(reason))];
    fields.extend(id.as_deref().map(|id| ("approval", Field::Text(id))));
    json::object(&fields)
}

/// Gives a decision to the run that waits for it. The approval is used from then on. Without such a run, the next one that
/// asks about the same call gets the decision.
pub(crate) fn pass_on(tx: &mut Tx<'_, '_>, id: ApprovalId) -> Result<()> {
    let Some(approval) = tx.db.approvals.get(tx, &id)? else { return Ok(()) };
    let ApprovalSubject::Tool(request) = &approval.about else { return Ok(()) };
    if !waits(tx, request)? {
        return Ok(());
    }
    let ToolAsker { incarnation, number, request: name } = request.asker.clone();
    let asker = Asker { session: request.session, incarnation, number, request: name };
    let reason = match (&approval.state, &request.reason) {
        (ApprovalState::Approved { .. }, _) => {
            let at = tx.now.wall;
            change(tx, id, |request| request.used = Some(ToolUsed { incarnation, at, outcome: None }))?;
            let id = id.to_string();
            let fields = [("verdict", Field::Text("allow")), ("approval", Field::Text(&id))];
            return replies::answer(tx, &asker, Ok(json::object(&fields))).map(drop);
        }
        (ApprovalState::Rejected { .. }, Some(reason)) => format!("A person said no: {reason}"),
        (ApprovalState::Rejected { .. }, None) => "A person said no.".to_owned(),
        (ApprovalState::Expired { .. }, _) => {
            let minutes = approval.expires.since(approval.created).get() / 60_000;
            format!("No one answered the question about it within {minutes} minutes.")
        }
        _ => "The question about it was withdrawn.".to_owned(),
    };
    deny(tx, &asker, Some(id), &reason)
}

/// A run of an earlier daemon goes on: it gets what was decided before that was known.
pub(crate) fn adopted(tx: &mut Tx<'_, '_>, run: IncarnationId) -> Result<()> {
    for (Owned { id, .. }, ()) in tx.db.tool_requests.collect_last(tx, &run.session, BACK_MAX)? {
        let Some(approval) = readable(tx.db.approvals.get(tx, &id))? else { continue };
        let ApprovalSubject::Tool(request) = &approval.about else { continue };
        if !approval.state.is_open() && request.used.is_none() {
            pass_on(tx, id)?;
        }
    }
    Ok(())
}

/// The open questions about the tool calls of a message; without one, those that no message asked.
pub(crate) fn open_of(tx: &Tx<'_, '_>, session: SessionId, message: Option<MessageId>) -> Result<Vec<ApprovalId>> {
    let mut found = Vec::new();
    for (Owned { id, .. }, ()) in tx.db.approvals_by_session.collect_prefix(tx, &session, usize::MAX)? {
        let approval = readable(tx.db.approvals.get(tx, &id))?;
        let about = approval.as_ref().map(|approval| &approval.about);
        if matches!(about, Some(ApprovalSubject::Tool(request)) if request.message == message) {
            found.push(id);
        }
    }
    Ok(found)
}

/// A run is gone: tells the next one which of the calls that it was allowed may or may not have run.
pub(crate) fn lost(tx: &mut Tx<'_, '_>, run: IncarnationId) -> Result<()> {
    for (Owned { id, .. }, ()) in tx.db.tool_requests.collect_last(tx, &run.session, BACK_MAX)? {
        let Some(approval) = readable(tx.db.approvals.get(tx, &id))? else { continue };
        let ApprovalSubject::Tool(request) = &approval.about else { continue };
        // Calls of earlier runs got an outcome when those runs ended.
        if request.used.as_ref().is_none_or(|used| used.outcome.is_some()) {
            continue;
        }
        let (tool, message) = (request.tool.clone(), request.message);
        change(tx, id, |request| {
            if let Some(used) = &mut request.used {
                used.outcome = Some(ToolOutcome::Unknown);
            }
        })?;
        let is_open = match message {
            Some(message) => readable(tx.db.messages.get(tx, &message))?.is_some_and(|row| messages::is_open(&row)),
            None => true,
        };
        if is_open {
            let text = format!(
                "Your last run ended after a person had allowed its call of the tool {tool} ({id}). The call may or may not \
                 have run. Find out what it did before you call it again; you will be asked to wait for a person again."
            );
            notes::tell_agent(tx, run.session, &text)?;
        }
    }
    Ok(())
}

/// Records tool calls that are over.
pub(crate) fn record(
    tx: &mut Tx<'_, '_>,
    session: SessionId,
    message: Option<MessageId>,
    calls: &[ToolCall],
) -> Result<()> {
    for call in calls {
        let mut call = call.clone();
        if let ToolBasis::Asked { approval, by } = &mut call.basis {
            *by = settle(tx, session, *approval, call.outcome)?;
        }
        let event = Event::ToolCalled(Box::new(call));
        let session = Some(session).filter(|_| message.is_none());
        journal::general(tx, JournalEntry { at: tx.now.wall, message, session, event })?;
    }
    Ok(())
}

/// Records how an approved call ended. Returns who had decided.
fn settle(
    tx: &mut Tx<'_, '_>,
    session: SessionId,
    id: ApprovalId,
    outcome: ToolOutcome,
) -> Result<Option<crate::model::approval::Decider>> {
    let Some(approval) = readable(tx.db.approvals.get(tx, &id))? else { return Ok(None) };
    let ApprovalSubject::Tool(request) = &approval.about else { return Ok(None) };
    if request.session != session {
        return Ok(None);
    }
    if request.used.as_ref().is_some_and(|used| used.outcome.is_none()) {
        change(tx, id, |request| {
            if let Some(used) = &mut request.used {
                used.outcome = Some(outcome);
            }
        })?;
    }
    Ok(match approval.state {
        ApprovalState::Approved { by, .. } | ApprovalState::Rejected { by, .. } => Some(by),
        _ => None,
    })
}
