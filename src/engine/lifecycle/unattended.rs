//! The breaker of loops: a session whose turns follow each other without a word from a person starts no further one at
//! some point. A message from a person lets it go on.

use crate::Result;
use crate::delivery::notice;
use crate::lifecycle::mailbox_view::SessionRef;
use crate::model::entity::Agent;
use crate::model::id::{MessageId, SessionId};
use crate::model::message::{Completion, Message, MessageState};
use crate::rows::{agents, session_files, sessions};
use crate::state::{InboxKey, Read, Tables};
use crate::tx::Tx;

/// Messages that are looked at first: most sessions have a word from a person among them.
const NEWEST: usize = 16;
/// Messages that may wait in a session in addition to those that are counted.
const WAITING: u32 = 1_000;

/// The number of turns in a row without a word from a person after which a session of this agent starts no further one,
/// if that is reached.
///
/// # Errors
/// The store's.
pub fn waits_for_person(db: &Tables, txn: &Read<'_>, session: SessionId, agent: &Agent) -> Result<Option<u32>> {
    before(db, txn, session, agent, u64::MAX)
}

/// The same for what was known before a position of the session.
fn before(db: &Tables, txn: &Read<'_>, session: SessionId, agent: &Agent, seq: u64) -> Result<Option<u32>> {
    let Some(max) = agent.settings.caps.unattended_turns else { return Ok(None) };
    let Some((newest, _)) = db.messages_by_session.last_in(txn, &session)? else { return Ok(None) };
    // Positions are even. Most sessions have fewer messages.
    if newest.seq.min(seq) / 2 < max.into() {
        return Ok(None);
    }
    let all = usize::try_from(max.saturating_add(WAITING)).unwrap_or(usize::MAX);
    for limit in [NEWEST.min(all), all] {
        let mut turns = 0;
        for (key, id) in db.messages_by_session.collect_last(txn, &session, limit)? {
            if key.seq >= seq {
                continue;
            }
            let message = db.messages.require(txn, &id)?;
            if is_from_person(db, txn, &message)? {
                return Ok(None);
            }
            turns += u32::from(had_turn(&message));
            if turns >= max {
                return Ok(Some(max));
            }
        }
    }
    Ok(None)
}

fn is_from_person(db: &Tables, txn: &Read<'_>, message: &Message) -> Result<bool> {
    if message.slot.is_some() || message.from.is_some() {
        return Ok(false);
    }
    Ok(db.bodies.get(txn, &message.body)?.is_some_and(|body| body.sender.is_some()))
}

const fn had_turn(message: &Message) -> bool {
    let ran = match &message.state {
        MessageState::Claimed { .. } | MessageState::Failed { .. } => true,
        MessageState::Completed { how, .. } => matches!(how, Completion::Answered | Completion::Stopped(_)),
        MessageState::Pending(_) | MessageState::Dropped { .. } => false,
    };
    message.trigger && ran
}

/// Whether a session starts no turn. If a message has just come, the owner is told.
pub(crate) fn holds(tx: &mut Tx<'_, '_>, of: SessionRef<'_>, arrived: Option<MessageId>) -> Result<bool> {
    let Some(max) = waits_for_person(tx.db, tx, of.id, of.agent)? else { return Ok(false) };
    if let Some(message) = arrived {
        let (agent, session) = (&of.agent.folder, of.id);
        let what = format!(
            "Agent {agent} had {max} turns in a row in {session} without a word from a person. It starts no further one \
             until a person writes to it there."
        );
        notice::tell_owner_of_failure(tx, &what, &format!("See `hearth why {message}`."))?;
    }
    Ok(true)
}

/// Whether the session started no turns before the message at this position came.
pub(crate) fn held_before(tx: &Tx<'_, '_>, of: SessionRef<'_>, seq: u64) -> Result<bool> {
    Ok(before(tx.db, tx, of.id, of.agent, seq)?.is_some())
}

/// Takes back what the agent has not begun, when its session starts no further turn.
pub(crate) fn withdraw(tx: &mut Tx<'_, '_>, session: SessionId) -> Result<()> {
    if tx.db.ready_messages.first_in(tx, &session)?.is_none() {
        return Ok(());
    }
    let Some(row) = sessions::load(tx, session)? else { return Ok(()) };
    let agent = agents::known(tx, row.agent)?;
    if waits_for_person(tx.db, tx, session, &agent)?.is_none() {
        return Ok(());
    }
    let limit = tx.policy.rows_per_input / 8;
    let ready = tx.db.ready_messages.collect_prefix(tx, &session, limit)?;
    let seqs = ready.into_iter().map(|(InboxKey { seq, .. }, _)| seq).collect();
    session_files::discard(tx, session, seqs, Vec::new())
}
