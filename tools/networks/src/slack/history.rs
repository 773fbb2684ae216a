//! What Slack keeps of chats: messages that were missed, and whether one was sent.

use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::program::log;
use hearth_bridge::program::state::seconds;
use serde_json::Value;

use super::api::{Api, Trouble};
use super::event::{Bot, Ts, text};

/// Messages of a page.
const PAGE: &str = "200";
/// Pages that are read of a chat.
const PAGES: usize = 50;
/// Longest pause that is waited for.
const PAUSE: Duration = Duration::from_secs(60);
/// Pages that are searched for a message of the bot.
const SEARCHED: usize = 10;
/// How far back it is searched, in seconds.
const BACK: u64 = 86_400;

/// A chat or a thread there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    pub(super) chat: String,
    pub(super) thread: Option<Ts>,
}

impl Spot {
    /// The messages after a time, in their order.
    pub(super) fn since(&self, api: &Api, oldest: Ts) -> Result<Vec<Value>, Trouble> {
        let (mut found, mut cursor) = (Vec::new(), None);
        for _ in 0..PAGES {
            let page = match self.page(api, oldest, cursor.as_deref()) {
                Err(Trouble::Paused(pause)) if pause <= PAUSE => {
                    sleep(pause);
                    self.page(api, oldest, cursor.as_deref())?
                }
                other => other?,
            };
            found.extend(page.get("messages").and_then(Value::as_array).into_iter().flatten().cloned());
            cursor = next(&page);
            if cursor.is_none() {
                break;
            }
        }
        if cursor.is_some() {
            log(&format!("more than {} messages were missed in {}: some are left out", found.len(), self.chat));
        }
        let ts = |message: &Value| text(message, "/ts").and_then(Ts::read);
        // The beginning of a thread comes with every page of it.
        found.retain(|message| ts(message).is_some_and(|ts| Some(ts) != self.thread && ts > oldest));
        found.sort_by_key(ts);
        found.dedup_by_key(|message| ts(message));
        Ok(found)
    }

    fn page(&self, api: &Api, oldest: Ts, cursor: Option<&str>) -> Result<Value, Trouble> {
        let (oldest, thread) = (oldest.to_string(), self.thread.map(|thread| thread.to_string()));
        let mut arguments = vec![
            ("channel", self.chat.as_str()),
            ("oldest", &oldest),
            ("limit", PAGE),
            ("include_all_metadata", "true"),
        ];
        arguments.extend(cursor.map(|cursor| ("cursor", cursor)));
        arguments.extend(thread.as_deref().map(|thread| ("ts", thread)));
        api.get(if thread.is_some() { "conversations.replies" } else { "conversations.history" }, &arguments)
    }

    /// Looks for a message of the bot by the key that it was sent with.
    pub(super) fn find(&self, api: &Api, bot: &Bot, key: &str) -> Result<Option<String>, Trouble> {
        let oldest = Ts::at(seconds()).minus(BACK);
        let mut cursor = None;
        for _ in 0..SEARCHED {
            let page = self.page(api, oldest, cursor.as_deref())?;
            let messages = page.get("messages").and_then(Value::as_array).into_iter().flatten();
            let is_it = |message: &&Value| {
                text(message, "/metadata/event_payload/id") == Some(key) && text(message, "/bot_id") == Some(&bot.id)
            };
            if let Some(ts) = messages.into_iter().find(is_it).and_then(|message| text(message, "/ts")) {
                return Ok(Some(ts.to_owned()));
            }
            cursor = next(&page);
            if cursor.is_none() {
                return Ok(None);
            }
        }
        Err(Trouble::Lost("there are too many messages to search".to_owned()))
    }
}

/// The name of the next page.
pub(super) fn next(page: &Value) -> Option<String> {
    text(page, "/response_metadata/next_cursor").filter(|cursor| !cursor.is_empty()).map(str::to_owned)
}
