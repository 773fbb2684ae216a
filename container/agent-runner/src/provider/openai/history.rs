//! The conversation, in a file of the agent's home.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The directory below the agent's home.
const DIR: &str = ".hearth/openai";
/// Maximum bytes of a file.
const BYTES: u64 = 64 << 20;

/// The messages of earlier turns.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct History {
    messages: Vec<Value>,
    /// Tokens of the last whole prompt, as the server counted them.
    prompt_tokens: u64,
}

impl History {
    /// The conversation with this id; none if it is lost.
    pub(super) fn load(home: &Path, id: &str) -> Option<Self> {
        let mut text = Vec::new();
        File::open(path(home, id)?).ok()?.take(BYTES).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Writes it. Readers find the old conversation or the new one.
    pub(super) fn save(&self, home: &Path, id: &str) -> io::Result<()> {
        let path = path(home, id).ok_or(io::ErrorKind::InvalidInput)?;
        fs::create_dir_all(path.parent().unwrap_or(home))?;
        let temporary = path.with_extension("new");
        let mut file = File::create(&temporary)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(temporary, path)
    }

    pub(super) fn messages(&self) -> &[Value] {
        &self.messages
    }

    /// Adds a turn.
    pub(super) fn add(&mut self, turn: Vec<Value>) {
        self.messages.extend(turn);
    }

    /// Notes the size of a prompt.
    pub(super) fn measured(&mut self, prompt_tokens: Option<u64>) {
        self.prompt_tokens = prompt_tokens.unwrap_or(self.prompt_tokens);
    }

    /// Whether the last prompt was larger than this.
    pub(super) const fn is_over(&self, tokens: u64) -> bool {
        self.prompt_tokens > tokens
    }

    /// Drops the older half of the turns. Returns whether there was anything to drop.
    pub(super) fn halve(&mut self) -> bool {
        self.prompt_tokens = 0;
        let is_start = |message: &Value| message.get("role").and_then(Value::as_str) == Some("user");
        let starts: Vec<usize> =
            (0..).zip(&self.messages).filter(|(_, message)| is_start(message)).map(|(at, _)| at).collect();
        let kept = starts.get(starts.len().div_ceil(2)).copied().unwrap_or(self.messages.len());
        self.messages.drain(..kept).next().is_some()
    }
}

/// The file of a conversation. Ids are those of this program.
fn path(home: &Path, id: &str) -> Option<PathBuf> {
    let is_plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_plain.then(|| home.join(DIR).join(format!("{id}.json")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn(text: &str) -> Vec<Value> {
        vec![
            json!({"role": "user", "content": text}),
            json!({"role": "assistant", "tool_calls": []}),
            json!({"role": "tool", "content": "x"}),
            json!({"role": "assistant", "content": text}),
        ]
    }

    #[test]
    fn the_oldest_half_of_the_turns_goes() {
        let mut history = History::default();
        for text in ["1", "2", "3"] {
            history.add(turn(text));
        }
        history.measured(Some(20));
        history.measured(None);
        assert!(history.is_over(19) && !history.is_over(20));
        assert!(history.halve());
        assert_eq!(history.messages(), turn("3"), "whole turns, so that no result is without its call");
        assert!(!history.is_over(0));
        assert!(history.halve());
        assert!(history.messages().is_empty() && !history.halve());
    }

    #[test]
    fn a_conversation_is_found_by_its_id() {
        let home = tempfile::tempdir().unwrap();
        let mut history = History::default();
        history.add(turn("1"));
        history.save(home.path(), "a-1").unwrap();
        assert_eq!(History::load(home.path(), "a-1").unwrap().messages(), history.messages());
        assert!(History::load(home.path(), "a-2").is_none());
        for id in ["", "../a-1", "a/1"] {
            assert!(History::load(home.path(), id).is_none() && history.save(home.path(), id).is_err(), "{id}");
        }
        fs::write(home.path().join(".hearth/openai/a-1.json"), "{").unwrap();
        assert!(History::load(home.path(), "a-1").is_none());
    }
}
