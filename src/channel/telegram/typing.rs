//! Showing that an agent is at work. Telegram shows it for five seconds, so it is said again until it is over.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::super::signs::{AGAIN, SIGNS_MAX, Signs};
use super::api::{Api, Failure};
use super::plan::place;
use crate::model::address::Address;

/// Shows it at an address from now on; shown there already, its time begins anew.
pub(super) fn show(signs: &Signs, api: &Arc<Api>, at: &Address, handle: &Handle) {
    let Ok((chat, topic)) = place(at) else { return };
    let api = Arc::clone(api);
    let task = handle.spawn(async move {
        let mut sign = json!({ "chat_id": chat, "action": "typing" });
        if let (Some(topic), Some(sign)) = (topic, sign.as_object_mut()) {
            sign.insert("message_thread_id".to_owned(), json!(topic));
        }
        for _ in 0..SIGNS_MAX {
            match api.call::<Value>("sendChatAction", &sign).await {
                Ok(_) | Err(Failure::Unreached(_) | Failure::Unclear(_) | Failure::Trouble(_)) => {}
                Err(_) => return,
            }
            tokio::time::sleep(AGAIN).await;
        }
    });
    signs.show(at, task.abort_handle());
}
