//! Limits how many cards one person is shown at once. Further approvals wait until that person has decided some. One
//! message, the digest, says how many wait. It offers no decision.

use crate::Result;
use crate::approvals::send;
use crate::delivery::{notice, queue};
use crate::model::Turn;
use crate::model::address::UserId;
use crate::model::approval::{ApprovalState, Digest, Waitlist};
use crate::model::delivery::{Act, MessageRef, OutState, Outbound};
use crate::model::id::{ApprovalId, OutboundId};
use crate::rows::direct::Direct;
use crate::rows::{approvals, channels, direct};
use crate::state::{ApproverKey, PersonKey};
use crate::tx::Tx;

/// Number of waiting approvals that are examined to find the next cards to show. The rest are examined later.
const LOOKED_AT: usize = 50;

/// Whether a person has so many open cards that one more has to wait.
pub(crate) fn is_full(tx: &Tx<'_, '_>, user: &UserId, but: ApprovalId) -> Result<bool> {
    Ok(room(tx, user, Some(but))? == 0)
}

/// How many more cards a person can be shown.
fn room(tx: &Tx<'_, '_>, user: &UserId, but: Option<ApprovalId>) -> Result<usize> {
    let max = tx.policy.cards_per_decider;
    let asked = (PersonKey::of(user), Turn::Now);
    let asked = tx.db.approvals_by_decider.collect_prefix(tx, &asked, max.saturating_add(1))?;
    let others = asked.iter().filter(|(key, ())| Some(key.approval) != but).count();
    Ok(max.saturating_sub(others))
}

/// Makes an approval wait until a person has decided others.
pub(crate) fn wait(tx: &mut Tx<'_, '_>, id: ApprovalId, user: &UserId) -> Result<()> {
    approvals::update(tx, id, |approval| {
        let why = Some(format!("{user} has {} other approvals to decide first", tx.policy.cards_per_decider));
        approval.state = ApprovalState::Unsent { failed: 0, why };
        approval.approver = Some(user.clone());
        approval.card = None;
        approval.due = approval.expires;
    })?;
    tell(tx, user)
}

/// Shows a person the cards of waiting approvals, oldest first, up to the limit. Approvals that expire soon are not
/// shown any more.
pub(crate) fn fill(tx: &mut Tx<'_, '_>, user: &UserId) -> Result<()> {
    let mut room = room(tx, user, None)?;
    let looked_at = if room == 0 { 0 } else { LOOKED_AT };
    let waiting = (PersonKey::of(user), Turn::Later);
    for (ApproverKey { approval: id, .. }, ()) in tx.db.approvals_by_decider.collect_prefix(tx, &waiting, looked_at)? {
        if room == 0 {
            break;
        }
        if tx.db.approvals.require(tx, &id)?.expires > tx.now.wall.plus(tx.policy.card_min) {
            send::take_turn(tx, id, user)?;
            room -= 1;
        }
    }
    tell(tx, user)
}

/// Continues every waitlist. This also uses slots that became free other than by a decision.
pub(crate) fn due(tx: &mut Tx<'_, '_>) -> Result<()> {
    for (_, list) in tx.db.waitlists.collect_range(tx, .., tx.policy.rows_per_input)? {
        tx.isolated(|tx| fill(tx, &list.user))?;
    }
    Ok(())
}

/// Sends or edits the digest, if its number changed and its last change is long enough ago.
fn tell(tx: &mut Tx<'_, '_>, user: &UserId) -> Result<()> {
    let key = PersonKey::of(user);
    let Some(list) = tx.db.waitlists.get(tx, &key)? else { return Ok(()) };
    if !may_change(tx, &list)? {
        return Ok(());
    }
    let Direct::At(to) = direct::find(tx, user)? else { return Ok(()) };
    let edits = channels::capabilities(tx, &to.channel)?.is_none_or(|can| can.edits);
    let notice = notice::notice(tx, to, None, words(list.waits));
    let known = match &list.digest {
        Some(digest) if is_shown(tx, digest.message)? => Some(digest.message),
        _ => None,
    };
    let sent = match (known, list.waits) {
        // Where messages cannot be edited, one digest is enough.
        (Some(message), _) if !edits => Some((message, message)),
        (Some(message), _) => {
            let edit = Outbound { act: Act::Edit(MessageRef::Ours(message)), ..notice };
            Some((message, queue::say(tx, edit)?))
        }
        (None, 0) => None,
        (None, _) => queue::say(tx, notice).map(|id| Some((id, id)))?,
    };
    if list.waits == 0 {
        return tx.db.waitlists.delete(tx, &key).map(drop);
    }
    let digest = sent.map(|(message, last)| Digest { message, last, says: list.waits, at: tx.now.wall });
    tx.db.waitlists.put(tx, &key, &Waitlist { digest, ..list })
}

/// Whether the digest may be sent or edited now, and its number changed.
fn may_change(tx: &Tx<'_, '_>, list: &Waitlist) -> Result<bool> {
    let Some(digest) = &list.digest else { return Ok(list.waits > 0) };
    let again = digest.at.plus(tx.policy.digest_again);
    // After the clock was set back, the age of the digest is unknown.
    let early = (digest.at..again).contains(&tx.now.wall);
    if list.waits == digest.says || early {
        return Ok(false);
    }
    let last = tx.db.outbound.get(tx, &digest.last)?;
    Ok(last.is_none_or(|row| {
        !matches!(row.state, OutState::Waiting { .. } | OutState::Attempting { .. } | OutState::Later(_))
    }))
}

/// Whether a message was delivered, so that it can be edited.
fn is_shown(tx: &Tx<'_, '_>, id: OutboundId) -> Result<bool> {
    Ok(tx.db.outbound.get(tx, &id)?.is_some_and(|row| matches!(row.state, OutState::Delivered { .. })))
}

fn words(waits: u64) -> String {
    match waits {
        0 => "No more questions wait.".to_owned(),
        1 => "1 more question waits: `hearth approvals list`".to_owned(),
        _ => format!("{waits} more questions wait: `hearth approvals list`"),
    }
}

#[cfg(test)]
mod tests {
    use crate::approvals::waitlist::*;

    #[test]
    fn a_digest_counts_in_words() {
        assert_eq!(words(0), "No more questions wait.");
        assert_eq!(words(1), "1 more question waits: `hearth approvals list`");
        assert_eq!(words(37), "37 more questions wait: `hearth approvals list`");
    }
}
