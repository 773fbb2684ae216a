//! The table of attachment cases with their expected results, and events with false data.

use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::channel::event;

/// 2024-01-01T18:30:00Z in milliseconds: the time of every event here.
const MS: &str = "1704133800000";

fn arrived(attachments: &Value) -> Arrived {
    let event = json!({
        "channelType": "telegram", "platformId": "123",
        "message": {
            "id": "m1", "timestamp": "2024-01-01T18:30:00Z",
            "content": {"text": "see", "n": 1, "attachments": attachments},
        },
    });
    event::read(event.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}: {attachments}"))
}

fn b64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Name, size and outcome of a file.
type File = (String, u64, Result<(), String>);

/// Entries of the stored payload, the names and outcomes of the files, and the bytes that were stored.
fn kept(attachments: &Value) -> (Value, Vec<File>, Vec<Vec<u8>>) {
    let mut bytes = Vec::new();
    let event = arrived(attachments).keep(|file| {
        bytes.push(file);
        Ok::<_, ()>(Ok(BlobId::of_digest(&[7; 32])))
    });
    let event = event.unwrap();
    let raw: Value = serde_json::from_str(event.content.raw.as_str()).unwrap();
    let files = event
        .attachments
        .into_iter()
        .map(|file| (file.name, file.size, file.blob.get().map(drop).map_err(str::to_owned)))
        .collect();
    (raw["attachments"].clone(), files, bytes)
}

/// The name that one entry with bytes gets.
fn name_of(entry: &Value) -> String {
    let mut entry = entry.clone();
    entry["data"] = b64(b"x").into();
    let (entries, files, bytes) = kept(&json!([entry]));
    assert_eq!(bytes, [b"x"], "{entry}");
    assert_eq!(entries[0]["name"], files[0].0.as_str());
    assert!(entries[0].get("data").is_none() && entries[0].get("localPath").is_none(), "{entries}");
    files[0].0.clone()
}

#[test]
fn bytes_leave_the_payload_and_everything_else_stays() {
    let (entries, files, bytes) = kept(
        &json!([{"name": "photo.png", "data": b64(b"\x89PNG"), "type": "image", "size": 99, "w": [1, {"a": "b"}]}]),
    );
    // `size` is the counted size, whatever the platform says.
    assert_eq!(entries, json!([{"name": "photo.png", "type": "image", "size": 4, "w": [1, {"a": "b"}]}]));
    assert_eq!(files, [("photo.png".to_owned(), 4, Ok(()))]);
    assert_eq!(bytes, [b"\x89PNG"]);
}

#[test]
fn names_follow_the_table() {
    let fallback = |end: &str| format!("attachment-{MS}{end}");
    let long = "n".repeat(4_096);
    for (entry, expected) in [
        (json!({"name": "photo.png"}), "photo.png".to_owned()),
        (json!({"name": "../../../../tmp/x"}), fallback("")),
        (json!({"name": "..", "mimeType": "image/png"}), fallback(".png")),
        (json!({"name": "a/b.txt", "mime": "application/pdf"}), fallback(".pdf")),
        (json!({"name": "gpj.\u{202e}exe.txt", "type": "photo"}), fallback(".jpg")),
        (json!({"name": "a/b.txt"}), fallback("")),
        (json!({"name": "windows\\path.exe"}), fallback("")),
        (json!({"name": "clean\u{0}.png"}), fallback("")),
        (json!({"name": "gpj.\u{202e}exe.txt"}), fallback("")),
        (json!({"name": ".tmp-1-x"}), fallback("")),
        (json!({"name": long}), fallback("")),
        (json!({"name": "Grüße 🙂.pdf"}), "Grüße 🙂.pdf".to_owned()),
        (json!({"mime": "image/JPEG; foo=bar"}), fallback(".jpg")),
        (json!({"mimeType": "image/JPEG; foo=bar"}), fallback(".jpg")),
        (json!({"type": "PHOTO"}), fallback(".jpg")),
        (json!({"type": "sticker"}), fallback(".webp")),
        (json!({"type": "voice"}), fallback(".ogg")),
        (json!({"type": "animation"}), fallback(".mp4")),
        (json!({"mime": "application/octet-stream"}), fallback("")),
        (json!({"name": "", "mime": "application/pdf"}), fallback(".pdf")),
        (json!({"name": 42, "mime": "application/pdf"}), fallback(".pdf")),
        (json!({"name": "photo.jpg", "mime": "application/pdf"}), "photo.jpg".to_owned()),
        (json!({"mime": "  Application/PDF  "}), fallback(".pdf")),
        (json!({"mime": "text/plain; charset=utf-8"}), fallback(".txt")),
        (json!({"mime": ""}), fallback("")),
        (json!({"mime": {}}), fallback("")),
        (json!({"mime": null}), fallback("")),
        (json!({"mime": 42}), fallback("")),
        (json!({"mime": {"foo": "bar"}}), fallback("")),
        (json!({}), fallback("")),
    ] {
        assert_eq!(name_of(&entry), expected, "{entry}");
    }
    for (mime, extension) in MIME_EXTENSIONS {
        assert_eq!(name_of(&json!({ "mimeType": mime })), fallback(&format!(".{extension}")));
    }
    for (kind, extension) in KIND_EXTENSIONS {
        assert_eq!(name_of(&json!({ "type": kind })), fallback(&format!(".{extension}")));
    }
    let untimed = Names::new(None).take(None, Some("image/png"), None);
    assert_eq!(untimed, "attachment.png", "there is no clock here: a time that nobody gave is left out");
}

