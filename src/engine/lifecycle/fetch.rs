//! Files that the network keeps, and transcripts of audio. Files are fetched when an agent gets the message, not while it
//! waits for an approval.
//!
//! The message is stored with its position in the session. It is dispatched when its files are present or known to be
//! missing, and what is said in its audio files is transcribed, if that is configured. The row in `fetches` survives a
//! crash, so a later run requests the files again.

use crate::Result;
use crate::lifecycle::dispatch::DueMessage;
use crate::lifecycle::mailbox_view::SessionRef;
use crate::lifecycle::{dispatch, mailbox_view};
use crate::model::address::{Address, ChannelName};
use crate::model::content::{Attachment, FileBytes};
use crate::model::effect::{self, Effect, Transcribe};
use crate::model::id::{BodyId, MessageId, SessionId};
use crate::model::message::{Body, Due, Fetch, MessageState};
use crate::model::report::Reply;
use crate::model::voice::Transcript;
use crate::rows::{agents, messages, sessions, transcripts};
use crate::state::Owned;
use crate::state::held_bytes;
use crate::tx::Tx;

/// Shown for a file whose fetch timed out.
const TOO_LATE: &str = "it could not be fetched in time; ask for it again";
/// Shown for a file that the channel did not report on.
const UNANSWERED: &str = "it was not fetched";
/// Shown for a file that is not needed any more.
const UNWANTED: &str = "it was not fetched, because no agent needed it any more";
/// Shown for a file whose transcript is given up.
const NOT_HEARD: &str = "it was not transcribed in time";
/// Shown for a file that was to be transcribed when that was configured.
const UNCONFIGURED: &str = "`voice.transcribe` is not configured any more";

/// Starts fetching the files of a body that are still on the network, and transcribing its audio if a message of it
/// triggers. Returns whether there is anything to wait for. If so, the caller parks the message.
pub(crate) fn begin(tx: &mut Tx<'_, '_>, id: BodyId, files: &[Attachment], trigger: bool) -> Result<bool> {
    let is_heard = trigger && transcripts::begin(tx, id, files)?;
    if !is_heard && !is_remote(files) {
        return Ok(false);
    }
    if !tx.db.fetches.contains(tx, &id)? {
        ask(tx, id, None)?;
    }
    Ok(true)
}

fn is_remote(files: &[Attachment]) -> bool {
    files.iter().any(|file| file.blob.is_remote())
}

/// Records the files that a channel fetched. Ignored if no fetch is in progress for the body.
pub(crate) fn fetched(tx: &mut Tx<'_, '_>, id: BodyId, files: &[Attachment]) -> Result<Reply> {
    if tx.db.fetches.contains(tx, &id)? {
        settle(tx, id, files, UNANSWERED)?;
    }
    Ok(Reply::Done)
}

/// Records what was heard in the audio files of a body. Ignored if that is not awaited.
pub(crate) fn transcribed(tx: &mut Tx<'_, '_>, id: BodyId, results: &[Transcript]) -> Result<Reply> {
    if tx.db.fetches.contains(tx, &id)? && !is_remote(&tx.db.bodies.require(tx, &id)?.attachments) {
        transcripts::heard(tx, id, results)?;
        finish(tx, id)?;
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
                return give_up(tx, id, UNWANTED);
            }
            if !earlier_run && fetch.until <= tx.now.awake {
                return give_up(tx, id, TOO_LATE);
            }
            ask(tx, id, Some(fetch).filter(|_| !earlier_run))
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
                ask(tx, id, Some(fetch).filter(|_| same_run))?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Requests the files of a body, or their transcripts, and stores when to repeat the request. `before` is the row that
/// this run stored earlier.
fn ask(tx: &mut Tx<'_, '_>, id: BodyId, before: Option<Fetch>) -> Result<()> {
    let now = tx.now.awake;
    let until = before.map_or_else(|| now.plus(tx.policy.fetch_max), |before| before.until);
    let again = now.plus(tx.policy.fetch_again);
    tx.db.fetches.put(tx, &id, &Fetch { again, until })?;
    let body = tx.db.bodies.require(tx, &id)?;
    if !is_remote(&body.attachments) {
        return ask_for_transcripts(tx, id, &body);
    }
    if let Some(Address { channel, .. }) = body.source {
        tx.effects.push(Effect::Fetch(Box::new(effect::Fetch { body: id, channel, files: body.attachments })));
    }
    Ok(())
}

fn ask_for_transcripts(tx: &mut Tx<'_, '_>, id: BodyId, body: &Body) -> Result<()> {
    let files = transcripts::awaited_files(tx, id, body)?;
    match transcripts::transcriber(tx)?.filter(|_| !files.is_empty()) {
        Some(with) => tx.effects.push(Effect::Transcribe(Box::new(Transcribe { body: id, files, with }))),
        None => {
            transcripts::give_up(tx, id, UNCONFIGURED)?;
            finish(tx, id)?;
        }
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

/// The triggering messages of a session that wait for files or transcripts.
pub(crate) fn parked_in(tx: &Tx<'_, '_>, session: SessionId, limit: usize) -> Result<Vec<MessageId>> {
    let mut found = Vec::new();
    for (body, _) in tx.db.fetches.collect_range(tx, .., limit)? {
        for id in parked(tx, body)? {
            let message = tx.db.messages.require(tx, &id)?;
            found.extend((message.session == session && message.trigger).then_some(id));
        }
    }
    Ok(found)
}

/// Ends a fetch: each file is present or has a reason. What is said in them is transcribed next.
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
    if transcripts::files_fetched(tx, id, &body)? { ask(tx, id, None) } else { finish(tx, id) }
}

/// Gives up what is not there yet.
fn give_up(tx: &mut Tx<'_, '_>, id: BodyId, why: &str) -> Result<()> {
    transcripts::give_up(tx, id, NOT_HEARD)?;
    settle(tx, id, &[], why)
}

/// Nothing of the body is awaited any more: its messages are dispatched.
fn finish(tx: &mut Tx<'_, '_>, id: BodyId) -> Result<()> {
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
    dispatch::dispatch_visibly(tx, DueMessage { of, message, sender: None }).map(drop)
}
