//! Fetches updates and passes them on.
//!
//! Telegram drops an update once a later one was requested. So the poller never requests updates after one that is not
//! committed or rejected for good. While an update takes a while, for example because of files, the poller repeats the
//! request from that update on: new updates of other chats are processed, known ones are skipped.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::super::intake::Ingress;
use super::api::{Api, Failure};
use super::hand::Hand;
use super::in_flight::{AT_MOST, InFlight};
use super::line::{ChannelHealth, State};
use super::wire::{Numbered, Update, User};
use super::{Times, log_line};
use crate::model::address::ChannelName;

/// Extra time for the network beyond the time that the server holds a request.
const MARGIN: Duration = Duration::from_secs(15);

/// Fetches updates from the server.
pub(super) struct Poller {
    pub(super) channel: ChannelName,
    pub(super) api: Arc<Api>,
    pub(super) intake: Arc<dyn Ingress>,
    pub(super) line: Arc<ChannelHealth>,
    /// Slots for files in memory.
    pub(super) files: Arc<Semaphore>,
    pub(super) times: Times,
}

/// The position in the stream of updates.
struct PollUrl {
    in_flight: InFlight,
    /// How many unknown updates to request.
    limit: usize,
    /// Failures since the last success.
    failures: u32,
}

impl Poller {
    /// Runs forever.
    pub(super) async fn run(self) {
        let mut place = PollUrl { in_flight: InFlight::default(), limit: AT_MOST, failures: 0 };
        loop {
            let me = match self.api.call::<User>("getMe", &json!({})).await {
                Ok(me) => {
                    self.line.answered();
                    self.line.identified(me.username.as_deref());
                    Arc::new(me)
                }
                Err(failure) => {
                    self.pause(&mut place, failure).await;
                    continue;
                }
            };
            self.poll(me, &mut place).await;
        }
    }

    /// Fetches updates until the server rejects the token.
    async fn poll(&self, me: Arc<User>, place: &mut PollUrl) {
        let hand = Arc::new(Hand {
            channel: self.channel.clone(),
            api: Arc::clone(&self.api),
            intake: Arc::clone(&self.intake),
            me,
            places: Arc::clone(&self.files),
            times: self.times,
        });
        loop {
            for error in place.in_flight.wait(self.times.again).await {
                tracing::error!(channel = %self.channel, %error, "cannot accept an update");
            }
            match self.updates(place).await {
                Ok(updates) => {
                    self.line.answered();
                    if self.line.state() != State::Up {
                        log_line(&self.channel, &self.line, State::Up);
                        self.intake.reachable();
                    }
                    (place.failures, place.limit) = (0, AT_MOST);
                    if !self.begin(&hand, updates, place) {
                        let nonsense = Failure::Unclear("updates without numbers".to_owned());
                        self.pause(place, nonsense).await;
                    }
                }
                Err(Failure::TooLarge) if place.limit > 1 => place.limit = 1,
                Err(failure) => {
                    let is_token = matches!(failure, Failure::Token(_));
                    self.pause(place, failure).await;
                    if is_token {
                        return;
                    }
                }
            }
        }
    }

    async fn updates(&self, place: &mut PollUrl) -> Result<Vec<Box<RawValue>>, Failure> {
        let (offset, known) = (place.in_flight.offset(), place.in_flight.unconfirmed());
        // The first request after a failure returns at once, to learn that the connection is back. So does one whose
        // answer contains known updates.
        let waits = self.line.is_up() && known == 0;
        let parameters = json!({
            "offset": offset,
            "limit": place.limit.saturating_add(known).min(AT_MOST),
            "timeout": if waits { self.times.poll.as_secs() } else { 0 },
            "allowed_updates": ["message", "channel_post", "callback_query"],
        });
        self.api.call_within(self.times.poll + MARGIN, "getUpdates", &parameters).await
    }

    /// Starts processing the new updates of an answer. False if it contains updates but none with a number.
    fn begin(&self, hand: &Arc<Hand>, updates: Vec<Box<RawValue>>, place: &mut PollUrl) -> bool {
        let mut sound = updates.is_empty();
        for raw in updates {
            let Ok(Numbered { update_id: number }) = serde_json::from_str(raw.get()) else { continue };
            sound = true;
            if !place.in_flight.is_news(number) {
                continue;
            }
            let update = match serde_json::from_str::<Update>(raw.get()) {
                Ok(update) => Some(update),
                // The parser's message may quote the text.
                Err(error) => {
                    tracing::warn!(
                        channel = %self.channel, update = number, column = error.column(),
                        "skipping an update of unknown form"
                    );
                    None
                }
            };
            let (hand, chat) = (Arc::clone(hand), update.as_ref().map_or(0, Update::chat));
            place.in_flight.begin(number, chat, async move {
                if let Some(update) = update {
                    hand.take(number, update).await;
                }
            });
        }
        sound
    }

    /// Logs what is wrong and pauses, longer each time.
    async fn pause(&self, place: &mut PollUrl, failure: Failure) {
        let pause = match failure {
            Failure::Token(_) | Failure::Conflict(_) => self.times.pause_refused.wait(place.failures).duration(),
            Failure::Slow(wait) => wait,
            _ => self.times.pause.wait(place.failures).duration(),
        };
        place.failures = place.failures.saturating_add(1);
        // An idle connection may break at any time. Only a second failure in a row is worth a message.
        let is_trouble = match failure {
            Failure::Slow(_) => false,
            Failure::Unclear(_) => place.failures > 1 || !self.line.is_up(),
            _ => true,
        };
        if is_trouble {
            let sending = !matches!(failure, Failure::Token(_));
            log_line(&self.channel, &self.line, State::Down { why: failure.to_string(), sending });
        }
        self.line.pauses(Some(pause));
        tokio::time::sleep(pause).await;
        self.line.pauses(None);
    }
}
