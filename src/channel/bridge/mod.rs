//! The bridge channel: a supervised program connects Hearth with a network, in JSON lines over a socket pair.
//!
//! `life` starts the program again and again; `session` is one process of it; `inbound` and `outbound` translate. What a
//! process had begun when it ended is uncertain, everything else was certainly not sent. `docs/bridges.md` describes
//! the protocol. Everything that a bridge says is bounded, and nothing of it is trusted but what the contract says: it
//! speaks for its own channel only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hearth_bridge::{Named, Place, ToBridge};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

use super::Channel;
use super::health::{Health, LastContact, LineState};
use super::intake::Ingress;
use crate::model::address::{Address, ChannelName, ForeignId, UserId};
use crate::model::backoff::Backoff;
use crate::model::delivery::{Attempt, Delivery, DeliveryResult};
use crate::model::id::{OutboundId, SessionId};
use crate::model::time::{Millis, Timestamp};

mod inbound;
mod life;
mod outbound;
mod session;
#[cfg(test)]
mod tests;

/// Deliveries that may be with a bridge at once. Hearth sends one at a time to each address.
const PENDING_MAX: usize = 1_024;
/// Deliveries in a row that may end without an outcome. After that the bridge counts as deaf.
const UNHEARD_MAX: u32 = 3;
/// Ends of a bridge within [`Times::crashes`] after which it counts as down, also while it runs.
const CRASHES_MAX: usize = 10;
/// Questions for direct chats that may be with a bridge at once.
const OPENING_MAX: usize = 64;

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Until a bridge is ready.
    pub ready: Duration,
    /// Between two pings. After two without an answer the bridge is ended.
    pub ping: Duration,
    /// Until the outcome of a delivery; less than the engine's limit of an attempt.
    pub attempt: Duration,
    /// Until a bridge that is asked to has ended.
    pub end: Duration,
    /// Between two looks at the space that its files take.
    pub space: Duration,
    /// Before a bridge that ended is started again.
    pub restart: Backoff,
    /// Before a bridge is started again that waits for changed settings.
    pub changed: Millis,
    /// For how long the end of a bridge counts.
    pub crashes: Duration,
}

impl Times {
    /// Waits of the daemon.
    pub const USUAL: Self = Self {
        ready: Duration::from_secs(30),
        ping: Duration::from_secs(20),
        attempt: Duration::from_secs(50),
        end: Duration::from_secs(5),
        space: Duration::from_secs(5),
        restart: Backoff::new(Millis::seconds(1), Millis::minutes(1)),
        changed: Millis::minutes(10),
        crashes: Duration::from_mins(10),
    };
}

/// A process of a bridge.
pub struct Process {
    /// The daemon's end of its socket.
    pub socket: std::os::unix::net::UnixStream,
    /// Ends it with everything that it started.
    pub kill: Box<dyn Fn() + Send + Sync>,
    /// How it ended, for people, when nothing of it is left.
    pub ended: oneshot::Receiver<String>,
}

/// Starts a process of a bridge. Blocks.
pub type Starter = Arc<dyn Fn() -> Result<Process, String> + Send + Sync>;

/// Looks at the space that a bridge's files take: why that is too much, for people. Blocks.
pub type Space = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Configuration of a bridge.
pub struct Setup {
    /// Name of the channel: the namespace of its chats and people.
    pub name: ChannelName,
    /// What the bridge is told, as it is.
    pub settings: serde_json::Map<String, serde_json::Value>,
    /// Its token and secret.
    pub secrets: BTreeMap<String, String>,
    /// Directory for files of both directions.
    pub files: PathBuf,
    /// Directory that names of outgoing files are relative to.
    pub sessions: PathBuf,
    /// Whether the network may show previews of links.
    pub link_previews: bool,
    /// The wall clock.
    pub now: fn() -> Timestamp,
    /// Starts its program.
    pub start: Starter,
    /// The bound of its files.
    pub space: Space,
    /// How long things may take.
    pub times: Times,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What the tasks of a bridge share.
struct Shared {
    setup: Setup,
    intake: Arc<dyn Ingress>,
    contact: LastContact,
    state: Mutex<State>,
    taking: watch::Sender<bool>,
    closed: watch::Sender<bool>,
    /// Whether the process reports no outcomes.
    deaf: watch::Sender<bool>,
    tokio: Handle,
}

/// The state of a bridge.
struct State {
    line: LineState,
    why: Option<String>,
    next_try: Option<Timestamp>,
    /// To the process, while it is ready.
    out: Option<mpsc::UnboundedSender<Vec<u8>>>,
    /// What the process has to deliver, by the id that it knows.
    pending: BTreeMap<String, Pending>,
    /// Whose direct chats it was asked for.
    opening: BTreeMap<u64, UserId>,
    /// Addresses to which nothing is sent for now.
    held: BTreeSet<Address>,
    /// The last number of a question or a delivery.
    last: u64,
    /// Deliveries that ended without an outcome since the last outcome, of any process.
    unheard: u32,
    /// Processes that ended by themselves within [`Times::crashes`].
    crashes: usize,
    /// Why the last one did.
    crash: String,
}

/// A delivery that a process has.
struct Pending {
    id: OutboundId,
    to: Address,
    /// The newest attempt, which the outcome is for.
    attempt: Attempt,
    /// Whether something may have left.
    begun: bool,
    /// Whether the attempt was given up, so that the next one is sent again.
    late: bool,
    /// Distinguishes deliveries with the same id.
    number: u64,
}

impl State {
    /// Why it counts as down, although it may run: it ends again and again.
    fn crashing(&self, within: Duration) -> Option<String> {
        let minutes = within.as_secs() / 60;
        let why = || {
            format!("it ended more than {CRASHES_MAX} times within {minutes} minutes; the last time: {}", self.crash)
        };
        (self.crashes > CRASHES_MAX).then(why)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, line: LineState, why: Option<String>, next_try: Option<Timestamp>) {
        let mut state = self.lock();
        (state.line, state.why, state.next_try) = (line, why, next_try);
    }

