//! Where a person is reached outside of any chat.

use super::{rows, send};
use crate::engine::{Applied, Cx, Result, channels, chats};
use crate::model::address::{Address, ForeignId, UserId};
use crate::model::approval::ApprovalState;
use crate::model::entity::{Chat, DirectMessage, Origin, UnknownSenders};
use crate::model::id::ApprovalId;
use crate::state::{ForeignKey, Write};

/// The channel on which a person is whoever sits at a terminal of this machine.
const TERMINAL: &str = "terminal";
/// What tells a person's address on the terminal from an agent's, whose folder cannot begin like this.
const PERSON: char = '@';
/// Approvals that may wait for the same direct message.
const WAITING_MAX: usize = 1_000;

/// Where a person is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Direct {
    /// Here.
    At(Address),
    /// Their channel has to open a direct message first.
    ToOpen,
    /// Nowhere: Hearth does not know their channel.
    Nowhere,
}

/// Where a person is reached, as far as anybody knows.
pub(super) fn find(cx: &Cx<'_>, txn: &Write<'_>, user: &UserId) -> Result<Direct> {
    let Some(can) = channels::capabilities(cx, txn, user.channel())? else { return Ok(Direct::Nowhere) };
    if !can.opens_direct {
        return Ok(own_address(user).map_or(Direct::Nowhere, Direct::At));
    }
    let known = cx.db.direct_messages.get(txn, &ForeignKey::user(user))?;
    let Some(known) = known.filter(|known| known.address.channel == *user.channel()) else {
        return Ok(Direct::ToOpen);
    };
    // A chat that was removed is opened anew.
    let there = chats::find(cx, txn, &known.address.channel, &known.address.platform_id)?.is_some();
    Ok(if there { Direct::At(known.address) } else { Direct::ToOpen })
}

/// Makes the chat of a direct message if there is none; strangers have nothing to say in it.
pub(super) fn make_chat(cx: &Cx<'_>, txn: &mut Write<'_>, user: &UserId, at: &Address) -> Result<()> {
    if chats::find(cx, txn, &at.channel, &at.platform_id)?.is_some() {
        return Ok(());
    }
    let row = cx.db.users.get(txn, &ForeignKey::user(user))?.filter(|row| row.id == *user);
    let chat = Chat {
        channel: at.channel.clone(),
        platform_id: at.platform_id.clone(),
        name: row.and_then(|row| row.name),
        group: false,
        unknown_senders: UnknownSenders::Strict,
        denied: None,
        origin: Origin::Runtime,
        created: cx.now.wall,
        archived: None,
    };
    chats::insert(cx, txn, &chat).map(drop)
}

/// A channel opened a direct message, or could not: cards that wait for it are shown, there or to somebody else.
pub(in crate::engine) fn opened(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    user: &UserId,
    chat: std::result::Result<ForeignId, String>,
) -> Result<Applied> {
    let mut effects = Vec::new();
    let opened = match chat {
        Ok(platform_id) => {
            let address = Address { channel: user.channel().clone(), platform_id, thread: None };
            make_chat(cx, txn, user, &address)?;
            let row = DirectMessage { address: address.clone(), resolved: cx.now.wall };
            cx.db.direct_messages.put(txn, &ForeignKey::user(user), &row)?;
            Ok(address)
        }
        Err(why) => Err(why),
    };
    for id in waiting(cx, txn, user)? {
        match &opened {
            Ok(address) => send::show_to(cx, txn, id, (user, address), &mut effects)?,
            Err(why) => send::failed(cx, txn, id, &format!("no direct message with {user}: {why}")).map(drop)?,
        }
    }
    Ok(Applied::done(effects))
}

/// Approvals whose card waits until somebody can be written to.
fn waiting(cx: &Cx<'_>, txn: &Write<'_>, user: &UserId) -> Result<Vec<ApprovalId>> {
    let mut found = Vec::new();
    for ((_, id), ()) in cx.db.approvals_due.collect_range(txn, .., WAITING_MAX)? {
        let approval = rows::open(cx, txn, id)?;
        let waits = approval.is_some_and(|approval| {
            let unsent = matches!(approval.state, ApprovalState::Unsent { .. });
            unsent && approval.card.is_none() && approval.approver.as_ref() == Some(user)
        });
        if waits {
            found.push(id);
        }
    }
    Ok(found)
}

/// The address of a person on a channel where everybody has one.
fn own_address(user: &UserId) -> Option<Address> {
    let platform_id = if user.channel().as_str() == TERMINAL {
        ForeignId::new("the chat", format!("{PERSON}{}", user.handle())).ok()?
    } else {
        user.handle().clone()
    };
    Some(Address { channel: user.channel().clone(), platform_id, thread: None })
}

/// The address at which a person on the terminal is asked, whichever agent they talk to there.
pub(super) fn on_terminal(user: &UserId) -> Option<Address> {
    if user.channel().as_str() == TERMINAL { own_address(user) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_their_own_chat_except_on_the_terminal() {
        let at = |text| own_address(&UserId::parse(text).unwrap()).unwrap().platform_id.to_string();
        assert_eq!(at("telegram:6037840640"), "6037840640");
        assert_eq!(at("terminal:1000"), "@1000");
        assert_eq!(at("teams:29:abc"), "29:abc");
    }
}
