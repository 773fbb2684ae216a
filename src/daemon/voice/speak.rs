//! Turns answers into audio.

use std::sync::Arc;

use super::{NoResult, Tool, Voice, Work, aloud, blocking};
use crate::clock::Stopwatch;
use crate::crash;
use crate::daemon::engine_thread::Item;
use crate::daemon::files::Files;
use crate::model::effect::Speak;
use crate::model::input::{Input, Spoken};
use crate::provider::SpokenText;

/// Speaks an answer.
pub(super) async fn answer(voice: &Arc<Voice>, of: &Speak) {
    // The semaphore is never closed.
    let Ok(_slot) = voice.speaking.acquire().await else { return };
    let began = Stopwatch::start();
    let result = audio(voice, of).await;
    let by = super::made(&of.with.tool, began);
    let audio = match result {
        Ok(audio) => Ok(audio),
        Err(NoResult::Because(why)) => {
            tracing::warn!(answer = %of.answer, why, "an answer cannot be spoken");
            Err(why)
        }
        Err(NoResult::Stopping) => return,
    };
    crash::point("spoken");
    voice.inbox.push(Item::of(Input::Spoken(Spoken { answer: of.answer, audio, by })));
}

/// Makes and keeps the audio. Returns its name.
async fn audio(voice: &Arc<Voice>, of: &Speak) -> Result<String, NoResult> {
    let text = aloud::read(&of.text);
    if text.is_empty() {
        return Err(NoResult::Because("it has no text to read aloud".to_owned()));
    }
    let bytes = bytes(voice, of, text).await?;
    if bytes.is_empty() {
        return Err(NoResult::Because("there was no audio".to_owned()));
    }
    let ending = ending(&bytes);
    let ending = ending.ok_or_else(|| NoResult::Because("what was made is not audio of a known format".to_owned()))?;
    let (workers, session, answer) = (Arc::clone(&voice.workers), of.session, of.answer);
    let keep = move || {
        Files::room(workers.context.engine.store(), bytes.len() as u64).map_err(|error| error.to_string())?;
        let kept = workers.mailboxes().keep_audio(session, answer, &format!("answer.{ending}"), &bytes);
        kept.map_err(|error| error.to_string())?.ok_or_else(|| "its session is gone".to_owned())
    };
    blocking(keep).await?.map_err(|why| NoResult::Because(format!("its audio cannot be kept: {why}")))
}

async fn bytes(voice: &Arc<Voice>, of: &Speak, text: String) -> Result<Vec<u8>, NoResult> {
    let max = usize::try_from(of.with.max_bytes).unwrap_or(usize::MAX);
    match Tool::of(&of.with.tool, of.with.timeout).await? {
        Tool::Command(mut run) => {
            run.input = text.into_bytes();
            run.output_max = max;
            voice.run(Work::Speech(of.answer), move |stopped| super::run_tool(&run, stopped)).await
        }
        Tool::Server(server) => {
            let (voice_name, format) = (of.with.voice.as_deref(), of.with.format.as_str());
            let wanted = &SpokenText { text: &text, voice: voice_name, format, bytes_max: max };
            let server = &server.borrowed();
            voice.ask(|| server.speak(wanted)).await
        }
    }
}

/// The ending of a name for audio, by its first bytes. Networks and programs go by it.
fn ending(bytes: &[u8]) -> Option<&'static str> {
    let at = |from: usize, mark: &[u8]| bytes.get(from..).is_some_and(|rest| rest.starts_with(mark));
    // A frame of MPEG audio begins with 11 set bits; then come two of the version and two of the layer, 0 for AAC.
    let frame = match bytes {
        [0xff, second, ..] if second & 0xf6 == 0xf0 => Some("aac"),
        [0xff, second, ..] if second & 0xe0 == 0xe0 && second & 0x06 != 0 => Some("mp3"),
        _ => None,
    };
    let known = [
        (at(0, b"OggS"), "ogg"),
        (at(0, b"RIFF") && at(8, b"WAVE"), "wav"),
        (at(0, b"ID3"), "mp3"),
        (at(0, b"fLaC"), "flac"),
        (at(4, b"ftyp"), "m4a"),
    ];
    known.into_iter().find_map(|(is, ending)| is.then_some(ending)).or(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audio_is_known_by_its_first_bytes() {
        for (bytes, expected) in [
            (&b"OggS\0"[..], Some("ogg")),
            (b"RIFF\x24\0\0\0WAVEfmt ", Some("wav")),
            (b"ID3\x04", Some("mp3")),
            (b"\xff\xfb\x90", Some("mp3")),
            (b"\xff\xf3\x40", Some("mp3")),
            (b"\xff\xf1\x50", Some("aac")),
            (b"fLaC", Some("flac")),
            (b"\0\0\0\x20ftypM4A ", Some("m4a")),
            (b"RIFF\0\0\0\0AVI ", None),
            (b"\xff\xd8\xff\xe0", None),
            (b"<html>", None),
            (b"{\"error\": \"no\"}", None),
            (b"\xff", None),
            (b"", None),
        ] {
            assert_eq!(ending(bytes), expected, "{bytes:?}");
        }
    }
}
