//! Prompts of agents.

use std::path::Path;

use agent_runner::{prompt_of, strip_internal};
use serde_json::{Value, json};

const CONTEXT: &str = include_str!("../../../../container/wire/fixtures/context.json");

/// Elements of which prompts are made.
const ELEMENTS: [&str; 10] = [
    "context",
    "messages",
    "message",
    "quoted_message",
    "task",
    "webhook",
    "system_response",
    "recap",
    "already_sent",
    "said",
];

/// An array of messages, or a text placed wherever people and networks can write. The prompt always has one element per
/// message, and each element ends where it should.
pub fn prompts(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let stripped = strip_internal(text);
    assert_eq!(strip_internal(&stripped), stripped);
    let left = stripped.split_once("<internal>").is_some_and(|(_, rest)| rest.contains("</internal>"));
    assert!(!left, "{stripped}");
    if let Ok(prompt) = prompt_of(text, CONTEXT, Path::new("/session")) {
        let messages: Vec<Value> = serde_json::from_str(text).expect("a prompt was made of it");
        holds(&prompt, messages.len());
        return;
    }
    let reply = json!({"channel": text, "platform_id": text});
    let contents = [
        (
            "chat",
            json!({"text": text, "sender": text, "replyTo": {"id": text, "sender": text, "text": text},
            "attachments": [{"name": text, "type": text, "localPath": text}, {"url": text}, {"error": text}]}),
        ),
        ("chat", json!(text)),
        ("task", json!({"prompt": text, "scriptOutput": {text: text}})),
        ("webhook", json!({"source": text, "event": text, "payload": {text: [text]}})),
        ("webhook", json!(text)),
        ("system", json!({"action": text, "status": text, "result": text})),
        ("system", json!({"text": text})),
        (text, json!({"text": text})),
    ];
    let messages: Vec<Value> = contents
        .iter()
        .map(|(kind, content)| json!({"kind": kind, "content": content, "reply": reply, "timestamp": text}))
        .collect();
    let sent = json!([{"number": 1, "text": text}]);
    let mut context: Value = serde_json::from_str(CONTEXT).expect("a context");
    context["already_sent"] = sent;
    context["recap"] = json!([{"number": 1, "from": text, "text": text}, {"number": 3, "text": text}]);
    let prompt = prompt_of(&json!(messages).to_string(), &context.to_string(), Path::new("/session"));
    holds(&prompt.expect("these messages are right"), messages.len());
}

/// A tag of a prompt, as a lenient parser sees it: in any case, with any spaces.
#[derive(Debug, PartialEq)]
enum Tag {
    Open(String),
    Close(String),
}

fn tags(prompt: &str) -> Vec<Tag> {
    let tag = |part: &str| {
        let part = part.trim_start();
        let (close, name) = part.strip_prefix('/').map_or((false, part), |rest| (true, rest.trim_start()));
        let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':' | '.')));
        let name = name[..end.unwrap_or(name.len())].to_ascii_lowercase();
        ELEMENTS.contains(&name.as_str()).then_some(if close { Tag::Close(name) } else { Tag::Open(name) })
    };
    prompt.split('<').skip(1).filter_map(tag).collect()
}

fn holds(prompt: &str, messages: usize) {
    let tags = tags(prompt);
    assert_eq!(tags.first(), Some(&Tag::Open("context".to_owned())), "{prompt}");
    let (mut open, mut told) = (Vec::<&str>::new(), 0);
    for tag in &tags[1..] {
        match tag {
            Tag::Open(name) => {
                let inside = match name.as_str() {
                    "message" => open.is_empty() || open == ["messages"],
                    "quoted_message" => open.last() == Some(&"message"),
                    "said" => open == ["already_sent"] || open == ["recap"],
                    "context" => false,
                    _ => open.is_empty(),
                };
                assert!(inside, "<{name}> in {open:?}: {prompt}");
                told += usize::from(["message", "task", "webhook", "system_response"].contains(&name.as_str()));
                open.push(name);
            }
            Tag::Close(name) => assert_eq!(open.pop(), Some(name.as_str()), "{prompt}"),
        }
    }
    assert!(open.is_empty(), "{open:?} is open: {prompt}");
    assert_eq!(told, messages, "{prompt}");
}
