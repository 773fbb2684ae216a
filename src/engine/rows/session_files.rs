//! Files of ended messages that stay in their session's mailbox, so that later turns can read them.
//!
//! A row promises the files of one message at the path that its prompt named. A start restores what a mailbox lacks and
//! removes what no row promises. A walk of the daemon removes the same for sessions that never start again.

use crate::model::configure::Settings;
use crate::model::content::Attachment;
use crate::model::effect::{Discard, Effect, ExportedFiles};
use crate::model::id::{BodyId, SessionId};
use crate::model::message::{Body, Completion, Message, MessageState, SessionFiles};
use crate::rows::{messages, notes};
use crate::rules::commands;
use crate::state::{InboxKey, Owned, Read, Tables};
use crate::tx::Tx;
use crate::{Result, readable};

/// Maximum number of files that one note to an agent names.
const NAMED_MAX: usize = 20;

/// Promises the files of a message that just ended, if its agent has seen them. A conversation that was cleared begins
/// without files.
pub(crate) fn message_ended(tx: &mut Tx<'_, '_>, before: &Message, after: &MessageState, body: &Body) -> Result<()> {
    if decide_cleared(before, after, &body.content.text) {
        return forget_session(tx, before.session).map(drop);
    }
    if !decide_stays(before, after) {
        return Ok(());
    }
    let stored = |file: &&Attachment| file.blob.stored().is_some();
    let files: Vec<Attachment> = body.attachments.iter().filter(stored).cloned().collect();
    if files.is_empty() {
        return Ok(());
    }
    tx.db.session_files.put(tx, &InboxKey::of(before), &SessionFiles { files })?;
    make_room(tx, before.session)
}

/// Whether a message cleared the conversation of its session.
fn decide_cleared(before: &Message, after: &MessageState, text: &str) -> bool {
    before.trigger
        && matches!(after, MessageState::Completed { how: Completion::Answered, .. })
        && commands::interrupts(text)
}

/// Whether the files of a message stay when it ends: its agent began with it at least once.
const fn decide_stays(before: &Message, after: &MessageState) -> bool {
    let begun = matches!(before.state, MessageState::Claimed { .. }) || before.tries > 0 || before.failed_in > 0;
    begun && matches!(after, MessageState::Completed { .. } | MessageState::Failed { .. })
}

/// Removes the oldest files of a session beyond its limits, and tells its agent.
fn make_room(tx: &mut Tx<'_, '_>, session: SessionId) -> Result<()> {
    let rows = tx.db.session_files.collect_prefix(tx, &session, tx.policy.session_files_max.saturating_add(1))?;
    let settings = tx.db.settings.get(tx, &())?.unwrap_or_default();
    let bytes_max = settings.session_files_max_bytes.unwrap_or(Settings::SESSION_FILES);
    let sizes: Vec<u64> = rows.iter().map(|(_, row)| row.bytes()).collect();
    let excess = decide_excess(&sizes, bytes_max, tx.policy.session_files_max);
    if excess == 0 {
        return Ok(());
    }
    let mut removed = rows;
    removed.truncate(excess);
    for (key, _) in &removed {
        tx.db.session_files.delete(tx, key)?;
    }
    notes::tell_agent(tx, session, &describe_removed(&removed, bytes_max))?;
    tx.effects.push(discard_of(session, removed.into_iter().map(|(key, _)| key.seq).collect()));
    Ok(())
}

/// How many of the oldest rows go, so that the rest is within the limits. Sizes are in order of age, the oldest first.
fn decide_excess(sizes: &[u64], bytes_max: u64, rows_max: usize) -> usize {
    let fits = |bytes: &mut u64, size: &u64| {
        *bytes = bytes.saturating_add(*size);
        Some(*bytes)
    };
    let newest = sizes.iter().rev().scan(0, fits).take_while(|bytes| *bytes <= bytes_max).take(rows_max).count();
    sizes.len() - newest
}

