//! Decides which texts of a turn are the agent's answer. Pure.
//!
//! Warnings, errors of the model's API and earlier conversations arrive as the same kind of update as the answer. The
//! answer is the last message after the last tool call, without those.

use serde::Deserialize;
use serde_json::Value;

use crate::tool_calls::CallEnd;

/// Maximum length of what is kept of a tool call.
const DETAIL_CHARS: usize = 2000;

/// An update of the session. Unknown kinds are [`Update::Other`].
#[derive(Debug, Deserialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub(super) enum Update {
    /// A part of a text of the agent.
    AgentMessageChunk(Chunk),
    /// A part of an earlier message of a person: the agent repeats the conversation.
    UserMessageChunk(Ignored),
    ToolCall(ToolCall),
    /// A tool's state changed.
    #[serde(rename = "tool_call_update")]
    ToolChanged(ToolCall),
    /// Data about the session, with warnings of some agents.
    #[serde(rename = "session_info_update")]
    Session(SessionInfo),
    /// What the session has cost.
    #[serde(rename = "usage_update")]
    Usage(UsageUpdate),
    #[serde(other)]
    Other,
}

/// The fields of an update that does not matter.
#[derive(Debug, Deserialize)]
pub(super) struct Ignored {}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk {
    content: Content,
    message_id: Option<String>,
    #[serde(default, rename = "_meta")]
    meta: Value,
}

impl Chunk {
    pub(super) fn text(&self) -> &str {
        &self.content.text
    }

