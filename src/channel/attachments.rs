//! Files inside of events: moved out of the payload, so that no row of the store contains their bytes.
//!
//! Reading an event ([`super::event::read`]) does no I/O. It returns an [`Arrived`]: the event and the bytes of its
//! files. The caller stores the files and gets an event that can be received. A file that cannot be stored loses its
//! bytes and gets a reason that its agent sees; the message itself is never lost because of a file.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hearth_wire::limits::{FILE_BYTES, FILES_PER_MESSAGE, NAME_BYTES};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::intake::{Ingress, NotTaken};
use crate::model::content::{Attachment, BlobId, FileBytes};
use crate::model::input::InboundEvent;
use crate::model::time::Timestamp;

/// Maximum length of a MIME type in characters; the rest is cut.
const MIME_CHARS_MAX: usize = 100;

/// Base64 as platforms write it: with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// An event and the bytes of its files, which are not stored yet.
#[derive(Debug)]
pub struct Arrived {
    event: InboundEvent,
    /// Index of the event's attachment, and its bytes.
    files: Vec<(usize, Vec<u8>)>,
}

impl Arrived {
    pub(super) fn new(event: InboundEvent, files: Vec<(usize, Vec<u8>)>) -> Self {
        Self { event, files }
    }

    /// Stores the files with `keep` and returns the event. If `keep` cannot store a file, its reason is shown to the
    /// agent. If `keep` returns an error, the event must not be received.
    ///
    /// # Errors
    /// The error of `keep`.
    pub fn keep<E>(
        mut self,
        mut keep: impl FnMut(Vec<u8>) -> Result<Result<BlobId, String>, E>,
    ) -> Result<InboundEvent, E> {
        for (at, bytes) in std::mem::take(&mut self.files) {
            let kept = keep(bytes)?;
            self.settle(at, kept);
        }
        Ok(self.event)
    }

    /// Like [`Self::keep`], for adapters.
    ///
    /// # Errors
    /// The error of [`Ingress::keep`] if there is no room.
    pub async fn keep_in(mut self, intake: &dyn Ingress) -> Result<InboundEvent, NotTaken> {
        for (at, bytes) in std::mem::take(&mut self.files) {
            let kept = intake.keep(bytes).await?;
            self.settle(at, kept);
        }
        Ok(self.event)
    }

    /// The event before its files are stored.
    pub(super) const fn event(&self) -> &InboundEvent {
        &self.event
    }

    /// The event without its files. Routing it has the same result.
    #[must_use]
    pub fn without_files(self) -> InboundEvent {
        self.event
    }

    fn settle(&mut self, at: usize, kept: Result<BlobId, String>) {
        if let Some(attachment) = self.event.attachments.get_mut(at) {
            attachment.blob = kept.into();
        }
    }
}

/// The files taken out of a payload.
#[derive(Debug)]
pub(super) struct Taken {
    /// The payload without the files; `None` if it is unchanged.
    pub(super) content: Option<String>,
    /// The files, in their order.
    pub(super) attachments: Vec<Attachment>,
    /// Index of the attachment, and its bytes.
    pub(super) files: Vec<(usize, Vec<u8>)>,
}

/// Takes the bytes of `attachments[].data` out of a payload, which is an object. Entries keep their other fields, with
/// two exceptions: an entry with a name or with bytes gets a safe, unique name, and `localPath` is removed.
pub(super) fn take_out(object: &str, said: Option<Timestamp>) -> Taken {
    let mut taken = Taken { content: None, attachments: Vec::new(), files: Vec::new() };
    let Some(fields) = Fields::read(object) else { return taken };
    let Some(list) = fields.get("attachments") else { return taken };
    let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(list) else { return taken };
    let mut names = Names::new(said);
    let mut changed = false;
    let written: Vec<String> = entries
        .iter()
        .map(|entry| match Fields::read(entry.get()) {
            Some(entry) => entry_without_bytes(entry, &mut names, &mut taken, &mut changed),
            None => entry.get().to_owned(),
        })
        .collect();
    if changed {
        let list = format!("[{}]", written.join(","));
        taken.content = Some(fields.with("attachments", &list).text());
    }
    taken
}

