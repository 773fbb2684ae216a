//! Speech to text, and text to speech, by servers with the API of OpenAI.

use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::multipart::{Form, Part};
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::http;

/// Size limit of an answer with a text in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Stands in for the key in texts of the server.
const HIDDEN: &str = "[key]";
/// The models and the voice that are asked for unless others are configured. Most servers with one model accept any name.
const TRANSCRIBER: &str = "whisper-1";
const SPEAKER: &str = "tts-1";
const VOICE: &str = "alloy";

pub struct SpeechServer<'a> {
    /// The base of its URLs.
    pub url: &'a str,
    pub model: Option<&'a str>,
    /// The key; it is sent to this server only.
    pub key: Option<&'a str>,
    /// Time for one request.
    pub timeout: Duration,
}

pub struct AudioFile {
    /// A name whose end says what it is: servers go by it.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// A text to speak.
pub struct SpokenText<'a> {
    pub text: &'a str,
    /// The voice, as the server calls it.
    pub voice: Option<&'a str>,
    /// The format of the audio, as the server calls it.
    pub format: &'a str,
    /// Largest audio in bytes.
    pub bytes_max: usize,
}

/// Why there is no answer. The text is for people and never contains the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpeechFailure {
    /// Trying again would not help.
    #[error("{0}")]
    Final(String),
    /// Trying again may help.
    #[error("{0}")]
    Passing(String),
}

impl SpeechServer<'_> {
    /// What is said in a file.
    ///
    /// # Errors
    /// [`SpeechFailure`]
    pub async fn transcribe(&self, file: AudioFile, language: Option<&str>) -> Result<String, SpeechFailure> {
        let part = Part::bytes(file.bytes).file_name(file.name);
        let mut form = Form::new()
            .part("file", part)
            .text("model", self.model.unwrap_or(TRANSCRIBER).to_owned())
            .text("response_format", "json");
        if let Some(language) = language {
            form = form.text("language", language.to_owned());
        }
        let answer = self.post("transcriptions", ANSWER_BYTES_MAX, |request| request.multipart(form)).await?;
        let answer: Option<Value> = serde_json::from_slice(&answer).ok();
        let text = answer.as_ref().and_then(|answer| answer.get("text")).and_then(Value::as_str);
        text.map(str::to_owned).ok_or_else(|| SpeechFailure::Final("the server's answer has no text".to_owned()))
    }

    /// The audio of a text, as the server sends it: it may be anything.
    ///
    /// # Errors
    /// [`SpeechFailure`]
    pub async fn speak(&self, of: &SpokenText<'_>) -> Result<Vec<u8>, SpeechFailure> {
        let wanted = json!({
            "model": self.model.unwrap_or(SPEAKER),
            "input": of.text,
            "voice": of.voice.unwrap_or(VOICE),
            "response_format": of.format,
        });
        let body = wanted.to_string();
        let with = |request: RequestBuilder| request.header(CONTENT_TYPE, "application/json").body(body);
        self.post("speech", of.bytes_max, with).await
    }

    /// Sends a request to a place below the server's `/audio/`. Returns at most `max` bytes.
    async fn post(
        &self,
        place: &str,
        max: usize,
        with: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Vec<u8>, SpeechFailure> {
        let client = http::client(self.url.starts_with("http://"));
        let client = client.map_err(|error| SpeechFailure::Final(http::words(error)))?;
        let mut request = client.post(format!("{}/audio/{place}", self.url)).timeout(self.timeout);
        if let Some(key) = self.key {
            request = request.bearer_auth(key);
        }
        let passing = |why: String| SpeechFailure::Passing(format!("the server cannot be reached: {why}"));
        let response = with(request).send().await.map_err(|error| passing(http::unreached(error)))?;
        let status = response.status();
        let max = if status.is_success() { max } else { ANSWER_BYTES_MAX };
        let body = http::body(response, max).await.map_err(|error| passing(http::unreached(error)))?;
        if !status.is_success() {
            return Err(self.failure(status, &body.unwrap_or_default()));
        }
        body.ok_or_else(|| SpeechFailure::Final(format!("the server's answer has more than {max} bytes")))
    }

    fn failure(&self, status: StatusCode, body: &[u8]) -> SpeechFailure {
        let said: Option<Value> = serde_json::from_slice(body).ok();
        let said = said.as_ref().and_then(|said| said.get("error"));
        let said = said.and_then(|error| error.get("message").unwrap_or(error).as_str()).unwrap_or_default();
        let said = http::clean(said, self.key.unwrap_or_default(), HIDDEN);
        let words = if said.is_empty() { String::new() } else { format!(": {said}") };
        let why = format!("the server answered {}{words}", status.as_u16());
        let passes =
            status.is_server_error() || [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT].contains(&status);
        if passes { SpeechFailure::Passing(why) } else { SpeechFailure::Final(why) }
    }
}
