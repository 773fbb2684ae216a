//! The store of files, files that come with messages, and files that agents send.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::export::{exact, export_of, message};
use super::{Place, SESSION, names, said_with};
use crate::mailbox::{Error, SHARDS};
use crate::model::content::{Attachment, BlobId, FileBytes, RawJson};
use crate::model::effect::{Discard, Export, ExportedFiles, ExportedMessage};
use crate::model::id::SessionId;
use crate::model::time::Timestamp;

/// Puts something hostile at a path. The second path is a secret file.
type StoreTrick = fn(&PathBuf, &PathBuf);
/// The same in a mailbox.
type MailboxTrick = fn(&Place, &PathBuf);

const SEQ: &str = "0000000000000004";

fn sha256(text: &[u8]) -> BlobId {
    use sha2::Digest as _;
    BlobId::of_digest(&sha2::Sha256::digest(text).into())
}

fn in_store(place: &Place, blob: &BlobId) -> PathBuf {
    place.root.path().join("files").join(&blob.as_str()[..2]).join(blob.as_str())
}

fn attachment(name: &str, bytes: &[u8], place: &Place) -> Attachment {
    let blob = FileBytes::Stored(place.blobs.put(bytes).unwrap());
    Attachment { name: name.to_owned(), size: bytes.len() as u64, mime: Some("image/png".to_owned()), blob }
}

fn with_files(content: &Value, attachments: Vec<Attachment>) -> ExportedMessage {
    ExportedMessage { content: RawJson::trusted(content.to_string()), attachments, ..message(4) }
}

fn exported(place: &Place) -> Value {
    serde_json::from_slice(&fs::read(place.host(&format!("in/{SEQ}.json"))).unwrap()).unwrap()
}

fn old() -> Timestamp {
    Timestamp::from_millis(4_000_000_000_000)
}

#[test]
fn the_same_bytes_are_one_file() {
    let place = Place::new();
    let blob = place.blobs.put(b"hello").unwrap();
    assert_eq!(blob, sha256(b"hello"));
    assert_eq!(place.blobs.put(b"hello").unwrap(), blob);
    let path = in_store(&place, &blob);
    assert_eq!(fs::read(&path).unwrap(), b"hello");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (_, size) = place.blobs.read(&blob).unwrap().unwrap();
    assert_eq!(size, 5);
    let empty = place.blobs.put(b"").unwrap();
    assert_eq!(place.blobs.read(&empty).unwrap().unwrap().1, 0);
    assert!(place.blobs.read(&sha256(b"nobody put this")).unwrap().is_none());
    assert_eq!(names(path.parent().unwrap()), [blob.as_str()], "nothing temporary stays");
}

