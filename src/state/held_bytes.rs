//! Counts the bytes of files in held messages, by person or chat, and of all.

use super::keys::HolderKey;
use super::list_keys::Owned;
use super::schema::Tables;
use super::{Result, Write};
use crate::model::id::BodyId;
use crate::model::message::Body;

/// Bytes of the files of a message.
#[must_use]
pub fn file_bytes(body: &Body) -> u64 {
    body.attachments
        .iter()
        .filter(|file| file.blob.stored().is_some())
        .fold(0, |bytes, file| bytes.saturating_add(file.size))
}

/// The owner of a held message's file quota: its sender, or its chat if the sender is not known.
#[must_use]
pub fn holder(body: &Body) -> Option<HolderKey> {
    let chat = || body.source.as_ref().map(|source| HolderKey::chat(&source.channel, &source.platform_id));
    body.sender.as_ref().map(HolderKey::person).or_else(chat)
}

/// Updates the byte counts when a message becomes held or stops being held.
///
/// # Errors
/// Those of reading and writing rows.
pub fn count_held(db: &Tables, txn: &mut Write<'_>, body: &Body, change: impl Fn(u64) -> u64) -> Result<()> {
    let write = |bytes| if bytes == 0 { None } else { Some(bytes) };
    if let Some(holder) = holder(body) {
        match write(change(db.held_bytes_by_person.get(txn, &holder)?.unwrap_or(0))) {
            Some(bytes) => db.held_bytes_by_person.put(txn, &holder, &bytes)?,
            None => drop(db.held_bytes_by_person.delete(txn, &holder)?),
        }
    }
    match write(change(db.held_bytes.get(txn, &())?.unwrap_or(0))) {
        Some(bytes) => db.held_bytes.put(txn, &(), &bytes),
        None => db.held_bytes.delete(txn, &()).map(drop),
    }
}

/// Recounts the files of a held message after some were fetched for another agent that has the message.
///
/// # Errors
/// Those of reading and writing rows.
pub fn recount_held(db: &Tables, txn: &mut Write<'_>, id: BodyId, body: &Body) -> Result<()> {
    let bytes = file_bytes(body);
    for (Owned { id: approval, .. }, before) in db.held_messages_by_body.collect_prefix(txn, &id, usize::MAX)? {
        count_held(db, txn, body, |held| held.saturating_sub(before).saturating_add(bytes))?;
        db.held_messages_by_body.put(txn, &Owned { owner: id, id: approval }, &bytes)?;
    }
    Ok(())
}
