//! The adapter against a server that speaks the Bot API and has the faults of real ones.

use std::collections::VecDeque;
use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::super::health::{Health, LineState};
use super::super::intake::{NotTaken, Pending, Pressed};
use super::*;
use crate::model::address::{ForeignId, UserId};
use crate::model::backoff::Backoff;
use crate::model::card::{Button, Card, CardOption, PromptSubject};
use crate::model::content::{Attachment, BlobId, FileBytes, RawJson};
use crate::model::delivery::{Attempt, DeliveryAct, DeliveryResult};
use crate::model::id::{ApprovalId, BodyId, OutboundId, OutgoingId};
use crate::model::input::{InboundEvent, Press};
use crate::model::report::{Outcome, RouteReport};
use crate::model::time::Awake;
use crate::model::time::Millis;
use fake::{Call, FakeTelegram, Fault, TOKEN};

#[path = "../../../tests/it/host/fake_telegram.rs"]
mod fake;

mod identity;
mod inbound;
mod outbound;
mod secret;

/// Everything that the fake intake received, and its replies.
#[derive(Default)]
struct Heard {
    events: Vec<InboundEvent>,
    presses: Vec<Press>,
    kept: Vec<Vec<u8>>,
    fetched: Vec<(BodyId, Vec<Attachment>)>,
    outcomes: Vec<(Attempt, DeliveryResult)>,
    reachable: usize,
    /// Errors returned for the next events and presses.
    refusals: VecDeque<NotTaken>,
    full: Option<String>,
    /// A chat whose messages no agent receives.
    unheard: Option<&'static str>,
    /// A chat whose messages wait for an approval.
    holding: Option<&'static str>,
}

#[derive(Default)]
struct Ears(Mutex<Heard>);

impl Ingress for Ears {
    fn inbound(&self, event: InboundEvent) -> Pending<'_, Result<RouteReport, NotTaken>> {
        let mut heard = self.0.lock().unwrap();
        let refusal = heard.refusals.pop_front();
        let id = event.platform_message.as_ref().unwrap().to_string();
        if refusal.is_none() {
            heard.events.push(event);
        }
        let report = RouteReport {
            event: id,
            chat: None,
            outcome: Outcome::Routed,
            reason: None,
            wirings: vec![],
            answer: None,
        };
        Box::pin(async move { refusal.map_or(Ok(report), Err) })
    }

    fn rehearsed(&self, event: InboundEvent) -> Pending<'_, Result<RouteReport, NotTaken>> {
        let heard = self.0.lock().unwrap();
        let outcome = match Some(event.source.platform_id.as_str()) {
            chat if chat == heard.unheard => Outcome::Dropped,
            chat if chat == heard.holding => Outcome::Held,
            _ => Outcome::Routed,
        };
        let report =
            RouteReport { event: String::new(), chat: None, outcome, reason: None, wirings: vec![], answer: None };
        Box::pin(async move { Ok(report) })
    }

    fn pressed(&self, press: Press) -> Pending<'_, Result<Pressed, NotTaken>> {
        let mut heard = self.0.lock().unwrap();
        let refusal = heard.refusals.pop_front();
        if refusal.is_none() {
            heard.presses.push(press);
        }
        let decided = heard.presses.len() == 1;
        let text = if decided { "Allowed." } else { "Someone was faster." };
        Box::pin(async move { refusal.map_or(Ok(Pressed { decided, text: text.into() }), Err) })
    }

    fn keep(&self, bytes: Vec<u8>) -> Pending<'_, Result<Result<BlobId, String>, NotTaken>> {
        let mut heard = self.0.lock().unwrap();
        let full = heard.full.clone();
        let blob = BlobId::parse(&format!("{:064x}", bytes.len())).unwrap();
        heard.kept.push(bytes);
        Box::pin(async move { full.map_or(Ok(Ok(blob)), |full| Err(NotTaken::Later(full))) })
    }

    fn fetched(&self, body: BodyId, files: Vec<Attachment>) -> Pending<'_, Result<(), NotTaken>> {
        self.0.lock().unwrap().fetched.push((body, files));
        Box::pin(async { Ok(()) })
    }

    fn outcome(&self, _: OutboundId, attempt: Attempt, result: DeliveryResult) {
        self.0.lock().unwrap().outcomes.push((attempt, result));
    }

    fn direct_opened(&self, _user: UserId, _chat: Result<ForeignId, String>) {
        panic!("nobody asks for it");
    }

    fn reachable(&self) {
        self.0.lock().unwrap().reachable += 1;
    }
}

/// A bot, its server, and a directory with files.
struct Bench {
    server: FakeTelegram,
    ears: Arc<Ears>,
    bot: Option<Arc<Telegram>>,
    sessions: tempfile::TempDir,
    link_previews: bool,
    runtime: Runtime,
}

/// The time of the wall clock.
const NOW: i64 = 1_700_000_000_000;
/// An address without a listener.
const NOBODY: &str = "http://127.0.0.1:9";

