//! Chat commands for the runner or the provider itself: `/clear`, `/compact`, `/context`, `/cost`, `/files`.
//!
//! The host checks permissions and drops commands from people who lack them. Other agents cannot give commands: their
//! messages are always text. Pure.

use hearth_wire::InMessage;

use crate::prompt::text_of;
use crate::provider;

/// The prefix of the ids of agents as senders.
const AGENT: &str = "agent:";

/// A message that is a turn of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// Starts a new conversation.
    Clear,
    /// Passed to the provider unchanged.
    Native(String),
}

/// Commands for the provider.
const NATIVE: [&str; 4] = ["/compact", "/context", "/cost", "/files"];

/// Parses a command. Its first word decides, in any case: `/clearance` is ordinary text.
pub(crate) fn parse(text: &str) -> Option<Command> {
    let text = text.trim_matches(is_space);
    let word = text.split(is_space).next()?.to_lowercase();
    match word.as_str() {
        "/clear" => Some(Command::Clear),
        word if NATIVE.contains(&word) => {
            Some(Command::Native(format!("{word}{}", text.get(word.len()..).unwrap_or_default())))
        }
        _ => None,
    }
}

/// Splits messages into the next turn and later ones. A command is its own turn, after the messages that arrived before
/// it. Context waits for a message that triggers a turn.
pub(crate) fn cut(messages: Vec<InMessage>, provider: &str) -> (Vec<InMessage>, Vec<InMessage>) {
    let is_command = |message: &InMessage| command(message, provider).is_some();
    let Some(place) = messages.iter().position(is_command) else { return (messages, Vec::new()) };
    let mut now = messages;
    let mut later = now.split_off(place);
    if !now.iter().any(|message| message.trigger) {
        let rest = later.split_off(1);
        std::mem::swap(&mut now, &mut later);
        later.extend(rest);
    }
    (now, later)
}

/// The command of a turn with these messages, if there is one.
pub(crate) fn of_turn(messages: &[InMessage], provider: &str) -> Option<Command> {
    messages.iter().find(|message| message.trigger).and_then(|message| command(message, provider))
}

fn command(message: &InMessage, provider: &str) -> Option<Command> {
    let sender = message.content.get("senderId").and_then(serde_json::Value::as_str).unwrap_or_default();
    let is_chat = ["chat", "chat-sdk"].contains(&message.kind.as_str());
    if !message.trigger || !is_chat || sender.starts_with(AGENT) {
        return None;
    }
    parse(text_of(message)).filter(|command| *command == Command::Clear || provider::takes_commands(provider))
}

/// White space as defined by Rust or by JavaScript, like the host.
fn is_space(c: char) -> bool {
    c.is_whitespace() || c == '\u{FEFF}'
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_word_decides() {
        let native = |text: &str| Some(Command::Native(text.to_owned()));
        for (text, expected) in [
            ("/clear", Some(Command::Clear)),
            ("/CLEAR now", Some(Command::Clear)),
            ("  /clear  ", Some(Command::Clear)),
            ("\u{feff}/clear\nplease", Some(Command::Clear)),
            ("/clearance", None),
            ("/compact", native("/compact")),
            (" /Compact keep the numbers ", native("/compact keep the numbers")),
            ("/cost x", native("/cost x")),
            ("/context", native("/context")),
            ("/files", native("/files")),
            ("/costs", None),
            ("/remote-control", None),
            ("/help", None),
            ("/login", None),
            ("/foo", None),
            ("/welcome", None),
            ("//x", None),
            ("/", None),
            ("", None),
            ("hello", None),
            ("say /clear", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    fn message(seq: u64, trigger: bool, text: &str) -> InMessage {
        let content = json!({"text": text, "senderId": "terminal:1"});
        let (id, timestamp) = (format!("ms{seq}"), String::new());
        InMessage {
            v: 1,
            seq,
            id,
            kind: "chat".to_owned(),
            trigger,
            timestamp,
            unknown_sender: false,
            reply: None,
            content,
        }
    }

    #[test]
    fn a_command_is_a_turn_of_its_own() {
        for (texts, now, later) in [
            (vec!["a", "b"], "a b", ""),
            (vec!["/clear"], "/clear", ""),
            (vec!["a", "/clear", "b"], "a", "/clear b"),
            (vec!["/clear", "b", "/cost"], "/clear", "b /cost"),
            (vec!["-c", "/cost", "b"], "/cost", "-c b"),
            (vec!["-c", "a", "/cost"], "-c a", "/cost"),
            (vec!["-/clear", "a"], "-/clear a", ""),
        ] {
            let messages = texts.iter().zip(1..).map(|(text, seq)| message(seq, !text.starts_with('-'), text));
            let (first, rest) = cut(
                messages
                    .map(|mut m| {
                        m.content["text"] = text_of(&m).trim_start_matches('-').into();
                        m
                    })
                    .collect(),
                "claude",
            );
            let shown = |messages: &[InMessage]| messages.iter().map(text_of).collect::<Vec<_>>().join(" ");
            assert_eq!((shown(&first), shown(&rest)), (now.replace('-', ""), later.replace('-', "")), "{texts:?}");
        }
    }

    #[test]
    fn only_people_in_chats_of_a_provider_that_has_commands() {
        let mut other = message(2, true, "/cost");
        assert!(command(&other, "claude").is_some());
        assert!(command(&other, "echo").is_none());
        assert!(command(&message(2, true, "/clear"), "echo").is_some());
        other.content["senderId"] = json!("agent:scout");
        assert!(command(&other, "claude").is_none());
        let task = InMessage { kind: "task".to_owned(), ..message(2, true, "/clear") };
        assert!(command(&task, "claude").is_none());
    }
}
