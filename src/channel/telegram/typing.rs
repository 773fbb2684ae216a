//! Sends the typing indicator, which Telegram shows for five seconds.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::api::Api;
use super::plan::place;
use crate::model::address::Address;

/// Timeout of the call; a late indicator is worthless.
const PATIENCE: Duration = Duration::from_secs(3);

/// Sends it once.
pub(super) fn show(api: &Arc<Api>, at: &Address, handle: &Handle) {
    let Ok((chat, topic)) = place(at) else { return };
    let api = Arc::clone(api);
    let mut sign = json!({ "chat_id": chat, "action": "typing" });
    if let (Some(topic), Some(sign)) = (topic, sign.as_object_mut()) {
        sign.insert("message_thread_id".to_owned(), json!(topic));
    }
    handle.spawn(async move {
        // A lost indicator does not matter.
        drop(api.call_within::<Value>(PATIENCE, "sendChatAction", &sign).await);
    });
}