/// Anything in the place of a file is replaced, and nothing that it leads to is changed.
#[test]
fn tricks_in_the_store_of_files_are_replaced() {
    let secret = |place: &Place| place.outside().join("secret.json");
    let tricks: [(&str, StoreTrick); 4] = [
        ("a link", |path, secret| symlink(secret, path).unwrap()),
        ("a hard link", |path, secret| fs::hard_link(secret, path).unwrap()),
        ("half of it", |path, _| fs::write(path, b"hel").unwrap()),
        ("a FIFO", |path, _| super::fifo(path)),
    ];
    for (what, trick) in tricks {
        let place = Place::new();
        let path = in_store(&place, &sha256(b"hello"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        trick(&path, &secret(&place));
        let found = place.blobs.read(&sha256(b"hello"));
        assert!(matches!(found, Err(Error::Unusable { .. })) || what == "half of it", "{what}: {found:?}");
        let blob = place.blobs.put(b"hello").unwrap();
        assert_eq!(fs::read(in_store(&place, &blob)).unwrap(), b"hello", "{what}");
        assert_eq!(fs::symlink_metadata(in_store(&place, &blob)).unwrap().nlink(), 1, "{what}");
        let content = fs::read_to_string(secret(&place)).unwrap();
        assert_eq!(content, super::SECRET, "{what}");
    }
    let place = Place::new();
    let path = in_store(&place, &sha256(b"hello"));
    symlink(place.outside().join("directory"), path.parent().unwrap()).unwrap();
    assert!(matches!(place.blobs.put(b"hello"), Err(Error::Unusable { .. })));
    place.assert_outside_untouched();
}

#[test]
fn a_file_goes_when_nobody_needs_it_and_it_is_old() {
    let place = Place::new();
    let blob = place.blobs.put(b"hello").unwrap();
    let now = || Timestamp::from_millis(fs::metadata(in_store(&place, &blob)).unwrap().mtime() * 1_000);
    let remove = |now, needed| place.blobs.remove::<()>(&blob, now, || Ok(needed)).unwrap().unwrap();
    assert!(!remove(now(), false), "its message may be about to be taken in");
    assert!(!remove(old(), true));
    assert_eq!(place.blobs.remove(&blob, old(), || Err("store")).unwrap(), Err("store"));
    assert!(in_store(&place, &blob).exists());
    let listed: Vec<BlobId> = (0..SHARDS).flat_map(|shard| place.blobs.shard(shard, now()).unwrap()).collect();
    assert_eq!(listed, std::slice::from_ref(&blob));
    assert!(remove(old(), false));
    assert!(remove(old(), false), "once more changes nothing");
    let half = in_store(&place, &blob).with_file_name(".tmp-5-x");
    fs::write(&half, b"half").unwrap();
    (0..SHARDS).for_each(|shard| drop(place.blobs.shard(shard, Timestamp::from_millis(0)).unwrap()));
    assert!(half.exists(), "it may be being written");
    (0..SHARDS).for_each(|shard| drop(place.blobs.shard(shard, old()).unwrap()));
    assert!(!half.exists());
    // Storing it again makes it count as new.
    let blob = place.blobs.put(b"hello").unwrap();
    let file = fs::File::options().write(true).open(in_store(&place, &blob)).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    place.blobs.put(b"hello").unwrap();
    assert!(fs::metadata(in_store(&place, &blob)).unwrap().mtime() > 1_000_000);
}

/// A refused message does not keep its file, but does not remove it either while another message with it is being
/// imported.
#[test]
fn a_file_is_taken_back_unless_another_message_has_it() {
    let place = Place::new();
    let blob = place.blobs.put(b"hello").unwrap();
    let take_back = |needed| place.blobs.take_back::<()>(&blob, || Ok(needed)).unwrap().unwrap();
    assert!(!take_back(false), "its own message is on its way");
    place.blobs.put(b"hello").unwrap();
    place.blobs.settle([&blob]);
    assert!(!take_back(false), "another message is on its way");
    place.blobs.settle([&blob]);
    assert!(!take_back(true), "another message was taken in");
    assert!(take_back(false) && !in_store(&place, &blob).exists());
    assert!(take_back(false), "once more changes nothing");
}

#[test]
fn files_over_the_bound_are_refused_by_their_size() {
    let place = Place::new();
    let bytes = vec![0; 64 * 1024 * 1024 + 1];
    let refused = place.blobs.put(&bytes).unwrap_err();
    assert_eq!(refused.to_string(), "the file has 67108865 bytes, at most 67108864 are kept");
    assert!(!refused.is_full());
    place.blobs.put(&bytes[1..]).unwrap();
}

#[test]
fn a_message_comes_with_its_files() {
    let place = Place::new();
    let content = json!({"text": "see", "attachments": [
        {"name": "photo.png", "type": "image", "size": 1, "localPath": "../../etc/passwd"},
        {"name": "link", "url": "u", "localPath": "x"},
    ]});
    let files = vec![attachment("photo.png", b"\x89PNG", &place), attachment("more.png", b"", &place)];
    let export = export_of(vec![with_files(&content, files)]);
    for _ in 0..2 {
        place.mailboxes.export(&export, "UTC").unwrap();
        assert_eq!(
            exported(&place)["content"]["attachments"],
            json!([
                {"name": "photo.png", "type": "image", "size": 4, "localPath": format!("host/in/files/{SEQ}/photo.png")},
                {"name": "link", "url": "u"},
                {"name": "more.png", "type": "image", "mimeType": "image/png", "size": 0,
                 "localPath": format!("host/in/files/{SEQ}/more.png")},
            ])
        );
        let dir = place.host(&format!("in/files/{SEQ}"));
        assert_eq!(names(&dir), ["more.png", "photo.png"]);
        assert_eq!(fs::read(dir.join("photo.png")).unwrap(), b"\x89PNG");
        let meta = fs::metadata(dir.join("photo.png")).unwrap();
        assert_eq!((meta.nlink(), meta.permissions().mode() & 0o777), (1, 0o644));
    }
    assert_eq!(names(&place.host("in/files")), [SEQ]);
    place.mailboxes.discard(&Discard { session: SESSION, seqs: vec![4], files: vec![4], agent_files: vec![] }).unwrap();
    assert_eq!((names(&place.host("in")), names(&place.host("in/files"))), (vec!["files".to_owned()], vec![]));
    place.mailboxes.export(&exact(export), "UTC").unwrap();
    assert_eq!(names(&place.host(&format!("in/files/{SEQ}"))), ["more.png", "photo.png"], "made again at a launch");
    place.mailboxes.export(&exact(export_of(vec![])), "UTC").unwrap();
    assert_eq!(names(&place.host("in/files")), Vec::<String>::new());
}

/// Files stay at their path when their message ends, until their removal is asked for.
#[test]
fn files_outlive_their_message() {
    let place = Place::new();
    let files = vec![attachment("photo.png", b"\x89PNG", &place)];
    let kept = vec![ExportedFiles { seq: 4, attachments: files.clone() }];
    place.mailboxes.export(&export_of(vec![with_files(&json!({}), files)]), "UTC").unwrap();
    let path = place.host(&format!("in/files/{SEQ}/photo.png"));
    let discard = |seqs, files| Discard { session: SESSION, seqs, files, agent_files: vec![] };
    place.mailboxes.discard(&discard(vec![4], vec![])).unwrap();
    assert!(!place.host(&format!("in/{SEQ}.json")).exists());
    let launch = Export { files: kept, ..exact(export_of(vec![])) };
    place.mailboxes.export(&launch, "UTC").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"\x89PNG");
    // A lost mailbox, and something else in their place.
    let tricks: [fn(&Place); 3] = [
        |place| fs::remove_dir_all(place.host("")).unwrap(),
        |place| fs::remove_dir_all(place.host("in/files")).unwrap(),
        |place| {
            let dir = place.host(&format!("in/files/{SEQ}"));
            fs::remove_dir_all(&dir).unwrap();
            symlink(place.outside().join("directory"), dir).unwrap();
        },
    ];
    for trick in tricks {
        trick(&place);
        place.mailboxes.export(&launch, "UTC").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"\x89PNG");
    }
    place.mailboxes.discard(&discard(vec![], vec![4])).unwrap();
    assert_eq!(names(&place.host("in/files")), Vec::<String>::new());
    place.assert_outside_untouched();
}

