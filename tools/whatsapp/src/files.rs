//! Files of messages, in both directions.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use hearth_bridge::{FILE_BYTES_MAX, GivenFile};
use whatsapp_rust::UploadOptions;
use whatsapp_rust::download::DownloadParams;
use whatsapp_rust::prelude::{MessageField, wa};
use whatsapp_rust::upload::UploadResponse;
use whatsapp_rust::wacore::download::MediaType;

use crate::session::Session;
use crate::written::{Attached, Kind, Written};

/// Time for a file.
const WITHIN: Duration = Duration::from_secs(120);
/// Largest picture, and largest sound or video, that is sent as one. Others are documents.
const PICTURE_BYTES: u64 = 5 << 20;
const MEDIA_BYTES: u64 = 16 << 20;

impl Kind {
    const fn media(self) -> MediaType {
        match self {
            Self::Image => MediaType::Image,
            Self::Video => MediaType::Video,
            Self::Audio => MediaType::Audio,
            Self::Document => MediaType::Document,
            Self::Sticker => MediaType::Sticker,
        }
    }
}

/// Where files of people go.
#[derive(Clone, Copy)]
pub(crate) struct To<'a> {
    pub(crate) directory: &'a Path,
    /// The daemon's limit for a file, in bytes.
    pub(crate) max: u64,
}

/// Hands over the files of a message, if they are wanted. `number` is one that no other message has.
pub(crate) fn fetch(session: &Session, written: &Written, number: u64, to: Option<To<'_>>) -> Vec<GivenFile> {
    let one = |place: usize, file: &Attached| {
        let to = to.ok_or("it was not fetched")?;
        let name = format!("in-{number}-{place}");
        download(session, file, &to.directory.join(&name), to.max)?;
        Ok::<_, String>(name)
    };
    let given = |(place, file): (usize, &Attached)| {
        let (path, error) = match one(place, file) {
            Ok(name) => (Some(name), None),
            Err(why) => (None, Some(why)),
        };
        GivenFile { name: file.name.clone(), mime: file.mime.clone(), path, error }
    };
    written.files.iter().enumerate().map(given).collect()
}

fn download(session: &Session, file: &Attached, to: &Path, max: u64) -> Result<(), String> {
    if file.size > max {
        return Err(format!("it is larger than {max} bytes"));
    }
    // Its sender chose it, and it follows the name of a host.
    if !file.path.starts_with('/') || !file.path.bytes().all(|byte| byte.is_ascii_graphic()) || file.key.len() != 32 {
        return Err("WhatsApp does not say where it is".to_owned());
    }
    let (path, size, kind) = (file.path.as_str(), file.size, file.kind.media());
    let wanted = DownloadParams::encrypted(path, &file.key, &file.digest, &file.encrypted_digest, size, kind);
    let found = session.wait(WITHIN, session.client.download_from_params(&wanted));
    let bytes = found.ok_or("it could not be fetched in time")?.map_err(|error| format!("{error:#}"))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > max {
        return Err(format!("it is larger than {max} bytes"));
    }
    // A file of an earlier attempt.
    drop(std::fs::remove_file(to));
    File::create_new(to).and_then(|mut file| file.write_all(&bytes)).map_err(|error| error.to_string())
}

/// Uploads a file: the message that shows it.
pub(crate) fn upload(session: &Session, path: &Path, name: &str) -> Result<wa::Message, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if size > FILE_BYTES_MAX {
        return Err(format!("it is larger than {FILE_BYTES_MAX} bytes"));
    }
    let (kind, mime) = kind(name, size);
    let uploaded = session.wait(WITHIN, session.client.upload(bytes, kind.media(), UploadOptions::new()));
    let uploaded = uploaded.ok_or("it could not be uploaded in time")?.map_err(|error| format!("{error:#}"))?;
    Ok(message(uploaded, kind, mime, name))
}

/// How a file is shown, by the end of its name.
fn kind(name: &str, size: u64) -> (Kind, &'static str) {
    let end = name.rsplit_once('.').map_or(String::new(), |(_, end)| end.to_ascii_lowercase());
    let (kind, mime) = match end.as_str() {
        "jpg" | "jpeg" => (Kind::Image, "image/jpeg"),
        "png" => (Kind::Image, "image/png"),
        "mp4" => (Kind::Video, "video/mp4"),
        "mp3" => (Kind::Audio, "audio/mpeg"),
        "m4a" => (Kind::Audio, "audio/mp4"),
        "ogg" | "opus" => (Kind::Audio, "audio/ogg; codecs=opus"),
        "pdf" => (Kind::Document, "application/pdf"),
        "txt" | "md" | "log" | "csv" => (Kind::Document, "text/plain"),
        _ => (Kind::Document, "application/octet-stream"),
    };
    let most = if kind == Kind::Image { PICTURE_BYTES } else { MEDIA_BYTES };
    if size > most { (Kind::Document, mime) } else { (kind, mime) }
}

fn message(uploaded: UploadResponse, kind: Kind, mime: &str, name: &str) -> wa::Message {
    macro_rules! part {
        ($part:ident { $($field:ident: $value:expr),* }) => {
            MessageField::some(wa::message::$part {
                url: Some(uploaded.url),
                direct_path: Some(uploaded.direct_path),
                mimetype: Some(mime.to_owned()),
                media_key: Some(uploaded.media_key.to_vec()),
                media_key_timestamp: Some(uploaded.media_key_timestamp),
                file_sha256: Some(uploaded.file_sha256.to_vec()),
                file_enc_sha256: Some(uploaded.file_enc_sha256.to_vec()),
                file_length: Some(uploaded.file_length),
                $($field: $value,)*
                ..Default::default()
            })
        };
    }
    let mut message = wa::Message::default();
    match kind {
        Kind::Image => message.image_message = part!(ImageMessage {}),
        Kind::Video => message.video_message = part!(VideoMessage { streaming_sidecar: uploaded.streaming_sidecar }),
        Kind::Audio => message.audio_message = part!(AudioMessage { streaming_sidecar: uploaded.streaming_sidecar }),
        Kind::Document | Kind::Sticker => {
            message.document_message =
                part!(DocumentMessage { file_name: Some(name.to_owned()), title: Some(name.to_owned()) });
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_shown_by_what_they_are_unless_they_are_large() {
        assert_eq!(kind("a.JPG", 10), (Kind::Image, "image/jpeg"));
        assert_eq!(kind("a.jpg", PICTURE_BYTES + 1), (Kind::Document, "image/jpeg"));
        assert_eq!(kind("a.mp4", PICTURE_BYTES + 1), (Kind::Video, "video/mp4"));
        assert_eq!(kind("jpg", 10), (Kind::Document, "application/octet-stream"));
    }
}
