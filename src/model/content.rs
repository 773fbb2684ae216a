//! Message payloads: the fields the engine reads, and the platform's payload as received.

use std::sync::Arc;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::address::ForeignId;

/// Validated JSON text, kept as received. The creator parses it once and bounds its size. It is immutable, so all
/// readers share the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Arc<str>);

/// The payload of an inbound message.
///
/// The text is part of the payload and is stored only once: the record holds its position in the payload. Reading
/// restores exactly the bytes that were written. A text that is not in the payload is stored beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// `text` of the payload; empty when it has none.
    pub text: String,
    /// The adapter's id of the sender: the only source of an identity.
    pub sender: Option<ForeignId>,
    /// The sender's display name. Shown, never trusted.
    pub sender_name: Option<String>,
    /// The whole payload: an object.
    pub raw: RawJson,
}

/// Id of a file in the store of files: the SHA-256 of its bytes as 64 lowercase hex digits. It is also the file's name
/// there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlobId(String);

impl BlobId {
    /// Converts a digest.
    #[must_use]
    pub fn of_digest(digest: &[u8; 32]) -> Self {
        Self(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Parses the text form of a digest.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        (text.len() == 64 && text.bytes().all(hex)).then(|| Self(text.to_owned()))
    }

    /// The digest in hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A file that came with a message. Its bytes are in the store of files before the message is imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// A safe file name, different from those of the message's other attachments.
    pub name: String,
    /// Length in bytes.
    pub size: u64,
    /// Media type reported by the platform.
    pub mime: Option<String>,
    /// Where its bytes are.
    pub blob: FileBytes,
}

/// Location of a file's bytes. This type began as a `Result`: stored rows keep the numbers of its variants, and exported
/// stores keep their names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileBytes {
    /// In the store of files.
    #[serde(rename = "Ok")]
    Stored(BlobId),
    /// Hearth does not have them, and why.
    #[serde(rename = "Err")]
    Missing(String),
    /// The network keeps them under this reference. They are fetched before an agent receives the message.
    Remote(String),
}

/// Reason shown for a file that is still only at its network.
const STILL_REMOTE: &str = "it was not fetched yet";

impl FileBytes {
    /// The file in the store of files, if it is there.
    #[must_use]
    pub const fn stored(&self) -> Option<&BlobId> {
        match self {
            Self::Stored(blob) => Some(blob),
            Self::Missing(_) | Self::Remote(_) => None,
        }
    }

    /// Whether they still have to be fetched.
    #[must_use]
    pub const fn is_remote(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    /// The file in the store of files, or why it is not there, for people and agents.
    ///
    /// # Errors
    /// The reason.
    pub fn get(&self) -> Result<&BlobId, &str> {
        match self {
            Self::Stored(blob) => Ok(blob),
            Self::Missing(why) => Err(why),
            Self::Remote(_) => Err(STILL_REMOTE),
        }
    }
}

impl From<Result<BlobId, String>> for FileBytes {
    fn from(kept: Result<BlobId, String>) -> Self {
        kept.map_or_else(Self::Missing, Self::Stored)
    }
}

impl RawJson {
    /// Wraps a text that the caller has already parsed as JSON.
    #[must_use]
    pub fn trusted(text: String) -> Self {
        Self(text.into())
    }

    /// The JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = RawJson;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<RawJson, E> {
                Ok(RawJson(text.into()))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// JSON form.
#[derive(Serialize, Deserialize)]
struct PayloadView {
    text: String,
    sender: Option<ForeignId>,
    sender_name: Option<String>,
    raw: RawJson,
}

/// Location of the text.
#[derive(Serialize, Deserialize)]
enum TextRange<T> {
    Beside(T),
    /// Within the payload: position of the first byte after its opening quote, and its length there.
    Inside(u32, u32),
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            let Self { text, sender, sender_name, raw } = self.clone();
            return PayloadView { text, sender, sender_name, raw }.serialize(serializer);
        }
        let place = match find(&self.raw.0, &self.text) {
            Some((start, length)) => TextRange::Inside(start, length),
            None => TextRange::Beside(self.text.as_str()),
        };
        (place, &self.sender, &self.sender_name, &self.raw).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let PayloadView { text, sender, sender_name, raw } = PayloadView::deserialize(deserializer)?;
            return Ok(Self { text, sender, sender_name, raw });
        }
        let (place, sender, sender_name, raw) = Deserialize::deserialize(deserializer)?;
        let raw: RawJson = raw;
        let text = match place {
            TextRange::Beside(text) => Some(text),
            TextRange::Inside(start, length) => inside(&raw.0, start, length).and_then(unescape),
        };
        let text = text.ok_or_else(|| D::Error::custom("the payload has no text where the record says"))?;
        Ok(Self { text, sender, sender_name, raw })
    }
}

