//! A bot of the Telegram Bot API, by long polling.
//!
//! Inbound (`poll`): an update is confirmed to Telegram, by asking for later ones, only after what it says is committed.
//! Updates of one chat are taken in one after the other, chats beside each other (`under_way`); a crash makes updates come
//! again, and their message ids are known then. `event` has the mapping.
//!
//! Outbound (`lanes`): one queue per chat. Telegram takes no idempotency key, so a message whose connection was lost may be
//! there twice: the second one says so. Of a message in several parts only the parts that are missing are sent again.
//!
//! The bot has to be allowed to read what is said in groups (privacy mode off) if agents are to hear more than what is meant
//! for it. The token is never logged.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::Channel;
use super::intake::Intake;
use crate::model::address::{Address, ChannelName};
use crate::model::delivery::Delivery;
use crate::model::id::SessionId;
use api::Api;
use lanes::{Around, Lanes};
use line::Line;
use poll::Poller;

mod api;
mod attachments;
mod event;
mod hand;
mod judge;
mod lanes;
mod line;
mod markup;
mod memory;
mod mention;
mod pace;
mod plan;
mod poll;
mod send;
#[cfg(test)]
mod tests;
mod typing;
mod under_way;
mod wire;

pub use api::Unusable;
pub use judge::{Handed, Heard, Stretch, read, texts};
pub use line::State;

/// What a bot needs to know.
pub struct Setup {
    /// Name of the channel: the namespace of its chats and people.
    pub name: ChannelName,
    /// The bot's token.
    pub token: String,
    /// Where the Bot API is, if not at Telegram.
    pub base_url: Option<String>,
    /// Directory to which the names of files to send are relative.
    pub sessions: PathBuf,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("name", &self.name).field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

/// Lengths of time.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// How long the server may keep a question for updates.
    poll: Duration,
    /// Time after which updates are asked for again while some are being taken in.
    again: Duration,
    /// The first pause after a failure; doubles.
    pause: Duration,
    /// The longest pause after a failure.
    pause_max: Duration,
    /// The first pause after the server did not take the token, or somebody else takes the updates; doubles, up to ten
    /// times as much.
    pause_refused: Duration,
    /// How long a delivery may wait for its turn, a bit less than what the engine grants an attempt.
    patience: Duration,
}

impl Times {
    const STANDARD: Self = Self {
        poll: Duration::from_secs(50),
        again: Duration::from_secs(1),
        pause: Duration::from_secs(1),
        pause_max: Duration::from_secs(30),
        pause_refused: Duration::from_secs(60),
        patience: Duration::from_secs(45),
    };
}

/// A bot that runs until it is shut down or dropped.
pub struct Telegram {
    lanes: Arc<Lanes>,
    line: Arc<Line>,
    poller: AbortHandle,
    handle: Handle,
}

/// Starts a bot. It connects by itself, as often as it takes, and tells `intake` when it did.
///
/// # Errors
/// [`Unusable`] if it never could.
pub fn start(setup: Setup, intake: Arc<dyn Intake>, handle: &Handle) -> Result<Arc<Telegram>, Unusable> {
    start_with(setup, intake, handle, Times::STANDARD)
}

fn start_with(setup: Setup, intake: Arc<dyn Intake>, handle: &Handle, times: Times) -> Result<Arc<Telegram>, Unusable> {
    let api = Arc::new(Api::new(setup.base_url.as_deref(), &setup.token)?);
    let line = Arc::new(Line::new());
    let poller = Poller {
        channel: setup.name.clone(),
        api: Arc::clone(&api),
        intake: Arc::clone(&intake),
        line: Arc::clone(&line),
        times,
    };
    let around = Around { channel: setup.name, api, intake, line: Arc::clone(&line), sessions: setup.sessions };
    let lanes = Arc::new(Lanes::new(around, times));
    let poller = handle.spawn(poller.run()).abort_handle();
    Ok(Arc::new(Telegram { lanes, line, poller, handle: handle.clone() }))
}

impl Telegram {
    /// What is known of the line to the server.
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
        self.lanes.give(delivery, &self.handle);
    }

    fn typing(&self, _session: SessionId, at: &Address) {
        if self.line.takes_messages() {
            typing::show(&self.lanes.api, at, &self.handle);
        }
    }

    /// What was not confirmed comes again.
    fn stop_taking(&self) {
        self.poller.abort();
    }

    /// What is being sent is sent.
    fn shut_down(&self) {
        self.poller.abort();
        self.lanes.stop();
    }

    fn trouble(&self) -> Option<String> {
        match self.line.state() {
            State::Up => None,
            State::Connecting => Some("not connected yet".to_owned()),
            State::Down { why, .. } => Some(why),
        }
    }
}

/// Notes the state of a line, and logs it if it is news.
fn log_line(channel: &ChannelName, line: &Line, state: State) {
    if !line.set(state.clone()) {
        return;
    }
    match state {
        State::Connecting => {}
        State::Up => tracing::info!(%channel, "the bot is connected"),
        State::Down { why, sending: true } => tracing::warn!(%channel, %why, "the bot takes no messages in"),
        State::Down { why, sending: false } => tracing::error!(%channel, %why, "the bot is off, check its token"),
    }
}
