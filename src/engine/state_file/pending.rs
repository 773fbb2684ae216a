//! Pending responses: messages that a program of an agent group has begun to answer, and those it never finished.
//!
//! The file has one slot for them; the rows hold all of them. The slot shows the newest one, so a second message does
//! not erase the first, which is shown again when the second is over. Clearing the slot ends the response that it
//! showed, unless Hearth knows that this one is still in progress and another one was answered.

use crate::delivery::notice;
use crate::lifecycle::dispatch;
use crate::model::content::RawJson;
use crate::model::delivery::Author;
use crate::model::group::{
    DocumentPending, FieldName, PendingResponse, PendingState, StateDocument, StateField, StateFile, StatePart,
};
use crate::model::id::{AgentId, MessageId, SessionId};
use crate::model::message::{Message, MessageState};
use crate::model::session::SessionStatus;
use crate::rows::{agents, sessions};
use crate::state::{ForeignKey, InboxKey, Owned, PendingResponseKey, StateFieldKey, Timed};
use crate::state_file::merge::PENDING;
use crate::state_file::{merge, own, state};
use crate::tx::Tx;
use crate::{Result, readable};

/// The value of an empty slot.
pub(crate) const NOTHING: &str = "null";

/// Number of the agent's newest sessions in which a message is searched.
const SESSIONS_MAX: usize = 50;

/// Maximum number of outgoing messages about one message that are examined.
const ANSWERS_MAX: usize = 20;

/// The state of a message that a pending response refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponseState {
    /// It is waiting or in progress.
    Open,
    /// It was answered, or people know that it will not be.
    Over,
    /// Its turn ended without an answer.
    Unanswered(SessionId),
    /// Hearth does not know it.
    Unknown,
}

/// Merges the slot of a file. `before` is its field before the merge. The slot's new value is set later.
pub(crate) fn take_in(
    tx: &mut Tx<'_, '_>,
    agent: AgentId,
    file: &mut StateFile,
    before: &StateField,
    theirs: Option<&StateDocument>,
) -> Result<()> {
    let Some(theirs) = theirs else { return Ok(()) };
    let value = theirs.fields.iter().find(|field| field.part == StatePart::Top && field.name == before.name);
    let Some(value) = value.map(|field| &field.value) else { return Ok(()) };
    if before.known.iter().flatten().any(|known| known == value) {
        return Ok(());
    }
    match &theirs.pending {
        Some(pending) => begin(tx, agent, file, pending).map(drop),
        None => clear_slot(tx, agent, before),
    }
}

/// Records that a program has begun to answer a message. Returns false if this same entry is already over.
pub(crate) fn begin(
    tx: &mut Tx<'_, '_>,
    agent: AgentId,
    file: &mut StateFile,
    pending: &DocumentPending,
) -> Result<bool> {
    let key = ForeignKey::of(&pending.message);
    let there = tx.db.pending_responses.get(tx, &PendingResponseKey { agent, message: key })?;
    if there.is_some_and(|row| row.state != PendingState::Waiting && row.value == pending.value) {
        return Ok(false);
    }
    let since = pending.reacted.map_or(tx.now.wall, |reacted| reacted.min(tx.now.wall));
    let row = PendingResponse {
        message: pending.message.clone(),
        value: pending.value.clone(),
        position: merge::next(file),
        since,
        due: since.plus(tx.policy.response_max),
        state: PendingState::Waiting,
    };
    put(tx, agent, &row)?;
    let waiting = waiting(tx, agent)?;
    for row in waiting.iter().take(waiting.len().saturating_sub(tx.policy.responses_max)) {
        end(tx, agent, row, PendingState::GivenUp)?;
    }
    Ok(true)
}

/// Sets the slot to the newest pending response.
pub(crate) fn show(tx: &mut Tx<'_, '_>, agent: AgentId, file: &mut StateFile) -> Result<()> {
    let newest = waiting(tx, agent)?.pop().map(|row| row.value);
    let name = FieldName::of(PENDING);
    let key = StateFieldKey { agent, part: StatePart::Top, name: ForeignKey::of(&name) };
    if newest.is_none() && !tx.db.state_fields.contains(tx, &key)? {
        return Ok(());
    }
    let before = state::ensure_top(tx, agent, file, PENDING, NOTHING)?;
    let value = Some(newest.unwrap_or_else(|| RawJson::trusted(NOTHING.to_owned())));
    if value == before.value {
        return Ok(());
    }
    let row = StateField { value, changed: tx.now.wall, ..before.clone() };
    merge::put(tx, agent, StatePart::Top, &before, &row)
}

