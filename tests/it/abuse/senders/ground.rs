//! A daemon for each attack, and the actions of senders.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::host::channels::{Receiver, SECRET, free_port, post, sign};
use crate::host::fake_telegram::{FakeTelegram, TOKEN};
use crate::host::telegram::typed;
use crate::host::{Host, wait_for};

/// A daemon with a bot and a webhook, and an owner on both.
pub(super) struct Ground {
    pub(super) host: Host,
    pub(super) telegram: FakeTelegram,
    pub(super) port: u16,
    /// Receives answers through the webhook.
    _receiver: Receiver,
}

impl Ground {
    pub(super) fn new() -> Self {
        let telegram = FakeTelegram::start();
        let mut host = Host::new();
        let (port, receiver) = (free_port(), Receiver::start(&[]));
        for (name, value) in [("BOT_TOKEN", TOKEN), ("WEB_SECRET", SECRET)] {
            host.env.push((name.to_owned(), value.to_owned()));
        }
        let chat = |channel: &str, id: &str, strangers: &str| {
            format!(
                "[[chats]]\nchannel = \"{channel}\"\nplatform_id = \"{id}\"\nunknown_senders = \"{strangers}\"\n\
                 [[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"\n"
            )
        };
        host.apply(&format!(
            "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n\
             [[users]]\nid = \"telegram:1\"\nname = \"Boss\"\nroles = [\"owner\"]\n\
             [channels.telegram]\ntoken = \"env:BOT_TOKEN\"\nbase_url = \"{}\"\n\
             [channels.web]\ntype = \"webhook\"\nsecret = \"env:WEB_SECRET\"\nlisten = \"127.0.0.1:{port}\"\n{}\n{}{}{}",
            telegram.url(),
            receiver.base_url(),
            chat("telegram", "123", "request_approval"),
            chat("web", "room", "public"),
            chat("web", "closed", "strict"),
        ));
        host.start();
        let ground = Self { host, telegram, port, _receiver: receiver };
        let status = || ground.host.status();
        wait_for("both channels", || {
            let all = status();
            let up = all["channels"].as_array()?.iter().filter(|one| one["state"] == "up").count();
            (up >= 2).then_some(())
        });
        ground
    }

    /// Says something through the webhook, signed.
    pub(super) fn web(&self, event: &Value) -> (u16, Value) {
        post(self.port, SECRET, "/v1/events", event).unwrap()
    }

    /// Sends the webhook a request with these headers and this body. Returns status and body of the answer, if there is
    /// one.
    pub(super) fn raw(&self, headers: &str, body: &str) -> Option<(u16, Value)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let request = format!(
            "POST /v1/events HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        // It may be rejected before all of it is sent.
        stream.write_all(request.as_bytes()).ok();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok();
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        Some((status, serde_json::from_str(body).unwrap_or_default()))
    }

    /// Asserts that the sender is rejected as unauthorized.
    pub(super) fn turns_away(&self, headers: &str, body: &str) {
        let answer = self.raw(headers, body);
        assert_eq!(answer.as_ref().map(|(status, _)| *status), Some(401), "{headers}: {answer:?}");
    }

    /// Asserts that nothing was received.
    pub(super) fn nothing(&self) {
        for table in ["messages", "held", "seen"] {
            assert_eq!(self.host.rows(table), Vec::<Value>::new(), "{table}");
        }
    }

    /// The service still answers an honest client.
    pub(super) fn serves(&self) {
        let (status, answer) = self.web(&event("honest", "room", "still there?"));
        assert_eq!((status, &answer["outcome"]), (200, &json!("routed")), "{answer}");
        wait_for("the answer", || self.host.said().iter().any(|said| said.ends_with("still there?")).then_some(()));
    }

    /// Ann, an unknown sender, writes. Returns the owner's card and its buttons.
    pub(super) fn card(&self) -> Vec<Value> {
        self.telegram.happens(typed(7, "let me in"));
        wait_for("a card", || (!self.telegram.shown(1).is_empty()).then_some(()));
        let card = self.telegram.calls("sendMessage").pop().unwrap().parameters;
        let rows = card["reply_markup"]["inline_keyboard"].as_array().unwrap().clone();
        let buttons = rows.iter().filter_map(Value::as_array).flatten();
        buttons.map(|button| button["callback_data"].clone()).collect()
    }

    /// Presses a button and waits for the answer.
    pub(super) fn press(&self, by: i64, button: &Value) {
        let before = self.telegram.calls("answerCallbackQuery").len();
        self.telegram.happens(json!({"callback_query": {
            "id": format!("cq{before}"), "from": {"id": by, "is_bot": false, "first_name": "Boss"},
            "chat_instance": "1", "data": button,
            "message": {"message_id": 100, "date": 1, "text": "Allow?", "chat": {"id": 1, "type": "private"}},
        }}));
        wait_for("an answer to the press", || {
            (self.telegram.calls("answerCallbackQuery").len() > before).then_some(())
        });
    }

    pub(super) fn approvals(&self) -> Vec<Value> {
        self.host.rows("approvals").into_iter().map(|row| row["value"]["state"].clone()).collect()
    }

    /// The approval of Ann is open, and she is as unknown as before.
    pub(super) fn is_undecided(&self) {
        let states = self.approvals();
        assert_eq!(states, [json!("Pending")], "{states:?}");
        assert_eq!(self.host.rows("members"), Vec::<Value>::new());
        assert_eq!(self.host.rows("messages"), Vec::<Value>::new());
        assert!(self.telegram.shown(123).is_empty());
    }

    pub(super) fn socket(&self) -> UnixStream {
        let entries = std::fs::read_dir(self.host.path("runtime")).unwrap().flatten();
        let socket = entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|end| end == "sock"));
        UnixStream::connect(socket.unwrap()).unwrap()
    }
}

pub(super) fn event(id: &str, chat: &str, text: &str) -> Value {
    json!({"channelType": "web", "platformId": chat, "message": {"id": id, "content": {"text": text, "senderId": "ann"}}})
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

pub(super) fn signed(stamp: u64, body: &str) -> String {
    let stamp = stamp.to_string();
    format!("x-hearth-timestamp: {stamp}\r\nx-hearth-signature: {}\r\n", sign(SECRET, &stamp, body))
}
