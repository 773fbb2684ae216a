//! Messages that somebody in an agent group has begun to answer, and those that nobody went on with.
//!
//! The file has one slot for them; the rows are all of them. The slot shows the one that was begun last, so that a second
//! message does not erase the first: that one is shown again when the second is over. Who clears the slot clears what it
//! showed, unless Hearth knows that this one is still being worked on and another one was answered.

use super::merge::{self, PENDING};
use super::{own, state};
use crate::engine::{Cx, Result, notice, readable, remove, sessions};
use crate::model::content::RawJson;
use crate::model::delivery::Author;
use crate::model::effect::Effect;
use crate::model::group::{
    DocumentPending, FieldName, PendingResponse, PendingState, StateDocument, StateField, StateFile, StatePart,
};
use crate::model::id::{AgentId, MessageId, SessionId};
use crate::model::message::{Message, MessageState};
use crate::model::session::SessionStatus;
use crate::state::{ForeignKey, Read, Write};

/// An empty slot.
pub(super) const NOTHING: &str = "null";
/// Sessions of an agent among which a message is looked for, the newest ones.
const SESSIONS_MAX: usize = 50;
/// Messages of Hearth and agents about one message that are looked at.
const ANSWERS_MAX: usize = 20;

/// What is known of a message that somebody has begun to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It waits, or an incarnation works on it.
    Open,
    /// It has an answer, or people know that there will be none.
    Over,
    /// Its turn ended, and nothing was said about it.
    Unanswered(SessionId),
    /// Hearth does not know it.
    Unknown,
}

/// Takes in the slot of a file. `before` is its field as it was; what it is to show is stored.
pub(super) fn take_in(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, file): (AgentId, &mut StateFile),
    (before, theirs): (&StateField, Option<&StateDocument>),
) -> Result<()> {
    let Some(theirs) = theirs else { return Ok(()) };
    let value = theirs.fields.iter().find(|field| field.part == StatePart::Top && field.name == before.name);
    let Some(value) = value.map(|field| &field.value) else { return Ok(()) };
    if before.known.iter().flatten().any(|known| known == value) {
        return Ok(());
    }
    match &theirs.pending {
        Some(pending) => begin(cx, txn, (agent, file), pending).map(drop),
        None => clear_slot(cx, txn, agent, before),
    }
}

/// Notes that somebody has begun to answer a message. False if it is over, as this entry itself has told before.
pub(super) fn begin(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, file): (AgentId, &mut StateFile),
    pending: &DocumentPending,
) -> Result<bool> {
    let key = ForeignKey::of(&pending.message);
    let there = cx.db.pending_responses.get(txn, &(agent, key))?;
    if there.is_some_and(|row| row.state != PendingState::Waiting && row.value == pending.value) {
        return Ok(false);
    }
    let since = pending.reacted.map_or(cx.now.wall, |reacted| reacted.min(cx.now.wall));
    let row = PendingResponse {
        message: pending.message.clone(),
        value: pending.value.clone(),
        position: merge::next(file),
        since,
        due: since.plus(cx.policy.response_max),
        state: PendingState::Waiting,
    };
    put(cx, txn, agent, &row)?;
    let waiting = waiting(cx, txn, agent)?;
    for row in waiting.iter().take(waiting.len().saturating_sub(cx.policy.responses_max)) {
        end(cx, txn, (agent, row), PendingState::GivenUp)?;
    }
    Ok(true)
}

/// Lets the slot show what was begun last.
pub(super) fn show(cx: &Cx<'_>, txn: &mut Write<'_>, (agent, file): (AgentId, &mut StateFile)) -> Result<()> {
    let newest = waiting(cx, txn, agent)?.pop().map(|row| row.value);
    let name = FieldName::of(PENDING);
    let key = (agent, StatePart::Top, ForeignKey::of(&name));
    if newest.is_none() && !cx.db.state_fields.contains(txn, &key)? {
        return Ok(());
    }
    let before = state::ensure_top(cx, txn, (agent, file), (PENDING, NOTHING))?;
    let value = Some(newest.unwrap_or_else(|| RawJson::trusted(NOTHING.to_owned())));
    if value == before.value {
        return Ok(());
    }
    let row = StateField { value, changed: cx.now.wall, ..before.clone() };
    merge::put(cx, txn, (agent, StatePart::Top), &before, &row)
}

