//! The prompt element of a chat message.

use serde_json::Value;

use super::escape::escaped;
use super::{Prompt, PromptMessage, attribute, text};

/// Base directory of files in payloads that are not the host's.
const WORKSPACE: &str = "/workspace";

impl Prompt<'_> {
    pub(super) fn chat(&self, message: &PromptMessage<'_>) -> String {
        let content = message.content;
        let answered = content.get("replyTo");
        let attributes = [
            attribute("id", message.seq.map(|seq| seq.to_string())),
            // Hearth's own messages have no origin.
            attribute("from", if message.kind == "system" { None } else { self.from(message) }),
            attribute("sender", Some(sender(content))),
            attribute("unknown_sender", message.unknown_sender.then_some("true")),
            attribute("time", Some(self.time(message))),
            attribute("reply_to", answered.and_then(answered_id)),
        ]
        .concat();
        let quote = answered.and_then(quote).unwrap_or_default();
        // A payload that is a plain string is the text.
        let words = content.as_str().or_else(|| text(content, "text")).map(escaped).unwrap_or_default();
        format!("<message{attributes}>{quote}{words}{}</message>", self.attachments(content))
    }

    /// One line per file: its path, or why it is missing, or its URL.
    fn attachments(&self, content: &Value) -> String {
        let Some(entries) = content.get("attachments").and_then(Value::as_array) else { return String::new() };
        let line = |entry: &Value| {
            let kind = escaped(text(entry, "type").unwrap_or("file"));
            let name = escaped(text(entry, "name").or_else(|| text(entry, "filename")).unwrap_or("attachment"));
            let file = match (text(entry, "localPath"), text(entry, "error"), text(entry, "url")) {
                (Some(path), ..) => format!("\n[{kind}: {name} — saved to {}]", escaped(&self.place(path))),
                (None, Some(error), _) => format!("\n[{kind}: {name} — not available: {}]", escaped(error)),
                (None, None, Some(url)) => format!("\n[{kind}: {name} ({})]", escaped(url)),
                (None, None, None) => format!("\n[{kind}: {name}]"),
            };
            file + &heard(entry)
        };
        entries.iter().map(line).collect()
    }

    /// The host's files are in the session's directory, others in the workspace.
    fn place(&self, path: &str) -> String {
        let is_hosts = path.split('/').next() == Some(hearth_wire::HOST_DIR);
        if is_hosts { self.root.join(path).to_string_lossy().into_owned() } else { format!("{WORKSPACE}/{path}") }
    }
}

/// What a program understood of an audio file, or why there is no transcript.
fn heard(entry: &Value) -> String {
    let of = attribute("of", text(entry, "name"));
    match (text(entry, "transcript"), text(entry, "transcriptError")) {
        (Some(said), _) => format!("\n<transcript{of}>{}</transcript>", escaped(said)),
        (None, Some(why)) => format!("\n(voice message; no transcript: {})", escaped(why)),
        (None, None) => String::new(),
    }
}

/// The sender's display name, else the id.
fn sender(content: &Value) -> &str {
    let author = |field| content.get("author").and_then(|author| text(author, field));
    let names = [text(content, "sender"), author("fullName"), author("userName")];
    let names = names.into_iter().chain([text(content, "senderName"), text(content, "senderId")]);
    names.flatten().next().unwrap_or("Unknown")
}

/// The id of the message being answered, which is a string or a number.
fn answered_id(answered: &Value) -> Option<String> {
    match answered.get("id")? {
        Value::String(id) if !id.is_empty() => Some(id.clone()),
        Value::Number(id) if id.as_f64() != Some(0.0) => Some(id.to_string()),
        _ => None,
    }
}

/// The quoted message: sender and text.
fn quote(answered: &Value) -> Option<String> {
    let (sender, words) = (text(answered, "sender")?, text(answered, "text")?);
    let (sender, words) = (escaped(sender), escaped(words));
    Some(format!("\n  <quoted_message from=\"{sender}\">{words}</quoted_message>\n"))
}
