//! Texts in keys: short internal texts, and foreign ids of any length.

use sha2::{Digest as _, Sha256};

use super::key::{BadKey, KeyPart, take, take_tag, take_text};
use crate::model::content::BlobId;
use crate::model::entity::Folder;
use crate::model::group::FieldName;
use crate::model::id::{ChatId, Counter};
use crate::model::session::Route;
use crate::model::short::Short;
use crate::model::workspace::Witness;
use crate::model::{ChannelName, ForeignId};

/// A short text in a key: a folder, a counter's name, an agent's id of a message, the name of a field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Short);

/// A text that cannot be part of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum BadText {
    /// Over [`Text::MAX_TEXT`].
    #[error("a name of {bytes} bytes is too long for the store: use at most {max}", max = Text::MAX_TEXT)]
    TooLong { bytes: usize },
    /// It contains U+0000.
    #[error("a name with a NUL character cannot be stored: remove that character")]
    Nul,
}

impl Text {
    /// Longest text, in bytes.
    pub const MAX_TEXT: usize = 400;

    /// Checks a text.
    ///
    /// # Errors
    /// [`BadText`] if it is too long for a key or contains NUL.
    pub fn new(text: impl Into<Short>) -> Result<Self, BadText> {
        let text = text.into();
        if text.len() > Self::MAX_TEXT {
            return Err(BadText::TooLong { bytes: text.len() });
        }
        if text.contains('\0') { Err(BadText::Nul) } else { Ok(Self(text)) }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&Folder> for Text {
    fn from(folder: &Folder) -> Self {
        Self(folder.as_str().into()) // at most 64 plain characters
    }
}

impl From<Counter> for Text {
    fn from(counter: Counter) -> Self {
        Self(counter.name().into()) // two letters
    }
}

impl KeyPart for Text {
    const MAX_BYTES: usize = Self::MAX_TEXT + 1;

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
        out.push(0);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        take_text(bytes, Self::MAX_TEXT).map(Self)
    }

    fn show(&self, parts: &mut Vec<String>) {
        parts.push(self.0.to_string());
    }
}

/// A foreign id in a key. An id that is too long for LMDB's keys is replaced by a digest, so a record under such a key
/// repeats the complete id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ForeignKey(Form);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    Plain(Short),
    Digest([u8; 32]),
}

/// Identifiers from outside.
pub trait Foreign {
    /// The name's text.
    fn text(&self) -> &str;
}

impl Foreign for ForeignId {
    fn text(&self) -> &str {
        self.as_str()
    }
}

impl Foreign for ChannelName {
    fn text(&self) -> &str {
        self.as_str()
    }
}

impl Foreign for FieldName {
    fn text(&self) -> &str {
        self.as_str()
    }
}

impl Foreign for String {
    fn text(&self) -> &str {
        self
    }
}

/// A SHA-256 digest that replaces a long value in a key. A record under such a key repeats the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Digest of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// As the id of the file with these bytes.
    #[must_use]
    pub fn blob(&self) -> BlobId {
        BlobId::of_digest(&self.0)
    }

    /// A key that was built elsewhere.
    #[must_use]
    pub const fn known(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(self) -> [u8; 32] {
        self.0
    }

    /// Digest of those parts of a directory's identity that never change.
    #[must_use]
    pub fn of_witness(witness: &Witness) -> Self {
        let mut sum = Sha256::new();
        sum.update(witness.inode.to_be_bytes());
        sum.update([u8::from(witness.born.is_some())]);
        sum.update(witness.born.unwrap_or_default().to_be_bytes());
        Self(sum.finalize().into())
    }
}

impl KeyPart for Digest {
    const MAX_BYTES: usize = 32;

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        take(bytes).map(Self)
    }

    fn show(&self, parts: &mut Vec<String>) {
        parts.push(super::hex::hex(&self.0));
    }
}

impl ForeignKey {
    /// Longest id that is stored as text. Three of them with their terminators fit into a key with its other parts.
    pub const MAX_TEXT: usize = 96;

    const NONE: u8 = 0;
    const PLAIN: u8 = 1;
    const DIGEST: u8 = 2;

