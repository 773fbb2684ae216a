//! Typing is shown on a thread of its own, so that it delays no message.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use hearth_bridge::program::now;
use hearth_bridge::program::run::Network;
use hearth_bridge::{Opened, Place};
use serde_json::json;

use super::chat::{Chat, person};
use super::rpc::Rpc;

/// Signs that may wait; more are left out.
pub(super) const WAITING: usize = 64;
/// Signal shows typing for 15 seconds.
const TYPING: Duration = Duration::from_secs(10);
/// Chats whose typing is remembered.
const REMEMBERED: usize = 1_000;

/// The way to the thread.
pub(super) struct Aside(pub(super) SyncSender<Chat>);

impl Network for Aside {
    fn typing(&mut self, place: Place) {
        if let Some(chat) = Chat::read(&place.platform_id) {
            drop(self.0.try_send(chat));
        }
    }

    /// The direct chat with a person has their id.
    fn open_direct(&mut self, id: String, seq: u64) -> Option<Opened> {
        let platform_id = person(&id);
        let why = platform_id.is_none().then(|| "this is no person of Signal".to_owned());
        Some(Opened { seq, platform_id, why })
    }
}

/// Shows typing until the main loop ends.
pub(super) fn work(rpc: &Rpc, chats: &Receiver<Chat>) {
    let mut typed: BTreeMap<Chat, Duration> = BTreeMap::new();
    while let Ok(chat) = chats.recv() {
        if typed.get(&chat).is_some_and(|last| now().saturating_sub(*last) < TYPING) {
            continue;
        }
        if typed.len() >= REMEMBERED {
            typed.clear();
        }
        let mut parameters = chat.parameters();
        parameters.insert("stop".to_owned(), json!(false));
        typed.insert(chat, now());
        // A sign that is not shown is no loss.
        drop(rpc.start("sendTyping", parameters));
    }
}
