//! Takes the event out of a stream that counts tokens, if the agent's program did not ask for it. Pure.
//!
//! Events are passed on when they are complete.

use serde_json::Value;

/// Longest event that is held until it is complete. A longer one is passed on as it comes.
const EVENT_MAX: usize = 256 << 10;

/// Passes on the events of a stream of OpenAI's older API.
#[derive(Debug, Default)]
pub(super) struct Events {
    held: Vec<u8>,
    /// The event is too long to look at.
    passes: bool,
}

impl Events {
    /// What can be passed on now.
    pub(super) fn pass(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(piece.len());
        for line in piece.split_inclusive(|byte| *byte == b'\n') {
            self.held.extend_from_slice(line);
            let ends = self.held.ends_with(b"\n\n") || self.held.ends_with(b"\n\r\n");
            if self.passes || self.held.len() > EVENT_MAX {
                out.append(&mut self.held);
                self.passes = !ends;
            } else if ends {
                let event = std::mem::take(&mut self.held);
                if !only_counts(&event) {
                    out.extend(event);
                }
            }
        }
        out
    }

    /// What is left when the stream has ended.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

/// Whether an event has counts, and no choices.
fn only_counts(event: &[u8]) -> bool {
    let mut lines = event.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
    let value = lines.next().and_then(|data| serde_json::from_slice::<Value>(data).ok());
    value.is_some_and(|value| {
        value.get("usage").is_some_and(Value::is_object)
            && value.get("choices").and_then(Value::as_array).is_some_and(Vec::is_empty)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n";
    const COUNT: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\r\n\r\n";
    const DONE: &str = "data: [DONE]\n\n";

    fn passed(stream: &str, size: usize) -> String {
        let mut events = Events::default();
        let mut out: Vec<u8> = stream.as_bytes().chunks(size).flat_map(|piece| events.pass(piece)).collect();
        out.extend(events.rest());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_count_is_taken_out_and_everything_else_stays() {
        let half = "data: {\"choi";
        for size in 1..60 {
            assert_eq!(passed(&format!("{TEXT}{TEXT}{COUNT}{DONE}{half}"), size), format!("{TEXT}{TEXT}{DONE}{half}"));
        }
        let with_choice = TEXT.replace("null", "{}");
        assert_eq!(passed(&with_choice, 7), with_choice);
    }

    #[test]
    fn a_long_event_is_not_held() {
        let mut events = Events::default();
        let mut out = 0;
        for _ in 0..100 {
            out += events.pass(&[b'x'; 16 << 10]).len();
            assert!(events.held.len() <= EVENT_MAX);
        }
        assert!(out > 1 << 20);
    }
}
