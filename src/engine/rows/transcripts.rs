//! Transcripts of voice messages. A body has a row if its audio is, or was to be, transcribed.

use crate::Result;
use crate::model::content::{Attachment, FileBytes};
use crate::model::id::BodyId;
use crate::model::message::Body;
use crate::model::time::{Millis, Timestamp};
use crate::model::voice::{Made, Transcriber, Transcript, TranscriptState, Transcripts, is_audio};
use crate::rows::{budgets, recall};
use crate::state::{Read, Tables};
use crate::tx::Tx;

/// Audio files of one message that are transcribed: with the text of all of them, the message fits into its file.
const FILES_MAX: usize = 4;

/// How audio becomes text, if that is configured.
pub(crate) fn transcriber(tx: &Tx<'_, '_>) -> Result<Option<Transcriber>> {
    Ok(budgets::settings(tx)?.voice.as_ref().and_then(|voice| voice.transcribe.clone()))
}

/// Begins the transcripts of a body's audio files, if that is configured and was not done before. Returns whether some
/// have to be made.
pub(crate) fn begin(tx: &mut Tx<'_, '_>, id: BodyId, files: &[Attachment]) -> Result<bool> {
    let audio: Vec<&Attachment> = files.iter().filter(|file| is_audio(file.mime.as_deref())).collect();
    if audio.is_empty() {
        return Ok(false);
    }
    if let Some(known) = tx.db.transcripts.get(tx, &id)? {
        return Ok(known.are_awaited());
    }
    let Some(transcriber) = transcriber(tx)? else { return Ok(false) };
    let now = tx.now.wall;
    let begun = |(at, file): (usize, &Attachment)| {
        let state = match at < FILES_MAX {
            true => first_state(file, &transcriber, now),
            false => failed(format!("only {FILES_MAX} audio files of a message are transcribed"), now),
        };
        Transcript { file: file.name.clone(), state }
    };
    let row = Transcripts { files: audio.into_iter().enumerate().map(begun).collect() };
    tx.db.transcripts.put(tx, &id, &row)?;
    Ok(row.are_awaited())
}

fn first_state(file: &Attachment, transcriber: &Transcriber, now: Timestamp) -> TranscriptState {
    match &file.blob {
        FileBytes::Missing(why) => failed(format!("the file is missing: {why}"), now),
        _ if file.size > transcriber.max_bytes => {
            let (size, max) = (file.size, transcriber.max_bytes);
            failed(format!("the file has {size} bytes, and at most {max} are transcribed"), now)
        }
        FileBytes::Stored(_) | FileBytes::Remote(_) => TranscriptState::Waiting,
    }
}

/// A transcript that no tool was asked for.
fn failed(why: String, at: Timestamp) -> TranscriptState {
    TranscriptState::Failed { why, by: Made { tool: String::new(), took: Millis::ZERO, at } }
}

/// The transcripts of a body with these files.
pub(crate) fn of(db: &Tables, txn: &Read<'_>, id: BodyId, files: &[Attachment]) -> Result<Vec<Transcript>> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    Ok(db.transcripts.get(txn, &id)?.map(|row| row.files).unwrap_or_default())
}

/// The files of a body whose transcripts are still to be made.
pub(crate) fn awaited_files(tx: &Tx<'_, '_>, id: BodyId, body: &Body) -> Result<Vec<Attachment>> {
    let row = tx.db.transcripts.get(tx, &id)?.unwrap_or(Transcripts { files: Vec::new() });
    let waits =
        |file: &&Attachment| row.files.iter().any(|one| one.file == file.name && one.state == TranscriptState::Waiting);
    Ok(body.attachments.iter().filter(waits).cloned().collect())
}

/// The files of a body were fetched: those that are missing or too large have no transcript. Returns whether others have to
/// be made.
pub(crate) fn files_fetched(tx: &mut Tx<'_, '_>, id: BodyId, body: &Body) -> Result<bool> {
    let Some(row) = tx.db.transcripts.get(tx, &id)? else { return Ok(false) };
    let Some(transcriber) = transcriber(tx)? else {
        // The caller asks, and finds out.
        return Ok(row.are_awaited());
    };
    let now = tx.now.wall;
    let row = changed(row, |one| {
        let file = body.attachments.iter().find(|file| file.name == one.file);
        file.map_or_else(|| failed("the file is missing".to_owned(), now), |file| first_state(file, &transcriber, now))
    });
    tx.db.transcripts.put(tx, &id, &row)?;
    Ok(row.are_awaited())
}

/// Ends the transcripts of a body that are still awaited, for a reason.
pub(crate) fn give_up(tx: &mut Tx<'_, '_>, id: BodyId, why: &str) -> Result<()> {
    let Some(row) = tx.db.transcripts.get(tx, &id)?.filter(Transcripts::are_awaited) else { return Ok(()) };
    let now = tx.now.wall;
    tx.db.transcripts.put(tx, &id, &changed(row, |_| failed(why.to_owned(), now)))
}

/// Records what was heard. Transcripts without a result have failed.
pub(crate) fn heard(tx: &mut Tx<'_, '_>, id: BodyId, results: &[Transcript]) -> Result<()> {
    let Some(row) = tx.db.transcripts.get(tx, &id)? else { return Ok(()) };
    let now = tx.now.wall;
    let row = changed(row, |one| {
        let result = results.iter().find(|result| result.file == one.file).map(|result| result.state.clone());
        let result = result.filter(|state| *state != TranscriptState::Waiting);
        result.unwrap_or_else(|| failed("it was not transcribed".to_owned(), now))
    });
    recall::body_heard(tx, id, |tx| tx.db.transcripts.put(tx, &id, &row))
}

fn changed(mut row: Transcripts, ended: impl Fn(&Transcript) -> TranscriptState) -> Transcripts {
    for one in row.files.iter_mut().filter(|one| one.state == TranscriptState::Waiting) {
        one.state = ended(one);
    }
    row
}
