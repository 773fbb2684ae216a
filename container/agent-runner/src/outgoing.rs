//! Converts a provider's output into messages that the host accepts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, Write};
use std::path::PathBuf;

use hearth_wire::{Address, Context, Destination, DestinationTarget, InMessage, OutKind, is_safe_file_name, limits};
use serde_json::{Value, json};

use crate::strip::{strip_internal, strip_payload};

/// Maximum number of messages that one long text is split into.
const MOST_PIECES: usize = 32;

/// One message of the provider.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Utterance {
    pub(crate) content: Content,
    pub(crate) target: OutgoingRecipient,
    pub(crate) files: Vec<Attachment>,
}

/// Text, or a platform's payload.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    Text(String),
    Payload { kind: OutKind, content: Value },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutgoingRecipient {
    /// The chat of the message being answered.
    Reply,
    /// A destination of the context, by name.
    Destination(String),
    /// An address that the agent was given.
    Address(Address),
}

/// Channel of agents' addresses.
pub(crate) const AGENTS: &str = "agent";

/// Where the messages of a turn came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// One chat, which gets text without a recipient.
    Chat,
    /// No chat, several chats, or another agent.
    Unclear,
}

impl Origin {
    /// The origin of messages. `session` is the address of their session, for messages without one.
    pub(crate) fn of(asked: &[InMessage], session: Option<&Address>) -> Self {
        let chat = |message: &InMessage| {
            let reply = message.reply.as_ref().or(session).filter(|address| address.channel != AGENTS)?;
            Some((reply.channel.clone(), reply.platform_id.clone()))
        };
        let mut chats = asked.iter().map(chat);
        match chats.next().flatten() {
            Some(first) if chats.all(|other| other.as_ref() == Some(&first)) => Self::Chat,
            _ => Self::Unclear,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attachment {
    pub(crate) name: String,
    pub(crate) source: Source,
}

/// Source of an attachment's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Bytes(Vec<u8>),
    Path(PathBuf),
}

impl Utterance {
    pub(crate) fn reply(text: impl Into<String>) -> Self {
        Self { content: Content::Text(text.into()), target: OutgoingRecipient::Reply, files: Vec::new() }
    }

    pub(crate) fn to(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { target: OutgoingRecipient::Destination(name.into()), ..Self::reply(text) }
    }
}

impl Content {
    /// Removes internal text. `None` if nothing is left.
    pub(crate) fn for_people(self) -> Option<Self> {
        match self {
            Self::Text(text) => {
                let kept = strip_internal(&text);
                let silent = kept.is_empty() && !text.trim().is_empty();
                // Text without internal parts stays unchanged, including its spaces.
                let kept = if kept == text.trim() { text } else { kept };
                (!silent).then_some(Self::Text(kept))
            }
            Self::Payload { kind, mut content } => {
                strip_payload(&mut content);
                Some(Self::Payload { kind, content })
            }
        }
    }

    pub(crate) fn into_parts(self) -> (OutKind, Value) {
        match self {
            Self::Text(text) => (OutKind::Chat, json!({ "text": text })),
            Self::Payload { kind, content } => (kind, content),
        }
    }
}

/// The content of a file: a fixed number of bytes that can be read repeatedly.
pub(crate) struct Readable<'a> {
    content: Box<dyn ReadSeek + 'a>,
    bytes: u64,
}

trait ReadSeek: Read + Seek {}
impl<T: Read + Seek> ReadSeek for T {}

impl Readable<'_> {
    /// Copies the content from its beginning, up to the length that the file had when it was opened.
    pub(crate) fn copy_to(&mut self, writer: &mut dyn Write) -> io::Result<()> {
        self.content.rewind()?;
        io::copy(&mut self.content.by_ref().take(self.bytes), writer).map(drop)
    }
}

impl Attachment {
    /// Opens the content, if the host would accept the file.
    pub(crate) fn open(&self, max_bytes: u64) -> Result<Readable<'_>, String> {
        let Self { name, source } = self;
        if !is_safe_file_name(name) {
            return Err(format!("a file cannot be sent as {name:?}: that is not a plain file name"));
        }
        let readable = match source {
            Source::Bytes(bytes) => Readable { bytes: bytes.len() as u64, content: Box::new(Cursor::new(bytes)) },
            Source::Path(path) => {
                let refused = |error| format!("the file {} cannot be sent: {error}", path.display());
                let meta = std::fs::metadata(path).map_err(refused)?;
                if !meta.is_file() {
                    return Err(format!("{} cannot be sent: it is not a file", path.display()));
                }
                Readable { bytes: meta.len(), content: Box::new(File::open(path).map_err(refused)?) }
            }
        };
        if readable.bytes > max_bytes {
            return Err(format!("the file {name} has {} bytes, at most {max_bytes} can be sent", readable.bytes));
        }
        Ok(readable)
    }
}

