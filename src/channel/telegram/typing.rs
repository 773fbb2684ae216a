//! Showing that an agent is at work. Telegram shows it for five seconds, so it is said again until it is over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::api::{Api, Failure};
use super::plan::place;
use crate::model::address::Address;

/// Time between two signs.
const AGAIN: Duration = Duration::from_secs(4);
/// Signs of one piece of work: ten minutes of them.
const SIGNS_MAX: u32 = 150;

/// Where agents are shown to be at work.
#[derive(Default)]
pub(super) struct Typing {
    shown: Mutex<HashMap<Address, AbortHandle>>,
}

impl Typing {
    /// Shows it at an address from now on; shown there already, its time begins anew.
    pub(super) fn show(&self, api: &Arc<Api>, at: &Address, handle: &Handle) {
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
        let mut shown = self.lock();
        shown.retain(|_, task| !task.is_finished());
        if let Some(earlier) = shown.insert(at.clone(), task.abort_handle()) {
            earlier.abort();
        }
    }

    /// It is over there.
    pub(super) fn hide(&self, at: &Address) {
        if let Some(task) = self.lock().remove(at) {
            task.abort();
        }
    }

    /// It is over everywhere.
    pub(super) fn hide_all(&self) {
        for (_, task) in self.lock().drain() {
            task.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Address, AbortHandle>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