fn entry_without_bytes(mut entry: Fields<'_>, names: &mut Names, taken: &mut Taken, changed: &mut bool) -> String {
    let data = entry.get("data").filter(|data| data.starts_with('"')).map(str::to_owned);
    let named = entry.string("name").filter(|name| !name.is_empty());
    *changed |= data.is_some();
    if data.is_some() || named.is_some() {
        let mime = ["mimeType", "mime_type", "mime"].into_iter().find_map(|key| entry.string(key));
        let name = names.take(named.as_deref(), mime.as_deref(), entry.string("type").as_deref());
        if named.as_ref() != Some(&name) {
            *changed = true;
            entry.set("name", json_text(&name));
        }
        if let Some(data) = data {
            entry.remove("data");
            let size = taken.add(name, mime, &data);
            entry.set("size", size.to_string());
        }
    }
    // Only the host may set the path of a file.
    *changed |= entry.remove("localPath");
    entry.text()
}

impl Taken {
    /// Decodes the bytes of a file and returns their number.
    fn add(&mut self, name: String, mime: Option<String>, data: &str) -> u64 {
        let decoded = if self.attachments.len() < FILES_PER_MESSAGE {
            decode(data)
        } else {
            Err(format!("a message can have {FILES_PER_MESSAGE} files with it, this one has more"))
        };
        let mime = mime.as_deref().map(|mime| plain(mime.trim())).filter(|mime| !mime.is_empty());
        let (size, blob) = match decoded {
            Ok(bytes) => {
                let size = bytes.len() as u64;
                self.files.push((self.attachments.len(), bytes));
                (size, "its bytes were not stored".to_owned())
            }
            Err(reason) => (0, reason),
        };
        self.attachments.push(Attachment { name, size, mime, blob: FileBytes::Missing(blob) });
        size
    }
}

/// Decodes a JSON string of base64.
fn decode(data: &str) -> Result<Vec<u8>, String> {
    let bad = |_| "its data is not base64".to_owned();
    let owned;
    let text = match serde_json::from_str::<&str>(data) {
        Ok(text) => text,
        Err(_) => {
            owned = serde_json::from_str::<String>(data).map_err(|_| "its data is not text".to_owned())?;
            owned.as_str()
        }
    };
    let bytes = match BASE64.decode(text) {
        Ok(bytes) => bytes,
        Err(_) => BASE64.decode(usual(text)).map_err(bad)?,
    };
    if bytes.len() as u64 > FILE_BYTES {
        return Err(format!("it has {} bytes, at most {FILE_BYTES} are accepted", bytes.len()));
    }
    Ok(bytes)
}

/// Converts the base64 variants of mails (with line breaks) and URLs (`-` and `_`) to the standard one.
fn usual(text: &str) -> String {
    let letter = |c| match c {
        '-' => '+',
        '_' => '/',
        other => other,
    };
    text.chars().filter(|c| !c.is_ascii_whitespace()).map(letter).collect()
}

fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MIME_CHARS_MAX).collect()
}

/// Assigns names to the files of one message: safe, and unique even where case makes no difference.
#[derive(Debug)]
pub struct Names {
    fallback: String,
    taken: BTreeSet<String>,
    /// The last number appended to a name, so that thousands of files with the same name are not counted anew each
    /// time.
    numbers: BTreeMap<String, u64>,
}

impl Names {
    /// Names for the files of a message sent at a time, which is used for files without a name.
    #[must_use]
    pub fn new(said: Option<Timestamp>) -> Self {
        let fallback = said.map_or_else(|| "attachment".to_owned(), |said| format!("attachment-{}", said.millis()));
        Self { fallback, taken: BTreeSet::new(), numbers: BTreeMap::new() }
    }

    /// The name of a file, from the platform's name for it, its MIME type and its kind.
    pub fn take(&mut self, name: Option<&str>, mime: Option<&str>, kind: Option<&str>) -> String {
        let wanted = match name {
            Some(name) if is_plain(name) => name.to_owned(),
            _ => match extension(mime, kind) {
                Some(extension) => format!("{}.{extension}", self.fallback),
                None => self.fallback.clone(),
            },
        };
        let mut name = wanted.clone();
        if self.taken.insert(name.to_lowercase()) {
            return name;
        }
        // Names that are equal after being cut for a number share a counter.
        let number = self.numbers.entry(numbered(&wanted, u64::MAX).to_lowercase()).or_insert(1);
        loop {
            *number += 1;
            name = numbered(&wanted, *number);
            if self.taken.insert(name.to_lowercase()) {
                return name;
            }
        }
    }
}

