//! The program alone. `tests/it/matrix.rs` tests it with a daemon and a Synapse.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test, whose helpers clippy takes for none"
)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_hearth-matrix");

#[test]
fn without_a_daemon_it_says_how_it_is_started() {
    let ended = Command::new(PROGRAM).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.code() == Some(1) && said.contains("Hearth starts this program"), "{said}");
}

/// A server that has one room and no encryption. It keeps answers to `sync` without a place, as Synapse does for two minutes.
#[derive(Default)]
struct Server {
    /// Its newest place.
    newest: u64,
    /// What is new after a place.
    news: BTreeMap<String, Vec<Value>>,
    kept: BTreeMap<String, Value>,
    /// Faults of the server when it is asked for a message.
    faults: usize,
    asked: Vec<String>,
}

impl Server {
    fn start(self) -> (Arc<Mutex<Self>>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = Arc::new(Mutex::new(self));
        let shared = Arc::clone(&server);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let server = Arc::clone(&shared);
                std::thread::spawn(move || Self::serve(&server, stream.unwrap()));
            }
        });
        (server, address)
    }

    /// Answers one request.
    fn serve(server: &Mutex<Self>, mut stream: TcpStream) {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let Some(Ok(first)) = lines.next() else { return };
        let path = first.split(' ').nth(1).unwrap().to_owned();
        let (status, answer) = server.lock().unwrap().answer(&path);
        if answer["next_batch"].is_string() && answer["rooms"].is_null() {
            // Nothing is new.
            std::thread::sleep(Duration::from_millis(100));
        }
        let body = answer.to_string();
        let head = "Content-Type: application/json\r\nConnection: close\r\nContent-Length";
        drop(write!(stream, "HTTP/1.1 {status} X\r\n{head}: {}\r\n\r\n{body}", body.len()));
    }

    fn answer(&mut self, path: &str) -> (u16, Value) {
        self.asked.push(path.to_owned());
        let place = |number: u64| format!("s{number}");
        if path.contains("/whoami") {
            return (200, json!({ "user_id": "@bot:x.test" }));
        }
        if path.contains("/joined_members") {
            return (200, json!({ "joined": { "@bot:x.test": {}, "@ann:x.test": {} } }));
        }
        if path.contains("/event/") && self.faults > 0 {
            self.faults -= 1;
            return (502, json!({}));
        }
        let Some(query) = path.split_once("/sync?").map(|(_, query)| query) else { return (404, json!({})) };
        let Some(since) = query.split('&').find_map(|part| part.strip_prefix("since=")) else {
            let now = json!({ "next_batch": place(self.newest), "rooms": { "join": {} } });
            return (200, self.kept.entry(query.to_owned()).or_insert(now).clone());
        };
        match self.news.get(since) {
            None => (200, json!({ "next_batch": since })),
            Some(events) => {
                let timeline = json!({ "timeline": { "events": events } });
                (200, json!({ "next_batch": place(self.newest), "rooms": { "join": { "!room:x.test": timeline } } }))
            }
        }
    }
}

/// The daemon's side of a running bridge.
struct Daemon {
    bridge: Child,
    frames: BufReader<UnixStream>,
    _directory: tempfile::TempDir,
}

impl Daemon {
    fn start(server: &str, cursors: Value) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new(PROGRAM);
        command.current_dir(directory.path()).stdin(Stdio::from(OwnedFd::from(theirs)));
        let bridge = command.spawn().unwrap();
        ours.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut daemon = Self { bridge, frames: BufReader::new(ours), _directory: directory };
        daemon.send(&json!({ "hello": {
            "protocol": [1], "channel": "test", "settings": { "server": server }, "secrets": { "token": "t" },
            "cursors": cursors, "files": ".", "limits": { "frame": 1 << 20, "file": 1 << 20, "unacked": 64 },
        } }));
        daemon
    }

    fn send(&mut self, frame: &Value) {
        writeln!(self.frames.get_mut(), "{frame}").unwrap();
    }

    /// The next frame with a field.
    fn next(&mut self, name: &str) -> Value {
        loop {
            let mut line = String::new();
            self.frames.read_line(&mut line).unwrap();
            let frame: Value = serde_json::from_str(&line).unwrap();
            if !frame[name].is_null() {
                return frame;
            }
        }
    }

    /// The text of the next message, with its number.
    fn message(&mut self) -> (String, Value) {
        let frame = self.next("event");
        (frame["event"]["message"]["content"]["text"].as_str().unwrap().to_owned(), frame["seq"].clone())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.bridge.kill().unwrap();
        self.bridge.wait().unwrap();
    }
}

fn said(id: &str, text: &str, answers: &str) -> Value {
    let content =
        json!({ "msgtype": "m.text", "body": text, "m.relates_to": { "m.in_reply_to": { "event_id": answers } } });
    json!({ "type": "m.room.message", "sender": "@ann:x.test", "event_id": id, "origin_server_ts": 5, "content": content })
}

/// The daemon recognises what it has stored, but not what it has refused.
#[test]
fn what_was_answered_does_not_come_again_after_a_fault_in_the_rest_of_the_batch() {
    let events = vec![said("$1", "refused", ""), said("$2", "the answer to another", "$0")];
    let server = Server { newest: 2, news: [("s1".to_owned(), events)].into(), faults: 2, ..Server::default() };
    let (server, address) = server.start();
    let mut daemon = Daemon::start(&address, json!({ "since": "s1", "at": "1" }));
    let (text, number) = daemon.message();
    assert_eq!(text, "refused");
    daemon.send(&json!({ "refused": number, "why": "a test" }));
    let (text, number) = daemon.message();
    assert_eq!((text.as_str(), server.lock().unwrap().faults), ("the answer to another", 0));
    daemon.send(&json!({ "taken": number }));
}

/// An old answer would make the bridge search for a place that the server has lost, and pass on everything again.
#[test]
fn an_answer_that_the_server_keeps_is_not_taken_for_a_lost_place() {
    let (server, address) = Server { newest: 5, ..Server::default() }.start();
    let mut daemon = Daemon::start(&address, json!({}));
    assert_eq!(daemon.next("cursor")["cursor"]["since"], "s5");
    drop(daemon);
    {
        let mut server = server.lock().unwrap();
        (server.newest, server.asked) = (9, Vec::new());
        server.news.insert("s8".to_owned(), vec![said("$9", "hello", "")]);
    }
    let mut daemon = Daemon::start(&address, json!({ "since": "s8", "at": "1" }));
    assert_eq!(daemon.message().0, "hello");
    let asked = server.lock().unwrap().asked.clone();
    let first = asked.iter().filter(|path| path.contains("/sync?") && !path.contains("since=")).count();
    assert_eq!(first, 1, "{asked:#?}");
}