/// The note about removed files, for their agent.
fn describe_removed(removed: &[(InboxKey, SessionFiles)], bytes_max: u64) -> String {
    let all = removed.iter().flat_map(|(key, row)| row.files.iter().map(|file| (key.seq, &file.name)));
    let count = all.clone().count();
    let mut lines: Vec<String> = all.take(NAMED_MAX).map(|(seq, name)| format!("- {name} (message {seq})")).collect();
    if count > lines.len() {
        lines.push(format!("- and {} more", count - lines.len()));
    }
    format!(
        "These files of earlier messages were removed, because the files of one conversation may have {} MiB together \
         and the oldest go first. Ask for a file again if you need it.\n{}",
        bytes_max >> 20,
        lines.join("\n")
    )
}

/// Takes back the promise of a body's files, in all sessions.
pub(crate) fn forget_body(tx: &mut Tx<'_, '_>, id: BodyId) -> Result<()> {
    if tx.db.session_files.is_empty(tx)? {
        return Ok(());
    }
    for (Owned { id: message, .. }, ()) in tx.db.messages_by_body.collect_prefix(tx, &id, tx.policy.rows_per_input)? {
        let Some(message) = readable(tx.db.messages.get(tx, &message))? else { continue };
        if tx.db.session_files.delete(tx, &InboxKey::of(&message))? {
            tx.effects.push(discard_of(message.session, vec![message.seq]));
        }
    }
    Ok(())
}

/// Takes back the promise of all files of a session, and returns the number of messages that had any.
pub(crate) fn forget_session(tx: &mut Tx<'_, '_>, session: SessionId) -> Result<usize> {
    let rows = tx.db.session_files.collect_prefix(tx, &session, tx.policy.session_files_max.saturating_add(1))?;
    let seqs: Vec<u64> = rows.into_iter().map(|(key, _)| key.seq).collect();
    for &seq in &seqs {
        tx.db.session_files.delete(tx, &InboxKey { session, seq })?;
    }
    let forgotten = seqs.len();
    if forgotten > 0 {
        tx.effects.push(discard_of(session, seqs));
    }
    Ok(forgotten)
}

/// Takes messages out of a mailbox. Their files go with them unless a row promises them.
pub(crate) fn discard(tx: &mut Tx<'_, '_>, session: SessionId, seqs: Vec<u64>, agent_files: Vec<String>) -> Result<()> {
    let mut files = Vec::with_capacity(seqs.len());
    for &seq in &seqs {
        if !tx.db.session_files.contains(tx, &InboxKey { session, seq })? {
            files.push(seq);
        }
    }
    tx.effects.push(Effect::Discard(Discard { session, seqs, files, agent_files }));
    Ok(())
}

const fn discard_of(session: SessionId, files: Vec<u64>) -> Effect {
    Effect::Discard(Discard { session, seqs: Vec::new(), files, agent_files: Vec::new() })
}

/// The promised files of a session, for its mailbox.
pub(crate) fn of(db: &Tables, txn: &Read<'_>, session: SessionId, limit: usize) -> Result<Vec<ExportedFiles>> {
    let rows = db.session_files.collect_prefix(txn, &session, limit)?;
    Ok(rows.into_iter().map(|(key, row)| ExportedFiles { seq: key.seq, attachments: row.files }).collect())
}

/// Whether the files of a message belong in its mailbox: a row promises them, or the message is not over.
pub(crate) fn are_needed(db: &Tables, txn: &Read<'_>, key: InboxKey) -> Result<bool> {
    if db.session_files.contains(txn, &key)? {
        return Ok(true);
    }
    let Some(id) = db.messages_by_session.get(txn, &key)? else { return Ok(false) };
    // The files of a message that cannot be read stay until it can.
    Ok(readable(db.messages.get(txn, &id))?.is_none_or(|message| messages::is_open(&message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_files_go_first() {
        for (sizes, bytes, rows, excess) in [
            (vec![], 10, 5, 0),
            (vec![4, 3, 3], 10, 5, 0),
            (vec![5, 3, 3], 10, 5, 1),
            (vec![1, 1, 9, 2], 10, 5, 3),
            (vec![1, 11], 10, 5, 2),
            (vec![1, u64::MAX, u64::MAX], u64::MAX - 1, 5, 3),
            (vec![1, 1, 1], 10, 2, 1),
            (vec![0, 0], 0, 5, 0),
            (vec![1], 0, 5, 1),
        ] {
            assert_eq!(decide_excess(&sizes, bytes, rows), excess, "{sizes:?} within {bytes} and {rows}");
        }
    }
}