/// Names of the files, if they fit into one message.
pub(crate) fn attachment_names(files: &[Attachment]) -> Result<Vec<String>, String> {
    if files.len() > limits::FILES_PER_MESSAGE {
        return Err(format!("{} files in one message, at most {} can be sent", files.len(), limits::FILES_PER_MESSAGE));
    }
    let mut names: Vec<String> = Vec::new();
    for file in files {
        if names.contains(&file.name) {
            return Err(format!("two files named {} in one message; one would replace the other", file.name));
        }
        names.push(file.name.clone());
    }
    Ok(names)
}

/// Whether the agent may write to `target`; `None` if the name is unknown.
pub(crate) fn known_target<'a>(context: &'a Context, target: &OutgoingRecipient) -> Option<Option<&'a Destination>> {
    match target {
        OutgoingRecipient::Destination(name) => context.destinations.iter().find(|d| d.name == *name).map(Some),
        OutgoingRecipient::Reply | OutgoingRecipient::Address(_) => Some(None),
    }
}

/// The message that an output to `target` answers: the newest of the turn from that chat, else the newest one.
pub(crate) fn answered(
    asked: &[InMessage],
    target: &OutgoingRecipient,
    destination: Option<&Destination>,
) -> Option<u64> {
    let chat = match (target, destination.map(|destination| &destination.target)) {
        (OutgoingRecipient::Address(address), _) => Some((address.channel.as_str(), address.platform_id.as_str())),
        (_, Some(DestinationTarget::Channel { channel, platform_id })) => {
            Some((channel.as_str(), platform_id.as_str()))
        }
        _ => None,
    };
    let from_chat = |message: &&InMessage| {
        let reply = message.reply.as_ref().map(|reply| (reply.channel.as_str(), reply.platform_id.as_str()));
        reply.is_some() && reply == chat
    };
    asked.iter().rev().find(from_chat).or(asked.last()).map(|message| message.seq)
}

/// The last address heard from in each chat, in this incarnation.
#[derive(Debug, Default)]
pub(crate) struct LastAddresses(BTreeMap<(String, String), Address>);

impl LastAddresses {
    /// Records the addresses of messages, oldest first.
    pub(crate) fn hear(&mut self, messages: &[InMessage]) {
        for address in messages.iter().filter_map(|message| message.reply.as_ref()) {
            self.0.insert((address.channel.clone(), address.platform_id.clone()), address.clone());
        }
    }

    /// Resolves a destination that is a chat with threads to the last active thread. The host knows only the chat by
    /// that name.
    pub(crate) fn in_thread(&self, target: OutgoingRecipient, destination: Option<&Destination>) -> OutgoingRecipient {
        let chat = match destination.map(|destination| &destination.target) {
            Some(DestinationTarget::Channel { channel, platform_id }) => (channel.clone(), platform_id.clone()),
            _ => return target,
        };
        match self.0.get(&chat).filter(|address| address.thread_id.is_some()) {
            Some(address) => OutgoingRecipient::Address(address.clone()),
            None => target,
        }
    }
}

/// Splits a text into pieces that `fits` accepts, at line ends or spaces if possible. `None` if there would be too
/// many.
pub(crate) fn pieces(text: &str, fits: &dyn Fn(&str) -> bool) -> Option<Vec<String>> {
    let mut done = Vec::new();
    let mut open = vec![text];
    while let Some(piece) = open.pop() {
        if fits(piece) {
            done.push(piece.to_owned());
        } else {
            let (left, right) = halves(piece)?;
            open.push(right);
            open.push(left);
        }
        if done.len() + open.len() > MOST_PIECES {
            return None;
        }
    }
    Some(done)
}