    /// What a call of the model used, as some agents report it beside an empty text.
    pub(super) fn usage(&self) -> Option<&Value> {
        self.meta.get("usage")
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct UsageUpdate {
    #[serde(default)]
    pub(super) cost: Option<Cost>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Cost {
    pub(super) amount: f64,
    #[serde(default)]
    pub(super) currency: String,
}

#[derive(Debug, Deserialize)]
struct Content {
    #[serde(default)]
    text: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCall {
    pub(super) tool_call_id: String,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    raw_input: Value,
    #[serde(default, rename = "_meta")]
    meta: Value,
}

/// What is kept of a tool call that is under way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    /// The protocol's word for what it does, such as `execute`.
    pub(super) kind: String,
    /// The command, the path, or all that it is called with.
    pub(super) detail: String,
    /// All that it is called with.
    pub(super) input: Value,
}

impl Call {
    /// Adds what an update says.
    pub(super) fn learn(&mut self, update: &ToolCall) {
        if let (true, Some(name)) = (self.name.is_empty(), update.name()) {
            self.name = bounded(name);
        }
        if let Some(kind) = update.kind.as_deref().filter(|kind| !kind.is_empty()) {
            self.kind = bounded(kind);
        }
        if let Some(detail) = detail(&update.raw_input) {
            self.detail = bounded(&detail);
            self.input = update.raw_input.clone();
        }
    }

    /// What calls that are permitted together have in common.
    pub(super) fn key(&self) -> (String, String) {
        (self.name.clone(), self.kind.clone())
    }
}

/// What a tool is called with, for people.
fn detail(input: &Value) -> Option<String> {
    let fields = input.as_object().filter(|fields| !fields.is_empty())?;
    let known = ["command", "cmd", "file_path", "filePath", "path", "url"].iter().find_map(|name| fields.get(*name));
    Some(match known {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(words)) if words.iter().all(Value::is_string) => {
            words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
        }
        _ => input.to_string(),
    })
}

fn bounded(text: &str) -> String {
    text.chars().take(DETAIL_CHARS).collect()
}

impl ToolCall {
    /// The tool's name, from the most exact of the fields in which agents put it.
    pub(super) fn name(&self) -> Option<&str> {
        let in_meta = |path| self.meta.pointer(path).and_then(Value::as_str);
        let exact = self.name.as_deref().or_else(|| in_meta("/claudeCode/toolName")).or_else(|| in_meta("/toolName"));
        exact.or(self.title.as_deref()).filter(|name| !name.is_empty())
    }

    /// How the call ended.
    pub(super) fn end(&self) -> CallEnd {
        match self.status.as_deref() {
            Some("completed") => CallEnd::Ran,
            Some("failed") => CallEnd::Failed,
            _ => CallEnd::Unknown,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.status.as_deref(), Some("completed" | "failed"))
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct SessionInfo {
    #[serde(default, rename = "_meta")]
    meta: Value,
}

impl SessionInfo {
    /// Whether the agent says that it has repeated the whole conversation.
    pub(super) fn ends_replay(&self) -> bool {
        self.meta.pointer("/jetbrains/air/loadReplayEnd") == Some(&Value::Bool(true))
    }

    /// The title of a warning.
    pub(super) fn warning(&self) -> Option<&str> {
        self.meta.pointer("/jetbrains/air/sessionFailure/title").and_then(Value::as_str)
    }
}

/// What a part of a text turned out to be.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    /// A part of the agent's message.
    Message,
    /// A notice that is not for the chat, with its text.
    Notice(String),
    Empty,
}

/// Whether a notice says that the agent has compacted its conversation. The protocol has no other word for it.
pub(super) fn tells_of_compaction(notice: &str) -> bool {
    let text = notice.trim().to_lowercase();
    text.len() < 300 && (text.contains("compacted") || text.contains("compacting completed"))
}

/// Collects the texts of a turn.
#[derive(Debug, Default)]
pub(super) struct Words {
    text: String,
    message: Option<String>,
    /// Whether this process gives ids to messages. Texts without one are then notices.
    gives_ids: bool,
    /// Messages that were replaced by another one without a tool call in between.
    repeats: u32,
}

impl Words {
    /// Begins another turn of the same process.
    pub(super) fn begin(&mut self) {
        *self = Self { gives_ids: self.gives_ids, ..Self::default() };
    }

    pub(super) fn chunk(&mut self, chunk: Chunk) -> Heard {
        let Chunk { content: Content { text }, message_id, meta } = chunk;
        if text.is_empty() {
            return Heard::Empty;
        }
        let informs = meta.pointer("/claudeCode/kind").and_then(Value::as_str) == Some("informational");
        if informs || (self.gives_ids && message_id.is_none()) {
            return Heard::Notice(text);
        }
        self.gives_ids |= message_id.is_some();
        if self.message != message_id {
            self.repeats += u32::from(self.message.is_some());
            self.message = message_id;
            self.text.clear();
        }
        self.text.push_str(&text);
        Heard::Message
    }

    /// A tool is called: what was said before, which is returned, is not the answer.
    pub(super) fn tool(&mut self) -> String {
        (self.message, self.repeats) = (None, 0);
        std::mem::take(&mut self.text)
    }

    /// What came before was a repeated conversation.
    pub(super) fn replayed(&mut self) {
        self.text.clear();
    }

    /// Messages that followed each other without a tool call: an agent whose model's answers are cut off asks again
    /// and again.
    pub(super) const fn repeats(&self) -> u32 {
        self.repeats
    }

    pub(super) fn text(&self) -> &str {
        self.text.trim()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn heard(words: &mut Words, update: Value) -> Heard {
        match serde_json::from_value(update).unwrap() {
            Update::AgentMessageChunk(chunk) => words.chunk(chunk),
            Update::UserMessageChunk(_) => {
                words.replayed();
                Heard::Empty
            }
            Update::ToolCall(_) => {
                drop(words.tool());
                Heard::Empty
            }
            other => panic!("{other:?}"),
        }
    }

    fn said(text: &str, id: Option<&str>) -> Value {
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, "messageId": id})
    }

    fn called() -> Value {
        json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "x"})
    }

    #[test]
    fn the_last_message_after_the_last_tool_is_the_answer() {
        let mut words = Words::default();
        for update in [said("let me ", None), said("look", None), called(), said("do", None), said("ne\n", None)] {
            heard(&mut words, update);
        }
        assert_eq!(words.text(), "done");
        words.begin();
        assert_eq!(words.text(), "");
    }

