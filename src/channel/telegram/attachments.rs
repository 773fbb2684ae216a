//! Files that come with messages: which there are, what they are called, and how they get into the store of files.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::super::attachments::Names;
use super::super::intake::Intake;
use super::api::{Api, FETCH_BYTES_MAX, Failure, too_large};
use super::wire::{File, Message};
use crate::model::content::{Attachment, BlobId};

/// Files whose bytes are in memory at once, of all chats.
pub(super) const AT_ONCE: usize = 2;
/// Pauses between the tries to fetch a file.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];

/// A file of a message.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// What the platform takes it for: `photo`, `voice`, `document` …
    pub(super) kind: &'static str,
    /// A safe name, different from those of the message's other files.
    pub(super) name: String,
    mime: Option<String>,
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
    let mut names = Names::new(message.said());
    let found = all.into_iter().filter_map(|(kind, file)| Some((kind, file?)));
    let found = found.map(|(kind, file)| {
        let mime = mime(kind, file);
        let name = names.take(file.file_name.as_deref(), mime.as_deref(), Some(kind));
        Found { kind, name, mime, file: file.clone() }
    });
    found.collect()
}

/// What Telegram says of the file, else what all files of its kind are.
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

impl Found {
    /// What the payload says of it.
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

    /// The file, if it is not fetched.
    pub(super) fn left_out(&self, why: &str) -> Attachment {
        let size = self.file.file_size.unwrap_or(0);
        Attachment { name: self.name.clone(), size, mime: self.mime.clone(), blob: Err(why.to_owned()) }
    }

    /// Fetches the file and hands it over. One that cannot be had says why; the message is taken all the same.
    pub(super) async fn fetched(self, api: &Api, intake: &dyn Intake, places: &Semaphore) -> Attachment {
        let told = self.file.file_size;
        let (mime, name) = (self.mime, self.name);
        let too_large = told.filter(|size| *size > FETCH_BYTES_MAX).map(|_| too_large());
        let kept = match too_large {
            Some(why) => Err(why),
            None => kept(&self.file.file_id, api, intake, places).await,
        };
        let size = kept.as_ref().map_or(told.unwrap_or(0), |(_, size)| *size);
        Attachment { name, size, mime, blob: kept.map(|(blob, _)| blob) }
    }
}

async fn kept(id: &str, api: &Api, intake: &dyn Intake, places: &Semaphore) -> Result<(BlobId, u64), String> {
    // Nobody closes the semaphore.
    let _place = places.acquire().await.map_err(|error| error.to_string())?;
    let bytes = fetch(id, api).await.map_err(|failure| failure.to_string())?;
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    // What people wrote to the bot does not wait for the room of one file.
    Ok((intake.keep(bytes).await.map_err(|no_room| no_room.to_string())??, size))
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