/// Two parts of about the same size; `None` if the text cannot be split.
fn halves(text: &str) -> Option<(&str, &str)> {
    let middle = text.floor_char_boundary(text.len() / 2);
    let (head, _) = text.split_at_checked(middle)?;
    let at_line = head.rfind('\n').or_else(|| head.rfind(' ')).map(|place| place + 1);
    let near = at_line.filter(|place| *place > text.len() / 4).unwrap_or(middle);
    let cut = if near == 0 { text.ceil_char_boundary(1) } else { near };
    text.split_at_checked(cut).filter(|(left, right)| !left.is_empty() && !right.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(seq: u64, reply: Option<Address>) -> InMessage {
        InMessage {
            v: 1,
            seq,
            id: String::new(),
            kind: "chat".to_owned(),
            trigger: true,
            timestamp: String::new(),
            unknown_sender: false,
            reply,
            content: json!({}),
        }
    }

    /// Chats and threads of the messages, then the destination: which message is answered and in which thread.
    #[test]
    fn answers_find_the_message_and_the_thread() {
        let message = |(seq, (chat, thread)): (u64, &(&str, &str))| {
            let thread_id = Some((*thread).to_owned()).filter(|thread| !thread.is_empty());
            asking(seq, Some(Address { channel: "c".to_owned(), platform_id: (*chat).to_owned(), thread_id }))
        };
        let place = |chat: &str| Destination {
            name: chat.to_owned(),
            display: None,
            target: DestinationTarget::Channel { channel: "c".to_owned(), platform_id: chat.to_owned() },
        };
        for (asked, to, expected) in [
            (&[("a", "1")][..], "a", (Some(1), Some("1"))),
            (&[("a", "1"), ("b", "9")], "a", (Some(1), Some("1"))),
            (&[("a", "1"), ("b", "9")], "b", (Some(2), Some("9"))),
            (&[("a", "old"), ("a", "new")], "a", (Some(2), Some("new"))),
            (&[("a", "1")], "elsewhere", (Some(1), None)),
            (&[("a", "1"), ("a", "")], "a", (Some(2), None)),
            (&[], "a", (None, None)),
        ] {
            let messages: Vec<InMessage> = (1..).zip(asked).map(message).collect();
            let mut heard = LastAddresses::default();
            heard.hear(&messages);
            let (destination, target) = (place(to), OutgoingRecipient::Destination(to.to_owned()));
            let seq = answered(&messages, &target, Some(&destination));
            let thread = match heard.in_thread(target, Some(&destination)) {
                OutgoingRecipient::Address(address) => address.thread_id,
                _ => None,
            };
            assert_eq!((seq, thread.as_deref()), expected, "{asked:?} to {to}");
        }
    }

    /// Channels of the messages' addresses and of their session's.
    #[test]
    fn text_without_a_recipient_has_one_chat_to_go_to_or_not() {
        let address = |place: &&str| {
            let (channel, platform_id) = place.split_once('/').unwrap_or((place, ""));
            (!place.is_empty()).then(|| Address {
                channel: channel.to_owned(),
                platform_id: platform_id.to_owned(),
                thread_id: None,
            })
        };
        for (asked, session, expected) in [
            (&["tg/1"][..], "", Origin::Chat),
            (&[""], "tg/1", Origin::Chat),
            (&["tg/1", "", "tg/1"], "tg/1", Origin::Chat),
            (&[""], "", Origin::Unclear),
            (&["tg/1", ""], "", Origin::Unclear),
            (&["tg/1", "tg/2"], "tg/1", Origin::Unclear),
            (&["tg/1", "sl/1"], "", Origin::Unclear),
            (&["agent/scout"], "tg/1", Origin::Unclear),
            (&["tg/1", "agent/scout"], "", Origin::Unclear),
            (&[], "tg/1", Origin::Unclear),
        ] {
            let messages: Vec<InMessage> = asked.iter().map(|place| asking(1, address(place))).collect();
            assert_eq!(Origin::of(&messages, address(&session).as_ref()), expected, "{asked:?} in {session:?}");
        }
    }

    #[test]
    fn what_is_for_nobody_is_not_said() {
        for (text, said) in [
            ("a <internal>b</internal> c", Some("a  c")),
            ("<internal>b</internal>", None),
            (" <internal>b</internal> ", None),
            ("  as it is ", Some("  as it is ")),
            ("<internal>open", Some("<internal>open")),
            ("", Some("")),
        ] {
            let kept = Content::Text(text.to_owned()).for_people();
            assert_eq!(kept, said.map(|said| Content::Text(said.to_owned())), "{text:?}");
        }
    }

    #[test]
    fn pieces_lose_nothing_and_prefer_line_ends() {
        let text = "one two three\nfour five six\nseven eight";
        let cut = pieces(text, &|piece| piece.len() <= 16).unwrap();
        assert_eq!(cut.concat(), text);
        assert!(cut.iter().all(|piece| piece.len() <= 16), "{cut:?}");
        assert!(cut[0].ends_with('\n'), "{cut:?}");
        let wide = "ö".repeat(100);
        assert_eq!(pieces(&wide, &|piece| piece.len() <= 31).unwrap().concat(), wide);
    }

    #[test]
    fn what_cannot_be_cut_is_refused() {
        assert_eq!(pieces("abc", &|_| false), None);
        assert_eq!(pieces(&"x".repeat(1000), &|piece| piece.len() < 4), None);
        assert_eq!(pieces("", &|_| true), Some(vec![String::new()]));
    }

    #[test]
    fn files_are_checked_before_they_are_sent() {
        let file =
            |name: &str, bytes: usize| Attachment { name: name.to_owned(), source: Source::Bytes(vec![0; bytes]) };
        assert!(file("a.txt", 4).open(4).is_ok());
        assert!(file("a.txt", 5).open(4).is_err());
        assert!(file("../a", 1).open(4).is_err());
        assert!(attachment_names(&[file("a", 1), file("a", 1)]).is_err());
        assert!(attachment_names(&vec![file("a", 1); 33]).is_err());
        let absent = Attachment { name: "a".to_owned(), source: Source::Path(PathBuf::from("/nonexistent/a")) };
        assert!(absent.open(4).is_err());
    }
}
