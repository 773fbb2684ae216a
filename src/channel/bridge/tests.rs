//! A bridge whose process is a scripted peer, over a real socket pair.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc;

use serde_json::{Value, json};

use super::*;
use crate::channel::intake::{NotTaken, Pending, Pressed};
use crate::model::channel::{Capabilities, Cursor, OnUncertain};
use crate::model::content::{Attachment, BlobId, RawJson};
use crate::model::delivery::DeliveryAct;
use crate::model::id::{BodyId, OutgoingId};
use crate::model::input::{InboundEvent, Press};
use crate::model::report::{Outcome, RouteReport};
use crate::model::time::Awake;

/// Stands in for the engine.
#[derive(Default)]
struct Engine {
    events: Mutex<Vec<InboundEvent>>,
    cursors: Mutex<Vec<Cursor>>,
    can: Mutex<Option<Capabilities>>,
    outcomes: Mutex<Vec<(OutboundId, DeliveryResult)>>,
    reachable: Mutex<u32>,
    /// Texts of messages that are put off.
    not_now: Mutex<Vec<String>>,
}

impl Ingress for Engine {
    fn inbound(&self, event: InboundEvent) -> Pending<'_, Result<RouteReport, NotTaken>> {
        Box::pin(async move {
            if event.content.text == "hang" {
                std::future::pending::<()>().await;
            }
            if self.not_now.lock().unwrap().contains(&event.content.text) {
                return Err(NotTaken::Later("full".to_owned()));
            }
            let id = event.platform_message.clone().map(|id| id.to_string()).unwrap_or_default();
            self.events.lock().unwrap().push(event);
            let outcome = Outcome::Routed;
            Ok(RouteReport { event: id, chat: None, outcome, reason: None, wirings: vec![], answer: None })
        })
    }

    fn rehearsed(&self, event: InboundEvent) -> Pending<'_, Result<RouteReport, NotTaken>> {
        self.inbound(event)
    }

    fn cursors(&self) -> Vec<Cursor> {
        self.cursors.lock().unwrap().clone()
    }

    fn store_cursors(&self, cursors: Vec<Cursor>) -> Pending<'_, Result<(), NotTaken>> {
        *self.cursors.lock().unwrap() = cursors;
        Box::pin(async { Ok(()) })
    }

    fn bridge_ready(&self, _: String, can: Capabilities) {
        *self.can.lock().unwrap() = Some(can);
    }

    fn pressed(&self, press: Press) -> Pending<'_, Result<Pressed, NotTaken>> {
        Box::pin(async move { Ok(Pressed { decided: true, text: press.by.to_string() }) })
    }

    fn keep(&self, _: Vec<u8>) -> Pending<'_, Result<Result<BlobId, String>, NotTaken>> {
        Box::pin(async { Ok(Ok(BlobId::of_digest(&[7; 32]))) })
    }

    fn fetched(&self, _: BodyId, _: Vec<Attachment>) -> Pending<'_, Result<(), NotTaken>> {
        panic!("nothing has to be fetched")
    }

    fn outcome(&self, delivery: OutboundId, _: Attempt, result: DeliveryResult) {
        self.outcomes.lock().unwrap().push((delivery, result));
    }

    fn direct_opened(&self, _: UserId, _: Result<ForeignId, String>) {}

    fn reachable(&self) {
        *self.reachable.lock().unwrap() += 1;
    }
}

/// The other end of one process.
struct Peer {
    lines: BufReader<UnixStream>,
    ended: Option<oneshot::Sender<String>>,
}

impl Peer {
    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_default()
    }

    /// The next frame with this key.
    fn frame(&mut self, key: &str) -> Value {
        loop {
            let frame = self.next();
            assert!(!frame.is_null(), "the socket closed before {key}");
            if frame.get(key).is_some() {
                return frame;
            }
        }
    }

    fn send(&mut self, frame: &Value) {
        self.raw(&format!("{frame}\n"));
    }

    fn raw(&mut self, text: &str) {
        self.lines.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn ready(&mut self, capabilities: &Value) -> Value {
        let hello = self.frame("hello");
        self.send(&json!({"ready": {"protocol": 1, "program": "peer 1", "capabilities": capabilities}}));
        hello
    }

    fn die(mut self) {
        drop(self.lines);
        self.ended.take().unwrap().send("signal: 9".to_owned()).unwrap();
    }
}

