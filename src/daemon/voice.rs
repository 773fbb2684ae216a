//! Turns audio into text with the configured program or server, outside of the engine. What is asked for is in a table, so
//! the engine asks again after a crash.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::engine_thread::{Inbox, Item};
use super::files::Files;
use super::references;
use super::stop::Stop;
use crate::clock::{self, Stopwatch};
use crate::config::env;
use crate::config::temp_dir::{Purpose, TempDir};
use crate::crash;
use crate::model::content::Attachment;
use crate::model::effect::Transcribe;
use crate::model::id::BodyId;
use crate::model::input::Input;
use crate::model::time::Millis;
use crate::model::voice::{Made, SpeechTool, Transcriber, Transcript, TranscriptState};
use crate::provider::{AudioFile, SpeechFailure, SpeechServer};
use crate::runtime::process::{ToolError, ToolRun, run_tool};

/// Files that are transcribed at once, over all chats.
const AT_ONCE: usize = 2;
/// Pauses between attempts with a server.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
/// Longest end of a file's name.
const EXTENSION_MAX: usize = 5;

/// Transcribes audio.
pub(super) struct Voice {
    tokio: Handle,
    files: Files,
    inbox: Arc<Inbox>,
    stop: Arc<Stop>,
    slots: Semaphore,
    /// Bodies whose files are being transcribed.
    under_way: Mutex<HashSet<BodyId>>,
}

/// Why there is no transcript.
enum NoText {
    /// The daemon stops. The next one tries again.
    Stopping,
    /// For people and agents.
    Because(String),
}

impl From<ToolError> for NoText {
    fn from(error: ToolError) -> Self {
        if let ToolError::Failed { status, said } = &error {
            // It may say anything, so agents do not see it.
            tracing::warn!(%status, said, "the command for speech failed");
        }
        match error {
            ToolError::Stopped => Self::Stopping,
            error => Self::Because(error.to_string()),
        }
    }
}

impl Voice {
    pub(super) fn new(tokio: &Handle, files: &Files, inbox: &Arc<Inbox>, stop: &Arc<Stop>) -> Arc<Self> {
        Arc::new(Self {
            tokio: tokio.clone(),
            files: files.clone(),
            inbox: Arc::clone(inbox),
            stop: Arc::clone(stop),
            slots: Semaphore::new(AT_ONCE),
            under_way: Mutex::default(),
        })
    }

    /// Starts transcribing the files of a message, unless that is under way. Returns at once.
    pub(super) fn transcribe(self: &Arc<Self>, of: Transcribe) {
        let is_new = self.under_way.lock().unwrap_or_else(PoisonError::into_inner).insert(of.body);
        if is_new {
            let voice = Arc::clone(self);
            self.tokio.spawn(async move {
                let _ended = Ended { voice: &voice, body: of.body };
                voice.all(&of).await;
            });
        }
    }

