//! Files of unknown senders on Telegram: the daemon fetches none before the approval, and each of them afterwards, even
//! if it dies meanwhile.

use serde_json::{Value, json};

use crate::host::fake_telegram::{FakeTelegram, Fault};
use crate::host::telegram::{connect, typed};
use crate::host::{CHAT, Host, wait_for};

/// An agent that reports the content of its files, and the reasons for missing ones.
const PROGRAM: &str = r#"
import json, os, sys
for line in sys.stdin:
    turn = json.loads(line)
    if turn["type"] != "turn":
        continue
    for message in turn["messages"]:
        for file in message["content"].get("attachments", []):
            path = file.get("localPath")
            path = path and os.path.join(turn["session_dir"], path)
            text = open(path).read() if path else "no file: " + file["error"]
            print(json.dumps({"type": "say", "text": "it says " + text}), flush=True)
    print(json.dumps({"type": "done"}), flush=True)
"#;

/// An unknown sender has sent a photo, and the approval is open.
fn asked() -> (Host, FakeTelegram) {
    let host = Host::with_program(PROGRAM);
    let owner = "[[users]]\nid = \"telegram:1\"\nroles = [\"owner\"]";
    host.apply(&format!("schema = 1\n{owner}\n{}", CHAT.replace("public", "request_approval")));
    let (host, server) = connect(host);
    server.has_file("p", "photos/1.jpg", b"a cat".to_vec());
    let mut photo = typed(7, "");
    photo["message"]["photo"] = json!([{"file_id": "p", "width": 10, "height": 10, "file_size": 5}]);
    server.happens(photo);
    wait_for("a card", || (!server.shown(1).is_empty()).then_some(()));
    wait_for("the photo to be confirmed", || server.unconfirmed().is_empty().then_some(()));
    assert_eq!((fetches(&server), host.rows("held").len(), stored(&host)), (0, 1, 0));
    (host, server)
}

fn fetches(server: &FakeTelegram) -> usize {
    server.calls("getFile").len()
}

/// Number of files in the blob store.
fn stored(host: &Host) -> usize {
    let shards = std::fs::read_dir(host.data().join("files")).into_iter().flatten().flatten();
    shards.flat_map(|shard| std::fs::read_dir(shard.path())).flatten().flatten().count()
}

fn decide(host: &Host, answer: &str) {
    host.done(&["approvals", answer, "ap1"], b"");
}

fn wait_said(server: &FakeTelegram, text: &str) {
    wait_for("the agent's answer", || (server.shown(123) == [text]).then_some(()));
}

fn end(mut host: Host) {
    host.wait_settled();
    assert_eq!(host.rows("fetches"), [] as [Value; 0]);
    host.check();
    assert_eq!(host.stop().code, Some(0));
}

#[test]
fn a_photo_of_a_stranger_is_fetched_after_the_approval() {
    let (host, server) = asked();
    decide(&host, "approve");
    wait_said(&server, "it says a cat");
    assert_eq!((fetches(&server), stored(&host)), (1, 1));
    end(host);
    assert_eq!(server.shown(123).len(), 1);
}

#[test]
fn a_photo_of_a_stranger_who_was_rejected_is_never_fetched() {
    let (mut host, server) = asked();
    decide(&host, "reject");
    host.kill();
    host.start();
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!((fetches(&server), stored(&host), server.shown(123).len()), (0, 0, 0));
    end(host);
}

/// The daemon dies between the approval and the end of the fetch: the next one fetches, and the message arrives once.
#[test]
fn a_daemon_that_dies_while_it_fetches_fetches_again() {
    let (mut host, server) = asked();
    server.fails("getFile", [Fault::Hold]);
    decide(&host, "approve");
    wait_for("the photo to be asked for", || (fetches(&server) == 1).then_some(()));
    assert_eq!(host.rows("messages")[0]["value"]["state"]["Pending"].get("Now"), None);
    let why = host.done(&["why", "ms1"], b"");
    assert!(why.contains("waiting for its files"), "{why}");
    host.kill();
    server.release();
    host.start();
    wait_said(&server, "it says a cat");
    host.wait_settled();
    assert_eq!((fetches(&server), host.rows("messages").len(), server.shown(123).len()), (2, 1, 1));
    end(host);
}

/// The server fails when the fetch begins, and again later; the file still arrives.
#[test]
fn a_photo_that_telegram_does_not_have_any_more_is_told_of() {
    let (host, server) = asked();
    let gone = Fault::Error(400, "Bad Request: file is temporarily unavailable", json!({}));
    server.fails("getFile", [Fault::Error(502, "Bad Gateway", json!({})), gone]);
    decide(&host, "approve");
    wait_said(&server, "it says no file: Bad Request: file is temporarily unavailable");
    assert_eq!((fetches(&server), stored(&host)), (2, 0));
    end(host);
}
