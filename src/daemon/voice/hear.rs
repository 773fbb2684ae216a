//! Turns audio into text.

use std::io;
use std::sync::Arc;

use super::{NoResult, Tool, Voice, Work, blocking};
use crate::clock::Stopwatch;
use crate::config::temp_dir::{Purpose, TempDir};
use crate::crash;
use crate::daemon::engine_thread::Item;
use crate::model::content::Attachment;
use crate::model::effect::Transcribe;
use crate::model::input::Input;
use crate::model::voice::{Transcriber, Transcript, TranscriptState};
use crate::provider::AudioFile;
use crate::runtime::process::ToolRun;

/// Longest end of a file's name.
const EXTENSION_MAX: usize = 5;

/// Transcribes the files of a message.
pub(super) async fn all(voice: &Arc<Voice>, Transcribe { body, files, with }: &Transcribe) {
    let mut heard = Vec::with_capacity(files.len());
    for file in files {
        // The semaphore is never closed.
        let Ok(_slot) = voice.hearing.acquire().await else { return };
        let began = Stopwatch::start();
        let result = one(voice, Work::Transcripts(*body), file, with).await;
        let by = super::made(&with.tool, began);
        let state = match result.and_then(|text| tidy(&text)) {
            Ok(text) => TranscriptState::Done { text, by },
            Err(NoResult::Because(why)) => {
                tracing::warn!(%body, why, "a voice message has no transcript");
                TranscriptState::Failed { why, by }
            }
            Err(NoResult::Stopping) => return,
        };
        heard.push(Transcript { file: file.name.clone(), state });
    }
    crash::point("transcribed");
    voice.inbox.push(Item::of(Input::Transcribed(*body, heard)));
}

async fn one(voice: &Arc<Voice>, work: Work, file: &Attachment, with: &Transcriber) -> Result<String, NoResult> {
    let (files, blob, max) = (voice.files.clone(), file.blob.clone(), with.max_bytes);
    let read = move || match blob.stored() {
        Some(blob) => files.read(blob, max),
        None => Ok(None),
    };
    let bytes = blocking(read).await?.map_err(|why| NoResult::Because(format!("its file cannot be read: {why}")))?;
    let bytes = bytes.ok_or_else(|| NoResult::Because("its file is not kept any more".to_owned()))?;
    let audio = AudioFile { name: format!("audio.{}", extension(file)), bytes };
    match Tool::of(&with.tool, with.timeout).await? {
        Tool::Command(mut run) => {
            run.output_max = Transcriber::TEXT_MAX;
            let output = voice.run(work, move |stopped| run_command(run, &audio, stopped)).await?;
            Ok(String::from_utf8_lossy(&output).into_owned())
        }
        Tool::Server(server) => {
            let language = with.language.as_deref();
            let server = &server.borrowed();
            let copy = || AudioFile { name: audio.name.clone(), bytes: audio.bytes.clone() };
            voice.ask(|| server.transcribe(copy(), language)).await
        }
    }
}

/// Runs the command with a copy of the audio, whose path is its last argument. Its output is the text.
fn run_command(mut run: ToolRun, audio: &AudioFile, stopped: &dyn Fn() -> bool) -> Result<Vec<u8>, NoResult> {
    let copied = || {
        let directory = TempDir::create(Purpose::Speech)?;
        let path = directory.path().join(&audio.name);
        std::fs::write(&path, &audio.bytes)?;
        io::Result::Ok((directory, path))
    };
    let (_directory, path) =
        copied().map_err(|error| NoResult::Because(format!("the audio cannot be copied for the command: {error}")))?;
    run.arguments.push(path.into());
    super::run_tool(&run, stopped)
}

/// A text without control characters and of bounded length.
fn tidy(text: &str) -> Result<String, NoResult> {
    let plain: String = text.trim().chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    let end = plain.floor_char_boundary(Transcriber::TEXT_MAX);
    match plain.get(..end).map(str::trim) {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(NoResult::Because("no speech was recognized".to_owned())),
    }
}

/// The end of the name of an audio file. Programs and servers go by it; nothing else of the sender's name is used.
fn extension(file: &Attachment) -> String {
    let named = file.name.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase());
    let plain =
        |end: &String| (1..=EXTENSION_MAX).contains(&end.len()) && end.bytes().all(|byte| byte.is_ascii_alphanumeric());
    named.filter(plain).unwrap_or_else(|| {
        let known = match file.mime.as_deref() {
            Some("audio/mpeg") => "mp3",
            Some("audio/mp4" | "audio/x-m4a" | "audio/aac") => "m4a",
            Some("audio/wav" | "audio/x-wav") => "wav",
            Some("audio/webm") => "webm",
            Some("audio/flac") => "flac",
            _ => "ogg",
        };
        known.to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::content::FileBytes;

    #[test]
    fn only_the_end_of_a_senders_name_is_used() {
        let end = |name: &str, mime: Option<&str>| {
            let blob = FileBytes::Missing(String::new());
            extension(&Attachment { name: name.to_owned(), size: 1, mime: mime.map(str::to_owned), blob })
        };
        assert_eq!(end("voice.OGA", None), "oga");
        assert_eq!(end("voice", Some("audio/mpeg")), "mp3");
        for name in ["a.-rf", "a.", "a.toolong", "a.b/c", "a.é", ""] {
            assert_eq!(end(name, None), "ogg", "{name}");
        }
    }

    #[test]
    fn nonsense_is_no_transcript() {
        assert!(matches!(tidy(" a\u{0}\u{1b}[31m\tb\n\n"), Ok(text) if text == "a[31m\tb"));
        assert!(tidy(" \u{0}\n ").is_err());
        let long = tidy(&"é".repeat(Transcriber::TEXT_MAX)).unwrap_or_default();
        assert_eq!(long.len(), Transcriber::TEXT_MAX);
    }
}