/// Handles responses that have been pending for too long. An answered one is cleared, and one in progress gets more
/// time. For all others the agent is reminded once. Does nothing while the clock has just jumped ahead.
pub(crate) fn due(tx: &mut Tx<'_, '_>) -> Result<()> {
    if !tx.cx.steady {
        return Ok(());
    }
    let first = PendingResponseKey { agent: AgentId::new(0), message: ForeignKey::least() };
    let until = Timed { at: tx.now.wall.plus(crate::model::time::Millis::new(1)), id: first };
    for (Timed { id, .. }, ()) in
        tx.db.pending_responses_due.collect_range(tx, ..until, tx.policy.rows_per_input / 8)?
    {
        tx.isolated(|tx| {
            let row = tx.db.pending_responses.require(tx, &id)?;
            one_due(tx, id.agent, row)
        })?;
    }
    Ok(())
}

fn one_due(tx: &mut Tx<'_, '_>, agent: AgentId, row: PendingResponse) -> Result<()> {
    if row.state != PendingState::Waiting || agents::is_removed(tx, agent)? {
        return delete(tx, agent, &row);
    }
    let state = match standing(tx, agent, &row)? {
        ResponseState::Open => {
            let due = tx.now.wall.plus(tx.policy.response_max);
            return put(tx, agent, &PendingResponse { due, ..row });
        }
        ResponseState::Over => PendingState::Answered,
        ResponseState::Unanswered(session) => tell(tx, session, &row)?,
        ResponseState::Unknown => match last_session(tx, agent)? {
            Some(session) => tell(tx, session, &row)?,
            None => {
                notice::tell_owner(tx, &nobody_went_on(tx, agent, &row)?)?;
                PendingState::GivenUp
            }
        },
    };
    end(tx, agent, &row, state)?;
    own::shared(tx, agent, |tx, file| show(tx, agent, file))
}

/// Wakes the agent with a reminder.
fn tell(tx: &mut Tx<'_, '_>, session: SessionId, row: &PendingResponse) -> Result<PendingState> {
    let text = format!(
        "You noted in session-state.json that you had begun to answer the message {}, at {}, and nothing says that you did. \
         If it has no answer yet, answer it now, or say that you lost what you knew of it; otherwise there is nothing to do. \
         The note was: {} It is cleared now.",
        shown(&row.message),
        row.since,
        shown(row.value.as_str()),
    );
    dispatch::send_text(tx, session, &text)?;
    Ok(PendingState::Told)
}

fn nobody_went_on(tx: &Tx<'_, '_>, agent: AgentId, row: &PendingResponse) -> Result<String> {
    let folder = readable(tx.db.agents.get(tx, &agent))?.map_or_else(String::new, |agent| agent.folder.to_string());
    Ok(format!(
        "Agent {folder} began to answer the message {} at {}, and nothing says that it did. It has no session that could \
         be asked.",
        shown(&row.message),
        row.since
    ))
}

