//! Turns audio into text, and answers into audio, with the configured program or server, outside of the engine. What is
//! asked for is in tables, so the engine asks again after a crash.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};

use super::engine_thread::Inbox;
use super::files::Files;
use super::mailbox_workers::MailboxWorkers;
use super::references;
use super::stop::Stop;
use crate::clock::{self, Stopwatch};
use crate::config::env;
use crate::model::effect::{Speak, Transcribe};
use crate::model::id::{BodyId, OutboundId};
use crate::model::time::Millis;
use crate::model::voice::{Made, SpeechTool};
use crate::provider::{SpeechFailure, SpeechServer};
use crate::runtime::process::{self, ToolError, ToolRun};

mod aloud;
mod hear;
mod speak;

/// Files that are transcribed at once, and answers that are spoken at once, over all chats.
const AT_ONCE: usize = 2;
/// Pauses between attempts with a server.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];

/// What speech needs of the daemon.
pub(super) struct VoiceContext {
    pub(super) tokio: Handle,
    pub(super) files: Files,
    /// Keep the audio of answers with the other files of their sessions.
    pub(super) workers: Arc<MailboxWorkers>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) stop: Arc<Stop>,
}

/// Transcribes and speaks.
pub(super) struct Voice {
    tokio: Handle,
    files: Files,
    workers: Arc<MailboxWorkers>,
    inbox: Arc<Inbox>,
    stop: Arc<Stop>,
    hearing: Semaphore,
    speaking: Semaphore,
    /// What is being done, with what ends it.
    under_way: Mutex<HashMap<Work, Arc<Notify>>>,
}

/// One piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Work {
    /// The transcripts of a body.
    Transcripts(BodyId),
    /// The audio of an answer.
    Speech(OutboundId),
}

/// Why there is no transcript or no audio.
enum NoResult {
    /// The daemon stops, or the result is not needed any more. If it is, the next daemon tries again.
    Stopping,
    /// For people and agents.
    Because(String),
}

impl From<ToolError> for NoResult {
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
    pub(super) fn new(context: VoiceContext) -> Arc<Self> {
        let VoiceContext { tokio, files, workers, inbox, stop } = context;
        Arc::new(Self {
            tokio,
            files,
            workers,
            inbox,
            stop,
            hearing: Semaphore::new(AT_ONCE),
            speaking: Semaphore::new(AT_ONCE),
            under_way: Mutex::default(),
        })
    }

    /// Starts transcribing the files of a message, unless that is under way. Returns at once.
    pub(super) fn transcribe(self: &Arc<Self>, of: Transcribe) {
        let voice = Arc::clone(self);
        self.start(Work::Transcripts(of.body), async move { hear::all(&voice, &of).await });
    }

    /// Starts speaking an answer, unless that is under way. Returns at once.
    pub(super) fn speak(self: &Arc<Self>, of: Speak) {
        let voice = Arc::clone(self);
        self.start(Work::Speech(of.answer), async move { speak::answer(&voice, &of).await });
    }

    /// Ends the speech of an answer. Nothing is reported of it any more.
    pub(super) fn silence(&self, answer: OutboundId) {
        if let Some(end) = self.lock().remove(&Work::Speech(answer)) {
            end.notify_one();
        }
    }

    fn start(self: &Arc<Self>, work: Work, doing: impl Future<Output = ()> + Send + 'static) {
        let end = Arc::new(Notify::new());
        match self.lock().entry(work) {
            Entry::Occupied(_) => return,
            Entry::Vacant(free) => drop(free.insert(Arc::clone(&end))),
        }
        let ended = Ended { voice: Arc::clone(self), work };
        self.tokio.spawn(async move {
            let _ended = ended;
            tokio::select! {
                () = end.notified() => {}
                () = doing => {}
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Work, Arc<Notify>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a command for a piece of work, which gets a function that tells whether to end.
    async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: Work,
        command: impl FnOnce(&dyn Fn() -> bool) -> Result<T, NoResult> + Send + 'static,
    ) -> Result<T, NoResult> {
        let voice = Arc::clone(self);
        blocking(move || command(&|| voice.stop.is_asked() || !voice.lock().contains_key(&work))).await?
    }

    /// Asks a server, and again if it is in trouble.
    async fn ask<T, F: Future<Output = Result<T, SpeechFailure>>>(&self, ask: impl Fn() -> F) -> Result<T, NoResult> {
        let mut pauses = PAUSES.into_iter();
        loop {
            match ask().await {
                Ok(done) => return Ok(done),
                Err(_) if self.stop.is_asked() => return Err(NoResult::Stopping),
                Err(SpeechFailure::Final(why)) => return Err(NoResult::Because(why)),
                Err(SpeechFailure::Passing(why)) => match pauses.next() {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return Err(NoResult::Because(why)),
                },
            }
        }
    }
}

/// Ends a piece of work, however it ends.
struct Ended {
    voice: Arc<Voice>,
    work: Work,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.voice.lock().remove(&self.work);
    }
}

/// A configured tool, ready for use.
enum Tool {
    /// A program, without input and without room for output.
    Command(ToolRun),
    Server(ReadyServer),
}

/// A server and its key.
struct ReadyServer {
    url: String,
    model: Option<String>,
    key: Option<String>,
    timeout: Duration,
}

impl ReadyServer {
    fn borrowed(&self) -> SpeechServer<'_> {
        SpeechServer { url: &self.url, model: self.model.as_deref(), key: self.key.as_deref(), timeout: self.timeout }
    }
}

impl Tool {
    async fn of(tool: &SpeechTool, timeout: Millis) -> Result<Self, NoResult> {
        let timeout = Duration::from_millis(timeout.get());
        Ok(match tool {
            SpeechTool::Command(line) => Self::Command(tool_run(line, timeout)),
            SpeechTool::Server { url, model, key } => {
                let key = resolved(key.clone()).await?;
                Self::Server(ReadyServer { url: url.clone(), model: model.clone(), key, timeout })
            }
        })
    }
}

/// Runs a command. Its errors are for people.
fn run_tool(run: &ToolRun, stopped: &dyn Fn() -> bool) -> Result<Vec<u8>, NoResult> {
    Ok(process::run_tool(run, stopped)?)
}

/// What a tool did since it was begun.
fn made(tool: &SpeechTool, began: Stopwatch) -> Made {
    let took = Millis::new(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
    Made { tool: tool.label(), took, at: clock::wall() }
}

/// Does work that blocks. It is not done if the daemon is stopping.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, NoResult> {
    tokio::task::spawn_blocking(work).await.map_err(|_| NoResult::Stopping)
}

/// The value of a reference to a key.
async fn resolved(key: Option<String>) -> Result<Option<String>, NoResult> {
    let Some(reference) = key else { return Ok(None) };
    let value = blocking(move || references::resolve(&reference)).await?;
    let value = value.map_err(|error| NoResult::Because(format!("`key` cannot be resolved: {error}")))?;
    let value = value.into_string().map_err(|_| NoResult::Because("`key` is no text".to_owned()))?;
    Ok(Some(value))
}

/// The configured command, without input.
fn tool_run(line: &[String], timeout: Duration) -> ToolRun {
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
        timeout,
        output_max: 0,
    }
}
