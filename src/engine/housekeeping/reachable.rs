//! A channel or an address becomes reachable: everything that waits for it continues.
//!
//! Effects for a channel that is not connected are lost, so this is also the only place at which what must reach every
//! new connection is requested.

use crate::Result;
use crate::approvals::direct;
use crate::delivery::result;
use crate::entities::threads;
use crate::lifecycle::fetch;
use crate::model::address::{Address, ChannelName};
use crate::model::report::Reply;
use crate::tx::Tx;

/// A channel, or one address of it, can be reached again: repeats requests to it and attempts waiting deliveries.
pub(crate) fn reachable(tx: &mut Tx<'_, '_>, channel: &ChannelName, address: Option<&Address>) -> Result<Reply> {
    tx.isolated(|tx| fetch::of_channel(tx, channel))?;
    if address.is_none() {
        tx.isolated(|tx| threads::subscribe_again(tx, channel))?;
        tx.isolated(|tx| direct::open_again(tx, channel))?;
    }
    result::reachable(tx, channel, address)
}
