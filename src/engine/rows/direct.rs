//! The direct-message address of a person, outside of any group chat.

use crate::Result;
use crate::model::address::{Address, ForeignId, UserId};
use crate::model::entity::{Chat, Origin, UnknownSenders};
use crate::rows::{channels, chats};
use crate::state::PersonKey;
use crate::tx::Tx;

/// The channel of the users of this machine's terminal.
const TERMINAL: &str = "terminal";

/// Prefix of a person's address on the terminal. An agent's folder cannot begin with it.
const PERSON: char = '@';

/// How a person can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Direct {
    /// At this address.
    At(Address),
    /// The channel has to open a direct message first.
    ToOpen,
    /// Not at all: Hearth does not know the channel.
    Nowhere,
}

/// How a person can be reached, as far as the store knows.
pub(crate) fn find(tx: &Tx<'_, '_>, user: &UserId) -> Result<Direct> {
    let Some(can) = channels::capabilities(tx, user.channel())? else { return Ok(Direct::Nowhere) };
    if !can.opens_direct {
        return Ok(own_address(user).map_or(Direct::Nowhere, Direct::At));
    }
    let known = tx.db.direct_messages.get(tx, &PersonKey::of(user))?;
    let Some(known) = known.filter(|known| known.address.channel == *user.channel()) else {
        return Ok(Direct::ToOpen);
    };
    // If the chat was removed, the direct message is opened again.
    let there = chats::find(tx, &known.address.channel, &known.address.platform_id)?.is_some();
    Ok(if there { Direct::At(known.address) } else { Direct::ToOpen })
}

/// Creates the chat of a direct message, unless it exists. Unknown senders are dropped there.
pub(crate) fn make_chat(tx: &mut Tx<'_, '_>, user: &UserId, at: &Address) -> Result<()> {
    if chats::find(tx, &at.channel, &at.platform_id)?.is_some() {
        return Ok(());
    }
    let row = tx.db.users.get(tx, &PersonKey::of(user))?.filter(|row| row.id == *user);
    let chat = Chat {
        channel: at.channel.clone(),
        platform_id: at.platform_id.clone(),
        name: row.and_then(|row| row.name),
        group: false,
        unknown_senders: UnknownSenders::Strict,
        denied: None,
        origin: Origin::Runtime,
        created: tx.now.wall,
        archived: None,
    };
    chats::insert(tx, &chat).map(drop)
}

/// The address of a person on a channel where every user has one.
fn own_address(user: &UserId) -> Option<Address> {
    let platform_id = if user.channel().as_str() == TERMINAL {
        ForeignId::new("the chat", format!("{PERSON}{}", user.handle())).ok()?
    } else {
        user.handle().clone()
    };
    Some(Address { channel: user.channel().clone(), platform_id, thread: None })
}

/// The address at which a person on the terminal is asked, no matter which agent they talk to there.
pub(crate) fn on_terminal(user: &UserId) -> Option<Address> {
    if user.channel().as_str() == TERMINAL { own_address(user) } else { None }
}

#[cfg(test)]
mod tests {
    use crate::rows::direct::*;

    #[test]
    fn a_person_is_their_own_chat_except_on_the_terminal() {
        let at = |text| own_address(&UserId::parse(text).unwrap()).unwrap().platform_id.to_string();
        assert_eq!(at("telegram:6037840640"), "6037840640");
        assert_eq!(at("terminal:1000"), "@1000");
        assert_eq!(at("teams:29:abc"), "29:abc");
    }
}
