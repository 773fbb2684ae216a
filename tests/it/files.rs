//! Files that come with messages, from the event to the agent that reads them by their path.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::host::beside::failing;
use crate::host::{Host, event, wait_for};

/// An agent that reports what it received: the digest of each file, or why there is none. It sends a file back.
const PROGRAM: &str = r#"
import hashlib, json, os, sys
for line in sys.stdin:
    turn = json.loads(line)
    if turn["type"] != "turn":
        continue
    said = []
    for entry in turn["messages"][-1]["content"].get("attachments", []):
        if "localPath" in entry:
            path = os.path.join(turn["session_dir"], entry["localPath"])
            assert path in turn["prompt"], turn["prompt"]
            data = open(path, "rb").read()
            assert len(data) == entry["size"]
            said.append("%s %s" % (entry["name"], hashlib.sha256(data).hexdigest()))
        else:
            said.append("%s %s" % (entry["name"], entry.get("error", "elsewhere")))
    if turn["messages"][-1]["content"].get("text") == "list":
        root = os.path.join(turn["session_dir"], "host/in/files")
        found = [os.path.join(dir, name) for dir, _, names in os.walk(root) for name in names]
        said += [path[len(root) + 1:] + " " + open(path).read() for path in sorted(found)]
        said += [m["content"]["text"] for m in turn["context"]]
    print(json.dumps({"type": "say", "text": "; ".join(said)}))
    print(json.dumps({"type": "done"}), flush=True)
"#;

fn host() -> Host {
    let host = Host::new();
    let path = host.path("agent.py");
    std::fs::write(&path, PROGRAM).unwrap();
    let free = !crate::host::confined::possible();
    let agent = format!("provider = \"command\"\ncommand = [\"python3\", {:?}]\nunconfined = {free}", path.display());
    host.apply(&format!("schema = 1\n[[agents]]\nfolder = \"main\"\n{agent}\n{}", crate::host::CHAT));
    host
}

