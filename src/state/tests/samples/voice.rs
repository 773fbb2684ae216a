//! Voice messages.

use crate::model::id::BodyId;
use crate::model::time::Millis;
use crate::model::voice::{Made, SpeechTool, Transcriber, Transcript, TranscriptState, Transcripts, Voice};
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
    }
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