/// `a.png` -> `a-2.png`, within the maximum length of names.
fn numbered(name: &str, number: u64) -> String {
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() && extension.len() <= NAME_BYTES / 4 => {
            (stem, format!(".{extension}"))
        }
        _ => (name, String::new()),
    };
    let end = format!("-{number}{extension}");
    let room = stem.floor_char_boundary(NAME_BYTES.saturating_sub(end.len()));
    format!("{}{end}", stem.get(..room).unwrap_or_default())
}

/// Whether a platform's name is used unchanged: safe as a file name, and displayed as it is.
fn is_plain(name: &str) -> bool {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    hearth_wire::is_safe_file_name(name) && !name.chars().any(turns)
}

fn extension(mime: Option<&str>, kind: Option<&str>) -> Option<&'static str> {
    let mime = mime.and_then(|mime| mime.split(';').next()).map(|mime| mime.trim().to_lowercase());
    let kind = kind.map(str::to_lowercase);
    let find = |list: &[(&str, &'static str)], word: Option<String>| {
        list.iter().find(|(known, _)| Some(*known) == word.as_deref()).map(|(_, extension)| *extension)
    };
    find(MIME_EXTENSIONS, mime).or_else(|| find(KIND_EXTENSIONS, kind))
}

const MIME_EXTENSIONS: &[(&str, &str)] = &[
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/webp", "webp"),
    ("image/gif", "gif"),
    ("image/heic", "heic"),
    ("audio/ogg", "ogg"),
    ("audio/mpeg", "mp3"),
    ("audio/wav", "wav"),
    ("audio/mp4", "m4a"),
    ("video/mp4", "mp4"),
    ("video/webm", "webm"),
    ("video/quicktime", "mov"),
    ("application/pdf", "pdf"),
    ("text/plain", "txt"),
    ("application/json", "json"),
    ("application/zip", "zip"),
    ("application/x-tgsticker", "tgs"),
];

const KIND_EXTENSIONS: &[(&str, &str)] = &[
    ("image", "jpg"),
    ("photo", "jpg"),
    ("sticker", "webp"),
    ("voice", "ogg"),
    ("audio", "mp3"),
    ("video", "mp4"),
    ("animation", "mp4"),
];

/// A JSON object whose values are unparsed text, in order. Of duplicate keys the last one counts.
struct Fields<'t>(Vec<(String, std::borrow::Cow<'t, str>)>);

impl<'t> Fields<'t> {
    fn read(text: &'t str) -> Option<Self> {
        let Pairs(pairs) = serde_json::from_str(text).ok()?;
        let mut seen = HashSet::new();
        let mut fields: Vec<_> = pairs.into_iter().rev().filter(|(key, _)| seen.insert(key.clone())).collect();
        fields.reverse();
        Some(Self(fields.into_iter().map(|(key, value)| (key, value.get().into())).collect()))
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_ref())
    }

    fn string(&self, key: &str) -> Option<String> {
        self.get(key).and_then(|value| serde_json::from_str(value).ok())
    }

    fn set(&mut self, key: &str, value: String) {
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value.into(),
            None => self.0.push((key.to_owned(), value.into())),
        }
    }

    fn with(mut self, key: &str, value: &str) -> Self {
        self.set(key, value.to_owned());
        self
    }

    fn remove(&mut self, key: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|(known, _)| known != key);
        self.0.len() != before
    }

    fn text(&self) -> String {
        let pairs: Vec<String> = self.0.iter().map(|(key, value)| format!("{}:{value}", json_text(key))).collect();
        format!("{{{}}}", pairs.join(","))
    }
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Keys and values of an object, in order.
struct Pairs<'t>(Vec<(String, &'t RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}

#[cfg(test)]
mod tests;
