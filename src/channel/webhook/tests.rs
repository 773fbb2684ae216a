//! A webhook between a bridge that asks it and a receiver that answers as told, both speaking real HTTP.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::channel::intake::{NotTaken, Pending, Pressed};
use crate::model::address::ForeignId;
use crate::model::card::{Card, CardOption, Matter};
use crate::model::content::{BlobId, RawJson};
use crate::model::id::{ApprovalId, MessageId, OutboundId};
use crate::model::input::{InboundEvent, Press};
use crate::model::message::MessageState;
use crate::model::report::{Outcome, RouteReport};

const SECRET: &str = "what both sides know";

fn noon() -> Timestamp {
    Timestamp::from_millis(1_776_686_400_000)
}

/// What the engine would be.
#[derive(Default)]
struct Engine {
    events: Mutex<Vec<InboundEvent>>,
    presses: Mutex<Vec<Press>>,
    outcomes: Mutex<Vec<(OutboundId, DeliveryResult)>>,
    direct: Mutex<Vec<(UserId, Result<ForeignId, String>)>>,
    reachable: Mutex<u32>,
    /// Why nothing is taken.
    not: Mutex<Option<NotTaken>>,
}

impl Intake for Engine {
    fn inbound(&self, event: InboundEvent) -> Pending<'_, Result<RouteReport, NotTaken>> {
        Box::pin(async move {
            if let Some(not) = self.not.lock().unwrap().clone() {
                return Err(not);
            }
            let mut events = self.events.lock().unwrap();
            let known = events.iter().any(|known| known.platform_message == event.platform_message);
            let id = event.platform_message.clone().map(|id| id.to_string()).unwrap_or_default();
            if !known {
                events.push(event);
            }
            let outcome = if known { Outcome::Duplicate } else { Outcome::Routed };
            Ok(RouteReport { event: id, chat: None, outcome, reason: None, wirings: vec![] })
        })
    }

    fn pressed(&self, press: Press) -> Pending<'_, Result<Pressed, NotTaken>> {
        Box::pin(async move {
            self.presses.lock().unwrap().push(press);
            Ok(Pressed { decided: true, text: "done".to_owned() })
        })
    }

    fn keep(&self, _bytes: Vec<u8>) -> Pending<'_, Result<Result<BlobId, String>, NotTaken>> {
        let not = self.not.lock().unwrap().clone();
        Box::pin(async { not.map_or(Ok(Err("no".to_owned())), Err) })
    }

    fn outcome(&self, delivery: OutboundId, result: DeliveryResult) {
        self.outcomes.lock().unwrap().push((delivery, result));
    }

    fn direct_opened(&self, user: UserId, chat: Result<ForeignId, String>) {
        self.direct.lock().unwrap().push((user, chat));
    }

    fn reachable(&self) {
        *self.reachable.lock().unwrap() += 1;
    }
}

/// What the receiver does with a request.
enum Answer {
    /// Writes these bytes.
    Bytes(String),
    /// Reads the request and hangs up.
    HangUp,
    /// Reads the request and says nothing for ever.
    Nothing,
}

fn status(line: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    Answer::Bytes(format!("HTTP/1.1 {line}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"))
}

fn ok(body: &str) -> Answer {
    status("200 OK", "", body)
}

/// One request that the receiver got.
#[derive(Clone)]
struct Got {
    head: String,
    body: Value,
}

/// A receiver: answers in the order given, then always with 200.
struct Receiving {
    url: String,
    got: Arc<Mutex<Vec<Got>>>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
}

impl Receiving {
    async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let got = Arc::new(Mutex::new(Vec::new()));
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        let (record, script) = (Arc::clone(&got), Arc::clone(&answers));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (record, script) = (Arc::clone(&record), Arc::clone(&script));
                tokio::spawn(async move { serve(stream, &record, &script).await });
            }
        });
        Self { url, got, answers }
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    fn bodies(&self) -> Vec<Value> {
        self.got().into_iter().map(|got| got.body).collect()
    }

    fn next(&self, answer: Answer) {
        self.answers.lock().unwrap().push_back(answer);
    }
}

