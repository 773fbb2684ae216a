//! Chat commands for the runner or the provider itself: `/clear`, `/compact`, `/context`, `/cost`, `/files`.
//!
//! The host checks permissions and drops commands from people who lack them. Other agents cannot give commands: their
//! messages are always text. Pure.

use hearth_wire::InMessage;
use serde_json::Value;

use crate::prompt::text_of;

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

/// Providers that support [`NATIVE`] commands.
const PROVIDERS_WITH_COMMANDS: [&str; 1] = ["claude"];
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
    let sender = message.content.get("senderId").and_then(Value::as_str).unwrap_or_default();
    let is_chat = ["chat", "chat-sdk"].contains(&message.kind.as_str());
    if !message.trigger || !is_chat || sender.starts_with(AGENT) {
        return None;
    }
    parse(text_of(message)).filter(|command| *command == Command::Clear || PROVIDERS_WITH_COMMANDS.contains(&provider))
}

/// The script of a message, if it has to run before the message is shown.
pub(crate) fn script_of(message: &InMessage) -> Option<&str> {
    let script = message.content.get("script").and_then(Value::as_str)?;
    (message.kind == "task" && !script.trim().is_empty()).then_some(script)
}

/// Splits a turn's messages: if other messages trigger a turn, those with scripts are postponed, and each runs by
/// itself later. So a chat waits for at most one script.
pub(crate) fn postpone_scripts(messages: Vec<InMessage>) -> (Vec<InMessage>, Vec<InMessage>) {
    let others_ask = messages.iter().any(|message| message.trigger && script_of(message).is_none());
    let mut first = !others_ask;
    messages.into_iter().partition(|message| script_of(message).is_none() || std::mem::take(&mut first))
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

    fn with_script(seq: u64, kind: &str, script: Option<&str>) -> InMessage {
        let (id, timestamp) = (format!("ms{seq}"), String::new());
        let content = json!({ "text": "x", "script": script });
        InMessage {
            v: 1,
            seq,
            id,
            kind: kind.to_owned(),
            trigger: seq != 9,
            timestamp,
            unknown_sender: false,
            reply: None,
            content,
        }
    }

    #[test]
    fn a_script_waits_for_those_who_ask_and_goes_alone() {
        let seqs = |messages: Vec<InMessage>| messages.iter().map(|message| message.seq).collect::<Vec<_>>();
        for (taken, now, later) in [
            (vec![(1, "task"), (2, "chat")], vec![2], vec![1]),
            (vec![(1, "task"), (2, "task")], vec![1], vec![2]),
            (vec![(9, "chat"), (10, "task"), (11, "task")], vec![9, 10], vec![11]),
            (vec![(1, "chat")], vec![1], vec![]),
        ] {
            let messages = taken.iter().map(|(seq, kind)| with_script(*seq, kind, (*kind == "task").then_some("true")));
            let (first, rest) = postpone_scripts(messages.collect());
            assert_eq!((seqs(first), seqs(rest)), (now, later), "{taken:?}");
        }
        assert_eq!(script_of(&with_script(1, "chat", Some("rm -rf /"))), None, "what people write is no script");
        assert_eq!(script_of(&with_script(1, "task", Some("  "))), None);
    }
}
