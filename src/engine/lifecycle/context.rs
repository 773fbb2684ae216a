//! Context: messages that request no turn but accompany the next one. Only the newest are kept.

use crate::Result;
use crate::model::effect::Effect;
use crate::model::id::{MessageId, SessionId};
use crate::model::input::Continuation;
use crate::model::message::{Completion, MessageState};
use crate::rows::{messages, session_files};
use crate::state::InboxKey;
use crate::tx::Tx;

/// The newest context messages of a session, ascending. Older ones are completed as capped in the same transaction.
/// What is too much for one transaction follows in a continuation.
pub(crate) fn newest(tx: &mut Tx<'_, '_>, session: SessionId, max: u32) -> Result<Vec<(u64, MessageId)>> {
    // Usually no session has any. The number of rows is known without reading any.
    if tx.db.context_messages.is_empty(tx)? {
        return Ok(Vec::new());
    }
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let found = tx.db.context_messages.collect_last(tx, &session, max.saturating_add(1))?;
    let mut newest: Vec<(u64, MessageId)> = found.into_iter().map(|(key, id)| (key.seq, id)).collect();
    if newest.len() > max
        && let Some((newest_capped, _)) = newest.pop()
    {
        cap(tx, session, newest_capped)?;
    }
    // A message that waits for its files accompanies a later turn.
    let mut ready = Vec::with_capacity(newest.len());
    for (seq, id) in newest.into_iter().rev() {
        if !messages::is_awaited(tx, id)? {
            ready.push((seq, id));
        }
    }
    Ok(ready)
}

/// Completes the context messages of a session up to and including a position.
pub(crate) fn cap(tx: &mut Tx<'_, '_>, session: SessionId, last: u64) -> Result<()> {
    let limit = tx.policy.rows_per_input / 2;
    let mut seqs = Vec::new();
    for (InboxKey { seq, .. }, id) in tx.db.context_messages.collect_prefix(tx, &session, limit)? {
        if seq > last {
            break;
        }
        let capped = MessageState::Completed { how: Completion::ContextCapped, at: tx.now.wall };
        messages::end(tx, id, capped, vec![])?;
        seqs.push(seq);
    }
    if seqs.len() >= limit {
        tx.effects.push(Effect::Continue(Continuation::CapContext(session, last)));
    }
    if !seqs.is_empty() {
        session_files::discard(tx, session, seqs, Vec::new())?;
    }
    Ok(())
}