    #[test]
    fn notices_are_not_the_answer() {
        let mut words = Words::default();
        assert_eq!(heard(&mut words, said("hel", Some("m1"))), Heard::Message);
        assert_eq!(heard(&mut words, said("Warning: x", None)), Heard::Notice("Warning: x".to_owned()));
        assert_eq!(heard(&mut words, said("lo", Some("m1"))), Heard::Message);
        assert_eq!(words.text(), "hello");
        words.begin();
        assert_eq!(heard(&mut words, said("x", None)), Heard::Notice("x".to_owned()), "in later turns, too");
        let mut informs = said("compacting", Some("m2"));
        informs["_meta"] = json!({"claudeCode": {"kind": "informational"}});
        assert_eq!(heard(&mut words, informs), Heard::Notice("compacting".to_owned()));
        assert_eq!(heard(&mut words, said("", Some("m2"))), Heard::Empty);
    }

    #[test]
    fn only_the_end_of_a_compaction_is_told() {
        for (text, told) in [
            ("Compacting completed.", true),
            ("\n\nCompacting completed.", true),
            ("Context compacted", true),
            ("Compacting...", false),
            ("Warning: odd", false),
        ] {
            assert_eq!(tells_of_compaction(text), told, "{text}");
        }
        assert!(!tells_of_compaction(&"compacted ".repeat(100)));
    }

    /// A cut stream is asked for again, and its text comes once more under another id.
    #[test]
    fn another_message_replaces_an_unfinished_one() {
        let mut words = Words::default();
        for (text, id) in [("half", "m1"), ("half", "m2"), ("whole", "m3")] {
            heard(&mut words, said(text, Some(id)));
        }
        assert_eq!((words.text(), words.repeats()), ("whole", 2));
        heard(&mut words, called());
        assert_eq!(words.repeats(), 0);
    }

    #[test]
    fn a_repeated_conversation_is_not_the_answer() {
        let mut words = Words::default();
        for update in [
            said("old answer", None),
            json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "old"}}),
            said("new", None),
        ] {
            heard(&mut words, update);
        }
        assert_eq!(words.text(), "new");
    }

    #[test]
    fn a_tools_name_is_the_most_exact_one() {
        let call = |more: Value| {
            let mut call = json!({"toolCallId": "c1", "title": "Run `ls`"});
            call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value::<ToolCall>(call).unwrap()
        };
        assert_eq!(call(json!({})).name(), Some("Run `ls`"));
        assert_eq!(call(json!({"_meta": {"toolName": "shell"}})).name(), Some("shell"));
        assert_eq!(call(json!({"_meta": {"claudeCode": {"toolName": "Bash"}}})).name(), Some("Bash"));
        assert_eq!(call(json!({"name": "bash", "title": ""})).name(), Some("bash"));
        assert_eq!(call(json!({"title": ""})).name(), None);
    }

    #[test]
    fn a_call_is_known_by_its_command_or_all_that_it_is_called_with() {
        let mut call = Call::default();
        for update in [
            json!({"toolCallId": "c", "title": "bash", "kind": "execute", "rawInput": {}}),
            json!({"toolCallId": "c", "title": "ls", "rawInput": {"command": ["ls", "-l"], "cwd": "/"}}),
        ] {
            call.learn(&serde_json::from_value(update).unwrap());
        }
        let expected = Call {
            name: "bash".to_owned(),
            kind: "execute".to_owned(),
            detail: "ls -l".to_owned(),
            input: json!({"command": ["ls", "-l"], "cwd": "/"}),
        };
        assert_eq!(call, expected);
        assert_eq!(detail(&json!({"a": 1})).as_deref(), Some("{\"a\":1}"));
        assert_eq!(detail(&json!({"command": 7})).as_deref(), Some("{\"command\":7}"));
        assert_eq!(detail(&json!(null)), None);
    }

    #[test]
    fn unknown_updates_are_no_errors() {
        let update = json!({"sessionUpdate": "invented_update", "things": [1]});
        assert!(matches!(serde_json::from_value(update).unwrap(), Update::Other));
    }
}
