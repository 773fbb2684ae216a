//! Encoding of keys: bytes sort like their values.
//!
//! Range scans (what is due? what comes next?) depend on that order, and LMDB compares keys byte by byte. Numbers are
//! big-endian, texts end with a NUL that they cannot contain, choices begin with a tag. So every part is
//! self-delimiting, and the bytes of a leading part are a prefix of the key's bytes. Tags are part of the store format
//! and are never reused.

use super::spare::Spare;
use crate::model::card::PromptSubject;
use crate::model::entity::Role;
use crate::model::group::StatePart;
use crate::model::id::{
    AgentId, ApprovalId, BodyId, ChatId, ConnectionId, ConsoleSessionId, DropId, JournalId, MessageId, OutboundId,
    QuestionId, SessionId, SkipId, TaskId, ToolGrantId,
};
use crate::model::short::Short;
use crate::model::time::Day;
use crate::model::workspace::{Discriminator, Fingerprint};
use crate::model::{Awake, Timestamp, Turn};

/// LMDB's limit: a key has 1 to this many bytes.
pub const MAX_KEY_BYTES: usize = 511;

/// Bytes that are not a key of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadKey(pub String);

/// A key, or a part of one.
pub trait KeyPart: std::fmt::Debug + Clone + Ord + Sized {
    /// Maximum size of an encoded value. The sum over a key's parts stays within [`MAX_KEY_BYTES`].
    const MAX_BYTES: usize;

    /// Appends the value's bytes. LMDB has no empty keys, so at least one.
    fn encode(&self, out: &mut Vec<u8>);

    /// Decodes the value from the front of the bytes and removes it.
    ///
    /// # Errors
    /// [`BadKey`] if they do not begin with one.
    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey>;

    /// Appends the text form, one text per part.
    fn show(&self, parts: &mut Vec<String>);

    /// Like [`Self::encode`], for the value of an index row, which may be empty.
    fn encode_value(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }

    /// The inverse of [`Self::encode_value`].
    ///
    /// # Errors
    /// As for [`Self::decode`].
    fn decode_value(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        Self::decode(bytes)
    }

    /// The bytes of a complete key.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        self.encode(&mut out);
        out
    }

    /// Reads a complete key.
    ///
    /// # Errors
    /// [`BadKey`] if the bytes are anything else, or go on after it.
    fn from_bytes(mut bytes: &[u8]) -> Result<Self, BadKey> {
        let key = Self::decode(&mut bytes)?;
        if bytes.is_empty() { Ok(key) } else { Err(BadKey(format!("{} bytes after the key's end", bytes.len()))) }
    }

    /// The value as one text: `se345`, `telegram/123`, `()`.
    fn shown(&self) -> String {
        let mut parts = Vec::new();
        self.show(&mut parts);
        if parts.is_empty() { "()".to_owned() } else { parts.join("/") }
    }
}

/// The bytes of a complete key for a single call, in a reusable buffer.
pub(super) fn encoded(key: &impl KeyPart) -> Spare {
    let mut bytes = Spare::take();
    key.encode(&mut bytes);
    bytes
}

/// A leading part of the keys `K`; selects all rows whose keys begin with it.
pub trait Prefix<K>: KeyPart {}

/// Takes `N` bytes off the front.
pub(super) fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], BadKey> {
    let Some((head, rest)) = bytes.split_first_chunk::<N>() else {
        return Err(BadKey(format!("{N} bytes expected, {} there", bytes.len())));
    };
    *bytes = rest;
    Ok(*head)
}

/// Takes one byte off the front.
pub(super) fn take_tag(bytes: &mut &[u8]) -> Result<u8, BadKey> {
    take::<1>(bytes).map(|[tag]| tag)
}