/// A channel and the processes that it starts.
struct Scene {
    channel: Arc<dyn Channel>,
    engine: Arc<Engine>,
    peers: mpsc::Receiver<Peer>,
    _tokio: tokio::runtime::Runtime,
    directory: tempfile::TempDir,
}

fn scene(times: Times) -> Scene {
    let directory = tempfile::tempdir().unwrap();
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let engine = Arc::<Engine>::default();
    let (setup, peers) = setup(directory.path(), times);
    let channel = start_bridge(setup, Arc::clone(&engine), &tokio);
    Scene { channel, engine, peers, _tokio: tokio, directory }
}

/// A bridge whose processes are the peers.
fn setup(directory: &Path, times: Times) -> (Setup, mpsc::Receiver<Peer>) {
    let (started, peers) = mpsc::channel();
    let started = Mutex::new(started);
    let start = move || {
        let (socket, theirs) = UnixStream::pair().unwrap();
        let (told, ended) = oneshot::channel();
        theirs.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let peer = Peer { lines: BufReader::new(theirs), ended: Some(told) };
        started.lock().unwrap().send(peer).map_err(|error| error.to_string())?;
        Ok(Process { socket, kill: Box::new(|| {}), ended })
    };
    let large = directory.join("large");
    let setup = Setup {
        name: ChannelName::new("net").unwrap(),
        settings: serde_json::Map::new(),
        secrets: BTreeMap::from([("token".to_owned(), "hush".to_owned())]),
        files: directory.to_owned(),
        sessions: directory.to_owned(),
        link_previews: false,
        now: || Timestamp::from_millis(1_776_686_400_000),
        start: Arc::new(start),
        space: Arc::new(move || if large.exists() { Err("its files are too large".to_owned()) } else { Ok(()) }),
        times,
    };
    (setup, peers)
}

fn start_bridge(setup: Setup, engine: Arc<Engine>, tokio: &tokio::runtime::Runtime) -> Arc<dyn Channel> {
    super::start(setup, engine, tokio.handle())
}

const QUICK: Times =
    Times { restart: Backoff::new(Millis::new(10), Millis::new(20)), changed: Millis::minutes(10), ..Times::USUAL };