async fn serve(mut stream: TcpStream, record: &Mutex<Vec<Got>>, script: &Mutex<VecDeque<Answer>>) {
    let mut read = Vec::new();
    let (head, body) = loop {
        let mut part = [0; 65_536];
        let count = stream.read(&mut part).await.unwrap_or(0);
        if count == 0 {
            return;
        }
        read.extend_from_slice(&part[..count]);
        let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(read[..end].to_vec()).unwrap();
        let length: usize = header(&head, "content-length").parse().unwrap();
        if read.len() >= end + 4 + length {
            break (head, read[end + 4..end + 4 + length].to_vec());
        }
    };
    let stamp = (header(&head, TIMESTAMP_NAME), header(&head, SIGNATURE_NAME));
    Key::new(SECRET).unwrap().check((&stamp.0, &stamp.1), &body).unwrap();
    record.lock().unwrap().push(Got { head, body: serde_json::from_slice(&body).unwrap() });
    let answer = script.lock().unwrap().pop_front().unwrap_or_else(|| ok(""));
    match answer {
        Answer::Bytes(bytes) => {
            stream.write_all(bytes.as_bytes()).await.ok();
            stream.shutdown().await.ok();
        }
        Answer::HangUp => {}
        Answer::Nothing => std::future::pending().await,
    }
}

const TIMESTAMP_NAME: &str = "x-hearth-timestamp";
const SIGNATURE_NAME: &str = "x-hearth-signature";

fn header(head: &str, name: &str) -> String {
    let line = head.lines().find(|line| line.to_lowercase().starts_with(&format!("{name}:")));
    line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}

/// A webhook and everything around it.
struct World {
    webhook: Arc<Webhook>,
    engine: Arc<Engine>,
    receiving: Receiving,
    address: SocketAddr,
    sessions: tempfile::TempDir,
}

fn name() -> ChannelName {
    ChannelName::new("matrix").unwrap()
}

fn setup(base_url: Option<String>, listen: &str) -> Setup {
    let listen = listen.parse().unwrap();
    Setup { name: name(), secret: SECRET.to_owned(), base_url, listen, sessions: PathBuf::new(), now: noon }
}

impl World {
    async fn start(answers: Vec<Answer>) -> Self {
        let receiving = Receiving::start(answers).await;
        let engine = Arc::new(Engine::default());
        let sessions = tempfile::tempdir().unwrap();
        let base_url = Some(receiving.url.clone());
        let setup = Setup { sessions: sessions.path().to_owned(), ..setup(base_url, "127.0.0.1:0") };
        let (webhook, address) = open(setup, Arc::clone(&engine) as Arc<dyn Intake>).await.unwrap();
        Self { webhook, engine, receiving, address, sessions }
    }

    async fn outcome(&self) -> DeliveryResult {
        wait(|| self.engine.outcomes.lock().unwrap().pop()).await.1
    }

    /// Delivers and waits for what became of it.
    async fn deliver(&self, delivery: Delivery) -> DeliveryResult {
        self.webhook.deliver(delivery);
        self.outcome().await
    }

    async fn post(&self, path: &str, body: &[u8]) -> (u16, Value) {
        let (timestamp, signature) = Key::new(SECRET).unwrap().sign(noon(), body);
        let answer = self.post_as(path, (&timestamp, &signature), body).await;
        (answer.0, answer.1)
    }

    async fn post_as(&self, path: &str, (time, sum): (&str, &str), body: &[u8]) -> (u16, Value, Option<String>) {
        let client = crate::channel::http::client(true).unwrap();
        let request = client.post(format!("http://{}{path}", self.address)).body(body.to_vec());
        let response = request.header(TIMESTAMP_NAME, time).header(SIGNATURE_NAME, sum).send().await.unwrap();
        let after = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default(), after)
    }
}

async fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..3_000 {
        if let Some(found) = look() {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited in vain");
}

fn at(chat: &str, thread: Option<&str>) -> Address {
    let id = |text: &str| ForeignId::new("id", text).unwrap();
    Address { channel: name(), platform_id: id(chat), thread: thread.map(id) }
}

fn delivery(id: u64) -> Delivery {
    Delivery {
        id: OutboundId::new(id),
        to: at("!room", None),
        act: DeliveryAct::Say,
        repeated: false,
        speaker: Some("main".to_owned()),
        in_reply_to: Some(MessageId::new(3)),
        text: "hi".to_owned(),
        content: RawJson::trusted(r#"{"text":"hi","n":1.50}"#.to_owned()),
        files: vec![],
    }
}

fn event(id: &str) -> Value {
    json!({"channelType": "matrix", "platformId": "!room", "message": {"id": id, "content": {"text": "hello", "senderId": "@a:x"}}})
}

fn delivered(id: Option<&str>) -> DeliveryResult {
    DeliveryResult::Delivered { platform_message: id.map(|id| ForeignId::new("id", id).unwrap()) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_answered_with_what_became_of_it_and_known_when_it_comes_again() {
    let world = World::start(vec![]).await;
    let body = event("m1").to_string();
    let (status, answer) = world.post("/v1/events", body.as_bytes()).await;
    assert_eq!(
        (status, answer),
        (200, json!({"event": "m1", "chat": null, "outcome": "routed", "reason": null, "wirings": []}))
    );
    let (status, answer) = world.post("/v1/events", body.as_bytes()).await;
    assert_eq!((status, &answer["outcome"]), (200, &json!("duplicate")));
    assert_eq!(world.engine.events.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_is_signed_and_fresh_counts() {
    let world = World::start(vec![]).await;
    let body = event("m1").to_string();
    let key = Key::new(SECRET).unwrap();
    let stranger = Key::new("guessed").unwrap().sign(noon(), body.as_bytes());
    let old = key.sign(Timestamp::from_millis(noon().millis() - 301_000), body.as_bytes());
    let early = key.sign(Timestamp::from_millis(noon().millis() + 301_000), body.as_bytes());
    let other = key.sign(noon(), b"{}");
    let missing = (String::new(), String::new());
    for (what, (time, sum)) in
        [("stranger", stranger), ("old", old), ("early", early), ("another body", other), ("none", missing)]
    {
        for path in ["/v1/events", "/v1/actions"] {
            let (status, answer, _) = world.post_as(path, (&time, &sum), body.as_bytes()).await;
            assert_eq!(status, 401, "{what}: {answer}");
            assert!(!answer["error"].as_str().unwrap().contains(SECRET));
        }
    }
    assert!(world.engine.events.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_events_are_refused_with_the_reason() {
    let world = World::start(vec![]).await;
    let with = |change: &dyn Fn(&mut Value)| {
        let mut event = event("m1");
        change(&mut event);
        event.to_string()
    };
    for (body, words) in [
        (String::new(), "not usable JSON"),
        ("{".to_owned(), "not usable JSON"),
        ("[1]".to_owned(), "must be an object"),
        ("\u{fffd}".to_owned(), "not usable JSON"),
        (with(&|event| event["channelType"] = "telegram".into()), "speaks only for `matrix`"),
        (
            with(&|event| event["replyTo"] = json!({"channelType": "x", "platformId": "y"})),
            "replyTo.channelType is `x`",
        ),
        (with(&|event| event["message"]["id"] = "".into()), "message.id is missing"),
        (with(&|event| event["message"]["kind"] = "task".into()), "message.kind is `task`"),
        (with(&|event| event["platformId"] = Value::Null), "platformId is missing"),
        (with(&|event| event["message"]["content"] = "x".repeat(600_000).into()), "too large"),
    ] {
        let (status, answer) = world.post("/v1/events", body.as_bytes()).await;
        assert_eq!(status, 400, "{words}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(words), "{words}: {answer}");
    }
    assert_eq!(world.post("/v1/events", b"\xff{}").await.0, 400);
    assert!(world.engine.events.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn huge_and_slow_bodies_take_nothing_from_others() {
    let world = World::start(vec![]).await;
    let (time, sum) = Key::new(SECRET).unwrap().sign(noon(), b"");
    let send = async |head: &str, rest: &[u8]| {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        let stamps = format!("{TIMESTAMP_NAME}: {time}\r\n{SIGNATURE_NAME}: {sum}\r\n");
        let head = format!("POST /v1/events HTTP/1.1\r\nhost: x\r\n{stamps}{head}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        // The other side may hang up before it has read all of it.
        stream.write_all(rest).await.ok();
        let mut answer = [0; 64];
        let count = stream.read(&mut answer).await.unwrap_or(0);
        String::from_utf8_lossy(&answer[..count]).into_owned()
    };
    // Said to be huge: refused before it comes.
    let answer = send("content-length: 999999999999", b"").await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    // Huge without saying so: in chunks that never end.
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(65_536)).repeat(event_chunks());
    let answer = send("transfer-encoding: chunked", chunk.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413") || answer.is_empty(), "{answer}");
    // Says nothing after its head; others are served meanwhile.
    let mut silent = TcpStream::connect(world.address).await.unwrap();
    silent.write_all(b"POST /v1/events HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n").await.unwrap();
    assert_eq!(world.post("/v1/events", event("m2").to_string().as_bytes()).await.0, 200);
    assert_eq!(world.post("/v1/nothing", b"{}").await.0, 404);
}

fn event_chunks() -> usize {
    crate::channel::event::EVENT_BYTES_MAX / 65_536 + 2
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_taken_now_may_come_again() {
    let world = World::start(vec![]).await;
    let body = event("m1").to_string();
    let (time, sum) = Key::new(SECRET).unwrap().sign(noon(), body.as_bytes());
    *world.engine.not.lock().unwrap() = Some(NotTaken::Later("no room".to_owned()));
    let (status, answer, after) = world.post_as("/v1/events", (&time, &sum), body.as_bytes()).await;
    assert_eq!((status, answer, after.as_deref()), (503, json!({"error": "no room"}), Some("5")));
    *world.engine.not.lock().unwrap() = Some(NotTaken::Refused("never".to_owned()));
    assert_eq!(world.post("/v1/events", body.as_bytes()).await, (400, json!({"error": "never"})));
    *world.engine.not.lock().unwrap() = None;
    assert_eq!(world.post("/v1/events", body.as_bytes()).await.0, 200);
    assert_eq!(world.engine.events.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_whose_file_has_no_room_may_come_again() {
    let world = World::start(vec![]).await;
    let mut file = event("m1");
    file["message"]["content"] = json!({"text": "see", "attachments": [{"name": "a", "data": "eA=="}]});
    let body = file.to_string();
    *world.engine.not.lock().unwrap() = Some(NotTaken::Later("no room".to_owned()));
    assert_eq!(world.post("/v1/events", body.as_bytes()).await, (503, json!({"error": "no room"})));
    assert!(world.engine.events.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_button_says_who_pressed_it_where() {
    let world = World::start(vec![]).await;
    let button = card().button(1);
    let press = |change: &dyn Fn(&mut Value)| {
        let mut press =
            json!({"button": button.to_string(), "userId": "@a:x", "platformId": "!room", "threadId": "$t"});
        change(&mut press);
        press.to_string()
    };
    let done = world.post("/v1/actions", press(&|_| ()).as_bytes()).await;
    assert_eq!(done, (200, json!({"decided": true, "text": "done"})));
    let by = UserId::new(name(), ForeignId::new("id", "@a:x").unwrap());
    let expected = Press { by, at: at("!room", Some("$t")), button };
    assert_eq!(world.engine.presses.lock().unwrap().split_off(0), [expected]);
    for (body, words) in [
        (press(&|press| press["button"] = "ap12.x.1".into()), "no button of Hearth"),
        (press(&|press| press["userId"] = "".into()), "userId is empty"),
        (press(&|press| press["userId"] = "a\u{0}b".into()), "control character"),
        (press(&|press| press["platformId"] = Value::Null), "not usable"),
        (press(&|press| press["threadId"] = "x".repeat(2_000).into()), "1024 are accepted"),
        ("{}".to_owned(), "missing field"),
    ] {
        let (status, answer) = world.post("/v1/actions", body.as_bytes()).await;
        assert_eq!(status, 400, "{words}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(words), "{words}: {answer}");
    }
    assert!(world.engine.presses.lock().unwrap().is_empty());
}

fn card() -> Card {
    let option =
        |label: &str| CardOption { label: label.to_owned(), chosen: label.to_owned(), value: label.to_owned() };
    Card {
        matter: Matter::Approval(ApprovalId::new(4)),
        nonce: 7,
        title: "May they?".to_owned(),
        body: "Ann".to_owned(),
        options: vec![option("Yes"), option("No")],
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_act_has_its_body() {
    let world = World::start(vec![ok(r#"{"messageId":"$1"}"#), ok(r#"{"messageId":12}"#), ok("{}"), ok("")]).await;
    let files = world.sessions.path().join("se1/kept/3.a");
    std::fs::create_dir_all(&files).unwrap();
    std::fs::write(files.join("a.txt"), b"abc").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", files.join("link")).unwrap();
    let message = ForeignId::new("id", "$1").unwrap();
    let names = ["se1/kept/3.a/a.txt", "se1/kept/3.a/link", "../x", "se1/kept/3.a/gone"];
    let say = Delivery {
        to: at("!room", Some("$t")),
        files: names.map(str::to_owned).to_vec(),
        repeated: true,
        ..delivery(1)
    };
    assert_eq!(world.deliver(say).await, delivered(Some("$1")));
    let ask = Delivery { act: DeliveryAct::Ask(card()), speaker: None, in_reply_to: None, ..delivery(2) };
    assert_eq!(world.deliver(ask).await, delivered(Some("12")));
    let edit = Delivery { act: DeliveryAct::Edit(message.clone()), ..delivery(3) };
    assert_eq!(world.deliver(edit).await, delivered(None));
    assert_eq!(world.deliver(Delivery { act: DeliveryAct::React(message), ..delivery(4) }).await, delivered(None));
    let mut got = world.receiving.bodies();
    let errors = [&got[0]["files"][1], &got[0]["files"][2], &got[0]["files"][3]].map(|file| file["error"].to_string());
    assert!(errors.iter().all(|error| error.len() > 4 && !error.contains("root")), "{errors:?}");
    got[0]["files"].as_array_mut().unwrap().truncate(1);
    let content = json!({"text": "hi", "n": 1.5});
    let plain = json!({
        "id": "mo1", "act": "say", "platformId": "!room", "threadId": null, "text": "hi", "content": content,
        "repeated": false, "speaker": "main", "inReplyTo": "ms3", "card": null, "messageId": null, "files": [],
    });
    let with = |fields: Value| {
        let mut all = plain.clone();
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        all
    };
    let buttons = json!({"title": "May they?", "body": "Ann", "options": [
        {"label": "Yes", "button": "ap4.0000000000000007.0"}, {"label": "No", "button": "ap4.0000000000000007.1"}]});
    let file = json!([{"name": "a.txt", "size": 3, "data": "YWJj"}]);
    assert_eq!(got[0], with(json!({"threadId": "$t", "repeated": true, "files": file})));
    assert_eq!(got[1], with(json!({"id": "mo2", "act": "ask", "card": buttons, "speaker": null, "inReplyTo": null})));
    assert_eq!(got[2], with(json!({"id": "mo3", "act": "edit", "messageId": "$1"})));
    assert_eq!(got[3], with(json!({"id": "mo4", "act": "react", "messageId": "$1"})));
    assert!(world.receiving.got()[0].head.starts_with("POST /hook HTTP/1.1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_receiver_answers_decides() {
    let world = World::start(vec![]).await;
    let huge = format!(r#"{{"messageId":"$1","more":"{}"}}"#, "x".repeat(1 << 20));
    for (answer, expected) in [
        (ok("<html>"), delivered(None)),
        (ok(&huge), delivered(None)),
        (ok(r#"{"messageId":""}"#), delivered(None)),
        (ok(&format!(r#"{{"messageId":"{}"}}"#, "x".repeat(2_000))), delivered(None)),
        (status("204 No Content", "", ""), delivered(None)),
        (status("500 Oops", "", "bad\r\n\u{7}day"), DeliveryResult::Retry("the receiver answered 500 bad day".into())),
        (status("502 Bad Gateway", "", ""), DeliveryResult::Retry("the receiver answered 502".into())),
        (status("503 Busy", "", ""), DeliveryResult::Retry("the receiver answered 503".into())),
        (status("429 Slow", "retry-after: soon\r\n", ""), DeliveryResult::Retry("the receiver answered 429".into())),
        (
            status("400 No", "", "no such room"),
            DeliveryResult::Rejected("the receiver answered 400 no such room".into()),
        ),
        (status("403 No", "", ""), DeliveryResult::Rejected("the receiver answered 403".into())),
        (status("404 No", "", ""), DeliveryResult::Rejected("the receiver answered 404".into())),
        (
            status("302 Found", "location: http://127.0.0.1:1/\r\n", ""),
            DeliveryResult::Rejected("the receiver answered 302: set base_url to where it redirects".into()),
        ),
        (
            status("400 No", "", &"é".repeat(9_000)),
            DeliveryResult::Rejected(format!("the receiver answered 400 {}", "é".repeat(200))),
        ),
    ] {
        world.receiving.next(answer);
        assert_eq!(world.deliver(delivery(1)).await, expected);
    }
    for lost in [
        Answer::HangUp,
        Answer::Bytes("HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{\"mess".to_owned()),
        Answer::Bytes("whatever\r\n\r\n".to_owned()),
        Answer::Bytes(format!("HTTP/1.1 200 OK\r\n{}", "x: y\r\n".repeat(9_000))),
    ] {
        world.receiving.next(lost);
        let result = world.deliver(delivery(1)).await;
        assert!(matches!(&result, DeliveryResult::Uncertain(why) if !why.contains("127.0.0.1")), "{result:?}");
        assert!(world.webhook.trouble().is_some());
    }
    assert_eq!(world.deliver(delivery(1)).await, delivered(None));
    assert_eq!(world.webhook.trouble(), None);
}

/// The receiver took the message and its answer was lost: it comes again under the same id, and the receiver knows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repetition_has_the_same_id() {
    let world = World::start(vec![Answer::HangUp, ok(r#"{"messageId":"$1"}"#)]).await;
    assert!(matches!(world.deliver(delivery(9)).await, DeliveryResult::Uncertain(_)));
    assert_eq!(world.deliver(delivery(9)).await, delivered(Some("$1")));
    let ids: Vec<Value> = world.receiving.bodies().into_iter().map(|body| body["id"].clone()).collect();
    assert_eq!(ids, ["mo9", "mo9"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_pause_is_waited_through_and_a_long_one_kept() {
    let busy = |after: &str| status("429 Slow", &format!("retry-after: {after}\r\n"), "");
    let world = World::start(vec![busy("1"), ok("")]).await;
    assert_eq!(world.deliver(delivery(1)).await, delivered(None));
    assert_eq!(world.receiving.got().len(), 2, "one attempt, two requests");

    world.receiving.next(busy("3000"));
    assert!(matches!(world.deliver(delivery(2)).await, DeliveryResult::Retry(_)));
    let expected = "the receiver asked to be left alone for a while";
    assert_eq!(world.deliver(delivery(2)).await, DeliveryResult::Retry(expected.to_owned()));
    assert_eq!(world.deliver(delivery(3)).await, DeliveryResult::Retry(expected.to_owned()));
    world.webhook.typing(SessionId::new(1), &at("!room", None));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(world.receiving.got().len(), 3, "nothing before that time");
    assert_eq!(*world.engine.reachable.lock().unwrap(), 0);
}

/// The end of a long pause is told at once, so that what waits does not wait for its backoff too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_pause_is_told() {
    let engine = Arc::new(Engine::default());
    let intake = Arc::clone(&engine) as Arc<dyn Intake>;
    let (closed, closing) = watch::channel(false);
    let pause = pause::Pause::new(closing);
    pause.begin(Duration::from_secs(31), &intake);
    assert_eq!(pause.over().await, Err(pause::NotNow::Pause));
    pause.begin(Duration::ZERO, &intake);
    assert_eq!(pause.over().await, Ok(()), "the later word counts");
    pause.begin(Duration::from_secs(20), &intake);
    closed.send_replace(true);
    assert_eq!(pause.over().await, Err(pause::NotNow::Closed), "nobody waits for a closed channel");
    assert_eq!(*engine.reachable.lock().unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_is_not_there_is_tried_again_and_its_address_is_not_told() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let engine = Arc::new(Engine::default());
    let intake = || Arc::clone(&engine) as Arc<dyn Intake>;
    let url = Some(format!("http://{free}/hidden-path"));
    let (webhook, _) = open(setup(url, "127.0.0.1:0"), intake()).await.unwrap();
    webhook.deliver(delivery(1));
    let (_, result) = wait(|| engine.outcomes.lock().unwrap().pop()).await;
    let expected = "the receiver cannot be reached: Connection refused (os error 111)";
    assert_eq!(result, DeliveryResult::Retry(expected.to_owned()));
    assert_eq!(webhook.trouble().as_deref(), Some(expected));

    let (deaf, _) = open(setup(None, "127.0.0.1:0"), intake()).await.unwrap();
    deaf.deliver(delivery(2));
    let (_, result) = wait(|| engine.outcomes.lock().unwrap().pop()).await;
    assert_eq!(result, DeliveryResult::Rejected(NO_RECEIVER.to_owned()));
    deaf.open_direct(user());
    assert_eq!(engine.direct.lock().unwrap().pop(), Some((user(), Err(NO_RECEIVER.to_owned()))));
    deaf.typing(SessionId::new(1), &at("!room", None));
    deaf.subscribe(&at("!room", Some("$t")));

    for (secret, base_url, words) in [("", None, "its secret is empty"), ("x", Some("ftp//x"), "no web address")] {
        let setup = Setup { secret: secret.to_owned(), ..setup(base_url.map(str::to_owned), "127.0.0.1:0") };
        assert!(!format!("{setup:?}").contains("secret"));
        let error = open(setup, intake()).await.err().unwrap();
        assert!(error.contains(words), "{error}");
    }
}

fn user() -> UserId {
    UserId::new(name(), ForeignId::new("id", "@a:x").unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_direct_chat_is_where_the_receiver_says_or_the_person_itself() {
    let world = World::start(vec![]).await;
    let chat = |id: &str| Ok(ForeignId::new("id", id).unwrap());
    for (answer, expected) in [
        (ok(r#"{"platformId":"!dm"}"#), chat("!dm")),
        (status("404 No", "", ""), chat("@a:x")),
        (status("501 No", "", ""), chat("@a:x")),
        (ok("{}"), Err("the receiver did not say where: its answer has no platformId".to_owned())),
        (status("403 No", "", "blocked"), Err("the receiver answered 403 blocked".to_owned())),
    ] {
        world.receiving.next(answer);
        world.webhook.open_direct(user());
        let opened = wait(|| world.engine.direct.lock().unwrap().pop()).await;
        assert_eq!(opened, (user(), expected));
    }
    assert_eq!(world.receiving.bodies()[0], json!({"act": "openDirect", "userId": "@a:x"}));
    world.webhook.subscribe(&at("!room", Some("$t")));
    let told = wait(|| world.receiving.bodies().get(5).cloned()).await;
    assert_eq!(told, json!({"act": "subscribe", "platformId": "!room", "threadId": "$t"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_shown_until_the_answer_is_there_or_the_message_ended() {
    let world = World::start(vec![]).await;
    let place = at("!room", None);
    let shown = || world.receiving.bodies().iter().filter(|body| body["act"] == "typing").count();
    world.webhook.typing(SessionId::new(1), &place);
    wait(|| (shown() == 1).then_some(())).await;
    assert_eq!(world.receiving.bodies()[0], json!({"act": "typing", "platformId": "!room", "threadId": null}));
    wait(|| (shown() == 2).then_some(())).await;
    assert_eq!(world.deliver(delivery(1)).await, delivered(None));
    let source = at("!other", None);
    world.webhook.typing(SessionId::new(1), &source);
    wait(|| (shown() == 3).then_some(())).await;
    let state = MessageState::Completed { how: crate::model::message::Completion::Answered, at: noon() };
    world.webhook.settled(Settled { message: MessageId::new(1), source, state, answers: vec![] });
    // A receiver that knows nothing of it is not asked again.
    world.receiving.next(status("501 No", "", ""));
    world.webhook.typing(SessionId::new(1), &place);
    wait(|| (shown() == 4).then_some(())).await;
    tokio::time::sleep(super::super::signs::AGAIN + Duration::from_millis(500)).await;
    assert_eq!(shown(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_go_beside_each_other_and_a_closed_channel_ends_its_waits() {
    let mut answers: Vec<Answer> = (0..15).map(|_| Answer::Nothing).collect();
    answers.push(status("429 Slow", "retry-after: 20\r\n", ""));
    let world = World::start(answers).await;
    (0..15).for_each(|id| world.webhook.deliver(delivery(id)));
    wait(|| (world.receiving.got().len() == 15).then_some(())).await;
    world.webhook.deliver(delivery(16));
    wait(|| (world.receiving.got().len() == 16).then_some(())).await;
    world.webhook.shut_down();
    let (id, result) = wait(|| world.engine.outcomes.lock().unwrap().pop()).await;
    assert_eq!((id.number(), result), (16, DeliveryResult::Retry("the channel is being closed".to_owned())));
    assert_eq!(world.deliver(delivery(17)).await, DeliveryResult::Retry("the channel is being closed".to_owned()));
}

/// Nobody knows whether a receiver that says nothing took the message; one that asks to wait for too long did not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_is_uncertain_and_waiting_is_not() {
    let waits = status("503 Busy", "retry-after: 9\r\n", "");
    let endless = Answer::Bytes("HTTP/1.1 200 OK\r\n".to_owned());
    let world = World::start(vec![Answer::Nothing, endless, waits]).await;
    let (_closed, closing) = watch::channel(false);
    let intake = Arc::clone(&world.engine) as Arc<dyn Intake>;
    let key = Key::new(SECRET).unwrap();
    let mut receiver = Receiver::new(&world.receiving.url, key, noon, intake, closing).unwrap();
    receiver.patience = Duration::from_millis(300);
    let attempt = async || attempt::deliver(&receiver, world.sessions.path(), &delivery(1)).await;
    let silent = "there was no answer within 300ms".to_owned();
    assert_eq!(attempt().await, DeliveryResult::Uncertain(silent.clone()));
    assert_eq!(receiver.trouble(), Some(silent));
    assert!(matches!(attempt().await, DeliveryResult::Uncertain(_)));
    assert_eq!(attempt().await, DeliveryResult::Retry("its turn did not come in time".to_owned()));
    assert_eq!(world.receiving.got().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_in_use_is_told_and_free_again_when_a_channel_goes() {
    let world = World::start(vec![]).await;
    let again = || setup(None, &world.address.to_string());
    let intake = || Arc::clone(&world.engine) as Arc<dyn Intake>;
    let error = open(again(), intake()).await.err().unwrap();
    assert!(error.starts_with(&format!("it cannot listen on {}: Address already in use", world.address)), "{error}");
    // A caller that stays connected does not keep the address.
    let _caller = TcpStream::connect(world.address).await.unwrap();
    world.webhook.shut_down();
    let (_second, address) = open(again(), intake()).await.unwrap();
    assert_eq!(address, world.address);
}