/// Takes a text that ends with a NUL off the front.
pub(super) fn take_text(bytes: &mut &[u8], max: usize) -> Result<Short, BadKey> {
    let end = bytes.iter().position(|b| *b == 0).ok_or_else(|| BadKey("an unterminated text".to_owned()))?;
    let (text, rest) = bytes.split_at(end);
    let text = std::str::from_utf8(text).map_err(|e| BadKey(format!("a text that is not UTF-8: {e}")))?;
    if text.len() > max {
        return Err(BadKey(format!("a text of {} bytes, at most {max} are possible", text.len())));
    }
    *bytes = rest.split_first().map_or(rest, |(_, rest)| rest);
    Ok(text.into())
}

impl KeyPart for () {
    const MAX_BYTES: usize = 1;

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(0);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        match take_tag(bytes)? {
            0 => Ok(()),
            other => Err(BadKey(format!("byte {other} where the only key is 0"))),
        }
    }

    fn show(&self, _parts: &mut Vec<String>) {}

    fn encode_value(&self, _out: &mut Vec<u8>) {}

    fn decode_value(_bytes: &mut &[u8]) -> Result<Self, BadKey> {
        Ok(())
    }
}

macro_rules! number_parts {
    ($($number:ty),*) => {$(
        impl KeyPart for $number {
            const MAX_BYTES: usize = size_of::<Self>();

            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }

            fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
                take(bytes).map(Self::from_be_bytes)
            }

            fn show(&self, parts: &mut Vec<String>) {
                parts.push(self.to_string());
            }
        }
    )*};
}

number_parts!(u16, u32, u64);

macro_rules! id_parts {
    ($($id:ty),*) => {$(
        impl KeyPart for $id {
            const MAX_BYTES: usize = u64::MAX_BYTES;

            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                self.number().encode(out);
            }

            fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
                u64::decode(bytes).map(Self::new)
            }

            fn show(&self, parts: &mut Vec<String>) {
                parts.push(self.to_string());
            }
        }
    )*};
}

id_parts!(
    AgentId,
    ApprovalId,
    BodyId,
    ChatId,
    ConnectionId,
    ConsoleSessionId,
    DropId,
    JournalId,
    MessageId,
    OutboundId,
    QuestionId,
    SessionId,
    SkipId,
    ToolGrantId,
    TaskId
);

impl KeyPart for Timestamp {
    const MAX_BYTES: usize = 8;

    /// With the sign flipped, so that times before 1970 come first.
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        (self.millis().cast_unsigned() ^ (1 << 63)).encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        u64::decode(bytes).map(|n| Self::from_millis((n ^ (1 << 63)).cast_signed()))
    }

    fn show(&self, parts: &mut Vec<String>) {
        parts.push(self.to_string());
    }
}

impl KeyPart for Awake {
    const MAX_BYTES: usize = 16;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        self.run().encode(out);
        self.ms().encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        Ok(Self::new(u64::decode(bytes)?, u64::decode(bytes)?))
    }

    fn show(&self, parts: &mut Vec<String>) {
        parts.push(format!("run{}+{}ms", self.run(), self.ms()));
    }
}

impl KeyPart for Fingerprint {
    const MAX_BYTES: usize = 8;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        self.number().encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        u64::decode(bytes).map(Self::from_number)
    }

    fn show(&self, parts: &mut Vec<String>) {
        parts.push(self.to_string());
    }
}

impl KeyPart for Discriminator {
    const MAX_BYTES: usize = 2;

    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        u16::decode(bytes).map(Self)
    }

    fn show(&self, parts: &mut Vec<String>) {
        parts.push(self.0.to_string());
    }
}

impl KeyPart for Role {
    const MAX_BYTES: usize = 1 + AgentId::MAX_BYTES;

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Owner => out.push(1),
            Self::GlobalAdmin => out.push(2),
            Self::AdminOf(agent) => {
                out.push(3);
                agent.encode(out);
            }
        }
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        match take_tag(bytes)? {
            1 => Ok(Self::Owner),
            2 => Ok(Self::GlobalAdmin),
            3 => AgentId::decode(bytes).map(Self::AdminOf),
            other => Err(BadKey(format!("{other} is not a role"))),
        }
    }

    fn show(&self, parts: &mut Vec<String>) {
        parts.push(match self {
            Self::Owner => "owner".to_owned(),
            Self::GlobalAdmin => "admin".to_owned(),
            Self::AdminOf(agent) => format!("admin:{agent}"),
        });
    }
}