fn digest(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn b64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn with_files(id: &str, files: Value) -> Vec<u8> {
    let mut event = event(id, "see");
    event["message"]["content"]["attachments"] = files;
    event.to_string().into_bytes()
}

/// Every file in the blob store.
fn stored(data: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for shard in std::fs::read_dir(data.join("files")).unwrap() {
        let shard = shard.unwrap().path();
        found.extend(std::fs::read_dir(shard).unwrap().map(|entry| entry.unwrap().path()));
    }
    found.sort();
    found
}

/// With and without a daemon, small and large, valid and invalid.
#[test]
fn an_agent_reads_files_by_their_path() {
    let mut host = host();
    let large: Vec<u8> = (0..6 << 20).map(|n: u32| (n % 251) as u8).collect();
    let first = json!([
        {"name": "a b.txt", "data": b64(b"one")},
        {"name": "../../x", "data": b64(b"")},
        {"name": "bad", "data": "!"},
        {"name": "passwd", "localPath": "/etc/passwd", "url": "u"},
    ]);
    host.done(&["inject", "--json"], &with_files("m1", first));
    assert_eq!(stored(&host.data()).len(), 2);
    host.start();
    let name = host.wait_said(1)[0].split("; ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert!(name.starts_with("attachment"), "{name}");
    let expected =
        format!("a b.txt {}; {name} {}; bad its data is not base64; passwd elsewhere", digest(b"one"), digest(b""));
    assert_eq!(host.said(), [expected]);
    host.done(&["inject", "--json"], &with_files("m2", json!([{"name": "large.bin", "data": b64(&large)}])));
    assert_eq!(host.wait_said(2)[1], format!("large.bin {}", digest(&large)));
    host.wait_settled();
    let session = host.data().join("sessions/se1/host/in/files");
    assert_eq!(std::fs::read_dir(session).unwrap().count(), 2, "later turns can read them");
    let body = host.rows("bodies").pop().unwrap().to_string();
    assert!(body.len() < 10_000, "no bytes in the row");
    assert_eq!(stored(&host.data()).len(), 3);
    let why = host.done(&["why", "m2", "--json"], b"");
    let why: Value = serde_json::from_str(&why).unwrap();
    let file = json!({"name": "large.bin", "size": large.len(), "error": null, "transcript": null});
    assert_eq!(why["events"][0]["files"][0], file);
    host.check();
    host.stop();
}

const BOUND: &str = "schema = 1\nsession_files_max_bytes = 6\n";

/// The file of a message as the agent lists it.
fn shown(seq: u64, content: &str) -> String {
    format!("{seq:016}/a {content}")
}

/// An answer to "list".
fn listed(host: &Host, id: &str, count: usize) -> String {
    host.inject(id, "list");
    host.wait_said(count)[count - 1].clone()
}

/// A file is there in a later turn, after deaths of everything and without its mailbox. The oldest one makes room for
/// the newest, and the agent is told.
#[test]
fn a_later_turn_reads_the_files_of_earlier_ones() {
    let mut host = host();
    host.apply(BOUND);
    host.start();
    let bring = |host: &Host, id: &str, text: &str| {
        host.done(&["inject", "--json"], &with_files(id, json!([{"name": "a", "data": b64(text.as_bytes())}])));
    };
    bring(&host, "m1", "one");
    host.wait_said(1);
    assert_eq!(listed(&host, "m2", 2), shown(2, "one"));
    host.wait_settled();
    host.kill();
    std::fs::remove_dir_all(host.data().join("sessions")).unwrap();
    host.start();
    assert_eq!(listed(&host, "m3", 3), shown(2, "one"));
    bring(&host, "m4", "two");
    host.wait_said(4);
    let both = listed(&host, "m5", 5);
    let second = both.split("; ").nth(1).unwrap().to_owned();
    assert!(both.starts_with(&shown(2, "one")) && second.ends_with("/a two"), "{both}");
    bring(&host, "m6", "three");
    host.wait_said(6);
    let rest = listed(&host, "m7", 7);
    assert!(!rest.contains("/a one") && !rest.contains("/a two") && rest.contains("/a three"), "{rest}");
    assert!(rest.contains("- a (message 2)"), "{rest}");
    host.wait_settled();
    host.check();
    host.stop();
    for _ in 0..3 {
        host.done(&["sweep", "--once", "--at", "2126-01-01T00:00:00Z"], b"");
    }
    let session = host.data().join("sessions/se1/host/in/files");
    assert_eq!(std::fs::read_dir(session).unwrap().count(), 0, "retention removes the copies");
    host.check();
}

/// Starts the daemon again if it has died.
fn revive(host: &mut Host) {
    if host.daemon().is_none_or(|daemon| daemon.try_end().is_some()) {
        drop(host.daemon().is_some().then(|| host.ended()));
        host.start();
    }
}

/// The daemon dies while it writes, ends and removes: no promised file is lost, and none stays that no row promises.
#[test]
fn deaths_around_files_that_stay() {
    let points = ["file-write:2", "mail-rename:4", "discard:2", "discarded-half:2", "discarded:2", "collected:2"];
    let failed = failing(points.len(), &points, |point| {
        let mut host = host();
        host.apply("schema = 1\nsession_files_max_bytes = 3\n");
        host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "10".to_owned()));
        host.env.push(("HEARTH_TEST_CRASH_AT".to_owned(), (*point).to_owned()));
        host.launch();
        host.env.pop();
        for (count, text) in [(1, "one"), (2, "two")] {
            let line = with_files(&format!("m{count}"), json!([{"name": "a", "data": b64(text.as_bytes())}]));
            wait_for("the message to be taken in", || {
                revive(&mut host);
                let ended = host.run(&["inject", "--json"], &line);
                (ended.stdout.contains("routed") || ended.stdout.contains("duplicate")).then_some(())
            });
            wait_for("its end", || {
                revive(&mut host);
                let ended = host.states().iter().filter(|state| state.get("Completed").is_some()).count();
                (ended == count).then_some(())
            });
        }
        revive(&mut host);
        let rest = listed(&host, "m3", 3);
        let files: Vec<&str> = rest.split("; ").filter(|part| part.contains("/a ")).collect();
        assert!(matches!(files[..], [one] if one.ends_with("/a two")), "{point}: {rest}");
        host.check();
        host.stop();
    });
    assert!(failed.is_empty(), "{failed:?}");
}

/// A dry run stores nothing.
#[test]
fn a_dry_run_keeps_no_file() {
    let mut host = host();
    let event = with_files("m1", json!([{"name": "a", "data": b64(b"one")}]));
    host.done(&["inject", "--dry-run", "--json"], &event);
    host.start();
    host.done(&["inject", "--dry-run", "--json"], &event);
    assert!(stored(&host.data()).is_empty() && host.rows("bodies").is_empty());
    host.stop();
}

