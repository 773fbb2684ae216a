//! Pressed buttons. Discord wants an answer within three seconds, so it gets one before the daemon is asked; what the daemon
//! says is shown to the person alone.

use std::sync::mpsc::Receiver;

use hearth_bridge::Action;
use hearth_bridge::program::hand::Hand;
use hearth_bridge::program::log;
use serde::Deserialize;
use serde_json::json;

use super::channels::Channel;
use super::message::User;
use super::rest::{Request, Rest};
use super::snowflake::Snowflake;
use crate::web::{Content, Method};

/// Presses that may wait.
pub(crate) const WAITING: usize = 256;
/// The kind of an interaction: with something in a message.
const COMPONENT: u64 = 3;
/// The answer: it was received, and nothing changes in the message.
const RECEIVED: u64 = 6;
/// Shown to one person.
const EPHEMERAL: u64 = 64;
/// Characters of what a person is told.
const TOLD_MAX: usize = 1_900;

#[derive(Debug, Clone, Deserialize)]
struct Member {
    user: User,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Data {
    #[serde(default)]
    custom_id: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Press {
    id: Snowflake,
    application_id: Snowflake,
    #[serde(rename = "type")]
    kind: u64,
    /// Lets the bot answer for a quarter of an hour.
    token: String,
    #[serde(default)]
    data: Data,
    #[serde(default)]
    channel: Option<Channel>,
    /// In servers.
    #[serde(default)]
    member: Option<Member>,
    /// In direct chats.
    #[serde(default)]
    user: Option<User>,
}

impl Press {
    fn action(&self) -> Option<Action> {
        let user = self.member.as_ref().map(|member| &member.user).or(self.user.as_ref())?;
        let place = self.channel.as_ref()?.place();
        if self.kind != COMPONENT || user.bot {
            return None;
        }
        Some(Action {
            button: self.data.custom_id.clone(),
            user_id: user.id.to_string(),
            platform_id: place.chat().to_string(),
            thread_id: place.thread().map(|thread| thread.to_string()),
        })
    }

    /// Whether its token can be part of an address.
    fn is_usable(&self) -> bool {
        let is = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.=".contains(&byte);
        !self.token.is_empty() && self.token.len() <= 1_000 && !self.token.contains("..") && self.token.bytes().all(is)
    }
}

pub(crate) struct Presser {
    pub(crate) rest: Rest,
    pub(crate) hand: Hand,
    pub(crate) presses: Receiver<Press>,
}

impl Presser {
    /// Passes on until the main loop ends.
    pub(crate) fn work(mut self) {
        while let Ok(press) = self.presses.recv() {
            let Some(action) = press.action().filter(|_| press.is_usable()) else { continue };
            let path = format!("interactions/{}/{}/callback", press.id, press.token);
            // If it is late, the press counts all the same.
            self.post(path, &json!({ "type": RECEIVED }), "answer");
            let Ok(text) = self.hand.press(action) else { return };
            if text.trim().is_empty() {
                continue;
            }
            let text: String = text.chars().take(TOLD_MAX).collect();
            let told = json!({ "content": text, "flags": EPHEMERAL, "allowed_mentions": { "parse": [] } });
            self.post(format!("webhooks/{}/{}", press.application_id, press.token), &told, "follow");
        }
    }

    fn post(&self, path: String, body: &serde_json::Value, kind: &'static str) {
        let request = Request::new(Method::POST, path, kind, "");
        if let Err(trouble) = self.rest.ask(&request, || Ok(Content::Json(body))) {
            // Its address would contain the token of the press.
            log(&format!("a person who pressed a button could not be answered: {trouble}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(more: serde_json::Value) -> Press {
        let mut base = json!({"id": "1", "application_id": "2", "type": 3, "token": "aW50.x-_=", "data": {"custom_id": "ap1.0"}, "channel": {"id": "7", "type": 11, "parent_id": "6"}, "member": {"user": {"id": "5"}}});
        base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(base).unwrap()
    }

    #[test]
    fn who_pressed_and_where_comes_from_discord() {
        let action = press(json!({})).action().unwrap();
        assert_eq!(
            (action.user_id.as_str(), action.platform_id.as_str(), action.thread_id.as_deref()),
            ("5", "6", Some("7"))
        );
        let direct =
            press(json!({"member": null, "user": {"id": "9"}, "channel": {"id": "8", "type": 1}})).action().unwrap();
        assert_eq!((direct.user_id.as_str(), direct.platform_id.as_str(), direct.thread_id), ("9", "8", None));
        assert!(press(json!({"type": 2})).action().is_none());
        assert!(press(json!({"member": null})).action().is_none());
        assert!(press(json!({})).is_usable());
        for token in ["", "a/../b", "..", "a?b", "a b"] {
            assert!(!press(json!({"token": token})).is_usable(), "{token:?}");
        }
    }
}