/// Finds a text in a payload as the value of `text`. None if reading it back from there would give a different text.
fn find(payload: &str, text: &str) -> Option<(u32, u32)> {
    const KEY: &str = "\"text\"";
    let mut from = 0;
    loop {
        let quote = payload.get(from..)?.find('"')?.checked_add(from)?;
        let Some(rest) = payload.get(quote..)?.strip_prefix(KEY) else {
            from = quote.checked_add(1)?;
            continue;
        };
        let value = rest.trim_start().strip_prefix(':').map(str::trim_start).and_then(|rest| rest.strip_prefix('"'));
        if let Some(value) = value {
            let start = payload.len().checked_sub(value.len())?;
            let escaped = value.get(..end_of(value)?)?;
            if says(escaped, text) {
                return Some((u32::try_from(start).ok()?, u32::try_from(escaped.len()).ok()?));
            }
        }
        from = quote.checked_add(KEY.len())?;
    }
}

fn inside(payload: &str, start: u32, length: u32) -> Option<&str> {
    let start = usize::try_from(start).ok()?;
    payload.get(start..start.checked_add(usize::try_from(length).ok()?)?)
}

/// End of a JSON string that began before this text.
fn end_of(text: &str) -> Option<usize> {
    let first = text.find('"')?;
    if !text.get(..first)?.contains('\\') {
        return Some(first);
    }
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

fn says(escaped: &str, text: &str) -> bool {
    match escaped.contains('\\') {
        false => escaped == text,
        true => unescape(escaped).is_some_and(|said| said == text),
    }
}

/// Decodes the inside of a JSON string.
fn unescape(escaped: &str) -> Option<String> {
    let mut said = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some((plain, escape)) = rest.split_once('\\') {
        said.push_str(plain);
        let mut chars = escape.chars();
        let one = match chars.next()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let (one, after) = unicode(escape)?;
                chars = after.chars();
                one
            }
            same @ ('"' | '\\' | '/') => same,
            _ => return None,
        };
        said.push(one);
        rest = chars.as_str();
    }
    said.push_str(rest);
    Some(said)
}

/// Decodes `u` and four digits, or two such escapes that form a surrogate pair. Returns the character and the rest.
fn unicode(escape: &str) -> Option<(char, &str)> {
    let half = |escape: &str| u16::from_str_radix(escape.strip_prefix('u')?.get(..4)?, 16).ok();
    let (first, rest) = (half(escape)?, escape.get(5..)?);
    if let Some(Ok(one)) = char::decode_utf16([first]).next() {
        return Some((one, rest));
    }
    let second = rest.strip_prefix('\\')?;
    let one = char::decode_utf16([first, half(second)?]).next()?.ok()?;
    Some((one, second.get(5..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_found_where_the_payload_has_it() {
        for (raw, text, found) in [
            (r#"{"text":"hi"}"#, "hi", true),
            (r#"{ "a":1, "text" : "hi" }"#, "hi", true),
            (r#"{"text":""}"#, "", true),
            (r#"{"text":"a\nb \"c\" \\ \/"}"#, "a\nb \"c\" \\ /", true),
            (r#"{"text":"\ud83e\udd9e \u00E9"}"#, "🦞 é", true),
            (r#"{"text":"é🦞"}"#, "é🦞", true),
            (r#"{"text":"first","text":"last"}"#, "last", true),
            (r#"{"text":"\"text\":\"in it\"","x":{"text":"deep"}}"#, "deep", true),
            (r#"{"quote":"\"text\":\"hi\""}"#, "hi", false),
            (r#"{"text":"other"}"#, "hi", false),
            (r#"{"text":42}"#, "", false),
            (r#"{"text":"\ud83e"}"#, "\u{fffd}", false),
            (r#"{"text":"cut"#, "cut", false),
            ("{}", "", false),
        ] {
            assert_eq!(find(raw, text).is_some(), found, "{raw}");
            if let Some((start, length)) = find(raw, text) {
                assert_eq!(inside(raw, start, length).and_then(unescape).as_deref(), Some(text), "{raw}");
            }
        }
    }
}
