//! Spoken answers: a delivered answer is followed by a second message with its audio.
//!
//! The answer itself is not touched, so nothing about speech can delay or lose it. A row says what is being spoken. The
//! audio becomes a message in the transaction that changes the row, so a crash makes it once or never, and a later run
//! asks for it again.

use std::path::Path;

use crate::delivery::queue;
use crate::model::content::RawJson;
use crate::model::delivery::{Act, Author, OutState, Outbound};
use crate::model::effect::{Effect, Speak};
use crate::model::id::{MessageId, OutboundId, SessionId};
use crate::model::input::Spoken;
use crate::model::report::Reply;
use crate::model::time::{Millis, Timestamp};
use crate::model::voice::{Made, SpeakWhen, Speaker, Speech, is_audio};
use crate::rows::{channels, speeches};
use crate::tx::Tx;
use crate::{Result, readable};

/// Answers to one message that are spoken.
const ANSWERS_MAX: usize = 4;
/// Answers whose audio is made or waits for that, over all chats.
const WAITING_MAX: usize = 16;
/// Endings of names of audio files.
const AUDIO_ENDINGS: [&str; 8] = ["mp3", "ogg", "oga", "opus", "m4a", "aac", "flac", "wav"];
/// Why there is no audio.
const TOO_LATE: &str = "it was not spoken in time";
const UNCONFIGURED: &str = "`voice.speak` is not configured any more";
const STOPPED: &str = "it was stopped";

/// Begins to speak an answer that was delivered, if that is configured and wanted.
pub(crate) fn answer_ended(tx: &mut Tx<'_, '_>, id: OutboundId, answer: &Outbound) -> Result<()> {
    let (OutState::Delivered { .. }, Author::Agent { .. }, Act::Say) = (&answer.state, &answer.author, &answer.act)
    else {
        return Ok(());
    };
    let Some(with) = speeches::speaker(tx)? else { return Ok(()) };
    if !is_wanted(tx, answer, with.when)? {
        return Ok(());
    }
    if let Some(why) = obstacle(tx, answer, &with)? {
        return put_failed(tx, id, why, untried(tx));
    }
    ask(tx, id, tx.now.wall)
}

/// Whether an answer is one of those that are spoken.
fn is_wanted(tx: &Tx<'_, '_>, answer: &Outbound, when: SpeakWhen) -> Result<bool> {
    let can_get_files = match &answer.to {
        Some(to) => channels::capabilities(tx, &to.channel)?.is_some_and(|can| can.files),
        None => false,
    };
    if !can_get_files || answer.text.trim().is_empty() {
        return Ok(false);
    }
    let question = match answer.in_reply_to {
        Some(message) => readable(tx.db.messages.get(tx, &message))?,
        None => None,
    };
    let body = match &question {
        Some(question) => readable(tx.db.bodies.get(tx, &question.body))?,
        None => None,
    };
    // The answer to a command is its output.
    if body.as_ref().is_some_and(|body| body.content.text.trim_start().starts_with('/')) {
        return Ok(false);
    }
    Ok(match when {
        SpeakWhen::Always => true,
        SpeakWhen::Asked => {
            question.is_some_and(|question| question.reply == answer.to)
                && body.is_some_and(|body| body.attachments.iter().any(|file| is_audio(file.mime.as_deref())))
        }
    })
}

/// Why an answer that is wanted is not spoken.
fn obstacle(tx: &Tx<'_, '_>, answer: &Outbound, with: &Speaker) -> Result<Option<String>> {
    let ending = |name: &String| Path::new(name).extension().map(|ending| ending.to_string_lossy().to_lowercase());
    let is_audio = |name: &String| ending(name).is_some_and(|ending| AUDIO_ENDINGS.contains(&ending.as_str()));
    if answer.files.iter().any(is_audio) {
        return Ok(Some("the answer has audio of its own".to_owned()));
    }
    let (length, max) = (answer.text.chars().count(), with.max_chars);
    if length > usize::try_from(max).unwrap_or(usize::MAX) {
        return Ok(Some(format!("it has {length} characters, and at most {max} are spoken")));
    }
    if let Some(message) = answer.in_reply_to
        && speeches::to_message(tx, message, tx.policy.rows_per_input / 8)? >= ANSWERS_MAX
    {
        return Ok(Some(format!("only {ANSWERS_MAX} answers to a message are spoken")));
    }
    let is_busy = speeches::waiting(tx, WAITING_MAX)?.len() >= WAITING_MAX;
    Ok(is_busy.then(|| format!("{WAITING_MAX} other answers are being spoken")))
}

