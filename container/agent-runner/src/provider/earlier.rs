//! What the model wrote before it called tools: the answer of a turn has only its last text. Pure.
//!
//! Text for a destination is sent before the tools run. Other text is sent only from a verbose agent; else it is shown as
//! progress, and is the answer if the turn ends without one.

use hearth_wire::Verbosity;

use crate::outgoing::{Content, OutgoingRecipient, Utterance};
use crate::provider::dispatch;

/// Maximum bytes of a text; what follows is ignored.
const BYTES_MAX: usize = 1024 * 1024;
/// The server of Hearth's tools, as part of their names: each agent joins both in its own way.
const OWN: &str = "nanoclaw";
/// Tools of that server with which the agent speaks itself.
const SPEAKS: [&str; 2] = ["send_message", "send_file"];

/// Texts of the turn so far.
#[derive(Debug, Default)]
pub(in crate::provider) struct EarlierText {
    /// What was written since the last call of a tool. Tools may still follow.
    newest: String,
    /// The last text without a destination that tools followed.
    bare: String,
    /// Whether the agent spoke through a tool, or what it wrote was sent.
    spoke: bool,
}

impl EarlierText {
    /// The model wrote a text.
    pub(in crate::provider) fn write(&mut self, text: &str) {
        if self.newest.len() + text.len() <= BYTES_MAX {
            self.newest.push_str(text);
        }
    }

    /// The model calls a tool. Returns what it wrote before, as far as it is sent.
    pub(in crate::provider) fn tool_called(&mut self, name: &str, verbosity: Verbosity) -> Vec<Utterance> {
        self.spoke |= name.contains(OWN) && SPEAKS.iter().any(|tool| name.contains(tool));
        let said = dispatch::addressed(&std::mem::take(&mut self.newest));
        if verbosity == Verbosity::Verbose {
            self.spoke |= !said.is_empty();
            return said;
        }
        let (bare, said): (Vec<_>, Vec<_>) =
            said.into_iter().partition(|utterance| utterance.target == OutgoingRecipient::Reply);
        let texts: Vec<String> = bare.into_iter().filter_map(|utterance| text_of(utterance.content)).collect();
        if !texts.is_empty() {
            self.bare = texts.join("\n\n");
        }
        said
    }

    /// The answer of a turn that is over. The last earlier text stands in for an empty one.
    pub(in crate::provider) fn complete(self, answer: String) -> String {
        if answer.trim().is_empty() && !self.spoke { self.bare } else { answer }
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
        let end = |script: &[&str], result: &str, verbosity: Verbosity| {
            let mut earlier = EarlierText::default();
            let mut said = Vec::new();
            for word in script {
                match word.strip_prefix('!') {
                    Some(tool) => said.extend(earlier.tool_called(tool, verbosity)),
                    None => earlier.write(word),
                }
            }
            (said.len(), earlier.complete(result.to_owned()))
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
            let expected = (said, answer.to_owned());
            assert_eq!(end(script, result, Verbosity::Normal), expected, "{script:?} {result}");
        }
        for (script, result, said, answer) in [
            (&["It is 7.", "!Bash"][..], "", 1, ""),
            (&["Wait.", "!Bash", "!Bash", "It is 7.", "!Bash"], "", 2, ""),
            (&["Wait.", "!Bash", "Done."], "Done.", 1, "Done."),
            (&["<message to=\"a\">Soon.</message> Wait.", "!Bash"], "Done.", 2, "Done."),
            (&["<internal>hm</internal>", "!Bash", "Done."], "Done.", 0, "Done."),
        ] {
            let expected = (said, answer.to_owned());
            assert_eq!(end(script, result, Verbosity::Verbose), expected, "{script:?} {result}");
        }
    }

    #[test]
    fn endless_texts_are_cut() {
        let mut earlier = EarlierText::default();
        earlier.write("x");
        earlier.write(&"y".repeat(BYTES_MAX));
        earlier.tool_called("Bash", Verbosity::Normal);
        assert_eq!(earlier.complete(String::new()), "x");
    }
}
