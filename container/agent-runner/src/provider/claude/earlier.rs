//! What the model wrote before it called tools. The CLI's result has only the last text of a turn. Pure.
//!
//! Text for a destination is sent before the tools run. Other text is shown as progress; it is the answer if the turn
//! ends without one.

use super::session::Outcome;
use crate::outgoing::{Content, OutgoingRecipient, Utterance};
use crate::provider::dispatch;

/// Maximum bytes of a text; what follows is ignored.
const BYTES_MAX: usize = 1024 * 1024;
/// Tools with which the agent speaks itself.
const SPEAKS: [&str; 2] = ["mcp__nanoclaw__send_message", "mcp__nanoclaw__send_file"];

/// Texts of the turn so far.
#[derive(Debug, Default)]
pub(super) struct EarlierText {
    /// What was written since the last call of a tool. Tools may still follow.
    newest: String,
    /// The last text without a destination that tools followed.
    bare: String,
    /// Whether the agent spoke through a tool.
    spoke: bool,
}

impl EarlierText {
    /// The model wrote a text.
    pub(super) fn write(&mut self, text: &str) {
        if self.newest.len() + text.len() <= BYTES_MAX {
            self.newest.push_str(text);
        }
    }

    /// The model calls a tool. Returns what it wrote to destinations before.
    pub(super) fn tool_called(&mut self, name: &str) -> Vec<Utterance> {
        self.spoke |= SPEAKS.contains(&name);
        let said = dispatch::addressed(&std::mem::take(&mut self.newest));
        let (bare, said): (Vec<_>, Vec<_>) =
            said.into_iter().partition(|utterance| utterance.target == OutgoingRecipient::Reply);
        let texts: Vec<String> = bare.into_iter().filter_map(|utterance| text_of(utterance.content)).collect();
        if !texts.is_empty() {
            self.bare = texts.join("\n\n");
        }
        said
    }

    /// The turn is over. The last earlier text stands in for an empty answer.
    pub(super) fn complete(&mut self, outcome: Outcome) -> Outcome {
        let Self { bare, spoke, .. } = std::mem::take(self);
        outcome.map(|text| if text.trim().is_empty() && !spoke { bare } else { text })
    }
}

fn text_of(content: Content) -> Option<String> {
    match content {
        Content::Text(text) => Some(text),
        Content::Payload { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_before_a_tool_answers_a_turn_that_ends_without_one() {
        let end = |script: &[&str], result: &str| {
            let mut earlier = EarlierText::default();
            let mut said = Vec::new();
            for word in script {
                match word.strip_prefix('!') {
                    Some(tool) => said.extend(earlier.tool_called(tool)),
                    None => earlier.write(word),
                }
            }
            (said.len(), earlier.complete(Ok(result.to_owned())).unwrap(), earlier.complete(Ok(String::new())).unwrap())
        };
        for (script, result, said, answer) in [
            (&["It is 7.", "!Bash"][..], "", 0, "It is 7."),
            (&["It is 7.", "!Bash"], " \n", 0, "It is 7."),
            (&["It is 7.", "!Bash", "!Bash"], "", 0, "It is 7."),
            (&["Wait.", "!Bash", "It is 7.", "!Bash"], "", 0, "It is 7."),
            (&["Wait.", "!Bash", "Done."], "Done.", 0, "Done."),
            (&["Wait.", "!mcp__nanoclaw__send_message"], "", 0, ""),
            (&["Wait.", "!Bash"], "<internal>nothing to say</internal>", 0, "<internal>nothing to say</internal>"),
            (&["<message to=\"a\">Soon.</message> Wait.", "!Bash"], "Done.", 1, "Done."),
            (&["<message to=\"a\">Soon.</message>", "!Bash"], "", 1, ""),
            (&["<internal>hm</internal>", "!Bash"], "", 0, ""),
            (&["Done."], "", 0, ""),
        ] {
            assert_eq!(end(script, result), (said, answer.to_owned(), String::new()), "{script:?} {result}");
        }
    }

    #[test]
    fn errors_and_endless_texts_stay_as_they_are() {
        let mut earlier = EarlierText::default();
        earlier.write("x");
        earlier.write(&"y".repeat(BYTES_MAX));
        earlier.tool_called("Bash");
        assert_eq!(earlier.bare, "x");
        let complaint = super::super::lines::Complaint { text: "no".to_owned(), status: None };
        assert_eq!(earlier.complete(Err(complaint.clone())), Err(complaint));
    }
}
