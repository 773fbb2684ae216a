//! Voice messages.

use crate::model::id::{BodyId, OutboundId};
use crate::model::time::{Awake, Millis};
use crate::model::voice::{
    AudioFormat, Made, SpeakWhen, Speaker, Speech, SpeechTool, Transcriber, Transcript, TranscriptState, Transcripts,
    Voice,
};
use crate::tests::samples::at;
use crate::{Result, Tables, Write};

pub(super) fn settings() -> Voice {
    Voice {
        transcribe: Some(Transcriber {
            tool: SpeechTool::Server {
                url: "https://api.openai.com/v1".to_owned(),
                model: Some("whisper-1".to_owned()),
                key: Some("env:OPENAI_API_KEY".to_owned()),
            },
            language: Some("de".to_owned()),
            max_bytes: 1_000_000,
            timeout: Millis::seconds(30),
        }),
        speak: Some(Speaker {
            tool: SpeechTool::Command(vec!["/usr/local/bin/speak".to_owned(), "--fast".to_owned()]),
            voice: None,
            format: AudioFormat::Mp3,
            when: SpeakWhen::Asked,
            max_chars: 1_500,
            max_bytes: 10_000_000,
            timeout: Millis::seconds(60),
        }),
    }
}

/// The spoken forms of answers.
pub(super) fn speeches(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let by = Made { tool: "the command /usr/local/bin/speak".to_owned(), took: Millis::new(2_300), at: at(60) };
    let sent = Speech::Sent { message: OutboundId::new(9), by: by.clone() };
    let failed = Speech::Failed { why: "the command ended with exit status: 1".to_owned(), by };
    let waiting = Speech::Waiting { asked: Awake::new(1, 70_000), since: at(70) };
    for (number, speech) in [(1, sent), (2, failed), (3, waiting)] {
        db.speeches.put(txn, &OutboundId::new(number), &speech)?;
    }
    Ok(())
}

/// What was heard in a message.
pub(super) fn transcripts(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let by = Made { tool: "the command /usr/local/bin/transcribe".to_owned(), took: Millis::new(1_200), at: at(50) };
    let done = TranscriptState::Done { text: "what is for dinner?".to_owned(), by: by.clone() };
    let failed = TranscriptState::Failed { why: "the command ended with exit status: 1".to_owned(), by };
    let file = |name: &str, state| Transcript { file: name.to_owned(), state };
    let files = vec![file("voice.ogg", done), file("other.ogg", failed)];
    db.transcripts.put(txn, &BodyId::new(1), &Transcripts { files })
}
