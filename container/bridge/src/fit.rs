//! Makes messages of people fit into a frame. What a network allows may be longer, above all once JSON has escaped it.

use serde_json::Value;

use crate::FRAME_BYTES_MAX;
use crate::frames::FromBridge;

/// Texts up to this many bytes are never cut: ids are among them.
const SHORT: usize = 4_096;

/// The frame as a line. A message that is too long for one is cut at its longest texts, which end with `…` then.
/// Otherwise the daemon would end the bridge, which would send the same message after each start.
pub(crate) fn line(frame: &FromBridge) -> Vec<u8> {
    let mut line = frame.line();
    if line.len() <= FRAME_BYTES_MAX {
        return line;
    }
    let (mut frame, mut most) = (frame.clone(), FRAME_BYTES_MAX / 2);
    while line.len() > FRAME_BYTES_MAX && most >= SHORT {
        let (FromBridge::Event { event, .. } | FromBridge::Wanted { wanted: event, .. }) = &mut frame else { break };
        if let Some(message) = event.rest.get_mut("message") {
            cut(message, most);
        }
        line = frame.line();
        most /= 2;
    }
    line
}

fn cut(value: &mut Value, most: usize) {
    match value {
        Value::String(text) if text.len() > most => {
            text.truncate(text.floor_char_boundary(most));
            text.push('…');
        }
        Value::Array(values) => values.iter_mut().for_each(|value| cut(value, most)),
        Value::Object(fields) => fields.values_mut().for_each(|value| cut(value, most)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cursors, Event, Lines};

    fn event(text: &str) -> FromBridge {
        let message = serde_json::json!({ "id": "1", "content": { "text": text, "replyTo": { "text": "short" } } });
        let event = Event { sender: None, files: Vec::new(), rest: [("message".to_owned(), message)].into() };
        FromBridge::Event { event, seq: 7, cursors: Cursors::new() }
    }

    #[test]
    fn long_messages_are_cut_and_others_are_not() {
        for text in ["\u{1}".repeat(300_000), "é\"".repeat(700_000), "x".repeat(2_000_000)] {
            let mut lines = Lines::default();
            lines.push(&line(&event(&text)));
            let read = FromBridge::read(&lines.next_frame().unwrap().unwrap()).unwrap();
            let Some(FromBridge::Event { event, seq: 7, .. }) = read else { panic!("{read:?}") };
            let content = event.rest.get("message").and_then(|message| message.get("content")).unwrap();
            let kept = content.get("text").and_then(Value::as_str).unwrap();
            assert!(kept.len() > 100_000 && text.starts_with(kept.strip_suffix('…').unwrap()));
            assert_eq!(content.pointer("/replyTo/text"), Some(&"short".into()));
        }
        let short = event(&"\u{1}".repeat(100_000));
        assert_eq!(line(&short), short.line());
    }
}
