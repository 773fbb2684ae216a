//! Images of messages as the model sees them. A file that the API could refuse stays a file only: the conversation
//! keeps its images, so a bad one would fail every later turn.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hearth_wire::{FILES_DIR, HOST_DIR, IN_DIR, InMessage};
use serde_json::Value;

use crate::turn::Turn;

/// Maximum bytes of an image. In base64 they are the 5 MB that the API accepts.
const BYTES_MAX: u64 = 3_750_000;
/// Maximum bytes of all images of a turn: a request has at most 32 MB.
const TOGETHER_MAX: usize = 15_000_000;
/// Maximum number of images of a turn.
const COUNT_MAX: usize = 10;
/// Maximum pixels of a side. The API's limit for a conversation of more than 20 images.
const SIDE_MAX: u32 = 2_000;

/// An image that a model can see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    /// Its media type.
    pub(crate) kind: &'static str,
    /// Its bytes in base64.
    pub(crate) data: String,
}

/// The images of a turn's messages, in order: the newest ones, if there are too many.
pub(crate) fn of(root: &Path, turn: &Turn) -> Vec<Image> {
    let mut messages: Vec<&InMessage> = turn.background.iter().chain(&turn.asked).collect();
    messages.sort_by_key(|message| std::cmp::Reverse(message.seq));
    let (mut images, mut together) = (Vec::new(), 0);
    for path in messages.into_iter().flat_map(|message| paths(message).into_iter().rev()) {
        let Some((kind, bytes)) = read(&root.join(path)) else { continue };
        together += bytes.len();
        if together > TOGETHER_MAX || images.len() == COUNT_MAX {
            break;
        }
        images.push(Image { kind, data: STANDARD.encode(bytes) });
    }
    images.reverse();
    images
}

/// The host's files that came with a message.
fn paths(message: &InMessage) -> Vec<&str> {
    let entries = message.content.get("attachments").and_then(Value::as_array).into_iter().flatten();
    let paths = entries.filter_map(|entry| entry.get("localPath")?.as_str());
    let place = [HOST_DIR, IN_DIR, FILES_DIR].map(|part| format!("{part}/")).concat();
    paths.filter(|path| path.starts_with(&place) && !path.contains("..")).collect()
}

/// The type and the bytes of a file, if it is an image that the model can see.
fn read(path: &Path) -> Option<(&'static str, Vec<u8>)> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    let whole = bytes.len() as u64 <= BYTES_MAX;
    let (kind, sides) = whole.then(|| kind_of(&bytes)).flatten()?;
    sides.iter().all(|side| (1..=SIDE_MAX).contains(side)).then_some((kind, bytes))
}

/// The type and the sides of a complete image, by its content.
fn kind_of(bytes: &[u8]) -> Option<(&'static str, [u32; 2])> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        let ends = bytes.ends_with(b"IEND\xaeB`\x82");
        return ends.then_some(("image/png", [number(bytes.get(16..20)?), number(bytes.get(20..24)?)]));
    }
    if bytes.starts_with(b"\xff\xd8\xff") {
        let ends = bytes.ends_with(b"\xff\xd9");
        return jpeg_sides(bytes).filter(|_| ends).map(|sides| ("image/jpeg", sides));
    }
    if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        let sides = [little(bytes.get(6..8)?), little(bytes.get(8..10)?)];
        return bytes.ends_with(b";").then_some(("image/gif", sides));
    }
    let rest = bytes.strip_prefix(b"RIFF")?;
    let size = little(rest.get(..4)?) as usize;
    let whole = rest.get(4..8)? == b"WEBP" && rest.len() - 4 == size;
    webp_sides(rest.get(8..)?).filter(|_| whole).map(|sides| ("image/webp", sides))
}

/// Walks over the segments to the one that starts the picture.
fn jpeg_sides(bytes: &[u8]) -> Option<[u32; 2]> {
    let mut rest = bytes.get(2..)?;
    loop {
        let [0xff, marker, ..] = rest else { return None };
        let length = number(rest.get(2..4)?) as usize;
        let starts = (0xc0..=0xcf).contains(marker) && ![0xc4, 0xc8, 0xcc].contains(marker);
        if starts {
            return Some([number(rest.get(7..9)?), number(rest.get(5..7)?)]);
        }
        rest = rest.get(2 + length.max(2)..)?;
    }
}