/// The table skips the second of two files with the same name and keeps its bytes inline: here it gets another name.
#[test]
fn the_second_of_a_name_is_not_lost() {
    let data = |text: &str| b64(text.as_bytes());
    let (entries, files, bytes) = kept(&json!([
        {"name": "a.png", "data": data("1")}, {"name": "A.PNG", "data": data("2")}, {"name": "a-2.png", "url": "u"},
        {"name": "a.png", "data": data("3")}, {"name": ".hidden", "data": data("4")}, {"name": ".hidden", "data": data("5")},
        {"name": format!("{}.txt", "é".repeat(98)), "data": data("6")},
        {"name": format!("{}.txt", "é".repeat(98)), "data": data("7")},
    ]));
    let names: Vec<&str> = files.iter().map(|(name, ..)| name.as_str()).collect();
    let long = "é".repeat(98);
    let shorter = "é".repeat(97);
    let expected =
        ["a.png", "A-2.PNG", "a-3.png", ".hidden", ".hidden-2", &format!("{long}.txt"), &format!("{shorter}-2.txt")];
    assert_eq!(names, expected);
    assert_eq!(bytes.concat(), b"1234567");
    assert_eq!(entries[2], json!({"name": "a-2-2.png", "url": "u"}), "also what has no bytes has its own name");
}

