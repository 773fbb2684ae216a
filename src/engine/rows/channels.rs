//! Channels and their capabilities.

use crate::Result;
use crate::model::address::ChannelName;
use crate::model::channel::{Capabilities, ChannelInstance, ChannelKind, Choice};
use crate::model::console;
use crate::state::ForeignKey;
use crate::tx::Tx;

/// The channel of terminals.
const TERMINAL: &str = "terminal";

/// What the console can do. It shows what is in the store, so nothing is sent twice.
const CONSOLE: Capabilities =
    Capabilities { choice: Choice::Buttons, card_max: 64_000, ..ChannelKind::Terminal.capabilities() };

/// The capabilities of a channel; none if it is not configured.
pub(crate) fn capabilities(tx: &Tx<'_, '_>, name: &ChannelName) -> Result<Option<Capabilities>> {
    if name.as_str() == TERMINAL {
        return Ok(Some(ChannelKind::Terminal.capabilities()));
    }
    if name.as_str() == console::CHANNEL {
        return Ok(Some(CONSOLE));
    }
    Ok(row(tx, name)?.map(|row| row.kind.capabilities()))
}

/// The row of a channel; none if it is not configured.
pub(crate) fn row(tx: &Tx<'_, '_>, name: &ChannelName) -> Result<Option<ChannelInstance>> {
    let row = tx.db.channels.get(tx, &ForeignKey::of(name))?;
    Ok(row.filter(|row| row.name == *name))
}
