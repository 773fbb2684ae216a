//! What is shown besides messages: typing, and that a message was received. On a thread of its own, so that it
//! delays no message.

use std::sync::mpsc::{Receiver, SyncSender};

use hearth_bridge::program::settings::part;
use serde_json::json;

use crate::api::Api;
use crate::directs::Directs;
use crate::settings::is_user;

/// Signs that may wait; more are left out.
pub(crate) const WAITING: usize = 64;
/// How long typing is shown, in milliseconds.
const TYPING: u64 = 6_000;

/// Something to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sign {
    /// An agent works there.
    Typing { chat: String },
    /// A message was received.
    Seen { room: String, event: String, thread: Option<String> },
}

/// The way to the thread.
#[derive(Clone)]
pub(crate) struct Signs(pub(crate) SyncSender<Sign>);

impl Signs {
    /// Shows something, unless too much waits.
    pub(crate) fn show(&self, sign: Sign) {
        drop(self.0.try_send(sign));
    }
}

pub(crate) struct Shower {
    pub(crate) api: Api,
    pub(crate) me: String,
    pub(crate) directs: Directs,
    pub(crate) signs: Receiver<Sign>,
}

impl Shower {
    /// Shows until the main loop ends.
    pub(crate) fn work(self) {
        while let Ok(sign) = self.signs.recv() {
            // A sign that is not shown is no loss.
            match sign {
                Sign::Typing { chat } => {
                    let room = if is_user(&chat) { self.directs.get(&chat) } else { Some(chat) };
                    let Some(room) = room else { continue };
                    let path = format!("client/v3/rooms/{}/typing/{}", part(&room), part(&self.me));
                    drop(self.api.put(&path, &json!({ "typing": true, "timeout": TYPING })));
                }
                Sign::Seen { room, event, thread } => {
                    let path = format!("client/v3/rooms/{}/receipt/m.read/{}", part(&room), part(&event));
                    let thread = thread.unwrap_or_else(|| "main".to_owned());
                    drop(self.api.post(&path, &json!({ "thread_id": thread })));
                }
            }
        }
    }
}