/// The sides in the first chunk.
fn webp_sides(chunk: &[u8]) -> Option<[u32; 2]> {
    let data = chunk.get(8..)?;
    match chunk.get(..4)? {
        b"VP8X" => Some([little(data.get(4..7)?) + 1, little(data.get(7..10)?) + 1]),
        b"VP8L" => {
            let bits = little(data.get(1..5)?);
            Some([(bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1])
        }
        b"VP8 " => Some([little(data.get(6..8)?) & 0x3fff, little(data.get(8..10)?) & 0x3fff]),
        _ => None,
    }
}

/// A number with its most significant byte first.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| (number << 8) | u32::from(*byte))
}

/// A number with its least significant byte first.
fn little(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, byte| (number << 8) | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\x07\xd0\x08\x06\0\0\0....\0\0\0\0IEND\xaeB`\x82";
    const JPEG: &[u8] =
        b"\xff\xd8\xff\xe0\0\x04ab\xff\xc4\0\x02\xff\xc0\0\x0b\x08\0\x03\0\x02\x01\x01\x11\0....\xff\xd9";
    const GIF: &[u8] = b"GIF89a\x02\0\x03\0....;";
    const LOSSLESS: &[u8] = b"RIFF\x11\0\0\0WEBPVP8L\x05\0\0\0\x2f\x01\x80\0\0";
    const LOSSY: &[u8] = b"RIFF\x16\0\0\0WEBPVP8 \x0a\0\0\0...\x9d\x01\x2a\x02\0\x03\0";
    const EXTENDED: &[u8] = b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0....\x01\0\0\x02\0\0";

    #[test]
    fn images_are_known_by_their_content() {
        for (bytes, kind, sides) in [
            (PNG, "image/png", [2, 2_000]),
            (JPEG, "image/jpeg", [2, 3]),
            (GIF, "image/gif", [2, 3]),
            (LOSSLESS, "image/webp", [2, 3]),
            (LOSSY, "image/webp", [2, 3]),
            (EXTENDED, "image/webp", [2, 3]),
        ] {
            assert_eq!(kind_of(bytes), Some((kind, sides)));
            for cut in 0..bytes.len() {
                assert_eq!(kind_of(&bytes[..cut]), None, "{kind} without its end, at {cut}");
            }
        }
        for bytes in [&b"%PDF-1.7"[..], b"<svg/>", b"BM......", b"\xff\xd8\xff\xff\xff\xff\xff\xd9", b""] {
            assert_eq!(kind_of(bytes), None);
        }
    }

    fn turn(files: &[(u64, &str)]) -> Turn {
        let message = |(seq, path): &(u64, &str)| InMessage {
            v: 1,
            seq: *seq,
            id: format!("ms{seq}"),
            kind: "chat".to_owned(),
            trigger: true,
            timestamp: String::new(),
            unknown_sender: false,
            reply: None,
            content: json!({"attachments": [{"name": "a", "localPath": path}, {"name": "b"}, 7]}),
        };
        let context = serde_json::from_str(include_str!("../../wire/fixtures/context.json")).unwrap();
        Turn::compose(Path::new("/s"), context, files.iter().map(message).collect())
    }

    #[test]
    fn the_model_sees_the_newest_images_that_the_api_takes() {
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str, bytes: &[u8]| {
            let path = format!("host/in/files/{name}");
            std::fs::create_dir_all(root.path().join("host/in/files")).unwrap();
            std::fs::write(root.path().join(&path), bytes).unwrap();
            path
        };
        let tall = [&PNG[..20], b"\0\0\x07\xd1", &PNG[24..]].concat();
        let large = [&PNG[..40], &vec![0; 3_750_000][..], &PNG[PNG.len() - 8..]].concat();
        let paths = [
            place("good", GIF),
            place("tall", &tall),
            place("large", &large),
            place("text", b"words"),
            "host/in/files/gone".to_owned(),
            "host/in/files/../files/good".to_owned(),
            "agent/good".to_owned(),
        ];
        let files: Vec<(u64, &str)> = (1..).zip(paths.iter().map(String::as_str)).collect();
        let seen = of(root.path(), &turn(&files));
        assert_eq!(seen, [Image { kind: "image/gif", data: STANDARD.encode(GIF) }]);
        let many: Vec<String> = (0..12_u8).map(|n| place(&n.to_string(), &[&GIF[..10], &[n], b";"].concat())).collect();
        let files: Vec<(u64, &str)> = (1..).zip(many.iter().map(String::as_str)).collect();
        let seen = of(root.path(), &turn(&files));
        assert_eq!(seen.len(), COUNT_MAX);
        let last = STANDARD.encode([&GIF[..10], &[11], b";"].concat());
        assert_eq!(seen.last().unwrap().data, last, "in the order of their messages");
    }
}
