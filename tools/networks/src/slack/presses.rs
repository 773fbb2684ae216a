//! Pressed buttons: passes each on, and shows the person what came of it.

use std::sync::mpsc::Receiver;

use hearth_bridge::Action;
use hearth_bridge::program::hand::{Ended, Hand};
use hearth_bridge::program::log;
use serde_json::{Value, json};

use super::api::Api;
use super::event::{is_chat, text};
use super::mrkdwn::{escape, is_person};

/// Presses that may wait; more are left out.
pub(super) const WAITING: usize = 64;
/// Longest value of a button.
const VALUE_MAX: usize = 2_000;

pub(super) struct Presses {
    pub(super) api: Api,
    pub(super) hand: Hand,
    pub(super) pressed: Receiver<Value>,
}

impl Presses {
    /// Passes on until the main loop ends.
    pub(super) fn work(mut self) {
        while let Ok(payload) = self.pressed.recv() {
            if let Some(action) = action(&payload)
                && self.pass_on(action, &payload).is_err()
            {
                return;
            }
        }
    }

    fn pass_on(&mut self, action: Action, payload: &Value) -> Result<(), Ended> {
        let mut shown = json!({ "channel": action.platform_id, "user": action.user_id });
        let thread = action.thread_id.clone();
        let told = escape(&self.hand.press(action)?);
        if told.trim().is_empty() {
            return Ok(());
        }
        if let Some(fields) = shown.as_object_mut() {
            fields.insert("text".to_owned(), json!(told));
            fields.extend(thread.map(|thread| ("thread_ts".to_owned(), json!(thread))));
        }
        if let Err(trouble) = self.api.post("chat.postEphemeral", &shown) {
            // The person may not be in the chat. This address works for half an hour.
            let body = json!({ "response_type": "ephemeral", "replace_original": false, "text": told });
            let url = text(payload, "/response_url").unwrap_or_default();
            if let Err(second) = self.api.answer(url, &body) {
                log(&format!("the person who pressed a button could not be told: {trouble}; {second}"));
            }
        }
        Ok(())
    }
}

/// The press of a button of a message, with what Slack says of it.
fn action(payload: &Value) -> Option<Action> {
    let chat = text(payload, "/channel/id").or(text(payload, "/container/channel_id")).filter(|chat| is_chat(chat))?;
    let button = text(payload, "/actions/0/value").filter(|value| value.len() <= VALUE_MAX)?;
    let user = text(payload, "/user/id").filter(|user| is_person(user))?;
    let root = text(payload, "/message/thread_ts");
    (text(payload, "/type") == Some("block_actions")).then(|| Action {
        button: button.to_owned(),
        user_id: user.to_owned(),
        platform_id: chat.to_owned(),
        thread_id: root.filter(|root| Some(*root) != text(payload, "/message/ts")).map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presses_are_read() {
        let payload = json!({
            "type": "block_actions", "user": { "id": "U0ANN" }, "channel": { "id": "D0ANN" },
            "message": { "ts": "2.000000", "thread_ts": "1.000000" }, "actions": [{ "value": "ap1.0" }],
        });
        let found = action(&payload).unwrap();
        assert_eq!((found.button.as_str(), found.user_id.as_str()), ("ap1.0", "U0ANN"));
        assert_eq!((found.platform_id.as_str(), found.thread_id.as_deref()), ("D0ANN", Some("1.000000")));
        for (place, value) in [("type", json!("view_submission")), ("user", json!({})), ("actions", json!([]))] {
            let mut other = payload.clone();
            other[place] = value;
            assert_eq!(action(&other), None, "{place}");
        }
    }
}
