//! What is said: the fields the engine reads, and the platform's payload as it came.

use std::sync::Arc;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::address::ForeignId;

/// Validated JSON text, kept as received. Whoever makes one has parsed it once and bounded its size. It never changes, so
/// that everybody who needs it has the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Arc<str>);

/// The payload of an inbound message.
///
/// The text is part of the payload, so the store has it once: its record says where in the payload it stands. What is
/// read is what was written, byte for byte; a text that the payload does not have is written beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// `text` of the payload; empty when it has none.
    pub text: String,
    /// The adapter's id of the sender: the only source of an identity.
    pub sender: Option<ForeignId>,
    /// How the sender is called; shown, never trusted.
    pub sender_name: Option<String>,
    /// The whole payload: an object.
    pub raw: RawJson,
}

/// A file as the store of files knows it: the SHA-256 of its bytes in 64 lower-case hex digits, which is also its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlobId(String);

impl BlobId {
    /// The id of a digest.
    #[must_use]
    pub fn of_digest(digest: &[u8; 32]) -> Self {
        Self(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Takes a digest as it is written.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        (text.len() == 64 && text.bytes().all(hex)).then(|| Self(text.to_owned()))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A file that came with a message. Its bytes lie in the store of files before the message is taken in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// A safe file name, different from those of the message's other attachments.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// What the platform says it is.
    pub mime: Option<String>,
    /// Where its bytes are; none when they could not be had, and then why.
    pub blob: Result<BlobId, String>,
}

impl RawJson {
    /// Wraps a text that its maker has parsed as JSON.
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

/// As programs see it.
#[derive(Serialize, Deserialize)]
struct Shown {
    text: String,
    sender: Option<ForeignId>,
    sender_name: Option<String>,
    raw: RawJson,
}

/// Where the text is.
#[derive(Serialize, Deserialize)]
enum Place<T> {
    Beside(T),
    /// Within the payload: first byte after its opening quote, and the length of what it is there.
    Inside(u32, u32),
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            let Self { text, sender, sender_name, raw } = self.clone();
            return Shown { text, sender, sender_name, raw }.serialize(serializer);
        }
        let place = match find(&self.raw.0, &self.text) {
            Some((start, length)) => Place::Inside(start, length),
            None => Place::Beside(self.text.as_str()),
        };
        (place, &self.sender, &self.sender_name, &self.raw).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let Shown { text, sender, sender_name, raw } = Shown::deserialize(deserializer)?;
            return Ok(Self { text, sender, sender_name, raw });
        }
        let (place, sender, sender_name, raw) = Deserialize::deserialize(deserializer)?;
        let raw: RawJson = raw;
        let text = match place {
            Place::Beside(text) => Some(text),
            Place::Inside(start, length) => inside(&raw.0, start, length).and_then(unescape),
        };
        let text = text.ok_or_else(|| D::Error::custom("the payload has no text where the record says"))?;
        Ok(Self { text, sender, sender_name, raw })
    }
}

/// Where a payload has a text as the value of `text`; none where reading it there would give another one.
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

/// Where a JSON string ends that began before this text.
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

/// What the inside of a JSON string says.
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

/// The character of `u` and four digits, or of two of them that are the halves of a pair, and what comes after it.
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
