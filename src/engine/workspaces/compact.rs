//! Compacts a session.

use crate::model::id::SessionId;
use crate::model::record::{RecordBody, SessionRecord, SpeakerRole};
use crate::model::session::Compaction;
use crate::model::session_command::{CompactSession, Guard, SessionOutcome};
use crate::tx::Tx;
use crate::workspaces::rows::{Outcome, StoredSession};
use crate::workspaces::view::Cut;
use crate::workspaces::{rows, view};

/// Starts a revision with the newest records only. The previous revision keeps the others. Does nothing if no message
/// would be removed.
pub(crate) fn compact(
    tx: &mut Tx<'_, '_>,
    id: SessionId,
    guard: Guard,
    wanted: CompactSession,
) -> Outcome<(StoredSession, SessionOutcome)> {
    let before = rows::guarded(tx, id, guard)?;
    // The remaining records are copied, and a transaction is limited in size.
    let window = tx.policy.rows_per_input.saturating_sub(1);
    let parts = view::segments(tx.db, tx, Cut::current(id, &before.row))?;
    let after = before.row.records.saturating_sub(u64::try_from(window).unwrap_or(u64::MAX));
    let newest = view::records(tx.db, tx, &parts, after, window)?;
    let newest: Vec<SessionRecord> = newest.into_iter().map(|(_, record)| record).collect();
    let kept = newest.get(decide_cut(&newest, wanted.keep)..).unwrap_or_default();
    let messages = u64::try_from(kept.iter().filter(|record| view::is_message(record)).count()).unwrap_or(u64::MAX);
    let removed = before.row.messages.saturating_sub(messages);
    if removed == 0 {
        return Ok((before, SessionOutcome::Unchanged));
    }
    let mut found = before.clone();
    let count = before.row.compaction.as_ref().map_or(0, |earlier| earlier.count).saturating_add(1);
    let summary = wanted.summary.unwrap_or_else(|| format!("{removed} earlier messages were removed."));
    rows::renew(tx, &mut found)?;
    rows::add(tx, &mut found, kept)?;
    found.row.compaction = Some(Compaction { count, removed, summary });
    rows::touch(tx, &mut found)?;
    rows::save(tx, &before, &found)?;
    Ok((found, SessionOutcome::Shortened { removed }))
}

/// The index from which records stay: the newest `keep` messages, extended back to the start of a turn, so that no tool
/// result is without its call.
fn decide_cut(records: &[SessionRecord], keep: u64) -> usize {
    let mut left = keep;
    let mut cut = records.len();
    for (at, record) in records.iter().enumerate().rev() {
        let RecordBody::Message { role, .. } = &record.body else { continue };
        if left == 0 && cut == records.len() {
            return cut; // nothing stays
        }
        (cut, left) = (at, left.saturating_sub(1));
        if left == 0 && begins_turn(*role) {
            return cut;
        }
    }
    0
}

const fn begins_turn(role: SpeakerRole) -> bool {
    matches!(role, SpeakerRole::User | SpeakerRole::System)
}

#[cfg(test)]
mod tests {
    use crate::model::content::RawJson;
    use crate::model::time::Timestamp;
    use crate::workspaces::compact::*;

    /// `u`, `a`, `t`, `s` are messages, `p` is a prompt.
    fn records(roles: &str) -> Vec<SessionRecord> {
        let message = |role| RecordBody::Message {
            role,
            blocks: RawJson::trusted("[]".to_owned()),
            usage: None,
            ends_turn: None,
        };
        let body = |c| match c {
            'u' => message(SpeakerRole::User),
            'a' => message(SpeakerRole::Assistant),
            't' => message(SpeakerRole::Tool),
            's' => message(SpeakerRole::System),
            _ => RecordBody::Prompt("p".to_owned()),
        };
        roles.chars().map(|c| SessionRecord { at: Timestamp::from_millis(0), body: body(c), extra: None }).collect()
    }

    #[test]
    fn a_cut_is_where_a_turn_begins() {
        for (roles, keep, stays) in [
            ("uaua", 2, "ua"),
            ("uaua", 1, "ua"),
            ("uaua", 3, "uaua"),
            ("uaua", 4, "uaua"),
            ("uaua", 9, "uaua"),
            ("uaua", 0, ""),
            ("uatatapua", 2, "ua"),
            ("uatatapua", 3, "uatatapua"),
            ("puapua", 2, "ua"),
            ("aaaa", 2, "aaaa"),
            ("sua", 2, "ua"),
            ("", 2, ""),
            ("ppp", 2, "ppp"),
        ] {
            let all = records(roles);
            let cut = decide_cut(&all, keep);
            assert_eq!(&roles[cut..], stays, "{roles} {keep}");
        }
    }
}
