//! Context: messages that do not ask for a turn but go along with the next one, the newest first in line.

use super::{Cx, Result, messages};
use crate::model::effect::{Discard, Effect};
use crate::model::id::{MessageId, SessionId};
use crate::model::input::Continuation;
use crate::model::message::{Completion, MessageState};
use crate::state::Write;

/// The newest context messages of a session, ascending. Older ones are completed as capped in the same transaction;
/// what is too much for one transaction follows in a continuation.
pub(super) fn newest(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (session, max): (SessionId, u32),
    effects: &mut Vec<Effect>,
) -> Result<Vec<(u64, MessageId)>> {
    // Mostly nobody keeps any: the number of rows is known without a look at them.
    if cx.db.context.is_empty(txn)? {
        return Ok(Vec::new());
    }
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let found = cx.db.context.collect_last(txn, &session, max.saturating_add(1))?;
    let mut newest: Vec<(u64, MessageId)> = found.into_iter().map(|((_, seq), id)| (seq, id)).collect();
    if newest.len() > max
        && let Some((newest_capped, _)) = newest.pop()
    {
        cap(cx, txn, (session, newest_capped), effects)?;
    }
    newest.reverse();
    Ok(newest)
}

/// Completes the context of a session up to and including a position.
pub(super) fn cap(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (session, last): (SessionId, u64),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let limit = cx.policy.rows_per_input / 2;
    let mut seqs = Vec::new();
    for ((_, seq), id) in cx.db.context.collect_prefix(txn, &session, limit)? {
        if seq > last {
            break;
        }
        let capped = MessageState::Completed { how: Completion::ContextCapped, at: cx.now.wall };
        messages::end(cx, txn, id, (capped, vec![]), effects)?;
        seqs.push(seq);
    }
    if seqs.len() >= limit {
        effects.push(Effect::Continue(Continuation::CapContext(session, last)));
    }
    if !seqs.is_empty() {
        effects.push(Effect::Discard(Discard { session, seqs, agent_files: Vec::new() }));
    }
    Ok(())
}
