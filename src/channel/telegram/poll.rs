//! Fetching updates and handing them over.
//!
//! Telegram drops an update once a later one was asked for, so the next question waits until everything of the last answer
//! was taken in, or refused for ever.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::super::intake::Intake;
use super::api::{Api, Failure};
use super::attachments::AT_ONCE;
use super::hand::Hand;
use super::line::{Line, State};
use super::wire::{Numbered, Update, User};
use super::{Times, log_line};
use crate::model::address::ChannelName;

/// Updates of one answer.
const AT_MOST: u32 = 100;
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
    /// The first update that was not taken in yet.
    offset: i64,
    /// Updates to ask for.
    limit: u32,
    /// Failures since the last success.
    failures: u32,
}

impl Poller {
    /// Never ends.
    pub(super) async fn run(self) {
        let mut place = Place { offset: 0, limit: AT_MOST, failures: 0 };
        loop {
            let me = match self.api.call::<User>("getMe", &json!({})).await {
                Ok(me) => Arc::new(me),
                Err(failure) => {
                    self.pause(&mut place, failure).await;
                    continue;
                }
            };
            self.poll(&me, &mut place).await;
        }
    }

    /// Takes updates in until the server does not take the token any more.
    async fn poll(&self, me: &Arc<User>, place: &mut Place) {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let hand = Arc::new(Hand {
            channel: self.channel.clone(),
            api: Arc::clone(&self.api),
            intake: Arc::clone(&self.intake),
            me: Arc::clone(me),
            places,
            times: self.times,
        });
        loop {
            match self.updates(place).await {
                Ok(updates) => {
                    if self.line.state() != State::Up {
                        log_line(&self.channel, &self.line, State::Up);
                        self.intake.reachable();
                    }
                    (place.failures, place.limit) = (0, AT_MOST);
                    self.take_all(&hand, updates, place).await;
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

    async fn updates(&self, place: &Place) -> Result<Vec<Box<RawValue>>, Failure> {
        let parameters = json!({
            "offset": place.offset,
            "limit": place.limit,
            // The first question after a failure is answered at once, so that it is known that the line is up again.
            "timeout": if self.line.is_up() { self.times.poll.as_secs() } else { 0 },
            "allowed_updates": ["message", "channel_post", "callback_query"],
        });
        self.api.call_within(self.times.poll + MARGIN, "getUpdates", &parameters).await
    }

    /// Hands over the updates of one answer. Afterwards every one of them is committed, or refused for ever.
    async fn take_all(&self, hand: &Arc<Hand>, updates: Vec<Box<RawValue>>, place: &mut Place) {
        let mut chats: BTreeMap<i64, Vec<(i64, Update)>> = BTreeMap::new();
        let (count, mut last) = (updates.len(), None);
        for raw in updates {
            let Ok(Numbered { update_id }) = serde_json::from_str(raw.get()) else { continue };
            last = Some(update_id);
            match serde_json::from_str::<Update>(raw.get()) {
                Ok(update) => chats.entry(update.chat()).or_default().push((update_id, update)),
                // The parser's words may have parts of the text in them.
                Err(error) => tracing::warn!(
                    channel = %self.channel, update = update_id, column = error.column(),
                    "an update has a form that is not known, and is passed over"
                ),
            }
        }
        let mut tasks = JoinSet::new();
        for (_, updates) in chats {
            let hand = Arc::clone(hand);
            tasks.spawn(async move {
                for (number, update) in updates {
                    hand.take(number, update).await;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(channel = %self.channel, %error, "an update could not be taken in");
            }
        }
        match last {
            Some(last) => place.offset = last.saturating_add(1),
            None if count > 0 => {
                let nonsense = Failure::Unclear("updates without numbers".to_owned());
                self.pause(place, nonsense).await;
            }
            None => {}
        }
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
