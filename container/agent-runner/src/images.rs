//! Images that came with messages, for models that see them. They stay named as files in the prompt.

use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hearth_wire::{HOST_DIR, InMessage};
use serde_json::Value;

/// Maximum number of images in a prompt, and the length of each in bytes. Further ones are only files.
const MOST: usize = 8;
const BYTES: u64 = 4 << 20;

/// An image that a model can see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) media_type: &'static str,
    /// Its bytes in base64.
    pub(crate) data: String,
}

/// The images among the files of messages. `session` is the directory that the host's paths begin in.
pub(crate) fn images(session: &Path, messages: &[InMessage]) -> Vec<Image> {
    let files = messages.iter().filter_map(|message| message.content.get("attachments")?.as_array()).flatten();
    let paths = files.filter_map(|file| file.get("localPath").and_then(Value::as_str));
    paths.filter_map(|path| image(session, Path::new(path))).take(MOST).collect()
}

fn image(session: &Path, path: &Path) -> Option<Image> {
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain || !path.starts_with(HOST_DIR) {
        return None;
    }
    let mut bytes = Vec::new();
    let file = File::open(session.join(path)).ok().filter(|file| file.metadata().is_ok_and(|meta| meta.is_file()))?;
    file.take(BYTES + 1).read_to_end(&mut bytes).ok().filter(|read| *read as u64 <= BYTES)?;
    Some(Image { media_type: media_type(&bytes)?, data: STANDARD.encode(&bytes) })
}

/// The type of an image by its first bytes: names and types of files come from strangers.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

    #[test]
    fn only_images_of_the_host_that_are_not_too_large_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        let files = dir.path().join("host/in/files");
        std::fs::create_dir_all(&files).unwrap();
        let mut large = PNG.to_vec();
        large.resize(usize::try_from(BYTES).unwrap() + 1, 0);
        for (name, bytes) in [("a.txt", PNG), ("b.png", b"text"), ("c.png", &large), ("d.jpg", b"\xff\xd8\xff\xe0")] {
            std::fs::write(files.join(name), bytes).unwrap();
        }
        std::fs::write(dir.path().join("secret.png"), PNG).unwrap();
        let names = ["host/in/files/a.txt", "host/in/files/b.png", "host/in/files/c.png", "host/in/files/d.jpg"];
        let others = ["host/../secret.png", "secret.png", "/etc/passwd", "host/in/files", "host/none.png"];
        let files: Vec<Value> = names.iter().chain(&others).map(|path| json!({"localPath": path})).collect();
        let mut message: InMessage = serde_json::from_value(json!({
            "v": 1, "seq": 2, "id": "ms1", "kind": "chat", "trigger": true, "timestamp": "", "content": {}}))
        .unwrap();
        message.content = json!({ "attachments": files });
        let found = images(dir.path(), &[message.clone()]);
        let types: Vec<&str> = found.iter().map(|image| image.media_type).collect();
        assert_eq!(types, ["image/png", "image/jpeg"]);
        assert_eq!(found[0].data, "iVBORw0KGgpyZXN0");
        message.content = json!({"attachments": vec![json!({"localPath": names[0]}); 20]});
        assert_eq!(images(dir.path(), &[message]).len(), MOST);
    }
}