/// Unknown senders do not fill the disk with unread files.
#[test]
fn files_of_refused_events_go_at_once() {
    let mut host = host();
    host.start();
    let mut stranger = event("m1", "see");
    stranger["platformId"] = "456".into();
    stranger["message"]["isMention"] = true.into();
    stranger["message"]["content"]["attachments"] = json!([{"name": "a", "data": b64(b"one")}]);
    let told = host.done(&["inject", "--json"], stranger.to_string().as_bytes());
    assert!(told.contains("nobody_to_ask"), "{told}");
    wait_for("its file to go", || stored(&host.data()).is_empty().then_some(()));
    host.done(&["inject", "--json"], &with_files("m2", json!([{"name": "a", "data": b64(b"one")}])));
    assert_eq!(host.wait_said(1), [format!("a {}", digest(b"one"))]);
    host.done(&["inject", "--json"], stranger.to_string().replace("m1", "m3").as_bytes());
    assert_eq!(stored(&host.data()).len(), 1);
    host.stop();
}

/// The daemon dies at every step: the file is read, and nothing is received twice.
#[test]
fn deaths_between_a_file_and_its_message() {
    let points = ["files-kept", "taken:2", "committed:2", "launch", "launch-exported", "launched"];
    let failed = failing(points.len(), &points, |point| {
        let mut host = host();
        host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "10".to_owned()));
        host.env.push(("HEARTH_TEST_CRASH_AT".to_owned(), (*point).to_owned()));
        host.launch();
        host.env.pop();
        let line = with_files("m1", json!([{"name": "a", "data": b64(b"one")}]));
        wait_for("the message to be taken in", || {
            if host.daemon().is_none_or(|daemon| daemon.try_end().is_some()) {
                drop(host.daemon().is_some().then(|| host.ended()));
                host.start();
            }
            let ended = host.run(&["inject", "--json"], &line);
            (ended.stdout.contains("routed") || ended.stdout.contains("duplicate")).then_some(())
        });
        wait_for("the answer", || {
            if host.daemon().is_some_and(|daemon| daemon.try_end().is_some()) {
                host.ended();
                host.start();
            }
            (!host.said().is_empty()).then_some(())
        });
        host.wait_settled();
        assert_eq!(host.said(), [format!("a {}", digest(b"one"))], "{point}");
        assert_eq!((host.rows("bodies").len(), stored(&host.data()).len()), (1, 1), "{point}");
        host.check();
        host.stop();
    });
    assert!(failed.is_empty(), "{failed:?}");
}

/// Retention as a person would try it: without a daemon, at a simulated time.
#[test]
fn a_sweep_of_the_future_removes_files() {
    let mut host = host();
    host.start();
    host.done(&["inject", "--json"], &with_files("m1", json!([{"name": "a", "data": b64(b"one")}])));
    host.wait_said(1);
    host.wait_settled();
    host.stop();
    assert_eq!(stored(&host.data()).len(), 1);
    let shown = host.done(&["sweep", "--once", "--at", "2126-01-01T00:00:00Z", "--dry-run"], b"");
    assert!(shown.contains("1 messages' files"), "{shown}");
    assert_eq!(stored(&host.data()).len(), 1);
    for _ in 0..3 {
        host.done(&["sweep", "--once", "--at", "2126-01-01T00:00:00Z"], b"");
    }
    assert!(stored(&host.data()).is_empty());
    assert_eq!(host.rows("bodies"), Vec::<Value>::new());
    assert_eq!(host.rows("outbound").len(), 1, "it waits for its channel");
    let why = host.done(&["why", "ms1"], b"");
    assert!(why.contains("removed by retention"), "{why}");
    host.check();
}

/// A file that an agent sent is kept until it was delivered and its retention is over.
#[test]
fn a_file_that_was_sent_goes_later() {
    let mut host = Host::new();
    host.start();
    let said = host.done(&["chat", "!file a.txt hello"], b"");
    assert!(said.contains("a.txt"), "{said}");
    host.stop();
    let kept = || {
        let places = std::fs::read_dir(host.data().join("sessions/se1/kept")).unwrap();
        places.flat_map(|place| std::fs::read_dir(place.unwrap().path()).unwrap()).count()
    };
    assert_eq!(kept(), 1);
    host.done(&["sweep", "--once"], b"");
    assert_eq!((kept(), stored(&host.data()).len()), (1, 1), "its copy for other agents is young");
    host.done(&["sweep", "--once", "--at", "2126-01-01T00:00:00Z"], b"");
    assert_eq!((kept(), stored(&host.data()).len()), (0, 0));
    host.check();
}
