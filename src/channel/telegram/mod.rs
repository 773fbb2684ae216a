//! A bot of the Telegram Bot API, by long polling.
//!
//! Inbound (`poll`): an update is confirmed to Telegram, by requesting later ones, only after its content is committed.
//! Updates of one chat are processed in order, different chats in parallel (`in_flight`). After a crash Telegram sends
//! updates again, and Hearth recognizes their message ids. `event` has the mapping.
//!
//! Outbound (`queues`): one queue per chat. Telegram has no idempotency key, so a message may arrive twice if the
//! connection was lost; the second one says so. Of a multi-part message only the missing parts are repeated.
//!
//! If agents are to see more than what is addressed to the bot, the bot needs access to all group messages (privacy
//! mode off). The token is never logged.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::health::Health;
use super::intake::Ingress;
use super::{Channel, Draft};
use crate::model::address::{Address, ChannelName};
use crate::model::backoff::Backoff;
use crate::model::delivery::Delivery;
use crate::model::effect::Fetch;
use crate::model::id::SessionId;
use crate::model::time::{Millis, Timestamp};
use api::Api;
use attachments::AT_ONCE;
use fetch::Fetcher;
use line::ChannelHealth;
use poll::Poller;
use queues::{OutgoingQueues, QueueContext};
use typing::Drafts;

mod api;
mod attachments;
mod event;
mod fetch;
mod hand;
mod identify;
mod in_flight;
mod judge;
mod line;
mod markup;
mod memory;
mod mention;
mod pace;
mod plan;
mod poll;
mod queues;
mod send;
#[cfg(test)]
mod tests;
mod typing;
mod wire;

pub use api::{Failure, Unusable};
pub use identify::{Bot, IdentifyError, identify};
pub use judge::{BotIdentity, Handed, Stretch, read, texts};
pub use line::State;

/// Configuration of a bot.
pub struct Setup {
    /// Name of the channel: the namespace of its chats and people.
    pub name: ChannelName,
    /// The bot's token.
    pub token: String,
    /// Address of the Bot API, if not Telegram's own.
    pub base_url: Option<String>,
    /// Directory that names of outgoing files are relative to.
    pub sessions: PathBuf,
    /// Whether Telegram shows link previews, for which its servers fetch the links in agents' messages.
    pub link_previews: bool,
    /// The wall clock.
    pub now: fn() -> Timestamp,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("name", &self.name).field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

/// Timeouts and pauses.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// How long the server may hold a request for updates.
    poll: Duration,
    /// Time between requests for updates while some are being processed.
    again: Duration,
    /// Pauses after failures.
    pause: Backoff,
    /// Pauses after the server rejected the token, or when another program fetches the updates.
    pause_refused: Backoff,
    /// How long a message may wait for its files. After that it is stored, and Hearth asks for the files.
    files: Duration,
    /// How long a delivery may wait in its queue: a bit less than the engine's time limit of an attempt.
    patience: Duration,
    /// The longest pause that an attempt waits for. A longer one ends it, and the engine is told when the pause is over.
    waits: Duration,
}

impl Times {
    const STANDARD: Self = Self {
        poll: Duration::from_secs(50),
        again: Duration::from_secs(1),
        pause: Backoff::new(Millis::seconds(1), Millis::seconds(30)),
        pause_refused: Backoff::new(Millis::minutes(1), Millis::minutes(10)),
        files: Duration::from_secs(10),
        patience: Duration::from_secs(45),
        waits: Duration::from_secs(2),
    };
}

/// A bot that runs until it is shut down or dropped.
pub struct Telegram {
    queues: Arc<OutgoingQueues>,
    line: Arc<ChannelHealth>,
    fetcher: Arc<Fetcher>,
    poller: AbortHandle,
    drafts: Drafts,
    handle: Handle,
}

/// Starts a bot. It connects automatically, with as many retries as needed, and notifies `intake` once connected.
///
/// # Errors
/// [`Unusable`] if it can never connect.
pub fn start(setup: Setup, intake: Arc<dyn Ingress>, handle: &Handle) -> Result<Arc<Telegram>, Unusable> {
    start_with(setup, intake, handle, Times::STANDARD)
}

fn start_with(
    setup: Setup,
    intake: Arc<dyn Ingress>,
    handle: &Handle,
    times: Times,
) -> Result<Arc<Telegram>, Unusable> {
    let api = Arc::new(Api::new(setup.base_url.as_deref(), &setup.token)?);
    let line = Arc::new(ChannelHealth::new(setup.now));
    let files = Arc::new(Semaphore::new(AT_ONCE));
    let fetcher = Arc::new(Fetcher {
        channel: setup.name.clone(),
        api: Arc::clone(&api),
        intake: Arc::clone(&intake),
        places: Arc::clone(&files),
        in_flight: Mutex::default(),
    });
    let poller = Poller {
        channel: setup.name.clone(),
        api: Arc::clone(&api),
        intake: Arc::clone(&intake),
        line: Arc::clone(&line),
        files,
        times,
    };
    let around = QueueContext {
        channel: setup.name,
        api,
        intake,
        line: Arc::clone(&line),
        sessions: setup.sessions,
        link_previews: setup.link_previews,
    };
    let queues = Arc::new(OutgoingQueues::new(around, times));
    tracing::info!(channel = %queues.channel, "connecting");
    let poller = handle.spawn(poller.run()).abort_handle();
    Ok(Arc::new(Telegram { queues, line, fetcher, poller, drafts: Drafts::default(), handle: handle.clone() }))
}

impl Telegram {
    /// State of the connection to the server.
    #[must_use]
    pub fn state(&self) -> State {
        self.line.state()
    }
}

impl Drop for Telegram {
    fn drop(&mut self) {
        self.shut_down();
    }
}

impl Channel for Telegram {
    fn deliver(&self, delivery: Delivery) {
        self.queues.give(delivery, &self.handle);
    }

    fn fetch(&self, fetch: Fetch) {
        self.fetcher.begin(fetch, &self.handle);
    }

    fn typing(&self, _session: SessionId, at: &Address) {
        if self.line.takes_messages() {
            typing::show(&self.queues.api, at, &self.handle);
        }
    }

    fn shows_drafts(&self, at: &Address) -> bool {
        self.line.takes_messages() && self.drafts.are_possible(at)
    }

    fn draft(&self, at: &Address, draft: Draft<'_>) {
        self.drafts.show(&self.queues.api, at, draft, &self.handle);
    }

    /// Unconfirmed updates are sent again.
    fn stop_taking(&self) {
        self.poller.abort();
    }

    /// A send in progress finishes.
    fn shut_down(&self) {
        self.poller.abort();
        self.fetcher.stop();
        self.queues.stop();
    }

    fn start_link(&self, payload: &str) -> Option<String> {
        let bot = self.line.bot()?;
        Some(format!("https://t.me/{bot}?start={payload}"))
    }

    fn health(&self) -> Health {
        self.line.health()
    }
}

/// Records the connection state, and logs it if it changed.
fn log_line(channel: &ChannelName, line: &ChannelHealth, state: State) {
    if !line.set(state.clone()) {
        return;
    }
    match state {
        State::Connecting => {}
        State::Up => tracing::info!(%channel, "the bot is connected"),
        State::Down { why, sending: true } => tracing::warn!(%channel, %why, "the bot receives no messages"),
        State::Down { why, sending: false } => tracing::error!(%channel, %why, "the bot is off, check its token"),
    }
}