/// Pauses short enough for tests, and the patience of a slow machine.
const QUICK: Times = Times {
    poll: Duration::from_secs(20),
    again: Duration::from_millis(50),
    pause: Backoff::new(Millis::new(20), Millis::new(100)),
    pause_refused: Backoff::new(Millis::new(50), Millis::new(500)),
    files: Duration::from_secs(40),
    patience: Duration::from_secs(40),
    waits: Duration::from_secs(40),
};

impl Bench {
    /// A bot whose server is up.
    fn up() -> Self {
        Self::with(QUICK)
    }

    /// The same, with other durations.
    fn with(times: Times) -> Self {
        let bench = Self::begin(FakeTelegram::start(), None, times);
        bench.until("the bot is connected", || bench.heard(|heard| heard.reachable > 0));
        bench
    }

    fn at(server: FakeTelegram, url: Option<String>) -> Self {
        Self::begin(server, url, QUICK)
    }

    fn begin(server: FakeTelegram, url: Option<String>, times: Times) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (ears, sessions) = (Arc::<Ears>::default(), tempfile::tempdir().unwrap());
        let mut bench = Self { server, ears, bot: None, sessions, link_previews: false, runtime };
        bench.start(url, times);
        bench
    }

    /// Starts the bot, again if there was one.
    fn start(&mut self, url: Option<String>, times: Times) {
        self.bot = None;
        let setup = Setup {
            name: ChannelName::new("telegram").unwrap(),
            token: TOKEN.to_owned(),
            base_url: Some(url.unwrap_or_else(|| self.server.url())),
            sessions: self.sessions.path().to_owned(),
            link_previews: self.link_previews,
            now: || Timestamp::from_millis(NOW),
        };
        let ears = Arc::clone(&self.ears);
        self.bot = Some(start_with(setup, ears, self.runtime.handle(), times).unwrap());
    }

    fn bot(&self) -> &Telegram {
        self.bot.as_ref().unwrap()
    }

    fn heard<T>(&self, look: impl FnOnce(&mut Heard) -> T) -> T {
        look(&mut self.ears.0.lock().unwrap())
    }

    /// Waits for a condition that must become true.
    fn until(&self, what: &str, happened: impl Fn() -> bool) {
        for _ in 0..24_000 {
            if happened() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("{what}: not in 120 s; {:?}", self.bot.as_ref().map(|bot| bot.state()));
    }

    /// Delivers and waits for the outcome.
    fn deliver(&self, delivery: Delivery) -> DeliveryResult {
        let before = self.heard(|heard| heard.outcomes.len());
        self.bot().deliver(delivery);
        self.outcome(before)
    }

    /// Waits for the outcome with this position.
    fn outcome(&self, at: usize) -> DeliveryResult {
        self.until("an outcome", || self.heard(|heard| heard.outcomes.len() > at));
        self.heard(|heard| heard.outcomes[at].1.clone())
    }

    /// Calls of a method.
    fn calls(&self, method: &str) -> Vec<Call> {
        self.server.calls(method)
    }

    /// Ids of the received messages, in order.
    fn taken(&self) -> Vec<String> {
        self.heard(|heard| heard.events.iter().map(|e| e.platform_message.as_ref().unwrap().to_string()).collect())
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.bot = None;
    }
}

fn id(text: impl ToString) -> ForeignId {
    ForeignId::new("id", text.to_string()).unwrap()
}

fn at(chat: i64) -> Address {
    Address { channel: ChannelName::new("telegram").unwrap(), platform_id: id(chat), thread: None }
}

fn delivery(number: u64, act: DeliveryAct, text: &str) -> Delivery {
    Delivery {
        id: OutboundId::new(number),
        key: OutgoingId { id: OutboundId::new(number), epoch: None },
        attempt: Attempt { number: 1, since: Awake::new(1, 0) },
        to: at(123),
        act,
        repeated: false,
        speaker: Some("main".into()),
        in_reply_to: None,
        text: text.into(),
        content: RawJson::trusted("{}".into()),
        files: vec![],
    }
}

fn say(number: u64, text: &str) -> Delivery {
    delivery(number, DeliveryAct::Say, text)
}

fn delivered(message: i64) -> DeliveryResult {
    DeliveryResult::Delivered { platform_message: Some(id(message)) }
}

/// A message of Ann.
fn message(chat: i64, number: i64, text: &str) -> Value {
    json!({"message": {
        "message_id": number, "date": 1_700_000_000, "text": text,
        "from": {"id": 123, "is_bot": false, "first_name": "Ann"},
        "chat": {"id": chat, "type": if chat > 0 { "private" } else { "group" }, "title": "T"},
    }})
}

fn card() -> Card {
    let option = |label: &str| CardOption { label: label.into(), chosen: format!("{label}!"), value: label.into() };
    Card {
        matter: PromptSubject::Approval(ApprovalId::new(12)),
        nonce: 0xbeef,
        title: "New sender".into(),
        body: "Allow?".into(),
        options: vec![option("Allow"), option("Deny")],
    }
}
