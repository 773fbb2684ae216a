//! Opens direct messages with people.

use crate::Result;
use crate::approvals::send;
use crate::model::Turn;
use crate::model::address::{Address, ForeignId, UserId};
use crate::model::approval::ApprovalState;
use crate::model::entity::DirectMessage;
use crate::model::id::ApprovalId;
use crate::model::report::Reply;
use crate::rows::{approvals, direct};
use crate::state::{ApproverKey, PersonKey};
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

/// Approvals whose card waits for a direct message with this person.
fn waiting(tx: &Tx<'_, '_>, user: &UserId) -> Result<Vec<ApprovalId>> {
    let mut found = Vec::new();
    let asked = (PersonKey::of(user), Turn::Now);
    for (ApproverKey { approval: id, .. }, ()) in tx.db.approvals_by_decider.collect_prefix(tx, &asked, usize::MAX)? {
        let approval = approvals::open(tx, id)?;
        let waits = approval.is_some_and(|approval| {
            let unsent = matches!(approval.state, ApprovalState::Unsent { .. });
            unsent && approval.card.is_none()
        });
        if waits {
            found.push(id);
        }
    }
    Ok(found)
}
