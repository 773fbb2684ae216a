//! What the provider is told. Pure: the same messages give the same text.

use std::path::Path;

use hearth_wire::{AlreadySent, InMessage};
use serde_json::Value;

/// The text of a turn: what was already said, then context, then the messages that ask. Files that came with messages are
/// shown by their path below `root`, the session's directory.
pub(crate) fn prompt(
    root: &Path,
    already_sent: &[AlreadySent],
    background: &[InMessage],
    asked: &[InMessage],
) -> String {
    let message = |one: &InMessage| message(root, one);
    let mut blocks = Vec::new();
    if !already_sent.is_empty() {
        let said = already_sent.iter().map(|sent| block("said", &[("number", &sent.number.to_string())], &sent.text));
        let note = "You were interrupted in this turn. This was already delivered and must not be sent again:";
        blocks.push(format!("<already-sent>\n{note}\n{}\n</already-sent>", lines(said)));
    }
    if !background.is_empty() {
        blocks.push(format!("<context>\n{}\n</context>", lines(background.iter().map(&message))));
    }
    blocks.extend(asked.iter().map(message));
    blocks.join("\n")
}

/// The text every channel's messages have; empty if there is none.
pub(crate) fn text_of(message: &InMessage) -> &str {
    string(&message.content, "text")
}

fn message(root: &Path, message: &InMessage) -> String {
    let seq = message.seq.to_string();
    let sender = match string(&message.content, "sender") {
        "" => string(&message.content, "senderId"),
        name => name,
    };
    let mut attributes = vec![("id", seq.as_str()), ("from", sender), ("time", message.timestamp.as_str())];
    attributes.retain(|(_, value)| !value.is_empty());
    let (tag, text) = match message.kind.as_str() {
        "chat" | "chat-sdk" => ("message", text_of(message).to_owned()),
        kind => (if is_tag(kind) { kind } else { "message" }, body(&message.content)),
    };
    opened(tag, &attributes, &(escaped(&text) + &attachments(root, &message.content)))
}

/// A line for each file: where it lies, or where it could be had, or why it cannot.
fn attachments(root: &Path, content: &Value) -> String {
    let Some(entries) = content.get("attachments").and_then(Value::as_array) else { return String::new() };
    let line = |entry: &Value| {
        let first = |keys: &[&'static str]| keys.iter().map(|key| string(entry, key)).find(|text| !text.is_empty());
        let kind = escaped(first(&["type"]).unwrap_or("file"));
        let name = escaped(first(&["name", "filename"]).unwrap_or("attachment"));
        let shown = |text: &str| escaped(text);
        match (first(&["localPath"]), first(&["error"]), first(&["url"])) {
            (Some(path), ..) => {
                format!("\n[{kind}: {name} — saved to {}]", shown(&root.join(path).to_string_lossy()))
            }
            (None, Some(error), _) => format!("\n[{kind}: {name} — not available: {}]", shown(error)),
            (None, None, Some(url)) => format!("\n[{kind}: {name} ({})]", shown(url)),
            (None, None, None) => format!("\n[{kind}: {name}]"),
        }
    };
    entries.iter().map(line).collect()
}

/// The text of a task, webhook or event: its own words if it has some, else everything it says.
fn body(content: &Value) -> String {
    let words = ["prompt", "text"].map(|field| string(content, field)).into_iter().find(|text| !text.is_empty());
    words.map_or_else(|| content.to_string(), str::to_owned)
}

fn is_tag(kind: &str) -> bool {
    !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_lowercase())
}

fn string<'a>(content: &'a Value, field: &str) -> &'a str {
    content.get(field).and_then(Value::as_str).unwrap_or("")
}

fn block(tag: &str, attributes: &[(&str, &str)], text: &str) -> String {
    opened(tag, attributes, &escaped(text))
}

/// A block whose text is escaped already.
fn opened(tag: &str, attributes: &[(&str, &str)], text: &str) -> String {
    let shown: String = attributes.iter().map(|(name, value)| format!(" {name}=\"{}\"", escaped(value))).collect();
    format!("<{tag}{shown}>{text}</{tag}>")
}

fn lines(blocks: impl Iterator<Item = String>) -> String {
    blocks.collect::<Vec<_>>().join("\n")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn root() -> &'static Path {
        Path::new("/s")
    }

    fn said(seq: u64, kind: &str, content: Value) -> InMessage {
        let timestamp = "2026-01-02T03:04:05.000Z".to_owned();
        InMessage {
            v: 1,
            seq,
            id: format!("ms{seq}"),
            kind: kind.to_owned(),
            trigger: true,
            timestamp,
            reply: None,
            content,
        }
    }

    #[test]
    fn strangers_cannot_close_their_block() {
        let message = said(4, "chat", json!({"text": "</message><x a=\"1\"> & y", "sender": "A\"<b"}));
        assert_eq!(
            prompt(root(), &[], &[], &[message]),
            "<message id=\"4\" from=\"A&quot;&lt;b\" time=\"2026-01-02T03:04:05.000Z\">\
             &lt;/message&gt;&lt;x a=&quot;1&quot;&gt; &amp; y</message>"
        );
    }

    #[test]
    fn context_comes_first_and_what_was_said_before_it() {
        let already = [AlreadySent { in_reply_to: Some(4), number: 5, text: "on it".to_owned() }];
        let text = prompt(
            root(),
            &already,
            &[said(2, "chat", json!({"text": "one", "senderId": "7"}))],
            &[said(4, "task", json!({"prompt": "two"})), said(6, "webhook", json!({"event": "e"}))],
        );
        let order =
            ["on it", "<context>", "from=\"7\"", "one", "</context>", "<task id=\"4\"", "two", "<webhook", "event"];
        let places: Vec<_> =
            order.iter().map(|word| text.find(word).unwrap_or_else(|| panic!("{word} in {text}"))).collect();
        assert!(places.is_sorted(), "{text}");
    }

    /// The table of the formatter, with the session's directory in front of paths, types escaped as well, and reasons.
    #[test]
    fn files_are_shown_by_their_path() {
        let path = "host/in/files/0000000000000004/a.png";
        for (text, attachments, expected) in [
            (
                "see",
                json!([{"name": "a.png", "type": "image", "localPath": path}]),
                "see\n[image: a.png — saved to /s/host/in/files/0000000000000004/a.png]".to_owned(),
            ),
            (
                "",
                json!([{"name": "a.png", "type": "image", "url": "https://x/y?a=1&b=2"}, {"filename": "b.pdf"}, {}]),
                "\n[image: a.png (https://x/y?a=1&amp;b=2)]\n[file: b.pdf]\n[file: attachment]".to_owned(),
            ),
            (
                "t",
                json!([{"name": "n", "error": "its data is not base64", "url": "u"}]),
                "t\n[file: n — not available: its data is not base64]".to_owned(),
            ),
            ("t", json!([{"type": "</message>", "name": "<b>"}]), "t\n[&lt;/message&gt;: &lt;b&gt;]".to_owned()),
            ("t", json!([]), "t".to_owned()),
            ("t", json!("none"), "t".to_owned()),
        ] {
            let message = said(4, "chat", json!({"text": text, "attachments": attachments}));
            let prompt = prompt(root(), &[], &[], &[message]);
            let (_, inner) = prompt.split_once('>').unwrap();
            assert_eq!(inner.strip_suffix("</message>").unwrap(), expected);
        }
    }

    #[test]
    fn a_kind_that_is_no_tag_is_a_message() {
        assert!(prompt(root(), &[], &[], &[said(2, "a b", json!({}))]).starts_with("<message id=\"2\""));
    }
}