impl Scene {
    fn peer(&self) -> Peer {
        self.peers.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    fn wait<T>(&self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        for _ in 0..1_000 {
            if let Some(found) = look(self) {
                return found;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("waited for {what}: {:?}", self.channel.health());
    }

    fn wait_line(&self, line: LineState) -> Health {
        self.wait("its state", |scene| Some(scene.channel.health()).filter(|health| health.state == line))
    }

    fn outcomes(&self, count: usize) -> Vec<(OutboundId, DeliveryResult)> {
        self.wait("outcomes", |scene| {
            let outcomes = scene.engine.outcomes.lock().unwrap();
            (outcomes.len() >= count).then(|| outcomes.clone())
        })
    }

    fn deliver(&self, number: u64, attempt: u32) {
        let id = OutboundId::new(number);
        self.channel.deliver(Delivery {
            id,
            key: OutgoingId { epoch: None, id },
            attempt: Attempt { number: attempt, since: Awake::new(1, 1) },
            to: address(&format!("c{number}")),
            act: DeliveryAct::Say,
            repeated: false,
            speaker: None,
            in_reply_to: None,
            text: format!("text {number}"),
            content: RawJson::trusted("{}".to_owned()),
            files: Vec::new(),
        });
    }
}

fn address(chat: &str) -> Address {
    let platform_id = ForeignId::new("id", chat).unwrap();
    Address { channel: ChannelName::new("net").unwrap(), platform_id, thread: None }
}

fn frame_of(id: &str) -> hearth_bridge::Deliver {
    let frame = json!({"id": id, "attempt": 1, "act": "say", "platformId": "c", "threadId": null, "text": "x",
                       "card": null, "messageId": null, "files": [], "repeated": false, "speaker": null,
                       "linkPreviews": false, "within": 50});
    serde_json::from_value(frame).unwrap()
}

fn event(seq: u64, text: &str) -> Value {
    json!({"event": {"platformId": "c", "sender": {"id": "ann", "verified": true},
                     "message": {"id": text, "content": {"text": text}}}, "seq": seq, "cursors": {"since": text}})
}

#[test]
fn messages_are_confirmed_with_their_cursors_and_none_overtakes_one_that_was_put_off() {
    let scene = scene(QUICK);
    scene.engine.not_now.lock().unwrap().push("a".to_owned());
    let mut peer = scene.peer();
    let hello = peer.ready(&json!({"idempotency": {"kind": "window", "seconds": 9}, "edits": true}));
    assert_eq!((&hello["hello"]["secrets"]["token"], &hello["hello"]["channel"]), (&json!("hush"), &json!("net")));
    scene.wait_line(LineState::Up);
    let can = scene.engine.can.lock().unwrap().unwrap();
    assert!(can.edits && can.on_uncertain == OnUncertain::SendAgainWithin(Millis::seconds(9)), "{can:?}");
    for (seq, text, expected) in [(1, "a", "later"), (2, "b", "later")] {
        peer.send(&event(seq, text));
        assert_eq!(peer.frame(expected)[expected], seq);
    }
    scene.engine.not_now.lock().unwrap().clear();
    for (seq, text, expected) in [(3, "b", "later"), (4, "a", "taken"), (5, "b", "taken")] {
        peer.send(&event(seq, text));
        assert_eq!(peer.frame(expected)[expected], seq, "{text}");
    }
    let events = scene.engine.events.lock().unwrap();
    let texts: Vec<_> =
        events.iter().map(|event| (event.content.text.as_str(), event.cursors[0].value.as_str())).collect();
    assert_eq!(texts, [("a", "a"), ("b", "b")]);
    assert_eq!(events[0].content.sender.as_ref().unwrap().as_str(), "ann");
}

#[test]
fn what_had_begun_is_uncertain_and_everything_else_was_not_sent() {
    let scene = scene(QUICK);
    let mut peer = scene.peer();
    peer.ready(&json!({}));
    scene.wait_line(LineState::Up);
    (1..=3).for_each(|number| scene.deliver(number, 1));
    scene.deliver(1, 2);
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(peer.frame("deliver")["deliver"]["id"].as_str().unwrap().to_owned());
    }
    ids.sort();
    assert_eq!(ids, ["mo1", "mo2", "mo3"], "the repeated one is under way");
    peer.send(&json!({"begun": {"id": "mo1", "attempt": 1}}));
    peer.send(&json!({"begun": {"id": "mo2", "attempt": 1}}));
    peer.send(&json!({"outcome": {"id": "mo2", "attempt": 1, "result": "delivered", "messageId": "x"}}));
    peer.send(&json!({"outcome": {"id": "mo99", "attempt": 1, "result": "delivered"}}));
    scene.outcomes(1);
    peer.die();
    let mut outcomes = scene.outcomes(3);
    outcomes.sort_by_key(|(id, _)| id.number());
    let kinds: Vec<_> = outcomes.iter().map(|(_, result)| result).collect();
    assert!(matches!(kinds[0], DeliveryResult::Uncertain(_)), "{kinds:?}");
    assert!(
        matches!(kinds[1], DeliveryResult::Delivered { platform_message: Some(id) } if id.as_str() == "x"),
        "{kinds:?}"
    );
    assert!(matches!(kinds[2], DeliveryResult::Retry(_)), "{kinds:?}");
    // Until it is ready again, messages wait.
    scene.deliver(4, 1);
    assert!(matches!(scene.outcomes(4)[3].1, DeliveryResult::NoAdapter));
    let before = *scene.engine.reachable.lock().unwrap();
    scene.peer().ready(&json!({}));
    scene.wait("the queues to be tried", |scene| (*scene.engine.reachable.lock().unwrap() > before).then_some(()));
}

#[test]
fn a_bridge_that_breaks_the_protocol_is_ended() {
    // The engine takes its time with the first one.
    let many: String = (0..70).map(|seq| format!("{}\n", event(seq, "hang"))).collect();
    for (bad, expected) in [
        ("{\"x\":".to_owned() + &"[".repeat(200) + "\n", "deeper than 100 levels"),
        ("nonsense\n".to_owned(), "not a JSON object"),
        ("x".repeat(1 << 20), "longer than"),
        ("{\"outcome\":{\"id\":1}}\n".to_owned(), "`outcome` is not usable"),
        (many, "without waiting for an answer"),
    ] {
        let scene = scene(Times { restart: Backoff::new(Millis::minutes(1), Millis::minutes(1)), ..QUICK });
        let mut peer = scene.peer();
        peer.ready(&json!({}));
        scene.wait_line(LineState::Up);
        // The socket may close before everything is written.
        drop(peer.lines.get_mut().write_all(bad.as_bytes()));
        drop(peer.ended.take());
        let health = scene.wait_line(LineState::Down);
        let why = health.failure.unwrap();
        assert!(why.contains(expected), "{expected}: {why}");
    }
}

#[test]
fn a_bridge_that_cannot_work_is_believed_and_one_that_is_silent_is_ended() {
    let scene = scene(Times { ping: Duration::from_millis(50), end: Duration::from_millis(100), ..QUICK });
    let mut peer = scene.peer();
    peer.frame("hello");
    peer.send(&json!({"failed": {"why": "the token\nis wrong", "until": "changed"}}));
    drop(peer);
    let health = scene.wait_line(LineState::Refused);
    assert_eq!(health.failure.as_deref(), Some("the token is wrong"));
    assert!(health.next_try.is_some());
    drop(scene);

    let scene = self::scene(Times { ping: Duration::from_millis(50), end: Duration::from_millis(100), ..QUICK });
    let mut peer = scene.peer();
    peer.ready(&json!({}));
    for _ in 0..3 {
        let ping = peer.frame("ping")["ping"].clone();
        peer.send(&json!({"pong": ping, "heard": "2026-01-01T00:00:00Z", "down": "no network"}));
    }
    let health = scene.wait_line(LineState::Down);
    assert_eq!(health.failure.as_deref(), Some("no network"));
    assert!(health.last_contact.is_some());
    drop(peer.ended.take());
    // It reads and says nothing more: another process takes its place.
    scene.peer().frame("hello");
}

/// It answers pings, so only its deliveries show that it does nothing.
#[test]
fn a_bridge_that_reports_no_outcomes_is_started_again() {
    let scene = scene(Times { attempt: Duration::from_millis(50), ..QUICK });
    let mut peer = scene.peer();
    peer.ready(&json!({}));
    scene.wait_line(LineState::Up);
    // One that reports is left alone, however often it is late.
    for number in 1..=6 {
        scene.deliver(number, 1);
        peer.frame("deliver");
        if number % 2 == 0 {
            peer.send(&json!({"outcome": {"id": format!("mo{number}"), "attempt": 1, "result": "delivered"}}));
        }
        scene.outcomes(usize::try_from(number).unwrap());
    }
    assert_eq!(scene.channel.health().state, LineState::Up);
    (7..=9).for_each(|number| scene.deliver(number, 1));
    // Its socket closes.
    while !peer.next().is_null() {}
    drop(peer.ended.take());
    let mut peer = scene.peer();
    peer.ready(&json!({}));
    // The next process has shown nothing yet.
    let is_unproven = |health: &Health| health.state == LineState::Down && health.next_try.is_none();
    let health = scene.wait("the reason", |scene| Some(scene.channel.health()).filter(is_unproven));
    assert!(health.failure.unwrap().contains("what became of the last 3 messages"));
    scene.deliver(10, 1);
    peer.frame("deliver");
    peer.send(&json!({"outcome": {"id": "mo10", "attempt": 1, "result": "delivered"}}));
    scene.wait_line(LineState::Up);
}

/// Each process is ready for a moment, so that the channel would look well whenever the daemon looks.
#[test]
fn a_bridge_that_ends_again_and_again_counts_as_down_while_it_runs() {
    let scene = scene(QUICK);
    for count in 0..=CRASHES_MAX {
        let mut peer = scene.peer();
        peer.ready(&json!({}));
        assert_eq!(scene.wait_line(LineState::Up).failure, None, "after {count} ends");
        peer.die();
    }
    let mut peer = scene.peer();
    peer.ready(&json!({}));
    scene.wait("it to be ready", |scene| (*scene.engine.reachable.lock().unwrap() > 11).then_some(()));
    let health = scene.channel.health();
    assert_eq!(health.state, LineState::Down);
    let why = health.failure.unwrap();
    assert!(why.contains("more than 10 times within 10 minutes") && why.contains("signal: 9"), "{why}");
    // It is believed again when it has lived long enough.
    let scene = self::scene(Times { crashes: Duration::from_millis(300), ..QUICK });
    (0..=CRASHES_MAX).for_each(|_| scene.peer().die());
    let mut peer = scene.peer();
    peer.ready(&json!({}));
    scene.wait_line(LineState::Up);
}

#[test]
fn a_bridge_whose_files_are_too_large_is_ended_with_the_reason() {
    let again = Backoff::new(Millis::minutes(1), Millis::minutes(1));
    let scene = scene(Times { space: Duration::from_millis(20), restart: again, ..QUICK });
    let mut peer = scene.peer();
    peer.ready(&json!({}));
    scene.wait_line(LineState::Up);
    std::fs::write(scene.directory.path().join("large"), "").unwrap();
    drop(peer.ended.take());
    assert_eq!(scene.wait_line(LineState::Down).failure.as_deref(), Some("its files are too large"));
}

/// The frame of a delivery is made in a task. When it is done, another process may be ready, to which the engine gives
/// the delivery as a new one.
#[test]
fn no_process_is_given_a_delivery_of_an_earlier_one() {
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let (setup, _peers) = setup(Path::new("/nowhere"), QUICK);
    let shared = shared(setup, Arc::<Engine>::default(), tokio.handle());
    let (out, mut frames) = tokio::sync::mpsc::unbounded_channel();
    shared.lock().out = Some(out);
    let (id, to) = (OutboundId::new(1), address("c"));
    let attempt = Attempt { number: 2, since: Awake::new(1, 1) };
    let pending = super::Pending { id, to, attempt, begun: false, late: false, number: 8 };
    shared.lock().pending.insert("mo1".to_owned(), pending);
    let mut handed = |id: &str, number| {
        let handed = outbound::hand_over(&shared, frame_of(id), number);
        assert_eq!(frames.try_recv().is_ok(), handed);
        handed
    };
    assert!(!handed("mo1", 7), "an earlier process had this one");
    assert!(!handed("mo2", 8));
    assert!(handed("mo1", 8));
}

#[test]
fn shutting_down_asks_first() {
    let scene = scene(QUICK);
    let mut peer = scene.peer();
    peer.ready(&json!({}));
    scene.wait_line(LineState::Up);
    scene.channel.stop_taking();
    peer.frame("stopTaking");
    scene.deliver(1, 1);
    peer.frame("deliver");
    scene.channel.shut_down();
    assert_eq!(peer.frame("shutDown")["shutDown"]["within"], 5);
    peer.send(&json!({"outcome": {"id": "mo1", "attempt": 1, "result": "rejected", "why": "no"}}));
    assert!(matches!(&scene.outcomes(1)[0].1, DeliveryResult::Rejected(why) if why == "no"));
    peer.die();
    assert!(scene.peers.recv_timeout(Duration::from_millis(300)).is_err(), "it is not started again");
}