    /// Ends everything that a process had to do, as it certainly or possibly was done.
    fn settle(&self) {
        let mut state = self.lock();
        state.out = None;
        let pending = std::mem::take(&mut state.pending);
        let opening = std::mem::take(&mut state.opening);
        drop(state);
        for pending in pending.into_values().filter(|pending| !pending.late) {
            let result = if pending.begun {
                DeliveryResult::Uncertain("the bridge ended before it reported an outcome".to_owned())
            } else {
                DeliveryResult::Retry("the bridge ended before it began".to_owned())
            };
            self.intake.outcome(pending.id, pending.attempt, result);
        }
        for user in opening.into_values() {
            self.intake.direct_opened(user, Err("the bridge ended".to_owned()));
        }
    }

    /// A process ended by itself, which counts for a while.
    fn crashed(self: &Arc<Self>, why: &str) {
        let mut state = self.lock();
        why.clone_into(&mut state.crash);
        state.crashes += 1;
        drop(state);
        let (shared, within) = (Arc::downgrade(self), self.setup.times.crashes);
        self.tokio.spawn(async move {
            tokio::time::sleep(within).await;
            shared.upgrade().into_iter().for_each(|shared| shared.lock().crashes -= 1);
        });
    }

    fn send(&self, frame: &ToBridge) -> bool {
        self.lock().out.as_ref().is_some_and(|out| out.send(frame.line()).is_ok())
    }
}

/// A channel with a bridge.
struct Bridge(Arc<Shared>);

/// Starts a bridge. It is started again until it is shut down.
#[must_use]
pub fn start(setup: Setup, intake: Arc<dyn Ingress>, tokio: &Handle) -> Arc<dyn Channel> {
    let shared = shared(setup, intake, tokio);
    tokio.spawn(life::keep(Arc::clone(&shared)));
    Arc::new(Bridge(shared))
}

fn shared(setup: Setup, intake: Arc<dyn Ingress>, tokio: &Handle) -> Arc<Shared> {
    let state = State {
        line: LineState::Connecting,
        why: None,
        next_try: None,
        out: None,
        pending: BTreeMap::new(),
        opening: BTreeMap::new(),
        held: BTreeSet::new(),
        last: 0,
        unheard: 0,
        crashes: 0,
        crash: String::new(),
    };
    Arc::new(Shared {
        setup,
        intake,
        contact: LastContact::new(),
        state: Mutex::new(state),
        taking: watch::Sender::new(true),
        closed: watch::Sender::new(false),
        deaf: watch::Sender::new(false),
        tokio: tokio.clone(),
    })
}

impl Channel for Bridge {
    fn deliver(&self, delivery: Delivery) {
        outbound::deliver(&self.0, delivery);
    }

    fn open_direct(&self, user: UserId) {
        let mut state = self.0.lock();
        let handle = user.handle().as_str().to_owned();
        let is_up = state.out.is_some() && state.opening.len() < OPENING_MAX;
        if !is_up {
            drop(state);
            self.0.intake.direct_opened(user, Err("the bridge does not run".to_owned()));
            return;
        }
        state.last += 1;
        let seq = state.last;
        state.opening.insert(seq, user);
        drop(state);
        self.0.send(&ToBridge::OpenDirect { open_direct: Named { user_id: handle }, seq });
    }

    fn subscribe(&self, thread: &Address) {
        self.0.send(&ToBridge::Subscribe { subscribe: place(thread) });
    }

    fn health(&self) -> Health {
        let state = self.0.lock();
        let last_contact = self.0.contact.get();
        if state.line == LineState::Up && state.unheard >= UNHEARD_MAX {
            // Another process runs since then, and has to prove itself.
            let failure = Some(outbound::unheard(state.unheard));
            return Health { state: LineState::Down, last_contact, next_try: None, failure };
        }
        if let Some(why) = state.crashing(self.0.setup.times.crashes) {
            return Health { state: LineState::Down, last_contact, next_try: state.next_try, failure: Some(why) };
        }
        Health { state: state.line, last_contact, next_try: state.next_try, failure: state.why.clone() }
    }

    fn stop_taking(&self) {
        self.0.taking.send_replace(false);
    }

    fn shut_down(&self) {
        self.0.closed.send_replace(true);
    }

    fn typing(&self, _session: SessionId, at: &Address) {
        self.0.send(&ToBridge::Typing { typing: place(at) });
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.shut_down();
    }
}

fn place(at: &Address) -> Place {
    Place {
        platform_id: at.platform_id.as_str().to_owned(),
        thread_id: at.thread.as_ref().map(ForeignId::as_str).map(str::to_owned),
    }
}
