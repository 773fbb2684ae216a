//! What a session's provider missed of the conversation while another one answered, derived only from the tables.

use crate::Result;
use crate::model::delivery::{Act, OutState};
use crate::model::effect::RecapLine;
use crate::model::id::SessionId;
use crate::model::message::{Completion, MessageKind, MessageState};
use crate::rows::session_providers;
use crate::rules::commands;
use crate::state::{InboxKey, Read, SentKey, Tables};

/// Maximum number of messages in a recap, in both directions together.
pub(super) const LINES_MAX: usize = 30;

/// Maximum size of their texts together, in bytes.
const BYTES_MAX: usize = 16 << 10;

/// Characters of each text.
const LINE_CHARS: usize = 2_000;

/// The last messages that the provider of a session missed, in order; none if it knows all.
pub(crate) fn of(db: &Tables, txn: &Read<'_>, session: SessionId) -> Result<Vec<RecapLine>> {
    let providers = session_providers::of(db, txn, session)?;
    let Some(gap) = providers.gap() else { return Ok(Vec::new()) };
    let (mut lines, mut begins) = (Vec::new(), providers.reset);
    for (InboxKey { seq, .. }, id) in db.messages_by_session.collect_last(txn, &session, LINES_MAX)? {
        let message = db.messages.require(txn, &id)?;
        if !is_told(&message.state) {
            continue;
        }
        // Its text may have been removed by retention.
        let Some(body) = db.bodies.get(txn, &message.body)?.filter(|body| body.kind != MessageKind::System) else {
            continue;
        };
        if message.trigger && commands::interrupts(&body.content.text) {
            begins = begins.max(seq);
        }
        let from = body.content.sender_name.or_else(|| body.content.sender.map(|sender| sender.as_str().to_owned()));
        lines.push(RecapLine { number: seq, from: Some(from.unwrap_or_default()), text: body.content.text });
    }
    for (SentKey { number, .. }, id) in db.outbound_by_number.collect_last(txn, &session, LINES_MAX)? {
        let outbound = db.outbound.require(txn, &id)?;
        let is_said =
            matches!(outbound.act, Act::Say | Act::Ask(_)) && !matches!(outbound.state, OutState::Failed { .. });
        let question = outbound.in_reply_to.map(|question| db.messages.get(txn, &question)).transpose()?.flatten();
        // What an unfinished turn has sent is told as such.
        let is_over = question.is_none_or(|question| question.state.ended().is_some());
        if is_said && is_over {
            lines.push(RecapLine { number, from: None, text: outbound.text });
        }
    }
    // Nothing from before a reset or `/clear`.
    lines.retain(|line| line.number > begins && gap.misses(line.number));
    Ok(bounded(lines))
}

/// Whether people's message is told: an agent began with it.
const fn is_told(state: &MessageState) -> bool {
    match state {
        MessageState::Completed { how: Completion::Answered | Completion::Stopped(_), .. }
        | MessageState::Failed { .. } => true,
        MessageState::Completed { how: Completion::ContextCapped | Completion::Gated(_), .. }
        | MessageState::Pending(_)
        | MessageState::Claimed { .. }
        | MessageState::Dropped { .. } => false,
    }
}

/// The newest lines within the limits, in order.
fn bounded(mut lines: Vec<RecapLine>) -> Vec<RecapLine> {
    lines.retain(|line| !line.text.trim().is_empty());
    lines.sort_by_key(|line| std::cmp::Reverse(line.number));
    lines.truncate(LINES_MAX);
    let mut bytes = 0_usize;
    for line in &mut lines {
        if let Some((end, _)) = line.text.char_indices().nth(LINE_CHARS) {
            line.text.truncate(end);
            line.text.push('…');
        }
    }
    let fitting = lines.iter().take_while(|line| {
        bytes = bytes.saturating_add(line.text.len());
        bytes <= BYTES_MAX
    });
    let count = fitting.count();
    lines.truncate(count);
    lines.reverse();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: u64, text: &str) -> Vec<RecapLine> {
        (1..=count).map(|number| RecapLine { number, from: None, text: text.to_owned() }).collect()
    }

    #[test]
    fn a_recap_has_the_newest_messages_within_its_limits() {
        let numbers = |found: Vec<RecapLine>| found.iter().map(|line| line.number).collect::<Vec<_>>();
        assert_eq!(numbers(bounded(lines(40, "words"))), (11..=40).collect::<Vec<_>>());
        assert_eq!(numbers(bounded(lines(3, " \n"))), [0; 0]);
        let long = bounded(lines(40, &"é".repeat(3_000)));
        assert_eq!(numbers(long.clone()), [37, 38, 39, 40]);
        assert!(long.iter().all(|line| line.text.chars().count() == LINE_CHARS + 1 && line.text.ends_with('…')));
    }
}