/// What a crash left behind is found without a start of the session.
#[test]
fn files_that_nobody_promised_are_removed() {
    let place = Place::new();
    for seq in [4, 6] {
        let files = vec![attachment("photo.png", b"\x89PNG", &place)];
        let message = ExportedMessage { seq, ..with_files(&json!({}), files) };
        place.mailboxes.export(&export_of(vec![message]), "UTC").unwrap();
    }
    let files = place.host("in/files");
    fs::create_dir(files.join(".tmp-5-0000000000000008")).unwrap();
    fs::create_dir(files.join("else")).unwrap();
    let removed = place.mailboxes.remove_received::<Error>(SESSION, |seq| Ok(seq == 6)).unwrap();
    assert_eq!((removed, names(&files)), (2, vec!["0000000000000006".to_owned(), "else".to_owned()]));
    let other = SessionId::new(99);
    assert_eq!(place.mailboxes.remove_received::<Error>(other, |_| Ok(false)).unwrap(), 0);
    assert!(!place.root.path().join("sessions/se99").exists());
}

#[test]
fn a_file_that_cannot_be_had_says_why_and_the_message_comes() {
    let place = Place::new();
    let missing = |name: &str, blob: Result<_, String>| Attachment {
        name: name.to_owned(),
        size: 3,
        mime: None,
        blob: blob.into(),
    };
    let mut lied = attachment("lied.png", b"four", &place);
    lied.size = 5;
    let mut linked = attachment("linked.png", b"linked", &place);
    let path = in_store(&place, linked.blob.stored().unwrap());
    fs::remove_file(&path).unwrap();
    symlink(place.outside().join("secret.json"), &path).unwrap();
    linked.size = 6;
    let files = vec![
        missing("expired.pdf", Err("expired".to_owned())),
        missing("gone.pdf", Ok(sha256(b"never put"))),
        missing("../up", Ok(sha256(b"x"))),
        attachment("twice", b"1", &place),
        attachment("twice", b"2", &place),
        lied,
        linked,
    ];
    place.mailboxes.export(&export_of(vec![with_files(&json!({"attachments": "odd"}), files)]), "UTC").unwrap();
    let entries = exported(&place)["content"]["attachments"].take();
    let fate = |name: &str| {
        let entry = entries.as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap();
        entry.get("error").or(entry.get("localPath")).unwrap().as_str().unwrap().to_owned()
    };
    assert_eq!(fate("expired.pdf"), "expired");
    assert_eq!(fate("gone.pdf"), "its file is not kept any more");
    assert_eq!(fate("../up"), "its name is not a safe name");
    assert_eq!(fate("lied.png"), "its file was changed");
    assert_eq!(fate("linked.png"), "its file cannot be used: it is a symbolic link");
    assert_eq!(names(&place.host(&format!("in/files/{SEQ}"))), ["twice"]);
    place.assert_outside_untouched();
}

