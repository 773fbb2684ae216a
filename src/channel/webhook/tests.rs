//! A webhook between a bridge that sends requests and a receiver with scripted answers, both over real HTTP.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::channel::intake::{NotTaken, Pending, Pressed};
use crate::model::address::ForeignId;
use crate::model::card::{Card, CardOption, PromptSubject};
use crate::model::content::{Attachment, BlobId, RawJson};
use crate::model::delivery::{Attempt, DeliveryAct};
use crate::model::id::{ApprovalId, BodyId, MessageId, OutboundId, OutgoingId};
use crate::model::input::{InboundEvent, Press};
use crate::model::report::{Outcome, RouteReport};
use crate::model::time::Awake;

mod inbound;
mod outbound;

const SECRET: &str = "what both sides know";

fn noon() -> Timestamp {
    Timestamp::from_millis(1_776_686_400_000)
}

/// Stands in for the engine.
#[derive(Default)]
struct Engine {
    events: Mutex<Vec<InboundEvent>>,
    presses: Mutex<Vec<Press>>,
    outcomes: Mutex<Vec<(OutboundId, DeliveryResult)>>,
    direct: Mutex<Vec<(UserId, Result<ForeignId, String>)>>,
    reachable: Mutex<u32>,
    /// Why nothing is accepted.
    not: Mutex<Option<NotTaken>>,
}

impl Ingress for Engine {
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
            Ok(RouteReport { event: id, chat: None, outcome, reason: None, wirings: vec![], answer: None })
        })
    }

    fn rehearsed(&self, _: InboundEvent) -> Pending<'_, Result<RouteReport, NotTaken>> {
        unreachable!("files come with their message")
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

    fn fetched(&self, _: BodyId, _: Vec<Attachment>) -> Pending<'_, Result<(), NotTaken>> {
        panic!("nothing has to be fetched")
    }

    fn outcome(&self, delivery: OutboundId, attempt: Attempt, result: DeliveryResult) {
        assert_eq!(u64::from(attempt.number), delivery.number(), "it answers what was asked");
        self.outcomes.lock().unwrap().push((delivery, result));
    }

    fn direct_opened(&self, user: UserId, chat: Result<ForeignId, String>) {
        self.direct.lock().unwrap().push((user, chat));
    }

    fn reachable(&self) {
        *self.reachable.lock().unwrap() += 1;
    }
}

/// The receiver's reaction to a request.
enum Answer {
    /// Writes these bytes.
    Bytes(String),
    /// Reads the request and hangs up.
    HangUp,
    /// Reads the request and never answers.
    Nothing,
}

fn status(line: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    Answer::Bytes(format!("HTTP/1.1 {line}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"))
}

fn ok(body: &str) -> Answer {
    status("200 OK", "", body)
}

/// A request that the receiver got.
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
    Key::new(SECRET).unwrap().check(&stamp.0, &stamp.1, &body).unwrap();
    let body = serde_json::from_slice(&body).unwrap();
    // The request is recorded together with taking its answer, so that tests cannot see one without the other.
    let answer = {
        let mut record = record.lock().unwrap();
        record.push(Got { head, body });
        script.lock().unwrap().pop_front().unwrap_or_else(|| ok(""))
    };
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

/// A webhook and its surroundings.
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
    Setup {
        name: name(),
        secret: SECRET.to_owned(),
        base_url,
        listen,
        sessions: PathBuf::new(),
        link_previews: false,
        now: noon,
    }
}

impl World {
    async fn start(answers: Vec<Answer>) -> Self {
        let receiving = Receiving::start(answers).await;
        let engine = Arc::new(Engine::default());
        let sessions = tempfile::tempdir().unwrap();
        let base_url = Some(receiving.url.clone());
        let setup = Setup { sessions: sessions.path().to_owned(), ..setup(base_url, "127.0.0.1:0") };
        let (webhook, address) = open(setup, Arc::clone(&engine) as Arc<dyn Ingress>).await.unwrap();
        Self { webhook, engine, receiving, address, sessions }
    }

    async fn outcome(&self) -> DeliveryResult {
        wait(|| self.engine.outcomes.lock().unwrap().pop()).await.1
    }

    /// Delivers and waits for the outcome.
    async fn deliver(&self, delivery: Delivery) -> DeliveryResult {
        self.webhook.deliver(delivery);
        self.outcome().await
    }

    async fn post(&self, path: &str, body: &[u8]) -> (u16, Value) {
        let (timestamp, signature) = Key::new(SECRET).unwrap().sign(noon(), body);
        let answer = self.post_as(path, &timestamp, &signature, body).await;
        (answer.0, answer.1)
    }

    async fn post_as(&self, path: &str, time: &str, sum: &str, body: &[u8]) -> (u16, Value, Option<String>) {
        let client = crate::http::client(true).unwrap();
        let request = client.post(format!("http://{}{path}", self.address)).body(body.to_vec());
        let response = request.header(TIMESTAMP_NAME, time).header(SIGNATURE_NAME, sum).send().await.unwrap();
        let after = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default(), after)
    }
}

async fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..12_000 {
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

fn card() -> Card {
    let option =
        |label: &str| CardOption { label: label.to_owned(), chosen: label.to_owned(), value: label.to_owned() };
    Card {
        matter: PromptSubject::Approval(ApprovalId::new(4)),
        nonce: 7,
        title: "May they?".to_owned(),
        body: "Ann".to_owned(),
        options: vec![option("Yes"), option("No")],
    }
}

fn delivery(id: u64) -> Delivery {
    Delivery {
        id: OutboundId::new(id),
        key: OutgoingId { id: OutboundId::new(id), epoch: None },
        attempt: Attempt { number: u32::try_from(id).unwrap(), since: Awake::new(1, 0) },
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
async fn an_address_in_use_is_told_and_free_again_when_a_channel_goes() {
    let world = World::start(vec![]).await;
    let again = || setup(None, &world.address.to_string());
    let intake = || Arc::clone(&world.engine) as Arc<dyn Ingress>;
    let error = open(again(), intake()).await.err().unwrap();
    assert!(error.starts_with(&format!("cannot listen on {}: Address already in use", world.address)), "{error}");
    // A caller that stays connected does not keep the address in use.
    let _caller = TcpStream::connect(world.address).await.unwrap();
    world.webhook.shut_down();
    let (_second, address) = open(again(), intake()).await.unwrap();
    assert_eq!(address, world.address);
}