#[test]
fn payloads_without_bytes_stay_as_they_came() {
    for attachments in [
        json!("not a list"),
        json!({"data": "eA=="}),
        json!(null),
        json!([]),
        json!([1, "data", null, ["data"]]),
        json!([{"name": "a.png", "url": "https://x/y"}]),
        json!([{"data": 5}, {"data": null}, {"data": {"a": 1}}]),
        json!([{"name": 5}, {"name": ""}]),
    ] {
        let event = arrived(&attachments).without_files();
        let raw = event.content.raw.as_str();
        assert_eq!(serde_json::from_str::<Value>(raw).unwrap()["attachments"], attachments);
        assert!(raw.contains(&format!(r#""attachments":{attachments}"#)), "{raw}");
        assert_eq!(event.attachments, []);
    }
}

#[test]
fn nobody_outside_says_where_a_file_lies() {
    let (entries, files, _) = kept(&json!([
        {"name": "passwd", "localPath": "../../../etc/passwd"},
        {"localPath": "x", "type": "image"},
        {"name": "../x", "url": "u"},
    ]));
    assert_eq!(
        entries,
        json!([{"name": "passwd"}, {"type": "image"}, {"name": format!("attachment-{MS}"), "url": "u"}])
    );
    assert_eq!(files, []);
}

/// Invalid bytes: the message is accepted, and its entry stays and says why.
#[test]
fn what_cannot_be_had_says_why() {
    for (data, expected) in [
        ("!!!", "its data is not base64"),
        ("data:image/png;base64,eA==", "its data is not base64"),
        ("e", "its data is not base64"),
    ] {
        let (entries, files, bytes) = kept(&json!([{"name": "a", "data": data}]));
        assert_eq!(files, [("a".to_owned(), 0, Err(expected.to_owned()))], "{data}");
        assert_eq!((entries, bytes.len()), (json!([{"name": "a", "size": 0}]), 0));
    }
    let many = vec![json!({"name": "a", "data": "eA=="}); 40];
    let (entries, files, bytes) = kept(&many.into());
    assert_eq!((entries.as_array().unwrap().len(), files.len(), bytes.len()), (40, 40, 32));
    let reason = "a message can have 32 files with it, this one has more";
    assert_eq!(files[32].2.as_ref().unwrap_err(), reason);
    let refused = arrived(&json!([{"name": "a", "data": "eA=="}])).keep(|_| Ok::<_, ()>(Err("no".to_owned()))).unwrap();
    assert_eq!(refused.attachments[0].blob, FileBytes::Missing("no".to_owned()));
    assert_eq!(arrived(&json!([{"data": "eA=="}])).keep(|_| Err(5)).unwrap_err(), 5);
}

#[test]
fn base64_as_platforms_write_it() {
    for (data, expected) in [
        ("", &b""[..]),
        ("eA==", b"x"),
        ("eA", b"x"),
        ("_-8=", b"\xff\xef"),
        ("/+8", b"\xff\xef"),
        ("aGVs\r\nbG8=\r\n", b"hello"),
    ] {
        let (_, files, bytes) = kept(&json!([{"name": "a", "data": data}]));
        assert_eq!((files[0].2.clone(), bytes.concat().as_slice()), (Ok(()), expected), "{data:?}");
    }
    let escaped = r#"{"attachments":[{"name":"a","data":"\/+8\u003d"}]}"#;
    assert_eq!(take_out(escaped, None).files, [(0, b"\xff\xef".to_vec())]);
}

/// Bytes under a repeated key, or in a payload within a string, are also removed.
#[test]
fn no_spelling_keeps_bytes_inline() {
    let twice =
        format!(r#"{{"attachments":[{{"data":"{0}"}}],"attachments":[{{"data":"{0}","data":"eA=="}}]}}"#, "QUFB");
    let taken = take_out(&twice, None);
    assert_eq!(taken.files, [(0, b"x".to_vec())]);
    let content = taken.content.unwrap();
    assert!(!content.contains("QUFB") && !content.contains("data"), "{content}");
    let quoted = json!({"text": "a", "attachments": [{"name": "b", "data": "eA=="}]}).to_string();
    let event = json!({"channelType": "a", "platformId": "b", "message": {"content": quoted}}).to_string();
    let event = event::parse(event.as_bytes()).unwrap();
    assert_eq!(event.content.raw.as_str(), r#"{"attachments":[{"name":"b","size":1}],"text":"a"}"#);
}

#[test]
fn numbers_and_order_beside_files_stay() {
    let content = r#"{ "z": 1.50, "attachments": [{"data":"eA==","n":12345678901234567890123}], "a": 1E2 }"#;
    let taken = take_out(content, None);
    let expected = r#"{"z":1.50,"attachments":[{"n":12345678901234567890123,"name":"attachment","size":1}],"a":1E2}"#;
    assert_eq!(taken.content.as_deref(), Some(expected));
}

#[test]
fn sixteen_mebibytes_of_files_fit_and_small_values_are_bounded() {
    let file = b64(&vec![7; 4 << 20]);
    let files: Vec<Value> = (0..4).map(|n| json!({"name": format!("f{n}"), "data": file})).collect();
    let (_, files, bytes) = kept(&files.into());
    assert_eq!(files.iter().map(|(_, size, _)| size).sum::<u64>(), 16 << 20);
    assert_eq!(bytes.len(), 4);
    let event =
        |content: String| format!(r#"{{"channelType":"a","platformId":"b","message":{{"content":{content}}}}}"#);
    let crumbs = event(format!(r#"{{"a":[{}1]}}"#, "1,".repeat(1 << 20)));
    let refused = event::parse(crumbs.as_bytes()).unwrap_err().to_string();
    assert!(refused.starts_with("the event without its files is too large"), "{refused}");
    let hidden = event(serde_json::to_string(&format!(r#"{{"a":[{}1]}}"#, "1,".repeat(1 << 20))).unwrap());
    let refused = event::parse(hidden.as_bytes()).unwrap_err().to_string();
    assert!(refused.starts_with("message.content is too large"), "{refused}");
    let long = event(json!({"text": "x".repeat(600_000), "attachments": [{"data": "eA=="}]}).to_string());
    assert!(event::parse(long.as_bytes()).unwrap_err().to_string().contains("at most 524288"));
}

/// Stores files as adapters do: keeps the first one, and has no space for the others.
struct Full(std::sync::atomic::AtomicUsize);

impl Ingress for Full {
    fn inbound(
        &self,
        _: InboundEvent,
    ) -> crate::channel::intake::Pending<'_, Result<crate::model::report::RouteReport, crate::channel::intake::NotTaken>>
    {
        unreachable!()
    }

    fn rehearsed(
        &self,
        _: InboundEvent,
    ) -> crate::channel::intake::Pending<'_, Result<crate::model::report::RouteReport, crate::channel::intake::NotTaken>>
    {
        unreachable!()
    }

    fn pressed(
        &self,
        _: crate::model::input::Press,
    ) -> crate::channel::intake::Pending<'_, Result<crate::channel::intake::Pressed, crate::channel::intake::NotTaken>>
    {
        unreachable!()
    }

    fn keep(
        &self,
        bytes: Vec<u8>,
    ) -> crate::channel::intake::Pending<'_, Result<Result<BlobId, String>, crate::channel::intake::NotTaken>> {
        let first = self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
        assert_eq!(bytes, b"x");
        Box::pin(async move { Ok(if first { Ok(BlobId::of_digest(&[1; 32])) } else { Err("too large".to_owned()) }) })
    }

    fn fetched(
        &self,
        _: crate::model::id::BodyId,
        _: Vec<Attachment>,
    ) -> crate::channel::intake::Pending<'_, Result<(), crate::channel::intake::NotTaken>> {
        panic!("nothing has to be fetched")
    }

    fn outcome(
        &self,
        _: crate::model::id::OutboundId,
        _: crate::model::delivery::Attempt,
        _: crate::model::delivery::DeliveryResult,
    ) {
    }

    fn direct_opened(&self, _: crate::model::UserId, _: Result<crate::model::ForeignId, String>) {}

    fn reachable(&self) {}
}

#[test]
fn adapters_put_files_where_they_hand_messages_over() {
    let arrived =
        arrived(&json!([{"name": "a", "data": "eA=="}, {"name": "b", "data": "!"}, {"name": "c", "data": "eA"}]));
    let intake = Full(std::sync::atomic::AtomicUsize::new(0));
    let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let event = tokio.block_on(arrived.keep_in(&intake)).unwrap();
    let fates: Vec<FileBytes> = event.attachments.into_iter().map(|file| file.blob).collect();
    let expected =
        [Ok(BlobId::of_digest(&[1; 32])), Err("its data is not base64".to_owned()), Err("too large".to_owned())];
    assert_eq!(fates, expected.map(FileBytes::from));
}

/// As many files as fit into an event. An earlier version searched the number of each from the beginning.
#[test]
fn thousands_of_files_of_one_name_are_no_more_work_than_others() {
    let mut names = Names::new(None);
    let long = "x".repeat(240);
    let mut last = String::new();
    for number in 0..40_000 {
        last = names.take(Some("a.png"), None, None);
        names.take(Some(&format!("{long}{:06}", number / 2)), None, None);
    }
    assert_eq!(last, "a-40000.png");
}

proptest! {
    /// Arbitrary names of files.
    #[test]
    fn names_are_safe_and_differ(
        names in proptest::collection::vec(proptest::option::of("(\\PC{0,90}|.{0,220}|[aA]{1,2}(\\.[bB])?)"), 0..40),
    ) {
        let mut given = Names::new(Some(Timestamp::from_millis(5)));
        let mut known = BTreeSet::new();
        for name in names {
            let taken = given.take(name.as_deref(), None, None);
            prop_assert!(hearth_wire::is_safe_file_name(&taken), "{taken:?}");
            prop_assert!(known.insert(taken.to_lowercase()), "{taken:?} is there twice");
        }
    }

    /// Whatever an entry is, its bytes are removed, and the result is JSON.
    #[test]
    fn no_bytes_stay_whatever_surrounds_them(
        entry in r#"("[a-z]{0,4}":("[a-zA-Z+/=\\n]{0,12}"|[0-9]{1,3}|null|\{\}|\["data"\]),){0,3}"#, data in "[A-Za-z0-9+/=]{20,60}",
    ) {
        let content = format!(r#"{{"attachments":[{{{entry}"data":"{data}"}}]}}"#);
        let taken = take_out(&content, None);
        if serde_json::from_str::<Value>(&content).is_ok() {
            let stored = taken.content.unwrap();
            prop_assert!(serde_json::from_str::<Value>(&stored).is_ok(), "{stored}");
            prop_assert!(!stored.contains(&data), "{stored}");
        }
    }
}
