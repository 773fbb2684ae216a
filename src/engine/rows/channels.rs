//! Channels and their capabilities.

use crate::Result;
use crate::model::address::{Address, ChannelName, ForeignId};
use crate::model::channel::{BridgeProgram, BridgeState, Capabilities, ChannelInstance, ChannelKind, Choice, Cursor};
use crate::model::console;
use crate::model::report::Reply;
use crate::state::ForeignKey;
use crate::tx::Tx;

/// The channel of terminals.
const TERMINAL: &str = "terminal";

/// Channels that are examined for chats that are told something.
const CHANNELS_MAX: usize = 1_000;

/// What the console can do. It shows what is in the store, so nothing is sent twice.
const CONSOLE: Capabilities =
    Capabilities { choice: Choice::Buttons, card_max: 64_000, files: true, ..ChannelKind::Terminal.capabilities() };

/// The capabilities of a channel; none if it is not configured.
pub(crate) fn capabilities(tx: &Tx<'_, '_>, name: &ChannelName) -> Result<Option<Capabilities>> {
    if name.as_str() == TERMINAL {
        return Ok(Some(ChannelKind::Terminal.capabilities()));
    }
    if name.as_str() == console::CHANNEL {
        return Ok(Some(CONSOLE));
    }
    let Some(row) = row(tx, name)? else { return Ok(None) };
    let said = match row.kind {
        ChannelKind::Bridge => bridge(tx, name)?.capabilities,
        ChannelKind::Terminal | ChannelKind::Telegram | ChannelKind::Webhook => None,
    };
    Ok(Some(said.unwrap_or_else(|| row.kind.capabilities())))
}

/// The row of a channel; none if it is not configured.
pub(crate) fn row(tx: &Tx<'_, '_>, name: &ChannelName) -> Result<Option<ChannelInstance>> {
    let row = tx.db.channels.get(tx, &ForeignKey::of(name))?;
    Ok(row.filter(|row| row.name == *name))
}

/// The chats that are told what the owner has to know, by configuration.
pub(crate) fn notice_chats(tx: &Tx<'_, '_>) -> Result<Vec<Address>> {
    let mut found = Vec::new();
    for (_, row) in tx.db.channels.collect_range(tx, .., CHANNELS_MAX)? {
        let chat = row.program.as_ref().and_then(BridgeProgram::notices);
        if let Some(Ok(platform_id)) = chat.map(|chat| ForeignId::new("the chat", chat)) {
            found.push(Address { channel: row.name, platform_id, thread: None });
        }
    }
    Ok(found)
}

/// What is known of the bridge of a channel.
fn bridge(tx: &Tx<'_, '_>, name: &ChannelName) -> Result<BridgeState> {
    let known = tx.db.bridges.get(tx, &ForeignKey::of(name))?.filter(|known| known.channel == *name);
    Ok(known.unwrap_or_else(|| BridgeState {
        channel: name.clone(),
        program: None,
        capabilities: None,
        cursors: Vec::new(),
    }))
}

/// Stores what a bridge says of itself, so that it is known while the bridge does not run.
pub(crate) fn bridge_ready(
    tx: &mut Tx<'_, '_>,
    name: &ChannelName,
    program: &str,
    capabilities: Capabilities,
) -> Result<Reply> {
    // The channel may have been removed meanwhile.
    if row(tx, name)?.is_none_or(|row| row.kind != ChannelKind::Bridge) {
        return Ok(Reply::Done);
    }
    let before = bridge(tx, name)?;
    let now = BridgeState { program: Some(program.to_owned()), capabilities: Some(capabilities), ..before.clone() };
    if now != before {
        tx.db.bridges.put(tx, &ForeignKey::of(name), &now)?;
    }
    Ok(Reply::Done)
}

/// Stores how far a bridge has read. Names that are already known are replaced; too many are a refusal.
pub(crate) fn store_cursors(tx: &mut Tx<'_, '_>, name: &ChannelName, cursors: &[Cursor]) -> Result<Reply> {
    if cursors.is_empty() || row(tx, name)?.is_none_or(|row| row.kind != ChannelKind::Bridge) {
        return Ok(Reply::Done);
    }
    let before = bridge(tx, name)?;
    let mut now = before.clone();
    for cursor in cursors {
        match now.cursors.iter_mut().find(|known| known.name == cursor.name) {
            Some(known) => known.value.clone_from(&cursor.value),
            None => now.cursors.push(cursor.clone()),
        }
    }
    if now.cursors.len() > Cursor::COUNT_MAX {
        return Ok(Reply::refused("invalid", format!("a bridge can store at most {} cursors", Cursor::COUNT_MAX)));
    }
    if now != before {
        tx.db.bridges.put(tx, &ForeignKey::of(name), &now)?;
    }
    Ok(Reply::Done)
}
