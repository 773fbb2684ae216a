//! Servers of models on this machine: found by asking for their models, which costs nothing.

use std::time::Duration;

use serde_json::Value;

use crate::http;

/// Where the usual programs listen.
const PLACES: [(&str, &str); 4] = [
    ("Ollama", "http://127.0.0.1:11434/v1"),
    ("llama.cpp", "http://127.0.0.1:8080/v1"),
    ("LM Studio", "http://127.0.0.1:1234/v1"),
    ("vLLM", "http://127.0.0.1:8000/v1"),
];
/// Time limit of an answer.
const ANSWER: Duration = Duration::from_secs(1);
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Length of the name of a model.
const NAME_CHARS: usize = 200;

/// A server with OpenAI's API on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalServer {
    /// The program that usually listens there.
    pub name: &'static str,
    pub base_url: String,
    /// The models that it has.
    pub models: Vec<String>,
}

/// The servers that answer now.
pub async fn local_servers() -> Vec<LocalServer> {
    let mut found = Vec::new();
    for (name, base_url) in PLACES {
        let models = models(base_url).await.unwrap_or_default();
        if !models.is_empty() {
            found.push(LocalServer { name, base_url: base_url.to_owned(), models });
        }
    }
    found
}

/// The models of a server; none if it is no such server.
async fn models(base_url: &str) -> Option<Vec<String>> {
    let request = http::client(true).ok()?.get(format!("{base_url}/models")).timeout(ANSWER);
    let body = http::body(request.send().await.ok()?, ANSWER_BYTES_MAX).await.ok()??;
    let body: Value = serde_json::from_slice(&body).ok()?;
    let ids = body.get("data")?.as_array()?.iter().filter_map(|model| model.get("id")?.as_str());
    let is_name = |id: &&str| id.chars().count() <= NAME_CHARS && !id.chars().any(char::is_control);
    Some(ids.filter(is_name).map(str::to_owned).collect())
}
