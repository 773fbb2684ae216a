//! Channels and their capabilities.

use crate::Result;
use crate::model::address::ChannelName;
use crate::model::channel::{Capabilities, ChannelInstance, ChannelKind};
use crate::state::ForeignKey;
use crate::tx::Tx;

/// The built-in channel.
const TERMINAL: &str = "terminal";

/// The capabilities of a channel; none if it is not configured.
pub(crate) fn capabilities(tx: &Tx<'_, '_>, name: &ChannelName) -> Result<Option<Capabilities>> {
    if name.as_str() == TERMINAL {
        return Ok(Some(ChannelKind::Terminal.capabilities()));
    }
    Ok(row(tx, name)?.map(|row| row.kind.capabilities()))
}

/// The row of a channel; none if it is not configured.
pub(crate) fn row(tx: &Tx<'_, '_>, name: &ChannelName) -> Result<Option<ChannelInstance>> {
    let row = tx.db.channels.get(tx, &ForeignKey::of(name))?;
    Ok(row.filter(|row| row.name == *name))
}