    async fn all(&self, Transcribe { body, files, with }: &Transcribe) {
        let mut heard = Vec::with_capacity(files.len());
        for file in files {
            // The semaphore is never closed.
            let Ok(_slot) = self.slots.acquire().await else { return };
            let began = Stopwatch::start();
            let result = self.one(file, with).await;
            let took = Millis::new(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
            let by = Made { tool: with.tool.label(), took, at: clock::wall() };
            let state = match result.and_then(|text| tidy(&text)) {
                Ok(text) => TranscriptState::Done { text, by },
                Err(NoText::Because(why)) => {
                    tracing::warn!(%body, why, "a voice message has no transcript");
                    TranscriptState::Failed { why, by }
                }
                Err(NoText::Stopping) => return,
            };
            heard.push(Transcript { file: file.name.clone(), state });
        }
        crash::point("transcribed");
        self.inbox.push(Item::of(Input::Transcribed(*body, heard)));
    }

    async fn one(&self, file: &Attachment, with: &Transcriber) -> Result<String, NoText> {
        let (files, blob, max) = (self.files.clone(), file.blob.clone(), with.max_bytes);
        let read = move || match blob.stored() {
            Some(blob) => files.read(blob, max),
            None => Ok(None),
        };
        let bytes = blocking(read).await?.map_err(|why| NoText::Because(format!("its file cannot be read: {why}")))?;
        let bytes = bytes.ok_or_else(|| NoText::Because("its file is not kept any more".to_owned()))?;
        let audio = AudioFile { name: format!("audio.{}", extension(file)), bytes };
        match &with.tool {
            SpeechTool::Command(line) => {
                let (line, timeout, stop) = (line.clone(), with.timeout, Arc::clone(&self.stop));
                blocking(move || run_command(&line, &audio, timeout, &stop)).await?
            }
            SpeechTool::Server { url, model, key } => {
                let key = resolved(key.clone()).await?;
                let server = SpeechServer {
                    url,
                    model: model.as_deref(),
                    key: key.as_deref(),
                    timeout: Duration::from_millis(with.timeout.get()),
                };
                self.ask(&server, &audio, with.language.as_deref()).await
            }
        }
    }

    /// Asks a server, and again if it is in trouble.
    async fn ask(
        &self,
        server: &SpeechServer<'_>,
        audio: &AudioFile,
        language: Option<&str>,
    ) -> Result<String, NoText> {
        let mut pauses = PAUSES.into_iter();
        loop {
            let copy = AudioFile { name: audio.name.clone(), bytes: audio.bytes.clone() };
            match server.transcribe(copy, language).await {
                Ok(text) => return Ok(text),
                Err(_) if self.stop.is_asked() => return Err(NoText::Stopping),
                Err(SpeechFailure::Final(why)) => return Err(NoText::Because(why)),
                Err(SpeechFailure::Passing(why)) => match pauses.next() {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return Err(NoText::Because(why)),
                },
            }
        }
    }
}

/// Ends the work on a body, however it ends.
struct Ended<'a> {
    voice: &'a Voice,
    body: BodyId,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.voice.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.body);
    }
}

/// Does work that blocks. It is not done if the daemon is stopping.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, NoText> {
    tokio::task::spawn_blocking(work).await.map_err(|_| NoText::Stopping)
}

/// The value of a reference to a key.
async fn resolved(key: Option<String>) -> Result<Option<String>, NoText> {
    let Some(reference) = key else { return Ok(None) };
    let value = blocking(move || references::resolve(&reference)).await?;
    let value = value.map_err(|error| NoText::Because(format!("`key` cannot be resolved: {error}")))?;
    let value = value.into_string().map_err(|_| NoText::Because("`key` is no text".to_owned()))?;
    Ok(Some(value))
}

/// Runs the command with a copy of the audio, whose path is its last argument. Its output is the text.
fn run_command(line: &[String], audio: &AudioFile, timeout: Millis, stop: &Stop) -> Result<String, NoText> {
    let copied = || {
        let directory = TempDir::create(Purpose::Speech)?;
        let path = directory.path().join(&audio.name);
        std::fs::write(&path, &audio.bytes)?;
        io::Result::Ok((directory, path))
    };
    let (_directory, path) =
        copied().map_err(|error| NoText::Because(format!("the audio cannot be copied for the command: {error}")))?;
    let mut run = tool_run(line, timeout);
    run.arguments.push(path.into());
    run.output_max = Transcriber::TEXT_MAX;
    let output = run_tool(&run, &|| stop.is_asked())?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// The configured command, without input.
fn tool_run(line: &[String], timeout: Millis) -> ToolRun {
    let (program, arguments) = line.split_first().map_or_else(Default::default, |(program, rest)| {
        (PathBuf::from(program), rest.iter().map(OsString::from).collect())
    });
    let home = env::home().map(|home| (OsString::from("HOME"), home.into_os_string()));
    let variables = [("PATH".into(), env::child_path()), ("LANG".into(), "C.UTF-8".into())];
    ToolRun {
        program,
        arguments,
        variables: variables.into_iter().chain(home).collect(),
        input: Vec::new(),
        timeout: Duration::from_millis(timeout.get()),
        output_max: 0,
    }
}

/// A text without control characters and of bounded length.
fn tidy(text: &str) -> Result<String, NoText> {
    let plain: String = text.trim().chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    let end = plain.floor_char_boundary(Transcriber::TEXT_MAX);
    match plain.get(..end).map(str::trim) {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(NoText::Because("no speech was recognized".to_owned())),
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
