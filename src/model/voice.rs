//! Voice messages: how audio becomes text.

use serde::{Deserialize, Serialize};

use super::time::{Millis, Timestamp};

/// Settings for voice messages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Voice {
    /// How audio becomes text; none leaves it to the agent.
    pub transcribe: Option<Transcriber>,
}

/// Turns audio into text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transcriber {
    /// What does it.
    pub tool: SpeechTool,
    /// The language of the speech, as the tool calls it; none lets the tool find out.
    pub language: Option<String>,
    /// Largest file that is transcribed, in bytes.
    pub max_bytes: u64,
    /// Time for one file.
    pub timeout: Millis,
}

/// A program or a server for speech.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpeechTool {
    /// A program and its arguments.
    Command(Vec<String>),
    /// A server with the API of OpenAI.
    Server {
        /// The base of its URLs, such as `https://api.openai.com/v1`.
        url: String,
        /// The model.
        model: Option<String>,
        /// Reference to the key: `env:`, `file:` or `cmd:`.
        key: Option<String>,
    },
}

impl Transcriber {
    /// Largest file unless configured.
    pub const BYTES: u64 = 5 << 20;
    /// Upper limit of `max_bytes`.
    pub const BYTES_MAX: u64 = 25 << 20;
    /// Longest transcript that is kept, in bytes.
    pub const TEXT_MAX: usize = 32 << 10;
}

impl SpeechTool {
    /// Time for one file unless configured.
    pub const TIMEOUT: Millis = Millis::minutes(2);
    /// Longest time that can be configured.
    pub const TIMEOUT_MAX: Millis = Millis::minutes(10);

    /// What it is, for people: without arguments and keys.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Command(line) => line.first().map(|program| format!("the command {program}")).unwrap_or_default(),
            Self::Server { url, model: Some(model), .. } => format!("{model} at {url}"),
            Self::Server { url, model: None, .. } => url.clone(),
        }
    }

    /// The reference to its key.
    #[must_use]
    pub const fn key(&self) -> Option<&String> {
        match self {
            Self::Server { key, .. } => key.as_ref(),
            Self::Command(_) => None,
        }
    }
}

/// The transcripts of a body's audio files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transcripts {
    /// One per audio file, in the order of the files.
    pub files: Vec<Transcript>,
}

impl Transcripts {
    /// Whether some are still missing.
    #[must_use]
    pub fn are_awaited(&self) -> bool {
        self.files.iter().any(|file| file.state == TranscriptState::Waiting)
    }
}

/// The transcript of one audio file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transcript {
    /// The file's name in its message.
    pub file: String,
    /// Where it is.
    pub state: TranscriptState,
}

/// Whether there is a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TranscriptState {
    /// It is being made.
    Waiting,
    /// It is there.
    Done {
        /// What was said, as far as the tool understood it. Untrusted, like any text of the sender.
        text: String,
        /// What made it, and when.
        by: Made,
    },
    /// There is none, and why.
    Failed {
        /// Why.
        why: String,
        /// What did not make it, and when it was given up.
        by: Made,
    },
}

impl TranscriptState {
    /// The text, or why there is none.
    ///
    /// # Errors
    /// The reason.
    pub fn get(&self) -> Result<&str, &str> {
        match self {
            Self::Waiting => Err("it is being transcribed"),
            Self::Done { text, .. } => Ok(text),
            Self::Failed { why, .. } => Err(why),
        }
    }
}

/// What made a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The tool, for people; empty if none was asked.
    pub tool: String,
    /// How long it took.
    pub took: Millis,
    /// When it ended.
    pub at: Timestamp,
}

/// Whether a file is transcribed, by the media type that its network reports.
#[must_use]
pub fn is_audio(mime: Option<&str>) -> bool {
    let Some(mime) = mime else { return false };
    let mime = mime.trim();
    mime.get(..6).is_some_and(|kind| kind.eq_ignore_ascii_case("audio/"))
        || mime.eq_ignore_ascii_case("application/ogg")
}
