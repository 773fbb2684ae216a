//! Fetching updates and handing them over.
//!
//! Telegram drops an update once a later one was asked for, so no question asks for one behind an update that was not taken
//! in, or refused for ever. While something takes its time, as files do, Telegram is asked again every now and then for what
//! it has from there on: what is new of other chats is taken in, and what is known is passed over.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::super::intake::Intake;
use super::api::{Api, Failure};
use super::attachments::AT_ONCE;
use super::hand::Hand;
use super::line::{Line, State};
use super::under_way::{AT_MOST, UnderWay};
use super::wire::{Numbered, Update, User};
use super::{Times, log_line};
use crate::model::address::ChannelName;

/// What the network may take beyond the time the server keeps a question.
const MARGIN: Duration = Duration::from_secs(15);

/// Takes updates from the server.
pub(super) struct Poller {
    pub(super) channel: ChannelName,
    pub(super) api: Arc<Api>,
    pub(super) intake: Arc<dyn Intake>,
    pub(super) line: Arc<Line>,
    pub(super) times: Times,
}

/// Where the questions are.
struct Place {
    under_way: UnderWay,
    /// Updates to ask for that are not known yet.
    limit: usize,
    /// Failures since the last success.
    failures: u32,
    /// Files that may be in memory.
    files: Arc<Semaphore>,
}

impl Poller {
    /// Never ends.
    pub(super) async fn run(self) {
        let files = Arc::new(Semaphore::new(AT_ONCE));
        let mut place = Place { under_way: UnderWay::default(), limit: AT_MOST, failures: 0, files };
        loop {
            let me = match self.api.call::<User>("getMe", &json!({})).await {
                Ok(me) => Arc::new(me),
                Err(failure) => {
                    self.pause(&mut place, failure).await;
                    continue;
                }
            };
            self.poll(me, &mut place).await;
        }
    }

    /// Takes updates in until the server does not take the token any more.
    async fn poll(&self, me: Arc<User>, place: &mut Place) {
        let hand = Arc::new(Hand {
            channel: self.channel.clone(),
            api: Arc::clone(&self.api),
            intake: Arc::clone(&self.intake),
            me,
            places: Arc::clone(&place.files),
            times: self.times,
        });
        loop {
            for error in place.under_way.wait(self.times.again).await {
                tracing::error!(channel = %self.channel, %error, "an update could not be taken in");
            }
            match self.updates(place).await {
                Ok(updates) => {
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

    async fn updates(&self, place: &mut Place) -> Result<Vec<Box<RawValue>>, Failure> {
        let (offset, known) = (place.under_way.offset(), place.under_way.unconfirmed());
        // The first question after a failure is answered at once, so that it is known that the line is up again; and so is
        // one that has known updates in its answer.
        let waits = self.line.is_up() && known == 0;
        let parameters = json!({
            "offset": offset,
            "limit": place.limit.saturating_add(known).min(AT_MOST),
            "timeout": if waits { self.times.poll.as_secs() } else { 0 },
            "allowed_updates": ["message", "channel_post", "callback_query"],
        });
        self.api.call_within(self.times.poll + MARGIN, "getUpdates", &parameters).await
    }

    /// Begins with the updates of one answer that are news. False for an answer that has updates and none with a number.
    fn begin(&self, hand: &Arc<Hand>, updates: Vec<Box<RawValue>>, place: &mut Place) -> bool {
        let mut sound = updates.is_empty();
        for raw in updates {
            let Ok(Numbered { update_id: number }) = serde_json::from_str(raw.get()) else { continue };
            sound = true;
            if !place.under_way.is_news(number) {
                continue;
            }
            let update = match serde_json::from_str::<Update>(raw.get()) {
                Ok(update) => Some(update),
                // The parser's words may have parts of the text in them.
                Err(error) => {
                    tracing::warn!(
                        channel = %self.channel, update = number, column = error.column(),
                        "an update has a form that is not known, and is passed over"
                    );
                    None
                }
            };
            let (hand, chat) = (Arc::clone(hand), update.as_ref().map_or(0, Update::chat));
            place.under_way.begin(number, chat, async move {
                if let Some(update) = update {
                    hand.take(number, update).await;
                }
            });
        }
        sound
    }

    /// Says what is wrong and waits a while, longer each time.
    async fn pause(&self, place: &mut Place, failure: Failure) {
        place.failures = place.failures.saturating_add(1);
        let (first, max) = match failure {
            Failure::Token(_) | Failure::Conflict(_) => (self.times.pause_refused, self.times.pause_refused * 10),
            Failure::Slow(wait) => (wait, wait),
            _ => (self.times.pause, self.times.pause_max),
        };
        // A line that is idle may break at any time; only a second failure in a row says something.
        let is_trouble = match failure {
            Failure::Slow(_) => false,
            Failure::Unclear(_) => place.failures > 1 || !self.line.is_up(),
            _ => true,
        };
        if is_trouble {
            let sending = !matches!(failure, Failure::Token(_));
            log_line(&self.channel, &self.line, State::Down { why: failure.to_string(), sending });
        }
        let doubled = first.saturating_mul(1 << place.failures.saturating_sub(1).min(10));
        tokio::time::sleep(doubled.min(max)).await;
    }
}
