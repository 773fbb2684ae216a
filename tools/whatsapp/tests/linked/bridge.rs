//! The program, with a test as its daemon.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use serde_json::{Value, json};

use crate::world::{BOT, DEVICE, PATIENCE, World, address};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_hearth-whatsapp");

pub(crate) struct Home {
    root: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["state", "files"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.root().join("state")
    }

    pub(crate) fn files(&self) -> PathBuf {
        self.root().join("files")
    }

    /// Works on the library's database; the first value of the result.
    #[expect(clippy::disallowed_methods, reason = "no other program of the tests needs SQLite")]
    pub(crate) fn sql(&self, statement: &str) -> String {
        let code = "import sqlite3, sys
with sqlite3.connect(sys.argv[1], 20) as database:
    print(*(database.execute(sys.argv[2]).fetchone() or ()))";
        let mut command = Command::new("python3");
        let ended = command.args(["-c", code]).arg(self.state().join("device.db")).arg(statement).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8(ended.stdout).unwrap()
    }

    /// Links the bridge's device to its account; what the command printed.
    pub(crate) fn link(&self, world: &World) -> String {
        let mut child = linking(&self.state(), &[&world.address.to_string()]).spawn().unwrap();
        let mut printed = String::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            if let Some(code) = line.strip_prefix("for tests: ") {
                world.scan(code, BOT, DEVICE);
            }
            printed.push_str(&line);
            printed.push('\n');
        }
        assert!(child.wait().unwrap().success(), "{printed}");
        printed
    }
}

#[expect(clippy::disallowed_methods, reason = "the program that is tested")]
pub(crate) fn linking(state: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("link").arg(state).args(words).stdout(Stdio::piped()).stdin(Stdio::null());
    command
}

pub(crate) struct Bridge {
    child: Child,
    socket: UnixStream,
    frames: Receiver<Value>,
    kept: VecDeque<Value>,
    files: PathBuf,
    attempt: u32,
}

impl Bridge {
    /// Starts it, and waits until it is ready.
    pub(crate) fn start(world: &World, home: &Home, account: &str) -> Self {
        let mut bridge = Self::open(world, home, account);
        bridge.frame("ready");
        let device = address(BOT, DEVICE);
        world.until("the connection of the bridge", |known| known.devices.get(&device)?.is_online().then_some(()));
        bridge
    }

    #[expect(clippy::disallowed_methods, reason = "the program that is tested")]
    pub(crate) fn open(world: &World, home: &Home, account: &str) -> Self {
        let (socket, other) = UnixStream::pair().unwrap();
        let mut command = Command::new(PROGRAM);
        command.current_dir(home.state()).stdin(Stdio::from(OwnedFd::from(other)));
        let child = command.spawn().unwrap();
        let (sender, frames) = channel();
        let reader = BufReader::new(socket.try_clone().unwrap());
        std::thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        });
        let files = home.files();
        let mut bridge = Self { child, socket, frames, kept: VecDeque::new(), files, attempt: 0 };
        bridge.tell(json!({ "hello": {
            "protocol": [1], "channel": "whatsapp", "secrets": {}, "cursors": {}, "files": bridge.files,
            "settings": { "account": account, "server": world.address.to_string() },
            "limits": { "frame": 1_048_576, "file": 67_108_864, "unacked": 64 },
        } }));
        bridge
    }

    pub(crate) fn tell(&mut self, frame: Value) {
        self.socket.write_all(format!("{frame}\n").as_bytes()).unwrap();
    }

    /// The next frame of a name. Others are kept.
    pub(crate) fn frame(&mut self, name: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(place) = self.kept.iter().position(|frame| frame.get(name).is_some()) {
                return self.kept.remove(place).unwrap();
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.frames.recv_timeout(left) {
                Ok(frame) => self.kept.push_back(frame),
                Err(_) => panic!("no frame `{name}`, but {:?}", self.kept),
            }
        }
    }

    /// The next message, which is stored.
    pub(crate) fn event(&mut self) -> Value {
        let frame = self.frame("event");
        self.tell(json!({ "taken": frame["seq"], "report": {} }));
        frame["event"].clone()
    }

    /// Answers whether an agent would get the next message.
    pub(crate) fn wanted(&mut self, yes: bool) -> Value {
        let frame = self.frame("wanted");
        self.tell(json!({ "wanted": frame["seq"], "yes": yes }));
        frame["wanted"].clone()
    }

    /// Sends a delivery.
    pub(crate) fn deliver(&mut self, id: &str, chat: &str, fields: Value) {
        self.attempt += 1;
        let mut deliver = json!({
            "id": id, "attempt": self.attempt, "act": "say", "platformId": chat, "threadId": null, "text": "", "card": null,
            "messageId": null, "files": [], "repeated": false, "speaker": "Andy", "linkPreviews": false, "within": 50,
        });
        for (key, value) in fields.as_object().unwrap() {
            deliver[key] = value.clone();
        }
        self.tell(json!({ "deliver": deliver }));
    }

    /// The outcome of a delivery.
    pub(crate) fn outcome(&mut self) -> Value {
        self.frame("outcome")["outcome"].clone()
    }

    /// Says something; the id of the message.
    pub(crate) fn say(&mut self, id: &str, chat: &str, fields: Value) -> String {
        self.deliver(id, chat, fields);
        let outcome = self.outcome();
        assert_eq!(outcome["result"], "delivered", "{outcome}");
        outcome["messageId"].as_str().unwrap().to_owned()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