/// Shortened text of an agent, on one line.
fn shown(text: &str) -> String {
    notice::shortened(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Handles a slot that another program emptied.
fn clear_slot(tx: &mut Tx<'_, '_>, agent: AgentId, before: &StateField) -> Result<()> {
    let mut waiting = waiting(tx, agent)?;
    let place = waiting.iter().rposition(|row| before.known.iter().flatten().any(|known| *known == row.value));
    let slot = place.map(|place| waiting.remove(place)).or_else(|| waiting.pop());
    let Some(slot) = slot else { return Ok(()) };
    let mut answered = false;
    for row in &waiting {
        if standing(tx, agent, row)? == ResponseState::Over {
            end(tx, agent, row, PendingState::Answered)?;
            answered = true;
        }
    }
    if answered && standing(tx, agent, &slot)? == ResponseState::Open {
        return Ok(());
    }
    end(tx, agent, &slot, PendingState::Cleared)
}

/// Pending responses, the newest one last.
fn waiting(tx: &Tx<'_, '_>, agent: AgentId) -> Result<Vec<PendingResponse>> {
    let rows = tx.db.pending_responses.collect_prefix(tx, &agent, tx.policy.rows_per_input)?;
    let mut waiting: Vec<_> =
        rows.into_iter().map(|(_, row)| row).filter(|row| row.state == PendingState::Waiting).collect();
    waiting.sort_by_key(|row| row.position);
    Ok(waiting)
}

fn standing(tx: &Tx<'_, '_>, agent: AgentId, row: &PendingResponse) -> Result<ResponseState> {
    let Some((id, message)) = find(tx, agent, row)? else { return Ok(ResponseState::Unknown) };
    Ok(match message.state {
        MessageState::Pending(_) | MessageState::Claimed { .. } => ResponseState::Open,
        MessageState::Failed { .. } | MessageState::Dropped { .. } => ResponseState::Over,
        MessageState::Completed { .. } if is_answered(tx, id)? => ResponseState::Over,
        MessageState::Completed { .. } => match readable(sessions::load(tx, message.session))? {
            Some(session) if session.status == SessionStatus::Active => ResponseState::Unanswered(message.session),
            _ => ResponseState::Over,
        },
    })
}

/// The message that an entry names, by its number in a prompt or by Hearth's id. Of several sessions with this number,
/// it is the one whose message was the newest when the entry was made.
fn find(tx: &Tx<'_, '_>, agent: AgentId, row: &PendingResponse) -> Result<Option<(MessageId, Message)>> {
    if let Ok(id) = row.message.parse::<MessageId>() {
        let message = readable(tx.db.messages.get(tx, &id))?.filter(|message| message.agent == agent);
        return Ok(message.map(|message| (id, message)));
    }
    let Ok(seq) = row.message.parse::<u64>() else { return Ok(None) };
    let mut found: Option<(MessageId, Message)> = None;
    for (Owned { id: session, .. }, ()) in tx.db.sessions_by_agent.collect_last(tx, &agent, SESSIONS_MAX)? {
        let Some(id) = tx.db.messages_by_session.get(tx, &InboxKey { session, seq })? else { continue };
        let Some(message) = readable(tx.db.messages.get(tx, &id))? else { continue };
        let newer = found.as_ref().is_none_or(|(_, other)| other.stored < message.stored);
        if newer && message.stored <= row.since.plus(tx.policy.claim_tolerance) {
            found = Some((id, message));
        }
    }
    Ok(found)
}

fn is_answered(tx: &Tx<'_, '_>, id: MessageId) -> Result<bool> {
    for (Owned { id: outbound, .. }, ()) in tx.db.outbound_by_message.collect_prefix(tx, &id, ANSWERS_MAX)? {
        let outbound = readable(tx.db.outbound.get(tx, &outbound))?;
        if outbound.is_some_and(|outbound| matches!(outbound.author, Author::Agent { .. })) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The newest active session of an agent.
fn last_session(tx: &Tx<'_, '_>, agent: AgentId) -> Result<Option<SessionId>> {
    for (Owned { id: session, .. }, ()) in
        tx.db.sessions_by_agent.collect_last(tx, &agent, SESSIONS_MAX)?.into_iter().rev()
    {
        if readable(sessions::load(tx, session))?.is_some_and(|row| row.status == SessionStatus::Active) {
            return Ok(Some(session));
        }
    }
    Ok(None)
}

fn end(tx: &mut Tx<'_, '_>, agent: AgentId, row: &PendingResponse, state: PendingState) -> Result<()> {
    put(tx, agent, &PendingResponse { state, due: tx.now.wall.plus(tx.policy.response_kept), ..row.clone() })
}

fn put(tx: &mut Tx<'_, '_>, agent: AgentId, row: &PendingResponse) -> Result<()> {
    tx.db.pending_responses.put(tx, &PendingResponseKey { agent, message: ForeignKey::of(&row.message) }, row)
}

/// Removes an entry.
pub(crate) fn delete(tx: &mut Tx<'_, '_>, agent: AgentId, row: &PendingResponse) -> Result<()> {
    tx.db.pending_responses.delete(tx, &PendingResponseKey { agent, message: ForeignKey::of(&row.message) }).map(drop)
}
