//! Handing one update over, as often as it takes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::super::intake::{Intake, NotTaken, Pending, Pressed};
use super::Times;
use super::api::Api;
use super::attachments::Found;
use super::event::{self, Taken};
use super::wire::{Callback, Message, Update, User};
use crate::model::address::{BadName, ChannelName, ForeignId, UserId};
use crate::model::card::Button;
use crate::model::content::Attachment;
use crate::model::input::{InboundEvent, Press};
use crate::model::report::Outcome;

/// Characters of what is said to whoever pressed a button.
const NOTE_MAX: usize = 200;

/// What handing over needs.
pub(super) struct Hand {
    pub(super) channel: ChannelName,
    pub(super) api: Arc<Api>,
    pub(super) intake: Arc<dyn Intake>,
    /// The bot.
    pub(super) me: Arc<User>,
    /// Files that may be in memory.
    pub(super) places: Arc<Semaphore>,
    pub(super) times: Times,
}

impl Update {
    /// The chat it belongs to: updates of one chat are taken in one after the other.
    pub(super) fn chat(&self) -> i64 {
        let message = self.message.as_ref().or(self.channel_post.as_ref()).map(|message| message.chat.id);
        let pressed = self.callback_query.as_ref();
        let pressed = pressed.map(|pressed| pressed.message.as_ref().map_or(pressed.from.id, |under| under.chat.id));
        message.or(pressed).unwrap_or_default()
    }
}

impl Hand {
    /// Takes an update in. Ends when it is committed, or refused for ever.
    pub(super) async fn take(&self, number: i64, update: Update) {
        let Update { message, channel_post, callback_query } = update;
        let taken = match (message.or(channel_post), callback_query) {
            (Some(message), _) => self.message(number, &message).await,
            (None, Some(pressed)) => self.pressed(pressed).await,
            (None, None) => Ok(()),
        };
        if let Err(why) = taken {
            tracing::warn!(channel = %self.channel, update = number, %why, "an update was refused");
        }
    }

    async fn message(&self, number: i64, message: &Message) -> Result<(), String> {
        let taken = event::take(&self.channel, &self.me, message).map_err(|error| error.to_string())?;
        let (mut event, found) = match taken {
            Taken::Event(event, found) => (event, found),
            Taken::Moved(to) => {
                let chat = message.chat.id;
                tracing::warn!(
                    channel = %self.channel, %chat, %to,
                    "the group was made a supergroup and has another id: agents listen there once that chat is wired"
                );
                return Ok(());
            }
            Taken::Nothing(why) => {
                tracing::debug!(channel = %self.channel, update = number, why, "an update has nothing to route");
                return Ok(());
            }
        };
        if self.is_for_somebody(&event, &found).await? {
            for file in found {
                event.attachments.push(file.fetched(&self.api, &*self.intake, &self.places).await);
            }
        } else {
            event.attachments = left_out(&found);
        }
        self.until_taken(|intake| intake.inbound((*event).clone())).await.map(drop)
    }

    /// Whether files of a message are worth fetching. Strangers must not keep the line, and the few places for files, busy.
    async fn is_for_somebody(&self, event: &InboundEvent, found: &[Found]) -> Result<bool, String> {
        if found.is_empty() {
            return Ok(true);
        }
        let without = InboundEvent { attachments: left_out(found), ..event.clone() };
        let report = self.until_taken(|intake| intake.rehearsed(without.clone())).await?;
        Ok(matches!(report.outcome, Outcome::Routed | Outcome::Held))
    }

    async fn pressed(&self, pressed: Callback) -> Result<(), String> {
        let answer = match press(&self.channel, &pressed) {
            Ok(Some(press)) => self.until_taken(|intake| intake.pressed(press.clone())).await,
            Ok(None) => Ok(Pressed { decided: false, text: "This button means nothing any more.".to_owned() }),
            Err(error) => Err(error.to_string()),
        };
        let (decided, text) = match &answer {
            Ok(pressed) => (pressed.decided, pressed.text.as_str()),
            Err(_) => (false, "This could not be taken in."),
        };
        let note: String = text.chars().take(NOTE_MAX).collect();
        let parameters = json!({ "callback_query_id": pressed.id, "text": note, "show_alert": !decided });
        // The press is taken in; that somebody sees no note changes nothing.
        if let Err(failure) = self.api.call::<Value>("answerCallbackQuery", &parameters).await {
            tracing::debug!(channel = %self.channel, %failure, "a press could not be answered");
        }
        answer.map(drop)
    }

    /// Hands something over until Hearth has room for it.
    async fn until_taken<'a, T>(
        &'a self,
        hand: impl Fn(&'a dyn Intake) -> Pending<'a, Result<T, NotTaken>>,
    ) -> Result<T, String> {
        let mut pause = self.times.pause;
        loop {
            match hand(&*self.intake).await {
                Ok(taken) => return Ok(taken),
                Err(NotTaken::Refused(why)) => return Err(why),
                Err(NotTaken::Later(why)) => {
                    tracing::debug!(channel = %self.channel, %why, "an update has to wait");
                    tokio::time::sleep(pause).await;
                    pause = pause.saturating_mul(2).min(self.times.pause_max.max(Duration::from_millis(1)));
                }
            }
        }
    }
}

fn left_out(found: &[Found]) -> Vec<Attachment> {
    found.iter().map(|file| file.left_out("it was not loaded, because nobody got its message")).collect()
}

/// The press of one of our buttons; none for another button.
pub(super) fn press(channel: &ChannelName, pressed: &Callback) -> Result<Option<Press>, BadName> {
    let button = pressed.data.as_deref().and_then(Button::parse);
    let (Some(button), Some(under)) = (button, &pressed.message) else { return Ok(None) };
    let topic = event::topic(under.is_topic_message, under.message_thread_id);
    let by = UserId::new(channel.clone(), ForeignId::new("from.id", pressed.from.id.to_string())?);
    Ok(Some(Press { by, at: event::address(channel, &under.chat, topic)?, button }))
}
