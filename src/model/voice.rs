//! Voice messages: how audio becomes text, and how answers are spoken.

use serde::{Deserialize, Serialize};

use super::id::OutboundId;
use super::time::{Awake, Millis, Timestamp};

/// Settings for voice messages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Voice {
    /// How audio becomes text; none leaves it to the agent.
    pub transcribe: Option<Transcriber>,
    /// How answers are spoken; none sends their text only.
    pub speak: Option<Speaker>,
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

/// Turns text into audio.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speaker {
    /// What does it.
    pub tool: SpeechTool,
    /// The voice, as a server calls it.
    pub voice: Option<String>,
    /// The format of the audio that a server is asked for.
    pub format: AudioFormat,
    /// Which answers are spoken.
    pub when: SpeakWhen,
    /// Longest answer that is spoken, in characters.
    pub max_chars: u32,
    /// Largest audio that is sent, in bytes.
    pub max_bytes: u64,
    /// Time for one answer.
    pub timeout: Millis,
}

/// Which answers are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SpeakWhen {
    /// Answers to voice messages.
    #[default]
    Asked,
    /// Every text that an agent sends to a chat.
    Always,
}

/// A format of audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum AudioFormat {
    /// MP3.
    #[default]
    Mp3,
    /// Opus in an Ogg container.
    Opus,
    /// AAC.
    Aac,
    /// FLAC.
    Flac,
    /// WAV.
    Wav,
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
        /// Name of the model, if the server needs one.
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

impl Speaker {
    /// Longest answer unless configured.
    pub const CHARS: u32 = 1_500;
    /// Upper limit of `max_chars`: servers take no more.
    pub const CHARS_MAX: u32 = 4_096;
    /// Largest audio unless configured. A minute of WAV has about 3 MB.
    pub const BYTES: u64 = 10 << 20;
    /// Upper limit of `max_bytes`.
    pub const BYTES_MAX: u64 = 20 << 20;
}

impl SpeakWhen {
    /// The word in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Always => "always",
        }
    }
}

impl AudioFormat {
    /// Every format.
    pub const ALL: [Self; 5] = [Self::Mp3, Self::Opus, Self::Aac, Self::Flac, Self::Wav];

    /// The word that servers use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mp3 => "mp3",
            Self::Opus => "opus",
            Self::Aac => "aac",
            Self::Flac => "flac",
            Self::Wav => "wav",
        }
    }
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
    /// The audio is being transcribed.
    Waiting,
    /// The transcript is finished.
    Done {
        /// What was said, as far as the tool understood it. Untrusted, like any text of the sender.
        text: String,
        /// What made it, and when.
        by: Made,
    },
    /// There is none, and why.
    Failed {
        /// Reason in words for people.
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

/// The spoken form of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Speech {
    /// The audio is being made.
    Waiting {
        /// When the tool was last asked.
        asked: Awake,
        /// When the answer was delivered.
        since: Timestamp,
    },
    /// A second message has the audio.
    Sent {
        /// The outgoing message with the audio.
        message: OutboundId,
        /// What made the audio, and when.
        by: Made,
    },
    /// There is none, and why.
    Failed {
        /// Reason in words for people.
        why: String,
        /// What did not make it, and when it was given up.
        by: Made,
    },
}

/// What made a transcript or a speech.
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
