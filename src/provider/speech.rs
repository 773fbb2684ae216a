//! Speech to text by servers with the API of OpenAI.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::multipart::{Form, Part};
use serde_json::Value;

use crate::http;

/// Size limit of an answer in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Stands in for the key in texts of the server.
const HIDDEN: &str = "[key]";
/// The model that is asked for unless one is configured. Most servers with one model accept any name.
const MODEL: &str = "whisper-1";

/// A server for speech.
pub struct SpeechServer<'a> {
    /// The base of its URLs.
    pub url: &'a str,
    /// The model.
    pub model: Option<&'a str>,
    /// The key; it is sent to this server only.
    pub key: Option<&'a str>,
    /// Time for one request.
    pub timeout: Duration,
}

/// An audio file.
pub struct AudioFile {
    /// A name whose end says what it is: servers go by it.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
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
            .text("model", self.model.unwrap_or(MODEL).to_owned())
            .text("response_format", "json");
        if let Some(language) = language {
            form = form.text("language", language.to_owned());
        }
        let answer = self.post(form).await?;
        let answer: Option<Value> = serde_json::from_slice(&answer).ok();
        let text = answer.as_ref().and_then(|answer| answer.get("text")).and_then(Value::as_str);
        text.map(str::to_owned).ok_or_else(|| SpeechFailure::Final("the server's answer has no text".to_owned()))
    }

    async fn post(&self, form: Form) -> Result<Vec<u8>, SpeechFailure> {
        let client = http::client(self.url.starts_with("http://"));
        let client = client.map_err(|error| SpeechFailure::Final(http::words(error)))?;
        let mut request = client.post(format!("{}/audio/transcriptions", self.url)).timeout(self.timeout);
        if let Some(key) = self.key {
            request = request.bearer_auth(key);
        }
        let passing = |why: String| SpeechFailure::Passing(format!("the server cannot be reached: {why}"));
        let response = request.multipart(form).send().await.map_err(|error| passing(http::unreached(error)))?;
        let status = response.status();
        let body = http::body(response, ANSWER_BYTES_MAX).await.map_err(|error| passing(http::unreached(error)))?;
        if !status.is_success() {
            return Err(self.failure(status, &body.unwrap_or_default()));
        }
        body.ok_or_else(|| SpeechFailure::Final(format!("the server's answer has more than {ANSWER_BYTES_MAX} bytes")))
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