    /// The smallest key.
    #[must_use]
    pub fn least() -> Self {
        Self(Form::Plain(Short::default()))
    }

    /// The greatest possible key, which no name has.
    #[must_use]
    pub const fn greatest() -> Self {
        Self(Form::Digest([u8::MAX; 32]))
    }

    /// The key of a name; the empty name also has a key.
    #[must_use]
    pub fn of(name: &impl Foreign) -> Self {
        let text = name.text();
        if text.len() <= Self::MAX_TEXT && !text.contains('\0') {
            return Self(Form::Plain(text.into()));
        }
        Self(Form::Digest(Sha256::digest(text.as_bytes()).into()))
    }
}

impl KeyPart for ForeignKey {
    const MAX_BYTES: usize = Self::MAX_TEXT + 2;

    fn encode(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Form::Plain(text) => {
                out.push(Self::PLAIN);
                out.extend_from_slice(text.as_bytes());
                out.push(0);
            }
            Form::Digest(digest) => {
                out.push(Self::DIGEST);
                out.extend_from_slice(digest);
            }
        }
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        match take_tag(bytes)? {
            Self::PLAIN => take_text(bytes, Self::MAX_TEXT).map(Form::Plain).map(Self),
            Self::DIGEST => take(bytes).map(Form::Digest).map(Self),
            other => Err(BadKey(format!("{other} is not a kind of foreign id"))),
        }
    }

    fn show(&self, parts: &mut Vec<String>) {
        parts.push(match &self.0 {
            Form::Plain(text) => text.to_string(),
            Form::Digest(digest) => digest.iter().fold("sha256:".to_owned(), |text, b| text + &format!("{b:02x}")),
        });
    }
}

impl KeyPart for Option<ForeignKey> {
    const MAX_BYTES: usize = ForeignKey::MAX_BYTES;

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(ForeignKey::NONE),
            Some(key) => key.encode(out),
        }
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        match bytes.split_first() {
            Some((&ForeignKey::NONE, rest)) => {
                *bytes = rest;
                Ok(None)
            }
            _ => ForeignKey::decode(bytes).map(Some),
        }
    }

    fn show(&self, parts: &mut Vec<String>) {
        match self {
            None => parts.push("-".to_owned()),
            Some(key) => key.show(parts),
        }
    }
}

/// A session's route in a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteKey {
    /// The whole chat.
    Shared(ChatId),
    /// A thread of a chat, or the messages outside of threads.
    PerThread(ChatId, Option<ForeignKey>),
    /// Everything an agent receives in mode agent-shared.
    AgentShared,
}

impl From<&Route> for RouteKey {
    fn from(route: &Route) -> Self {
        match route {
            Route::Shared(chat) => Self::Shared(*chat),
            Route::PerThread(chat, thread) => Self::PerThread(*chat, thread.as_ref().map(ForeignKey::of)),
            Route::AgentShared => Self::AgentShared,
        }
    }
}

impl KeyPart for RouteKey {
    const MAX_BYTES: usize = 1 + ChatId::MAX_BYTES + ForeignKey::MAX_BYTES;

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Shared(chat) => {
                out.push(1);
                chat.encode(out);
            }
            Self::PerThread(chat, thread) => {
                out.push(2);
                chat.encode(out);
                thread.encode(out);
            }
            Self::AgentShared => out.push(3),
        }
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        match take_tag(bytes)? {
            1 => ChatId::decode(bytes).map(Self::Shared),
            2 => Ok(Self::PerThread(ChatId::decode(bytes)?, Option::decode(bytes)?)),
            3 => Ok(Self::AgentShared),
            other => Err(BadKey(format!("{other} is not a kind of route"))),
        }
    }

    fn show(&self, parts: &mut Vec<String>) {
        match self {
            Self::Shared(chat) => parts.push(format!("shared:{chat}")),
            Self::PerThread(chat, thread) => {
                parts.push(format!("thread:{chat}"));
                thread.show(parts);
            }
            Self::AgentShared => parts.push("agent-shared".to_owned()),
        }
    }
}
