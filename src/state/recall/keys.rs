//! Keys and values of the index of what was said.

use crate::key::{BadKey, KeyPart, take_tag};
use crate::model::id::{AgentId, ApprovalId, BodyId, ChatId, MessageId, OutboundId, SkipId};
use crate::model::recall::{RecallScope, SaidId};
use crate::text_key::{BadText, Text};

impl KeyPart for RecallScope {
    const MAX_BYTES: usize = 1 + AgentId::MAX_BYTES + ChatId::MAX_BYTES;

    /// No chat has the number 0.
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Chat(agent, chat) => {
                out.push(1);
                agent.encode(out);
                chat.map_or(0, ChatId::number).encode(out);
            }
            Self::Held(approval) => {
                out.push(2);
                approval.encode(out);
            }
        }
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        match take_tag(bytes)? {
            1 => {
                let agent = AgentId::decode(bytes)?;
                let chat = u64::decode(bytes)?;
                Ok(Self::Chat(agent, (chat != 0).then(|| ChatId::new(chat))))
            }
            2 => ApprovalId::decode(bytes).map(Self::Held),
            other => Err(BadKey(format!("{other} is not where something is found"))),
        }
    }

    fn show(&self, parts: &mut Vec<String>) {
        match self {
            Self::Chat(agent, chat) => {
                parts.push(agent.to_string());
                parts.push(chat.map_or_else(|| "-".to_owned(), |chat| chat.to_string()));
            }
            Self::Held(approval) => parts.push(approval.to_string()),
        }
    }
}

/// The tag of each kind of text.
pub(super) const KINDS: [u8; 4] = [1, 2, 3, 4];

/// The kind of a text, as its tag.
pub(super) const fn kind(id: SaidId) -> u8 {
    match id {
        SaidId::Message(_) => 1,
        SaidId::Answer(_) => 2,
        SaidId::Skip(_) => 3,
        SaidId::Held(_) => 4,
    }
}

/// A text by its kind and number.
pub(super) const fn said(kind: u8, number: u64) -> Option<SaidId> {
    match kind {
        1 => Some(SaidId::Message(MessageId::new(number))),
        2 => Some(SaidId::Answer(OutboundId::new(number))),
        3 => Some(SaidId::Skip(SkipId::new(number))),
        4 => Some(SaidId::Held(BodyId::new(number))),
        _ => None,
    }
}

impl KeyPart for SaidId {
    const MAX_BYTES: usize = 9;

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(kind(*self));
        self.number().encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        let tag = take_tag(bytes)?;
        let number = u64::decode(bytes)?;
        said(tag, number).ok_or_else(|| BadKey(format!("{tag} is not a kind of text")))
    }

    fn show(&self, parts: &mut Vec<String>) {
        parts.push(self.to_string());
    }
}

/// A term in a key. Only its length is shown, because terms are words of what people say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(Text);

impl Term {
    /// Checks a term.
    ///
    /// # Errors
    /// [`BadText`] if it is too long for a key or contains NUL, which no term does.
    pub fn new(term: &str) -> Result<Self, BadText> {
        Text::new(term).map(Self)
    }
}

impl KeyPart for Term {
    const MAX_BYTES: usize = Text::MAX_BYTES;

    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        Text::decode(bytes).map(Self)
    }

    fn show(&self, parts: &mut Vec<String>) {
        parts.push(format!("term of {} bytes", self.0.as_str().len()));
    }
}

/// The value of a row of the index, as `src/search` packs it. Only its length is shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packed(pub Vec<u8>);

impl KeyPart for Packed {
    const MAX_BYTES: usize = usize::MAX;

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        Ok(Self(std::mem::take(bytes).to_vec()))
    }

    fn show(&self, parts: &mut Vec<String>) {
        parts.push(format!("{} bytes", self.0.len()));
    }
}
