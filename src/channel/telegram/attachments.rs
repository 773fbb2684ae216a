//! Files of messages: finds them, names them, and stores them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::super::attachments::Names;
use super::super::intake::Ingress;
use super::api::{Api, FETCH_BYTES_MAX, Failure, too_large};
use super::wire::{File, Message};
use crate::model::content::{Attachment, BlobId, FileBytes};

/// Number of files whose bytes are in memory at once, over all chats.
pub(super) const AT_ONCE: usize = 2;
/// Size limit of a file id in bytes; Telegram's have about a hundred.
const FILE_ID_BYTES_MAX: usize = 1_024;
/// Pauses between attempts to fetch a file.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];

#[derive(Debug, Clone)]
pub(super) struct MessageFile {
    /// The platform's type: `photo`, `voice`, `document` …
    pub(super) kind: &'static str,
    /// A safe name, different from those of the message's other files.
    pub(super) name: String,
    mime: Option<String>,
    file: File,
}

/// The files of a message; of a photo, its largest size.
pub(super) fn found(message: &Message) -> Vec<MessageFile> {
    let largest = message.photo.iter().max_by_key(|size| (size.width.unwrap_or(0), size.file_size.unwrap_or(0)));
    // An animation is also listed as a document.
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
    let mut names = Names::new(message.said());
    let found = all.into_iter().filter_map(|(kind, file)| Some((kind, file?)));
    let found = found.map(|(kind, file)| {
        let mime = mime(kind, file);
        let name = names.take(file.file_name.as_deref(), mime.as_deref(), Some(kind));
        MessageFile { kind, name, mime, file: file.clone() }
    });
    found.collect()
}

/// The MIME type that Telegram reports, else the usual one of its kind.
fn mime(kind: &str, file: &File) -> Option<String> {
    let known = match kind {
        "photo" => Some("image/jpeg"),
        "sticker" if file.is_video => Some("video/webm"),
        "sticker" if file.is_animated => Some("application/x-tgsticker"),
        "sticker" => Some("image/webp"),
        "video_note" => Some("video/mp4"),
        _ => None,
    };
    file.mime_type.clone().or_else(|| known.map(str::to_owned))
}

impl MessageFile {
    /// The payload's description of the file.
    pub(super) fn described(&self) -> Value {
        let fields = [
            ("type", json!(self.kind)),
            ("name", json!(self.name)),
            ("mimeType", json!(self.mime)),
            ("size", json!(self.file.file_size)),
            ("width", json!(self.file.width)),
            ("height", json!(self.file.height)),
            ("duration", json!(self.file.duration)),
            ("emoji", json!(self.file.emoji)),
        ];
        fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// The attachment of a file that is not fetched.
    pub(super) fn left_out(&self, why: &str) -> Attachment {
        let size = self.file.file_size.unwrap_or(0);
        Attachment { name: self.name.clone(), size, mime: self.mime.clone(), blob: FileBytes::Missing(why.to_owned()) }
    }

    /// The attachment of a file that stays with Telegram for now.
    pub(super) fn remote(self) -> Attachment {
        if let Some(why) = self.beyond_bounds() {
            return self.left_out(&why);
        }
        let Self { name, mime, file, .. } = self;
        let size = file.file_size.unwrap_or(0);
        Attachment { name, size, mime, blob: FileBytes::Remote(file.file_id) }
    }

    /// Why the file can never be fetched, as far as that is known beforehand.
    fn beyond_bounds(&self) -> Option<String> {
        if self.file.file_id.len() > FILE_ID_BYTES_MAX {
            return Some("the server gave it an id that is too long".to_owned());
        }
        self.file.file_size.filter(|size| *size > FETCH_BYTES_MAX).map(|_| too_large())
    }

    /// Fetches and stores the file. If that fails, the attachment gets the reason, and the message is received anyway.
    pub(super) async fn fetched(self, api: &Api, intake: &dyn Ingress, places: &Semaphore) -> Attachment {
        if let Some(why) = self.beyond_bounds() {
            return self.left_out(&why);
        }
        // Messages to the bot do not wait until there is room for a file or until the connection is better.
        match kept(&self.file.file_id, api, intake, places).await.flatten() {
            Ok((blob, size)) => Attachment { name: self.name, size, mime: self.mime, blob: FileBytes::Stored(blob) },
            Err(why) => self.left_out(&why),
        }
    }
}

/// The id and size of a stored file, or why it can never be stored.
type StoredFile = Result<(BlobId, u64), String>;

/// Fetches and stores a file. The outer error says why it is not possible now.
pub(super) async fn kept(id: &str, api: &Api, intake: &dyn Ingress, places: &Semaphore) -> Result<StoredFile, String> {
    // The semaphore is never closed.
    let _place = places.acquire().await.map_err(|error| error.to_string())?;
    let bytes = match fetch(id, api).await {
        Ok(bytes) => bytes,
        Err(final_one @ (Failure::Refused { .. } | Failure::TooLarge)) => return Ok(Err(final_one.to_string())),
        Err(failure) => return Err(failure.to_string()),
    };
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let kept = intake.keep(bytes).await.map_err(|no_room| no_room.to_string())?;
    Ok(kept.map(|blob| (blob, size)))
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