impl KeyPart for Turn {
    const MAX_BYTES: usize = 1;

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Now => 1,
            Self::Later => 2,
        });
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        match take_tag(bytes)? {
            1 => Ok(Self::Now),
            2 => Ok(Self::Later),
            other => Err(BadKey(format!("{other} is not a turn"))),
        }
    }

    fn show(&self, parts: &mut Vec<String>) {
        let name = match self {
            Self::Now => "now",
            Self::Later => "later",
        };
        parts.push(name.to_owned());
    }
}

impl KeyPart for StatePart {
    const MAX_BYTES: usize = 1;

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Top => 1,
            Self::Sessions => 2,
            Self::Muted => 3,
        });
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        match take_tag(bytes)? {
            1 => Ok(Self::Top),
            2 => Ok(Self::Sessions),
            3 => Ok(Self::Muted),
            other => Err(BadKey(format!("{other} is not a part of a state file"))),
        }
    }

    fn show(&self, parts: &mut Vec<String>) {
        let name = match self {
            Self::Top => "top",
            Self::Sessions => "sessions",
            Self::Muted => "muted_threads",
        };
        parts.push(name.to_owned());
    }
}

impl KeyPart for Day {
    const MAX_BYTES: usize = u32::MAX_BYTES;

    fn encode(&self, out: &mut Vec<u8>) {
        self.number().encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        u32::decode(bytes).map(Self::new)
    }

    fn show(&self, parts: &mut Vec<String>) {
        parts.push(self.to_string());
    }
}

impl KeyPart for PromptSubject {
    const MAX_BYTES: usize = 1 + ApprovalId::MAX_BYTES;

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Approval(id) => {
                out.push(1);
                id.encode(out);
            }
            Self::Question(id) => {
                out.push(2);
                id.encode(out);
            }
            Self::Skip(id) => {
                out.push(3);
                id.encode(out);
            }
        }
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        match take_tag(bytes)? {
            1 => ApprovalId::decode(bytes).map(Self::Approval),
            2 => QuestionId::decode(bytes).map(Self::Question),
            3 => SkipId::decode(bytes).map(Self::Skip),
            other => Err(BadKey(format!("{other} is not the subject of a prompt"))),
        }
    }

    fn show(&self, parts: &mut Vec<String>) {
        parts.push(self.to_string());
    }
}

macro_rules! tuple_parts {
    ($($part:ident . $position:tt),+) => {
        impl<$($part: KeyPart),+> KeyPart for ($($part,)+) {
            const MAX_BYTES: usize = 0 $(+ $part::MAX_BYTES)+;

            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$position.encode(out);)+
            }

            fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
                Ok(($($part::decode(bytes)?,)+))
            }

            fn show(&self, parts: &mut Vec<String>) {
                $(self.$position.show(parts);)+
            }
        }
    };
}

tuple_parts!(A.0, B.1);
tuple_parts!(A.0, B.1, C.2);
tuple_parts!(A.0, B.1, C.2, D.3);

impl<A: KeyPart, B: KeyPart> Prefix<(A, B)> for A {}
impl<A: KeyPart, B: KeyPart, C: KeyPart> Prefix<(A, B, C)> for A {}
impl<A: KeyPart, B: KeyPart, C: KeyPart> Prefix<(A, B, C)> for (A, B) {}
impl<A: KeyPart, B: KeyPart, C: KeyPart, D: KeyPart> Prefix<(A, B, C, D)> for A {}
impl<A: KeyPart, B: KeyPart, C: KeyPart, D: KeyPart> Prefix<(A, B, C, D)> for (A, B) {}
impl<A: KeyPart, B: KeyPart, C: KeyPart, D: KeyPart> Prefix<(A, B, C, D)> for (A, B, C) {}
