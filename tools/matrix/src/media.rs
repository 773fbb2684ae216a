//! Files: addresses of the server's media, and kinds of messages for them.

use std::path::Path;

use hearth_bridge::program::settings::part;
use serde_json::Value;

use crate::api::{Api, Trouble};
use crate::crypto::open_file;

/// A file on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Media {
    server: String,
    id: String,
    /// The key of an encrypted one, as its message tells it.
    key: Option<Value>,
}

impl Media {
    /// Reads an address `mxc://server/id`. Both parts go into the path of a request.
    pub(crate) fn read(address: &str) -> Option<Self> {
        let (server, id) = address.strip_prefix("mxc://")?.split_once('/')?;
        let is_id = |char: char| char.is_ascii_alphanumeric() || "-_".contains(char);
        let is_server = |char: char| char.is_ascii_alphanumeric() || ".-:[]".contains(char);
        let is =
            |text: &str, fine: &dyn Fn(char) -> bool| !text.is_empty() && text.len() <= 255 && text.chars().all(fine);
        (is(server, &is_server) && is(id, &is_id)).then(|| Self {
            server: server.to_owned(),
            id: id.to_owned(),
            key: None,
        })
    }

    /// Reads what a message tells of an encrypted file.
    pub(crate) fn sealed(told: &Value) -> Option<Self> {
        let media = Self::read(told.get("url")?.as_str()?)?;
        Some(Self { key: Some(told.clone()), ..media })
    }

    /// Decrypts a file that was fetched, if it is encrypted.
    pub(crate) fn open(&self, path: &Path) -> Result<(), String> {
        let Some(key) = &self.key else { return Ok(()) };
        let sealed = path.with_extension("sealed");
        let opened = std::fs::rename(path, &sealed).and_then(|()| open_file(&sealed, path, key));
        drop(std::fs::remove_file(&sealed));
        opened.map_err(|error| format!("it cannot be decrypted: {error}"))
    }

    /// Writes the file; `Ok(false)` if it is too large.
    pub(crate) fn fetch(&self, api: &Api, to: &Path, bytes_max: u64) -> Result<bool, Trouble> {
        let place = format!("{}/{}", part(&self.server), part(&self.id));
        match api.get_file(&format!("client/v1/media/download/{place}"), to, bytes_max) {
            // Servers before version 1.11.
            Err(Trouble::Refused { status: 404 | 405, code, .. }) if code == "M_UNRECOGNIZED" => {
                api.get_file(&format!("media/v3/download/{place}"), to, bytes_max)
            }
            other => other,
        }
    }
}

/// Sends a file to the server; its address. An encrypted one has no name there.
pub(crate) fn upload(api: &Api, file: &Path, name: Option<&str>) -> Result<String, Trouble> {
    let open = std::fs::File::open(file).map_err(|error| refused(format!("it cannot be read: {error}")))?;
    let (named, mime) = match name {
        Some(name) => (format!("?filename={}", part(name)), mime(name)),
        None => (String::new(), mime("")),
    };
    let answer = api.post_file(&format!("media/v3/upload{named}"), open, mime)?;
    let address = answer.get("content_uri").and_then(Value::as_str).filter(|address| Media::read(address).is_some());
    address.map(str::to_owned).ok_or_else(|| refused("the server gave it no address".to_owned()))
}

fn refused(why: String) -> Trouble {
    Trouble::Refused { status: 0, code: String::new(), why }
}

/// The largest file that the server takes.
pub(crate) fn upload_max(api: &Api) -> Result<Option<u64>, Trouble> {
    let size = |answer: Value| answer.get("m.upload.size").and_then(Value::as_u64);
    match api.get("client/v1/media/config") {
        Err(Trouble::Refused { status: 404 | 405, .. }) => api.get("media/v3/config").map(size),
        other => other.map(size),
    }
}

/// The media type of a file by its name.
pub(crate) fn mime(name: &str) -> &'static str {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).unwrap_or_default();
    match extension.as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "mp3" => "audio/mpeg",
        "ogg" | "oga" | "opus" => "audio/ogg",
        "wav" => "audio/wav",
        "m4a" => "audio/mp4",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        "pdf" => "application/pdf",
        "json" => "application/json",
        "csv" => "text/csv",
        "txt" | "md" | "log" => "text/plain",
        _ => "application/octet-stream",
    }
}

/// The kind of message for a file of a media type.
pub(crate) fn msgtype(mime: &str) -> &'static str {
    match mime.split_once('/').map_or(mime, |(kind, _)| kind) {
        "image" => "m.image",
        "audio" => "m.audio",
        "video" => "m.video",
        _ => "m.file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_files_are_nothing_else() {
        assert!(Media::read("mxc://x.test:8448/AbC-_1").is_some());
        for text in [
            "",
            "mxc://",
            "mxc://x",
            "mxc:///a",
            "mxc://x/",
            "mxc://x/a/b",
            "mxc://x/../a",
            "mxc://x/a?b",
            "https://x/a",
            "mxc://x y/a",
            "mxc://x/a%2f",
        ] {
            assert_eq!(Media::read(text), None, "{text:?}");
        }
    }

    #[test]
    fn kinds_follow_names() {
        assert_eq!(
            ["a.PNG", "a.tar.gz", "b", "c.ogg"].map(|name| msgtype(mime(name))),
            ["m.image", "m.file", "m.file", "m.audio"]
        );
    }
}
