//! Files of a message, as a form that is sent while it is read.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::PathBuf;

use hearth_bridge::Deliver;
use hearth_bridge::program::post::Post;
use serde_json::{Value, json};

use super::rest::Trouble;
use crate::web::Content;

/// Bytes of a file that every bot may send.
const FILE_BYTES: u64 = 10 << 20;
/// Files of a message, and bytes of all of them.
const FILES: usize = 10;
const FORM_BYTES: u64 = 24 << 20;
/// Separates the parts of a form. Content that contains it is not to be expected.
const BOUNDARY: &str = "hearth-7c1f0d6a94e84b52a3";

#[derive(Debug)]
pub(crate) struct Upload {
    name: String,
    path: PathBuf,
    size: u64,
}

/// The files of a delivery that can be sent, and lines about the others.
pub(crate) fn files(deliver: &Deliver, post: &Post) -> (Vec<Upload>, Vec<String>) {
    let (mut files, mut missing) = (Vec::new(), Vec::new());
    for file in &deliver.files {
        let path = file.path.as_deref().and_then(|path| post.path(path)).filter(|_| file.error.is_none());
        let size = path.as_ref().and_then(|path| std::fs::metadata(path).ok()).map(|about| about.len());
        match (path, size) {
            (Some(path), Some(size)) if size <= FILE_BYTES => {
                files.push(Upload { name: file.name.clone(), path, size })
            }
            (Some(_), Some(size)) => {
                missing.push(format!("(file {}: it has {size} bytes, and Discord takes {FILE_BYTES})", file.name));
            }
            _ => {
                let why = file.error.clone().unwrap_or_else(|| "it is gone".to_owned());
                missing.push(format!("(file {}: {why})", file.name));
            }
        }
    }
    (files, missing)
}

/// The files in groups, each for one message.
pub(crate) fn groups(files: Vec<Upload>) -> Vec<Vec<Upload>> {
    let mut groups: Vec<Vec<Upload>> = Vec::new();
    for file in files {
        let fits = |group: &&mut Vec<Upload>| {
            group.len() < FILES && group.iter().map(|file| file.size).sum::<u64>() + file.size <= FORM_BYTES
        };
        match groups.last_mut().filter(fits) {
            Some(group) => group.push(file),
            None => groups.push(vec![file]),
        }
    }
    groups
}

/// The form with a message and its files.
pub(crate) fn content(body: &Value, files: &[Upload]) -> Result<Content<'static>, Trouble> {
    let mut body = body.clone();
    let described: Vec<Value> =
        files.iter().enumerate().map(|(id, file)| json!({ "id": id, "filename": file.name })).collect();
    if let Some(fields) = body.as_object_mut() {
        fields.insert("attachments".to_owned(), json!(described));
    }
    let text = |text: String| (text.len() as u64, Box::new(Cursor::new(text.into_bytes())) as Box<dyn Read>);
    let head = format!(
        "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"payload_json\"\r\ncontent-type: application/json\r\n\r\n{body}\r\n"
    );
    let mut parts = vec![text(head)];
    for (id, file) in files.iter().enumerate() {
        // The true name is in the description above.
        let head = format!(
            "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"files[{id}]\"; filename=\"{}\"\r\n\
             content-type: application/octet-stream\r\n\r\n",
            quoted(&file.name)
        );
        let open = File::open(&file.path).map_err(|error| Trouble::Unreachable(format!("{}: {error}", file.name)))?;
        parts.extend([
            text(head),
            (file.size, Box::new(open.take(file.size)) as Box<dyn Read>),
            text("\r\n".to_owned()),
        ]);
    }
    parts.push(text(format!("--{BOUNDARY}--\r\n")));
    let length = parts.iter().map(|(length, _)| length).sum();
    let empty = Box::new(std::io::empty()) as Box<dyn Read>;
    let from = parts.into_iter().fold(empty, |before, (_, part)| Box::new(before.chain(part)) as Box<dyn Read>);
    Ok(Content::Stream { kind: "multipart/form-data; boundary=hearth-7c1f0d6a94e84b52a3", length, from })
}

/// A name between quotation marks of a header.
fn quoted(name: &str) -> String {
    name.chars().map(|char| if char.is_control() || "\"\\".contains(char) { '_' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_the_length_that_it_says_and_names_break_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, "content").unwrap();
        let files = [Upload { name: "a\"\r\nb".to_owned(), path, size: 7 }];
        let Ok(Content::Stream { length, mut from, .. }) = content(&json!({"content": "ä"}), &files) else { panic!() };
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        assert_eq!(text.len() as u64, length);
        assert!(text.contains("filename=\"a___b\"\r\n") && text.contains("\r\n\r\ncontent\r\n--"), "{text}");
    }

    #[test]
    fn groups_fit_into_messages() {
        let file = |size| Upload { name: "a".to_owned(), path: PathBuf::new(), size };
        let sizes = |files: Vec<Upload>| groups(files).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes((0..12).map(|_| file(1)).collect()), [10, 2]);
        assert_eq!(sizes(vec![file(9 << 20), file(9 << 20), file(9 << 20)]), [2, 1]);
        assert!(groups(Vec::new()).is_empty());
    }
}
