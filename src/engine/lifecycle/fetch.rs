//! Files that the network keeps. They are fetched when an agent gets the message, not while it waits for an approval.
//!
//! The message is stored with its position in the session. It is dispatched when its files are present or known to be
//! missing. The row in `fetches` survives a crash, so a later run requests the files again.

use crate::Result;
use crate::lifecycle::dispatch::DueMessage;
use crate::lifecycle::mailbox_view::SessionRef;
use crate::lifecycle::{dispatch, mailbox_view};
use crate::model::address::ChannelName;
use crate::model::content::{Attachment, FileBytes};
use crate::model::effect::{self, Effect};
use crate::model::id::{BodyId, MessageId};
use crate::model::message::{Due, Fetch, MessageState};
use crate::model::report::Reply;
use crate::rows::{agents, messages, sessions};
use crate::state::Owned;
use crate::state::held_bytes;
use crate::tx::Tx;

/// Shown for a file whose fetch timed out.
const TOO_LATE: &str = "it could not be fetched in time; ask for it again";
/// Shown for a file that the channel did not report on.
const UNANSWERED: &str = "it was not fetched";
/// Shown for a file that is not needed any more.
const UNWANTED: &str = "it was not fetched, because no agent needed it any more";

/// Starts fetching the files of a body that are still on the network. Returns whether there are any. If so, the caller
/// parks the messages.
pub(crate) fn begin(tx: &mut Tx<'_, '_>, id: BodyId, files: &[Attachment]) -> Result<bool> {
    if !files.iter().any(|file| file.blob.is_remote()) {
        return Ok(false);
    }
    if !tx.db.fetches.contains(tx, &id)? {
        let body = tx.db.bodies.require(tx, &id)?;
        ask(tx, id, body.source.map(|source| source.channel), None)?;
    }
    Ok(true)
}

/// Records the files that a channel fetched. Ignored if no fetch is in progress for the body.
pub(crate) fn fetched(tx: &mut Tx<'_, '_>, id: BodyId, files: &[Attachment]) -> Result<Reply> {
    if tx.db.fetches.contains(tx, &id)? {
        settle(tx, id, files, UNANSWERED)?;
    }
    Ok(Reply::Done)
}

/// Repeats requests without an answer, and gives up on files whose deadline has passed.
pub(crate) fn due(tx: &mut Tx<'_, '_>) -> Result<()> {
    let limit = tx.policy.rows_per_input / 4;
    for (id, fetch) in tx.db.fetches.collect_range(tx, .., limit)? {
        let earlier_run = fetch.again.run() != tx.now.awake.run();
        if !earlier_run && tx.now.awake < fetch.again {
            continue;
        }
        tx.isolated(|tx| {
            if !is_wanted(tx, id)? {
                return settle(tx, id, &[], UNWANTED);
            }
            if !earlier_run && fetch.until <= tx.now.awake {
                return settle(tx, id, &[], TOO_LATE);
            }
            let source = tx.db.bodies.require(tx, &id)?.source;
            ask(tx, id, source.map(|source| source.channel), Some(fetch).filter(|_| !earlier_run))
        })?;
    }
    Ok(())
}

/// Requests the files of a channel that has just come up.
pub(crate) fn of_channel(tx: &mut Tx<'_, '_>, channel: &ChannelName) -> Result<()> {
    let limit = tx.policy.rows_per_input / 4;
    for (id, fetch) in tx.db.fetches.collect_range(tx, .., limit)? {
        tx.isolated(|tx| {
            let source = tx.db.bodies.require(tx, &id)?.source;
            if source.is_some_and(|source| source.channel == *channel) {
                let same_run = fetch.again.run() == tx.now.awake.run();
                ask(tx, id, Some(channel.clone()), Some(fetch).filter(|_| same_run))?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Requests the files of a body and stores when to repeat the request. `before` is the row that this run stored
/// earlier.
fn ask(tx: &mut Tx<'_, '_>, id: BodyId, channel: Option<ChannelName>, before: Option<Fetch>) -> Result<()> {
    let now = tx.now.awake;
    let until = before.map_or_else(|| now.plus(tx.policy.fetch_max), |before| before.until);
    let again = now.plus(tx.policy.fetch_again);
    tx.db.fetches.put(tx, &id, &Fetch { again, until })?;
    if let Some(channel) = channel {
        let files = tx.db.bodies.require(tx, &id)?.attachments;
        tx.effects.push(Effect::Fetch(Box::new(effect::Fetch { body: id, channel, files })));
    }
    Ok(())
}

/// Whether a message still needs the files of its body, or may need them after an approval.
fn is_wanted(tx: &Tx<'_, '_>, id: BodyId) -> Result<bool> {
    Ok(!parked(tx, id)?.is_empty() || tx.db.held_messages_by_body.first_in(tx, &id)?.is_some())
}

/// Messages that wait for the files of a body.
fn parked(tx: &Tx<'_, '_>, id: BodyId) -> Result<Vec<MessageId>> {
    let mut found = Vec::new();
    for (Owned { id: message, .. }, ()) in tx.db.messages_by_body.collect_prefix(tx, &id, usize::MAX)? {
        if matches!(tx.db.messages.require(tx, &message)?.state, MessageState::Pending(_)) {
            found.push(message);
        }
    }
    Ok(found)
}

/// Ends a fetch: each file is present or has a reason, and the messages are dispatched.
fn settle(tx: &mut Tx<'_, '_>, id: BodyId, found: &[Attachment], otherwise: &str) -> Result<()> {
    let mut body = tx.db.bodies.require(tx, &id)?;
    for (at, file) in body.attachments.iter_mut().enumerate().filter(|(_, file)| file.blob.is_remote()) {
        match found.get(at).filter(|found| found.name == file.name && !found.blob.is_remote()) {
            Some(found) => (file.size, file.blob) = (found.size, found.blob.clone()),
            None => file.blob = FileBytes::Missing(otherwise.to_owned()),
        }
    }
    messages::put_files(tx, id, &body)?;
    held_bytes::recount_held(tx.db, tx, id, &body)?;
    tx.db.fetches.delete(tx, &id)?;
    for message in parked(tx, id)? {
        release(tx, message)?;
    }
    Ok(())
}

/// Dispatches a message that waited for its files.
fn release(tx: &mut Tx<'_, '_>, id: MessageId) -> Result<()> {
    let message = messages::update(tx, id, |message| message.state = MessageState::Pending(Due::Now))?;
    if agents::is_removed(tx, message.agent)? {
        return messages::drop_message(tx, id);
    }
    let Some(session) = sessions::load(tx, message.session)?.filter(|_| message.trigger) else { return Ok(()) };
    let agent = tx.db.agents.require(tx, &message.agent)?;
    let of = SessionRef { id: message.session, session: &session, agent: &agent };
    let message = mailbox_view::view(tx, id)?;
    dispatch::dispatch_visibly(tx, DueMessage { of, message }).map(drop)
}