/// Leftovers of a crash, or of an agent with the host's permissions, in the places of files.
#[test]
fn what_stands_in_for_files_is_replaced() {
    let tricks: [(&str, MailboxTrick); 4] = [
        ("a link", |place, dir| symlink(place.outside().join("directory"), dir).unwrap()),
        ("a file", |_, dir| fs::write(dir, "x").unwrap()),
        ("links in it", |place, dir| {
            fs::create_dir(dir).unwrap();
            symlink(place.outside().join("secret.json"), dir.join("photo.png")).unwrap();
            fs::hard_link(place.outside().join("directory/a.json"), dir.join("more.png")).unwrap();
        }),
        ("half of it", |_, dir| {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join("photo.png"), "x").unwrap();
        }),
    ];
    for (what, trick) in tricks {
        let place = Place::new();
        trick(&place, &place.host(&format!("in/files/{SEQ}")));
        let files = vec![attachment("photo.png", b"\x89PNG", &place)];
        place.mailboxes.export(&export_of(vec![with_files(&json!({}), files)]), "UTC").unwrap();
        let dir = place.host(&format!("in/files/{SEQ}"));
        assert_eq!(names(&dir), ["photo.png"], "{what}");
        assert_eq!(fs::read(dir.join("photo.png")).unwrap(), b"\x89PNG", "{what}");
        let secret = fs::read_to_string(place.outside().join("secret.json")).unwrap();
        assert_eq!(secret, super::SECRET, "{what}");
    }
}

#[test]
fn the_golden_message_is_what_the_host_writes() {
    let place = Place::new();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../container/wire/fixtures/in-message-files.json");
    let mut golden: Value = serde_json::from_slice(&fs::read(golden).unwrap()).unwrap();
    let content = json!({"text": "see", "sender": "Ann", "senderId": "42", "attachments": [
        {"name": "photo.png", "type": "image"}, {"name": "old.pdf"}, {"name": "link", "url": "https://example.org/x"},
    ]});
    let expired =
        Attachment { name: "old.pdf".into(), size: 3, mime: None, blob: FileBytes::Missing("expired".into()) };
    let mut message = with_files(&content, vec![attachment("photo.png", b"\x89PNG", &place), expired]);
    message.seq = 14;
    place.mailboxes.export(&export_of(vec![message]), "UTC").unwrap();
    let written = fs::read(place.host("in/0000000000000014.json")).unwrap();
    let written: Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(written["content"], golden["content"].take());
}

