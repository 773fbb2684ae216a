//! Passes one update to Hearth, with retries.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::super::intake::{Ingress, NotTaken, Pending, Pressed};
use super::Times;
use super::api::Api;
use super::attachments::MessageFile;
use super::event::{self, Taken};
use super::wire::{Callback, Message, Update, User};
use crate::model::address::{BadName, ChannelName, ForeignId, UserId};
use crate::model::card::Button;
use crate::model::content::Attachment;
use crate::model::input::{InboundEvent, Press};
use crate::model::report::Outcome;

/// Maximum length in characters of the note shown to the person who pressed a button.
const NOTE_MAX: usize = 200;

/// What passing on an update needs.
pub(super) struct Hand {
    pub(super) channel: ChannelName,
    pub(super) api: Arc<Api>,
    pub(super) intake: Arc<dyn Ingress>,
    pub(super) me: Arc<User>,
    /// Slots for files in memory.
    pub(super) places: Arc<Semaphore>,
    pub(super) times: Times,
}

impl Update {
    /// The chat it belongs to: updates of one chat are processed in order.
    pub(super) fn chat(&self) -> i64 {
        let message = self.message.as_ref().or(self.channel_post.as_ref()).map(|message| message.chat.id);
        let pressed = self.callback_query.as_ref();
        let pressed = pressed.map(|pressed| pressed.message.as_ref().map_or(pressed.from.id, |under| under.chat.id));
        message.or(pressed).unwrap_or_default()
    }
}

impl Hand {
    /// Processes an update. Completes when the update is committed, or rejected for good.
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
                    "the group became a supergroup with a new id: agents listen there once that chat is wired"
                );
                return Ok(());
            }
            Taken::Nothing(why) => {
                tracing::debug!(channel = %self.channel, update = number, why, "an update has nothing to route");
                return Ok(());
            }
        };
        event.attachments = self.files(&event, found).await?;
        self.until_taken(|intake| intake.inbound((*event).clone())).await.map(drop)
    }

    /// The files of a message, fetched if an agent gets it. Files that take long, and those of a message that waits for
    /// an approval, stay with Telegram until Hearth asks for them. Strangers must not keep the connection and the few file slots busy.
    async fn files(&self, event: &InboundEvent, found: Vec<MessageFile>) -> Result<Vec<Attachment>, String> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let without = InboundEvent { attachments: left_out(&found), ..event.clone() };
        let report = self.until_taken(|intake| intake.rehearsed(without.clone())).await?;
        match report.outcome {
            // Telegram shows at most 100 unconfirmed updates of all chats, so none may wait for long.
            Outcome::Routed => match tokio::time::timeout(self.times.files, self.fetched(found.clone())).await {
                Ok(files) => Ok(files),
                Err(_) => Ok(found.into_iter().map(MessageFile::remote).collect()),
            },
            Outcome::Held => Ok(found.into_iter().map(MessageFile::remote).collect()),
            Outcome::Dropped | Outcome::Duplicate | Outcome::Consumed => Ok(without.attachments),
        }
    }

    async fn fetched(&self, found: Vec<MessageFile>) -> Vec<Attachment> {
        let mut files = Vec::with_capacity(found.len());
        for file in found {
            files.push(file.fetched(&self.api, &*self.intake, &self.places).await);
        }
        files
    }

    async fn pressed(&self, pressed: Callback) -> Result<(), String> {
        let answer = match press(&self.channel, &pressed) {
            Ok(Some(press)) => self.until_taken(|intake| intake.pressed(press.clone())).await,
            Ok(None) => Ok(Pressed { decided: false, text: "This button no longer works.".to_owned() }),
            Err(error) => Err(error.to_string()),
        };
        let (decided, text) = match &answer {
            Ok(pressed) => (pressed.decided, pressed.text.as_str()),
            Err(_) => (false, "This could not be processed."),
        };
        let note: String = text.chars().take(NOTE_MAX).collect();
        let parameters = json!({ "callback_query_id": pressed.id, "text": note, "show_alert": !decided });
        // The press is already received. It does not matter if the person does not see the note.
        if let Err(failure) = self.api.call::<Value>("answerCallbackQuery", &parameters).await {
            tracing::debug!(channel = %self.channel, %failure, "cannot answer a button press");
        }
        answer.map(drop)
    }

    /// Retries until Hearth has room.
    async fn until_taken<'a, T>(
        &'a self,
        hand: impl Fn(&'a dyn Ingress) -> Pending<'a, Result<T, NotTaken>>,
    ) -> Result<T, String> {
        let mut tries = 0_u32;
        loop {
            match hand(&*self.intake).await {
                Ok(taken) => return Ok(taken),
                Err(NotTaken::Refused(why)) => return Err(why),
                Err(NotTaken::Later(why)) => {
                    tracing::debug!(channel = %self.channel, %why, "an update cannot be accepted yet, retrying");
                    tokio::time::sleep(self.times.pause.wait(tries).duration()).await;
                    tries = tries.saturating_add(1);
                }
            }
        }
    }
}

fn left_out(found: &[MessageFile]) -> Vec<Attachment> {
    found.iter().map(|file| file.left_out("it was not loaded, because no agent received its message")).collect()
}

/// The press of one of Hearth's buttons; `None` for other buttons.
pub(super) fn press(channel: &ChannelName, pressed: &Callback) -> Result<Option<Press>, BadName> {
    let button = pressed.data.as_deref().and_then(Button::parse);
    let (Some(button), Some(under)) = (button, &pressed.message) else { return Ok(None) };
    let topic = event::topic(under.is_topic_message, under.message_thread_id);
    let by = UserId::new(channel.clone(), ForeignId::new("from.id", pressed.from.id.to_string())?);
    Ok(Some(Press { by, at: event::address(channel, &under.chat, topic)?, button }))
}
