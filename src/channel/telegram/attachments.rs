//! Files that come with messages: which there are, what they are called, and how they get into the store of files.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::super::intake::Intake;
use super::api::{Api, FETCH_BYTES_MAX, Failure, too_large};
use super::wire::{File, Message};
use crate::model::content::Attachment;

/// Files whose bytes are in memory at once, of all chats.
pub(super) const AT_ONCE: usize = 2;
/// Bytes of a file's name.
const NAME_BYTES_MAX: usize = 200;
/// Pauses between the tries to fetch a file.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];

/// A file of a message.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// What the platform takes it for: `photo`, `voice`, `document` …
    pub(super) kind: &'static str,
    /// A safe name, different from those of the message's other files.
    pub(super) name: String,
    file: File,
}

/// The files of a message, the largest size of a photo.
pub(super) fn found(message: &Message) -> Vec<Found> {
    let largest = message.photo.iter().max_by_key(|size| (size.width.unwrap_or(0), size.file_size.unwrap_or(0)));
    // An animation is said to be a document as well.
    let document = message.document.as_ref().filter(|_| message.animation.is_none());
    let all = [
        ("photo", largest),
        ("document", document),
        ("voice", message.voice.as_ref()),
        ("audio", message.audio.as_ref()),
        ("video", message.video.as_ref()),
        ("animation", message.animation.as_ref()),
        ("sticker", message.sticker.as_ref()),
        ("video_note", message.video_note.as_ref()),
    ];
    let mut found: Vec<Found> = Vec::new();
    for (kind, file) in all.into_iter().filter_map(|(kind, file)| Some((kind, file?))) {
        let wanted = file.file_name.as_deref().and_then(safe_name);
        let name = wanted.unwrap_or_else(|| format!("{kind}-{}.{}", message.message_id, extension(kind, file)));
        let taken = |name: &str| found.iter().any(|other| other.name == name);
        let name = if taken(&name) { format!("{kind}-{name}") } else { name };
        found.push(Found { kind, name, file: file.clone() });
    }
    found
}

impl Found {
    /// What the payload says of it.
    pub(super) fn described(&self) -> Value {
        let fields = [
            ("type", json!(self.kind)),
            ("name", json!(self.name)),
            ("mimeType", json!(self.mime())),
            ("size", json!(self.file.file_size)),
            ("width", json!(self.file.width)),
            ("height", json!(self.file.height)),
            ("duration", json!(self.file.duration)),
            ("emoji", json!(self.file.emoji)),
        ];
        fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.to_owned(), value)).collect()
    }

    fn mime(&self) -> Option<String> {
        let known = match self.kind {
            "photo" => Some("image/jpeg"),
            "sticker" if !self.file.is_animated && !self.file.is_video => Some("image/webp"),
            "sticker" if self.file.is_video => Some("video/webm"),
            "video_note" => Some("video/mp4"),
            _ => None,
        };
        self.file.mime_type.clone().or_else(|| known.map(str::to_owned))
    }

    /// Fetches the file and hands it over. One that cannot be had says why; the message is taken all the same.
    pub(super) async fn fetched(self, api: &Api, intake: &dyn Intake, places: &Semaphore) -> Attachment {
        let told = self.file.file_size;
        let (mime, name) = (self.mime(), self.name);
        let too_large = told.filter(|size| *size > FETCH_BYTES_MAX).map(|_| too_large());
        let kept = match too_large {
            Some(why) => Err(why),
            None => kept(&self.file.file_id, api, intake, places).await,
        };
        let size = kept.as_ref().map_or(told.unwrap_or(0), |(_, size)| *size);
        Attachment { name, size, mime, blob: kept.map(|(blob, _)| blob) }
    }
}

async fn kept(
    id: &str,
    api: &Api,
    intake: &dyn Intake,
    places: &Semaphore,
) -> Result<(crate::model::content::BlobId, u64), String> {
    // Nobody closes the semaphore.
    let _place = places.acquire().await.map_err(|error| error.to_string())?;
    let bytes = fetch(id, api).await.map_err(|failure| failure.to_string())?;
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    Ok((intake.keep(bytes).await?, size))
}

async fn fetch(id: &str, api: &Api) -> Result<Vec<u8>, Failure> {
    for pause in PAUSES {
        match api.fetch(id).await {
            Err(Failure::Unreached(_) | Failure::Unclear(_) | Failure::Trouble(_)) => tokio::time::sleep(pause).await,
            Err(Failure::Slow(wait)) if wait <= Duration::from_secs(60) => tokio::time::sleep(wait).await,
            other => return other,
        }
    }
    api.fetch(id).await
}

fn extension(kind: &str, file: &File) -> &'static str {
    match kind {
        "photo" => "jpg",
        "voice" => "ogg",
        "audio" => "mp3",
        "video" | "animation" | "video_note" => "mp4",
        "sticker" if file.is_video => "webm",
        "sticker" if file.is_animated => "tgs",
        "sticker" => "webp",
        _ => "bin",
    }
}

/// A platform's name as one that is safe in a directory; none if nothing is left of it.
fn safe_name(name: &str) -> Option<String> {
    let plain: String = name.chars().map(|c| if c.is_control() || matches!(c, '/' | '\\') { '_' } else { c }).collect();
    let plain = plain.trim().trim_start_matches('.');
    let (stem, end) = match plain.rsplit_once('.') {
        Some((stem, end)) if !stem.is_empty() && end.len() <= 16 => (stem, format!(".{end}")),
        _ => (plain, String::new()),
    };
    let room = NAME_BYTES_MAX.saturating_sub(end.len() + 16);
    let stem = stem.get(..stem.floor_char_boundary(room)).unwrap_or_default();
    (!stem.is_empty()).then(|| format!("{stem}{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_whatever_people_call_their_files() {
        for (given, safe) in [
            ("report.pdf", Some("report.pdf")),
            ("Bericht für Ann.tar.gz", Some("Bericht für Ann.tar.gz")),
            ("../../etc/passwd", Some("_.._etc_passwd")),
            ("a\\b\0c\n.txt", Some("a_b_c_.txt")),
            (".tmp-1-x", Some("tmp-1-x")),
            ("..", None),
            ("", None),
            (" . ", None),
        ] {
            assert_eq!(safe_name(given).as_deref(), safe, "{given:?}");
        }
        let long = safe_name(&format!("{}.jpeg", "ä".repeat(300))).unwrap();
        assert!(long.len() <= NAME_BYTES_MAX && long.ends_with("ä.jpeg"), "{long}");
    }
}