/// Looks at what has waited too long: what is answered is cleared, what is worked on gets more time, of everything else
/// the agent is told, once. Nothing has waited long by a clock that has just jumped ahead.
pub(in crate::engine) fn due(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    if !cx.steady {
        return Ok(());
    }
    let until = (cx.now.wall.plus(crate::model::time::Millis::new(1)), AgentId::new(0), ForeignKey::least());
    for ((_, agent, key), ()) in
        cx.db.pending_responses_due.collect_range(txn, ..until, cx.policy.rows_per_input / 8)?
    {
        cx.apart(txn, effects, |txn, effects| {
            let row = cx.db.pending_responses.require(txn, &(agent, key))?;
            one_due(cx, txn, (agent, row), effects)
        })?;
    }
    Ok(())
}

fn one_due(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, row): (AgentId, PendingResponse),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    if row.state != PendingState::Waiting || remove::is_removed(cx, txn, agent)? {
        return delete(cx, txn, agent, &row);
    }
    let state = match standing(cx, txn, agent, &row)? {
        Standing::Open => {
            let due = cx.now.wall.plus(cx.policy.response_max);
            return put(cx, txn, agent, &PendingResponse { due, ..row });
        }
        Standing::Over => PendingState::Answered,
        Standing::Unanswered(session) => tell(cx, txn, (session, &row), effects)?,
        Standing::Unknown => match last_session(cx, txn, agent)? {
            Some(session) => tell(cx, txn, (session, &row), effects)?,
            None => {
                notice::tell_owner(cx, txn, &nobody_went_on(cx, txn, agent, &row)?, effects)?;
                PendingState::GivenUp
            }
        },
    };
    end(cx, txn, (agent, &row), state)?;
    own::shared(cx, txn, agent, effects, |txn, file| show(cx, txn, (agent, file)))
}

/// Wakes the agent with what it has left undone.
fn tell(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (session, row): (SessionId, &PendingResponse),
    effects: &mut Vec<Effect>,
) -> Result<PendingState> {
    let text = format!(
        "You noted in session-state.json that you had begun to answer the message {}, at {}, and nothing says that you did. \
         If it has no answer yet, answer it now, or say that you lost what you knew of it; otherwise there is nothing to do. \
         The note was: {} It is cleared now.",
        shown(&row.message),
        row.since,
        shown(row.value.as_str()),
    );
    notice::wake_agent(cx, txn, session, &text, effects)?;
    Ok(PendingState::Told)
}

fn nobody_went_on(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId, row: &PendingResponse) -> Result<String> {
    let folder = readable(cx.db.agents.get(txn, &agent))?.map_or_else(String::new, |agent| agent.folder.to_string());
    Ok(format!(
        "Agent {folder} began to answer the message {} at {}, and nothing says that it did. It has no session that could \
         be asked.",
        shown(&row.message),
        row.since
    ))
}