/// Asks for the audio of an answer.
fn ask(tx: &mut Tx<'_, '_>, id: OutboundId, since: Timestamp) -> Result<()> {
    let answer = readable(tx.db.outbound.get(tx, &id))?;
    let (Some(with), Some(Outbound { author: Author::Agent { session, .. }, text, .. })) =
        (speeches::speaker(tx)?, answer)
    else {
        return put_failed(tx, id, UNCONFIGURED.to_owned(), untried(tx));
    };
    let waiting = Speech::Waiting { asked: tx.now.awake, since };
    tx.db.speeches.put(tx, &id, &waiting)?;
    tx.effects.push(Effect::Speak(Box::new(Speak { answer: id, session, text, with })));
    Ok(())
}

/// Repeats requests of an earlier run, and gives up on old ones.
pub(crate) fn due(tx: &mut Tx<'_, '_>) -> Result<()> {
    for id in speeches::waiting(tx, tx.policy.rows_per_input / 4)? {
        tx.isolated(|tx| {
            let Speech::Waiting { asked, since } = tx.db.speeches.require(tx, &id)? else { return Ok(()) };
            if since.plus(tx.policy.fetch_max) <= tx.now.wall {
                return give_up(tx, id, TOO_LATE);
            }
            if asked.run() == tx.now.awake.run() { Ok(()) } else { ask(tx, id, since) }
        })?;
    }
    Ok(())
}

/// Ends speeches under way of a session, of answers to the messages for which `may_stop` returns true. Returns whether
/// there were any.
pub(crate) fn stop(
    tx: &mut Tx<'_, '_>,
    of: SessionId,
    may_stop: impl Fn(&Tx<'_, '_>, Option<MessageId>) -> Result<bool>,
) -> Result<bool> {
    let mut stopped = false;
    for id in speeches::waiting(tx, tx.policy.rows_per_input / 8)? {
        let Some(answer) = readable(tx.db.outbound.get(tx, &id))? else { continue };
        let is_of = matches!(answer.author, Author::Agent { session, .. } if session == of);
        if is_of && may_stop(tx, answer.in_reply_to)? {
            give_up(tx, id, STOPPED)?;
            stopped = true;
        }
    }
    Ok(stopped)
}

fn give_up(tx: &mut Tx<'_, '_>, id: OutboundId, why: &str) -> Result<()> {
    tx.effects.push(Effect::Silence(id));
    put_failed(tx, id, why.to_owned(), untried(tx))
}

fn put_failed(tx: &mut Tx<'_, '_>, id: OutboundId, why: String, by: Made) -> Result<()> {
    tx.db.speeches.put(tx, &id, &Speech::Failed { why, by })
}

/// No tool was asked, or its result does not matter.
fn untried(tx: &Tx<'_, '_>) -> Made {
    Made { tool: String::new(), took: Millis::ZERO, at: tx.now.wall }
}

/// Sends the audio of an answer. It is not sent if nothing waits for it any more.
pub(crate) fn spoken(tx: &mut Tx<'_, '_>, of: &Spoken) -> Result<Reply> {
    let answer = readable(tx.db.outbound.get(tx, &of.answer))?;
    let is_awaited = tx.db.speeches.get(tx, &of.answer)?.is_some_and(|row| speeches::is_waiting(&row));
    let Some(answer) = answer else { return Ok(Reply::Done) };
    match &of.audio {
        Err(why) if is_awaited => put_failed(tx, of.answer, why.clone(), of.by.clone())?,
        Err(_) => {}
        Ok(audio) if is_awaited => send(tx, of, audio, &answer)?,
        Ok(audio) => {
            if let Author::Agent { session, .. } = answer.author {
                tx.effects.push(Effect::Release(session, vec![audio.clone()]));
            }
        }
    }
    Ok(Reply::Done)
}

fn send(tx: &mut Tx<'_, '_>, of: &Spoken, audio: &str, answer: &Outbound) -> Result<()> {
    let key = tx.db.outgoing(tx, of.answer)?;
    let message = Outbound {
        author: Author::Hearth,
        to: answer.to.clone(),
        act: Act::Say,
        in_reply_to: answer.in_reply_to,
        text: String::new(),
        content: RawJson::trusted(format!("{{\"spokenFormOf\":\"{key}\"}}")),
        files: vec![audio.to_owned()],
        state: OutState::Waiting { until: None, after: None },
        attempts: 0,
        first_attempt: None,
        uncertain: 0,
        stored: tx.now.wall,
    };
    let id = tx.db.allocate(tx)?;
    tx.db.outbound.put(tx, &id, &message)?;
    tx.db.speeches.put(tx, &of.answer, &Speech::Sent { message: id, by: of.by.clone() })?;
    queue::enqueue(tx, id, &message)
}
