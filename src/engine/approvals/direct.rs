//! Opens direct messages with people.

use crate::Result;
use crate::approvals::send;
use crate::model::Turn;
use crate::model::address::{Address, ChannelName, ForeignId, UserId};
use crate::model::approval::{Approval, ApprovalState};
use crate::model::entity::DirectMessage;
use crate::model::id::ApprovalId;
use crate::model::report::Reply;
use crate::rows::{approvals, channels, direct};
use crate::state::{ApproverKey, PersonKey, Timed};
use crate::tx::Tx;

/// Records that a channel opened a direct message, or could not. Cards that wait for it are shown there, or retried
/// with another approver.
pub(crate) fn opened(
    tx: &mut Tx<'_, '_>,
    user: &UserId,
    chat: std::result::Result<ForeignId, String>,
) -> Result<Reply> {
    let opened = match chat {
        Ok(platform_id) => {
            let address = Address { channel: user.channel().clone(), platform_id, thread: None };
            direct::make_chat(tx, user, &address)?;
            let row = DirectMessage { address: address.clone(), resolved: tx.now.wall };
            tx.db.direct_messages.put(tx, &PersonKey::of(user), &row)?;
            Ok(address)
        }
        Err(why) => Err(why),
    };
    for id in waiting(tx, user)? {
        match &opened {
            Ok(address) => send::show_to(tx, id, user, address)?,
            Err(why) => send::failed(tx, id, &format!("no direct message with {user}: {why}")).map(drop)?,
        }
    }
    Ok(Reply::Done)
}

/// Shows the cards that could not be shown because a direct message could not be opened on this channel: it is
/// connected now.
pub(crate) fn open_again(tx: &mut Tx<'_, '_>, channel: &ChannelName) -> Result<()> {
    if !channels::capabilities(tx, channel)?.is_some_and(|can| can.opens_direct) {
        return Ok(());
    }
    let due = tx.db.approvals_due.collect_range(tx, .., tx.policy.rows_per_input / 4)?;
    for (Timed { id, .. }, ()) in due {
        let Some(approval) = approvals::open(tx, id)?.filter(is_unsent) else { continue };
        let Some(user) = approval.approver.filter(|user| user.channel() == channel) else { continue };
        tx.isolated(|tx| send::take_turn(tx, id, &user))?;
    }
    Ok(())
}

/// Whether no card was sent.
fn is_unsent(approval: &Approval) -> bool {
    matches!(approval.state, ApprovalState::Unsent { .. }) && approval.card.is_none()
}

/// Approvals whose card waits for a direct message with this person.
fn waiting(tx: &Tx<'_, '_>, user: &UserId) -> Result<Vec<ApprovalId>> {
    let mut found = Vec::new();
    let asked = (PersonKey::of(user), Turn::Now);
    for (ApproverKey { approval: id, .. }, ()) in tx.db.approvals_by_decider.collect_prefix(tx, &asked, usize::MAX)? {
        if approvals::open(tx, id)?.as_ref().is_some_and(is_unsent) {
            found.push(id);
        }
    }
    Ok(found)
}
