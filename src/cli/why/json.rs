//! The answer of `hearth why --json`: events, and their outcomes.

use serde::Serialize;

use crate::cli::spend::AmountsJson;
use crate::model::Timestamp;

/// The history of one event.
#[derive(Debug, Default, Serialize)]
pub(super) struct EventJson {
    /// The outgoing message that was asked about, if any. The other fields are about the event that it answers.
    pub(super) answer: Option<AnswerJson>,
    pub(super) platform_message: Option<String>,
    pub(super) chat: Option<String>,
    pub(super) thread: Option<String>,
    pub(super) sender: Option<String>,
    pub(super) sender_name: Option<String>,
    /// When it was sent, by the platform's clock.
    pub(super) said: Option<String>,
    /// When Hearth accepted or dropped it.
    pub(super) taken_in: String,
    /// The beginning of its text; null for dropped events, whose text is not kept, and for expired texts.
    pub(super) text: Option<String>,
    /// Whether its text has expired.
    pub(super) expired: bool,
    /// Files that came with it.
    pub(super) files: Vec<FileJson>,
    pub(super) wirings: Vec<WiringJson>,
    pub(super) messages: Vec<MessageJson>,
    pub(super) timeline: Vec<StepJson>,
    /// Missing rows. The store is damaged, and the history is incomplete.
    pub(super) damaged: Vec<String>,
}

/// A file that came with a message.
#[derive(Debug, Serialize)]
pub(super) struct FileJson {
    pub(super) name: String,
    pub(super) size: u64,
    /// Why its bytes are missing; null if they exist.
    pub(super) error: Option<String>,
    /// What was heard in it; null if it was not to be transcribed.
    pub(super) transcript: Option<TranscriptJson>,
}

/// The transcript of an audio file.
#[derive(Debug, Serialize)]
pub(super) struct TranscriptJson {
    /// The beginning of the text; null if there is none.
    pub(super) text: Option<String>,
    /// Why there is none; null if there is one.
    pub(super) error: Option<String>,
    /// What transcribed it; null if nothing did.
    pub(super) by: Option<String>,
    /// Duration of the transcription or synthesis.
    pub(super) took_ms: Option<u64>,
}

/// What one wiring decided.
#[derive(Debug, Serialize)]
pub(super) struct WiringJson {
    /// Null for a refusal that applies to all wirings.
    pub(super) agent: Option<String>,
    /// `engaged`, `accumulated`, `held`, `refused`, `consumed` or `no_record`.
    pub(super) decision: &'static str,
    pub(super) reason: Option<String>,
    pub(super) words: String,
    pub(super) message: Option<String>,
}

/// State of one message of the event.
#[derive(Debug, Serialize)]
pub(super) struct MessageJson {
    pub(super) message: String,
    pub(super) agent: String,
    pub(super) session: String,
    /// The task and the scheduled time that it belongs to.
    pub(super) task: Option<String>,
    pub(super) slot: Option<String>,
    pub(super) state: &'static str,
    pub(super) words: Option<String>,
    /// When it is tried again, if that is known and the machine stays awake.
    pub(super) next_try: Option<String>,
    pub(super) tries: u32,
    /// What its turns used of models; null if that is not known.
    pub(super) spend: Option<AmountsJson>,
    pub(super) answers: Vec<AnswerJson>,
}

/// An outgoing message.
#[derive(Debug, Serialize)]
pub(super) struct AnswerJson {
    pub(super) outbound: String,
    /// The id that the channel gets.
    pub(super) outgoing_id: String,
    /// The agent that sent it and its session, or null for a notice of Hearth itself.
    pub(super) agent: Option<String>,
    pub(super) session: Option<String>,
    /// The agent's incarnation, or null for a notice of Hearth itself.
    pub(super) incarnation: Option<u32>,
    pub(super) to: Option<String>,
    /// The recipient in words for people.
    #[serde(skip)]
    pub(super) to_words: Option<String>,
    pub(super) text: String,
    pub(super) state: &'static str,
    pub(super) words: Option<String>,
    /// When it is tried again, if that is known and the machine stays awake.
    pub(super) next_try: Option<String>,
    pub(super) attempts: u32,
    /// The platform's id of it, once it is delivered.
    pub(super) platform_message: Option<String>,
    /// The subject of its card: an approval, a question or a skip.
    pub(super) about: Option<String>,
    /// Its spoken form; null if it was not to be spoken.
    pub(super) speech: Option<SpeechJson>,
    /// The message that it is the spoken form of.
    pub(super) spoken_form_of: Option<String>,
}

/// The spoken form of an outgoing message.
#[derive(Debug, Serialize)]
pub(super) struct SpeechJson {
    /// The message with the audio; null if there is none.
    pub(super) message: Option<String>,
    /// Why there is none; null while it is being made.
    pub(super) error: Option<String>,
    /// What made it; null if nothing did.
    pub(super) by: Option<String>,
    /// Duration of the transcription or synthesis.
    pub(super) took_ms: Option<u64>,
}

/// One step of the history.
#[derive(Debug, Serialize)]
pub(super) struct StepJson {
    pub(super) at: String,
    /// Null if the step concerns the whole event.
    pub(super) message: Option<String>,
    pub(super) what: String,
    #[serde(skip)]
    pub(super) order: Timestamp,
}