/// Files of an answer are kept for sending, and stored where another agent can get them.
#[test]
fn files_to_send_are_in_the_store_of_files_too() {
    let place = Place::new();
    place.write("out/files/a/report.pdf", "pdf");
    place.write("out/a.json", said_with("a", 1, 5, json!({"files": ["report.pdf", "none.pdf"]})));
    for _ in 0..2 {
        let found = place.found();
        let said = found.iter().find_map(|found| match &found.record {
            crate::model::mailbox::Record::Said(said) => Some(said.clone()),
            _ => None,
        });
        let file = &said.unwrap().files[0];
        assert_eq!(file.kept, "se12/kept/1.a/report.pdf");
        assert_eq!((file.attachment.name.as_str(), file.attachment.size), ("report.pdf", 3));
        assert_eq!(file.attachment.blob, FileBytes::Stored(sha256(b"pdf")));
        assert_eq!(fs::read(in_store(&place, &sha256(b"pdf"))).unwrap(), b"pdf");
    }
    let kept = place.mailboxes.all_kept(SESSION).unwrap();
    assert_eq!((kept[0].wire_id.as_str(), &kept[0].files[..]), ("a", &["se12/kept/1.a/report.pdf".to_owned()][..]));
    assert_eq!(place.mailboxes.sessions().unwrap(), [SESSION]);
    place.mailboxes.release(&kept[0].files).unwrap();
    assert!(place.mailboxes.all_kept(SESSION).unwrap().is_empty());
}

/// A name, the entry that exists there, and what is kept of it.
type Row<'a> = (&'a str, &'a dyn Fn(&Place, &str), &'a [&'a str]);

/// The table of files to send: the name in the answer, the existing entry, and what is kept.
#[test]
fn files_to_send_follow_the_table() {
    let put = |place: &Place, name: &str| place.write(&format!("out/files/msg-1/{name}"), "ok");
    let link = |place: &Place, name: &str| {
        put(place, "other");
        symlink(place.outside().join("secret.json"), place.agent(&format!("out/files/msg-1/{name}"))).unwrap();
    };
    let nothing = |_: &Place, _: &str| {};
    let rows: [Row; 5] = [
        ("../../../../../outside.txt", &nothing, &[]),
        ("safe-name.txt", &link, &[]),
        ("missing.txt", &nothing, &[]),
        ("result.txt", &put, &["se12/kept/1.msg-1/result.txt"]),
        ("file with spaces.pdf", &put, &["se12/kept/1.msg-1/file with spaces.pdf"]),
    ];
    for (name, prepare, expected) in rows {
        let place = Place::new();
        prepare(&place, name);
        place.write("out/msg-1.json", said_with("msg-1", 1, 5, json!({ "files": [name] })));
        let collection = place.collect().collection;
        let said = collection.found.iter().find_map(|found| match &found.record {
            crate::model::mailbox::Record::Said(said) => Some(said),
            _ => None,
        });
        let kept: Vec<&str> = said.unwrap().files.iter().map(|file| file.kept.as_str()).collect();
        assert_eq!(kept, expected, "{name}: the answer stands, with the files that can be had");
        for name in &kept {
            let mut file = place.mailboxes.kept(name).unwrap().unwrap();
            assert_eq!(std::io::read_to_string(&mut file).unwrap(), "ok");
        }
        place.discard(&collection);
        assert!(!place.agent("out/files/msg-1").exists(), "{name}");
        place.assert_outside_untouched();
    }
    // Cleaning up with an id that contains a path to another place.
    let place = Place::new();
    let bad = Discard {
        session: SESSION,
        seqs: vec![],
        files: vec![],
        agent_files: vec!["out/files/../../../../outside".into()],
    };
    assert!(matches!(place.mailboxes.discard(&bad), Err(Error::BadName { .. })));
    place.assert_outside_untouched();
}

/// Removed by a person who cleans up, or lost with a replaced disk.
#[test]
fn removed_directories_are_created_again() {
    let place = Place::new();
    place.mailboxes.prepare(SESSION).unwrap();
    fs::remove_dir_all(place.root.path().join("sessions")).unwrap();
    place.mailboxes.prepare(SESSION).unwrap();
    assert!(place.mailboxes.path(SESSION).join("host/in").is_dir());
    fs::rename(place.root.path().join("sessions"), place.root.path().join("moved")).unwrap();
    assert_eq!(place.mailboxes.sessions().unwrap(), []);
    fs::remove_dir_all(place.root.path().join("files")).unwrap();
    let blob = place.blobs.put(b"bytes").unwrap();
    assert_eq!(place.blobs.read(&blob).unwrap().map(|(_, size)| size), Some(5));
}