/// A part of what an agent wrote, on one line.
fn shown(text: &str) -> String {
    notice::shortened(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The slot was emptied by somebody else.
fn clear_slot(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, before: &StateField) -> Result<()> {
    let mut waiting = waiting(cx, txn, agent)?;
    let place = waiting.iter().rposition(|row| before.known.iter().flatten().any(|known| *known == row.value));
    let slot = place.map(|place| waiting.remove(place)).or_else(|| waiting.pop());
    let Some(slot) = slot else { return Ok(()) };
    let mut answered = false;
    for row in &waiting {
        if standing(cx, txn, agent, row)? == Standing::Over {
            end(cx, txn, (agent, row), PendingState::Answered)?;
            answered = true;
        }
    }
    if answered && standing(cx, txn, agent, &slot)? == Standing::Open {
        return Ok(());
    }
    end(cx, txn, (agent, &slot), PendingState::Cleared)
}

/// What waits, the newest one last.
fn waiting(cx: &Cx<'_>, txn: &Read<'_>, agent: AgentId) -> Result<Vec<PendingResponse>> {
    let rows = cx.db.pending_responses.collect_prefix(txn, &agent, cx.policy.rows_per_input)?;
    let mut waiting: Vec<_> =
        rows.into_iter().map(|(_, row)| row).filter(|row| row.state == PendingState::Waiting).collect();
    waiting.sort_by_key(|row| row.position);
    Ok(waiting)
}

fn standing(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId, row: &PendingResponse) -> Result<Standing> {
    let Some((id, message)) = find(cx, txn, agent, row)? else { return Ok(Standing::Unknown) };
    Ok(match message.state {
        MessageState::Pending(_) | MessageState::Claimed { .. } => Standing::Open,
        MessageState::Failed { .. } | MessageState::Dropped { .. } => Standing::Over,
        MessageState::Completed { .. } if is_answered(cx, txn, id)? => Standing::Over,
        MessageState::Completed { .. } => match readable(sessions::load(cx, txn, message.session))? {
            Some(session) if session.status == SessionStatus::Active => Standing::Unanswered(message.session),
            _ => Standing::Over,
        },
    })
}

/// The message that an entry names: by its number in a prompt, or by Hearth's id. A number is one of the session in which
/// such a message came last before the entry was made.
fn find(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId, row: &PendingResponse) -> Result<Option<(MessageId, Message)>> {
    if let Ok(id) = row.message.parse::<MessageId>() {
        let message = readable(cx.db.messages.get(txn, &id))?.filter(|message| message.agent == agent);
        return Ok(message.map(|message| (id, message)));
    }
    let Ok(seq) = row.message.parse::<u64>() else { return Ok(None) };
    let mut found: Option<(MessageId, Message)> = None;
    for ((_, session), ()) in cx.db.sessions_by_agent.collect_last(txn, &agent, SESSIONS_MAX)? {
        let Some(id) = cx.db.messages_by_session.get(txn, &(session, seq))? else { continue };
        let Some(message) = readable(cx.db.messages.get(txn, &id))? else { continue };
        let newer = found.as_ref().is_none_or(|(_, other)| other.stored < message.stored);
        if newer && message.stored <= row.since.plus(cx.policy.claim_tolerance) {
            found = Some((id, message));
        }
    }
    Ok(found)
}

fn is_answered(cx: &Cx<'_>, txn: &Write<'_>, id: MessageId) -> Result<bool> {
    for ((_, outbound), ()) in cx.db.outbound_by_message.collect_prefix(txn, &id, ANSWERS_MAX)? {
        let outbound = readable(cx.db.outbound.get(txn, &outbound))?;
        if outbound.is_some_and(|outbound| matches!(outbound.author, Author::Agent { .. })) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The newest session of an agent that can be woken.
fn last_session(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<Option<SessionId>> {
    for ((_, session), ()) in cx.db.sessions_by_agent.collect_last(txn, &agent, SESSIONS_MAX)?.into_iter().rev() {
        if readable(sessions::load(cx, txn, session))?.is_some_and(|row| row.status == SessionStatus::Active) {
            return Ok(Some(session));
        }
    }
    Ok(None)
}

fn end(cx: &Cx<'_>, txn: &mut Write<'_>, (agent, row): (AgentId, &PendingResponse), state: PendingState) -> Result<()> {
    put(cx, txn, agent, &PendingResponse { state, due: cx.now.wall.plus(cx.policy.response_kept), ..row.clone() })
}

fn put(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, row: &PendingResponse) -> Result<()> {
    let key = ForeignKey::of(&row.message);
    if let Some(before) = cx.db.pending_responses.get(txn, &(agent, key.clone()))? {
        delete(cx, txn, agent, &before)?;
    }
    cx.db.pending_responses_due.put(txn, &(row.due, agent, key.clone()), &())?;
    cx.db.pending_responses.put(txn, &(agent, key), row)
}

/// Removes an entry.
pub(super) fn delete(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, row: &PendingResponse) -> Result<()> {
    let key = ForeignKey::of(&row.message);
    cx.db.pending_responses_due.delete(txn, &(row.due, agent, key.clone()))?;
    cx.db.pending_responses.delete(txn, &(agent, key)).map(drop)
}
